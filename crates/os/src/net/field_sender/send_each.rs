//! One call for each field, as in programs that write field by field.
//!
//! Source: send(2) on `MSG_MORE`.

use std::io;

use super::Call;
use super::copy_and_send::send_all;

/// Sends field by field.
#[derive(Debug)]
pub(super) struct SendEach {
    /// The flags of each field but the last.
    more: libc::c_int,
}

impl SendEach {
    pub(super) fn new(is_stream: bool) -> Self {
        Self {
            // In a stream the fields are not held back: that would be another way to gather them.
            more: if is_stream { 0 } else { libc::MSG_MORE },
        }
    }

    #[inline]
    pub(super) fn send(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        let last = parts.len() - 1;
        for (position, part) in parts.iter().enumerate() {
            // SAFETY: a part lies in the sender's own arena, which is only read.
            let field =
                unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
            let flags = if position == last { 0 } else { self.more };
            send_all(field, flags, call)?;
        }
        Ok(())
    }
}
