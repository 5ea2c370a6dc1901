//! A user's command, measured as it is: started, watched and waited for, on CPUs whose cores are gauged meanwhile.
//!
//! Nothing of the command is changed. On each CPU that it may use, a thread of ordinary policy wakes each millisecond and
//! reads the gauge (`sampler.rs`); what that takes is known and taken off. These readings decide in which state the core
//! was; no time ever does.

mod capture;
mod estimate;
mod sampler;

pub use capture::{Capture, MetricPattern};
pub use estimate::{compare, estimate, estimate_of};

use crate::gauge;
use costof_gauge::Gauge;
use costof_model::TimedRun;
use costof_os::perf::{Event, Inherited};
use costof_os::process::command::{self, Starter};
use costof_os::sched::affinity;
use sampler::{Samplers, Spent};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How often the caller is asked whether to go on: rarely, since asking takes a CPU.
const POLL: Duration = Duration::from_millis(100);
/// A command has one thread if its first one used at least this share of all its CPU time.
const ONE_THREAD: f64 = 0.95;

/// What is started, and with what.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments; at least the program.
    pub words: Vec<OsString>,
    /// The file that it reads; none is /dev/null.
    pub input: Option<PathBuf>,
    /// Where its output goes.
    pub output: Output,
    /// The folder in which it is started; none is this process's.
    pub folder: Option<PathBuf>,
}

/// Where a command's standard output and error go.
#[derive(Clone, Debug)]
pub enum Output {
    /// Both to /dev/null.
    Null,
    /// Where this program's go.
    Inherit,
    /// Standard output to /dev/null, and standard error where this program's goes.
    Errors,
    /// Standard output to this file, which each run writes anew; standard error to /dev/null.
    File(PathBuf),
    /// Standard output through a pipe, in which the command's own numbers are looked for.
    Capture(Capture),
}

/// Runs commands and measures them.
pub struct Stopwatch {
    starter: Starter,
    /// `None` where it has no floor.
    gauge: Option<Gauge>,
    spent: Arc<Spent>,
    has_counters: bool,
}

/// Events that are counted where the machine counts them.
const EVENTS: [Event; 2] = [Event::Cycles, Event::Instructions];

impl Stopwatch {
    /// Prepares for commands: from now on, this process adopts what they leave behind. The gauge has the floor that
    /// [`gauge::calibrate`] gave.
    ///
    /// # Errors
    /// If this process cannot adopt processes.
    pub fn new(floor: Option<f64>) -> io::Result<Stopwatch> {
        command::adopt_orphans()?;
        let (_, absent) = Inherited::open(&EVENTS);
        let gauge = floor.map(Gauge::with_floor);
        Ok(Stopwatch {
            starter: Starter::default(),
            gauge,
            spent: Arc::default(),
            has_counters: absent.is_empty(),
        })
    }

    /// The floor of the gauge, core cycles per addition.
    pub fn floor(&self) -> Option<f64> {
        self.gauge.as_ref().map(Gauge::floor)
    }

