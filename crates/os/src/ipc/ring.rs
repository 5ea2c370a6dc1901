//! Measured: the counters of a ring of bytes between one sender and one receiver, which are threads or
//! processes. Its user has the bytes and copies them; this says where, and when.
//!
//! A counter is stored with `Release` after the copy that it reports, and loaded with `Acquire` before the
//! copy that it permits. So the two ends never touch a byte at the same time: crates/os/tests/loom tries every order.

use crate::atomic::{AtomicU64, Ordering};
use std::io;

/// The counters of a ring of `BYTES` bytes, of which at most `PIECE` are copied before the other end may go on
/// with them. Each end writes one of them, in a cache line of its own.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Ring<const BYTES: usize, const PIECE: usize> {
    /// Bytes that the receiver has received.
    arrived: Line<AtomicU64>,
    /// Bytes that the sender has put into the ring.
    sent: Line<AtomicU64>,
}

#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

impl<const BYTES: usize, const PIECE: usize> Ring<BYTES, PIECE> {
    /// Puts a message into the ring after `sent` bytes, as soon as there is room. `copy` copies bytes to this
    /// place in the ring, at which the receiver does not look before they count as sent; all lie inside it.
    pub(crate) fn fill(
        &self,
        message: &[u8],
        mut sent: u64,
        mut copy: impl FnMut(&[u8], usize),
        wait: &mut impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut rest = message;
        while !rest.is_empty() {
            let room = BYTES - (sent - self.arrived()) as usize;
            if room == 0 {
                wait()?;
                continue;
            }
            let at = sent as usize % BYTES;
            let piece = room.min(BYTES - at).min(rest.len()).min(PIECE);
            copy(&rest[..piece], at);
            rest = &rest[piece..];
            sent += piece as u64;
            self.sent.0.store(sent, Ordering::Release);
        }
        Ok(())
    }

    /// Takes bytes out of the ring after `arrived` ones, as soon as there are any. `copy` copies so many, at
    /// most `most`, from this place in the ring, which the sender does not touch before they
    /// [have arrived](Ring::receive); all lie inside it. Returns how many.
    pub(crate) fn empty(
        &self,
        arrived: u64,
        most: usize,
        copy: impl FnOnce(usize, usize),
        wait: impl Fn(),
    ) -> usize {
        let waiting = loop {
            match self.sent.0.load(Ordering::Acquire) - arrived {
                0 => wait(),
                waiting => break waiting as usize,
            }
        };
        let at = arrived as usize % BYTES;
        let piece = waiting.min(BYTES - at).min(most).min(PIECE);
        copy(at, piece);
        piece
    }

    /// For the receiver: so many bytes have arrived by now, through the ring or otherwise.
    #[inline]
    pub(crate) fn receive(&self, arrived: u64) {
        self.arrived.0.store(arrived, Ordering::Release);
    }

    /// How many bytes the receiver has received.
    #[inline]
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.0.load(Ordering::Acquire)
    }
}
