//! `costof list`: what can be measured.

use crate::cli::ListOptions;
use crate::error::Done;
use crate::plan::keywords::Take;
use crate::plan::request::select;
use crate::project;
use crate::record::Table;
use crate::terminal::{line_columns, print};
use costof_model::{Axis, AxisValue, Domain};
use costof_report::text::{hanging, wrapped};
use std::io;

pub(crate) fn run(table: Table, options: &ListOptions) -> Done {
    let infos = select(table, &options.probes, Take::All)?;
    project::log_file(table, infos.iter().copied());
    if options.json {
        let text = serde_json::to_string_pretty(&infos).map_err(io::Error::from)?;
        return print(text + "\n");
    }
    let width = infos.iter().map(|info| info.id.len()).max().unwrap_or(0);
    let columns = line_columns();
    let below = |line: String| wrapped(columns, &line, &" ".repeat(width + 4));
    let mut text = String::new();
    for info in infos {
        text += &hanging(columns, &format!("{:width$}  ", info.id), &info.question);
        for axis in info.axes.iter() {
            text += &below(format!("{} = {}", axis.name, values(axis)));
        }
        if info.needs_link() {
            text += &below(format!("--link {LINKS}, or --peer HOST"));
        }
    }
    print(text)
}

/// The possible links between the two peers of a probe.
pub(crate) const LINKS: &str = "loopback (default), veth, lan, wan, or spelt out";

/// The values of an axis as one line: its words, the default first; or its default numbers, the default and
/// the bounds; or the forms of a place.
pub(crate) fn values(axis: &Axis) -> String {
    let show = |value: &AxisValue| axis.display(value);
    match &axis.domain {
        Domain::Choice(_) => axis.defaults().iter().map(show).collect::<Vec<_>>().join(", "),
        Domain::Place { schemes, .. } => {
            let words = axis.defaults().into_iter().map(|value| show(&value));
            let urls = schemes.iter().map(|scheme| format!("{scheme}://…"));
            let all: Vec<String> = words.chain(["/path".to_owned()]).chain(urls).collect();
            all.join(", ")
        }
        Domain::Number { low, high, .. } => {
            let mut defaults = axis.defaults();
            defaults.sort();
            let default = axis.default();
            let marked = |value: &AxisValue| match show(value) {
                shown if *value == default => format!("{shown} (default)"),
                shown => shown,
            };
            let defaults = match defaults.as_slice() {
                [first, .., last] if defaults.len() > 6 => {
                    format!("{} … {}, default {}", show(first), show(last), show(&default))
                }
                all => all.iter().map(marked).collect::<Vec<_>>().join(", "),
            };
            let bound = |value: u64| axis.display(&value.into());
            format!("{defaults}; {} to {}", bound(*low), bound(*high))
        }
    }
}
