//! A process of two pages that starts a command, and kills it and its process group if this process is killed.
//!
//! The kernel counts to a process's peak memory what its parent had when it was forked or vforked, so a command that costof
//! forked would have costof's. Here costof starts a program of some sixty instructions, without a heap, and that
//! one starts the command as a child of costof (`CLONE_PARENT`). Then it waits until costof has waited for the command. If
//! costof ends before that, it kills the command's process group; it is in a group of its own, so no signal to costof's
//! group ends it.
//!
//! It speaks by messages of 8 bytes over a socket: it sends 0 when it is ready, and starts the command on an answer. Then
//! it sends the command's process id; before that, a negative error number if the command could not be executed. A further
//! answer ends it.
//!
//! Source: clone(2), execve(2), getrusage(2) on `ru_maxrss`, prctl(2) on `PR_SET_PDEATHSIG`; setmax_mm_hiwater_rss() in
//! Linux fs/exec.c.

use crate::process::executable::{memory_executable, memory_path};
use rustix::fs::{Access, access};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::Pid;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;

const MESSAGE_BYTES: usize = 8;

/// The program, in a memory file.
#[derive(Debug)]
pub(super) struct SmallStarter(File);

/// The socket to a started one.
#[derive(Debug)]
pub(super) struct Line(UnixStream);

/// Why a command was not started.
pub(super) enum NotStarted {
    /// It cannot be executed, also not in another way.
    Command(io::Error),
    /// This way does not work here.
    Starter,
}

impl SmallStarter {
    pub(super) fn new() -> io::Result<Self> {
        memory_executable(code()).map(Self)
    }

    /// The starter of a command, which is found in this folder, or in this process's. To be started with the second
    /// socket open.
    pub(super) fn command(
        &self,
        words: &[OsString],
        folder: Option<&Path>,
    ) -> io::Result<(Command, Line, UnixStream)> {
        let program = find(&words[0], folder)?;
        let (own, its) = UnixStream::pair()?;
        let mut command = Command::new(memory_path(&self.0));
        command.arg0("costof-starter");
        command.arg(its.as_raw_fd().to_string()).arg(program).args(words);
        Ok((command, Line(own), its))
    }
}

/// For the child between fork and exec: leaves a socket open.
pub(super) fn keep_open(socket: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfd(socket)?;
    Ok(fcntl_setfd(socket, flags - FdFlags::CLOEXEC)?)
}

impl Line {
    /// Waits until the starter is ready.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), NotStarted> {
        self.read().map(drop).map_err(|_| NotStarted::Starter)
    }

    /// Starts the command: its process id, or that of what could not become the command, and why.
    pub(super) fn start(&mut self) -> Result<(Pid, Option<io::Error>), NotStarted> {
        self.write().map_err(|_| NotStarted::Starter)?;
        let first = self.read().map_err(|_| NotStarted::Starter)?;
        let error = (first < 0).then(|| io::Error::from_raw_os_error(-first as i32));
        let number = if first < 0 { self.read().map_err(|_| NotStarted::Starter)? } else { first };
        let pid = i32::try_from(number).ok().filter(|number| *number > 0).and_then(Pid::from_raw);
        let pid = pid.ok_or(NotStarted::Starter)?;
        Ok((pid, error))
    }

    /// Ends the starter without harm to the command.
    pub(super) fn release(&mut self) {
        let _ = self.write();
    }

    fn write(&mut self) -> io::Result<()> {
        self.0.write_all(&[0; MESSAGE_BYTES])
    }

    fn read(&mut self) -> io::Result<i64> {
        let mut message = [0; MESSAGE_BYTES];
        self.0.read_exact(&mut message)?;
        Ok(i64::from_ne_bytes(message))
    }
}

/// The file that execvp(3) would execute.
fn find(name: &OsStr, folder: Option<&Path>) -> io::Result<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let mut error = Errno::NOENT;
    for place in env::split_paths(&env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())) {
        // An empty one is the current folder.
        let path = Path::new(".").join(place).join(name);
        let seen = folder.map_or_else(|| path.clone(), |folder| folder.join(&path));
        match access(&seen, Access::EXEC_OK) {
            Ok(()) if seen.is_file() => return Ok(path),
            Err(Errno::ACCESS) => error = Errno::ACCESS,
            _ => {}
        }
    }
    Err(error.into())
}

/// The program's instructions.
fn code() -> &'static [u8] {
    let (begin, end) = (&raw const costof_small_starter, &raw const costof_small_starter_end);
    // SAFETY: both are labels of the read-only data below, the second behind the first.
    unsafe { slice::from_raw_parts(begin, end.offset_from_unsigned(begin)) }
}

// SAFETY: the names are defined below, once.
unsafe extern "C" {
    static costof_small_starter: u8;
    static costof_small_starter_end: u8;
}

// The instructions. Arguments: its own name, the socket's number, the path, and the command's arguments. The command's
// process shares memory and stack until it executes the command (`CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD`). It leads
// a group, ends with its parent (`PR_SET_PDEATHSIG`), and closes the socket when it executes the command.
#[cfg(target_arch = "x86_64")]
macro_rules! program {
    () => {
        include_str!("small_starter/x86_64.s")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! program {
    () => {
        include_str!("small_starter/aarch64.s")
    };
}

std::arch::global_asm!(
    ".pushsection .rodata.costof_small_starter, \"a\", @progbits",
    ".balign 4",
    ".globl costof_small_starter",
    ".hidden costof_small_starter",
    "costof_small_starter:",
    program!(),
    ".globl costof_small_starter_end",
    ".hidden costof_small_starter_end",
    "costof_small_starter_end:",
    ".popsection",
    getppid = const libc::SYS_getppid,
    clone = const libc::SYS_clone,
    setpgid = const libc::SYS_setpgid,
    prctl = const libc::SYS_prctl,
    fcntl = const libc::SYS_fcntl,
    execve = const libc::SYS_execve,
    kill = const libc::SYS_kill,
    read = const libc::SYS_read,
    write = const libc::SYS_write,
    exit_group = const libc::SYS_exit_group,
);
