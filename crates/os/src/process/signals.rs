//! Measured: installing a signal handler, and handling a signal.
//!
//! A handler belongs to the whole process, so only one [`Handler`] exists at a time; it restores
//! the previous one.
//!
//! Source: sigaction(2), tgkill(2), sigreturn(2), signal(7), sigaltstack(2).

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::MprotectFlags;

use crate::cpu::repeat::repeat;
use crate::memory::arena::{Arena, PageSize, base_page_bytes};
use crate::system_call::check;

/// How the signal is caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// tgkill(2) of the calling thread, SIGUSR1: handled as that call returns.
    Sent,
    /// A store to a page that is read-only, SIGSEGV.
    Fault,
}

impl Cause {
    /// Both, in the order of declaration.
    pub const ALL: [Self; 2] = [Self::Sent, Self::Fault];

    fn signal(self) -> c_int {
        match self {
            Self::Sent => libc::SIGUSR1,
            Self::Fault => libc::SIGSEGV,
        }
    }
}

/// A handler that counts, installed for one signal of this process and not blocked in the calling
/// thread, until it is dropped. Waits for another one to be dropped.
#[derive(Debug)]
pub struct Handler {
    cause: Cause,
    installed: Installed,
    page: ReadOnlyPage,
    thread: libc::c_long,
    _only: MutexGuard<'static, ()>,
}

static ONLY: Mutex<()> = Mutex::new(());
/// How many signals were handled. Only the thread that owns the handler causes any.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// The address whose faults are handled.
static READ_ONLY: AtomicUsize = AtomicUsize::new(0);

impl Handler {
    /// Installs the handler.
    ///
    /// # Errors
    ///
    /// The errors of mmap(2); sigaction(2) has none.
    pub fn install(cause: Cause) -> io::Result<Self> {
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let page = ReadOnlyPage::map()?;
        READ_ONLY.store(page.arena.address(), Ordering::Relaxed);
        HANDLED.store(0, Ordering::Relaxed);
        let (handler, flags) = match cause {
            Cause::Sent => {
                let handler: extern "C" fn(c_int) = count;
                (handler as libc::sighandler_t, 0)
            }
            Cause::Fault => {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = step_over;
                (handler as libc::sighandler_t, libc::SA_SIGINFO)
            }
        };
        Ok(Self {
            cause,
            // SAFETY: the handlers do only what is safe in one, and take what the flags say.
            installed: unsafe { Installed::new(cause.signal(), handler, flags) }?,
            page,
            // SAFETY: takes nothing and cannot fail.
            thread: unsafe { libc::syscall(libc::SYS_gettid) },
            _only: only,
        })
    }

    /// Installs the same handler again, `n` times.
    pub fn reinstall(&self, n: u64) {
        repeat(n, || {
            // SAFETY: the action is valid to read, and was installed before.
            unsafe {
                libc::sigaction(self.cause.signal(), &self.installed.action, ptr::null_mut())
            };
        });
    }

    /// Whether the kernel now has this handler.
    pub fn is_installed(&self) -> bool {
        // SAFETY: all zeros is a valid value of this plain structure of C.
        let mut now: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only asks; the action is valid to write to.
        let status = unsafe { libc::sigaction(self.cause.signal(), ptr::null(), &mut now) };
        status == 0 && now.sa_sigaction == self.installed.action.sa_sigaction
    }

    /// Causes the signal `n` times in the thread that installed the handler. Each is handled before the next.
    pub fn handle(&mut self, n: u64) {
        match self.cause {
            Cause::Sent => {
                let process = std::process::id();
                repeat(n, || {
                    // SAFETY: takes numbers; the signal has a handler.
                    unsafe {
                        libc::syscall(libc::SYS_tgkill, process, self.thread, libc::SIGUSR1);
                    }
                });
            }
            Cause::Fault => repeat(n, || self.page.store()),
        }
    }

    /// How many signals this handler has handled.
    pub fn handled(&self) -> u64 {
        HANDLED.load(Ordering::Relaxed)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.installed.restore(self.cause.signal());
        READ_ONLY.store(0, Ordering::Relaxed);
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

fn count_one() {
    // Only one thread handles signals, so this need not be one atomic operation.
    HANDLED.store(HANDLED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

extern "C" fn count(_: c_int) {
    count_one();
}

/// A fault of [`ReadOnlyPage::store`] continues after the store; any other kills the process, as it should.
/// Nothing else stores to that page. (Who may send signals with a forged address may do worse by ptrace(2).)
extern "C" fn step_over(_: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the information of a fault.
    let address = unsafe { (*information).si_addr() };
    if address.addr() != READ_ONLY.load(Ordering::Relaxed) {
        // SAFETY: async-signal-safe; the faulting instruction then runs, and kills, again.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    count_one();
    // SAFETY: the kernel gives a valid context, alive while the handler runs.
    let machine = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        machine.gregs[libc::REG_RIP as usize] = machine.gregs[libc::REG_RAX as usize];
    }
    #[cfg(target_arch = "aarch64")]
    {
        machine.pc = machine.regs[9];
    }
}

/// A page that is in memory and cannot be written to.
#[derive(Debug)]
struct ReadOnlyPage {
    arena: Arena,
}

impl ReadOnlyPage {
    fn map() -> io::Result<Self> {
        let mut arena = Arena::map(base_page_bytes(), PageSize::Base)?;
        arena.populate()?;
        // SAFETY: the range is the arena's own, of which no slice is made from now on.
        unsafe { rustix::mm::mprotect(arena.start().cast(), arena.len(), MprotectFlags::READ) }?;
        Ok(Self { arena })
    }

    /// Stores to it, which faults. [`step_over`] continues at the address in a register.
    #[inline]
    fn store(&mut self) {
        let page = self.arena.start();
        // SAFETY: the store never happens: it faults, since the page is read-only, and the handler,
        // which exists whenever this runs, goes on at the label. It changes no other register.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "lea rax, [rip + 2f]",
                "mov byte ptr [{page}], 1",
                "2:",
                page = in(reg) page,
                out("rax") _,
                options(nostack)
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "adr x9, 2f",
                "strb wzr, [{page}]",
                "2:",
                page = in(reg) page,
                out("x9") _,
                options(nostack)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_handled_before_the_next() {
        for cause in Cause::ALL {
            let mut handler = Handler::install(cause).unwrap();
            let mut handled = 0;
            for n in [0, 1, 7, 8, 1_000] {
                handler.handle(n);
                handled += n;
                assert_eq!(handler.handled(), handled, "{cause:?}");
            }
        }
    }

    #[test]
    fn what_was_there_before_is_put_back() {
        let current = |signal| {
            // SAFETY: all zeros is a valid value, and only the action is asked for.
            unsafe {
                let mut now: libc::sigaction = mem::zeroed();
                assert_eq!(libc::sigaction(signal, ptr::null(), &mut now), 0);
                now.sa_sigaction
            }
        };
        for cause in Cause::ALL {
            // Other tests may not change it meanwhile.
            let before = {
                let _only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
                current(cause.signal())
            };
            let handler = Handler::install(cause).unwrap();
            handler.reinstall(10);
            assert!(handler.is_installed());
            assert_ne!(current(cause.signal()), before);
            drop(handler);
            let _only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(current(cause.signal()), before);
        }
    }
}
