//! The data file of a study.

use crate::toml_text;
use serde::Deserialize;
use toml::Spanned;

/// The maximum size of a study's file; those that come with costof have a tenth of it.
pub const FILE_MAX_BYTES: u64 = 1 << 20;

/// A study: what was published, and what to run to compare with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its name, which is its file's name.
    #[serde(skip)]
    pub name: String,
    /// The place that error messages name.
    #[serde(skip)]
    pub(super) place: String,
    /// The text of the file.
    #[serde(skip)]
    text: String,
    /// A line that describes it.
    pub title: String,
    /// Who published it, where and when.
    pub source: String,
    /// The machine on which it was measured.
    pub machine: String,
    /// The statistic of its figures; the default is the median.
    pub(super) of: Option<String>,
    /// How what it measures works, as preformatted text for its sheet.
    pub(super) drawing: Option<String>,
    /// What a reader has to know to read the tables.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How the method of the original misled, for the study as a whole.
    #[serde(default)]
    pub misled: Vec<String>,
    /// The runs to measure.
    #[serde(default, rename = "run")]
    pub selections: Vec<Selection>,
    /// The published tables.
    #[serde(default, rename = "table")]
    pub(super) tables: Vec<Table>,
    /// Its plots.
    #[serde(default, rename = "plot")]
    pub(super) plots: Vec<Plot>,
    /// All of its points as one CSV file in its own layout.
    pub(super) csv: Option<Layout>,
    /// The questions that it asks.
    #[serde(default, rename = "question")]
    pub(super) questions: Vec<Question>,
}

/// A selection of points to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The arguments of `costof run`: probes, `--set` and `--link`.
    pub(super) what: Spanned<String>,
    /// The same for `--quick`, if that measures less; empty if it measures nothing.
    pub(super) quick: Option<Spanned<String>>,
    /// An axis of bytes and a step: values in equal steps up to what memory can hold of files, and beyond.
    pub(super) steps_to_memory: Option<Spanned<String>>,
    /// Only the points of the latency table.
    #[serde(default)]
    pub headlines: bool,
    /// Whether the size is one of which caches hold little, at its stride.
    #[serde(default)]
    pub beyond_caches: bool,
}

/// Figures that were published together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) title: Spanned<String>,
    /// The fields that all rows share.
    #[serde(flatten)]
    pub(super) common: Common,
    /// If a row has several figures, their names.
    #[serde(default)]
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// A row: one figure, or one for each column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: Spanned<String>,
    pub(super) predicted: Option<Value>,
    pub(super) measured: Option<Value>,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// One of several figures in a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: Spanned<String>,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// Fields that a table, a column or a row sets for its figures. The one nearest to the figure applies.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Common {
    /// A probe, values of its axes, and a link: `os.syscall call=getpid`, `net.rtt over lan`.
    pub(super) point: Option<String>,
    /// Values for more axes, or another link.
    pub(super) at: Option<String>,
    /// Part of the point's label in the latency table. Used if its axes depend on the machine.
    pub(super) label: Option<String>,
    /// Why a machine may have no row with this label.
    pub(super) because: Option<String>,
    /// The metric; the default is the probe's primary metric.
    pub(super) metric: Option<String>,
    /// The figure is a ratio to the metric at the same point with these values: `threads=1`. Its unit is `×`,
    /// or `%` for the difference in percent.
    pub(super) per: Option<String>,
    /// The statistic: `median`, `mean`, `sd`, `min`, or a percentile such as `p99`; the default is the study's.
    pub(super) of: Option<String>,
    /// The unit of the published figure.
    pub(super) unit: Option<String>,
    /// The published figure covers this many operations of costof's.
    pub(super) times: Option<f64>,
    /// The published figure counts what happened in this time; costof's is for one operation.
    pub(super) seconds: Option<f64>,
    /// The number of bytes, if units differ: the published figure is the time for this many bytes and
    /// costof's is a rate, or the published figure is a rate of messages of this size and costof's is a time.
    pub(super) bytes: Option<f64>,
    /// Whether the size is any of which caches hold little, at its stride.
    pub(super) beyond_caches: Option<bool>,
    /// Why costof has nothing to compare it with.
    pub(super) absent: Option<String>,
    /// How the publication's method misled.
    pub(super) misled: Option<String>,
    /// How it differs from what costof measures.
    pub(super) note: Option<String>,
}

/// A plot: a metric of points that differ in few axes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plot {
    pub(super) title: Spanned<String>,
    /// As in a table: what its points share.
    pub(super) point: String,
    /// The name of its line, if it is the only one except those beside it.
    pub(super) name: Option<String>,
    /// The axis to draw over.
    pub(super) over: String,
    /// The values of the other axes that lines and panels have: `primitive=copy_and_send,sendmsg threads=1,8`.
    #[serde(default)]
    pub(super) at: String,
    /// A metric of the probe; `cycles` stands for estimated ones where the CPU counts none.
    pub(super) metric: String,
    #[serde(default)]
    pub(super) style: Style,
    /// Other points with such a metric and axis, each a line in the same plot.
    #[serde(default)]
    pub(super) beside: Vec<Beside>,
    /// What the publication's plot shows.
    pub(super) note: Option<String>,
}

/// A line of other points in a plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    pub(super) name: String,
    pub(super) point: String,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// Curves over numbers, bars over words.
    #[default]
    Curves,
    /// Bars side by side for each value of the axis.
    Bars,
}

