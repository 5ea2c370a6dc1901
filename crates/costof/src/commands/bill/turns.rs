//! A program in turns: run as it is for its time, and counted for its counts.

use super::{Billing, Observed};
use crate::commands::time::{expect_success, not_started, run_once};
use crate::error::{Context, Error, Result, bail, wrong};
use costof_measure::bill::count::{count, count_process};
use costof_measure::bill::stretch;
use costof_measure::bill::times::times;
use costof_measure::bill::way_back::WayBack;
use costof_measure::command::{Output, Program, Stopwatch};
use costof_measure::gauge;
use costof_model::bill::{CountedCommand, Counts, End, Means};
use costof_model::{Facts, counted, word};
use std::ffi::OsString;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// An interval needs as many runs that nothing counts.
const MIN_TIMED: usize = 5;
/// More say no more.
const MAX_TIMED: usize = 1000;
/// How often an interrupt is looked for.
const POLL: Duration = Duration::from_millis(100);
/// Counts differ little from run to run.
const MAX_COUNTED: usize = 20;
/// How long one look at the way back from system calls takes, and its share of all the time.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: f64 = 0.2;
/// The kernel's ticks per second where its configuration cannot be read.
const USUAL_HZ: f64 = 250.0;

impl Billing<'_> {
    /// Runs a program, in turns as it is and counted.
    pub(super) fn program(&self, words: &[OsString]) -> Result<Observed> {
        let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let command = text.join(" ");
        let program = Program {
            words: words.to_vec(),
            input: self.options.input.clone(),
            output: Output::Null,
            folder: None,
        };
        let stopwatch = Stopwatch::new(gauge::calibrate(&self.facts.cpu))
            .context("cannot adopt the processes that commands leave")?;
        let may_go_on = || !self.interrupted.load(Ordering::Relaxed);
        let mut of = CountedCommand { command, timed: Vec::new(), counted: Vec::new() };
        let name = format!("`{}`", of.command);
        let run = || {
            let run = run_once(&stopwatch, &program, &[], &name, self.interrupted)?;
            if !self.options.ignore_failure {
                expect_success(&run, &name, "(--ignore-failure)")?;
            }
            Ok::<_, Error>(run)
        };
        // The first run warms up, and does not count.
        run()?;
        let began = Instant::now();
        let (mut way_back, mut looks) = (WayBack::default(), 0);
        let mut counting = Duration::ZERO;
        while of.timed.len() < MAX_TIMED {
            let passed = began.elapsed();
            if of.timed.len() >= MIN_TIMED && passed > self.options.budget {
                break;
            }
            // Half of the time is for counting, and at least one run is counted.
            let is_due = counting * 2 <= passed && of.counted.len() < MAX_COUNTED;
            if of.counted.is_empty() || is_due {
                let from = Instant::now();
                let counts = count(&program, self.options.by, &self.facts, may_go_on);
                let counts = counts.map_err(|error| not_started(&program, &name, &error))?;
                let counts = counts.filter(|_| may_go_on()).ok_or(Error::Interrupted)?;
                // Uncounted, it has succeeded before.
                if counts.end != End::Exited(0) && !self.options.ignore_failure {
                    return Err(failed_counted(&name, &counts));
                }
                of.counted.push(counts);
                counting += from.elapsed();
            }
            of.timed.push(run()?);
            if LOOK * looks <= began.elapsed().mul_f64(LOOKS) {
                way_back.look(LOOK);
                looks += 1;
            }
        }
        let tick_ns = tick_ns(&self.facts);
        let Some(times) = times(&of.timed, tick_ns) else {
            let runs = counted(of.timed.len(), "run");
            return Err(Error::Nothing(format!("`{}`: no time from {runs}", of.command)));
        };
        Ok((of, times, way_back.ns(tick_ns)))
    }

    /// Looks at a process that runs already, in turns as it is and counted. Times are those of a second.
    pub(super) fn process(&self, pid: u32) -> Result<Observed> {
        let may_go_on = || !self.interrupted.load(Ordering::Relaxed);
        let gone = || format!("cannot read process {pid}");
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).context(gone())?;
        let command = format!("{} (process {pid})", name.trim_end());
        let mut of = CountedCommand { command, timed: Vec::new(), counted: Vec::new() };
        let mut way_back = WayBack::default();
        let stretch = self.options.how_long / (2 * MIN_TIMED as u32);
        for _ in 0..MIN_TIMED {
            let before = stretch::used(pid).context(gone())?;
            let from = Instant::now();
            while from.elapsed() < stretch && may_go_on() {
                thread::sleep((stretch - from.elapsed()).min(POLL));
            }
            let wall = from.elapsed();
            let after = stretch::used(pid).context(gone())?;
            of.timed.push(stretch::per_second(before, after, wall));
            if !may_go_on() {
                return Err(Error::Interrupted);
            }
            way_back.look(LOOK);
            let counts = count_process(pid, stretch, self.options.by, &self.facts, may_go_on);
            let counts = counts.context(format_args!("cannot count process {pid}"))?;
            let has_ended = counts.end != End::Running;
            of.counted.push(counts);
            if has_ended {
                bail!(
                    "process {pid} ended: a program that ends is measured by `costof bill -- PROGRAM`"
                );
            }
        }
        // Times are those of a second, of which a stretch saw a part.
        let tick_ns = tick_ns(&self.facts);
        let times = times(&of.timed, tick_ns / stretch.as_secs_f64())
            .ok_or_else(|| Error::Nothing(format!("{}: no time", of.command)))?;
        Ok((of, times, way_back.ns(tick_ns)))
    }
}

fn failed_counted(name: &str, counts: &Counts) -> Error {
    let way_out = match counts.means {
        Means::Ptrace => {
            "; a traced set-user-ID program, such as sudo, lacks its privileges: count as root, or with CAP_BPF and \
             CAP_PERFMON"
        }
        Means::Ebpf => "",
    };
    let how = match counts.end {
        End::Exited(code) => format!("with exit code {code}"),
        End::Killed(signal) => format!("by signal {signal}"),
        End::Ended | End::Running => "unexpectedly".to_owned(),
    };
    let means = word(counts.means);
    wrong(format_args!(
        "{name} succeeds by itself, but ended {how} while {means} counted it{way_out} (--ignore-failure)"
    ))
}

/// From one tick of the kernel to the next: at these it finds a thread in the kernel or outside.
fn tick_ns(facts: &Facts) -> f64 {
    1e9 / facts.kernel.ticks_per_second().unwrap_or(USUAL_HZ)
}
