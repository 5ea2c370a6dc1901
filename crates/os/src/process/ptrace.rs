//! Counts the system calls and signals of a command or a running process, with all its threads and children, by stopping
//! them at each system call, as strace does. Any user may do that with what is his own.
//!
//! All stops come to the thread that began to trace, so it does everything. A command that stops itself (SIGSTOP) goes on: only
//! what was running before keeps that. A set-user-ID program runs as this user, unless this is root.
//!
//! Source: ptrace(2), with `PTRACE_GET_SYSCALL_INFO` (Linux 5.3); waitpid(2) on `__WALL` and `__WNOTHREAD`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::ptr;
use std::time::{Duration, Instant};

use crate::process::command::start_in_group;
use crate::process::signals::Installed;
use crate::process::tally::{Event, FOREIGN_CALL, MOVING_CALLS, Tally, ThreadTally};
use crate::process::{kill_group, task_name, terminate_group, threads_of};
use crate::sched::usage::Usage;
use crate::system_call::{check, with_context};
use syscalls::Sysno;

/// How often the caller is asked whether to go on.
const POLL: Duration = Duration::from_millis(100);
/// How many polls after SIGTERM a command is killed, and is given up if even that does not end it.
const TERMINATION_POLLS: u32 = 10;
/// See `TERMINATION_POLLS`.
const KILLED_POLLS: u32 = 30;
/// Not in libc.
const PTRACE_EVENT_STOP: libc::c_int = 128;

/// What was counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// What each thread did.
    pub threads: Vec<ThreadTally>,
    /// How the command ended, and what it used; `None` of a process that goes on.
    pub ended: Option<(ExitStatus, Usage)>,
    /// Whether `may_go_on` ended it.
    pub was_stopped: bool,
}

/// Starts a command in a process group of its own, on these CPUs if there are any, and counts until it has ended; then the
/// rest of its group is killed. Asks ten times a second whether it may go on: if not, the command is ended.
///
/// # Errors
///
/// Those of fork(2), execve(2) and ptrace(2): `EPERM` where Yama or a seccomp filter forbids to trace.
pub fn count_command(
    command: &mut Command,
    cpus: &[usize],
    mut may_go_on: impl FnMut() -> bool,
) -> io::Result<Counted> {
    command.process_group(0);
    // SAFETY: the closure makes one system call, which takes numbers.
    unsafe {
        command.pre_exec(|| check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)).map(drop));
    }
    let _ticks = Ticks::start()?;
    let first = start_in_group(command, cpus, true)?.leave_to_tracer();
    let mut tracer = Tracer::new(first.as_raw_pid(), true);
    tracer.live.insert(tracer.first);
    tracer.count(&mut may_go_on)?;
    Ok(tracer.counted())
}

/// Counts a running process, its threads, and its children, as long as it may go on, and lets go of them then.
///
/// # Errors
///
/// `NotFound` without such a process; those of ptrace(2): `EPERM` for a process of another user, of one that somebody else
/// traces, or where Yama (kernel.yama.ptrace_scope) lets a process trace only what it started.
pub fn count_process(process: u32, mut may_go_on: impl FnMut() -> bool) -> io::Result<Counted> {
    let _ticks = Ticks::start()?;
    let mut tracer = Tracer::new(process.cast_signed(), false);
    loop {
        let mut threads = threads_of(process)?;
        threads.retain(|(_, thread)| !tracer.threads.contains_key(&thread.cast_signed()));
        if threads.is_empty() {
            break;
        }
        for (process, thread) in threads {
            let thread = thread.cast_signed();
            match act(Act::Seize, thread, OPTIONS as usize) {
                Ok(()) => {
                    tracer.live.insert(thread);
                    ignore_ended(act(Act::Interrupt, thread, 0))?;
                }
                Err(_) if !needs_tracer(thread) => {}
                Err(error) => {
                    return Err(with_context(
                        format_args!("cannot trace process {process}"),
                        error,
                    ));
                }
            }
            tracer.threads.insert(thread, Thread::new(process.cast_signed()));
        }
    }
    tracer.count(&mut may_go_on)?;
    Ok(tracer.counted())
}

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

/// What is traced. On drop, what it started is killed, and the rest goes on untraced.
#[derive(Debug)]
struct Tracer {
    first: libc::pid_t,
    is_started: bool,
    /// All threads, also those that have ended.
    threads: BTreeMap<libc::pid_t, Thread>,
    /// Those that are traced now.
    live: HashSet<libc::pid_t>,
    ended: Option<(ExitStatus, Usage)>,
    was_stopped: bool,
}

