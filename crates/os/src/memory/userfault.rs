//! Measured: page faults that a thread of the same process serves (userfaultfd).
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2) (Linux 4.3); `UFFD_USER_MODE_ONLY` (Linux 5.11).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::memory::arena::{Arena, PageSize, base_page_bytes};
use crate::memory::touch::write_pages;
use crate::system_call::{check, retry, unsupported, with_context};
use linux_raw_sys::general::{
    UFFD_API, UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_MISSING, uffdio_api, uffdio_copy,
    uffdio_range, uffdio_register,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_UNREGISTER};
use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;

/// A thread that answers each first touch of a page of registered memory with a copy of a page.
#[derive(Debug)]
pub struct FaultServer {
    faults: Arc<OwnedFd>,
    /// A touch of this page ends the thread, which needs no other system call for that.
    last: Arena,
    thread: Option<JoinHandle<io::Result<u64>>>,
}

/// Bytes of `struct uffd_msg`, and where the address of a page fault is in it. Without further features all messages are page faults.
const MESSAGE_BYTES: usize = 32;
const ADDRESS: Range<usize> = 16..24;

impl FaultServer {
    /// Starts the thread, on the CPUs on which this thread may run.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the kernel has no userfaultfd(2), or something forbids it, with what that may be; otherwise the errors of
    /// mmap(2) and of starting a thread.
    pub fn start() -> io::Result<Self> {
        Self::answering_with(vec![0; base_page_bytes()])
    }

    fn answering_with(page: Vec<u8>) -> io::Result<Self> {
        let faults = Arc::new(open()?);
        let mut api = uffdio_api { api: UFFD_API.into(), features: 0, ioctls: 0 };
        // SAFETY: the structure of this request, which the kernel reads and fills during the call.
        check(unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_API as _, &raw mut api) })?;
        let last = Arena::map(1, PageSize::Base)?;
        let mut server = Self { faults: Arc::clone(&faults), last, thread: None };
        server.register(&server.last)?;
        let last = server.last.address();
        let thread = thread::Builder::new().name("fault server".to_owned());
        server.thread = Some(thread.spawn(move || serve(&faults, &page, last))?);
        Ok(server)
    }

    /// Lets the thread answer page faults of this memory until it is unmapped. Nothing of it is in memory yet.
    ///
    /// # Errors
    ///
    /// Those of `UFFDIO_REGISTER`.
    pub fn register(&self, arena: &Arena) -> io::Result<()> {
        let range = uffdio_range { start: arena.address() as u64, len: arena.len() as u64 };
        let mode = UFFDIO_REGISTER_MODE_MISSING.into();
        let mut register = uffdio_register { range, mode, ioctls: 0 };
        // SAFETY: the structure of this request. Pages of an arena, which is zeroes until somebody writes to it, then come from the
        // server instead.
        check(unsafe {
            libc::ioctl(self.faults.as_raw_fd(), UFFDIO_REGISTER as _, &raw mut register)
        })
        .map(drop)
    }

    /// Ends the thread, and returns how many page faults it has answered; 0 if it had ended before.
    ///
    /// # Errors
    ///
    /// The first page fault that it could not answer, and left to the kernel.
    pub fn end(&mut self) -> io::Result<u64> {
        let Some(thread) = self.thread.take() else { return Ok(0) };
        if !thread.is_finished() {
            write_pages(self.last.as_mut_slice(), base_page_bytes(), 0..1);
        }
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that serves faults panicked")))
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        // Its errors belong to what was measured, which is over.
        let _ = self.end();
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: nothing is registered with it yet.
    let open = |flags| unsafe { rustix::mm::userfaultfd(flags) };
    // Faults within the kernel need a privilege, and are not served here.
    let user_mode = UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY);
    let opened = match open(UserfaultfdFlags::CLOEXEC | user_mode) {
        Err(Errno::INVAL) => open(UserfaultfdFlags::CLOEXEC),
        opened => opened,
    };
    opened.map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => unsupported(
            "userfaultfd(2) is forbidden, by a seccomp filter, such as containers have, or before Linux 5.11 by \
             vm.unprivileged_userfaultfd=0 (run it outside the container, or as root)",
        ),
        Errno::NOSYS => unsupported("this kernel has no userfaultfd(2) (CONFIG_USERFAULTFD)"),
        other => with_context("userfaultfd(2)", other),
    })
}

