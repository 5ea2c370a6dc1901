//! sendfile(2): the kernel sends pages of the page cache.
//!
//! It takes no fields: the messages are in the file before, each with its fields one behind the
//! other, and what it takes to put them there is not measured.
//!
//! Source: sendfile(2) (Linux 2.2; to any socket since 2.6.33), memfd_create(2) (Linux 3.17).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::{Call, unsupported};
use crate::file::scratch;
use crate::memory::fields::Messages;

/// Sends from a file.
#[derive(Debug)]
pub(super) struct Sendfile {
    file: File,
    size: usize,
}

impl Sendfile {
    pub(super) fn memory(messages: &Messages) -> io::Result<Self> {
        let file = memfd_create("costof messages", MemfdFlags::CLOEXEC)
            .map_err(|error| unsupported("memfd_create", &error.into()))?;
        Self::of(file.into(), messages)
    }

    pub(super) fn file(messages: &Messages) -> io::Result<Self> {
        Self::of(scratch::nameless()?, messages)
    }

    fn of(file: File, messages: &Messages) -> io::Result<Self> {
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
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        number: usize,
        call: &mut Call<'_>,
    ) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.size {
            let mut at = (number * self.size + sent) as libc::off_t;
            call.system_calls += 1;
            let (to, from) = (socket.as_raw_fd(), self.file.as_raw_fd());
            // SAFETY: takes open descriptors, and an offset that is valid to read and write.
            let now = unsafe { libc::sendfile(to, from, &raw mut at, self.size - sent) };
            sent += match now {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                1.. => now.cast_unsigned(),
                _ => call.again(io::Error::last_os_error())?,
            };
        }
        Ok(())
    }
}