#[derive(Debug, Default)]
struct Thread {
    process: libc::pid_t,
    name: String,
    /// Whether it has stopped once since it is traced.
    is_known: bool,
    /// The system call that it is in, and its first argument.
    call: Option<(u16, u64)>,
    tallies: HashMap<Event, Tally>,
}

impl Thread {
    fn new(process: libc::pid_t) -> Self {
        Self { process, ..Self::default() }
    }
}

/// A thread that has stopped or ended.
struct Stop {
    thread: libc::pid_t,
    status: libc::c_int,
    usage: Usage,
}

impl Tracer {
    fn new(first: libc::pid_t, is_started: bool) -> Self {
        Self {
            first,
            is_started,
            threads: BTreeMap::new(),
            live: HashSet::new(),
            ended: None,
            was_stopped: false,
        }
    }

    /// Counts until all that is traced has ended, or it may not go on.
    fn count(&mut self, may_go_on: &mut impl FnMut() -> bool) -> io::Result<()> {
        let mut polls_since_stop = 0;
        let mut polled = Instant::now();
        while !self.live.is_empty() {
            let is_due = match wait() {
                // While threads are busy there is always another stop, and nothing interrupts the waiting.
                Ok(stop) => {
                    self.follow(&stop)?;
                    polled.elapsed() >= POLL
                }
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(with_context("waitpid", error));
                }
                Err(_) => true,
            };
            if !is_due {
                continue;
            }
            polled = Instant::now();
            if self.was_stopped {
                polls_since_stop += 1;
                match polls_since_stop {
                    TERMINATION_POLLS => self.kill(),
                    // It waits for a device, and cannot be killed.
                    KILLED_POLLS => return Ok(()),
                    _ => {}
                }
            } else if !may_go_on() {
                self.was_stopped = true;
                if !self.is_started {
                    return Ok(());
                }
                terminate_group(self.first.cast_unsigned())?;
            }
        }
        Ok(())
    }

    /// What is left of a command's processes.
    fn kill(&self) {
        let _ = kill_group(self.first.cast_unsigned());
        for &thread in &self.live {
            let process = self.threads.get(&thread).map_or(thread, |known| known.process);
            // SAFETY: takes numbers; that of a traced process is no other's.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
    }

    /// Counts what a stop means, and lets the thread go on.
    fn follow(&mut self, stop: &Stop) -> io::Result<()> {
        let &Stop { thread, status, usage } = stop;
        if !libc::WIFSTOPPED(status) {
            self.live.remove(&thread);
            if let Some(known) = self.threads.get_mut(&thread) {
                known.end_call();
            }
            if thread == self.first {
                self.ended = Some((ExitStatus::from_raw(status), usage));
                if self.is_started {
                    self.kill();
                }
            }
            return Ok(());
        }
        self.live.insert(thread);
        let known = self.threads.entry(thread).or_default();
        let is_first_stop = !known.is_known;
        if is_first_stop {
            known.is_known = true;
            known.process = process_of(thread).unwrap_or(thread);
            known.name = task_name(thread).unwrap_or_default();
        }
        let signal = libc::WSTOPSIG(status);
        let mut delivered = 0;
        match status >> 16 {
            0 if is_first_stop && self.is_started && thread == self.first => {
                let options = OPTIONS | libc::PTRACE_O_EXITKILL;
                act(Act::SetOptions, thread, options as usize)?;
            }
            0 if signal == libc::SIGTRAP | 0x80 => known.call(thread),
            // A new thread or process begins with a stop.
            0 if is_first_stop && signal == libc::SIGSTOP => {}
            0 => {
                // Others come here too: ignored ones, those that stop or end it, and the stop itself.
                if handles(thread, signal) {
                    known.add(Event::Signal(signal as u8), |_| {});
                }
                delivered = signal;
            }
            libc::PTRACE_EVENT_EXEC => {
                known.name = task_name(thread).unwrap_or_default();
                // It takes the number of its process's first thread, and the other threads end.
                if let Some(former) = event_message(thread).filter(|former| *former != thread) {
                    known.end_call();
                    self.live.remove(&former);
                    let call = self.threads.get_mut(&former).and_then(|former| former.call.take());
                    self.threads.entry(thread).or_default().call = call;
                }
            }
            // It is stopped by a signal, as a whole process, and stays so.
            PTRACE_EVENT_STOP if signal != libc::SIGTRAP => {
                return ignore_ended(act(Act::Listen, thread, 0));
            }
            _ => self.live.extend(started_by(stop)),
        }
        ignore_ended(act(Act::ToNextCall, thread, delivered as usize))
    }

    fn counted(mut self) -> Counted {
        let threads = std::mem::take(&mut self.threads);
        let threads = threads.into_iter().filter(|(_, thread)| !thread.tallies.is_empty());
        let threads = threads.map(|(number, thread)| {
            let mut events: Vec<_> = thread.tallies.into_iter().collect();
            events.sort_unstable_by_key(|(event, _)| *event);
            ThreadTally { process: thread.process, thread: number, name: thread.name, events }
        });
        Counted { threads: threads.collect(), ended: self.ended, was_stopped: self.was_stopped }
    }
}

