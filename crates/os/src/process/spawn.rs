//! Measured: starting a process, and waiting until it has ended.
//!
//! A child does nothing: it ends at once, or executes a program that does. It waits for nothing, so it ends
//! soon after its parent at the latest, without any signal. Its exit code shows what it did.
//!
//! The program is an executable with the bytes of a dozen instructions in a memory file: it has no
//! file system behind it, it is not linked to anything, and it ends in its first instructions. So
//! the figure is execve(2) itself: a new address space, mapping the program, its first page faults,
//! leaving the old address space. (`/bin/true` is mostly its dynamic linker, which opens, maps and
//! relocates the C library.) It is executed by its path under /proc/self/fd, with one argument and
//! no environment, since posix_spawn(3) takes a path.
//!
//! Source: fork(2), vfork(2), clone(2), posix_spawn(3), execve(2), memfd_create(2), wait(2), elf(5).

use crate::process::executable::{memory_executable, memory_path};
use crate::process::uncopied::Uncopied;
use crate::system_call::{check, invalid, retry};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::ptr;

/// Which call starts the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Starting {
    /// The C library's fork(), which first runs the pthread_atfork(3) handlers, and takes the allocator's
    /// locks if there are several threads.
    Fork,
    /// What vfork(2) asks of the kernel, `CLONE_VM | CLONE_VFORK`: the child uses its parent's memory, and
    /// the calling thread is suspended until the child has ended or executed a program. On a small stack of
    /// its own by the C library's clone(), since no Rust function may return twice.
    Vfork,
    /// The C library's posix_spawn(): as vfork (glibc 2.24), on a fresh stack, with signals blocked during
    /// the call and their handlers reset in the child. It always executes a program.
    PosixSpawn,
    /// The clone3 system call without flags, by its number: what fork asks of the kernel. Linux 5.3.
    Clone3,
}

#[cfg(test)]
impl Starting {
    /// Every way, in the order of declaration.
    pub(crate) const ALL: [Self; 4] = [Self::Fork, Self::Vfork, Self::PosixSpawn, Self::Clone3];
}

/// Starts children, one after the other.
#[derive(Debug)]
pub struct Starter {
    how: Starting,
    /// What a fork leaves out; none if it copies everything.
    uncopied: Option<Uncopied>,
    program: Option<Program>,
    /// The stack of a child that shares this process's memory, 16-byte aligned.
    stack: Box<[u128]>,
}

/// A started child, for which the caller must wait.
#[derive(Debug)]
#[must_use = "a child that nobody waits for stays as a zombie"]
pub struct Child {
    pid: libc::pid_t,
    /// Its exit code if it did what it should.
    exit_code: c_int,
}

/// The exit code of a child that executes no program.
const ENDED: c_int = 7;
/// The program's exit code.
const EXECUTED: c_int = 42;
/// The exit code of a child that could not execute the program, as in a shell.
const NOT_EXECUTED: c_int = 127;

/// Bytes of the stack of a child that makes one or two system calls.
const STACK_BYTES: usize = 16 << 10;

impl Starter {
    /// Prepares for children that end at once, or with `executing` execute a program that does.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for posix_spawn without a program. With one, those of memfd_create(2) (Linux 3.17;
    /// `vm.memfd_noexec` and security modules can forbid it), and those of executing the program once.
    pub fn new(how: Starting, executing: bool) -> io::Result<Self> {
        if how == Starting::PosixSpawn && !executing {
            return Err(invalid("posix_spawn always executes a program"));
        }
        Ok(Self {
            how,
            uncopied: None,
            program: executing.then(Program::new).transpose()?,
            stack: vec![0; STACK_BYTES / size_of::<u128>()].into(),
        })
    }

    /// From now on, a fork copies only what a program of a few lines has, and what is mapped later.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a call that copies nothing anyway; those of [`Uncopied::begin`], and those of a first
    /// child: then a fork copies everything, as before.
    pub fn copy_little(&mut self) -> io::Result<()> {
        if !matches!(self.how, Starting::Fork | Starting::Clone3) {
            return Err(invalid("vfork and posix_spawn copy nothing"));
        }
        // SAFETY: what this process forks meanwhile are children that [`do_work`] gets to do, since it has
        // one thread.
        self.uncopied = Some(unsafe { Uncopied::begin() }?);
        let tried = self.start().and_then(Child::wait);
        if tried.is_err() {
            self.uncopied = None;
        }
        tried
    }

