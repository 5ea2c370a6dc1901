//! What a stream carries, and the server's count of it.

use std::io;

/// A server's count of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Chunks received.
    pub chunks: u64,
    /// Payload of the chunks in bytes.
    pub bytes: u64,
}

impl Summary {
    /// Returns the summary if it matches this many chunks of this size.
    ///
    /// # Errors
    /// Otherwise, with both counts.
    pub(crate) fn verify(self, chunks: u64, size: usize) -> io::Result<Self> {
        let bytes = chunks * size as u64;
        if self == (Summary { chunks, bytes }) {
            return Ok(self);
        }
        Err(io::Error::other(format!(
            "{chunks} chunks of {size} B were sent, and {} of {} B together arrived",
            self.chunks, self.bytes
        )))
    }
}

/// A chunk's bytes: the same for each size, with different neighbours.
pub(crate) fn chunk(size: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(size).collect()
}
