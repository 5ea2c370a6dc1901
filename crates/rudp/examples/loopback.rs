//! How fast one connection over loopback is, and what UDP alone does beside it:
//! `loopback [cubic|rate|fixed|raw|ping|ping-raw] [datagram bytes] [message bytes] [seconds]`.
//!
//! `raw` sends datagrams of that length with `UDP_SEGMENT` to a receiver with `UDP_GRO` that
//! does nothing with them. `ping` and `ping-raw` tell round trips, both ends waiting in the
//! kernel. The end that sends is on processor 0, the other one on processor 1.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use rudp::socket::Socket;
use rudp::{Accept, Config, Control, Event, Reason};
use std::error::Error;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const WAIT: Option<Duration> = Some(Duration::from_secs(1));
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| match words.get(at) {
        Some(word) => word.parse(),
        None => Ok(otherwise),
    };
    let datagram_bytes = number(1, 65_507)?;
    let (bytes, seconds) = (number(2, 64 << 10)?, number(3, 3)?);
    let lasts = Duration::from_secs(seconds as u64);
    let config = |control| Config {
        control,
        datagram_bytes,
        ..Config::default()
    };
    pin(0)?;
    match words.first().map(String::as_str) {
        None | Some("cubic") => stream(config(Control::Cubic), bytes, lasts),
        Some("rate") => stream(config(Control::Rate), bytes, lasts),
        Some("fixed") => stream(config(Control::Fixed { messages: 32 }), bytes, lasts),
        Some("raw") => stream_raw(datagram_bytes, lasts),
        Some("ping") => ping(config(Control::Cubic), bytes, lasts),
        Some("ping-raw") => ping_raw(bytes, lasts),
        Some(other) => Err(format!("`{other}`: cubic, rate, fixed, raw, ping or ping-raw").into()),
    }
}

fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Seconds that this thread ran.
fn cpu_s() -> Result<f64> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = said.split(' ').next().unwrap_or_default().parse()?;
    Ok(ns * 1e-9)
}

/// What came in this time, and what it cost both ends.
fn tell_rate(came: usize, took_s: f64, sender_s: f64, receiver_s: f64) {
    let kib = came as f64 / 1024.0;
    println!(
        "{:.2} Gb/s, processor time {:.0} and {:.0} ns per KiB that came, at most {:.1} Gb/s by that",
        came as f64 * 8e-9 / took_s,
        sender_s * 1e9 / kib,
        receiver_s * 1e9 / kib,
        came as f64 * 8e-9 / sender_s.max(receiver_s)
    );
}

fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> JoinHandle<Result<T>> {
    std::thread::spawn(move || {
        // One processor only is no reason not to measure.
        let _ = pin(1);
        work()
    })
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| "the other end panicked")?
}

fn stream(config: Config, bytes: usize, lasts: Duration) -> Result<()> {
    let accept = Accept {
        config: config.clone(),
        ..Accept::default()
    };
    let mut server = Socket::bind(ANY, [1; 16], Some(accept))?;
    let to = server.local_addr()?;
    let receiver = spawn(move || {
        let mut came = 0;
        while let Some((_, event)) = server.poll(WAIT)? {
            match event {
                Event::Message(message) => came += message.len(),
                Event::Closed(_) => break,
                _ => {}
            }
        }
        Ok((came, server.dropped(), cpu_s()?))
    });
    let mut client = Socket::bind(ANY, [2; 16], None)?;
    let id = client.connect(to, config)?;
    let mut began = Instant::now();
    let mut stats = None;
    while let Some((_, event)) = client.poll(WAIT)? {
        let now = client.now();
        let Some(connection) = client.connection(id) else {
            break;
        };
        match event {
            Event::Connected => began = Instant::now(),
            Event::Closed(Reason::Finished) => break,
            Event::Closed(reason) => return Err(format!("{reason:?}").into()),
            _ => {}
        }
        stats = Some(connection.stats());
        if began.elapsed() > lasts {
            connection.close(now);
            continue;
        }
        // What fits into the socket's buffers, several times.
        while connection.stats().queued_bytes < 4 << 20 {
            connection.send(vec![7; bytes])?;
        }
    }
    let took = began.elapsed().as_secs_f64();
    let sender_s = cpu_s()?;
    let (came, dropped, receiver_s) = joined(receiver)?;
    tell_rate(came, took, sender_s, receiver_s);
    println!("{dropped} dropped by the receiver's socket, {stats:?}");
    Ok(())
}

