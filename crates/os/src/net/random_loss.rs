//! A socket that loses a random share of incoming packets: the kernel drops them before they reach
//! its queue.
//!
//! Source: socket(7) on `SO_ATTACH_FILTER`; linux/filter.h; Linux
//! Documentation/networking/filter.rst on the random number (`SKF_AD_RANDOM`, Linux 3.16).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::net::socket_option;
use crate::system_call::check;

/// The largest share: retransmission needs some packets to arrive.
pub const MAX: f64 = 0.9;

/// Where a filter reads a random number: `SKF_AD_OFF` and `SKF_AD_RANDOM`.
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Drops each packet with this probability. Packets that are joined are dropped together:
/// [`receive_singly`].
///
/// # Errors
///
/// Those of setsockopt(2); `InvalidInput` for a share outside of 0 to [`MAX`].
pub fn lose(socket: impl AsFd, share: f64) -> io::Result<()> {
    if !(0.0..=MAX).contains(&share) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let below = (share * 2_f64.powi(32)) as u32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_WORD, 0, 0, RANDOM),
        step(JUMP_IF_AT_LEAST, 0, 1, below),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter and its steps are valid to read during the call, which copies them.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Makes the kernel deliver each datagram of this UDP socket separately.
///
/// # Errors
///
/// Those of setsockopt(2).
pub fn receive_singly(socket: impl AsFd) -> io::Result<()> {
    match socket_option::set(socket, (libc::SOL_UDP, libc::UDP_GRO), &[0_u32]) {
        // A kernel without the option never merges datagrams.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn so_many_packets_are_lost_as_are_to_be() {
        const SENT: u32 = 2000;
        const AT_ONCE: u32 = 50;
        for share in [0.0, 0.3, MAX] {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            // A busy kernel may deliver a packet late.
            receiver.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            lose(&receiver, share).unwrap();
            let to = receiver.local_addr().unwrap();
            let mut arrived = 0;
            let mut receive = || {
                while receiver.recv(&mut [0; 16]).is_ok() {
                    arrived += 1;
                }
            };
            for _ in 0..SENT / AT_ONCE {
                for _ in 0..AT_ONCE {
                    sender.send_to(b"packet", to).unwrap();
                }
                receive();
            }
            receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            receive();
            let lost = f64::from(SENT - arrived);
            // Five times the binomial standard error.
            let error = 0.01 + 5.0 * (share * (1.0 - share) / f64::from(SENT)).sqrt();
            let found = lost / f64::from(SENT);
            assert!((found - share).abs() <= error, "{found} instead of {share}");
        }
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(lose(&receiver, 1.0).is_err());
    }
}
