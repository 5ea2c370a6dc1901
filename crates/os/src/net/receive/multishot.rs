//! A multishot receive of io_uring: one request that the kernel completes repeatedly, each time
//! into the next buffer of a ring that the program provides. Each field is copied out of those
//! buffers.
//!
//! Source: io_uring_prep_recv_multishot(3) (Linux 6.0), io_uring_register_buf_ring(3) (Linux 5.19).

use super::fields::Fields;
use super::stream::{STALLED, Stream, stalled};
use super::{Counts, Shape, Way};
use crate::memory::arena::{Arena, PageSize};
use crate::net::{ring, unsupported};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd};
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
    entries: Arena,
    memory: Arena,
    each: usize,
    tail: u16,
}

impl Buffers {
    fn map(message: usize) -> io::Result<Self> {
        let each = message.next_power_of_two().clamp(BUFFER_MIN_BYTES, BUFFER_MAX_BYTES);
        let count = usize::from(BUFFERS);
        let mut entries = Arena::map(count * size_of::<BufRingEntry>(), PageSize::Base)?;
        let mut memory = Arena::map(count * each, PageSize::Base)?;
        entries.populate()?;
        memory.populate()?;
        let mut buffers = Self { entries, memory, each, tail: 0 };
        for buffer in 0..BUFFERS {
            buffers.give(buffer);
        }
        Ok(buffers)
    }

    /// Lets the kernel fill this buffer.
    #[inline]
    fn give(&mut self, buffer: u16) {
        let address = self.memory.address() + usize::from(buffer) * self.each;
        let ring = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the arena holds as many entries, and zeroes are valid ones; the kernel reads an
        // entry only when the tail is beyond it.
        let entry = unsafe { &mut *ring.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(address as u64);
        entry.set_len(self.each as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the ring's first entry, at a multiple of two; the kernel reads it
        // as it would an atomic number.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
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
        let buffers = Buffers::map(shape.size)?;
        let address = buffers.entries.address() as u64;
        // SAFETY: the entries are as many, begin at a page, and stay until the ring is gone.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0) }
            .map_err(|error| {
                unsupported(format!(
                    "this kernel does not support rings of buffers: {error} (Linux 5.19)"
                ))
            })?;
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
                let flags = completion.flags();
                self.is_armed &= cqueue::more(flags);
                let error = match completion.result() {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    length @ 1.. => {
                        let buffer = cqueue::buffer_select(flags)
                            .filter(|buffer| *buffer < BUFFERS)
                            .ok_or_else(|| io::Error::other("received bytes are in no buffer"))?;
                        return Ok((buffer, 0, (length as usize).min(self.buffers.each)));
                    }
                    error => -error,
                };
                match error {
                    // All buffers were full, so it requests again.
                    libc::ENOBUFS | libc::EINTR => continue,
                    libc::EINVAL => {
                        return Err(unsupported(
                            "this kernel's io_uring has no multishot receive (Linux 6.0)",
                        ));
                    }
                    error => return Err(io::Error::from_raw_os_error(error)),
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
        // Closing the ring also cancels, but later, when the buffers are gone. A signal interrupts this. If it
        // fails otherwise, nothing is in flight, or the kernel has no such receive (before Linux 6.0).
        let cancel = || {
            let submitter = self.ring.submitter();
            submitter.register_sync_cancel(None, CancelBuilder::any())
        };
        while cancel().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
    }
}
