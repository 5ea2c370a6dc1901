//! Measured: bytes that go from one end to another as fast as they can, through sockets.
//!
//! A flow is one connection, or two sockets that exchange datagrams, with a thread at each end.
//! The sender writes blocks of one size, always from the same buffer; each begins with its number,
//! and the rest is no run of zeroes. The receiver reads what comes and looks at the number of the
//! first block that begins in each piece, or at the last bytes of each datagram. Both note now and
//! then how far they are, and how much processor time they have had until then: reading that clock
//! is the one system call beside the transfer's own.
//!
//! Both ends are told a token of their launch: what does not begin with it is dropped before a
//! byte of it is used.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`; `CLOCK_THREAD_CPUTIME_ID`.

mod channel;
mod marks;
mod meeting;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use marks::Mark;
pub use meeting::{Listener, call};
pub use receiver::{Datagrams, Receiver};
pub use sender::Sender;

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// How long a receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How long the ends have to find each other.
const GREETING: Duration = Duration::from_secs(10);
/// How long nothing may go on before sending is given up.
const STALLED: Duration = Duration::from_secs(10);

/// The largest payload of a datagram over IPv4: 65,535 bytes less 20 and 8 of headers.
pub const DATAGRAM_MOST_BYTES: usize = 65_507;
/// The smallest block. What is said before and after the transfer is shorter, to be told from
/// datagrams.
pub const BLOCK_LEAST_BYTES: usize = 64;
/// The largest block.
pub const BLOCK_MOST_BYTES: usize = 64 << 20;

/// A block's number.
const NUMBER_BYTES: usize = 8;
/// After so many bytes or calls the time is looked at.
const LOOK_BYTES: u64 = 32 << 10;
const LOOK_CALLS: u32 = 16;

/// What bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, without Nagle's delay.
    Tcp,
    /// UDP: a block is a datagram.
    Udp,
    /// A Unix stream socket, within one network namespace.
    Unix,
}

/// What a block holds behind its number: the same at both ends, and no run of zeroes.
fn contents(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..size).map(|_| next()).collect()
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")
}

/// Nothing has come yet, or a signal came between.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn in_time(until: Instant) -> io::Result<()> {
    if Instant::now() > until {
        return Err(io::Error::new(
            ErrorKind::TimedOut,
            "the other end has not answered in time",
        ));
    }
    Ok(())
}