    /// Runs a program once and measures it, on these CPUs, or wherever this thread may run if there are none; asks
    /// `may_go_on` ten times a second. `None` if that ended it. What it leaves running is ended, except what ran before.
    ///
    /// # Errors
    /// If the program, its input or its output cannot be opened or started.
    pub fn run(
        &self,
        program: &Program,
        cpus: &[usize],
        mut may_go_on: impl FnMut() -> bool,
    ) -> io::Result<Option<TimedRun>> {
        let on = match cpus {
            [] => affinity::allowed()?,
            cpus => cpus.to_vec(),
        };
        let kept = command::children();
        let samplers = Samplers::start(self.gauge.as_ref(), &on, &self.spent)?;
        // After the threads of the samplers, which would inherit them too.
        let counters = self.has_counters.then(|| Inherited::open(&EVENTS).0);
        let folder = program.folder.as_deref();
        let configure = |command: &mut Command| program.configure(command);
        let mut running = self.starter.start(&program.words, folder, cpus, configure)?;
        let reader = match &program.output {
            Output::Capture(capture) => Some(capture.read(running.child())?),
            _ => None,
        };
        let ended = running.wait(POLL, &mut may_go_on);
        let gauged = samplers.stop();
        let left = command::end_children(&kept);
        let Some(ended) = ended? else {
            return Ok(None);
        };
        let own = reader.map(|reader| reader.finish()).unwrap_or_default();
        let usage = ended.usage;
        let cpu_ns = usage.cpu_ns();
        let is_one_thread =
            ended.first_thread.map(|first| first.cpu_ns as f64 >= ONE_THREAD * cpu_ns as f64);
        let count = |event| counters.as_ref().and_then(|counters| counters.count(event));
        let mut run = TimedRun {
            wall_ns: ended.wall_ns,
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            max_rss_bytes: usage.max_rss_bytes,
            is_own_peak: ended.is_own_peak,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            run_queue_ns: (ended.first_thread)
                .filter(|_| is_one_thread == Some(true))
                .map(|first| first.wait_ns),
            cycles: count(Event::Cycles),
            instructions: count(Event::Instructions),
            cpus: on,
            core: gauged.core,
            gauge_ns: gauged.cpu_ns,
            is_one_thread,
            exit_code: ended.status.code(),
            signal: ended.status.signal(),
            left,
            own,
        };
        // While the gauge was read, a command that was running waited.
        let each = gauged.cpu_ns as f64 / run.cpus.len() as f64;
        let hit = each * (run.parallelism() / run.cpus.len() as f64).min(1.0);
        run.wall_ns = run.wall_ns.saturating_sub(hit as u64);
        run.run_queue_ns = run.run_queue_ns.map(|ns| ns.saturating_sub(hit as u64));
        Ok(Some(run))
    }

    /// Runs a program that is not measured, which may read the terminal, and whose background processes stay; its exit
    /// code. `None` if it was ended, or a signal killed it.
    pub fn run_unmeasured(
        &self,
        program: &Program,
        may_go_on: impl FnMut() -> bool,
    ) -> io::Result<Option<i32>> {
        let kept = command::children();
        let mut command = Command::new(&program.words[0]);
        command.args(&program.words[1..]);
        program.configure(&mut command)?;
        let running = command::start_beside(&mut command)?;
        let ended = running.wait(POLL, may_go_on)?;
        if ended.is_none() {
            command::end_children(&kept);
        }
        Ok(ended.and_then(|ended| ended.status.code()))
    }
}

impl Drop for Stopwatch {
    /// Nothing that a command started is left running.
    fn drop(&mut self) {
        command::end_children(&[]);
    }
}

impl Program {
    /// Gives a command its folder and files.
    pub(crate) fn configure(&self, command: &mut Command) -> io::Result<()> {
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let input = self.input.as_ref().map(|path| with_path(path, File::open(path)));
        command.stdin(input.transpose()?.map_or_else(Stdio::null, Stdio::from));
        match &self.output {
            Output::Inherit => {}
            Output::Errors => {
                command.stdout(Stdio::null());
            }
            Output::Null => {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
            Output::File(path) => {
                let file = with_path(path, File::create(path))?;
                command.stdout(file).stderr(Stdio::null());
            }
            Output::Capture(_) => {
                command.stdout(Stdio::piped()).stderr(Stdio::null());
            }
        }
        Ok(())
    }
}

fn with_path<T>(path: &std::path::Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The CPU of these whose core has the most free execution slots now, by a look of half a millisecond at each.
pub fn freest(cpus: &[usize]) -> Option<usize> {
    let read = gauge::reader();
    let look = |&cpu: &usize| Some((cpu, gauge::look_at(&read, cpu).ok()??));
    let readings = cpus.iter().filter_map(look);
    let freest = readings.min_by(|(_, a), (_, b)| a.total_cmp(b));
    freest.map(|(cpu, _)| cpu)
}
