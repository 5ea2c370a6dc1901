//! Measured: a user's command, from its start until it has ended.
//!
//! A measured command leads a process group of its own, and the kernel kills it when this process ends; its starter
//! (`command/small_starter.rs`) then kills the group. What it leaves running is adopted by this process ([`adopt_orphans`]), so
//! that it can be ended.
//!
//! Source: wait4(2), pidfd_open(2) (Linux 5.3), prctl(2) on `PR_SET_CHILD_SUBREAPER` and `PR_SET_PDEATHSIG`,
//! proc_pid_stat(5), Documentation/scheduler/sched-stats.rst.

mod small_starter;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::cpu::clock::{ClockId, now_ns};
use crate::process::child::ends_with;
use crate::process::signal_group;
use crate::process::stat::{self, Stat};
use crate::sched::affinity;
use crate::sched::usage::Usage;
use crate::system_call::{retry, with_context};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, child_subreaper, getpid,
    kill_process, pidfd_open, set_child_subreaper, waitid, waitpid,
};
use small_starter::{Line, NotStarted, SmallStarter};

/// How long a command may take to end after SIGTERM, before it is killed.
const TERMINATION: Duration = Duration::from_secs(1);
/// How long a killed process may take to end: one that waits for a device may never do so.
const KILLED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(1);

/// A command that has been started. If it is dropped, the command and its process group are killed.
#[derive(Debug)]
pub struct Running {
    /// The command or its starter, and the line to that.
    child: Child,
    line: Option<Line>,
    pid: Pid,
    ends: OwnedFd,
    started_ns: u64,
    /// Whether it leads a process group.
    is_leader: bool,
    is_reaped: bool,
}

/// How a command ended, and what it used.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// From before it was started until this process noticed its end, nanoseconds.
    pub wall_ns: u64,
    /// Its exit code, or the signal that killed it.
    pub status: ExitStatus,
    /// What it used, with the children that it waited for.
    pub usage: Usage,
    /// Whether its peak memory is its own: otherwise it may be what this process had when it started the command.
    pub is_own_peak: bool,
    /// What its first thread used alone; `None` if the kernel does not report it (`CONFIG_SCHED_INFO`).
    pub first_thread: Option<FirstThread>,
}

/// What the kernel's scheduler counted for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstThread {
    /// Its CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// How long it was ready and waited for a CPU, nanoseconds.
    pub wait_ns: u64,
}

/// Starts commands to measure.
#[derive(Debug)]
pub struct Starter(Option<SmallStarter>);

impl Default for Starter {
    fn default() -> Self {
        Self(SmallStarter::new().ok())
    }
}

impl Starter {
    /// Starts commands without a process in between: the calling thread is their parent. Their peak memory may be this
    /// process's.
    pub fn direct() -> Self {
        Self(None)
    }