    /// Starts a child. Allocates nothing.
    ///
    /// # Errors
    ///
    /// Those of the call: `WouldBlock` (EAGAIN) at a limit on processes, `OutOfMemory`; for clone3
    /// `Unsupported` (ENOSYS) before Linux 5.3 and under many containers' filters.
    #[inline]
    pub fn start(&mut self) -> io::Result<Child> {
        // On the stack, of which a child always has a copy.
        let path = self.program.as_ref().map(|program| program.path);
        let work = Work::new(path.as_ref());
        let pid = match self.how {
            Starting::Fork => {
                // SAFETY: this process may have other threads, and a child may lack memory, so the
                // child may only do what needs neither locks nor memory, and it does.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // SAFETY: the path is on the stack, as the work is.
                    unsafe { do_work(&work) }
                }
                pid
            }
            Starting::Clone3 => {
                let arguments = Clone3Arguments {
                    exit_signal: libc::SIGCHLD as u64,
                    ..Clone3Arguments::default()
                };
                // SAFETY: the arguments are valid to read and say their size. Without flags the
                // child has a copy of everything, and does only what needs neither locks nor memory.
                let pid = unsafe {
                    libc::syscall(libc::SYS_clone3, &arguments, size_of::<Clone3Arguments>())
                } as libc::pid_t;
                if pid == 0 {
                    // SAFETY: the path is on the stack, as the work is.
                    unsafe { do_work(&work) }
                }
                pid
            }
            Starting::Vfork => {
                let end = self.stack.as_mut_ptr_range().end;
                // SAFETY: the stack is this starter's own, borrowed mutably, aligned, and large
                // enough for a function that makes system calls alone and for the frame of a signal
                // handler (3.5 KB with AVX-512). The child writes nothing else, and the calling
                // thread stands still until it has ended or executed, so that the work and the
                // stack outlive it.
                unsafe {
                    libc::clone(
                        run_vforked_child,
                        end.cast(),
                        libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                        ptr::from_ref(&work).cast_mut().cast(),
                    )
                }
            }
            Starting::PosixSpawn => {
                let program = self.program.as_ref();
                let program = program.expect("posix_spawn has a program, as checked at the start");
                return program.posix_spawn();
            }
        };
        let pid = check(pid)?;
        let exit_code = if path.is_some() { EXECUTED } else { ENDED };
        Ok(Child { pid, exit_code })
    }
}

impl Child {
    /// Waits until the child has ended. Allocates nothing unless it fails.
    ///
    /// # Errors
    ///
    /// If it did not end normally; `ECHILD` if this process was started with SIGCHLD ignored, so that
    /// children leave no status.
    #[inline]
    pub fn wait(self) -> io::Result<()> {
        let mut status = 0;
        // SAFETY: the status is valid to write to.
        retry(|| unsafe { libc::waitpid(self.pid, &mut status, 0) })?;
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == self.exit_code {
            return Ok(());
        }
        Err(ended_otherwise(status, self.exit_code))
    }
}

#[cold]
fn ended_otherwise(status: c_int, expected: c_int) -> io::Error {
    io::Error::other(if libc::WIFSIGNALED(status) {
        format!("the child was killed by signal {}", libc::WTERMSIG(status))
    } else {
        let code = libc::WEXITSTATUS(status);
        let why = if code == NOT_EXECUTED { ": it could not execute the program" } else { "" };
        format!("the child ended with {code} instead of {expected}{why}")
    })
}

/// A path with a zero byte at its end, and further ones.
type Path = [u8; 32];

/// What a child does: it ends, or executes a program, as execve(2) takes it.
struct Work {
    executes: bool,
    path: *const c_char,
    arguments: [*const c_char; 2],
    variables: [*const c_char; 1],
    /// The C library's functions. A program finds them in a table, of which a child may have no copy.
    execute:
        unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
    end: unsafe extern "C" fn(c_int) -> !,
}

impl Work {
    fn new(path: Option<&Path>) -> Self {
        let executes = path.is_some();
        let path = path.map_or(ptr::null(), |path| path.as_ptr().cast());
        Self {
            executes,
            path,
            arguments: [path, ptr::null()],
            variables: [ptr::null()],
            execute: libc::execve,
            end: libc::_exit,
        }
    }
}

/// The child's work: one or two system calls, by what is on the stack, since another thread may have held a lock
/// when the process was copied, and little may have been copied. It calls nothing else: without optimisation,
/// even a method of a pointer is found in a table.
///
/// # Safety
///
/// The work's path is valid if it executes a program.
#[inline(always)]
unsafe fn do_work(work: &Work) -> ! {
    let arguments = (&raw const work.arguments) as *const *const c_char;
    let variables = (&raw const work.variables) as *const *const c_char;
    // SAFETY: the path ends with a zero byte, and both lists with a null. What ends the process does not run
    // what its parent has to run at its own end.
    unsafe {
        if work.executes {
            (work.execute)(work.path, arguments, variables);
            (work.end)(NOT_EXECUTED)
        }
        (work.end)(ENDED)
    }
}