impl Thread {
    fn add(&mut self, event: Event, change: impl FnOnce(&mut Tally)) {
        let tally = self.tallies.entry(event).or_default();
        tally.count += 1;
        change(tally);
    }

    /// It was killed in a call.
    fn end_call(&mut self) {
        if let Some((number, _)) = self.call.take() {
            self.add(Event::call(number), |tally| tally.errors += 1);
        }
    }

    /// It entered or left a system call. A call that does not end, as exit(2), is counted as it begins.
    fn call(&mut self, thread: libc::pid_t) {
        const ENTERED: u64 = 1;
        const LEFT: u64 = 2;
        const NATIVE: u64 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        /// At least `struct ptrace_syscall_info`: what and the architecture, two addresses, and the call's number, or what it
        /// returned and whether that is an error.
        const WORDS: usize = 16;
        let mut call = [0_u64; WORDS];
        let address = ptr::from_mut(&mut call).expose_provenance();
        let bytes = size_of_val(&call);
        // SAFETY: as many bytes are written at most, which `call` has.
        if unsafe { request(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, address) }.is_err() {
            return;
        }
        match call[0] & 0xff {
            ENTERED => {
                let number = u16::try_from(call[3]).ok().filter(|_| call[0] >> 32 == NATIVE);
                let number = number.unwrap_or(FOREIGN_CALL);
                if matches!(i64::from(number), libc::SYS_exit | libc::SYS_exit_group) {
                    self.name = task_name(thread).unwrap_or_default();
                    self.add(Event::call(number), |_| {});
                } else {
                    self.call = Some((number, call[4]));
                }
            }
            LEFT => {
                // None: it is new, and its parent made the call.
                let Some((number, descriptor)) = self.call.take() else { return };
                let is_error = call[4] & 0xff != 0;
                let name = Sysno::new(number.into()).map_or("", |call| call.name());
                let moves = !is_error && MOVING_CALLS.split(' ').any(|call| call == name);
                let bytes = if moves { call[3] } else { 0 };
                let size_log2 = bytes.checked_ilog2().map(|log2| log2 as u8);
                let file = format!("/proc/{thread}/fd/{}", descriptor as u32);
                let moved = size_log2.and_then(|_| fs::metadata(file).ok());
                let file_type = moved.map_or(0, |file| (file.mode() >> 12) as u8);
                self.add(Event::Call { number, size_log2, file_type }, |tally| {
                    tally.errors += u64::from(is_error);
                    tally.bytes += bytes;
                });
            }
            _ => {}
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if self.is_started {
            self.kill();
        }
        // Only a stopped thread can be let go of.
        for &thread in &self.live {
            let _ = act(Act::Interrupt, thread, 0);
        }
        let mut polls = 0;
        while !self.live.is_empty() && polls < KILLED_POLLS {
            let stop = match wait() {
                Ok(stop) => stop,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    polls += 1;
                    continue;
                }
                Err(_) => return,
            };
            self.live.remove(&stop.thread);
            if libc::WIFSTOPPED(stop.status) {
                self.live.extend(started_by(&stop));
                let signal = libc::WSTOPSIG(stop.status);
                let is_signal = stop.status >> 16 == 0 && signal != libc::SIGTRAP | 0x80;
                let delivered = if is_signal { signal as usize } else { 0 };
                let _ = act(Act::Detach, stop.thread, delivered);
            }
        }
    }
}

