//! What a send takes of the sender's processor, copied and not copied, over the
//! link sink and over loopback: `cargo run --release -p costof-lab --example sink`.

#![expect(clippy::unwrap_used, reason = "an example ends where it cannot go on")]
#![expect(clippy::print_stdout, reason = "an example prints")]

use costof_lab::host::WorkerCommand;
use costof_lab::link::{self, FAR_ADDRESS, Made, NEAR_ADDRESS};
use costof_model::link::Link;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::net::sink::{Acknowledger, Receiver};
use costof_os::net::zerocopy::{self, Completions};
use costof_os::sched::affinity;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;

/// How much is sent for each number, as a program would that sends what it has
/// not touched for a while (cold) or what it has just written (hot).
const BYTES: usize = 512 << 20;
const COLD_BYTES: usize = 128 << 20;
const HOT_BYTES: usize = 1 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("hold") => link::hold(&arguments[1].parse().unwrap()).unwrap(),
        Some(over) => measure(over),
        None => {
            let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
            println!("congestion control: {}", control.unwrap_or_default().trim());
            println!("over               size  source  copy        zero-copy   not copied");
            let holder = WorkerCommand::own_executable(&["hold"]).unwrap();
            let made = Made::make(&Link::Sink, None, &holder).unwrap_or_else(|why| panic!("{why}"));
            for over in ["sink/udp", "sink/tcp", "loopback/udp", "loopback/tcp"] {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.arg(over);
                if over.starts_with("sink") {
                    let near = made.near.namespace.as_ref().unwrap();
                    near.start_in(&mut command).unwrap();
                }
                assert!(command.status().unwrap().success());
            }
        }
    }
}

fn measure(over: &str) {
    let cpus = affinity::allowed().unwrap();
    let (first, other) = (cpus[0], *cpus.last().unwrap());
    affinity::pin(&[first]).unwrap();
    for size in [4 << 10, 16 << 10, 65_507, 1 << 20] {
        if over.ends_with("udp") && size > 65_507 {
            continue;
        }
        for (source, bytes) in [("hot", HOT_BYTES), ("cold", COLD_BYTES)] {
            let mut arena = Arena::map(bytes, PageSize::Base).unwrap();
            arena.as_mut_slice().fill(7);
            let mut costs = Vec::new();
            let mut completions = Completions::default();
            for zero_copy in [false, true] {
                costs.push(match over {
                    "sink/udp" => {
                        let socket = UdpSocket::bind((NEAR_ADDRESS, 0)).unwrap();
                        socket.connect((FAR_ADDRESS, 9)).unwrap();
                        cost(socket, &arena, size, zero_copy, &mut completions)
                    }
                    "sink/tcp" => {
                        let acknowledger = Acknowledger::start(&[other]).unwrap();
                        let (IpAddr::V4(from), IpAddr::V4(to)) = (NEAR_ADDRESS, FAR_ADDRESS) else {
                            panic!("the link is IPv4");
                        };
                        let receiver = Receiver {
                            mss: 1460,
                            window: 4 << 20,
                        };
                        let to = SocketAddrV4::new(to, 9);
                        let stream = acknowledger.connect(from, to, receiver, None).unwrap();
                        cost(stream, &arena, size, zero_copy, &mut completions)
                    }
                    "loopback/udp" => {
                        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
                        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.connect(receiver.local_addr().unwrap()).unwrap();
                        drain(other, move |buffer| receiver.recv(buffer));
                        cost(socket, &arena, size, zero_copy, &mut completions)
                    }
                    _ => {
                        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                        let mut far = listener.accept().unwrap().0;
                        drain(other, move |buffer| far.read(buffer));
                        cost(stream, &arena, size, zero_copy, &mut completions)
                    }
                });
            }
            println!(
                "{over:<12} {size:>10}  {source:<6} {:>5.1} ns/KiB {:>5.1} ns/KiB {:>10} of {}",
                costs[0],
                costs[1],
                completions.done - completions.copied,
                completions.done
            );
        }
    }
}

/// Reads on another processor whatever comes.
fn drain(cpu: usize, mut receive: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static) {
    std::thread::spawn(move || {
        affinity::pin(&[cpu]).unwrap();
        let mut buffer = vec![0; 1 << 20];
        while matches!(receive(&mut buffer), Ok(1..)) {}
    });
}

/// Processor time of the sending thread, in nanoseconds per KiB.
fn cost(
    mut socket: impl AsFd + Sender,
    arena: &Arena,
    size: usize,
    zero_copy: bool,
    completions: &mut Completions,
) -> f64 {
    if zero_copy {
        zerocopy::enable(&socket).unwrap();
    }
    let began = now_ns(ClockId::ThreadCpu);
    let mut sent = 0;
    let mut sends = 0;
    while sent < BYTES {
        for part in arena.as_slice().chunks_exact(size) {
            if !zero_copy {
                socket.send_all(part).unwrap();
                sent += size;
                continue;
            }
            let mut left = part;
            while !left.is_empty() {
                match zerocopy::send(&socket, left) {
                    Ok(part) => {
                        sends += 1;
                        left = &left[part..];
                    }
                    // Too much is under way.
                    Err(error) if error.raw_os_error() == Some(105) => {}
                    Err(error) => panic!("{error}"),
                }
                completions.collect(&socket).unwrap();
            }
            sent += size;
        }
    }
    let took = now_ns(ClockId::ThreadCpu) - began;
    while zero_copy && completions.done < sends {
        completions.collect(&socket).unwrap();
    }
    took as f64 / (sent as f64 / 1024.0)
}

trait Sender {
    fn send_all(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Sender for TcpStream {
    fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

impl Sender for UdpSocket {
    fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.send(bytes) {
            // Where the receiver is slow.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            sent => sent.map(drop),
        }
    }
}
