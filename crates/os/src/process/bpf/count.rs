//! Counts what a command or a running process does, with all its threads and children, by eBPF programs on tracepoints.
//!
//! System calls are counted as they end, by a raw tracepoint; all else by programs that get the tracepoint's record, whose
//! layout tracefs describes. Other processes run the programs too, which then find that they are not followed.
//!
//! Source: as bpf.rs, and Linux Documentation/trace/events.rst.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::assembler::Assembler;
use super::btf::Btf;
use super::{Map, OnTracepoint, ProgramType, attach_raw, load, run_once};
use crate::perf::Format;
use crate::process::tally::{Event, FORKING_CALLS, MOVING_CALLS, Tally, ThreadTally};
use crate::process::{task_name, threads_of};
use crate::system_call::{unsupported, with_context};

/// The tracepoints, and what is not counted without; `None` if nothing can be. The programs have their names.
const TRACEPOINTS: [(&str, &str, Option<&str>); 9] = [
    ("sched", "sched_process_fork", None),
    ("sched", "sched_process_exec", None),
    ("sched", "sched_process_exit", None),
    ("sched", "sched_switch", None),
    ("sched", "sched_waking", None),
    ("signal", "signal_deliver", None),
    ("exceptions", "page_fault_user", Some("page faults by kind")),
    ("exceptions", "page_fault_kernel", Some("page faults in the kernel")),
    ("block", "block_rq_issue", Some("block I/O")),
];

const MAX_THREADS: u32 = 1 << 15;
const MAX_TALLIES: u32 = 1 << 16;
const TALLY_BYTES: usize = 32;

// As count.bpf has them.
const THREAD_BYTES: usize = 48;
const NAME: usize = 32;
const PENDING: u32 = 1;
const COUNTED: u32 = 2;
const ENDED: u32 = 3;
const TAKEN: u32 = 4;
const CPU_BITS: u32 = 13;
/// The thread of which *tallies* has what there was no room for, by these events.
const NO_THREAD: u32 = 0;
const LOST_EVENT: u32 = 0;
const LOST_THREAD: u32 = 1;

/// Programs that count what the followed threads do, until this is dropped.
#[derive(Debug)]
pub struct Counter {
    threads: Map<4, THREAD_BYTES>,
    tallies: Map<8, TALLY_BYTES>,
    own_number: u32,
    absent: Vec<String>,
    _attached: Vec<(OwnedFd, OwnedFd)>,
    _calls: OnTracepoint,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What each thread did.
    pub threads: Vec<ThreadTally>,
    /// How many events were not counted, since there were too many kinds of them.
    pub lost_events: u64,
    /// How many threads were not counted, with all that they started, since there were too many.
    pub lost_threads: u64,
}

impl Counter {
    /// Loads and attaches the programs, which follow nothing yet.
    ///
    /// # Errors
    ///
    /// Those of bpf(2) and perf_event_open(2), and if tracefs cannot be read, with what was tried: `EPERM` without CAP_BPF and
    /// CAP_PERFMON, `EINVAL` or `ENOTSUPP` before Linux 5.15 or without its type information (CONFIG_DEBUG_INFO_BTF).
    pub fn attach() -> io::Result<Self> {
        Self::with_room(MAX_THREADS)
    }

    fn with_room(threads: u32) -> io::Result<Self> {
        let threads = Map::new(threads)?;
        let tallies = Map::new(MAX_TALLIES)?;
        for lost in [LOST_EVENT, LOST_THREAD] {
            let mut key = [0; 8];
            key[..4].copy_from_slice(&lost.to_ne_bytes());
            tallies.set(key, [0; TALLY_BYTES])?;
        }
        let maps = [("threads", &threads.0), ("tallies", &tallies.0)];
        let assembler = Assembler {
            source: include_str!("count.bpf"),
            maps: &maps.map(|(name, map)| (name, map.as_raw_fd())),
            lists: &[("MOVING", MOVING_CALLS), ("FORKING", FORKING_CALLS)],
        };
        let btf = Btf::read()?;
        let raw = |section| {
            let steps = assembler.assemble(section, |field| btf.offset(field))?;
            load(ProgramType::RawTracepoint, &steps)
        };
        let own_number = run_once(&raw("own_number")?)?;
        let (mut attached, mut absent) = (Vec::new(), Vec::new());
        for (category, name, what) in TRACEPOINTS {
            let attach = || {
                let record = Format::read(category, name)?;
                let steps = assembler.assemble(name, |field| record.offset(field))?;
                let program = load(ProgramType::Tracepoint, &steps)?;
                Ok((record.attach(&program)?, program))
            };
            match (attach().map_err(|error: io::Error| with_context(name, error)), what) {
                (Ok(program), _) => attached.push(program),
                (Err(error), Some(what)) => absent.push(format!("{what}: {error}")),
                (Err(error), None) => return Err(error),
            }
        }
        let calls = attach_raw(c"sys_exit", raw("sys_exit")?)?;
        Ok(Self { threads, tallies, own_number, absent, _attached: attached, _calls: calls })
    }

