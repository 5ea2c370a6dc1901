//! Every finding of a run.

use crate::{Finding, noise, surprise};
use costof_model::Run;

/// All findings in the points of a run, the most surprising first.
pub fn findings(run: &Run) -> Vec<Finding> {
    let mut found = noise::findings(run);
    surprise::in_order(run, &mut found);
    found
}
