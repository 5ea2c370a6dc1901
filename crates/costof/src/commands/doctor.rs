//! `costof doctor`: what here will make numbers worse or missing.

use crate::cli::DoctorOptions;
use crate::error::{Done, checked};
use crate::placement;
use costof_findings::doctor::{DiagnosisState, diagnose};
use costof_measure::{facts, trials};
use costof_os::sched::affinity;
use costof_report::doctor;
use std::io::{self, Write};

pub(crate) fn run(options: &DoctorOptions) -> Done {
    let facts = facts::gather();
    let measured = placement::quietest(&affinity::allowed().unwrap_or_default(), &facts);
    let diagnoses = diagnose(&facts, &trials::try_all(&facts.cpu, measured));
    let mut output = io::stdout().lock();
    if options.json {
        for diagnosis in &diagnoses {
            let line = serde_json::to_string(diagnosis).map_err(io::Error::from)?;
            writeln!(output, "{line}")?;
        }
    } else {
        output.write_all(doctor::doctor(&diagnoses).as_bytes())?;
    }
    output.flush()?;
    let mut states = diagnoses.iter().map(|diagnosis| &diagnosis.state);
    Ok(checked(states.any(|state| {
        matches!(state, DiagnosisState::Worse | DiagnosisState::Missing)
    })))
}
