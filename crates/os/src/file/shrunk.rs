//! A mapped file that becomes shorter: a load beyond its end raises SIGBUS, which would end the
//! process. While a [`Guard`] lives, such a load reads zeroes, and the guard records that it
//! happened.
//!
//! Source: mmap(2) on SIGBUS, sigaction(2), signal-safety(7).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::arena::base_page_bytes;
use crate::system_call::check;

static ONLY: Mutex<()> = Mutex::new(());
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static SHRUNK: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread has the guard: waiting for itself would deadlock.
    static IS_GUARDING: Cell<bool> = const { Cell::new(false) };
}

/// Guards one range of addresses. A handler belongs to the whole process, so one guard exists at a
/// time, and waits for one of another thread to be dropped.
#[derive(Debug)]
pub(super) struct Guard {
    previous: libc::sigaction,
    _only: MutexGuard<'static, ()>,
}

impl Guard {
    /// Guards these bytes of a mapping that the caller owns.
    ///
    /// # Errors
    ///
    /// `EDEADLK` if this thread has a guard; the errors of sigaction(2).
    pub(super) fn install(start: *const u8, bytes: usize) -> io::Result<Self> {
        if IS_GUARDING.get() {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        START.store(start.addr(), Ordering::Relaxed);
        BYTES.store(bytes, Ordering::Relaxed);
        PAGE_BYTES.store(base_page_bytes(), Ordering::Relaxed);
        SHRUNK.store(false, Ordering::Relaxed);
        // SAFETY: all zeros is a valid value of these plain structures of C.
        let (mut action, mut previous): (libc::sigaction, libc::sigaction) =
            unsafe { mem::zeroed() };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = patch;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the actions are valid, and the handler makes only system calls.
        check(unsafe { libc::sigaction(libc::SIGBUS, &action, &mut previous) })?;
        IS_GUARDING.set(true);
        Ok(Self { previous, _only: only })
    }

    /// Whether a load went beyond the file's end.
    pub(super) fn shrank(&self) -> bool {
        SHRUNK.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: what was there before is put back.
        unsafe { libc::sigaction(libc::SIGBUS, &self.previous, ptr::null_mut()) };
        IS_GUARDING.set(false);
    }
}

/// Maps a page of zeroes where the file has none, so that the load succeeds.
extern "C" fn patch(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands a valid structure, of a signal that has an address.
    let address = unsafe { (*info).si_addr() };
    let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let offset = address.addr().wrapping_sub(START.load(Ordering::Relaxed));
    if offset < BYTES.load(Ordering::Relaxed) {
        SHRUNK.store(true, Ordering::Relaxed);
        let page = address.map_addr(|address| address & !(page_bytes - 1));
        // SAFETY: the page lies in the mapping that is guarded, of which only reads are made by
        // raw pointers; a raw call that takes no lock.
        let mapped = unsafe {
            libc::mmap(
                page,
                page_bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped == page {
            return;
        }
    }
    // Another fault, or the mapping failed: it ends the process as it would have without the guard. SAFETY:
    // takes numbers only; the load is made again when this returns.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}
