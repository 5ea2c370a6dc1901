//! `costof doctor`: finds what will make numbers on this machine worse or missing; with `--ci`, whether it is fit for a check.

use crate::cli::DoctorOptions;
use crate::error::{Context, Done, Error};
use crate::terminal::{print, prose_columns, set_working, watch_interrupts};
use costof_findings::doctor::{DiagnosisState, diagnose};
use costof_measure::command::{Output, Program, Stopwatch};
use costof_measure::fitness::{judge, watch};
use costof_measure::{facts, gauge, trials};
use costof_os::sched::affinity;
use costof_report::doctor;
use std::hint::black_box;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long each run of the program takes that `--ci` compares with itself.
const RUN: Duration = Duration::from_millis(30);
/// The work whose time says how much of it makes a run.
const TRIAL_WORK: u64 = 2_000_000;

pub(crate) fn run(options: &DoctorOptions) -> Done {
    if let Some(rounds) = options.work {
        work(rounds);
        return Ok(ExitCode::SUCCESS);
    }
    if options.ci {
        return ci(options);
    }
    let facts = facts::gather();
    let measured = facts.quietest(&affinity::allowed().unwrap_or_default());
    let diagnoses = diagnose(&facts, &trials::try_all(&facts.cpu, measured));
    let text = if options.json {
        let lines: Result<Vec<String>, _> = diagnoses.iter().map(serde_json::to_string).collect();
        lines.map_err(io::Error::from)?.join("\n") + "\n"
    } else {
        doctor::doctor(&diagnoses, prose_columns())
    };
    print(text)?;
    let mut states = diagnoses.iter().map(|diagnosis| &diagnosis.state);
    let is_bad = |state| matches!(state, &DiagnosisState::Worse | &DiagnosisState::Missing);
    Ok(ExitCode::from(u8::from(states.any(is_bad))))
}

/// Whether this machine is fit to see a change: 0, or 3 for "skip".
fn ci(options: &DoctorOptions) -> Done {
    let facts = facts::gather();
    let stopwatch = Stopwatch::new(gauge::calibrate(&facts.cpu))
        .context("cannot adopt the processes that commands leave")?;
    let interrupted = watch_interrupts()?;
    let turns = watch(&stopwatch, &own_work(), || !interrupted.load(Ordering::Relaxed));
    drop(stopwatch);
    set_working(false);
    let turns = turns.context("cannot start costof itself")?.ok_or(Error::Interrupted)?;
    let fitness = judge(&turns, &facts, options.change, options.budget);
    print(match options.json {
        true => serde_json::to_string(&fitness).context("JSON")? + "\n",
        false => doctor::fitness(&fitness, prose_columns()),
    })?;
    Ok(ExitCode::from(if fitness.fit { 0 } else { 3 }))
}

/// This program, as one that computes for as long as a run should take.
fn own_work() -> Program {
    let began = Instant::now();
    work(TRIAL_WORK);
    let runs = RUN.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-6);
    let rounds = (TRIAL_WORK as f64 * runs) as u64;
    // Not "self": it is another process that starts it.
    let costof = format!("/proc/{}/exe", std::process::id());
    Program {
        words: vec![costof.into(), "doctor".into(), format!("--work={rounds}").into()],
        input: None,
        output: Output::Null,
        folder: None,
    }
}

/// Computes in registers and in a table that the first cache holds.
fn work(rounds: u64) {
    let mut table = [0_u64; 1024];
    let mut state: u64 = 1;
    for round in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
        let slot = &mut table[(state >> 54) as usize];
        *slot = slot.rotate_left(7) ^ state;
    }
    black_box((table, state));
}
