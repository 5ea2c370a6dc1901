//! `recvmsg` with one entry for each field: one copy.
//!
//! Source: recvmsg(2), readv(2) on entries of an I/O vector.

use super::fields::Fields;
use super::stream::{Stream, some};
use super::{Counts, Shape, Way};
use std::io;

pub(super) struct Scattered {
    stream: Stream,
    fields: Fields,
    size: usize,
    /// One entry for each field, rebuilt for each message.
    entries: Vec<libc::iovec>,
}

impl Scattered {
    pub(super) fn new(stream: Stream, shape: Shape) -> Self {
        Self {
            stream,
            fields: Fields::new(shape),
            size: shape.size,
            entries: Vec::with_capacity(shape.fields),
        }
    }

    /// Receives at least a byte into the entries from `first` on.
    #[inline]
    fn call(&mut self, first: usize) -> io::Result<usize> {
        let entries = &mut self.entries[first..];
        // SAFETY: all zeros is a valid value of this plain structure of C.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = entries.as_mut_ptr();
        message.msg_iovlen = entries.len() as _;
        loop {
            // SAFETY: each entry is what is left of a field, which nobody else has; there is no
            // control buffer.
            let came = unsafe { libc::recvmsg(self.stream.descriptor(), &raw mut message, 0) };
            let came = match came {
                0.. => Ok(came.cast_unsigned()),
                _ => Err(io::Error::last_os_error()),
            };
            if let Some(length) = some(came)? {
                return Ok(length);
            }
        }
    }
}

impl Way for Scattered {
    #[inline]
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.entries.clear();
        for field in self.fields.each_mut() {
            self.entries
                .push(libc::iovec { iov_base: field.as_mut_ptr().cast(), iov_len: field.len() });
        }
        let (mut came, mut first) = (0, 0);
        while came < self.size {
            counts.calls += 1;
            let mut length = self.call(first)?;
            came += length;
            // Full entries are left out of the next call.
            while let Some(entry) = self.entries.get_mut(first)
                && length > 0
            {
                let taken = length.min(entry.iov_len);
                entry.iov_base = entry.iov_base.wrapping_byte_add(taken);
                entry.iov_len -= taken;
                length -= taken;
                first += usize::from(entry.iov_len == 0);
            }
        }
        Ok(())
    }

    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>> {
        self.receive(counts)?;
        Ok(self.fields.concat())
    }
}