    /// What is not counted on this machine, each with the reason.
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// From now on, counts what the calling thread starts, from when that executes a program; until `started` has returned.
    ///
    /// # Errors
    ///
    /// Those of `start`, and of bpf(2).
    pub fn follow_started<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let own = self.own_number.to_ne_bytes();
        self.threads.set(own, new_thread(PENDING, 0))?;
        let started = start();
        self.threads.remove(own)?;
        started
    }

    /// From now on, counts a running process, with the threads and children that it will start.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such process; `Unsupported` in a pid namespace, where processes have other numbers than the
    /// kernel's own.
    pub fn follow_process(&self, process: u32) -> io::Result<()> {
        if self.own_number.cast_signed() != rustix::thread::gettid().as_raw_pid() {
            return Err(unsupported(
                "the kernel knows processes by other numbers than this pid namespace: count by ptrace (--by ptrace), or outside of \
                 the container",
            ));
        }
        // A thread that starts meanwhile is followed by its starter, or is in the next list.
        let mut known = Vec::new();
        loop {
            let mut threads = threads_of(process)?;
            threads.retain(|thread| !known.contains(thread));
            if threads.is_empty() {
                return Ok(());
            }
            for &(process, number) in &threads {
                self.threads.set(number.to_ne_bytes(), new_thread(COUNTED, process))?;
            }
            known.extend(threads);
        }
    }

    /// What was counted so far, by thread.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub fn read(&self) -> io::Result<Counted> {
        let mut threads: Vec<ThreadTally> =
            self.threads.entries()?.into_iter().filter_map(named_thread).collect();
        threads.sort_by_key(|thread| thread.thread);
        let (mut lost_events, mut lost_threads) = (0, 0);
        for (key, value) in self.tallies.entries()? {
            let tally = tally(value);
            let number = word(&key[4..]);
            let Ok(place) =
                threads.binary_search_by_key(&number.cast_signed(), |thread| thread.thread)
            else {
                match word(&key) {
                    LOST_EVENT if number == NO_THREAD => lost_events = tally.count,
                    LOST_THREAD if number == NO_THREAD => lost_threads = tally.count,
                    _ => {}
                }
                continue;
            };
            threads[place].events.extend(event(word(&key)).map(|event| (event, tally)));
        }
        threads.retain(|thread| !thread.events.is_empty());
        for thread in &mut threads {
            thread.events.sort_unstable_by_key(|(event, _)| *event);
        }
        Ok(Counted { threads, lost_events, lost_threads })
    }
}

/// An entry of *threads*, which begins with its state and its process.
fn new_thread(state: u32, process: u32) -> [u8; THREAD_BYTES] {
    let mut value = [0; THREAD_BYTES];
    value[..4].copy_from_slice(&state.to_ne_bytes());
    value[4..8].copy_from_slice(&process.to_ne_bytes());
    value
}

fn named_thread((number, value): ([u8; 4], [u8; THREAD_BYTES])) -> Option<ThreadTally> {
    let number = word(&number).cast_signed();
    let name = match word(&value) {
        PENDING => return None,
        ENDED | TAKEN => {
            let name = value[NAME..].split(|byte| *byte == 0).next();
            String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
        }
        _ => task_name(number).unwrap_or_default(),
    };
    let process = match word(&value[4..]).cast_signed() {
        0 => number,
        process => process,
    };
    Some(ThreadTally { process, thread: number, name, events: Vec::new() })
}

fn tally(value: [u8; TALLY_BYTES]) -> Tally {
    let mut numbers = value.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
    let mut next = || numbers.next().unwrap_or(0);
    Tally { count: next(), errors: next(), bytes: next(), off_cpu_ns: next() }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_ne_bytes)
}

