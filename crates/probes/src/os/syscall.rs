//! `os.syscall`: what entering the kernel costs.

use crate::cpu::clock::{Clock, Source};
use crate::expect::measured_cost as measured_cost_of;
use crate::os::mitigations;
use crate::prelude::*;
use crate::threads::Sleeper;
use costof_os::perf::{Group, tracepoint};
use costof_os::process::syscalls;
use std::fs::File;
use std::os::fd::AsFd;

words! {
    /// The call.
    pub(crate) enum Call {
        /// the smallest call that always enters the kernel
        Getppid = "getppid",
        /// the same since glibc 2.25; older ones answered from memory
        Getpid = "getpid",
        /// time(), which the vDSO answers without entering the kernel
        Time = "time",
        /// the time system call itself; gettimeofday on aarch64
        TimeForced = "time_forced",
        /// open and close /dev/null: two calls
        Open = "open",
        /// read one byte of /dev/zero
        Read = "read",
        /// write one byte to /dev/null
        Write = "write",
        /// fstat of /dev/null
        Fstat = "fstat",
        /// FUTEX_WAKE of a word on which nobody waits
        Futex = "futex",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Syscall>();

point! {
    /// What does a system call cost?
    ///
    /// The call is made in a loop through the C library, as a program makes it, in a process of one
    /// thread; with threads=2, of two. `getppid` is the definition of perf bench syscall basic. A second thread shares
    /// the descriptor table, so the kernel takes a reference to each file that is used, and the C
    /// library checks for cancellation around calls that may wait. The forced call goes through
    /// syscall(2), which adds a nanosecond or two. After the timed batches, raw_syscalls:sys_enter
    /// counts 1,000 more operations, which shows that they entered the kernel.
    ///
    /// # Predicted from
    /// cycles (cpu.frequency) of entering the kernel and of its work, by the mitigations in force
    /// (Safe RET, retpolines, page-table isolation, cleared buffers and others); for time(), the
    /// coarse clock (cpu.clock), since both only read the vDSO's memory
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_syscall
    /// - perf-bench(1), syscall basic
    /// - CSE 221 System Measurement Project, 2014, whose getpid and time never entered the kernel
    /// - J. Behrens et al., Performance Evolution of Mitigating Transient Execution Attacks, EuroSys
    ///   2022, tables 3 to 6: cycles of syscall, of CR3, of VERW and of IBPB
    /// - Linux Documentation/admin-guide/hw-vuln, srso.rst among them; arch/x86/lib/retpoline.S
    /// - Linux fs/file.c, __fget_light, and glibc sysdeps/unix/sysv/linux/sysdep-cancel.h, for the
    ///   second thread
    ///
    /// # Needs
    /// - to show that the kernel was entered: perf_event_paranoid and tracefs that let a tracepoint
    ///   be counted
    pub(crate) struct Syscall of "os.syscall" {
        /// the call
        call: Call = words(),
        /// threads of the calling process: the second one sleeps, as in any program that has one
        threads: u64 = count(1..=2, &[1, 2]),
    }
}

impl Measure for Syscall {
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one call; for `open`, an open and a close
        cost: Nanoseconds Lower,
        /// how often the kernel was entered per operation, by the tracepoint
        /// raw_syscalls:sys_enter; absent where that cannot be read
        entries: One Neither,
        /// where the tracepoint cannot be read: the cost minus that of time(), which stays in user
        /// space
        times_vdso: One Neither,
    };
    const AFTER: NameList = &["cpu.clock", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["call", "threads"]];
    const ROUNDS: u32 = 2;
    // The C library remembers forever that there was a second thread.
    const BLOCKS_BY: NameList = &["threads"];
    const ROLES: &'static [StartRole] = &[|_| role::<Syscall>(Caller::default())];

    fn relations() -> Vec<Relation> {
        vec![
            Relation::because("an open and a close are two calls")
                .these("call", Call::Open.word())
                .those("call", Call::Getppid.word()),
            Relation::because("a read enters the kernel as getppid does, and does more there")
                .these("call", Call::Read.word())
                .those("call", Call::Getppid.word()),
            Relation::because("time() in the vDSO does not enter the kernel")
                .these("call", Call::Getppid.word())
                .those("call", Call::Time.word()),
        ]
    }

    headlines! {
        "system call: getppid": { call: Call::Getppid },
        "time() by the vDSO, no system call": { call: Call::Time },
        "system call: read of 1 byte": { call: Call::Read },
        "system call: read of 1 byte, two threads": { call: Call::Read, threads: 2 },
        "system calls: open and close": { call: Call::Open },
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let entries = |calls| mitigations::entries(facts, measured, calls);
        let work = |cycles, what| mitigations::work(facts, measured, cycles, what);
        let cost = match point.call {
            Call::Time => {
                let coarse = Clock { source: Source::MonotonicCoarse };
                // It reads one of the two words, and does not look whether they changed meanwhile.
                let coarse = measured_cost_of(measured, &coarse, "for the coarse clock")?;
                return (coarse * (0.25, 0.75)).predict("cost");
            }
            Call::Getppid | Call::Getpid | Call::TimeForced => entries(1.0)?,
            Call::Read => {
                entries(1.0)? + work((100.0, 250.0), "to find a file and to clear a byte")?
            }
            Call::Write => entries(1.0)? + work((50.0, 250.0), "to find a file")?,
            Call::Fstat => {
                entries(1.0)? + work((100.0, 600.0), "to find a file and to copy 144 bytes")?
            }
            Call::Futex => entries(1.0)? + work((30.0, 300.0), "to find the queue of a word")?,
            Call::Open => {
                let what = "to walk a path, to allocate a file and to free it";
                entries(2.0)? + work((1_500.0, 3_500.0), what)?
            }
        };
        let cost = match point.threads {
            1 => cost,
            _ => cost + shared_file(measured)? * files(point.call),
        };
        cost.predict("cost")
    }
}

/// Cost of a call in a process of one thread, where that was measured, in nanoseconds.
pub(crate) fn one_thread_ns(measured: &MeasuredRows<'_>, call: Call) -> Option<f64> {
    measured.at(&Syscall { call, threads: 1 })
}

/// The same, as a term of a prediction.
pub(crate) fn measured_cost(measured: &MeasuredRows<'_>, call: Call) -> Option<Cost> {
    let name = match call {
        Call::Read => "for a read",
        Call::Open => "for an open and close",
        _ => "for a system call",
    };
    Some(Cost::new(one_thread_ns(measured, call)?, name))
}

#[derive(Default)]
struct Caller {
    /// The second thread, where the point has one.
    second: Option<Sleeper>,
    /// The first error of a call.
    failed: FirstError,
    /// The points that have given evidence: a round later it is the same, and counting takes longer
    /// than measuring.
    given: Vec<Syscall>,
}

impl Caller {
    /// Makes the call `n` times.
    fn operation(&mut self, call: Call) -> Result<Box<dyn FnMut(u64) + '_>> {
        let failed = &mut self.failed;
        Ok(match call {
            Call::Getppid => Box::new(syscalls::getppid),
            Call::Getpid => Box::new(syscalls::getpid),
            Call::Time => Box::new(syscalls::time_vdso),
            Call::TimeForced => Box::new(syscalls::time_forced),
            Call::Open => Box::new(|n| failed.note(syscalls::open_close(n, c"/dev/null"))),
            Call::Read => {
                let zero = File::open("/dev/zero").or_unsupported("cannot open /dev/zero")?;
                Box::new(move |n| failed.note(syscalls::read_one_byte(zero.as_fd(), n)))
            }
            Call::Write => {
                let null = File::create("/dev/null").or_unsupported("cannot open /dev/null")?;
                Box::new(move |n| failed.note(syscalls::write_one_byte(null.as_fd(), n)))
            }
            Call::Fstat => {
                let null = File::open("/dev/null").or_unsupported("cannot open /dev/null")?;
                Box::new(move |n| failed.note(syscalls::fstat(null.as_fd(), n)))
            }
            Call::Futex => Box::new(|n| failed.note(syscalls::futex_wake_nobody(n))),
        })
    }
}

