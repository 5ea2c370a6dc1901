//! A child process that does not outlive its purpose.
//!
//! Source: fork(2), prctl(2) on `PR_SET_PDEATHSIG`, waitid(2).

use std::io;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::system_call::check;

/// A child that is killed, and waited for, when this is dropped.
#[derive(Debug)]
pub(crate) struct Child(Pid);

impl Child {
    /// The return value of fork(2) or clone(2): `None` in the child itself.
    pub(crate) fn started(answer: libc::c_int) -> io::Result<Option<Self>> {
        Ok(Pid::from_raw(check(answer)?).map(Self))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }

    /// Whether it has ended; its status can still be read.
    pub(crate) fn has_ended(&self) -> bool {
        has_ended(self.0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; then only its status is read. There is none if this process was
        // started with SIGCHLD ignored: then its number may be that of another process by now.
        if !self.has_ended() {
            let _ = rustix::process::kill_process(self.0, Signal::KILL);
        }
        let _ = retry_on_intr(|| rustix::process::waitpid(Some(self.0), WaitOptions::empty()));
    }
}

/// Ends a child of fork(2) at once, without running what its parent has to run at its own end.
pub(crate) fn exit_at_once(code: i32) -> ! {
    // SAFETY: takes a number, and returns to nobody.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from this one on.
///
/// # Safety
///
/// None of them may be used any more.
pub(crate) unsafe fn close_from(first: libc::c_int) {
    const MANY: libc::c_int = 1024;
    // SAFETY: takes numbers; Linux 5.9. Before, the usual ones one by one, which may be no descriptors.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            (first..MANY).for_each(|descriptor| {
                libc::close(descriptor);
            });
        }
    }
}

/// Whether a child has ended; its status can still be read.
pub(crate) fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(child), options), Ok(None))
}

/// In a child: makes the kernel kill it when its parent ends. Returns whether the parent still exists; one
/// that ended before sends no signal.
pub(crate) fn ends_with(parent: Pid) -> bool {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    rustix::process::getppid() == Some(parent)
}
