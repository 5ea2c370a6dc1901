//! The questions of studies: `costof ask copy-primitives/4`, or by words of the question.

use super::named;
use crate::cli::{AskOptions, RunOptions};
use crate::commands::estimate::{self, Named};
use crate::commands::study::{self, fits};
use crate::error::{Done, Result, bail, wrong};
use crate::plan::request::infos;
use crate::record;
use crate::record::Table;
use crate::terminal::{print, prose_columns, watch_interrupts};
use costof_model::{Facts, Run};
use costof_report::study::{Answer, EMBEDDED, Study};
use costof_report::text::wrapped;
use serde_json::json;

/// A question of a study, by its position.
pub(super) struct Asked {
    study: Study,
    question: usize,
}

/// The questions of all studies, each with its name: the first, where several studies ask the same.
pub(super) fn all() -> Result<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, text) in EMBEDDED {
        let study = Study::read(name, name, text).map_err(wrong)?;
        for (number, asks) in (1..).zip(study.asks()) {
            if all.iter().all(|(_, known)| known != asks) {
                all.push((format!("{name}/{number}"), asks.to_owned()));
            }
        }
    }
    Ok(all)
}

/// The question `STUDY/NUMBER`, or the only one that has all of these words; none if the name is that of
/// another question, or of none.
pub(super) fn find(name: &str) -> Result<Option<Asked>> {
    if named(name).is_some() {
        return Ok(None);
    }
    let by_words = by_words(name)?;
    let place = by_words.as_deref().unwrap_or(name).rsplit_once('/');
    let Some((study, Ok(number))) = place.map(|(study, at)| (study, at.parse::<usize>())) else {
        return Ok(None);
    };
    let study = study::find(study)?;
    let count = study.asks().count();
    if !(1..=count).contains(&number) {
        bail!("{} has {count} questions, and no {number}: `costof ask` lists them", study.name);
    }
    Ok(Some(Asked { study, question: number - 1 }))
}

/// The name of the only question that has all of these words.
fn by_words(words: &str) -> Result<Option<String>> {
    let mut found = all()?;
    found.retain(|(_, asks)| {
        let asks = asks.to_lowercase();
        words.split_whitespace().all(|word| asks.contains(&word.to_lowercase()))
    });
    match found.as_slice() {
        [] => Ok(None),
        [(name, _)] => Ok(Some(name.clone())),
        several => {
            let several = several.iter().map(|(name, asks)| format!("{name} ({asks})"));
            bail!("which one: {}", several.collect::<Vec<_>>().join("; "))
        }
    }
}

impl Asked {
    pub(super) fn answer(&self, table: Table, options: &AskOptions) -> Done {
        let fixed = [
            ("size", options.size.is_some()),
            ("fields", options.fields.is_some()),
            ("link", options.link.is_some()),
            ("peer", options.peer.host.is_some()),
        ];
        if let Some((name, _)) = fixed.iter().find(|(_, is_set)| *is_set) {
            bail!("a question of a study has no --{name}: its file says what is measured");
        }
        self.study.check(&infos(table)).map_err(wrong)?;
        let (path, run) = match &options.run {
            Some(path) => (path.display().to_string(), record::read(path, table)?),
            None => self.measure(table, options)?,
        };
        let answer = self.study.answers(&run).swap_remove(self.question);
        print(if options.json {
            format!("{}\n", as_json(&answer, &run, &path))
        } else {
            as_text(&answer, &run, &path)
        })
    }

    fn measure(&self, table: Table, options: &AskOptions) -> Result<Named> {
        let all = RunOptions {
            on: options.on.iter().cloned().collect(),
            remote: options.remote.clone(),
            ..RunOptions::new(options.measuring.clone(), None)
        };
        let selections = self.study.selections_of(self.question);
        let requests = study::requests(table, &self.study, selections, &all, &Facts::default())?;
        if requests.is_empty() {
            bail!("the study's file does not say what to measure for this question");
        }
        estimate::measure_all(table, &all, requests, fits, &*watch_interrupts()?)
    }
}

fn as_text(answer: &Answer, run: &Run, path: &str) -> String {
    let lines: String = answer.lines(run).map(|line| wrapped(prose_columns(), &line, "")).collect();
    format!("{}\n\n{lines}\nThe run: {path}\n", answer.ask)
}

fn as_json(answer: &Answer, run: &Run, path: &str) -> serde_json::Value {
    json!({
        "question": answer.ask,
        "verdict": answer.because.as_ref().map(|_| "inconclusive"),
        "answer": answer.sentences(run).join(" "),
        "theirs": answer.theirs,
        "run": path,
    })
}