    /// Starts a command, in a process group of its own, on these CPUs, or where this thread may run if there are none.
    /// `configure` gives it its files and its folder; `folder` is that folder, if it is another than this process's, for paths
    /// that are relative to it. When the command has ended, the rest of its group is killed.
    ///
    /// # Errors
    ///
    /// Those of fork(2) and execve(2), and of `configure`; `InvalidInput` for CPUs that do not exist; `Unsupported` before
    /// Linux 5.3.
    pub fn start(
        &self,
        words: &[OsString],
        folder: Option<&Path>,
        cpus: &[usize],
        configure: impl Fn(&mut Command) -> io::Result<()>,
    ) -> io::Result<Running> {
        if let Some(starter) = &self.0 {
            match start_small(starter, words, folder, cpus, &configure) {
                Ok(running) => return Ok(running),
                // A script without an interpreter, which only execvp(3) starts.
                Err(NotStarted::Command(error))
                    if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {}
                Err(NotStarted::Command(error)) => return Err(error),
                Err(NotStarted::Starter) => {}
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0);
        configure(&mut command)?;
        start_in_group(&mut command, cpus, true)
    }
}

fn start_small(
    starter: &SmallStarter,
    words: &[OsString],
    folder: Option<&Path>,
    cpus: &[usize],
    configure: impl Fn(&mut Command) -> io::Result<()>,
) -> Result<Running, NotStarted> {
    let starting = starter.command(words, folder).map_err(NotStarted::Command)?;
    let (mut command, mut line, its) = starting;
    configure(&mut command).map_err(NotStarted::Command)?;
    let set =
        (!cpus.is_empty()).then(|| affinity::set(cpus)).transpose().map_err(NotStarted::Command)?;
    // SAFETY: the closure makes only async-signal-safe calls, and allocates nothing.
    unsafe {
        command.process_group(0).pre_exec(move || {
            small_starter::keep_open(&its)?;
            set.as_deref().map_or(Ok(()), affinity::pin_to)
        });
    }
    let mut child = command.spawn().map_err(|_| NotStarted::Starter)?;
    // With it, the socket of the starter.
    drop(command);
    let ready = line.wait_until_ready();
    let started_ns = now_ns(ClockId::Monotonic);
    let (pid, failed) = match ready.and_then(|()| line.start()) {
        Ok(started) => started,
        Err(error) => {
            drop(line);
            let _ = child.wait();
            return Err(error);
        }
    };
    let mut running =
        Running::new(child, Some(line), pid, true, started_ns).map_err(NotStarted::Command)?;
    let Some(error) = failed else {
        return Ok(running);
    };
    running.release();
    let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    running.is_reaped = true;
    Err(NotStarted::Command(error))
}

/// Starts a command in the process group of this process, so that it may read the terminal and leave processes.
pub fn start_beside(command: &mut Command) -> io::Result<Running> {
    start_in_group(command, &[], false)
}

pub(crate) fn start_in_group(
    command: &mut Command,
    cpus: &[usize],
    is_leader: bool,
) -> io::Result<Running> {
    let set = (!cpus.is_empty()).then(|| affinity::set(cpus)).transpose()?;
    let parent = getpid();
    // SAFETY: the closure makes only async-signal-safe calls, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if !ends_with(parent) {
                return Err(Errno::SRCH.into());
            }
            set.as_deref().map_or(Ok(()), affinity::pin_to)
        });
    }
    let started_ns = now_ns(ClockId::Monotonic);
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    Running::new(child, None, pid, is_leader, started_ns)
}

