//! `os.syscall`: what entering the kernel costs.

use crate::expect::cost_ns;
use crate::literal::{cost, list, metric, text, word, words};
use crate::threads::Sleeper;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Offers;
use costof_model::unit::{Better, Unit};
use costof_os::perf::{Group, tracepoint};
use costof_os::syscalls;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("os.syscall"),
        method: 2,
        question: text("What does a system call cost?"),
        axes: list![
            words(
                "call",
                "which call",
                list![
                    word("getppid", "the smallest call that always enters the kernel"),
                    word(
                        "getpid",
                        "the same since glibc 2.25; older ones answered from memory"
                    ),
                    word(
                        "time",
                        "time(), which the vDSO answers without entering the kernel"
                    ),
                    word(
                        "time_forced",
                        "the time system call itself; gettimeofday on aarch64"
                    ),
                    word("open", "open and close /dev/null: two calls"),
                    word("read", "read one byte of /dev/zero"),
                ],
            ),
            Axis {
                name: text("threads"),
                about: text(
                    "threads of the process that calls: the second one sleeps, as in a program that has any",
                ),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 1,
                    high: 2,
                    usual: list![1, 2],
                },
            },
        ],
        crossings: list![list![text("call"), text("threads")]],
        metrics: list![
            cost("one call; for `open`, an open and a close"),
            metric(
                "entries",
                Unit::One,
                Better::Neither,
                "how often the kernel was entered per operation, by the tracepoint \
                 raw_syscalls:sys_enter; absent where that cannot be read",
            ),
            metric(
                "times_vdso",
                Unit::One,
                Better::Neither,
                "where the tracepoint cannot be read: the cost over that of time(), which stays in \
                 user space",
            ),
        ],
        how: text(
            "The call in a loop, as a program makes it, through the C library, in a process of one \
             thread, or with threads=2 of two (before method 2 there were always two, which made \
             reads dearer); `getppid` is the definition of perf bench syscall basic. A second thread \
             shares the descriptor table, so that the kernel takes a reference to each file that is \
             used, and makes the C library look whether a call that may wait is to be cancelled. The forced call goes through syscall(2), which \
             adds a nanosecond or two. That the kernel was entered is shown after the timed \
             batches: 1,000 more operations are counted by raw_syscalls:sys_enter.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_syscall"
            ),
            text("perf-bench(1), syscall basic"),
            text(
                "CSE 221 System Measurement Project, 2014, whose getpid and time never entered the kernel"
            ),
            text("Linux Documentation/admin-guide/hw-vuln, for what mitigations add at the entry"),
            text(
                "Linux fs/file.c, __fget_light, and glibc sysdeps/unix/sysv/linux/sysdep-cancel.h, for the second thread"
            ),
        ],
        predicted_from: text(
            "the mitigations in force, which decide what an entry costs; time() from the coarse clock that cpu.clock has measured, since both only read the vDSO's memory",
        ),
        after: list![text("cpu.clock"), text("cpu.frequency")],
        needs: list![text(
            "to show that the kernel was entered: perf_event_paranoid and tracefs that let a tracepoint be counted"
        )],
        roles: list![text("only")],
    }),
    rounds: 2,
    // The C library remembers for good that there was a second thread.
    blocks_by: &["threads"],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Syscall::default()))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("system call: getppid", "getppid", 1),
        ("time() by the vDSO, no system call", "time", 1),
        ("system call: read of 1 byte", "read", 1),
        ("system call: read of 1 byte, two threads", "read", 2),
        ("system calls: open and close", "open", 1),
    ]
    .map(|(label, call, threads)| {
        let axes = Axes::default().with("call", call);
        Headline::new(label, axes.with("threads", threads))
    })
    .into()
}

/// What a call costs in a process of one thread, where that was measured, in nanoseconds.
pub(crate) fn one_thread_ns(known: &Known<'_>, call: &str) -> Option<f64> {
    known.primary("os.syscall", &[("call", call), ("threads", "1")])
}

#[derive(Default)]
struct Syscall {
    /// The second thread, where the point has one.
    second: Option<Sleeper>,
    /// What a call answered, where it failed.
    failed: Option<io::Error>,
    /// The points of which evidence was given: a round later it is the same, and to count takes longer
    /// than to measure.
    given: Vec<Axes>,
}

