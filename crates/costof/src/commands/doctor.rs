//! `costof doctor`: finds what will make numbers on this machine worse or missing.

use crate::cli::DoctorOptions;
use crate::error::Done;
use crate::terminal::{print, prose_columns};
use costof_findings::doctor::{DiagnosisState, diagnose};
use costof_measure::{facts, trials};
use costof_os::sched::affinity;
use costof_report::doctor;
use std::io;
use std::process::ExitCode;

pub(crate) fn run(options: &DoctorOptions) -> Done {
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