impl Running {
    fn new(
        child: Child,
        line: Option<Line>,
        pid: Pid,
        is_leader: bool,
        started_ns: u64,
    ) -> io::Result<Running> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ends) => {
                Ok(Running { child, line, pid, ends, started_ns, is_leader, is_reaped: false })
            }
            Err(error) => {
                let _ = kill_process(pid, Signal::KILL);
                let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(with_context("pidfd_open (Linux 5.3)", error))
            }
        }
    }

    /// Ends the starter, if there is one.
    fn release(&mut self) {
        if let Some(mut line) = self.line.take() {
            line.release();
            drop(line);
            let _ = self.child.wait();
        }
    }

    /// Its number, for a tracer of this process, which waits for it and ends it from now on.
    pub(crate) fn leave_to_tracer(mut self) -> Pid {
        self.is_reaped = true;
        self.pid
    }

    /// The started child, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until the command has ended, and asks each `every` whether to go on. If not, the command gets SIGTERM and
    /// a second later SIGKILL; then its result is `None`.
    ///
    /// # Errors
    ///
    /// Those of poll(2) and wait4(2), of which none is known; and if a command in a group of its own waits for the
    /// terminal, which the kernel refuses it.
    pub fn wait(
        mut self,
        every: Duration,
        mut may_go_on: impl FnMut() -> bool,
    ) -> io::Result<Option<Ended>> {
        let mut was_ended = false;
        while !self.has_ended_within(every)? {
            if !may_go_on() {
                was_ended = true;
                self.signal(Signal::TERM)?;
                self.has_ended_within(TERMINATION)?;
                break;
            }
            if self.waits_for_terminal() {
                return Err(io::Error::other(
                    "it waits for the terminal: give it --input, or ask for what it needs in --setup or --prepare",
                ));
            }
        }
        let wall_ns = now_ns(ClockId::Monotonic) - self.started_ns;
        // As long as nobody has waited for it, its number is no other process's.
        let first_thread = first_thread(self.pid);
        if self.is_leader || was_ended {
            self.signal(Signal::KILL)?;
        }
        if was_ended && !self.has_ended_within(KILLED)? {
            // It waits for a device, and cannot be killed.
            self.is_reaped = true;
            return Ok(None);
        }
        let (status, usage) = self.reap()?;
        let is_own_peak = self.line.is_some();
        let ended = Ended { wall_ns, status, usage, is_own_peak, first_thread };
        Ok((!was_ended).then_some(ended))
    }

    fn has_ended_within(&self, time: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(time).map_err(io::Error::other)?;
        let mut ends = [PollFd::new(&self.ends, PollFlags::IN)];
        Ok(retry_on_intr(|| poll(&mut ends, Some(&limit)))? > 0)
    }

    /// To the whole group, if it leads one.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.is_leader {
            true => signal_group(self.pid.as_raw_nonzero().get().unsigned_abs(), signal),
            false => Ok(kill_process(self.pid, signal)?),
        }
    }

    /// Whether the kernel stopped it because only the foreground process group may use the terminal.
    fn waits_for_terminal(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options).ok().flatten();
        let stopped_by = status.and_then(|status| status.stopping_signal());
        let by_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        self.is_leader && stopped_by.is_some_and(|signal| by_terminal.contains(&signal))
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Usage)> {
        let mut status = 0;
        let mut raw = MaybeUninit::<libc::rusage>::zeroed();
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: both addresses are valid to write to.
        retry(|| unsafe { libc::wait4(pid, &mut status, 0, raw.as_mut_ptr()) })?;
        self.is_reaped = true;
        // SAFETY: a rusage of zeroes is valid, and the kernel has filled it in since.
        let usage = Usage::from_raw(&unsafe { raw.assume_init() });
        Ok((ExitStatus::from_raw(status), usage))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.signal(Signal::KILL);
            let _ = self.has_ended_within(KILLED);
            let _ = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::NOHANG));
        }
        self.release();
    }
}

/// `cpu_ns wait_ns slices` of the first thread, also of a process that has ended and was not waited for.
fn first_thread(process: Pid) -> Option<FirstThread> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(FirstThread { cpu_ns: numbers.next()?.ok()?, wait_ns: numbers.next()?.ok()? })
        .filter(|thread| thread.cpu_ns > 0)
}

/// From now on, processes whose parent ends become children of this process, if they descend from it.
///
/// # Errors
///
/// Those of prctl(2); none is known since Linux 3.4.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The children of this process now, adopted ones too.
pub fn children() -> Vec<Pid> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if matches!(waitid(WaitId::All, options), Err(Errno::CHILD)) {
        return Vec::new();
    }
    let own = getpid();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(|&pid| parent_of(pid) == Some(own)).collect()
}

fn parent_of(process: Pid) -> Option<Pid> {
    let line = stat::read(process.as_raw_pid().cast_unsigned()).ok()?;
    Pid::from_raw(Stat::parse(&line)?.number(4)?)
}

/// Kills all children of this process and theirs, except these, and waits until they have ended: how many there were.
/// One that cannot end is given up after two seconds. Nothing else in this process may wait for a child meanwhile.
pub fn end_children(except: &[Pid]) -> usize {
    let began = Instant::now();
    let mut ended = 0;
    loop {
        let mut left = children();
        left.retain(|child| !except.contains(child));
        if left.is_empty() || began.elapsed() > KILLED {
            return ended;
        }
        for child in left {
            let _ = kill_process(child, Signal::KILL);
            let reaped = retry_on_intr(|| waitpid(Some(child), WaitOptions::NOHANG));
            ended += usize::from(matches!(reaped, Ok(Some(_))));
        }
        std::thread::sleep(POLL);
    }
}

