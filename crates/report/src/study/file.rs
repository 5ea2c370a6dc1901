//! The data file of a study, as it is written.

use serde::Deserialize;
use toml::Spanned;

/// So long is a study's file at most; the five that come with costof have a tenth of it.
pub const FILE_MAX_BYTES: u64 = 1 << 20;

/// A study: what was published, and what to run to hold beside it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What it is called, which is its file's name.
    #[serde(skip)]
    pub name: String,
    /// Where a mistake of the file is told to be.
    #[serde(skip)]
    pub(super) place: String,
    /// Where each line of the file begins.
    #[serde(skip)]
    pub(super) lines: Vec<usize>,
    /// A line that says what it is.
    pub title: String,
    /// Who published it, where and when.
    pub source: String,
    /// On what it was measured.
    pub machine: String,
    /// What has to be known to read the tables.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Where the method of the original misled as a whole.
    #[serde(default)]
    pub misled: Vec<String>,
    /// What is measured.
    #[serde(default, rename = "run")]
    pub selections: Vec<Selection>,
    /// What was published.
    #[serde(default, rename = "table")]
    pub(super) tables: Vec<Table>,
    /// What it asks in words.
    #[serde(default, rename = "question")]
    pub(super) questions: Vec<Question>,
}

/// Something to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// What `costof run` takes: probes, `--set` and `--link`.
    pub(super) what: Spanned<String>,
    /// The same for `--quick`, where that is less; empty: nothing.
    pub(super) quick: Option<Spanned<String>>,
    /// Only what stands in the latency table.
    #[serde(default)]
    pub headlines: bool,
    /// Whether an unoptimised build measures it too.
    #[serde(default)]
    pub unoptimised: bool,
}

/// Figures that were published together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) title: Spanned<String>,
    /// What all rows have in common.
    #[serde(flatten)]
    pub(super) common: Common,
    /// Several figures a row, each with a name.
    #[serde(default)]
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// One figure, or one of each column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: Spanned<String>,
    pub(super) predicted: Option<Value>,
    pub(super) measured: Option<Value>,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// One of several figures of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: Spanned<String>,
    #[serde(flatten)]
    pub(super) common: Common,
}

/// What a table, a column or a row says of the figures in it; what is said nearer to the figure
/// stands.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Common {
    /// A probe, values of its axes, and a link: `os.syscall call=getpid`, `net.rtt over lan`.
    pub(super) point: Option<String>,
    /// More values of axes, or another link.
    pub(super) at: Option<String>,
    /// Part of the label that the point has in the latency table, where its axes depend on the
    /// machine.
    pub(super) label: Option<String>,
    /// The metric; without, the one that answers the probe's question.
    pub(super) metric: Option<String>,
    /// Which number of it: `median`, `mean`, `sd`, `min`, or a percentile such as `p99`.
    pub(super) of: Option<String>,
    /// The unit of the published figure.
    pub(super) unit: Option<String>,
    /// The published figure is that of so many operations of costof's.
    pub(super) times: Option<f64>,
    /// The published figure is the time of so many bytes, where costof's is a rate, or a rate of
    /// messages of so many bytes, where costof's is a time.
    pub(super) bytes: Option<f64>,
    /// By the unoptimised build.
    pub(super) unoptimised: Option<bool>,
    /// Why nothing of costof stands beside it.
    pub(super) absent: Option<String>,
    /// Where their method misled.
    pub(super) misled: Option<String>,
    /// What differs from what costof measures.
    pub(super) note: Option<String>,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A figure.
    Number(f64),
    /// What is no number.
    Words(String),
    /// From where to where, or, where there are columns, one of each.
    Several(Vec<Value>),
}

/// A question that the study asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub(super) ask: String,
    /// The kinds of findings that answer it.
    pub(super) kinds: Vec<Spanned<String>>,
    /// Only those about probes that begin so.
    #[serde(default)]
    pub(super) about: Vec<Spanned<String>>,
    /// What they answered.
    pub(super) theirs: Option<String>,
    /// Why there may be no answer.
    pub(super) because: String,
}

impl Study {
    /// What it asks in words.
    pub fn asks(&self) -> impl Iterator<Item = &str> {
        self.questions.iter().map(|question| &*question.ask)
    }

    /// The study in a file's text; `place` is where that comes from, and `name` what it is called.
    ///
    /// # Errors
    /// A sentence that names the line, what stands there, and what is wrong with it.
    pub fn read(name: &str, place: &str, text: &str) -> Result<Study, String> {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines: Vec<usize> = std::iter::once(0).chain(starts).collect();
        let read: Result<Study, toml::de::Error> = toml::from_str(text);
        let mut study = read.map_err(|error| {
            let message = error.message().trim().replace('\n', " ");
            let Some(span) = error.span() else {
                return format!("{place}: {message}");
            };
            // Of a key that is none, the parser names the table.
            let key = message.strip_prefix("unknown field `");
            let key = key.and_then(|rest| rest.split('`').next());
            let from = text.get(span.start..).unwrap_or_default();
            let further = key.and_then(|key| from.find(key)).unwrap_or(0);
            let line = line_at(&lines, span.start + further);
            let stands = text.lines().nth(line - 1).unwrap_or_default().trim();
            let stands: String = stands.chars().take(80).collect();
            format!("{place}, line {line}, at `{stands}`: {message}")
        })?;
        study.name = name.to_owned();
        study.place = place.to_owned();
        study.lines = lines;
        Ok(study)
    }

    /// A mistake at a part of the file.
    pub(super) fn wrong(&self, at: &Spanned<String>, key: &str, what: &str) -> String {
        self.wrong_at(at, &format!("{key} of `{}`: {what}", at.get_ref()))
    }

    /// A mistake in what stands there.
    pub(super) fn wrong_at(&self, at: &Spanned<String>, what: &str) -> String {
        let line = line_at(&self.lines, at.span().start);
        format!("{}, line {line}, {what}", self.place)
    }

    /// The same for what a selection says.
    pub fn wrong_selection(&self, selection: &Selection, quick: bool, what: &str) -> String {
        let said = match (&selection.quick, quick) {
            (Some(said), true) => said,
            _ => &selection.what,
        };
        let line = line_at(&self.lines, said.span().start);
        format!(
            "{}, line {line}, run `{}`: {what}",
            self.place,
            said.get_ref()
        )
    }
}

impl Selection {
    /// The words of it; none where a quick run leaves it out.
    pub fn words(&self, quick: bool) -> Vec<&str> {
        let said = match (&self.quick, quick) {
            (Some(said), true) => said,
            _ => &self.what,
        };
        said.get_ref().split_whitespace().collect()
    }
}

fn line_at(lines: &[usize], byte: usize) -> usize {
    lines.partition_point(|start| *start <= byte).max(1)
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
            (
                "[[table]]\ntitle='t'\nrows=[{name='r',mesured=5}]",
                ["line 6", "mesured"],
            ),
            (
                "[[table]]\ntitle='t'\nunits='ns'\nrows=[]",
                ["line 6", "units"],
            ),
            ("[[question]]\nask='?'", ["line 4", "kinds"]),
            ("notes = [", ["line 4", "notes"]),
        ] {
            let shown = shown(more);
            assert!(shown.starts_with("x.toml, "), "{shown}");
            assert!(
                says.iter().all(|part| shown.contains(part)),
                "{says:?}: {shown}"
            );
        }
        assert!(
            Study::read("x", "x.toml", "title = 't'")
                .unwrap_err()
                .contains("source")
        );
        assert!(Study::read("x", "x.toml", HEAD).is_ok());
    }
}
