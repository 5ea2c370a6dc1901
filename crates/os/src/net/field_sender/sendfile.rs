//! sendfile(2): the kernel sends pages of the page cache.
//!
//! It takes no fields: the messages are in the file beforehand, each with its fields one after the
//! other. Writing them there is not measured.
//!
//! Source: sendfile(2) (Linux 2.2; to any socket since 2.6.33), memfd_create(2) (Linux 3.17).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::Call;
use crate::file::scratch;
use crate::memory::fields::Messages;
use crate::net::unsupported;

/// Sends from a file.
#[derive(Debug)]
pub(super) struct Sendfile {
    file: File,
    size: usize,
}

impl Sendfile {
    pub(super) fn memory(messages: &Messages) -> io::Result<Self> {
        let file = memfd_create("costof messages", MemfdFlags::CLOEXEC)
            .map_err(|error| unsupported(format!("memfd_create: {error}")))?;
        Self::new(file.into(), messages)
    }

    pub(super) fn file(messages: &Messages) -> io::Result<Self> {
        Self::new(scratch::nameless()?, messages)
    }

    fn new(file: File, messages: &Messages) -> io::Result<Self> {
        let size = messages.size();
        let mut serialised = vec![0; size];
        for number in 0..messages.count() {
            messages.serialise(number, &mut serialised);
            file.write_all_at(&serialised, (number * size) as u64)?;
        }
        // Pages that wait to be written would be written while they are sent.
        file.sync_data()?;
        Ok(Self { file, size })
    }

    #[inline]
    pub(super) fn send(&mut self, number: usize, call: &mut Call<'_>) -> io::Result<()> {
        let (to, from) = (call.socket.as_raw_fd(), self.file.as_raw_fd());
        let mut sent = 0;
        while sent < self.size {
            let mut at = (number * self.size + sent) as libc::off_t;
            // SAFETY: takes open descriptors, and an offset that is valid to read and write.
            let now = unsafe { libc::sendfile(to, from, &raw mut at, self.size - sent) };
            if now == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sent += call.moved(now)?;
        }
        Ok(())
    }
}
