//! Counts what a command or a running process does, with all its threads and children, by eBPF programs on tracepoints.
//!
//! System calls are counted as they end, by a raw tracepoint; all else by programs that get the tracepoint's record, whose
//! layout tracefs describes. Other processes run the programs too, which then find that they are not followed.
//!
//! Source: as bpf.rs, and Linux Documentation/trace/events.rst.

use std::io;
use std::os::fd::OwnedFd;

use super::programs::{self, LOST, Tables, event, thread};
use super::{Map, OnTracepoint, ProgramType, attach_raw, load, run_once};
use crate::perf::Format;
use crate::process::tally::{Event, Tally, ThreadTally};
use crate::process::{task_name, threads_of};
use crate::system_call::{unsupported, with_context};

const MAX_THREADS: u32 = 1 << 15;
const MAX_TALLIES: u32 = 1 << 16;
const TALLY_BYTES: usize = 32;

/// Programs that count what the followed threads do, until this is dropped.
#[derive(Debug)]
pub struct Counter {
    threads: Map<4, { thread::BYTES }>,
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
    /// How many events were not counted, since there were too many threads, or too many kinds of events.
    pub lost: u64,
}

impl Counter {
    /// Loads and attaches the programs, which follow nothing yet.
    ///
    /// # Errors
    ///
    /// Those of bpf(2) and perf_event_open(2), and if tracefs cannot be read, with what was tried: `EPERM` without CAP_BPF and
    /// CAP_PERFMON, `EINVAL` or `ENOTSUPP` before Linux 5.15 or without its type information (CONFIG_DEBUG_INFO_BTF).
    pub fn attach() -> io::Result<Self> {
        let threads = Map::new(MAX_THREADS)?;
        let tallies = Map::new(MAX_TALLIES)?;
        tallies.set([0; 8], [0; TALLY_BYTES])?;
        let own_number = run_once(&load(ProgramType::RawTracepoint, &programs::own_number())?)?;
        let tables = Tables { threads: &threads.0, tallies: &tallies.0 };
        let mut attached = vec![
            attach("sched:sched_process_fork", |record| programs::fork(tables, record))?,
            attach("sched:sched_process_exit", |_| Ok(programs::thread_ends(tables)))?,
            attach("sched:sched_switch", |record| programs::switch(tables, record))?,
            attach("sched:sched_waking", |record| programs::waking(tables, record))?,
            attach("signal:signal_deliver", |record| programs::signal(tables, record))?,
        ];
        let fault =
            |name, in_kernel| attach(name, |record| programs::fault(tables, record, in_kernel));
        let block_io = attach("block:block_rq_issue", |record| programs::block_io(tables, record));
        let mut absent = Vec::new();
        for (what, program) in [
            ("page faults by kind", fault("exceptions:page_fault_user", false)),
            ("page faults in the kernel", fault("exceptions:page_fault_kernel", true)),
            ("block I/O", block_io),
        ] {
            match program {
                Ok(program) => attached.push(program),
                Err(error) => absent.push(format!("{what}: {error}")),
            }
        }
        let calls = load(ProgramType::RawTracepoint, &programs::call_ends(tables))?;
        let calls = attach_raw(c"sys_exit", calls)?;
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
        self.threads.set(own, new_thread(thread::PENDING, 0))?;
        let started = start();
        self.threads.remove(own);
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
                "processes have other numbers here than in the kernel (pid namespace): run costof outside of the container",
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
                self.threads.set(number.to_ne_bytes(), new_thread(thread::COUNTED, process))?;
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
        let mut lost = 0;
        for (key, value) in self.tallies.entries()? {
            let tally = tally(value);
            let number = word(&key[4..]);
            let Ok(place) =
                threads.binary_search_by_key(&number.cast_signed(), |thread| thread.thread)
            else {
                lost += if number == LOST { tally.count } else { 0 };
                continue;
            };
            threads[place].events.extend(event(word(&key)).map(|event| (event, tally)));
        }
        threads.retain(|thread| !thread.events.is_empty());
        for thread in &mut threads {
            thread.events.sort_unstable_by_key(|(event, _)| *event);
        }
        Ok(Counted { threads, lost })
    }
}

/// A program on a tracepoint, and what holds it there.
fn attach(
    tracepoint: &str,
    program: impl Fn(&Format) -> io::Result<Vec<u64>>,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let (category, name) = tracepoint.split_once(':').expect("names have a category");
    let record = Format::read(category, name)?;
    let explained = |error| with_context(tracepoint, error);
    let program = program(&record).and_then(|steps| load(ProgramType::Tracepoint, &steps));
    let program = program.map_err(explained)?;
    Ok((record.attach(&program).map_err(explained)?, program))
}

fn new_thread(state: i32, process: u32) -> [u8; thread::BYTES] {
    let mut value = [0; thread::BYTES];
    for (place, number) in [(thread::STATE, state.cast_unsigned()), (thread::PROCESS, process)] {
        let place = place as usize;
        value[place..place + 4].copy_from_slice(&number.to_ne_bytes());
    }
    value
}

fn named_thread((number, value): ([u8; 4], [u8; thread::BYTES])) -> Option<ThreadTally> {
    let number = word(&number).cast_signed();
    let field = |place: i16| word(&value[place as usize..]).cast_signed();
    let name = match field(thread::STATE) {
        thread::PENDING => return None,
        thread::ENDED => {
            let name = value[thread::NAME as usize..].split(|byte| *byte == 0).next();
            String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
        }
        _ => task_name(number).unwrap_or_default(),
    };
    let process = match field(thread::PROCESS) {
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

fn event(code: u32) -> Option<Event> {
    let code = code.cast_signed();
    let cpu = |shift: i32| (code >> shift & ((1 << event::CPU_BITS) - 1)) as u16;
    let number = (code >> event::CALL_SHIFT & 0xf_ffff) as u16;
    Some(match code >> event::KIND_SHIFT {
        event::CALL => Event::Call { number, size_log2: (code as u8).checked_sub(1) },
        event::WAIT => Event::Wait { call: number.checked_sub(1) },
        event::PREEMPTED => Event::Preempted,
        event::WAKE_UP => Event::WakeUp {
            from: cpu(event::CPU_BITS),
            to: cpu(0),
            by_itself: code >> (2 * event::CPU_BITS) & 1 == 1,
        },
        event::FAULT => Event::Fault {
            is_present: code & 1 == 1,
            is_write: code & 0b10 != 0,
            in_kernel: code & 0b100 != 0,
        },
        event::SIGNAL => Event::Signal(code as u8),
        event::BLOCK_IO => Event::BlockIo { is_write: code & 1 == 1 },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What a program did; `None` if it cannot be counted here.
    pub(crate) fn counted(command: &mut Command) -> Option<Vec<ThreadTally>> {
        let counter = match Counter::attach() {
            Ok(counter) => counter,
            Err(error) => {
                eprintln!("checked less: {error}");
                return None;
            }
        };
        let mut child = counter.follow_started(|| command.spawn()).unwrap();
        child.wait().unwrap();
        let counted = counter.read().unwrap();
        assert_eq!(counted.lost, 0);
        Some(counted.threads)
    }

    #[test]
    fn the_calls_of_a_program_are_counted_with_their_bytes() {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "of=/dev/null", "bs=64", "count=1000", "status=none"]);
        let Some(threads) = counted(&mut dd) else { return };
        println!("{threads:#?}");
    }
}
