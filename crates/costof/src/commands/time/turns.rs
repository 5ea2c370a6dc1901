//! Runs the commands in turns: how often, in which order, on which CPU.
//!
//! The budget ends the turns, and no result does: to stop at a narrow interval would make it cover less than it says. A
//! turn runs each command once, in random order, so that what changes on the machine meanwhile changes all of them.

use super::Job;
use super::jobs::unmeasured;
use crate::cli::TurnOptions;
use crate::error::{Context, Error, Result, bail, wrong};
use crate::progress::{bar, give_way, whole_seconds};
use crate::terminal::log;
use costof_measure::command::{self, Capture, Output, Program, Stopwatch};
use costof_model::{TimedCommand, TimedRun};
use costof_os::sched::affinity;
use indicatif::ProgressDrawTarget;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The budget of one command: its first answer comes within three seconds.
const BUDGET_OF_ONE: Duration = Duration::from_millis(2500);
/// The budget of each of several.
const BUDGET_OF_EACH: Duration = Duration::from_secs(5);
/// Fewer turns give no interval worth reading.
const MIN_TURNS: u32 = 5;
const MAX_TURNS: u32 = 100_000;
/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// A time that is longer is announced where there is no terminal for the bar.
const ANNOUNCED: Duration = Duration::from_secs(20);
/// The gauges of at most this many CPUs are looked at before a turn, half a millisecond each.
const MAX_LOOKS: usize = 8;
/// What a shell or an empty process takes is measured too if a command takes less than this.
const SHORT: Duration = Duration::from_millis(100);
/// A shell's exit code if it finds no such command.
const NOT_FOUND: i32 = 127;

/// All runs of all commands.
struct Turns<'a> {
    options: &'a TurnOptions,
    stopwatch: &'a Stopwatch,
    interrupted: &'a AtomicBool,
    /// Those of `--cpu`; empty without it.
    cpus: &'a [usize],
    /// All that commands may use.
    allowed: Vec<usize>,
    random: fastrand::Rng,
}

/// A command while it is measured.
struct Measured {
    job: Job,
    /// Whether a command without `--cpu` is placed on one CPU.
    is_placed: bool,
    /// What one turn of it takes, with all that belongs to it.
    took: Duration,
}

/// A shell that does nothing, or an empty process, which takes turns with the commands that are so short that its start
/// counts.
struct Start {
    shell: Option<String>,
    program: Program,
    wall_ns: Vec<f64>,
}

