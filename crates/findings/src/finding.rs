//! A finding: a sentence derived from points, with the points that are its evidence.

use costof_model::Text;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

/// What points mean, in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind of finding, as a short identifier.
    pub kind: Text,
    /// What was found.
    pub sentence: String,
    /// What the reader can do about it, where there is something to do.
    pub advice: Option<String>,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

/// A question that a study asks, with the findings that answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// As a person asks it, with its number.
    pub question: &'static str,
    /// What answers it, from the run.
    pub answers: Vec<Finding>,
    /// What the run lacks for an answer; none where it has one.
    pub lacks: Option<&'static str>,
}

/// The first point of a probe that has these words on its axes.
pub(crate) fn row<'a>(run: &'a Run, probe: &str, words: &[(&str, &str)]) -> Option<&'a PointRow> {
    run.points.iter().find(|row| is(row, probe, words))
}

/// Whether a point is one of a probe and has these words on its axes.
pub(crate) fn is(row: &PointRow, probe: &str, words: &[(&str, &str)]) -> bool {
    let has = |(axis, word): &(&str, &str)| row.axes().find_word(axis) == Some(word);
    row.point.probe == probe && words.iter().all(has)
}

/// Warnings of what takes a processor from a thread that would run.
const OTHERS: [&str; 4] = ["others", "run_queue_wait", "steal", "throttled"];

/// The grade that a point has because its threads could not always run.
pub(crate) fn grade_by_others(row: &PointRow) -> Grade {
    let warnings = row.warnings.iter();
    let by_others = warnings.filter(|warning| OTHERS.contains(&&*warning.kind));
    by_others
        .map(|warning| warning.grade)
        .max()
        .unwrap_or(Grade::A)
}
