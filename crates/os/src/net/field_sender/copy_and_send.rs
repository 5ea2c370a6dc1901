//! Two copies: the message is serialised, and the kernel copies it.
//!
//! Source: send(2).

use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd;

use super::Call;
use crate::memory::fields::Messages;

/// Serialises into a buffer and sends that.
#[derive(Debug)]
pub(super) struct CopyAndSend {
    /// `None` if one is allocated for each message.
    buffer: Option<Vec<u8>>,
}

impl CopyAndSend {
    pub(super) fn new(messages: &Messages) -> Self {
        Self { buffer: Some(vec![0; messages.size()]) }
    }

    pub(super) fn allocating() -> Self {
        Self { buffer: None }
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        messages: &Messages,
        number: usize,
        call: &mut Call<'_>,
    ) -> io::Result<()> {
        match &mut self.buffer {
            Some(buffer) => {
                messages.serialise(number, buffer);
                send_all(buffer, 0, call)
            }
            None => {
                let mut buffer = black_box(Vec::with_capacity(messages.size()));
                messages.append(number, &mut buffer);
                send_all(&buffer, 0, call)
            }
        }
    }
}

/// Sends all of it with send(2).
#[inline]
pub(super) fn send_all(bytes: &[u8], flags: libc::c_int, call: &mut Call<'_>) -> io::Result<()> {
    let (socket, flags) = (call.socket.as_raw_fd(), flags | libc::MSG_NOSIGNAL);
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        // SAFETY: the bytes are valid to read.
        let now = unsafe { libc::send(socket, rest.as_ptr().cast(), rest.len(), flags) };
        sent += call.moved(now)?;
    }
    Ok(())
}
