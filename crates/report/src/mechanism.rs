//! How what a probe measures works, for a person who learns: a drawing, sentences and something to try, from
//! `mechanisms.toml`.

use crate::names::label;
use crate::table::interval;
use costof_model::Run;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The widest line of a drawing: indented by two, it fits a terminal of 80 columns.
pub const COLUMNS: usize = 78;

/// How what a probe measures works.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanism {
    /// Preformatted, in lines of at most [`COLUMNS`].
    pub drawing: String,
    /// What happens, and why it matters.
    pub sentences: [String; 2],
    /// Changes whose effect is known.
    #[serde(default, rename = "try")]
    pub tries: Vec<Try>,
    /// More to read.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// A change to try, and what should happen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Try {
    /// The arguments of `costof run`.
    pub run: String,
    /// The points before and after the change: values of axes, or another probe and values of its axes.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// The least and the greatest ratio of the first metrics, that of `to` divided by that of `from`.
    pub times: (f64, f64),
    /// What is compared, in words; the name of the first metric without it.
    pub metric: Option<String>,
    /// Why.
    pub because: String,
}

/// A text with lines of at most [`COLUMNS`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Its subject.
    pub heading: String,
    /// Its lines.
    pub text: String,
}

static MECHANISMS: LazyLock<BTreeMap<String, Mechanism>> =
    LazyLock::new(|| toml::from_str(include_str!("../mechanisms.toml")).expect("a test reads it"));

impl Mechanism {
    /// That of a probe, if somebody has drawn it.
    pub fn of(probe: &str) -> Option<&'static Mechanism> {
        MECHANISMS.get(probe)
    }

    /// All of them, with the ids of their probes.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static Mechanism)> {
        MECHANISMS.iter().map(|(probe, mechanism)| (&**probe, mechanism))
    }

    /// The three sentences: what happens, what it costs in a run, if there is one that knows, and why it matters.
    pub fn explained(&self, probe: &str, run: Option<&Run>) -> String {
        let [what, why] = &self.sentences;
        let here = run.and_then(|run| cost(run, probe));
        let here = here.unwrap_or_else(|| format!("`costof run {probe}` says what it costs here"));
        format!("{what} {here}. {why}")
    }
}

impl Try {
    /// What should happen, if the probe's first metric has this name.
    pub fn expected(&self, metric: &str) -> String {
        let Try { from, to, times: (least, most), because, .. } = self;
        let metric = self.metric.as_deref().unwrap_or(metric);
        format!(
            "expected: `{to}` has {least} to {most} times the {metric} of `{from}`, since {because}"
        )
    }
}

/// The first sound number of a probe in a run, preferably one of the latency table.
fn cost(run: &Run, probe: &str) -> Option<String> {
    let rows = run.points.iter().filter(|row| row.point.probe == probe && row.is_sound());
    let row = rows.min_by_key(|row| row.label.is_none())?;
    let estimate = row.primary()?;
    let name = label(run, &row.point);
    Some(format!("Here, {name}: {} ({})", estimate.display(), interval(estimate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::Grade;
    use costof_model::axis::Axes;
    use costof_model::testing::{row, run_without_facts};

    #[test]
    fn every_drawing_and_note_fits_a_terminal_and_every_sentence_ends() {
        for (probe, mechanism) in Mechanism::all() {
            let notes = mechanism.notes.iter().map(|note| &note.text);
            for line in notes.chain([&mechanism.drawing]).flat_map(|text| text.lines()) {
                assert!(line.chars().count() <= COLUMNS, "{probe}: {line}");
                assert_eq!(line.trim_end(), line);
            }
            for sentence in &mechanism.sentences {
                assert!(sentence.ends_with('.'), "{probe}: {sentence}");
            }
            for Try { times: (least, most), .. } in &mechanism.tries {
                assert!(0.0 < *least && least < most, "{probe}");
            }
        }
    }

    #[test]
    fn the_middle_sentence_has_a_sound_number_of_the_run() {
        let mechanism = Mechanism::of("os.syscall").unwrap();
        let says = |run: Option<&Run>, part: &str| {
            let text = mechanism.explained("os.syscall", run);
            let [what, why] = &mechanism.sentences;
            assert!(text.starts_with(what) && text.ends_with(why) && text.contains(part), "{text}");
        };
        says(None, ". `costof run os.syscall` says what it costs here. ");
        let mut run = run_without_facts();
        run.points = vec![row("os.syscall", Axes::default(), 50.0)];
        says(Some(&run), ". Here, os.syscall: 50.0 ns (45.0 ns – 55.0 ns). ");
        run.points[0].grade = Grade::D;
        says(Some(&run), "`costof run os.syscall` says");
    }

    #[test]
    fn copies_are_drawn_as_on_their_page() {
        let page = include_str!("../../../docs/copies.md");
        for note in &Mechanism::of("copy.send").unwrap().notes {
            assert!(page.contains(&note.text), "docs/copies.md: {}", note.heading);
        }
    }
}