extern "C" fn run_vforked_child(work: *mut c_void) -> c_int {
    // SAFETY: the starter's work, which outlives this child.
    unsafe { do_work(&*work.cast::<Work>()) }
}

/// `struct clone_args` as Linux 5.3 has it. Source: clone(2).
#[repr(C)]
#[derive(Default)]
struct Clone3Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// The program, in a memory file.
#[derive(Debug)]
struct Program {
    /// Kept open, since the path leads to it.
    _file: File,
    path: Path,
}

impl Program {
    fn new() -> io::Result<Self> {
        let file = memory_executable(&instructions())?;
        let name = memory_path(&file);
        let mut path = [0; size_of::<Path>()];
        path[..name.len()].copy_from_slice(name.as_bytes());
        let program = Self { _file: file, path };
        // Of the ways to execute it, this one reports why it fails.
        program.posix_spawn()?.wait()?;
        Ok(program)
    }

    #[inline]
    fn posix_spawn(&self) -> io::Result<Child> {
        let work = Work::new(Some(&self.path));
        let mut pid = 0;
        // SAFETY: the path ends with a zero byte, and both lists with a null; the process id is valid
        // to write to, and there are neither actions nor attributes.
        let error = unsafe {
            libc::posix_spawn(
                &mut pid,
                work.path,
                ptr::null(),
                ptr::null(),
                work.arguments.as_ptr().cast(),
                work.variables.as_ptr().cast(),
            )
        };
        match error {
            0 => Ok(Child { pid, exit_code: EXECUTED }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// exit_group(EXECUTED).
#[cfg(target_arch = "x86_64")]
fn instructions() -> Vec<u8> {
    const MOVE_TO_EDI: u8 = 0xbf;
    const MOVE_TO_EAX: u8 = 0xb8;
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let mut code = vec![MOVE_TO_EDI];
    code.extend(EXECUTED.to_le_bytes());
    code.push(MOVE_TO_EAX);
    code.extend((libc::SYS_exit_group as u32).to_le_bytes());
    code.extend(SYSCALL);
    code
}

/// exit_group(EXECUTED).
#[cfg(target_arch = "aarch64")]
fn instructions() -> Vec<u8> {
    let move_to = |register: u32, number: u32| 0xd280_0000 | number << 5 | register;
    let supervisor_call = 0xd400_0001_u32;
    let code =
        [move_to(0, EXECUTED as u32), move_to(8, libc::SYS_exit_group as u32), supervisor_call];
    code.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A starter; none, with the reason, where this machine lacks what it needs.
    fn starter(how: Starting, executing: bool) -> Option<Starter> {
        let skipped = |error: io::Error| eprintln!("skipped: {how:?} {executing}: {error}");
        let mut starter = Starter::new(how, executing).map_err(skipped).ok()?;
        let child = starter.start().map_err(skipped).ok()?;
        child.wait().unwrap();
        Some(starter)
    }

    #[test]
    fn children_of_every_kind_do_what_they_are_to_do() {
        for how in Starting::ALL {
            for executing in [false, true] {
                if how == Starting::PosixSpawn && !executing {
                    let error = Starter::new(how, executing).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                    continue;
                }
                let Some(mut starter) = starter(how, executing) else {
                    continue;
                };
                for _ in 0..20 {
                    starter.start().unwrap().wait().unwrap();
                }
            }
        }
    }

    #[test]
    fn a_child_that_ends_otherwise_is_an_error() {
        for how in [Starting::Fork, Starting::Vfork] {
            let mut starter = starter(how, false).unwrap();
            let mut child = starter.start().unwrap();
            child.exit_code = EXECUTED;
            let error = child.wait().unwrap_err().to_string();
            assert!(error.contains("ended with 7 instead of 42"), "{error}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_an_error() {
        for how in [Starting::Fork, Starting::Vfork, Starting::PosixSpawn] {
            let Some(mut starter) = starter(how, true) else {
                continue;
            };
            let program = starter.program.as_mut().expect("it has one");
            program.path[..9].copy_from_slice(b"/nowhere\0");
            let error = starter.start().and_then(Child::wait).unwrap_err();
            let told = error.to_string();
            assert!(
                error.kind() == io::ErrorKind::NotFound || told.contains("could not execute"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_child_is_waited_for_once() {
        let child = starter(Starting::Fork, false).unwrap().start().unwrap();
        let again = Child { pid: child.pid, exit_code: child.exit_code };
        child.wait().unwrap();
        let error = again.wait().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }
}
