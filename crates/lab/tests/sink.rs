//! The link sink with real sockets. This program is also the process that holds
//! the link and the one that sends over it, which is why it has a main function
//! of its own.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it does")]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod common;

use common::{Part, command, end_what_hangs};
use costof_lab::link::{self, End, FAR_ADDRESS, NEAR_ADDRESS};
use costof_os::net::sink::{self, Acknowledger, BACK, DEVICE, Receiver};
use costof_os::net::zerocopy::{self, Completions};
use costof_os::process::namespace::Namespace;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SENDS: u64 = 10_000;
const DATAGRAM_BYTES: usize = 65_507;

/// What is sent in the namespace of the near end, by name.
const SENDERS: [(&str, fn()); 7] = [
    ("datagrams that are not copied", datagrams_are_not_copied),
    ("nobody is at the far end", nobody_is_at_the_far_end),
    ("TCP is acknowledged and not copied", tcp_is_acknowledged_and_not_copied),
    ("windows of all sizes", windows_of_all_sizes),
    ("several connections", several_connections),
    ("to an address of this machine all of it is copied", to_this_machine_all_is_copied),
    ("a sniffer sees nothing", a_sniffer_sees_nothing),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("hold") => link::hold(&arguments[1].parse().unwrap()).unwrap(),
        Some("send") => {
            let mut senders = SENDERS.iter();
            let (_, send) = senders.find(|(name, _)| *name == arguments[1]).unwrap();
            end_what_hangs();
            send();
        }
        Some("send for ever") => {
            end_what_hangs();
            send_for_ever();
        }
        // Whatever else cargo test hands on: there is nothing to choose from.
        _ => {
            over_the_link();
            nothing_is_left_of_what_was_killed();
        }
    }
}

fn over_the_link() {
    let Some(made) = common::made("hold", "sink") else {
        return;
    };
    assert!(made.drops_all);
    for (name, _) in SENDERS {
        println!("{name}");
        let status = command(&made.near, "/proc/self/exe", &["send", name]).status();
        assert!(status.unwrap().success(), "{name}");
    }
}

fn datagrams_are_not_copied() {
    let bytes = vec![7; DATAGRAM_BYTES];
    let socket = datagram_socket();
    let before = (dropped(), received());
    for _ in 0..SENDS {
        assert_eq!(socket.send(&bytes).unwrap(), bytes.len());
    }
    let completions = send_without_copy(&socket, &bytes, SENDS);
    assert_eq!((completions.done, completions.copied), (SENDS, 0));
    let out = dropped() - before.0;
    // With the headers of UDP, IP and Ethernet; of other traffic there are some
    // packets by which an IPv6 device introduces itself.
    let headers = 8 + 20 + 14;
    let expected = 2 * SENDS * (DATAGRAM_BYTES as u64 + headers);
    let expected = expected..expected + 10_000;
    assert!(expected.contains(&out), "{out} {expected:?}");
    assert_eq!(arrived(BACK), 0, "packets got past the filter");
    assert_eq!(received(), before.1, "packets got past the filter");
    // One byte more is no datagram, here as everywhere.
    assert!(socket.send(&vec![7; DATAGRAM_BYTES + 1]).is_err());
}