/// A CSV file with a row for each point of a probe.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    /// The file's name without `.csv`.
    pub(super) name: Spanned<String>,
    pub(super) probe: String,
    /// The columns that say which point: its axes, or `link`.
    pub(super) axes: Vec<String>,
    pub(super) columns: Vec<LayoutColumn>,
}

/// A metric in a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayoutColumn {
    pub(super) name: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// It counts what happened in so many seconds: the mean of an operation, or of a byte, × how many of them
    /// this time has.
    pub(super) seconds: Option<f64>,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A figure.
    Number(f64),
    /// Text that is not a number.
    Words(String),
    /// A range; or, in a row with columns, a value for each column.
    Several(Vec<Value>),
}

/// A question that the study asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub(super) ask: String,
    /// The kinds of findings that answer it.
    pub(super) kinds: Vec<Spanned<String>>,
    /// Only findings about probes whose ids begin like this.
    #[serde(default)]
    pub(super) about: Vec<Spanned<String>>,
    /// What answers it if only this question is asked; nothing means all that the study measures.
    #[serde(default)]
    pub(super) measure: Vec<Selection>,
    /// The publication's answer.
    pub(super) theirs: Option<String>,
    /// Why the run may have no answer.
    pub(super) because: String,
}

impl Study {
    /// Its questions, in their order, without the numbers that they may have.
    pub fn asks(&self) -> impl Iterator<Item = &str> {
        let asks = self.questions.iter().map(|question| &*question.ask);
        asks.map(|ask| ask.trim_start_matches(|c: char| c.is_ascii_digit() || ". ".contains(c)))
    }

    /// Whether one of its runs names this probe.
    pub fn measures(&self, probe: &str) -> bool {
        let mut selections = self.selections.iter();
        selections.any(|selection| selection.words(false).contains(&probe))
    }

    /// What to measure for one of its questions.
    ///
    /// # Panics
    /// If it has no such question.
    pub fn selections_of(&self, question: usize) -> &[Selection] {
        match self.questions[question].measure.as_slice() {
            [] => &self.selections,
            own => own,
        }
    }

    /// Reads a study from a file's text. `place` is where the text comes from, and `name` is the study's
    /// name.
    ///
    /// # Errors
    /// A sentence with the line, its contents, and what is wrong.
    pub fn read(name: &str, place: &str, text: &str) -> Result<Study, String> {
        let mut study: Study = toml_text::read(place, text)?;
        study.name = name.to_owned();
        study.place = place.to_owned();
        study.text = text.to_owned();
        Ok(study)
    }

    /// A mistake in a part of the file.
    pub(super) fn wrong(&self, at: &Spanned<String>, key: &str, what: &str) -> String {
        self.wrong_at(at, &format!("{key} of `{}`: {what}", at.get_ref()))
    }

    /// A mistake in this value.
    pub(super) fn wrong_at(&self, at: &Spanned<String>, what: &str) -> String {
        let line = toml_text::line_at(&self.text, at.span().start);
        format!("{}, line {line}, {what}", self.place)
    }

    /// A mistake in a selection.
    pub fn wrong_selection(&self, selection: &Selection, quick: bool, what: &str) -> String {
        let said = selection.said(quick);
        let line = toml_text::line_at(&self.text, said.span().start);
        format!("{}, line {line}, run `{}`: {what}", self.place, said.get_ref())
    }
}

impl Selection {
    /// Its `steps_to_memory`, unless it is quick with words of its own.
    pub fn steps(&self, quick: bool) -> Option<&str> {
        let own = self.steps_to_memory.as_ref()?;
        (!quick || self.quick.is_none()).then_some(own.get_ref())
    }

    /// The words of the selection; empty if a quick run leaves it out.
    pub fn words(&self, quick: bool) -> Vec<&str> {
        self.said(quick).get_ref().split_whitespace().collect()
    }

    fn said(&self, quick: bool) -> &Spanned<String> {
        self.quick.as_ref().filter(|_| quick).unwrap_or(&self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = 't'\nsource = 's'\nmachine = 'm'\n";

    #[test]
    fn a_mistake_is_reported_with_its_line_and_what_stands_there() {
        let shown = |more: &str| Study::read("x", "x.toml", &format!("{HEAD}{more}")).unwrap_err();
        for (more, says) in [
            ("tabel = 5", ["line 4", "tabel"]),
            ("title = 'again'", ["line 4", "duplicate"]),
            ("[[run]]\nwhat = 5", ["line 5", "invalid type"]),
            ("[[run]]\nwhat = 'a'\nquik = ''", ["line 6", "quik"]),
            ("[[table]]\ntitle='t'\nrows=[{name='r',mesured=5}]", ["line 6", "mesured"]),
            ("[[table]]\ntitle='t'\nunits='ns'\nrows=[]", ["line 6", "units"]),
            ("[[question]]\nask='?'", ["line 4", "kinds"]),
            ("notes = [", ["line 4", "notes"]),
        ] {
            let shown = shown(more);
            assert!(shown.starts_with("x.toml, "), "{shown}");
            assert!(says.iter().all(|part| shown.contains(part)), "{says:?}: {shown}");
        }
        assert!(Study::read("x", "x.toml", "title = 't'").unwrap_err().contains("source"));
        assert!(Study::read("x", "x.toml", HEAD).is_ok());
        for harm in ["\\u001b[2J", "\u{9b}2J", "\u{202e}"] {
            let refused = shown(&format!("[[run]]\nwhat = \"a{harm}b\""));
            assert!(refused.contains("control character") && refused.contains("`a\u{fffd}"));
        }
    }
}