impl Syscall {
    /// Makes the point's call `n` times.
    fn operation(&mut self, point: &Point) -> Result<Box<dyn FnMut(u64) + '_>, Failure> {
        let failed = &mut self.failed;
        Ok(match point.axes.word("call") {
            "getppid" => Box::new(syscalls::getppid),
            "getpid" => Box::new(syscalls::getpid),
            "time" => Box::new(syscalls::time_vdso),
            "time_forced" => Box::new(syscalls::time_forced),
            "open" => Box::new(|n| *failed = syscalls::open_close(n, c"/dev/null").err()),
            "read" => {
                let zero = File::open("/dev/zero").map_err(|error| {
                    Failure::unsupported(format!("cannot open /dev/zero: {error}"))
                })?;
                Box::new(move |n| *failed = syscalls::read_one_byte(zero.as_fd(), n).err())
            }
            other => return Err(Failure::error(format!("no call is named {other}"))),
        })
    }
}

impl Role for Syscall {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.second = match point.axes.number("threads") {
            1 => None,
            _ => Some(Sleeper::start()?),
        };
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let operation = self.operation(point)?;
        meter.repeatable("cost", operation);
        Ok(())
    }

    fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        if let Some(error) = self.failed.take() {
            let call = point.axes.word("call");
            return Err(Failure::error(format!("{call} failed: {error}")));
        }
        if self.given.contains(&point.axes) {
            return Ok(());
        }
        self.given.push(point.axes.clone());
        let mut operation = self.operation(point)?;
        match entries(&mut operation) {
            Some(entries) => meter.value("entries", entries),
            None => {
                let ratio =
                    time_ns(meter, &mut operation) / time_ns(meter, &mut syscalls::time_vdso);
                meter.value("times_vdso", ratio);
            }
        }
        Ok(())
    }
}

/// Operations that are counted or timed as evidence.
const OPERATIONS: u64 = 1000;

/// How often the kernel is entered per operation; `None` where that cannot be
/// counted here.
fn entries(operation: &mut dyn FnMut(u64)) -> Option<f64> {
    let event = tracepoint("raw_syscalls", "sys_enter").ok()?;
    let (mut group, _) = Group::open(&[event]);
    // The call that stops the counter is counted too, so it is measured alone first.
    let alone = count(&mut group, &mut |_| {})?;
    let with = count(&mut group, operation)?;
    Some((with - alone) / OPERATIONS as f64)
}

fn count(group: &mut Group, operation: &mut dyn FnMut(u64)) -> Option<f64> {
    group.reset().ok()?;
    group.enable().ok()?;
    operation(OPERATIONS);
    group.disable().ok()?;
    Some(group.read().ok()?.first()?.value? as f64)
}

fn time_ns(meter: &Meter<'_>, operation: &mut dyn FnMut(u64)) -> f64 {
    let clock = meter.clock();
    let start = clock.start();
    operation(OPERATIONS);
    clock.ns(clock.end() - start)
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = entry_ns(facts);
    let (second, because) = match point.axes.number("threads") {
        1 => (1.0, because),
        _ => (
            1.5,
            format!("{because}; a second thread makes references to files atomic"),
        ),
    };
    match point.axes.word("call") {
        "time" => {
            let coarse_ns = known.primary("cpu.clock", &[("source", "monotonic_coarse")])?;
            cost_ns(
                0.3 * coarse_ns,
                1.5 * coarse_ns,
                format!("the coarse clock, at {coarse_ns:.2} ns, reads the same page"),
            )
        }
        "open" => cost_ns(
            8.0 * low,
            20.0 * high * second,
            format!("two calls, a path to walk, a file to allocate and to free; {because}"),
        ),
        "read" => cost_ns(
            low,
            2.0 * high * second,
            format!("a call, a descriptor to look up, a byte to clear; {because}"),
        ),
        _ => cost_ns(low, high, because),
    }
}

/// What entering and leaving the kernel costs, by the mitigations in force.
fn entry_ns(facts: &Facts) -> (f64, f64, String) {
    let mitigated = |name: &str, how: &str| {
        facts
            .cpu
            .vulnerabilities
            .get(name)
            .is_some_and(|state| state.contains(how))
    };
    if mitigated("meltdown", "PTI") {
        (
            120.0,
            600.0,
            "page-table isolation switches page tables twice a call".to_owned(),
        )
    } else if mitigated("retbleed", "IBRS") || mitigated("spectre_v2", "IBRS;") {
        (
            100.0,
            500.0,
            "IBRS writes a register at each entry".to_owned(),
        )
    } else {
        (
            35.0,
            180.0,
            "entry and exit take 100 to 500 cycles without page-table isolation".to_owned(),
        )
    }
}