fn nobody_is_at_the_far_end() {
    assert!(UdpSocket::bind((FAR_ADDRESS, 0)).is_err());
    let waits = Duration::from_millis(200);
    let address = (FAR_ADDRESS, 9).into();
    let error = TcpStream::connect_timeout(&address, waits).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

fn tcp_is_acknowledged_and_not_copied() {
    let bytes = vec![7; 65_536];
    let acknowledger = acknowledger();
    let mut stream = connect(&acknowledger, 4 << 20);
    let before = dropped();
    for _ in 0..SENDS {
        stream.write_all(&bytes).unwrap();
    }
    let completions = send_without_copy(&stream, &bytes, SENDS);
    assert!(completions.done >= SENDS, "{completions:?}");
    assert_eq!(completions.copied, 0, "of {}", completions.done);
    until_acknowledged(&stream);
    let payload = 2 * SENDS * bytes.len() as u64;
    let out = dropped() - before;
    // Headers, once for what the device would cut up; and what was sent again
    // because its acknowledgement was late on a busy machine.
    assert!((payload..payload + payload / 10).contains(&out), "{out} {payload}");
}

fn windows_of_all_sizes() {
    let bytes = vec![7; 100_000];
    for window in [2000, 65_535, 65_536, 1 << 20, (1 << 30) - 1] {
        let acknowledger = acknowledger();
        let mut stream = connect(&acknowledger, window);
        let before = dropped();
        for _ in 0..100 {
            stream.write_all(&bytes).unwrap();
            assert!(sink::in_flight(&stream).unwrap() <= window);
        }
        until_acknowledged(&stream);
        assert!(dropped() - before >= 100 * bytes.len() as u64);
    }
    let too_large = acknowledger().connect(
        v4(NEAR_ADDRESS),
        SocketAddrV4::new(v4(FAR_ADDRESS), 9),
        Receiver { mss: 1460, window: 1 << 30 },
        None,
    );
    assert_eq!(too_large.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

fn several_connections() {
    let acknowledger = acknowledger();
    let before = dropped();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut stream = connect(&acknowledger, 1 << 20);
            scope.spawn(move || {
                for _ in 0..100 {
                    stream.write_all(&[7; 100_000]).unwrap();
                }
                until_acknowledged(&stream);
            });
        }
    });
    assert!(dropped() - before >= 4 * 100 * 100_000);
}

/// So that the tests above could fail.
fn to_this_machine_all_is_copied() {
    let receiver = UdpSocket::bind((NEAR_ADDRESS, 0)).unwrap();
    let socket = UdpSocket::bind((NEAR_ADDRESS, 0)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let datagrams = send_without_copy(&socket, &[7; 10_000], 100);
    assert_eq!((datagrams.done, datagrams.copied), (100, 100));
}

/// Packets are dropped before they would be shown to it, and so it has none of them copied.
fn a_sniffer_sees_nothing() {
    let sniffer = sniffer();
    let datagrams = send_without_copy(&datagram_socket(), &[7; DATAGRAM_BYTES], 100);
    assert_eq!((datagrams.done, datagrams.copied), (100, 0));
    let mut packet = [0; 64];
    let seen = rustix::net::recv(&sniffer, &mut packet, RecvFlags::DONTWAIT);
    assert_eq!(seen.unwrap_err(), rustix::io::Errno::AGAIN);
}

fn send_for_ever() {
    let datagrams = datagram_socket();
    let acknowledger = acknowledger();
    let mut stream = connect(&acknowledger, 1 << 20);
    println!("begins");
    loop {
        datagrams.send(&[7; 65_507]).unwrap();
        stream.write_all(&[7; 65_536]).unwrap();
    }
}

/// The holder is killed, and then who used the link: no process is left in its
/// namespaces, and none of its devices anywhere else.
fn nothing_is_left_of_what_was_killed() {
    println!("nothing is left of what was killed");
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["hold", "sink"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut says = BufReader::new(holder.stdout.take().unwrap());
    says.read_line(&mut line).unwrap();
    let held: serde_json::Value = serde_json::from_str(&line).unwrap();
    let Some(near) = held["near"].as_i64() else {
        eprintln!("skipped: {}", held["reason"]);
        holder.wait().unwrap();
        return;
    };
    let proc = format!("/proc/{}", holder.id());
    let has_user = held["user"].as_bool().unwrap();
    let user = has_user.then(|| format!("{proc}/ns/user"));
    let network = format!("{proc}/fd/{near}");
    let name = fs::read_link(&network).unwrap();
    let user = user.as_deref().map(Path::new);
    let near = End {
        address: NEAR_ADDRESS,
        namespace: Some(Namespace::open(user, Path::new(&network)).unwrap()),
    };
    let sender = Part::start(&near, &["send for ever"]);
    drop(near);
    assert!(is_in_use(&name));
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(sender);
    assert!(!is_in_use(&name));
    assert!(!devices().iter().any(|device| device.starts_with(DEVICE)));
}

/// Whether a process is in a namespace, or holds it open.
fn is_in_use(namespace: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let open = fs::read_dir(process.path().join("fd"));
        let open = open.into_iter().flatten().flatten().map(|fd| fd.path());
        let own = std::iter::once(process.path().join("ns/net"));
        own.chain(open).any(|link| fs::read_link(link).is_ok_and(|is| is == namespace))
    })
}

