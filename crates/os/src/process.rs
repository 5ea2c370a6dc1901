//! A process as the kernel sees it: what it inherited, what it may use, and how it ends.
//!
//! Source: prctl(2), proc(5), getrlimit(2), kill(2).

pub mod attempt;
pub mod bpf;
pub mod bpf_statistics;
pub mod cgroup;
pub(crate) mod child;
pub mod command;
pub mod command_reader;
mod executable;
pub mod line_program;
pub mod namespace;
pub mod overlay;
pub mod ptrace;
pub mod ring_calls;
pub mod seccomp;
pub mod shared_object;
pub mod signals;
pub mod spawn;
pub mod speculation;
pub mod stat;
pub(crate) mod status;
pub mod syscalls;
pub mod tally;
pub mod tracer;
pub mod uncopied;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::system_call::{check, invalid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::process::{Pid, Resource, Signal, getppid};
use rustix::stdio::{dup2_stdout, stderr, stdin, stdout};
use signals::Installed;
use status::{STATUS, status_bytes};

/// Sets the name of the process in ps(1) and top(1), at most 15 bytes. By default, the kernel takes the last
/// part of the path that was executed. Call this from the first thread.
///
/// # Errors
///
/// The errors of prctl(2) with `PR_SET_NAME`; none is known.
pub fn name(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// For `OpenOptions::custom_flags`: the last part of the path must not be a symbolic link (open(2),
/// `O_NOFOLLOW`).
pub const NO_FOLLOW: i32 = libc::O_NOFOLLOW;

/// For `OpenOptions::custom_flags`: to open a pipe does not wait for its other end (open(2),
/// `O_NONBLOCK`).
pub const NO_WAIT: i32 = libc::O_NONBLOCK;

/// The process that has started this one, or has adopted it since; `None` if that is outside this process's
/// pid namespace.
pub fn parent() -> Option<i32> {
    getppid().map(Pid::as_raw_pid)
}

/// Makes the kernel end this process when the thread that started it ends, so that thread must last. The
/// kernel forgets this when the process executes a `setuid` program, see `PR_SET_PDEATHSIG` in prctl(2).
///
/// The kernel's signal is SIGTERM, see [`end_group_on_sigterm`].
///
/// # Errors
///
/// `NotFound` if the parent ended while this was being set, so that no signal will come. A parent
/// that ended before cannot be distinguished from a foster parent: watch standard input too.
pub fn die_with_parent() -> io::Result<()> {
    let parent = getppid();
    end_group_on_sigterm()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != parent {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the parent process has ended"));
    }
    Ok(())
}

/// From now on, SIGTERM ends this process and, if it leads a process group, the whole group, so that its
/// children do not outlive it.
///
/// # Errors
///
/// The errors of sigaction(2); none is known.
pub fn end_group_on_sigterm() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = end_group;
    // SAFETY: the handler makes only async-signal-safe calls and does not return.
    unsafe { Installed::new(libc::SIGTERM, handler as libc::sighandler_t, 0) }.map(drop)
}

extern "C" fn end_group(signal: libc::c_int) {
    exit_with_group(128 + signal);
}

/// The kernel ends this process by SIGALRM after this time, which begins now, even if it spins; the time is rounded up to
/// whole seconds. `None` lifts the limit. Children do not inherit it, but end with their parent. Until then it costs
/// nothing.
///
/// # Errors
///
/// The errors of sigaction(2) and sigprocmask(2); none is known.
///
/// Source: alarm(2).
pub fn end_after(limit: Option<Duration>) -> io::Result<()> {
    let seconds = limit.map_or(0, |limit| limit.as_secs().saturating_add(1));
    // SAFETY: the mask is initialised before it is read, and nothing else in this program uses this signal.
    unsafe {
        let mut alarm = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(alarm.as_mut_ptr());
        libc::sigaddset(alarm.as_mut_ptr(), libc::SIGALRM);
        // Whoever started this process may have had it ignored or blocked.
        if libc::signal(libc::SIGALRM, libc::SIG_DFL) == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
        check(libc::sigprocmask(libc::SIG_UNBLOCK, alarm.as_ptr(), std::ptr::null_mut()))?;
        libc::alarm(u32::try_from(seconds).unwrap_or(u32::MAX));
    }
    Ok(())
}

/// Waits until nothing more can arrive on standard input: the other ends of the pipe or socket are closed. It
/// does not matter whether everything was read. If standard input is neither, it waits forever.
///
/// # Errors
///
/// The errors of poll(2).
pub fn wait_for_hangup() -> io::Result<()> {
    let mut input = [PollFd::from_borrowed_fd(stdin(), PollFlags::RDHUP)];
    retry_on_intr(|| poll(&mut input, None))?;
    Ok(())
}

/// Whether a write of at most 4 KiB to a pipe, socket or terminal would not wait for its reader (poll(2), `POLLOUT`);
/// true for a file, and where the kernel does not report it.
pub fn can_write(output: &impl AsFd) -> bool {
    let mut output = [PollFd::new(output, PollFlags::OUT)];
    let at_once = rustix::event::Timespec::default();
    retry_on_intr(|| poll(&mut output, Some(&at_once))) != Ok(0)
}

/// Ends this process at once, without flushing or unwinding: killed (SIGKILL) with its whole process group if
/// it leads one, otherwise alone and with this exit code.
pub fn exit_with_group(code: i32) -> ! {
    // SAFETY: these calls are async-signal-safe and take no addresses; group 0 is one's own.
    unsafe {
        // rustix cannot do this: it expects a group to have a number, but a group outside the pid namespace
        // has 0.
        if libc::getpgrp() == libc::getpid() {
            libc::kill(0, libc::SIGKILL);
        }
        libc::_exit(code)
    }
}

/// Lets a write beyond the limit on the size of files (RLIMIT_FSIZE) fail with EFBIG, as on a full disk, where it
/// would end the process by SIGXFSZ. Children inherit this.
pub fn survive_file_size_limit() {
    // SAFETY: no handler runs, and this signal is nobody else's.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether this process ignores SIGHUP, as nohup(1) starts programs; false where the kernel does not report it.
pub fn ignores_hangup() -> bool {
    let mask = fs::read_to_string(STATUS).ok().and_then(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        u64::from_str_radix(mask?.trim(), 16).ok()
    });
    mask.is_some_and(|mask| mask & 1 << (libc::SIGHUP - 1) != 0)
}

/// Ignores SIGHUP from now on. Children inherit this.
pub fn ignore_hangup() {
    // SAFETY: no handler runs.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Makes this process the first that the kernel kills when memory runs out (/proc/self/oom_score_adj = 1000).
/// Its children inherit this.
///
/// # Errors
///
/// If the file cannot be written (a read-only or missing /proc).
pub fn be_oom_victim() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Keeps standard output for the caller alone: a duplicate of descriptor 1 that stray prints
/// cannot reach and that no child inherits, and descriptor 1 pointing where standard error does.
///
/// Call this once, before anything is printed: otherwise, text that Rust's `stdout` still holds would go to
/// standard error.
///
/// # Errors
///
/// The errors of fcntl(2) and dup2(2): descriptor 1 or 2 is closed, or there are too many.
pub fn private_stdout() -> io::Result<File> {
    const LOWEST: i32 = 3;
    let private = fcntl_dupfd_cloexec(stdout(), LOWEST)?;
    // As a shell's `1>&2` does.
    dup2_stdout(stderr())?;
    Ok(private.into())
}

/// Kills (SIGKILL) every process of the group that `pid` leads. A group that has already ended is
/// no error.
///
/// # Errors
///
/// `InvalidInput` for 0 and 1, which have another meaning for kill(2), and for numbers that are not a process
/// id; `PermissionDenied` if none of the processes may be killed.
pub fn kill_group(pid: u32) -> io::Result<()> {
    signal_group(pid, Signal::KILL)
}

/// The same by SIGTERM, which lets processes clean up.
pub fn terminate_group(pid: u32) -> io::Result<()> {
    signal_group(pid, Signal::TERM)
}

fn signal_group(pid: u32, signal: Signal) -> io::Result<()> {
    let group = i32::try_from(pid)
        .ok()
        .filter(|&pid| pid > 1)
        .and_then(Pid::from_raw)
        .ok_or_else(|| invalid(format!("{pid} leads no process group that may be killed")))?;
    match rustix::process::kill_process_group(group, signal) {
        Err(Errno::SRCH) => Ok(()),
        answer => Ok(answer?),
    }
}

/// The most that the stack of this process's first thread may have, in bytes (`RLIMIT_STACK`); none without a limit.
pub fn stack_limit_bytes() -> Option<u64> {
    rustix::process::getrlimit(Resource::Stack).current
}

/// By how many nanoseconds the kernel may delay this thread's timers, to serve several at once: 50,000 by
/// default, 0 for real-time threads. `None` if it does not report it (before Linux 2.6.28).
pub fn timer_slack_ns() -> Option<u64> {
    rustix::thread::current_timer_slack().ok()
}

/// What this process has in memory now (`VmRSS`), in bytes, by /proc/self/status, which lags behind by some
/// pages for each CPU.
///
/// # Errors
///
/// If the file cannot be read or does not report it.
pub fn resident_bytes() -> io::Result<u64> {
    let status = fs::read_to_string(STATUS)?;
    let all = status_bytes(&status, "VmRSS:");
    all.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

/// The threads of a process, and of the processes that it started and that run now: the numbers of process and thread.
///
/// # Errors
///
/// `NotFound` if there is no such process.
pub fn threads_of(process: u32) -> io::Result<Vec<(u32, u32)>> {
    let mut threads = Vec::new();
    let mut processes = vec![process];
    while let Some(process) = processes.pop() {
        let tasks = match fs::read_dir(format!("/proc/{process}/task")) {
            Err(error) if threads.is_empty() => {
                let error = io::Error::new(error.kind(), format!("no process {process}: {error}"));
                return Err(error);
            }
            // It has ended since.
            Err(_) => continue,
            Ok(tasks) => tasks,
        };
        for task in tasks.flatten() {
            let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
            threads.extend(thread.map(|thread| (process, thread)));
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            processes
                .extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Ok(threads)
}

/// The name of a thread now; `None` if it has ended.
pub(crate) fn task_name(thread: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{thread}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize};
    use std::env;
    use std::io::{Read, Write};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, Stdio};

    /// This test program as a child process that runs only one of the `child_` tests.
    pub(crate) fn child(test: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--ignored", "--nocapture", "--exact"])
            .arg(format!("process::{test}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    #[test]
    fn a_stray_print_does_not_reach_the_private_output() {
        let output = child("tests::child_prints").output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{out} {err}");
        assert!(out.contains("answer") && !out.contains("stray"), "{out}");
        assert!(err.contains("stray") && !err.contains("answer"), "{err}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_prints() {
        let mut private = private_stdout().unwrap();
        println!("stray");
        writeln!(private, "answer").unwrap();
        let flags = rustix::io::fcntl_getfd(&private).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        assert!(std::os::fd::AsRawFd::as_raw_fd(&private) > 2);
    }

    #[test]
    fn a_group_is_killed_whole() {
        let mut command = child("tests::child_waits");
        command.stdin(Stdio::piped()).process_group(0);
        let mut leader: Child = command.spawn().unwrap();
        kill_group(leader.id()).unwrap();
        assert_eq!(leader.wait().unwrap().signal(), Some(libc::SIGKILL));
        kill_group(leader.id()).unwrap();
        assert!(kill_group(0).is_err() && kill_group(1).is_err() && kill_group(u32::MAX).is_err());
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_waits() {
        let _ = std::io::stdin().read(&mut [0]);
    }

    #[test]
    fn a_process_that_spins_ends_by_its_own_deadline() {
        let status = child("tests::child_spins").output().unwrap().status;
        assert_eq!(status.signal(), Some(libc::SIGALRM));
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_spins() {
        end_after(Some(Duration::from_secs(600))).unwrap();
        end_after(None).unwrap();
        // The harness runs a test in a thread of its own: any thread of the process may spin.
        end_after(Some(Duration::ZERO)).unwrap();
        loop {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_child_can_be_made_ready_to_die() {
        let status = child("tests::child_is_expendable").output().unwrap().status;
        assert!(status.success());
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_is_expendable() {
        // The harness runs tests in a thread, so this one dies with the parent's thread.
        die_with_parent().unwrap();
        be_oom_victim().unwrap();
        let score = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        assert_eq!(score.trim(), "1000");
        rustix::process::setpgid(None, None).unwrap();
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_ignores_hangup() {
        assert!(!ignores_hangup());
        ignore_hangup();
        assert!(ignores_hangup());
    }

    #[test]
    fn a_process_knows_whether_it_ignores_hangups() {
        let ended = child("tests::child_ignores_hangup").output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    #[test]
    fn an_output_that_nobody_reads_cannot_be_written() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(can_write(&writer));
        writer.write_all(&[0; 1 << 16]).unwrap();
        assert!(!can_write(&writer));
        drop(reader);
        assert!(can_write(&writer), "a write fails at once");
        assert!(can_write(&File::open("/proc/self/exe").unwrap()));
    }

    #[test]
    fn what_is_touched_is_resident() {
        const BYTES: usize = 64 << 20;
        let added = || {
            let before = resident_bytes().unwrap();
            let mut arena = Arena::map(BYTES, PageSize::Base).unwrap();
            arena.populate().unwrap();
            resident_bytes().unwrap().saturating_sub(before)
        };
        // Other tests free as much meanwhile, but not every time.
        assert!((0..10).any(|_| added() > BYTES as u64 / 2));
    }
}