/// The thread that a stopped one has just started, and that is traced too; it begins with a stop of its own.
fn started_by(stop: &Stop) -> Option<libc::pid_t> {
    let started = [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
    let is_start = started.contains(&(stop.status >> 16));
    is_start.then(|| event_message(stop.thread)).flatten()
}

/// The number that belongs to the event at which a thread has stopped.
fn event_message(thread: libc::pid_t) -> Option<libc::pid_t> {
    let mut message: libc::c_ulong = 0;
    let address = ptr::from_mut(&mut message).expose_provenance();
    // SAFETY: a `c_ulong` is written.
    unsafe { request(libc::PTRACE_GETEVENTMSG, thread, 0, address) }.ok()?;
    Some(message as libc::pid_t)
}

/// The requests that take only a number.
#[derive(Clone, Copy)]
enum Act {
    Seize = libc::PTRACE_SEIZE as isize,
    SetOptions = libc::PTRACE_SETOPTIONS as isize,
    Interrupt = libc::PTRACE_INTERRUPT as isize,
    Listen = libc::PTRACE_LISTEN as isize,
    ToNextCall = libc::PTRACE_SYSCALL as isize,
    Detach = libc::PTRACE_DETACH as isize,
}

fn act(act: Act, thread: libc::pid_t, number: usize) -> io::Result<()> {
    // SAFETY: these requests write nothing into this process.
    unsafe { request(act as libc::c_uint, thread, 0, number) }
}

/// A request about a traced thread.
///
/// # Safety
///
/// What the request writes to `data` as an address must be valid to write to.
unsafe fn request(
    request: libc::c_uint,
    thread: libc::pid_t,
    address: usize,
    data: usize,
) -> io::Result<()> {
    // SAFETY: by the caller's contract.
    check(unsafe { libc::ptrace(request, thread, address, data) }).map(drop)
}

/// A thread may be killed at any time.
fn ignore_ended(answer: io::Result<()>) -> io::Result<()> {
    answer.or_else(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(()),
        _ => Err(error),
    })
}

/// Waits until something that this thread traces has stopped or ended.
fn wait() -> io::Result<Stop> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let flags = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: both addresses are valid to write to.
    let thread = check(unsafe { libc::wait4(-1, &raw mut status, flags, usage.as_mut_ptr()) })?;
    // SAFETY: a rusage of zeroes is valid, and the kernel has filled it in since.
    let usage = Usage::from_raw(&unsafe { usage.assume_init() });
    Ok(Stop { thread, status, usage })
}

/// The process of a thread; `None` if it has ended.
fn process_of(thread: libc::pid_t) -> Option<libc::pid_t> {
    status_field(thread, "Tgid:")?.parse().ok()
}

/// Whether a thread could be traced: it has not ended, and is not traced already by this thread, as one is that a traced thread
/// has started.
fn needs_tracer(thread: libc::pid_t) -> bool {
    let own = rustix::thread::gettid().as_raw_pid().to_string();
    let has_ended =
        status_field(thread, "State:").is_none_or(|state| state.starts_with(['Z', 'X']));
    !has_ended && status_field(thread, "TracerPid:") != Some(own)
}

/// Whether a thread has a handler for a signal.
fn handles(thread: libc::pid_t, signal: libc::c_int) -> bool {
    let handled = status_field(thread, "SigCgt:");
    let handled = handled.and_then(|handled| u64::from_str_radix(&handled, 16).ok());
    handled.is_some_and(|handled| handled >> (signal - 1) & 1 == 1)
}

fn status_field(thread: libc::pid_t, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.map(|value| value.trim().to_owned())
}

/// A timer that interrupts this thread's waiting, until it is dropped.
struct Ticks {
    timer: libc::timer_t,
    installed: Installed,
}

impl Ticks {
    const SIGNAL: libc::c_int = libc::SIGALRM;

    fn start() -> io::Result<Self> {
        extern "C" fn nothing(_: libc::c_int) {}
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: the handler does nothing.
        let installed = unsafe { Installed::new(Self::SIGNAL, handler as libc::sighandler_t, 0) }?;
        let period = libc::timespec { tv_sec: 0, tv_nsec: POLL.subsec_nanos().into() };
        let period = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: the structures are valid to read and write; all zeroes is a value of these.
        let timer = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = Self::SIGNAL;
            event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_pid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            check(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))
                .inspect_err(|_| installed.restore(Self::SIGNAL))?;
            libc::timer_settime(timer, 0, &raw const period, ptr::null_mut());
            timer
        };
        Ok(Self { timer, installed })
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // SAFETY: the timer is this value's own.
        unsafe { libc::timer_delete(self.timer) };
        self.installed.restore(Self::SIGNAL);
    }
}
