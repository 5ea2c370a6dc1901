//! The programs that find changes in series too: how each is started, and what it answers.

use super::series::{Found, Row, STEP_AT, Series, is_near_step};
use crate::bench::Bench;
use crate::child;
use crate::error::{OrCannot, Result, failed};
use crate::program;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1800);

/// A program that takes the name of a file of series.
pub(super) struct Peer {
    words: Vec<OsString>,
}

/// A series, as a program is asked for it.
#[derive(Serialize)]
struct Asked<'a> {
    rows: &'a [Row],
    step: Option<usize>,
    /// The length of the first beginning of the row of the step.
    from: usize,
}

/// What it finds in it.
#[derive(Deserialize)]
struct Answer {
    changes: Vec<Change>,
    /// The changes of the row of the step, for each beginning of it.
    beginnings: Vec<Vec<Change>>,
}

#[derive(Deserialize)]
struct Change {
    row: usize,
    at: Option<usize>,
}

impl Peer {
    /// Apache Otava, of the Python that `COSTOF_PYTHON` names.
    pub(super) fn otava() -> Peer {
        let python = std::env::var_os("COSTOF_PYTHON").unwrap_or_else(|| "python3".into());
        Peer { words: vec![python, "-c".into(), include_str!("otava.py").into()] }
    }

    /// The analysis of cargo-bench-history, built first.
    pub(super) fn cargo_bench_history(bench: &Bench) -> Result<Peer> {
        Ok(Peer { words: vec![program::cargo_bench_history().build(bench)?.into()] })
    }

    /// What it finds in each of these series.
    pub(super) fn ask(&self, bench: &Bench, series: &[Series]) -> Result<Vec<Vec<Found>>> {
        let asked =
            series.iter().map(|one| Asked { rows: &one.rows, step: one.step, from: STEP_AT + 1 });
        let file = bench.file("series.json");
        let text = serde_json::to_string(&asked.collect::<Vec<_>>()).or_cannot("write JSON")?;
        fs::write(&file, text).or_cannot(format_args!("write {}", file.display()))?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg(&file);
        let said = child::finish(&mut command, LIMIT, &bench.interrupt)?.output;
        answers(&said, series.len())
    }
}

/// The changes that a program's lines name, one line for each of so many series.
fn answers(said: &str, series: usize) -> Result<Vec<Vec<Found>>> {
    let answers = said.lines().map(|line| {
        let answer = serde_json::from_str::<Answer>(line);
        Ok(answer.or_cannot(format_args!("read the answer {line:?}"))?.found())
    });
    let answers = answers.collect::<Result<Vec<_>>>()?;
    if answers.len() != series {
        return Err(failed(format!("{} answers to {series} series", answers.len())));
    }
    Ok(answers)
}

impl Answer {
    fn found(self) -> Vec<Found> {
        let shows = |changes: &Vec<Change>| changes.iter().any(|one| is_near_step(one.at));
        let found = self.beginnings.iter().position(shows).map(|more| STEP_AT + more);
        self.changes.iter().map(|Change { row, at }| Found { row: *row, at: *at, found }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_found_with_the_first_beginning_that_shows_it() {
        let said = concat!(
            r#"{"changes": [{"row": 2, "at": 31}, {"row": 0, "at": null}],"#,
            r#" "beginnings": [[], [{"row": 2, "at": 12}], [{"row": 2, "at": 28}], []]}"#,
            "\n",
            r#"{"changes": [], "beginnings": []}"#,
            "\n"
        );
        let answers = answers(said, 2).unwrap();
        let found = Some(STEP_AT + 2);
        let expected = [Found { row: 2, at: Some(31), found }, Found { row: 0, at: None, found }];
        assert_eq!(answers, [expected.to_vec(), Vec::new()]);
    }

    #[test]
    fn an_answer_that_is_none_is_shown_and_a_missing_one_is_counted() {
        let why = |said| answers(said, 2).unwrap_err().to_string();
        assert!(why("Traceback").contains(r#"cannot read the answer "Traceback""#));
        let one = r#"{"changes": [], "beginnings": []}"#;
        assert_eq!(why(one), "1 answers to 2 series");
    }
}