/// An event as count.bpf writes it.
fn event(code: u32) -> Option<Event> {
    let cpu = |shift: u32| (code >> shift & ((1 << CPU_BITS) - 1)) as u16;
    let number = |bits: u32| (code >> 8 & ((1 << bits) - 1)) as u16;
    let bit = |bit: u32| code >> bit & 1 == 1;
    Some(match code >> 28 {
        0 => Event::Call {
            number: number(12),
            size_log2: (code as u8).checked_sub(1),
            file_type: (code >> 20 & 0xf) as u8,
        },
        1 => Event::Wait { call: number(13).checked_sub(1) },
        2 => Event::Preempted,
        3 => Event::WakeUp { from: cpu(CPU_BITS), to: cpu(0), by_itself: bit(2 * CPU_BITS) },
        4 => Event::Fault { is_present: bit(0), is_write: bit(1), in_kernel: bit(2) },
        5 => Event::Signal(code as u8),
        6 => Event::BlockIo { is_write: bit(0) },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// A counter with room for so many threads; `None`, with the reason, where it may not be used, or where tracefs or the
    /// kernel's type information is missing.
    fn counter(threads: u32) -> Option<Counter> {
        match Counter::with_room(threads) {
            Ok(counter) => Some(counter),
            Err(error) => {
                let needed = ["/sys/kernel/tracing/events/sched", "/sys/kernel/btf/vmlinux"];
                let is_missing = !needed.iter().all(|path| Path::new(path).exists());
                let is_refused = matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
                );
                assert!(is_missing || is_refused, "{error}");
                eprintln!("checked less: {error}");
                None
            }
        }
    }

    #[test]
    fn threads_without_room_are_counted_apart() {
        // This thread, until it has started the script, and the script.
        let Some(counter) = counter(2) else { return };
        let mut script = Command::new("sh");
        script.args(["-c", "sleep 0.2; /bin/true; /bin/true; /bin/true; :"]);
        let mut script = counter.follow_started(|| script.spawn()).unwrap();
        script.wait().unwrap();
        let counted = counter.read().unwrap();
        assert_eq!(counted.threads.len(), 2, "{counted:?}");
        assert_eq!([counted.lost_events, counted.lost_threads], [0, 3], "{counted:?}");
    }

    #[test]
    fn who_gets_an_ended_threads_number_is_not_counted() {
        let Some(counter) = counter(MAX_THREADS) else { return };
        let call = u32::try_from(libc::SYS_getppid).unwrap() << 8;
        let key = u64::from(call) | u64::from(counter.own_number) << 32;
        let mut value = [0; TALLY_BYTES];
        value[0] = 5;
        counter.tallies.set(key.to_ne_bytes(), value).unwrap();
        counter.threads.set(counter.own_number.to_ne_bytes(), new_thread(ENDED, 0)).unwrap();
        for _ in 0..10 {
            let _ = std::os::unix::process::parent_id();
        }
        let counted = counter.read().unwrap();
        let [thread] = &counted.threads[..] else { panic!("{counted:?}") };
        let [(_, tally)] = thread.events[..] else { panic!("{counted:?}") };
        assert_eq!(tally.count, 5);
    }

    #[test]
    fn only_what_is_started_meanwhile_is_counted() {
        let Some(counter) = counter(MAX_THREADS) else { return };
        let mut followed = counter.follow_started(|| Command::new("true").spawn()).unwrap();
        let mut other = Command::new("true").spawn().unwrap();
        for child in [&mut followed, &mut other] {
            child.wait().unwrap();
        }
        let counted = counter.read().unwrap();
        assert_eq!([counted.lost_events, counted.lost_threads], [0, 0]);
        let [thread] = &counted.threads[..] else { panic!("{counted:?}") };
        assert_eq!(thread.name, "true");
        let number = u16::try_from(libc::SYS_exit_group).unwrap();
        let exits = (
            Event::Call { number, size_log2: None, file_type: 0 },
            Tally { count: 1, ..Tally::default() },
        );
        assert!(thread.events.contains(&exits), "{thread:?}");
    }

    #[test]
    fn events_are_read_as_they_are_written() {
        for (code, expected) in [
            (231 << 8, Event::call(231)),
            (12 << 20 | 1 << 8 | 7, Event::Call { number: 1, size_log2: Some(6), file_type: 12 }),
            (1 << 28, Event::Wait { call: None }),
            (1 << 28 | 1 << 8, Event::Wait { call: Some(0) }),
            (2 << 28, Event::Preempted),
            (3 << 28 | 1 << 26 | 5 << 13 | 9, Event::WakeUp { from: 5, to: 9, by_itself: true }),
            (4 << 28 | 6, Event::Fault { is_present: false, is_write: true, in_kernel: true }),
            (5 << 28 | 15, Event::Signal(15)),
            (6 << 28, Event::BlockIo { is_write: false }),
        ] {
            assert_eq!(event(code), Some(expected));
        }
        assert_eq!(event(15 << 28), None);
    }
}
