//! `costof run`: measure.

use crate::cli::RunOptions;
use crate::controller::Controller;
use crate::error::{Error, wrong};
use crate::planning::{self, Asked};
use crate::progress::Progress;
use crate::record::{self, Record};
use crate::tell::tell;
use crate::{machine, placement};
use costof_lab::host::WorkerCommand;
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::Text;
use costof_model::facts::Facts;
use costof_model::protocol::Description;
use costof_model::rows::{AttemptRow, EndRow, Plan, Row, RunRow, SCHEMA};
use costof_model::run_file::{self, Run};
use costof_report::{names, run as report};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

pub(crate) fn run(
    table: &'static [&'static Probe],
    options: &RunOptions,
) -> Result<ExitCode, Error> {
    // What is asked is checked before anything starts.
    let asked = planning::asked(table, options)?;
    let interrupted = watch_for_interrupts()?;
    let command = WorkerCommand::own_executable(&["worker"])
        .map_err(|error| wrong(format!("cannot open costof's own executable: {error}")))?;
    let holder = WorkerCommand::own_executable(&["hold"])
        .map_err(|error| wrong(format!("cannot open costof's own executable: {error}")))?;
    let limit = Duration::from_secs(options.timeout);
    // A file to resume is checked before the machine is described.
    let resumed = options.resume.as_deref().map(Record::reopen).transpose()?;
    let machine = machine::describe(&command, limit, &interrupted)?;
    let (mut record, mut run) = match resumed {
        Some((record, run)) => {
            check_resumable(table, &run, &machine, options.force)?;
            (record, run)
        }
        None => {
            let placement = placement::decide(options.cpu.as_deref(), &machine.facts)?;
            let facts = placement::facts_of_the_run(&placement, &machine.facts);
            let plan = planning::plan(table, &asked, &facts, placement)?;
            if options.dry_run {
                return dry_run(table, &asked, &plan);
            }
            begin(table, options, plan)?
        }
    };
    let precision = Precision::named(&run.run.plan.precision).ok_or_else(|| {
        wrong(format!(
            "this costof knows no precision `{}`",
            run.run.plan.precision
        ))
    })?;
    placement::leave_the_measured(&run.run.plan.placement);
    if run.end.is_none() {
        let attempt = Row::Attempt(Box::new(attempt(&machine)));
        record.append(&attempt)?;
        run.add(attempt);
        let takes = planning::takes(table, &run.run.plan, precision);
        let progress = Progress::new(run.run.plan.blocks.len() as u64 * u64::from(takes.launches));
        progress.say(&format!(
            "{}, about {} s, to {}",
            names::points_counted(takes.points),
            takes.time.as_secs_f64().ceil(),
            record.path().display()
        ));
        Controller {
            table,
            command: &command,
            holder: &holder,
            links: BTreeMap::new(),
            facts: &placement::facts_of_the_run(&run.run.plan.placement, &machine.facts),
            clock: &machine.clock,
            precision,
            limit,
            interrupted: &interrupted,
            progress: &progress,
            record: &mut record,
            run: &mut run,
        }
        .carry_out()?;
        if !interrupted.load(Ordering::Relaxed) {
            let end = end(&run);
            record.append(&end)?;
            run.add(end);
        }
    }
    show(&run, &record, options.json)
}

/// A flag that Ctrl-C and a termination signal set. The worker does not see
/// them: it leads a process group of its own.
fn watch_for_interrupts() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|error| wrong(format!("cannot watch for interrupts: {error}")))?;
    Ok(interrupted)
}

