//! What the kernel reports about a socket, and its settings: congestion control, retransmissions,
//! buffers, MTU, and datagrams for which its queue had no room.
//!
//! Source: socket(7), tcp(7) on `TCP_CONGESTION` and `TCP_INFO`, ip(7) on `IP_MTU`, ipv6(7),
//! include/uapi/linux/tcp.h, include/uapi/linux/sock_diag.h.

use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

use crate::net::socket_option::{self, Plain, fetch, fetch_number};

/// The largest payload of a datagram over IPv4, in bytes, and of an echo of ICMP, whose header is as
/// long: 65,535 less 20 and 8 of headers.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time, in nanoseconds (as fine as a microsecond).
    pub round_trip_ns: u64,
    /// Payload of the largest segment that it sends, in bytes.
    pub segment_bytes: u32,
    /// Payload that it has sent, retransmissions included, in bytes; 0 before Linux 4.19.
    pub sent_bytes: u64,
    /// Payload that it has retransmitted, in bytes; 0 before Linux 4.19.
    pub retransmitted_bytes: u64,
}

/// The beginning of the kernel's `struct tcp_info`, which grows at its end.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    bytes: [u8; 8],
    /// From `tcpi_rto` to `tcpi_total_retrans`.
    words: [u32; 24],
    /// From `tcpi_pacing_rate` to `tcpi_bytes_received`.
    rates: [u64; 4],
    /// From `tcpi_segs_out` to `tcpi_data_segs_out`.
    segments: [u32; 6],
    /// From `tcpi_delivery_rate` to `tcpi_sndbuf_limited`.
    limits: [u64; 4],
    delivered: [u32; 2],
    bytes_sent: u64,
    bytes_retrans: u64,
}

// SAFETY: it contains only numbers, without padding between them.
unsafe impl Plain for RawTcpInfo {}

/// Positions in [`RawTcpInfo::words`].
const SND_MSS: usize = 2;
const RTT: usize = 15;

/// linux/sock_diag.h, which libc lacks: Linux 4.12.
const SO_MEMINFO: c_int = 55;
const MEMINFO_VARIABLES: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Makes a TCP socket use this congestion control. Linux 2.6.13.
///
/// # Errors
///
/// `NotFound` (ENOENT) if the kernel has none of that name; `PermissionDenied` (EPERM) if only the
/// administrator may use it (`net.ipv4.tcp_allowed_congestion_control`).
pub fn set_congestion_control(socket: impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// The congestion control of a TCP socket. Linux 2.6.13.
///
/// # Errors
///
/// Those of getsockopt(2); the socket must be TCP.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// The state of a TCP connection. Linux 2.4; what an older kernel does not report is 0.
///
/// # Errors
///
/// Those of getsockopt(2); the socket must be TCP.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = [RawTcpInfo::default()];
    fetch(socket, (libc::IPPROTO_TCP, libc::TCP_INFO), &mut raw)?;
    let [raw] = raw;
    Ok(TcpInfo {
        round_trip_ns: u64::from(raw.words[RTT]) * 1000,
        segment_bytes: raw.words[SND_MSS],
        sent_bytes: raw.bytes_sent,
        retransmitted_bytes: raw.bytes_retrans,
    })
}

/// The largest packet on the way of a connected socket, in bytes, IP header included.
///
/// # Errors
///
/// `NotConnected` (ENOTCONN) for an unconnected socket; those of getsockopt(2) for a socket without
/// IP.
pub fn mtu_bytes(socket: impl AsFd) -> io::Result<u32> {
    let fd = socket.as_fd();
    fetch_number(fd, (libc::IPPROTO_IP, libc::IP_MTU))
        .or_else(|_| fetch_number(fd, (libc::IPPROTO_IPV6, libc::IPV6_MTU)))
}

/// Limits the segments of a TCP socket to this many bytes of payload, including TCP's options (`TCP_MAXSEG`).
///
/// # Errors
///
/// `InvalidInput` (EINVAL) for less than 88 or more than 32,767 bytes; those of setsockopt(2) of a socket
/// that is none of TCP's.
pub fn limit_segments(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    socket_option::set(socket, (libc::IPPROTO_TCP, libc::TCP_MAXSEG), &[bytes])
}

/// The sizes of a socket's send and receive buffers, in bytes. The kernel's own overhead counts too, and TCP
/// lets both grow.
///
/// # Errors
///
/// Those of getsockopt(2).
pub fn buffer_bytes(socket: impl AsFd) -> io::Result<(u32, u32)> {
    let fd = socket.as_fd();
    let (send, receive) =
        (sockopt::socket_send_buffer_size(fd)?, sockopt::socket_recv_buffer_size(fd)?);
    Ok((send as u32, receive as u32))
}

