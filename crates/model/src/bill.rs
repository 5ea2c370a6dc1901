//! What a command did, counted: its system calls, page faults, waits and wake-ups, thread by thread.
//!
//! Counts say how often, never how expensive: what one of each costs comes from this machine's own rows. The times of a counted run
//! are not the program's, since counting slows it down.

use crate::timing::TimedRun;
use costof_stats::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// By which facility a command was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// eBPF programs at the kernel's tracepoints (Linux 5.15, CAP_BPF and CAP_PERFMON).
    Ebpf,
    /// A tracer that stops each thread at each system call, as strace does; for any user.
    Ptrace,
}

/// What a command did, with all its threads and children, or a running process for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// How it was counted.
    pub means: Means,
    /// What was not counted, each as `kind: reason and way out`.
    pub not_counted: Vec<String>,
    /// Its threads, in the order of their numbers.
    pub threads: Vec<ThreadCounts>,
    /// What the kernel counts only for a whole process: [`FaultKind::Minor`] and [`FaultKind::Major`] faults, which contain
    /// the faults of other kinds that the threads have. Absent of a program, whose timed runs have them: a counted run starts
    /// with faults of costof's own.
    pub whole: Vec<Count>,
    /// From its start, or from when it was attached to, to its end, nanoseconds. Contains the counting.
    pub wall_ns: u64,
    /// User and system CPU time of the counted run, nanoseconds, which contain the counting, and not what costof's fork took
    /// to start it; zero for a process that had been running.
    pub user_ns: u64,
    /// See `user_ns`.
    pub system_ns: u64,
    /// How it ended.
    pub end: End,
}

/// How a counted command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was running before it was counted, and ended meanwhile.
    Ended,
    /// It goes on: it was counted only for a while.
    Running,
}

/// What one thread did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadCounts {
    /// The number of its process.
    pub process: i32,
    /// Its own number; that of its process for the first thread.
    pub thread: i32,
    /// Its name when it ended, or at last (proc_pid_comm(5)).
    pub name: String,
    /// Each item once, in the order of [`Item`].
    pub items: Vec<Count>,
}

/// How often something happened, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// What happened.
    #[serde(flatten)]
    pub item: Item,
    /// How often.
    pub count: u64,
    /// How many of these failed: system calls that returned an error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// The bytes moved in or out of the kernel, or to and from the device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// How long the thread was off the CPU because of it, nanoseconds, in sum: see [`Item`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that happens in a program and has a price.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum Item {
    /// A system call.
    Call {
        /// Its name in syscalls(2).
        name: String,
        /// The size of what it moved, of a call that returns bytes and moved some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<SizeClass>,
        /// What its first descriptor is of, of a call that moved bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<FileKind>,
    },
    /// A page fault. Those of kinds `first_read`, `first_write` and `write_protected` are counted for each thread.
    Fault {
        /// Its kind.
        kind: FaultKind,
        /// Whether it happened in the kernel, on an address that a system call was given.
        in_kernel: bool,
    },
    /// A voluntary context switch: the thread gave up its CPU until something happened. `waited_ns` is the time until it ran
    /// again.
    Wait {
        /// The system call that it waited in; absent for a page fault.
        call: Option<String>,
    },
    /// An involuntary context switch: the thread was ready, and something else ran. `waited_ns` is the time until it ran again.
    Preempted,
    /// The thread was woken. `waited_ns` is the time from that until it ran, which is also in its [`Item::Wait`]. A thread that is
    /// not counted is an item of the counted one that woke it, with no time, and with the CPU on which it ran last.
    WakeUp {
        /// From the CPU of the waker to the CPU on which the thread ran then.
        distance: Distance,
        /// Whether the waker belongs to the command; otherwise another program, a timer or a device.
        by_itself: bool,
    },
    /// A signal was handled.
    Signal {
        /// Its number.
        number: i32,
    },
    /// A request to a block device that the thread made itself, not the kernel on its behalf later.
    BlockIo {
        /// Whether it wrote.
        is_write: bool,
    },
}

/// A size in bytes by its power of two: 6 is 64 to 127 bytes. The mean size of a [`Count`] is its `bytes` by its `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SizeClass(pub u8);

impl SizeClass {
    /// The class of a size; `None` for no bytes.
    pub fn new(bytes: u64) -> Option<SizeClass> {
        Some(SizeClass(bytes.checked_ilog2()? as u8))
    }

    /// The smallest size of the class.
    pub fn min_bytes(self) -> u64 {
        1 << self.0
    }
}

/// What a descriptor is of (inode(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file, in memory or on a block device, or a block device.
    File,
    /// A character device, such as /dev/null or a terminal.
    Device,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// What a page fault found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing is mapped, and it reads or executes: a page of a file, or the page of zeroes.
    FirstRead,
    /// Nothing is mapped, and it writes: most often a new page.
    FirstWrite,
    /// The page may not be written: it is copied, or becomes writable.
    WriteProtected,
    /// Any, without input or output.
    Minor,
    /// Any, with input or output.
    Major,
}

