//! A multishot receive of io_uring: one request that the kernel completes repeatedly, each time
//! into the next buffer of a ring that the program provides. Each field is copied out of those
//! buffers.
//!
//! Source: io_uring_prep_recv_multishot(3) (Linux 6.0).

use super::fields::Fields;
use super::stream::{STALLED, Stream, stalled};
use super::{Counts, Shape, Way};
use crate::memory::arena::{Arena, PageSize};
use crate::net::buffer_ring::BufferRing;
use crate::net::ring;
use std::io::{self, ErrorKind};

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

/// How many buffers there are, a power of two, and the limits of their size, which is otherwise that of a
/// message.
const BUFFERS: u16 = 32;
const BUFFER_MIN_BYTES: usize = 4 << 10;
const BUFFER_MAX_BYTES: usize = 64 << 10;
/// The one group of buffers.
const GROUP: u16 = 0;
/// The number of completions that fit: more than there are buffers.
const COMPLETIONS: u32 = 2 * BUFFERS as u32;

pub(super) struct Multishot {
    /// Dropped first, so that no request is left when the buffers are freed.
    ring: IoUring,
    buffers: Buffers,
    stream: Stream,
    fields: Fields,
    size: usize,
    /// What has arrived and is not used yet: the buffer's number, and the start and end in it.
    held: Option<(u16, usize, usize)>,
    is_armed: bool,
}

/// Buffers, and the ring by which the kernel learns which of them it may fill.
struct Buffers {
    lent: BufferRing,
    memory: Arena,
    each: usize,
}

impl Buffers {
    fn map(ring: &IoUring, message: usize) -> io::Result<Self> {
        let each = message.next_power_of_two().clamp(BUFFER_MIN_BYTES, BUFFER_MAX_BYTES);
        let mut memory = Arena::map(usize::from(BUFFERS) * each, PageSize::Base)?;
        memory.populate()?;
        let mut buffers = Self { lent: BufferRing::register(ring, BUFFERS, GROUP)?, memory, each };
        for buffer in 0..BUFFERS {
            buffers.give(buffer);
        }
        Ok(buffers)
    }

    /// Lets the kernel fill this buffer.
    #[inline]
    fn give(&mut self, buffer: u16) {
        let address = self.memory.address() + usize::from(buffer) * self.each;
        self.lent.lend(buffer, address, self.each);
    }

    /// Bytes of a buffer that the kernel has filled and was not given again. Only they may be read: it may write
    /// to the other buffers at any time.
    fn filled(&self, buffer: u16, from: usize, to: usize) -> &[u8] {
        &self.memory.as_slice()[usize::from(buffer) * self.each..][from..to]
    }
}

impl Multishot {
    /// # Errors
    ///
    /// `Unsupported` if this machine has no io_uring, or no rings of buffers.
    pub(super) fn new(stream: Stream, shape: Shape) -> io::Result<Self> {
        let (ring, _) = ring::open(1, COMPLETIONS, false)?;
        let buffers = Buffers::map(&ring, shape.size)?;
        Ok(Self {
            ring,
            buffers,
            stream,
            fields: Fields::new(shape),
            size: shape.size,
            held: None,
            is_armed: false,
        })
    }

    /// Waits until a buffer has been filled. Returns its number, and the start and end in it.
    #[inline]
    fn next(&mut self, calls: &mut u64) -> io::Result<(u16, usize, usize)> {
        loop {
            if let Some(completion) = self.ring.completion().next() {
                self.is_armed &= cqueue::more(completion.flags());
                match self.buffers.lent.filled(&completion)? {
                    Some((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                    Some((buffer, length)) => {
                        return Ok((buffer, 0, length.min(self.buffers.each)));
                    }
                    None => continue,
                }
            }
            if !self.is_armed {
                let request = opcode::RecvMulti::new(Fd(self.stream.descriptor()), GROUP).build();
                // SAFETY: the request names no memory; its buffers are the ring's, which stay.
                unsafe { self.ring.submission().push(&request) }
                    .map_err(|_| io::Error::other("the ring has no room for one request"))?;
                self.is_armed = true;
            }
            *calls += 1;
            ring::wait(&self.ring, 1, STALLED).map_err(|error| match error.kind() {
                ErrorKind::TimedOut => stalled(),
                _ => error,
            })?;
        }
    }
}

impl Way for Multishot {
    #[inline]
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()> {
        let mut at = 0;
        while at < self.size {
            let (buffer, from, to) = match self.held.take() {
                Some(held) => held,
                None => self.next(&mut counts.calls)?,
            };
            let until = to.min(from + self.size - at);
            self.fields.deserialise(at, self.buffers.filled(buffer, from, until));
            at += until - from;
            if until < to {
                self.held = Some((buffer, until, to));
            } else {
                self.buffers.give(buffer);
            }
        }
        Ok(())
    }

    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>> {
        self.receive(counts)?;
        Ok(self.fields.concat())
    }
}

impl Drop for Multishot {
    fn drop(&mut self) {
        ring::cancel_all(&self.ring);
    }
}