/// Requests buffers of this many bytes. The kernel grants what `net.core.wmem_max` and `net.core.rmem_max`
/// allow, and counts twice as much.
///
/// # Errors
///
/// Those of setsockopt(2).
pub fn set_buffer_bytes(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let fd = socket.as_fd();
    sockopt::set_socket_send_buffer_size(fd, bytes)?;
    sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    Ok(())
}

/// How many datagrams this socket has dropped, because it had no room for them or their checksums were wrong.
/// `SO_RXQ_OVFL` reports the same with each datagram; this needs no control message. Linux 4.12.
///
/// # Errors
///
/// Those of getsockopt(2).
pub fn dropped_datagrams(socket: impl AsFd) -> io::Result<u32> {
    let mut counts = [0_u32; MEMINFO_VARIABLES];
    fetch(socket, (libc::SOL_SOCKET, SO_MEMINFO), &mut counts)?;
    Ok(counts[MEMINFO_DROPS])
}

/// Makes closing the socket reset the connection: data that still waits to be sent is discarded.
///
/// # Errors
///
/// Those of setsockopt(2).
pub fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Makes TCP detect within about this many seconds, 3 or more, that a silent peer has gone: reads then fail
/// with `TimedOut`.
///
/// # Errors
///
/// Those of setsockopt(2); the socket must be TCP.
pub fn notice_loss_after(socket: impl AsFd, seconds: u32) -> io::Result<()> {
    const PROBES: u32 = 3;
    let each = Duration::from_secs((seconds / PROBES).max(1).into());
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, each)?;
    sockopt::set_tcp_keepintvl(socket, each)?;
    sockopt::set_tcp_keepcnt(socket, PROBES - 1)?;
    Ok(sockopt::set_tcp_user_timeout(socket, seconds * 1000)?)
}

/// Makes receiving calls return after this time if nothing arrives.
///
/// # Errors
///
/// Those of setsockopt(2).
pub fn receive_within(socket: impl AsFd, time: Duration) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(time))?)
}

/// Whether nothing has arrived yet, or a signal interrupted the call.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Whether the other end of a connection has gone.
pub fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn tcp_tells_what_it_has_sent_and_by_which_control() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 50_000]).unwrap();
        server.read_exact(&mut [0; 50_000]).unwrap();
        let info = tcp_info(&client).unwrap();
        assert!(info.sent_bytes >= 50_000, "{info:?}");
        assert!(info.retransmitted_bytes <= info.sent_bytes - 50_000, "{info:?}");
        assert!((500..1 << 16).contains(&info.segment_bytes), "{info:?}");
        assert!(info.round_trip_ns > 0, "{info:?}");
        assert!(mtu_bytes(&client).unwrap() > info.segment_bytes);
        let (send, receive) = buffer_bytes(&client).unwrap();
        assert!(send > 1000 && receive > 1000);

        let usual = congestion_control(&client).unwrap();
        set_congestion_control(&client, "reno").unwrap();
        assert_eq!(congestion_control(&client).unwrap(), "reno");
        let missing = set_congestion_control(&client, "nosuch").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        set_congestion_control(&client, &usual).unwrap();
        reset_on_close(&client).unwrap();
        drop(client);
        let reset = server.read(&mut [0]).unwrap_err();
        assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn what_is_asked_of_tcp_is_set() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_loss_after(&stream, 30).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
        assert!(notice_loss_after(UdpSocket::bind("127.0.0.1:0").unwrap(), 30).is_err());
    }

    #[test]
    fn datagrams_without_room_are_counted() {
        let (sender, receiver) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        assert_eq!(dropped_datagrams(&receiver).unwrap(), 0);
        let (_, receive_bytes) = buffer_bytes(&receiver).unwrap();
        let sent = receive_bytes / 30_000 + 10;
        for _ in 0..sent {
            sender.send(&[7; 30_000]).unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let came = std::iter::from_fn(|| receiver.recv(&mut [0; 30_000]).ok()).count();
        let dropped = dropped_datagrams(&receiver).unwrap();
        assert!(dropped > 0);
        assert_eq!(came as u32 + dropped, sent);
    }

    #[test]
    fn tcp_info_is_laid_out_as_the_kernel_has_it() {
        assert_eq!(offset_of!(RawTcpInfo, rates), 104);
        assert_eq!(offset_of!(RawTcpInfo, segments), 136);
        assert_eq!(offset_of!(RawTcpInfo, limits), 160);
        assert_eq!(offset_of!(RawTcpInfo, bytes_sent), 200);
        assert_eq!(offset_of!(RawTcpInfo, bytes_retrans), 208);
    }
}
