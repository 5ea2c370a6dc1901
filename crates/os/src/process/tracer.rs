//! A process that stops the one that started it at each system call, as strace does, and lets it go on.
//!
//! Source: ptrace(2) on `PTRACE_SEIZE` (Linux 3.4) and `PTRACE_GET_SYSCALL_INFO` (Linux 5.3); Linux
//! Documentation/admin-guide/LSM/Yama.rst.

use std::io::{self, PipeWriter, Read};
use std::ptr;

use crate::process::child::{Child, exit_at_once};
use crate::system_call::{check, with_context};
use rustix::process::{Pid, Signal, getpid, set_parent_process_death_signal};

/// The tracer; when this is dropped, the caller is no longer traced.
#[derive(Debug)]
pub struct Tracer(Child);

impl Tracer {
    /// Starts it: from then on it traces the calling thread, which must be the first of its process.
    ///
    /// # Errors
    ///
    /// Those of fork(2), and of ptrace(2): `EPERM` if something else traces this process, or if Yama (kernel.yama.ptrace_scope 2
    /// or 3) or a seccomp filter forbids it.
    pub fn start() -> io::Result<Self> {
        let (mut reader, writer) = io::pipe()?;
        let traced = getpid();
        // SAFETY: takes numbers. Without Yama it fails, and is not needed.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
        // SAFETY: the child makes system calls alone, on what is on its stack.
        let Some(child) = Child::started(unsafe { libc::fork() })? else { trace(traced, &writer) };
        drop(writer);
        let mut error = [0];
        let read = reader.read_exact(&mut error);
        // SAFETY: takes numbers. From now on, no other process may trace this one because of the call above.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, 0) };
        read?;
        match error {
            [0] => Ok(Self(child)),
            [error] => {
                let error = io::Error::from_raw_os_error(error.into());
                Err(with_context("ptrace", error))
            }
        }
    }

    /// Whether it still traces.
    pub fn is_running(&self) -> bool {
        !self.0.has_ended()
    }
}

/// The tracer's work, until the traced process ends.
fn trace(traced: Pid, report_to: &PipeWriter) -> ! {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let error = follow(traced.as_raw_pid(), report_to).unwrap_or_else(|error| error);
    let _ = rustix::io::write(report_to, &[error.raw_os_error().unwrap_or(libc::EIO) as u8]);
    exit_at_once(0)
}

fn follow(traced: libc::pid_t, report_to: &PipeWriter) -> io::Result<io::Error> {
    const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
    /// At least `struct ptrace_syscall_info`.
    const WORDS: usize = 16;
    let request = |request, address: usize, data: usize| {
        // SAFETY: the requests take numbers, or an address of as much memory as is named.
        check(unsafe { libc::ptrace(request, traced, address, data) })
    };
    request(libc::PTRACE_SEIZE, 0, libc::PTRACE_O_TRACESYSGOOD as usize)?;
    request(libc::PTRACE_INTERRUPT, 0, 0)?;
    let mut is_reported = false;
    let mut call = [0_u64; WORDS];
    loop {
        let mut status = 0;
        // SAFETY: the status is a number to write to.
        match check(unsafe { libc::waitpid(traced, &raw mut status, libc::__WALL) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            waited => waited?,
        };
        if !libc::WIFSTOPPED(status) {
            return Ok(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let signal = libc::WSTOPSIG(status);
        let is_call = signal == libc::SIGTRAP | 0x80;
        if is_call {
            let address = ptr::from_mut(&mut call).expose_provenance();
            request(GET_SYSCALL_INFO, size_of_val(&call), address)?;
        }
        // A stop without a signal: of a call, or as this tracer asked for.
        let is_own = is_call || status >> 16 != 0;
        request(libc::PTRACE_SYSCALL, 0, if is_own { 0 } else { signal as usize })?;
        // Only now it is known that the kernel says which call it is.
        if is_call && !is_reported {
            let _ = rustix::io::write(report_to, &[0]);
            is_reported = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn is_traced() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        !status.lines().any(|line| line == "TracerPid:\t0")
    }

    #[test]
    fn a_tracer_stays_until_it_is_dropped() {
        let child = crate::process::tests::child("tracer::tests::child_is_traced").output();
        let output = child.unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_is_traced() {
        // The harness runs a test in a second thread; the first waits for it, and is the one that is traced.
        match Tracer::start() {
            Ok(tracer) => {
                assert!(is_traced() && tracer.is_running());
                assert!(Tracer::start().is_err(), "there is one already");
                drop(tracer);
                assert!(!is_traced());
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
