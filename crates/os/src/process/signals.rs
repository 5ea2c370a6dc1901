//! Measured: installing a signal handler, and handling a signal.
//!
//! A handler belongs to the whole process, so only one [`Handler`] exists at a time; it restores
//! the previous one.
//!
//! Source: sigaction(2), tgkill(2), sigreturn(2), signal(7).

use std::ffi::c_int;
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::repeat::repeat;
use crate::system_call::check;

const SIGNAL: c_int = libc::SIGUSR1;

/// A handler that counts, installed for SIGUSR1 of this process and not blocked in the calling
/// thread, until it is dropped. Waits for another one to be dropped.
#[derive(Debug)]
pub struct Handler {
    installed: Installed,
    thread: libc::c_long,
    _only: MutexGuard<'static, ()>,
}

static ONLY: Mutex<()> = Mutex::new(());
/// How many signals were handled. Only the thread that owns the handler causes any.
static HANDLED: AtomicU64 = AtomicU64::new(0);

impl Handler {
    /// Installs the handler.
    ///
    /// # Errors
    ///
    /// Those of sigaction(2), which has none for this signal.
    pub fn install() -> io::Result<Self> {
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        HANDLED.store(0, Ordering::Relaxed);
        let handler: extern "C" fn(c_int) = count;
        Ok(Self {
            // SAFETY: the handler does only what is safe in one, and takes what no flags say.
            installed: unsafe { Installed::new(SIGNAL, handler as libc::sighandler_t, 0) }?,
            // SAFETY: takes nothing and cannot fail.
            thread: unsafe { libc::syscall(libc::SYS_gettid) },
            _only: only,
        })
    }

    /// Installs the same handler again, `n` times.
    pub fn reinstall(&self, n: u64) {
        repeat(n, || {
            // SAFETY: the action is valid to read, and was installed before.
            unsafe { libc::sigaction(SIGNAL, &self.installed.action, ptr::null_mut()) };
        });
    }

    /// Whether the kernel now has this handler.
    pub fn is_installed(&self) -> bool {
        // SAFETY: all zeros is a valid value of this plain structure of C.
        let mut now: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only asks; the action is valid to write to.
        let status = unsafe { libc::sigaction(SIGNAL, ptr::null(), &mut now) };
        status == 0 && now.sa_sigaction == self.installed.action.sa_sigaction
    }

    /// Sends the signal `n` times to the thread that installed the handler (tgkill). Each is handled as that call returns.
    pub fn handle(&mut self, n: u64) {
        let process = std::process::id();
        repeat(n, || {
            // SAFETY: takes numbers; the signal has a handler.
            unsafe {
                libc::syscall(libc::SYS_tgkill, process, self.thread, SIGNAL);
            }
        });
    }

    /// How many signals this handler has handled.
    pub fn handled(&self) -> u64 {
        HANDLED.load(Ordering::Relaxed)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.installed.restore(SIGNAL);
    }
}

/// The installed handler of a signal, and the previous one.
#[derive(Debug)]
pub(crate) struct Installed {
    action: libc::sigaction,
    previous: libc::sigaction,
    previous_mask: libc::sigset_t,
}

impl Installed {
    /// Installs this function as the handler of a signal, and unblocks the signal in the calling thread: a
    /// parent may have left it blocked.
    ///
    /// # Safety
    ///
    /// The handler takes the arguments that the flags determine, and does only what is safe in a signal
    /// handler.
    pub(crate) unsafe fn new(
        signal: c_int,
        handler: libc::sighandler_t,
        flags: c_int,
    ) -> io::Result<Self> {
        // SAFETY: all zeros is a valid value of these plain structures of C.
        let (mut installed, mut mask): (Self, libc::sigset_t) = unsafe { mem::zeroed() };
        installed.action.sa_sigaction = handler;
        installed.action.sa_flags = flags;
        // SAFETY: the sets and actions are valid, and the caller answers for the handler.
        check(unsafe {
            libc::sigemptyset(&mut installed.action.sa_mask)
                | libc::sigemptyset(&mut mask)
                | libc::sigaddset(&mut mask, signal)
                | libc::sigaction(signal, &installed.action, &mut installed.previous)
                | libc::pthread_sigmask(libc::SIG_UNBLOCK, &mask, &mut installed.previous_mask)
        })?;
        Ok(installed)
    }

    /// Puts back the previous handler, and the calling thread's mask.
    pub(crate) fn restore(&self, signal: c_int) {
        // SAFETY: both were given by the kernel and are put back; what was there before this
        // handler was allowed to be there.
        unsafe {
            libc::sigaction(signal, &self.previous, ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.previous_mask, ptr::null_mut());
        }
    }
}

extern "C" fn count(_: c_int) {
    // Only one thread handles signals, so this need not be one atomic operation.
    HANDLED.store(HANDLED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_handled_before_the_next() {
        let mut handler = Handler::install().unwrap();
        let mut handled = 0;
        for n in [0, 1, 7, 8, 1_000] {
            handler.handle(n);
            handled += n;
            assert_eq!(handler.handled(), handled);
        }
    }

    #[test]
    fn what_was_there_before_is_put_back() {
        let current = || {
            // SAFETY: all zeros is a valid value, and only the action is asked for.
            unsafe {
                let mut now: libc::sigaction = mem::zeroed();
                assert_eq!(libc::sigaction(SIGNAL, ptr::null(), &mut now), 0);
                now.sa_sigaction
            }
        };
        // Other tests may not change it meanwhile.
        let before = {
            let _only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
            current()
        };
        let handler = Handler::install().unwrap();
        handler.reinstall(10);
        assert!(handler.is_installed());
        assert_ne!(current(), before);
        drop(handler);
        let _only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(current(), before);
    }
}
