//! Measured: passing pages to a pipe, which takes a reference to each page instead of copying it,
//! and making the pipe release them.
//!
//! Source: vmsplice(2) (Linux 2.6.17), splice(2), `F_SETPIPE_SZ` in fcntl(2) (Linux 2.6.35).

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::ptr;

use crate::memory::arena::base_page_bytes;
use rustix::pipe::fcntl_setpipe_size;

/// A pipe whose contents are discarded unread.
#[derive(Debug)]
pub struct Lender {
    reader: PipeReader,
    writer: PipeWriter,
    nowhere: File,
}

impl Lender {
    /// A pipe that holds this many pages at a time.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if /proc/sys/fs/pipe-max-size, or what one user's pipes may hold, is below that;
    /// otherwise those of pipe(2), of fcntl(2) and of opening /dev/null.
    pub fn open(pages: usize) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        fcntl_setpipe_size(&writer, pages * base_page_bytes())?;
        let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
        Ok(Self { reader, writer, nowhere })
    }

    /// Passes this memory to the pipe, without `SPLICE_F_GIFT`, and moves it from there to /dev/null, `n`
    /// times: two system calls each.
    ///
    /// # Errors
    ///
    /// The first error of vmsplice(2) and splice(2); `Other` if the pipe took or gave only a part.
    pub fn lend_and_discard(&self, memory: &[u8], n: u64) -> io::Result<()> {
        for _ in 0..n {
            self.lend(memory)?;
            self.discard(memory.len())?;
        }
        Ok(())
    }

    /// Whether the pipe holds the memory itself: a byte that is written to it after it was passed is read
    /// from the pipe. This is not true for a page that was never written to, which gets its own memory at
    /// that time.
    pub fn is_not_copied(&mut self, memory: &mut [u8]) -> io::Result<bool> {
        let before = memory[0];
        self.lend(&memory[..1])?;
        memory[0] = !before;
        let mut seen = [0];
        self.reader.read_exact(&mut seen)?;
        memory[0] = before;
        Ok(seen[0] == !before)
    }

    #[inline]
    fn lend(&self, memory: &[u8]) -> io::Result<()> {
        let part =
            libc::iovec { iov_base: memory.as_ptr().cast_mut().cast(), iov_len: memory.len() };
        // SAFETY: the memory is valid to read. Should a part stay in the pipe, the kernel keeps those
        // pages, and whoever takes them out reads only.
        let lent = unsafe { libc::vmsplice(self.writer.as_raw_fd(), &raw const part, 1, 0) };
        all(lent, memory.len())
    }

    #[inline]
    fn discard(&self, len: usize) -> io::Result<()> {
        let (from, to) = (self.reader.as_raw_fd(), self.nowhere.as_raw_fd());
        // SAFETY: takes open descriptors, no offsets, and numbers.
        let gone = unsafe { libc::splice(from, ptr::null_mut(), to, ptr::null_mut(), len, 0) };
        all(gone, len)
    }
}

fn all(moved: isize, wanted: usize) -> io::Result<()> {
    match moved {
        -1 => Err(io::Error::last_os_error()),
        moved if moved as usize == wanted => Ok(()),
        moved => Err(io::Error::other(format!("{moved} of {wanted} bytes went through the pipe"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize};

    #[test]
    fn pages_are_lent_and_not_copied() {
        let mut arena = Arena::map(32 * base_page_bytes(), PageSize::Base).unwrap();
        arena.populate().unwrap();
        let mut lender = match Lender::open(32) {
            Ok(lender) => lender,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        lender.lend_and_discard(arena.as_slice(), 10).unwrap();
        assert!(lender.is_not_copied(arena.as_mut_slice()).unwrap());
        lender.lend_and_discard(arena.as_slice(), 1).unwrap();
    }

    #[test]
    fn a_pipe_that_may_not_be_is_refused() {
        assert!(Lender::open(1 << 40).is_err());
    }
}
