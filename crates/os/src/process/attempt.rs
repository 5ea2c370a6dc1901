//! What the kernel lets a process do on this machine, tried in a child that ends afterwards. So no
//! namespace is left, and a seccomp filter that kills on a forbidden call kills only the child.
//!
//! Source: fork(2), unshare(2), user_namespaces(7), io_uring_setup(2), perf_event_open(2),
//! signal-safety(7).

use std::ffi::CStr;
use std::io::{self, PipeWriter, Read};

use crate::memory::registered_buffer::Ring;
use crate::perf;
use crate::process::child::exit_at_once;
use crate::system_call::with_context;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, setrlimit};
use rustix::thread::UnshareFlags;

/// Something that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A user namespace in which this user is root: Linux 3.8, CONFIG_USER_NS; without root only if nothing
    /// forbids it. Its maps are written too, since some systems allow creating it but not using it.
    UserNamespace,
    /// A network namespace: Linux 2.6.24, CONFIG_NET_NS; as root, or after an [`Attempt::UserNamespace`].
    NetworkNamespace,
    /// A ring of io_uring: Linux 5.1, CONFIG_IO_URING; `kernel.io_uring_disabled` (6.6) and many
    /// containers forbid it.
    IoUring,
    /// A perf event that counts nothing, in user space only: Linux 3.14, CONFIG_PERF_EVENTS. If this is
    /// refused, so is every other.
    PerfEvent,
}

/// Makes these attempts, one after the other, in one child process that then ends. Takes a millisecond or
/// two; the kernel removes a network namespace some time later.
///
/// # Errors
///
/// The first thing that failed, by the system call's name and with its kind of error, or by which signal the
/// child was killed; otherwise the errors of pipe(2) or fork(2).
pub fn in_child(attempts: &[Attempt]) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let maps = Maps::of_this_user();
    // SAFETY: this process may have other threads, so the child may only do what is safe in a
    // signal handler: it makes system calls on what was set up before, and ends.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(with_context("fork", io::Error::last_os_error()));
    }
    if child == 0 {
        run_child(attempts, &maps, &writer);
    }
    drop(writer);
    let mut report = [0; size_of::<Report>()];
    let reported = reader.read_exact(&mut report);
    let pid = Pid::from_raw(child).expect("fork gives a process id");
    // There is no status if this process was started with SIGCHLD ignored.
    let status =
        rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
    if reported.is_ok() {
        return explained(report);
    }
    let signal = status.ok().flatten().and_then(|(_, status)| status.terminating_signal());
    Err(io::Error::other(match signal {
        Some(libc::SIGSYS) => {
            "a seccomp filter kills the process that tries it (SIGSYS)".to_owned()
        }
        Some(signal) => format!("the process that tried it was killed by signal {signal}"),
        None => "the process that tried it ended without a report".to_owned(),
    }))
}

/// What the child writes to its parent: a place in [`CALLS`] and an error number; 0 is success.
type Report = [u8; 2];

/// The child's system calls, by names that users can look up.
const CALLS: [&str; 7] = [
    "unshare(CLONE_NEWUSER)",
    "writing /proc/self/setgroups",
    "writing /proc/self/uid_map",
    "writing /proc/self/gid_map",
    "unshare(CLONE_NEWNET)",
    "io_uring_setup",
    "perf_event_open",
];

const NEW_USER: u8 = 0;
const SETGROUPS: u8 = 1;
const UID_MAP: u8 = 2;
const GID_MAP: u8 = 3;
const NEW_NETWORK: u8 = 4;
const IO_URING: u8 = 5;
const PERF_EVENT: u8 = 6;

fn explained([call, number]: Report) -> io::Result<()> {
    match number {
        0 => Ok(()),
        _ => {
            Err(with_context(CALLS[usize::from(call)], io::Error::from_raw_os_error(number.into())))
        }
    }
}

/// This user as root of a new user namespace, and this group as its group.
struct Maps {
    users: String,
    groups: String,
}

impl Maps {
    fn of_this_user() -> Self {
        Self {
            users: format!("0 {} 1\n", rustix::process::geteuid().as_raw()),
            groups: format!("0 {} 1\n", rustix::process::getegid().as_raw()),
        }
    }
}