fn dry_run(table: &[&'static Probe], asked: &Asked<'_>, plan: &Plan) -> Result<ExitCode, Error> {
    let mut output = io::stdout().lock();
    for block in &plan.blocks {
        for (position, point) in block.points.iter().enumerate() {
            let label = block.label(position);
            let label = label.map_or_else(String::new, |label| format!("  ({label})"));
            writeln!(
                output,
                "{}{label}",
                names::point(point, names::info(point, &infos(table)))
            )?;
        }
    }
    let takes = planning::takes(table, plan, asked.precision);
    writeln!(output, "\n{}", takes.sentence(asked.precision))?;
    Ok(ExitCode::SUCCESS)
}

fn infos(table: &[&'static Probe]) -> Vec<costof_model::probe_info::ProbeInfo> {
    table.iter().map(|probe| probe.info.clone()).collect()
}

/// A new run file, with what was asked and the probes that it asks.
fn begin(
    table: &[&'static Probe],
    options: &RunOptions,
    plan: Plan,
) -> Result<(Record, Run), Error> {
    let now = SystemTime::now();
    let id = id(now);
    let path = match &options.out {
        Some(path) => path.clone(),
        None => history_path(&id)?,
    };
    let mut record = Record::create(&path)?;
    let used: Vec<&Probe> = table
        .iter()
        .copied()
        .filter(|probe| {
            let asks = |point: &costof_model::point::Point| point.probe == probe.info.id;
            plan.blocks.iter().flat_map(|block| &block.points).any(asks)
        })
        .collect();
    let first = RunRow {
        schema: SCHEMA,
        id,
        started: humantime::format_rfc3339_seconds(now).to_string(),
        command: std::env::args().collect(),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        plan,
    };
    record.append(&Row::Run(Box::new(first.clone())))?;
    let mut run = Run::new(first);
    for probe in used {
        let row = Row::Probe(Box::new(probe.info.clone()));
        record.append(&row)?;
        run.add(row);
    }
    Ok((record, run))
}

/// When it began, to the second, and something drawn: sorts by time and is
/// not used twice.
fn id(now: SystemTime) -> String {
    let time: String = humantime::format_rfc3339_seconds(now)
        .to_string()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    format!("{time}-{:08x}", fastrand::u32(..))
}

fn history_path(id: &str) -> Result<PathBuf, Error> {
    Ok(record::history()?.join(format!("{id}.jsonl")))
}

/// Whether an interrupted run may go on here: with the same methods of its
/// probes, on processors that are to be had, and, unless it is forced, with the
/// same costof on the same machine and kernel.
fn check_resumable(
    table: &[&'static Probe],
    run: &Run,
    machine: &Description,
    force: bool,
) -> Result<(), Error> {
    let points = run.run.plan.blocks.iter().flat_map(|block| &block.points);
    for point in points {
        if costof_measure::probe::find(table, &point.probe).is_none() {
            return Err(wrong(format!(
                "this costof has no probe {}: resume with the one that began the run",
                point.probe
            )));
        }
    }
    for (probe, method) in &machine.probes {
        let begun = run.probe(probe).map(|info| info.method);
        if let Some(begun) = begun.filter(|begun| begun != method) {
            return Err(wrong(format!(
                "the run was begun with method {begun} of {probe}, and this costof has method \
                 {method}, whose numbers are not comparable: start a new run"
            )));
        }
    }
    if run.end.is_none() {
        placement::check(&run.run.plan.placement)?;
    }
    let Some(last) = run.attempts.last() else {
        return Ok(());
    };
    let begun = last.hosts.values().next();
    let differs = |of: fn(&Facts) -> &Option<String>| {
        // What is not known is no difference.
        match (
            begun.and_then(|facts| of(facts).as_ref()),
            of(&machine.facts),
        ) {
            (Some(begun), Some(here)) => begun != here,
            _ => false,
        }
    };
    let differences = [
        ("costof", last.build != machine.build),
        ("host", differs(|facts| &facts.host_name)),
        ("processor", differs(|facts| &facts.cpu.model_name)),
        ("kernel", differs(|facts| &facts.kernel.release)),
    ];
    let other: Vec<&str> = differences
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(what, _)| *what)
        .collect();
    if other.is_empty() || force {
        return Ok(());
    }
    Err(wrong(format!(
        "the run was begun with another {}: its launches would not be alike (--force resumes all \
         the same, or start a new run)",
        other.join(" and another ")
    )))
}

fn attempt(machine: &Description) -> AttemptRow {
    AttemptRow {
        costof: machine.costof.clone(),
        build: machine.build.clone(),
        boot: machine.facts.kernel.boot_id.clone(),
        hosts: BTreeMap::from([(Text::Borrowed("only"), (*machine.facts).clone())]),
        clock: machine.clock.clone(),
        counters: machine.counters.clone(),
    }
}

fn end(run: &Run) -> Row {
    Row::End(EndRow {
        finished: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        points: run.points.len() as u64,
        failures: run.failures.len() as u64,
    })
}

/// Prints what a run gave, and says how it ended.
fn show(run: &Run, record: &Record, json: bool) -> Result<ExitCode, Error> {
    let mut output = io::stdout().lock();
    if json {
        for point in &run.points {
            output.write_all(&run_file::line(&Row::Point(Box::new(point.clone()))))?;
        }
        for failure in run.failures.iter().filter(|row| row.launch.is_none()) {
            output.write_all(&run_file::line(&Row::Failure(failure.clone())))?;
        }
    } else {
        output.write_all(report::text(run).as_bytes())?;
        writeln!(output, "\nThe run is in {}", record.path().display())?;
    }
    if run.end.is_none() {
        let path = record.path().display();
        tell(format!(
            "interrupted; `costof run --resume {path}` measures what is missing"
        ));
        return Ok(machine::interrupted_code());
    }
    if run.points.is_empty() {
        return Err(Error::Nothing(
            "nothing could be measured; the reasons stand above".to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
