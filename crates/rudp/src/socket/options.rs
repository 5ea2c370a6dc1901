//! The options of the socket.

use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{UdpSockRef, UdpSocketState};
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// The longest wait of a call that receives or sends: the kernel rounds it up to a tick of 1 to 10 ms.
const TICK: Duration = Duration::from_millis(1);
/// What the socket's own buffers should hold; the system may grant less.
const BUFFER_BYTES: usize = 8 << 20;

/// Sets the options of a socket. Returns the state for sending batches.
pub(super) fn set_up(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    // Path MTU discovery, UDP_GRO and the other options of quinn-udp.
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    state.set_send_buffer_size(UdpSockRef::from(socket), BUFFER_BYTES)?;
    state.set_recv_buffer_size(UdpSockRef::from(socket), BUFFER_BYTES)?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    // quinn-udp requests reports that are not read here and cost time per datagram.
    setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    setsockopt(socket, sockopt::IpRecvTos, &false)?;
    if socket.local_addr()?.is_ipv4() {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &false)?;
    } else {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false)?;
        setsockopt(socket, sockopt::Ipv6RecvTClass, &false)?;
    }
    setsockopt(socket, sockopt::RxqOvfl, &1)?;
    Ok(state)
}

/// Makes the kernel neither join datagrams nor report anything with them: for both it would read
/// cache lines that another CPU wrote.
pub(super) fn disable_reports(socket: &UdpSocket) -> io::Result<()> {
    // A kernel that does not know the option does not join datagrams.
    setsockopt(socket, sockopt::UdpGroSegment, &false).ok();
    setsockopt(socket, sockopt::RxqOvfl, &0)?;
    Ok(())
}