/// Kills all children of this process and theirs as [`end_children`] does, if it adopts orphans; for a signal that ends
/// this process at once. SIGKILL leaves no time for that: then only the started commands end, and not what they started.
pub fn end_adopted() {
    if matches!(child_subreaper(), Ok(Some(_))) {
        end_children(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Started as a command to measure, by each of the two ways.
    fn start_each(words: &[&str], cpus: &[usize]) -> [io::Result<Running>; 2] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        [Starter::default(), Starter(None)]
            .map(|starter| starter.start(&words, None, cpus, |_| Ok(())))
    }

    fn start_script(script: &str, cpus: &[usize]) -> [Running; 2] {
        start_each(&["sh", "-c", script], cpus).map(Result::unwrap)
    }

    #[test]
    fn a_command_tells_how_it_ended_and_what_it_used() {
        let cpu = affinity::allowed().unwrap()[0];
        let spins = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7";
        for ended in start_script(spins, &[cpu]) {
            let ended = ended.wait(EVERY, || true).unwrap().unwrap();
            assert_eq!(ended.status.code(), Some(7));
            let cpu_ns = ended.usage.cpu_ns();
            assert!(cpu_ns > 0 && ended.usage.max_rss_bytes > 0, "{ended:?}");
            assert!(ended.wall_ns > 0);
            if let Some(first) = ended.first_thread {
                assert!(first.cpu_ns > cpu_ns / 2, "{ended:?}");
            }
        }
        for killed in start_script("kill -9 $$", &[]) {
            let killed = killed.wait(EVERY, || true).unwrap().unwrap();
            assert_eq!(killed.status.signal(), Some(9));
        }
    }

    #[test]
    fn a_command_that_cannot_be_started_says_why() {
        for program in ["/no/such/program", "no-such-program"] {
            for missing in start_each(&[program], &[]) {
                assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound, "{program}");
            }
        }
        for folder in start_each(&["/"], &[]) {
            assert_eq!(folder.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(start_each(&["sh", "-c", ":"], &[usize::MAX]).iter().all(Result::is_err));
    }

    #[test]
    fn a_script_without_an_interpreter_is_started_by_the_shell() {
        let path = std::env::temp_dir().join(format!("costof-script-{}", std::process::id()));
        // Written by another process: what other tests fork meanwhile would have it open to write, and it were busy.
        let mut made = shell("echo exit 3 >\"$0\" && chmod 755 \"$0\"");
        assert!(made.arg(&path).status().unwrap().success());
        for running in start_each(&[path.to_str().unwrap()], &[]) {
            let ended = running.unwrap().wait(EVERY, || true).unwrap().unwrap();
            assert_eq!(ended.status.code(), Some(3));
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_peak_of_a_small_command_is_not_that_of_a_large_starter() {
        let large = vec![1_u8; 64 << 20];
        let [own, plain] = start_script(":", &[]).map(|running| {
            let ended = running.wait(EVERY, || true).unwrap().unwrap();
            (ended.is_own_peak, ended.usage.max_rss_bytes)
        });
        assert!(!plain.0 && plain.1 > 64 << 20, "{plain:?}");
        // A memory file may be forbidden to be executed.
        assert!(!own.0 || own.1 < 32 << 20, "{own:?}");
        drop(std::hint::black_box(large));
    }

    #[test]
    fn a_command_that_ignores_sigterm_is_killed() {
        for stubborn in start_script("trap '' TERM; while :; do sleep 1; done", &[]) {
            let ended = stubborn.wait(EVERY, || false).unwrap();
            assert!(ended.is_none());
        }
    }

    #[test]
    fn what_a_command_leaves_is_ended() {
        let ended = crate::process::tests::child("command::tests::child_leaves_processes")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_leaves_processes() {
        adopt_orphans().unwrap();
        let run = |running: Running| running.wait(EVERY, || true).unwrap().unwrap();
        run(start_beside(&mut shell("sleep 1000 & sleep 1001 &")).unwrap());
        let kept = children();
        assert_eq!(kept.len(), 2);
        // One leaves its group too.
        for running in start_script("sleep 1002 & setsid sleep 1003 &", &[]) {
            run(running);
        }
        assert_eq!(end_children(&kept), 4);
        assert_eq!(children(), kept);
        assert_eq!(end_children(&[]), 2);
        assert_eq!(children(), []);
    }
}
