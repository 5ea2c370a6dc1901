//! Ends that use UDP as it is: what any protocol over it is measured against.

use super::{LARGEST, RoleResult, WARM_UP, print_address};
use crate::rudp::tally::Tally;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A datagram of an Ethernet frame, and as many as fit into one call.
const DATAGRAM_BYTES: usize = 1452;
const SEGMENTS: usize = 44;
/// How many batches one call fetches at most, and what a socket holds.
const BATCHES: usize = 8;
const SOCKET_BUFFER: usize = 8 << 20;
/// After so long a silence there is no other end.
const SILENCE: Duration = Duration::from_secs(60);

/// A socket with the kernel's batches (`UDP_SEGMENT`, `UDP_GRO`), which does not block.
fn batched(at: SocketAddr) -> io::Result<(UdpSocket, UdpSocketState)> {
    let socket = UdpSocket::bind(at)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER)?;
    state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER)?;
    Ok((socket, state))
}

fn wait(socket: &UdpSocket, what: PollFlags, most: Duration) -> io::Result<()> {
    let most = Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(socket, what)], Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn receive(at: SocketAddr, lasts: Duration) -> RoleResult<Tally> {
    let (socket, state) = batched(at)?;
    print_address(socket.local_addr()?, "");
    let mut tally = Tally::new();
    let mut memory = vec![0; LARGEST * BATCHES];
    let mut metas = [RecvMeta::default(); BATCHES];
    while let Some(left) = tally.left(lasts) {
        let mut parts = memory.chunks_exact_mut(LARGEST).map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; BATCHES] =
            std::array::from_fn(|_| parts.next().expect("there is one for each"));
        match state.recv(UdpSockRef::from(&socket), &mut buffers, &mut metas) {
            Ok(count) => metas[..count].iter().for_each(|meta| tally.add(meta.len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&socket, PollFlags::IN, left)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tally)
}

/// As fast as the kernel takes them, until it is ended.
pub(super) fn send(to: SocketAddr) -> RoleResult<()> {
    let (socket, state) = batched(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let segments = SEGMENTS.min(state.max_gso_segments());
    let contents = vec![7; DATAGRAM_BYTES * segments];
    let batch = Transmit {
        destination: to,
        ecn: None,
        contents: &contents,
        segment_size: Some(DATAGRAM_BYTES),
        src_ip: None,
    };
    loop {
        match state.try_send(UdpSockRef::from(&socket), &batch) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&socket, PollFlags::OUT, SILENCE)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a call gives that is made until there is something: once, where it waits itself.
fn until_there<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            given => return given,
        }
    }
}

/// Sends back whatever comes, until it is ended.
pub(super) fn echo(at: SocketAddr, spins: bool) -> RoleResult<()> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(spins)?;
    print_address(socket.local_addr()?, "");
    let mut buffer = [0; LARGEST];
    loop {
        let (bytes, from) = until_there(|| socket.recv_from(&mut buffer))?;
        socket.send_to(&buffer[..bytes], from)?;
    }
}

/// How long each round trip takes, one after the other.
pub(super) fn ping(
    to: SocketAddr,
    bytes: usize,
    count: usize,
    spins: bool,
) -> RoleResult<Vec<Duration>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_nonblocking(spins)?;
    let request = vec![7; bytes];
    let mut reply = [0; LARGEST];
    let mut took = Vec::with_capacity(WARM_UP + count);
    for _ in 0..WARM_UP + count {
        let sent = Instant::now();
        socket.send(&request)?;
        let came = until_there(|| socket.recv(&mut reply))?;
        took.push(sent.elapsed());
        if came != bytes {
            return Err(format!("{came} bytes came").into());
        }
    }
    Ok(took)
}