impl RoleAt<Syscall> for Caller {
    fn prepare(&mut self, point: &At<Syscall>, _: &Offers) -> Result<Offers> {
        self.second = match point.threads {
            1 => None,
            _ => Some(Sleeper::start()?),
        };
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Syscall>, meter: &mut Meter<'_>) -> Result {
        let operation = self.operation(point.call)?;
        meter.repeatable("cost", operation);
        Ok(())
    }

    fn finish(&mut self, point: &At<Syscall>, meter: &mut Meter<'_>) -> Result {
        let failed = std::mem::take(&mut self.failed).into_result();
        failed.or_fail(format_args!("{} failed", point.call.word()))?;
        if self.given.contains(&point.axes) {
            return Ok(());
        }
        self.given.push(point.axes.clone());
        let mut operation = self.operation(point.call)?;
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

/// How often the kernel is entered per operation; `None` if that cannot be counted here.
fn entries(operation: &mut dyn FnMut(u64)) -> Option<f64> {
    let event = tracepoint("raw_syscalls", "sys_enter").ok()?;
    let (mut group, _) = Group::open(&[event]);
    // The call that stops the counter is counted too, so it is measured alone first.
    let alone = counted(&mut group, &mut |_| {})?;
    let with = counted(&mut group, operation)?;
    Some((with - alone) / OPERATIONS as f64)
}

// METHOD 20
fn counted(group: &mut Group, operation: &mut dyn FnMut(u64)) -> Option<f64> {
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

/// A reference to a file that a second thread may close: two atomic changes of its count, and what
/// the C library does around a call that may wait.
fn shared_file(measured: &MeasuredRows<'_>) -> Option<Cost> {
    cycles(measured, (30.0, 250.0), "for references to a shared file")
}

/// How many files the call refers to.
const fn files(call: Call) -> f64 {
    match call {
        Call::Read | Call::Open | Call::Write | Call::Fstat => 1.0,
        Call::Getppid | Call::Getpid | Call::Time | Call::TimeForced | Call::Futex => 0.0,
    }
}