/// Answers page faults until the page at `last` is touched, by one read and one copy each, and counts the others.
fn serve(faults: &OwnedFd, page: &[u8], last: usize) -> io::Result<u64> {
    let mut answered = Ok(0);
    loop {
        let mut message = [0_u8; MESSAGE_BYTES];
        let mut address = [0_u8; size_of::<u64>()];
        rustix::io::retry_on_intr(|| rustix::io::read(faults, &mut message))?;
        address.copy_from_slice(&message[ADDRESS]);
        let start = u64::from_ne_bytes(address) & !(base_page_bytes() as u64 - 1);
        let (src, len) = (page.as_ptr().addr() as u64, page.len() as u64);
        let mut copy = uffdio_copy { dst: start, src, len, mode: 0, copy: 0 };
        // SAFETY: the structure of this request. The page is registered, and not in memory, so that nothing that somebody has read
        // or written changes; it gets zeroes, as without a server.
        let copied =
            retry(|| unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_COPY as _, &raw mut copy) });
        if let Err(error) = copied {
            let mut range = uffdio_range { start, len: base_page_bytes() as u64 };
            // SAFETY: the structure of this request, which wakes who waits for the page, and lets the kernel bring it in.
            let _ =
                unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_UNREGISTER as _, &raw mut range) };
            answered = answered.and(Err(with_context("cannot answer a page fault", error)));
        }
        if start == last as u64 {
            return answered;
        }
        answered = answered.map(|count| count + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::touch::read_pages;
    use crate::process::seccomp;

    const PAGES: usize = 10;

    fn arena() -> Arena {
        Arena::map(PAGES * base_page_bytes(), PageSize::Base).unwrap()
    }

    fn write(arena: &mut Arena, pages: Range<usize>) {
        write_pages(arena.as_mut_slice(), base_page_bytes(), pages);
    }

    /// `None` where this machine forbids it.
    fn start(page: Vec<u8>) -> Option<FaultServer> {
        let started = FaultServer::answering_with(page);
        let is_forbidden = |error: &io::Error| error.kind() == io::ErrorKind::Unsupported;
        if let Some(error) = started.as_ref().err().filter(|error| is_forbidden(error)) {
            eprintln!("checked nothing: {error}");
            return None;
        }
        Some(started.unwrap())
    }

    #[test]
    fn another_thread_brings_each_page_in() {
        let Some(mut server) = start(vec![0; base_page_bytes()]) else { return };
        let mut arena = arena();
        server.register(&arena).unwrap();
        write(&mut arena, 2..PAGES);
        write(&mut arena, 2..PAGES);
        assert_eq!(read_pages(arena.as_slice(), base_page_bytes(), 1..PAGES), PAGES as u64 - 2);
        assert_eq!(server.end().unwrap(), PAGES as u64 - 1);
        assert_eq!(server.end().unwrap(), 0);
    }

    #[test]
    fn a_fault_that_cannot_be_answered_is_an_error_and_blocks_nobody() {
        let Some(mut server) = start(Vec::new()) else { return };
        let mut arena = arena();
        server.register(&arena).unwrap();
        write(&mut arena, 0..PAGES);
        let error = server.end().unwrap_err();
        assert!(error.to_string().starts_with("cannot answer a page fault: Invalid"), "{error}");
    }

    #[test]
    fn a_filter_that_forbids_it_is_named() {
        let under_a_filter = || {
            seccomp::refuse(libc::SYS_userfaultfd as u32).unwrap();
            FaultServer::start().unwrap_err()
        };
        let error = thread::spawn(under_a_filter).join().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("seccomp filter"), "{error}");
    }
}
