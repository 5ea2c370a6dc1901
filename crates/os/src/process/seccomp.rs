//! Filters of system calls that a process puts on itself, for good.
//!
//! Source: seccomp(2); Linux Documentation/userspace-api/seccomp_filter.rst, and kernel/seccomp.c on calls that every filter
//! allows by their number alone (Linux 5.11).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::process::child::{Child, exit_at_once};
use crate::system_call::check;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, set_parent_process_death_signal};
use rustix::thread::set_no_new_privs;

/// Words of `struct seccomp_data`: the number of the call, and its first argument.
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = 16;

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Puts a filter on this thread, and on all that it starts from then on, which allows every system call after it has
/// compared the first argument with this many values. With 0 the kernel knows beforehand that it allows all, and does not run it
/// (Linux 5.11). The process can then gain no privileges by executing a program (`no_new_privs`).
///
/// # Errors
///
/// Those of seccomp(2): `EINVAL` without CONFIG_SECCOMP_FILTER.
pub fn allow_after(compared: u8) -> io::Result<()> {
    let loaded = (compared > 0).then(|| step(LOAD_WORD, 0, FIRST_ARGUMENT));
    let mut steps: Vec<_> = loaded.into_iter().collect();
    // A match leads to the same end, so that no call can fail by chance.
    let compare =
        |position| step(JUMP_IF_EQUAL, compared - 1 - position, 0x7f00_0000 + u32::from(position));
    steps.extend((0..compared).map(compare));
    steps.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    install(&steps, 0).map(drop)
}

/// Puts a filter on this thread that refuses this system call.
#[cfg(test)]
pub(crate) fn refuse(call: u32) -> io::Result<()> {
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let skip = libc::sock_filter { jf: 1, ..step(JUMP_IF_EQUAL, 0, call) };
    let ends = [refusal, libc::SECCOMP_RET_ALLOW].map(|answer| step(RETURN, 0, answer));
    install(&[step(LOAD_WORD, 0, NUMBER), skip, ends[0], ends[1]], 0).map(drop)
}

/// A process that is asked about each getppid(2) of the process that started it, and lets it go on.
#[derive(Debug)]
pub struct Supervisor(Child);

impl Supervisor {
    /// Starts it, and puts the filter on this thread that asks it (`SECCOMP_RET_USER_NOTIF`, Linux 5.5). When it ends, getppid(2)
    /// fails on this thread, which nothing here needs.
    ///
    /// # Errors
    ///
    /// Those of seccomp(2), pidfd_open(2) and fork(2); `EBUSY` if another supervisor exists already.
    pub fn start() -> io::Result<Self> {
        const NEW_LISTENER: libc::c_ulong = 1 << 3;
        let steps = [
            step(LOAD_WORD, 0, NUMBER),
            libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: libc::SYS_getppid as u32 },
            step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let listener = install(&steps, NEW_LISTENER)?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else owns it.
        let listener = unsafe { OwnedFd::from_raw_fd(listener as libc::c_int) };
        let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
        // SAFETY: the child makes system calls alone, on what is on its stack.
        match Child::started(unsafe { libc::fork() })? {
            Some(child) => Ok(Self(child)),
            None => supervise(&listener, &parent),
        }
    }

    /// Whether it still answers.
    pub fn is_running(&self) -> bool {
        !self.0.has_ended()
    }
}

/// The supervisor's work: lets each call go on, until there is nobody left to be asked.
fn supervise(listener: &OwnedFd, parent: &OwnedFd) -> ! {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // A parent that ended before sends no signal. getppid would not tell: this process has the filter too, and would ask itself.
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut [PollFd::new(parent, PollFlags::IN)], Some(&now)) != Ok(0) {
        exit_at_once(1)
    }
    let listener = listener.as_raw_fd();
    loop {
        /// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`, Linux 5.5.
        const CONTINUE: u64 = 1;
        /// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`.
        const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
        const SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
        // `struct seccomp_notif`, which begins with an id, and `struct seccomp_notif_resp`: the id, a value, an error and flags.
        let mut asked = [0_u64; 10];
        // SAFETY: the structure has the size that the request names, and zeroes, as it must.
        let received = unsafe { libc::ioctl(listener, RECEIVE, &raw mut asked) };
        let answer = [asked[0], 0, CONTINUE << 32];
        // SAFETY: the structure has the size that the request names.
        if received < 0 || unsafe { libc::ioctl(listener, SEND, &raw const answer) } < 0 {
            let error = io::Error::last_os_error().raw_os_error();
            // The caller was interrupted, and asks again.
            if !matches!(error, Some(libc::EINTR | libc::ENOENT)) {
                exit_at_once(1)
            }
        }
    }
}

const fn step(code: u16, if_true: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: 0, k }
}

/// The answer of seccomp(2): with `NEW_LISTENER` a descriptor.
fn install(steps: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    set_no_new_privs(true)?;
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_ptr().cast_mut() };
    // SAFETY: the filter and its steps are valid to read during the call, which copies them.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn passes(test: &str) {
        let child = crate::process::tests::child(&format!("seccomp::tests::{test}")).output();
        let output = child.unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn filters() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("Seccomp_filters:")).unwrap_or("").to_owned()
    }

    #[test]
    fn a_filter_allows_all_whatever_it_compares() {
        passes("child_under_filters");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_under_filters() {
        allow_after(0).unwrap();
        allow_after(u8::MAX).unwrap();
        assert!(filters().is_empty() || filters().ends_with('2'), "{}", filters());
        assert!(crate::process::parent().is_some());
    }

    #[test]
    fn a_supervisor_lets_calls_go_on() {
        passes("child_under_a_supervisor");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_under_a_supervisor() {
        let parent = crate::process::parent();
        match Supervisor::start() {
            Ok(supervisor) => {
                assert_eq!(crate::process::parent(), parent);
                assert!(supervisor.is_running());
                drop(supervisor);
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
