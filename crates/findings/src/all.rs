//! Every finding of a run.

use crate::finding::{Finding, Question};
use crate::noise;
use crate::send_questions::send_questions;
use crate::surprise;
use costof_model::run_file::Run;

/// All findings in the points of a run, the most surprising first, except those that answer a question of
/// [`questions()`].
pub fn findings(run: &Run) -> Vec<Finding> {
    both(run).0
}

/// The questions of a study, if the run is one, each with the findings that answer it.
pub fn questions(run: &Run) -> Vec<Question> {
    both(run).1
}

/// The results of [`findings()`] and [`questions()`], computed once.
pub fn both(run: &Run) -> (Vec<Finding>, Vec<Question>) {
    let mut found = noise::findings(run);
    let questions = send_questions(run, &found);
    found.retain(|found| !questions.iter().any(|asked| asked.answers.contains(found)));
    surprise::in_order(run, &mut found);
    (found, questions)
}