/// How far two CPUs are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// The same CPU.
    SameCpu,
    /// Hardware threads of one core.
    Sibling,
    /// Cores that share a last-level cache.
    SameCache,
    /// Cores of one memory node, with a cache each.
    SameNode,
    /// CPUs of two memory nodes.
    OtherNode,
}

impl Counts {
    /// The sum over all threads, each item once, in the order of [`Item`].
    pub fn sum(&self) -> Vec<Count> {
        merged(self.threads.iter().flat_map(|thread| thread.items.iter().cloned()))
    }
}

/// Adds up the counts of equal items; in the order of [`Item`].
pub fn merged(counts: impl IntoIterator<Item = Count>) -> Vec<Count> {
    let mut by_item: BTreeMap<Item, Count> = BTreeMap::new();
    for count in counts {
        let Some(sum) = by_item.get_mut(&count.item) else {
            by_item.insert(count.item.clone(), count);
            continue;
        };
        sum.count += count.count;
        sum.errors += count.errors;
        sum.bytes += count.bytes;
        sum.waited_ns += count.waited_ns;
    }
    by_item.into_values().collect()
}

/// A command, run uncounted for its time and counted for its counts, in turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedCommand {
    /// The command line.
    pub command: String,
    /// The runs that give its time: nothing counted them.
    pub timed: Vec<TimedRun>,
    /// The runs that give its counts.
    pub counted: Vec<Counts>,
}

impl CountedCommand {
    /// By which share counting lengthened the CPU time: the median counted run against the median uncounted one; `None`
    /// without runs of both kinds, or where either's CPU time is zero: too short for the kernel to measure, or not known.
    pub fn counting_cost(&self) -> Option<f64> {
        let counted: Vec<f64> =
            self.counted.iter().map(|run| (run.user_ns + run.system_ns) as f64).collect();
        let timed: Vec<f64> = self.timed.iter().map(|run| run.cpu_ns() as f64).collect();
        let [counted, timed] = [counted, timed].map(|ns| median(&ns).filter(|ns| *ns > 0.0));
        Some(counted? / timed? - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, size: Option<SizeClass>, count: u64, bytes: u64) -> Count {
        let item = Item::Call { name: name.to_owned(), size, of: None };
        Count { item, count, errors: 0, bytes, waited_ns: 0 }
    }

    #[test]
    fn a_size_class_is_a_power_of_two() {
        assert_eq!(SizeClass::new(0), None);
        assert_eq!([1, 63, 64, 127, 128].map(|n| SizeClass::new(n).unwrap().0), [0, 5, 6, 6, 7]);
        assert_eq!(SizeClass(6).min_bytes(), 64);
    }

    #[test]
    fn equal_items_are_added_up() {
        let size = SizeClass::new(64);
        let counts =
            [call("read", size, 2, 128), call("read", None, 1, 0), call("read", size, 1, 64)];
        let merged = merged(counts);
        assert_eq!(merged, [call("read", None, 1, 0), call("read", size, 3, 192)]);
    }

    #[test]
    fn counts_are_written_and_read() {
        let items = vec![
            call("read", SizeClass::new(64), 3, 192),
            Count { item: Item::Preempted, count: 1, errors: 0, bytes: 0, waited_ns: 7 },
            Count {
                item: Item::Fault { kind: FaultKind::FirstWrite, in_kernel: false },
                count: 9,
                errors: 0,
                bytes: 0,
                waited_ns: 0,
            },
        ];
        let threads = vec![ThreadCounts { process: 5, thread: 6, name: "worker".into(), items }];
        let counts = Counts {
            means: Means::Ebpf,
            not_counted: vec![],
            threads,
            whole: vec![],
            wall_ns: 1,
            user_ns: 2,
            system_ns: 3,
            end: End::Exited(0),
        };
        assert_eq!(counts.sum().len(), 3);
        let text = serde_json::to_string(&counts).unwrap();
        assert!(
            text.contains(r#"{"item":"call","name":"read","size":6,"count":3,"bytes":192}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts);
    }

    #[test]
    fn the_cost_of_counting_compares_medians() {
        let timed = |user_ns| TimedRun { user_ns, ..TimedRun::default() };
        let mut command = CountedCommand {
            command: "true".to_owned(),
            timed: [100, 100, 900].map(timed).to_vec(),
            counted: vec![],
        };
        assert_eq!(command.counting_cost(), None);
        command.counted.push(Counts {
            means: Means::Ptrace,
            not_counted: vec![],
            threads: vec![],
            whole: vec![],
            wall_ns: 0,
            user_ns: 100,
            system_ns: 20,
            end: End::Killed(9),
        });
        assert!((command.counting_cost().unwrap() - 0.2).abs() < 1e-9);
        (command.counted[0].user_ns, command.counted[0].system_ns) = (0, 0);
        assert_eq!(command.counting_cost(), None, "of a process that had been running");
    }
}