fn stream_raw(datagram_bytes: usize, lasts: Duration) -> Result<()> {
    let server = UdpSocket::bind(ANY)?;
    let state = UdpSocketState::new(UdpSockRef::from(&server))?;
    state.set_recv_buffer_size(UdpSockRef::from(&server), 8 << 20)?;
    server.set_nonblocking(false)?;
    server.set_read_timeout(WAIT)?;
    let to = server.local_addr()?;
    let receiver = spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut metas = [quinn_udp::RecvMeta::default()];
        let (mut came, mut last) = (0, Instant::now());
        let mut receive = || {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            state.recv(UdpSockRef::from(&server), &mut slices, &mut metas)?;
            Ok::<usize, std::io::Error>(metas[0].len)
        };
        while let Ok(bytes) = receive() {
            came += bytes;
            last = Instant::now();
        }
        Ok((came, last, cpu_s()?))
    });
    let client = UdpSocket::bind(ANY)?;
    let state = UdpSocketState::new(UdpSockRef::from(&client))?;
    let contents = vec![7; (65_507 / datagram_bytes).max(1) * datagram_bytes];
    let transmit = Transmit {
        destination: to,
        ecn: None,
        contents: &contents,
        segment_size: Some(datagram_bytes),
        src_ip: None,
    };
    let (began, mut sent) = (Instant::now(), 0);
    while began.elapsed() < lasts {
        state.try_send(UdpSockRef::from(&client), &transmit)?;
        sent += contents.len();
    }
    let sender_s = cpu_s()?;
    let (came, last, receiver_s) = joined(receiver)?;
    let took_s = last.duration_since(began).as_secs_f64();
    tell_rate(came, took_s, sender_s, receiver_s);
    println!("{:.2} Gb/s sent", sent as f64 * 8e-9 / took_s);
    Ok(())
}

/// The median and the tenth and ninetieth hundredth.
fn tell_round_trips(mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let [low, median, high] = [0.1, 0.5, 0.9].map(at);
    println!(
        "{median:?} ({low:?} to {high:?}), {} round trips",
        took.len()
    );
}

fn ping(config: Config, bytes: usize, lasts: Duration) -> Result<()> {
    let accept = Accept {
        config: config.clone(),
        ..Accept::default()
    };
    let mut server = Socket::bind(ANY, [1; 16], Some(accept))?;
    let to = server.local_addr()?;
    let echo = spawn(move || {
        while let Some((id, event)) = server.poll(WAIT)? {
            match (event, server.connection(id)) {
                (Event::Message(message), Some(connection)) => {
                    connection.send(message)?;
                }
                (Event::Closed(_), _) => break,
                _ => {}
            }
        }
        Ok(())
    });
    let mut client = Socket::bind(ANY, [2; 16], None)?;
    let id = client.connect(to, config)?;
    let (began, mut sent_at) = (Instant::now(), None);
    let mut took = Vec::new();
    while let Some((_, event)) = client.poll(WAIT)? {
        let now = client.now();
        let Some(connection) = client.connection(id) else {
            break;
        };
        let message = match event {
            Event::Connected => vec![7; bytes],
            Event::Message(message) => {
                took.extend(sent_at.map(|at: Instant| at.elapsed()));
                message
            }
            Event::Closed(_) => break,
            _ => continue,
        };
        if began.elapsed() > lasts {
            println!("{:?}", connection.stats());
            connection.close(now);
            continue;
        }
        sent_at = Some(Instant::now());
        connection.send(message)?;
    }
    joined(echo)?;
    tell_round_trips(took);
    Ok(())
}

fn ping_raw(bytes: usize, lasts: Duration) -> Result<()> {
    let server = UdpSocket::bind(ANY)?;
    server.set_read_timeout(WAIT)?;
    let to = server.local_addr()?;
    let echo = spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((len, from)) = server.recv_from(&mut buffer) {
            server.send_to(&buffer[..len], from)?;
        }
        Ok(())
    });
    let client = UdpSocket::bind(ANY)?;
    client.set_read_timeout(WAIT)?;
    let mut buffer = vec![7; bytes];
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < lasts {
        let sent_at = Instant::now();
        client.send_to(&buffer, to)?;
        client.recv_from(&mut buffer)?;
        took.push(sent_at.elapsed());
    }
    joined(echo)?;
    tell_round_trips(took);
    Ok(())
}
