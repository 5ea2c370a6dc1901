//! Counts what a command or a running process does, with all its threads and children.
//!
//! By eBPF where this user may use it, otherwise by ptrace; both count the same system calls. Where one of them is asked for and
//! cannot be had, that is an error. Nothing stays attached or stopped, also if this process is killed.

use crate::bill::stretch;
use crate::command::{Output, Program};
use costof_model::Facts;
use costof_model::bill::{
    Count, Counts, End, FaultKind, FileKind, Item, Means, SizeClass, ThreadCounts, merged,
};
use costof_os::process::bpf::count::{Counted, Counter};
use costof_os::process::command::{self, Starter};
use costof_os::process::ptrace;
use costof_os::process::stat::{self, Stat};
use costof_os::process::tally::{Event, FOREIGN_CALL, Tally, ThreadTally};
use costof_os::sched::usage::{self, Usage};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use syscalls::Sysno;

/// How often the caller is asked whether to go on.
const POLL: Duration = Duration::from_millis(100);
/// What ptrace does not show.
const ONLY_EBPF: &str = "page faults by kind, waits, wake-ups, block I/O, and what set-user-ID programs do with their \
                         privileges: ptrace shows only system calls and signals; run as root, or with CAP_BPF and \
                         CAP_PERFMON, to count by eBPF";

/// Runs a program to its end and counts what it does on the machine of these facts; asks `may_go_on` ten times a second. `None` if
/// that ended it. What it leaves running is ended. No other child of the calling thread may end meanwhile.
///
/// # Errors
///
/// If the program, its input or its output cannot be opened or started, or if these means do not work here.
pub fn count(
    program: &Program,
    means: Option<Means>,
    facts: &Facts,
    may_go_on: impl FnMut() -> bool,
) -> io::Result<Option<Counts>> {
    command::adopt_orphans()?;
    let kept = command::children();
    let start_ns = start_ns();
    let counts = match chosen(means)? {
        Chosen::Ebpf(counter) => by_ebpf(program, &counter, facts, may_go_on),
        Chosen::Ptrace(not_counted) => by_ptrace(program, not_counted, facts, may_go_on),
    };
    command::end_children(&kept);
    Ok(counts?.map(|counts| Counts {
        system_ns: counts.system_ns.saturating_sub(start_ns),
        // The kernel divides a short time as it finds it at its ticks, perhaps all to user code.
        user_ns: counts.user_ns.saturating_sub(start_ns.saturating_sub(counts.system_ns)),
        ..counts
    }))
}

/// What a fork of costof takes until it executes the program, which no timed run has: one that finds nothing to execute.
fn start_ns() -> u64 {
    let before = usage::children();
    let no_program = [OsString::from("/")];
    let _ = Starter::direct().start(&no_program, None, &[], |_| Ok(()));
    let used = usage::children().since(&before);
    used.cpu_ns()
}

/// Counts what a running process does for a while, or until it ends or may not go on.
///
/// # Errors
///
/// `NotFound` if there is no such process; if it may not be counted, or these means do not work here.
pub fn count_process(
    process: u32,
    duration: Duration,
    means: Option<Means>,
    facts: &Facts,
    mut may_go_on: impl FnMut() -> bool,
) -> io::Result<Counts> {
    let means = chosen(means)?;
    let before = stretch::used(process).ok();
    let began = Instant::now();
    let mut counts = match means {
        Chosen::Ebpf(counter) => {
            counter.follow_process(process)?;
            while began.elapsed() < duration && may_go_on() && is_alive(process) {
                std::thread::sleep(POLL.min(duration.saturating_sub(began.elapsed())));
            }
            let wall_ns = began.elapsed().as_nanos() as u64;
            Counts { wall_ns, ..of_counter(&counter, facts, None)? }
        }
        Chosen::Ptrace(not_counted) => {
            let goes_on = || began.elapsed() < duration && may_go_on();
            let counted = ptrace::count_process(process, goes_on)?;
            let wall_ns = began.elapsed().as_nanos() as u64;
            Counts {
                wall_ns,
                ..counts(Means::Ptrace, counted.threads, not_counted, facts, counted.ended)
            }
        }
    };
    let after = stretch::used(process).ok().filter(|_| is_alive(process));
    match (before, after) {
        (Some(before), Some(after)) => {
            counts.whole = whole([
                after.minor_faults.saturating_sub(before.minor_faults),
                after.major_faults.saturating_sub(before.major_faults),
            ]);
            counts.end = End::Running;
        }
        _ => {
            counts.whole = Vec::new();
            counts.end = End::Ended;
            counts.not_counted.push("all page faults: the process ended meanwhile".to_owned());
        }
    }
    Ok(counts)
}

/// The means that are used.
enum Chosen {
    Ebpf(Counter),
    /// With what is not counted.
    Ptrace(Vec<String>),
}

/// The means that were asked for, otherwise the best.
fn chosen(means: Option<Means>) -> io::Result<Chosen> {
    match means {
        Some(Means::Ptrace) => Ok(Chosen::Ptrace(vec![ONLY_EBPF.to_owned()])),
        Some(Means::Ebpf) => Counter::attach().map(Chosen::Ebpf),
        None => Ok(match Counter::attach() {
            Ok(counter) => Chosen::Ebpf(counter),
            Err(error) => Chosen::Ptrace(vec![format!("{ONLY_EBPF} ({error})")]),
        }),
    }
}

