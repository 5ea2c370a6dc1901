//! A function of a shared object, called in this process.

use super::{COST, EndOthers, OwnProbe, check_it_grows, check_it_takes_time};
use crate::meter::Meter;
use crate::probe::Role;
use costof_model::{AxisValue, Failure, Offers, Point, ensure};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::process::shared_object::{ARGUMENTS_MAX, Function, SharedObject};
use std::ffi::CString;
use std::io::ErrorKind;
use std::path::Path;

/// The time that some number of operations must reach, nanoseconds.
const MIN_NS: f64 = 10_000.0;

/// The largest share of the CPU time that other threads of the library may use: a runtime has some of its own.
const OTHER_THREADS_MAX: f64 = 0.05;

pub(super) struct FunctionRole {
    _at_end: EndOthers,
    own: &'static OwnProbe,
    name: String,
    function: Function,
    setup: Option<Function>,
    teardown: Option<Function>,
    arguments: Arguments,
}

/// The arguments of a point after n, and the words that they point to.
#[derive(Default)]
struct Arguments {
    values: [u64; ARGUMENTS_MAX],
    count: usize,
    words: Vec<CString>,
}

impl Arguments {
    fn new(values: &[&AxisValue]) -> Arguments {
        let mut arguments = Arguments { count: 1 + values.len(), ..Arguments::default() };
        for (place, value) in arguments.values[1..].iter_mut().zip(values) {
            *place = match value {
                AxisValue::Number(number) => *number,
                AxisValue::Word(word) => {
                    let word = CString::new(&**word).expect("words have no zero byte");
                    let address = word.as_ptr().expose_provenance() as u64;
                    arguments.words.push(word);
                    address
                }
            };
        }
        arguments
    }

    fn without_n(&self) -> &[u64] {
        &self.values[1..self.count]
    }
}

/// How much CPU time this process and this thread have used, nanoseconds.
struct CpuTime {
    process_ns: u64,
    thread_ns: u64,
}

impl CpuTime {
    fn now() -> CpuTime {
        CpuTime { process_ns: now_ns(ClockId::ProcessCpu), thread_ns: now_ns(ClockId::ThreadCpu) }
    }

    /// Refuses what other threads have done since: they share the one measured CPU, which no user's threads would.
    fn check_other_threads(&self, name: &str) -> Result<(), Failure> {
        let now = CpuTime::now();
        let process_ns = (now.process_ns - self.process_ns) as f64;
        let others_ns = process_ns - (now.thread_ns - self.thread_ns) as f64;
        ensure!(
            others_ns <= OTHER_THREADS_MAX * process_ns,
            "threads that {name} or its setup has started used {:.0} % of the CPU time, and a function is measured on one \
             CPU: keep it to one thread, or measure a program of it by `costof time`",
            100.0 * others_ns / process_ns
        );
        Ok(())
    }
}

impl FunctionRole {
    pub(super) fn load(
        own: &'static OwnProbe,
        at_end: EndOthers,
        object: &Path,
        function: &str,
        [setup, teardown]: [Option<&str>; 2],
    ) -> Result<FunctionRole, Failure> {
        let path = object.display();
        let loaded = SharedObject::load(object).map_err(|error| {
            let reason = format!("cannot load the shared object {path}: {error}");
            match error.kind() {
                ErrorKind::NotFound => Failure::error(reason + " (build it first)"),
                ErrorKind::Unsupported => Failure::unsupported(
                    reason + " (measure it by a `program`, or use a costof that cargo has built)",
                ),
                _ => Failure::error(reason),
            }
        })?;
        let find = |name: &str| {
            loaded.function(name).map_err(|error| {
                Failure::error(format!(
                    "{path} has no function `{name}`: {error} (C++: extern \"C\"; Rust: #[unsafe(no_mangle)]; `nm -D` \
                     lists what it has)"
                ))
            })
        };
        Ok(FunctionRole {
            _at_end: at_end,
            own,
            name: function.to_owned(),
            function: find(function)?,
            setup: setup.map(find).transpose()?,
            teardown: teardown.map(find).transpose()?,
            arguments: Arguments::default(),
        })
    }
}

impl Role for FunctionRole {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.own.check(point)?;
        self.arguments = Arguments::new(&self.own.values(point));
        if let Some(setup) = self.setup {
            setup.call(self.arguments.without_n());
        }
        Ok(Offers::new())
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let function = self.function;
        let (mut values, count) = (self.arguments.values, self.arguments.count);
        let mut call = |n| {
            values[0] = n;
            function.call(&values[..count]);
        };
        let mut checked = |n| {
            call(n);
            Ok(())
        };
        let n = check_it_takes_time(meter, &self.name, MIN_NS, &mut checked)?;
        check_it_grows(meter, &self.name, n, checked)?;
        let before = CpuTime::now();
        meter.repeatable(COST, call);
        before.check_other_threads(&self.name)
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        if let Some(teardown) = self.teardown {
            teardown.call(self.arguments.without_n());
        }
        Ok(())
    }
}
