//! `costof time`: measures the user's own commands, in turns.

mod jobs;
mod turns;

use crate::cli::gate::Required;
use crate::cli::{TimeOptions, TurnOptions};
use crate::error::{Context, Done, Result, bail, gated, rules};
use crate::files;
use crate::placement;
use crate::terminal::{self, line_columns, log, print};
use costof_measure::command::{self, Stopwatch};
use costof_measure::{facts, gauge};
use costof_model::TimedCommand;
use costof_model::timing::{TimeMetric, Timing};
use costof_report::style::Style;
use costof_report::timing;
pub(super) use jobs::{Job, words};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
pub(super) use turns::{expect_success, not_started, run as run_once};

pub(crate) fn run(options: &TimeOptions) -> Done {
    measure(&options.turns, jobs::jobs(options)?)
}

/// Measures commands in turns, and prints what they take.
pub(super) fn measure(options: &TurnOptions, jobs: Vec<Job>) -> Done {
    jobs::check_output(options)?;
    if options.threshold.is_some() && jobs.len() < 2 {
        bail!("--threshold compares with the first command, so it needs two of them");
    }
    let rules = rules(&options.gate, &Required::default(), &[])?;
    let cpus = match &options.cpu {
        Some(list) => placement::here(Some(list))?,
        None => Vec::new(),
    };
    let outputs = [options.export.as_deref()];
    let prints = files::check_outputs(&outputs, options.json, options.input())?;
    check_files(options)?;
    let facts = facts::gather();
    let stopwatch = Stopwatch::new(gauge::calibrate(&facts.cpu))
        .context("cannot adopt the processes that commands leave")?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let interrupted = terminal::watch_interrupts()?;
    let measured = turns::measure(options, &stopwatch, jobs, &cpus, seed, &interrupted);
    let floor = stopwatch.floor();
    drop(stopwatch);
    terminal::set_working(false);
    let (commands, cleaned) = measured?;
    let timing = conclude(commands, options, facts.machine_class(), seed, floor)?;
    // Whichever of these fails, the others are done.
    let printed = match prints {
        true => print(text(&timing, options)?).map(drop),
        false => Ok(()),
    };
    let written = match &options.export {
        Some(path) => files::write(path, &timing::export(&timing)),
        None => Ok(()),
    };
    printed.and(written).and(cleaned)?;
    let suite = timing.threshold.map(|_| timing::check(&timing, &rules));
    gated(&options.gate, suite.as_slice())
}

/// Finds out before the measurement what would fail after it.
fn check_files(options: &TurnOptions) -> Result<()> {
    if let Some(path) = options.input() {
        let input = fs::metadata(path).context(path.display())?;
        if !input.is_file() && !input.file_type().is_char_device() {
            bail!("--input {}: each run reads it anew, so it must be a file", path.display());
        }
    }
    Ok(())
}

/// What follows from the runs.
fn conclude(
    mut commands: Vec<TimedCommand>,
    options: &TurnOptions,
    machine: String,
    seed: u64,
    gauge_floor: Option<f64>,
) -> Result<Timing> {
    commands.iter_mut().for_each(command::estimate);
    let metric = options.metric.as_deref().map(|name| match name {
        "alone" => TimeMetric::Alone,
        "cpu" => TimeMetric::Cpu,
        "wall" => TimeMetric::Wall,
        name => TimeMetric::Own(name.to_owned()),
    });
    if let Some(TimeMetric::Own(name)) = &metric {
        let runs = commands.iter().flat_map(|command| &command.runs);
        let printed: BTreeSet<&str> =
            runs.flat_map(|run| run.own.keys()).map(String::as_str).collect();
        if !printed.contains(&**name) {
            let known: Vec<&str> = ["alone", "cpu", "wall"].into_iter().chain(printed).collect();
            bail!("no command prints `{name}`: --metric is one of {}", known.join(", "));
        }
    }
    for name in options.metric_regex.iter().map(|pattern| pattern.name()) {
        if !commands.iter().flat_map(|it| &it.runs).any(|run| run.own.contains_key(name)) {
            log(format_args!(
                "--metric-regex {name}: it found no number in what the commands print"
            ));
        }
    }
    let (metric, mut comparisons) = command::compare(&mut commands, metric);
    let threshold = options.threshold.map(|percent| percent / 100.0);
    if let Some(threshold) = threshold {
        for comparison in comparisons.iter_mut().flatten() {
            comparison.judge(threshold, options.higher_is_better);
        }
    }
    Ok(Timing { machine, seed, gauge_floor, commands, metric, threshold, comparisons })
}

fn text(timing: &Timing, options: &TurnOptions) -> Result<String> {
    if options.json {
        let text = serde_json::to_string_pretty(timing).map_err(std::io::Error::from)?;
        return Ok(text + "\n");
    }
    if options.markdown {
        return Ok(timing::markdown(timing));
    }
    let style =
        Style { width: terminal::terminal_columns().map(|_| line_columns()), ..Style::default() };
    Ok(timing::text(timing, style))
}
