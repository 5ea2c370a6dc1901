//! Every finding of a run.

use crate::finding::{Finding, Question};
use crate::noise;
use crate::send_questions::send_questions;
use crate::surprise;
use costof_model::run_file::Run;

/// Everything that the points of a run say, most surprising first, but for what answers a question of
/// [`questions()`].
pub fn findings(run: &Run) -> Vec<Finding> {
    both(run).0
}

/// The questions of a study that the run is, each with what answers it.
pub fn questions(run: &Run) -> Vec<Question> {
    both(run).1
}

/// What [`findings()`] and [`questions()`] give, looked for once.
pub fn both(run: &Run) -> (Vec<Finding>, Vec<Question>) {
    let mut found = noise::found(run);
    let questions = send_questions(run, &found);
    found.retain(|found| !questions.iter().any(|asked| asked.answers.contains(found)));
    surprise::in_order(run, &mut found);
    (found, questions)
}