fn v4(address: IpAddr) -> std::net::Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => panic!("{address}"),
    }
}

fn datagram_socket() -> UdpSocket {
    let socket = UdpSocket::bind((NEAR_ADDRESS, 0)).unwrap();
    socket.connect((FAR_ADDRESS, 9)).unwrap();
    socket
}

fn acknowledger() -> Acknowledger {
    Acknowledger::start(&[]).unwrap()
}

fn connect(acknowledger: &Acknowledger, window: u32) -> TcpStream {
    let receiver = Receiver { mss: 1460, window };
    let to = SocketAddrV4::new(v4(FAR_ADDRESS), 9);
    acknowledger.connect(v4(NEAR_ADDRESS), to, receiver, None).unwrap()
}

/// Sends the bytes `times` times, and waits until the kernel is done with them.
fn send_without_copy(socket: &impl AsFd, bytes: &[u8], times: u64) -> Completions {
    zerocopy::enable(socket).unwrap();
    let mut completions = Completions::default();
    let mut calls = 0;
    for _ in 0..times {
        let mut left = bytes;
        while !left.is_empty() {
            match zerocopy::send(socket, left) {
                Ok(sent) => {
                    calls += 1;
                    left = &left[sent..];
                }
                // Too much is in flight.
                Err(error) if error.raw_os_error() == Some(105) => {}
                Err(error) => panic!("{error}"),
            }
            completions.collect(socket).unwrap();
        }
    }
    while completions.done < calls {
        completions.collect(socket).unwrap();
        std::thread::yield_now();
    }
    completions
}

fn until_acknowledged(stream: &TcpStream) {
    while sink::in_flight(stream).unwrap() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A socket that is given every packet that passes any device.
fn sniffer() -> OwnedFd {
    // ETH_P_ALL, as the kernel wants it.
    let all = NonZeroU32::new(3_u16.to_be().into()).unwrap();
    let all = Some(Protocol::from_raw(all));
    rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, all).unwrap()
}

/// Bytes that the filter before the device has dropped.
fn dropped() -> u64 {
    let tc =
        Command::new("tc").args(["-s", "-j", "qdisc", "show", "dev", DEVICE]).output().unwrap();
    let disciplines: serde_json::Value = serde_json::from_slice(&tc.stdout).unwrap();
    let mut disciplines = disciplines.as_array().unwrap().iter();
    let filter = disciplines.find(|one| one["kind"] == "clsact").unwrap();
    filter["bytes"].as_u64().unwrap()
}

/// Bytes that have come in by a device.
fn arrived(device: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, counts) = lines.find(|(name, _)| name.trim() == device).unwrap();
    counts.split_whitespace().next().unwrap().parse().unwrap()
}

fn devices() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.trim().to_owned()).collect()
}

/// How many IPv4 packets this namespace has received.
fn received() -> u64 {
    let text = fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let names = lines.next().unwrap().split(' ');
    let mut counts = names.zip(lines.next().unwrap().split(' '));
    let (_, count) = counts.find(|(name, _)| *name == "InReceives").unwrap();
    count.parse().unwrap()
}