fn by_ebpf(
    program: &Program,
    counter: &Counter,
    facts: &Facts,
    may_go_on: impl FnMut() -> bool,
) -> io::Result<Option<Counts>> {
    let program = without_pipe(program);
    let configure = |command: &mut Command| program.configure(command);
    let folder = program.folder.as_deref();
    let starter = Starter::direct();
    let running =
        counter.follow_started(|| starter.start(&program.words, folder, &[], configure))?;
    let Some(ended) = running.wait(POLL, may_go_on)? else { return Ok(None) };
    let counts = of_counter(counter, facts, Some((ended.status, ended.usage)))?;
    Ok(Some(Counts { wall_ns: ended.wall_ns, ..counts }))
}

fn by_ptrace(
    program: &Program,
    not_counted: Vec<String>,
    facts: &Facts,
    may_go_on: impl FnMut() -> bool,
) -> io::Result<Option<Counts>> {
    let program = without_pipe(program);
    let mut command = Command::new(&program.words[0]);
    command.args(&program.words[1..]);
    program.configure(&mut command)?;
    let began = Instant::now();
    let counted = ptrace::count_command(&mut command, &[], may_go_on)?;
    let wall_ns = began.elapsed().as_nanos() as u64;
    let is_whole = !counted.was_stopped;
    Ok(is_whole.then(|| Counts {
        wall_ns,
        ..counts(Means::Ptrace, counted.threads, not_counted, facts, counted.ended)
    }))
}

/// Nobody reads the command's own numbers of a counted run.
fn without_pipe(program: &Program) -> Program {
    let mut program = program.clone();
    if matches!(program.output, Output::Capture(_)) {
        program.output = Output::Null;
    }
    program
}

fn of_counter(
    counter: &Counter,
    facts: &Facts,
    ended: Option<(ExitStatus, Usage)>,
) -> io::Result<Counts> {
    let Counted { threads, lost_events, lost_threads } = counter.read()?;
    let mut not_counted = counter.absent().to_vec();
    if lost_events > 0 {
        not_counted
            .push(format!("{lost_events} events: the kinds of what threads did were too many"));
    }
    if lost_threads > 0 {
        not_counted.push(format!("{lost_threads} threads and all that they started: too many"));
    }
    Ok(counts(Means::Ebpf, threads, not_counted, facts, ended))
}

fn counts(
    means: Means,
    threads: Vec<ThreadTally>,
    not_counted: Vec<String>,
    facts: &Facts,
    ended: Option<(ExitStatus, Usage)>,
) -> Counts {
    let thread = |thread: ThreadTally| ThreadCounts {
        process: thread.process,
        thread: thread.thread,
        name: thread.name,
        items: merged(
            thread.events.into_iter().map(|(event, tally)| of_event(facts, event, tally)),
        ),
    };
    let usage = ended.map(|(_, usage)| usage);
    let end = ended.map_or(End::Running, |(status, _)| match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Killed(signal.unwrap_or(0)),
    });
    Counts {
        means,
        not_counted,
        threads: threads.into_iter().map(thread).collect(),
        whole: Vec::new(),
        wall_ns: 0,
        user_ns: usage.map_or(0, |usage| usage.user_ns),
        system_ns: usage.map_or(0, |usage| usage.system_ns),
        end,
    }
}

/// Minor and major faults of all that was counted.
fn whole(faults: [u64; 2]) -> Vec<Count> {
    let kinds = [FaultKind::Minor, FaultKind::Major];
    let counts = kinds.into_iter().zip(faults).map(|(kind, count)| Count {
        item: Item::Fault { kind, in_kernel: false },
        count,
        errors: 0,
        bytes: 0,
        waited_ns: 0,
    });
    counts.filter(|count| count.count > 0).collect()
}

fn of_event(facts: &Facts, event: Event, tally: Tally) -> Count {
    let item = match event {
        Event::Call { number, size_log2, file_type } => {
            let of = match file_type {
                0x1 => Some(FileKind::Pipe),
                0x2 => Some(FileKind::Device),
                0x6 | 0x8 => Some(FileKind::File),
                0xc => Some(FileKind::Socket),
                _ => None,
            };
            Item::Call { name: call_name(number), size: size_log2.map(SizeClass), of }
        }
        Event::Wait { call } => Item::Wait { call: call.map(call_name) },
        Event::Preempted => Item::Preempted,
        Event::WakeUp { from, to, by_itself } => {
            Item::WakeUp { distance: facts.distance(from.into(), to.into()), by_itself }
        }
        Event::Fault { is_present, is_write, in_kernel } => {
            let kind = match (is_present, is_write) {
                (true, true) => FaultKind::WriteProtected,
                (false, true) => FaultKind::FirstWrite,
                (_, false) => FaultKind::FirstRead,
            };
            Item::Fault { kind, in_kernel }
        }
        Event::Signal(number) => Item::Signal { number: number.into() },
        Event::BlockIo { is_write } => Item::BlockIo { is_write },
    };
    let Tally { count, errors, bytes, off_cpu_ns } = tally;
    Count { item, count, errors, bytes, waited_ns: off_cpu_ns }
}

/// The name of a system call in syscalls(2).
fn call_name(number: u16) -> String {
    match Sysno::new(number.into()) {
        _ if number == FOREIGN_CALL => "a call of another architecture".to_owned(),
        Some(call) => call.name().to_owned(),
        None => format!("call {number}"),
    }
}

/// Whether a process goes on.
fn is_alive(process: u32) -> bool {
    let line = stat::read(process);
    line.is_ok_and(|line| Stat::parse(&line).is_some_and(|stat| stat.is_alive()))
}