/// Measures all commands. Whatever happens, `--cleanup` runs at the end; whether it succeeded comes with the result.
pub(super) fn measure(
    options: &TurnOptions,
    stopwatch: &Stopwatch,
    jobs: Vec<Job>,
    cpus: &[usize],
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<(Vec<TimedCommand>, Result<()>)> {
    let mut turns = Turns {
        options,
        stopwatch,
        interrupted,
        cpus,
        allowed: affinity::allowed().context("cannot read the allowed CPUs")?,
        random: fastrand::Rng::with_seed(seed),
    };
    let began = Instant::now();
    let prepared = match &options.setup {
        Some(setup) => turns.unmeasured(&unmeasured(setup), "--setup"),
        None => Ok(()),
    };
    let measured = prepared.and_then(|()| turns.all(jobs, began));
    let cleaned = match &options.cleanup {
        // Also after an interrupt; a second one ends costof.
        Some(cleanup) => match stopwatch.run_unmeasured(&unmeasured(cleanup), || true) {
            Ok(Some(0)) => Ok(()),
            Ok(_) => Err(wrong(format_args!("--cleanup failed: `{cleanup}`"))),
            failed => failed.map(drop).context("--cleanup"),
        },
        None => Ok(()),
    };
    Ok((measured?, cleaned))
}

impl Turns<'_> {
    fn all(&mut self, jobs: Vec<Job>, began: Instant) -> Result<Vec<TimedCommand>> {
        let first = jobs.into_iter().map(|job| self.first_runs(job));
        let mut all = first.collect::<Result<Vec<Measured>>>()?;
        let turn: Duration = all.iter().map(|measured| measured.took).sum();
        let starting = Instant::now();
        let mut starts = self.starts(&all)?;
        let (expected, end) = self.count(turn + starting.elapsed(), all.len(), began);
        // Without a warm-up, the first runs were a turn.
        let begun = u32::from(self.options.warmup == 0);
        let bar = bar(expected.into(), " turns");
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let mut order: Vec<usize> = (0..all.len()).collect();
        bar.inc(begun.into());
        for turn in begun..self.options.runs.unwrap_or(MAX_TURNS) {
            if turn >= MIN_TURNS && Instant::now() > end {
                break;
            }
            if turn >= expected {
                bar.inc_length(1);
            }
            self.random.shuffle(&mut order);
            let placed = self.place(&all);
            for &position in &order {
                give_way(&bar);
                bar.set_message(all[position].job.timed.name.clone());
                let on = match all[position].is_placed {
                    true => &placed[..],
                    false => self.cpus,
                };
                let run = self.once(&all[position].job, on)?;
                all[position].job.timed.runs.push(run);
            }
            let on = if placed.is_empty() { self.cpus } else { &placed };
            for start in &mut starts {
                start.wall_ns.extend(self.start_ns(&start.program, on)?);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        for start in &starts {
            for Measured { job, .. } in all.iter_mut().filter(|measured| start.is_of(measured)) {
                job.timed.start_ns = command::estimate_of(&start.wall_ns);
            }
        }
        Ok(all.into_iter().map(|measured| measured.job.timed).collect())
    }

    /// The warm-up, whose runs do not count; without one, the first run of each command, which does. It shows where the
    /// command may be placed, how long it takes, and whether it prints numbers.
    fn first_runs(&self, mut job: Job) -> Result<Measured> {
        let looks_for_numbers = matches!(job.program.output, Output::Null);
        if looks_for_numbers {
            job.program.output = Output::Capture(Capture::default());
        }
        let mut began = Instant::now();
        let first = self.once(&job, self.cpus)?;
        if looks_for_numbers && first.own.is_empty() {
            job.program.output = Output::Null;
        }
        let mut took = began.elapsed();
        let is_placed =
            self.cpus.is_empty() && first.is_one_thread == Some(true) && first.left == 0;
        if self.options.warmup == 0 {
            job.timed.runs.push(first);
        }
        for _ in 1..self.options.warmup {
            began = Instant::now();
            self.once(&job, self.cpus)?;
            took = began.elapsed();
        }
        Ok(Measured {
            job,
            // What it leaves running would be on that CPU too.
            is_placed,
            took,
        })
    }

    /// The CPU for the commands of one thread in this turn.
    fn place(&mut self, all: &[Measured]) -> Vec<usize> {
        if !all.iter().any(|measured| measured.is_placed) {
            return Vec::new();
        }
        let mut looked_at = self.allowed.clone();
        self.random.shuffle(&mut looked_at);
        looked_at.truncate(MAX_LOOKS);
        let freest = match &looked_at[..] {
            [only] => Some(*only),
            several => command::freest(several),
        };
        freest.or(looked_at.first().copied()).into_iter().collect()
    }

    /// How many turns there will be if they all take as long as this, and when the budget ends them.
    fn count(&self, turn: Duration, commands: usize, began: Instant) -> (u32, Instant) {
        let budget = self.options.budget.unwrap_or_else(|| default_budget(commands));
        let turns = self.options.runs.unwrap_or_else(|| fitting(budget, began.elapsed(), turn));
        let in_all = turn * turns;
        if in_all > ANNOUNCED.max(budget * 2) {
            log(format_args!(
                "{turns} runs of each command take about {} s (--runs N for fewer)",
                whole_seconds(in_all)
            ));
        }
        let is_counted = self.options.runs.is_some();
        let limit = if is_counted { FOREVER } else { budget };
        (turns, began + limit)
    }

    /// One run of a command, with what belongs to it.
    fn once(&self, job: &Job, cpus: &[usize]) -> Result<TimedRun> {
        if let Some(prepare) = &job.prepare {
            self.unmeasured(prepare, "--prepare")?;
        }
        let side = match job.timed.name == job.timed.command {
            true => String::new(),
            false => format!(" of {}", job.timed.name),
        };
        let name = format!("`{}`{side}", job.timed.command);
        let run = run(self.stopwatch, &job.program, cpus, &name, self.interrupted)?;
        if let Some(conclude) = &job.conclude {
            self.unmeasured(conclude, "--conclude")?;
        }
        let advice = "(show its output: --output inherit; measure anyway: --ignore-failure)";
        match run.exit_code {
            _ if self.options.ignore_failure => {}
            Some(NOT_FOUND) if job.timed.shell.is_some() => {
                bail!("{name}: the shell found no such command (exit code 127)")
            }
            _ => expect_success(&run, &name, advice)?,
        }
        Ok(run)
    }

    fn unmeasured(&self, program: &Program, option: &str) -> Result<()> {
        let command = program.words.last().map(|word| word.to_string_lossy()).unwrap_or_default();
        let ended = self.stopwatch.run_unmeasured(program, || self.may_go_on());
        if !self.may_go_on() {
            return Err(Error::Interrupted);
        }
        match ended.context(option)? {
            Some(0) => Ok(()),
            Some(code) => bail!("{option} failed with exit code {code}: `{command}`"),
            None => bail!("{option} was killed by a signal: `{command}`"),
        }
    }

    fn may_go_on(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// The starts that count for some command, each done once, which warms it up and shows that it works.
    fn starts(&self, all: &[Measured]) -> Result<Vec<Start>> {
        let mut starts: Vec<Start> = Vec::new();
        for measured in all.iter().filter(|measured| measured.took < SHORT) {
            if starts.iter().any(|start| start.is_of(measured)) {
                continue;
            }
            let shell = measured.job.timed.shell.clone();
            let mut words = match shell {
                Some(_) => measured.job.program.words.clone(),
                None => vec!["true".into()],
            };
            if let Some(script) = words.last_mut().filter(|_| shell.is_some()) {
                *script = ":".into();
            }
            let program = Program { words, input: None, output: Output::Null, folder: None };
            if self.start_ns(&program, self.cpus)?.is_some() {
                starts.push(Start { shell, program, wall_ns: Vec::new() });
            }
        }
        Ok(starts)
    }

    /// The wall time of a shell or process that does nothing; `None` if it fails.
    fn start_ns(&self, program: &Program, cpus: &[usize]) -> Result<Option<f64>> {
        match self.stopwatch.run(program, cpus, || self.may_go_on()) {
            Ok(Some(run)) => Ok((run.exit_code == Some(0)).then_some(run.wall_ns as f64)),
            Ok(None) => Err(Error::Interrupted),
            Err(_) => Ok(None),
        }
    }
}

impl Start {
    fn is_of(&self, measured: &Measured) -> bool {
        self.shell == measured.job.timed.shell && measured.took < SHORT
    }
}

/// Runs a program once; its name is for errors.
pub(in crate::commands) fn run(
    stopwatch: &Stopwatch,
    program: &Program,
    cpus: &[usize],
    name: &str,
    interrupted: &AtomicBool,
) -> Result<TimedRun> {
    let may_go_on = || !interrupted.load(Ordering::Relaxed);
    let run = stopwatch.run(program, cpus, may_go_on);
    match run {
        _ if !may_go_on() => Err(Error::Interrupted),
        Ok(run) => run.ok_or(Error::Interrupted),
        Err(error) => Err(not_started(program, name, &error)),
    }
}

/// Why a program could not be run.
pub(in crate::commands) fn not_started(program: &Program, name: &str, error: &io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound && error.raw_os_error().is_some() {
        let program = program.words[0].to_string_lossy();
        return wrong(format_args!("cannot run {name}: there is no command `{program}`"));
    }
    wrong(format_args!("cannot run {name}: {error}"))
}

/// # Errors
/// The run failed; with this advice.
pub(in crate::commands) fn expect_success(run: &TimedRun, name: &str, advice: &str) -> Result<()> {
    match (run.exit_code, run.signal) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => bail!("{name} failed with exit code {code} {advice}"),
        (None, signal) => {
            bail!("{name} was killed by signal {} {advice}", signal.unwrap_or(0))
        }
    }
}

/// The budget of so many commands.
fn default_budget(commands: usize) -> Duration {
    match commands {
        1 => BUDGET_OF_ONE,
        several => BUDGET_OF_EACH * several as u32,
    }
}

/// How many turns fit into what is left of a budget.
fn fitting(budget: Duration, passed: Duration, turn: Duration) -> u32 {
    let left = budget.saturating_sub(passed).as_secs_f64();
    ((left / turn.as_secs_f64().max(1e-6)) as u32).clamp(MIN_TURNS, MAX_TURNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_on_one_command_comes_within_three_seconds() {
        let limit = Duration::from_secs(3);
        for turn_ms in [1, 5, 100, 400] {
            let turn = Duration::from_millis(turn_ms);
            let turns = fitting(default_budget(1), turn, turn);
            // Turns end at the budget, so the last one may reach beyond it.
            assert!(turns >= MIN_TURNS && turn * (turns + 1) <= limit, "{turn_ms} ms: {turns}");
        }
    }

    #[test]
    fn a_command_of_a_minute_has_the_fewest_turns_that_give_an_interval() {
        let minute = Duration::from_secs(60);
        assert_eq!(fitting(default_budget(1), minute, minute), MIN_TURNS);
        assert_eq!(fitting(Duration::from_secs(3600), minute, minute), 59);
    }
}
