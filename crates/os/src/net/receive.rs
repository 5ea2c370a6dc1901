//! Measured: the ways in which a receiver gets messages out of a stream.
//!
//! A message ends up as fields that are allocated separately. There are five ways: fill one buffer
//! and copy each field out of it; let the kernel fill the fields; let it map the pages in which the
//! bytes arrived; discard the bytes; let the kernel choose and fill buffers. The sender repeats one
//! message as fast as it can; only its first eight bytes change, which are its number. Nothing
//! reads the bytes while messages are counted, since two of the ways do not have them:
//! [`Receiver::next_is_right`] does so afterwards. A stream keeps the order of its bytes, so one
//! message with the correct number shows that none before it was lost or duplicated.
//!
//! Source: recv(2), recvmsg(2), tcp(7) on `MSG_TRUNC`; each file names its own.

mod buffered;
mod discarded;
mod fields;
mod mapped;
mod multishot;
mod scattered;
mod stream;

use crate::cpu::clock::{ClockId, now_ns};
use crate::memory::pattern::pattern;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use stream::Stream;

/// The smallest message: its number, and something of each field.
pub const MESSAGE_MIN_BYTES: usize = 64;
/// The largest message.
pub const MESSAGE_MAX_BYTES: usize = 64 << 20;
/// The most fields of a message.
pub const FIELDS_MAX: usize = 64;

/// A message's number.
pub const NUMBER_BYTES: usize = 8;
/// What the receiver sends when it is ready.
pub const READY: &[u8] = b"!";

/// How messages are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `recv` into one buffer, from which each field is copied.
    Buffered,
    /// `recvmsg` with one entry for each field.
    Scattered,
    /// `TCP_ZEROCOPY_RECEIVE`: pages are mapped, and data that does not fill a page by itself is copied. The
    /// fields stay where the bytes are.
    Mapped,
    /// `recv` with `MSG_TRUNC`: the bytes are discarded.
    Discarded,
    /// A multishot receive of io_uring into buffers that the kernel takes from a ring, from which
    /// each field is copied.
    Multishot,
}

/// The shape of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its bytes: 64 to 64 MiB.
    pub size: usize,
    /// Its fields, equal shares of the bytes and the rest in the last: 1 to 64.
    pub fields: usize,
}

/// What a receiver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whole messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those that were mapped, not copied.
    pub mapped_bytes: u64,
    /// System calls, including those that only waited.
    pub calls: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// How long all of it took, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub wall_ns: u64,
}

impl Counts {
    /// What was done since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
            mapped_bytes: self.mapped_bytes - before.mapped_bytes,
            calls: self.calls - before.calls,
            cpu_ns: self.cpu_ns - before.cpu_ns,
            wall_ns: self.wall_ns - before.wall_ns,
        }
    }
}

/// A way to receive messages.
trait Way {
    /// Receives one message.
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()>;

    /// Receives one message, and returns its bytes in their order. May allocate.
    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>>;
}

/// The receiving end.
pub struct Receiver {
    way: Box<dyn Way>,
    size: usize,
    counts: Counts,
}

impl Receiver {
    /// Receives from a connected stream socket, and sends [`READY`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a shape outside its bounds; `Unsupported` if this kernel or this socket has no such
    /// way, with what to do about it; those of send(2).
    pub fn new(how: How, socket: OwnedFd, shape: Shape) -> io::Result<Self> {
        let Shape { size, fields } = shape;
        if !(MESSAGE_MIN_BYTES..=MESSAGE_MAX_BYTES).contains(&size)
            || !(1..=FIELDS_MAX).contains(&fields)
        {
            return Err(ErrorKind::InvalidInput.into());
        }
        let stream = Stream::new(socket)?;
        stream.send(READY)?;
        let way: Box<dyn Way> = match how {
            How::Buffered => Box::new(buffered::Buffered::new(stream, shape)),
            How::Scattered => Box::new(scattered::Scattered::new(stream, shape)),
            How::Mapped => Box::new(mapped::Mapped::new(stream, shape)?),
            How::Discarded => Box::new(discarded::Discarded::new(stream, shape)?),
            How::Multishot => Box::new(multishot::Multishot::new(stream, shape)?),
        };
        Ok(Self { way, size, counts: Counts::default() })
    }

    /// Receives `n` messages. Besides the way's own system calls, it only reads the clocks, once before and
    /// once after them.
    ///
    /// # Errors
    ///
    /// Those of the way's calls; `UnexpectedEof` if the sender has ended, `TimedOut` if nothing has come for
    /// ten seconds.
    pub fn receive(&mut self, n: u64) -> io::Result<()> {
        let began_ns = (now_ns(ClockId::MonotonicRaw), now_ns(ClockId::ThreadCpu));
        for _ in 0..n {
            self.way.receive(&mut self.counts)?;
        }
        self.counts.cpu_ns += now_ns(ClockId::ThreadCpu) - began_ns.1;
        self.counts.wall_ns += now_ns(ClockId::MonotonicRaw) - began_ns.0;
        self.count(n);
        Ok(())
    }

    /// Whether the next message is the one that was sent after all those before: every byte of it,
    /// in its field.
    pub fn next_is_right(&mut self) -> io::Result<bool> {
        let mut sent = pattern(self.size);
        sent[..NUMBER_BYTES].copy_from_slice(&self.counts.messages.to_le_bytes());
        let came = self.way.look(&mut self.counts)?;
        self.count(1);
        Ok(came == sent)
    }

    fn count(&mut self, messages: u64) {
        self.counts.messages += messages;
        self.counts.bytes += messages * self.size as u64;
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
