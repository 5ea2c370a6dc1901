//! `costof list`: what can be measured.

use crate::cli::ListOptions;
use crate::error::Error;
use crate::planning;
use costof_measure::probe::Probe;
use costof_model::axis::{Axis, Domain};
use costof_model::probe_info::ProbeInfo;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub(crate) fn run(table: &[&'static Probe], options: &ListOptions) -> Result<ExitCode, Error> {
    let all: Vec<&ProbeInfo> = table.iter().map(|probe| &probe.info).collect();
    let infos = planning::select(&all, &options.probes)?;
    let mut output = BufWriter::new(io::stdout().lock());
    if options.json {
        let text = serde_json::to_string_pretty(&infos).map_err(io::Error::from)?;
        writeln!(output, "{text}")?;
    } else {
        let width = infos.iter().map(|info| info.id.len()).max().unwrap_or(0);
        for info in infos {
            writeln!(output, "{:width$}  {}", info.id, info.question)?;
            for axis in info.axes.iter() {
                writeln!(output, "{:width$}    {} = {}", "", axis.name, values(axis))?;
            }
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The values of an axis as one line: words, or usual numbers and the bounds.
pub(crate) fn values(axis: &Axis) -> String {
    let shown: Vec<String> = axis
        .usual()
        .iter()
        .map(|value| axis.display(value))
        .collect();
    match &axis.domain {
        Domain::Choice(_) => shown.join(", "),
        Domain::Number { low, high, .. } => {
            let bound = |value: u64| axis.display(&value.into());
            let usual = match shown.as_slice() {
                [first, .., last] if shown.len() > 6 => format!("{first} … {last}"),
                _ => shown.join(", "),
            };
            format!("{usual} ({} to {})", bound(*low), bound(*high))
        }
    }
}
