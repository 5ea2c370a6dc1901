//! Run files, and everything that is shown of a run.

use crate::edits::edited;
use crate::markup;
use crate::same::is_same;
use costof_findings::doctor::diagnose;
use costof_measure::compare::{MATTERS, Metrics, compare};
use costof_measure::estimate;
use costof_model::facts::Probed;
use costof_model::harmless;
use costof_model::rows::Row;
use costof_model::run_file::{self, Run};
use costof_report::check::Rules;
use costof_report::compare::outcome::Outcome;
use costof_report::compare::{self as compared, Side};
use costof_report::export::FORMATS;
use costof_report::style::Style;
use costof_report::{csv, doctor, markdown, page, plots, predictions, run as table};

/// A run of real launches, and one of every row that a file may have.
pub(crate) const RUNS: [&str; 2] = [
    include_str!("../../corpus/run_file/launches.jsonl"),
    include_str!("../../corpus/run_file/rows.jsonl"),
];

/// A file of any bytes.
pub(crate) fn bytes(bytes: &[u8]) {
    match run_file::read_up_to(bytes, u64::MAX) {
        Err(error) => plain(&error.to_string()),
        Ok((run, error)) => {
            error.iter().for_each(|error| plain(&error.to_string()));
            assert!(run.whole_bytes <= bytes.len() as u64);
            check_reread(&run);
            shown(run);
        }
    }
}

/// A file of lines that are right, of which some values are others.
pub(crate) fn values(script: &[u8]) {
    let Some((which, script)) = script.split_first() else {
        return;
    };
    bytes(edited(RUNS[usize::from(which % 2)], script).as_bytes());
}

fn rows(run: &Run) -> Vec<Row> {
    run.clone().into_rows().collect()
}

/// A run that is written is read as the same run.
fn check_reread(run: &Run) {
    let written: Vec<u8> = rows(run).iter().flat_map(run_file::line).collect();
    let again = run_file::read(&written[..]).expect("what was written is read");
    let rows = (rows(run), rows(&again));
    assert_eq!(rows.0.len(), rows.1.len());
    for (row, again) in rows.0.iter().zip(rows.1) {
        let both = [row, &again].map(|row| serde_json::json!(row));
        assert!(is_same(&both[0], &both[1]), "{} is read as {}", both[0], both[1]);
    }
}

/// Everything that is made of a run is plain text, or a page of our own elements.
pub(crate) fn shown(mut run: Run) {
    estimate::add_so_far(&mut run);
    let run = &run;
    markup::check(&page::page(run, &[]));
    markup::check(&page::handout::page(run));
    for (name, svg) in plots::svg(run) {
        file_name(&name);
        markup::check(&svg);
    }
    for (name, table) in csv::files(run) {
        file_name(&name);
        plain(&table.replace("\r\n", "\n"));
    }
    let styles =
        [None, Some(40)].map(|width| Style { width, ids: true, notes: true, ..Style::default() });
    for style in styles {
        plain(&(table::text(run, style) + &table::conclusion(run, style) + &table::absent(run)));
    }
    plain(&markdown::table(run));
    exported(std::slice::from_ref(run));
    for probe in &run.probes {
        plain(&predictions::of_probe(run, &probe.id, 80));
    }
    let machines = run.attempts.iter().flat_map(|attempt| attempt.hosts.values());
    for facts in machines {
        plain(&doctor::doctor(&diagnose(facts, &Probed::default()), 80));
    }
    compared_with_itself(run);
}

/// What other programs read is plain text under names of its own, and JSON where its name says so.
pub(crate) fn exported(runs: &[Run]) {
    let formats = FORMATS.iter();
    for format in formats.filter(|format| format.takes_many || runs.len() == 1) {
        for are_all in [false, true] {
            for (name, text) in format.files(runs, are_all) {
                file_name(&name);
                plain(&text.replace("\r\n", "\n"));
                if name.ends_with(".json") {
                    serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON");
                }
            }
        }
    }
}

fn compared_with_itself(run: &Run) {
    let comparison = compare(run, run, Metrics::All, MATTERS);
    plain(&compared::compared(&comparison, run, true, 80));
    let side = Side { name: "a", run };
    let outcome = Outcome::new("a", &comparison, run, &Rules::default());
    markup::check(&page::comparison::page(side, side, &comparison, &outcome));
}

/// Text for a terminal has no harmful characters besides the ends of lines.
pub(crate) fn plain(text: &str) {
    let harm = text.chars().find(|c| harmless::is_harmful(*c) && *c != '\n');
    assert_eq!(harm, None, "{text:?}");
}

/// A file's name leads into no other folder.
pub(crate) fn file_name(name: &str) {
    plain(name);
    assert!(
        !name.contains(['/', '\n', '\0']) && !name.starts_with('.') && name.len() < 256,
        "{name}"
    );
}