/// The child's work. It allocates nothing and takes no lock, since another thread may have held one
/// when the process was copied.
fn run_child(attempts: &[Attempt], maps: &Maps, report_to: &PipeWriter) -> ! {
    let no_core_file = Rlimit { current: Some(0), maximum: Some(0) };
    // If it cannot be set, nothing else changes.
    let _ = setrlimit(Resource::Core, no_core_file);
    let made = attempts.iter().try_for_each(|attempt| make(*attempt, maps));
    let report: Report = made.err().unwrap_or([0, 0]);
    let _ = rustix::io::write(report_to, &report);
    exit_at_once(0)
}

/// One attempt. Only for the child, since it changes the namespaces of the calling process.
fn make(attempt: Attempt, maps: &Maps) -> Result<(), Report> {
    match attempt {
        Attempt::UserNamespace => {
            unshare(UnshareFlags::NEWUSER).map_err(failure_of(NEW_USER))?;
            // Without this, the group's map must not be written.
            write(c"/proc/self/setgroups", "deny").map_err(failure_of(SETGROUPS))?;
            write(c"/proc/self/uid_map", &maps.users).map_err(failure_of(UID_MAP))?;
            write(c"/proc/self/gid_map", &maps.groups).map_err(failure_of(GID_MAP))
        }
        Attempt::NetworkNamespace => unshare(UnshareFlags::NEWNET).map_err(failure_of(NEW_NETWORK)),
        Attempt::IoUring => Ring::open().map(drop).map_err(failure_of(IO_URING)),
        Attempt::PerfEvent => perf::open_dummy().map_err(failure_of(PERF_EVENT)),
    }
}

/// The report that a call failed; its error fits a byte and is never 0.
fn failure_of(call: u8) -> impl FnOnce(io::Error) -> Report {
    move |error| {
        let number = error.raw_os_error().unwrap_or(0);
        [call, u8::try_from(number).unwrap_or(u8::MAX).max(1)]
    }
}

fn unshare(namespace: UnshareFlags) -> io::Result<()> {
    // SAFETY: no memory or descriptor is unshared.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespace) }?)
}

/// These files accept only a whole text.
fn write(path: &CStr, text: &str) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn namespaces_are_made_in_the_child_alone() {
        let ours = || ["user", "net"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")));
        let before = ours().map(Result::unwrap);
        match in_child(&[Attempt::UserNamespace, Attempt::NetworkNamespace]) {
            Ok(()) => {}
            Err(error) => {
                eprintln!("checked less: {error}");
                let named = CALLS.iter().any(|call| error.to_string().starts_with(call));
                assert!(named, "{error}");
            }
        }
        assert_eq!(ours().map(Result::unwrap), before);
    }

    #[test]
    fn what_is_refused_is_named() {
        for (attempt, call) in
            [(Attempt::IoUring, "io_uring_setup"), (Attempt::PerfEvent, "perf_event_open")]
        {
            if let Err(error) = in_child(&[attempt]) {
                assert!(error.to_string().starts_with(call), "{error}");
            }
        }
        let error = explained([NEW_NETWORK, libc::EPERM as u8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("CLONE_NEWNET"), "{error}");
        in_child(&[]).unwrap();
    }

    #[test]
    fn a_filter_that_kills_costs_the_child_alone() {
        let child = crate::process::tests::child("attempt::tests::child_under_a_filter").output();
        let output = child.unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_under_a_filter() {
        /// A filter sees the system call's number as its first word.
        const LOAD_WORD: u16 = 0x20;
        const JUMP_IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut steps = [
            step(LOAD_WORD, 0, 0, 0),
            step(JUMP_IF_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
            step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true).unwrap();
        // SAFETY: the filter and its steps are valid to read during the call.
        let filtered =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
        assert_eq!(filtered, 0);
        let error = in_child(&[Attempt::IoUring]).unwrap_err().to_string();
        assert!(error.contains("SIGSYS"), "{error}");
        in_child(&[]).unwrap();
    }
}
