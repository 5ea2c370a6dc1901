//! Every finding of a run.

use crate::cache_levels::cache_levels;
use crate::cache_pollution::cache_pollution;
use crate::cache_references::cache_references;
use crate::core_shared::core_shared;
use crate::dominant_part::dominant_part;
use crate::file_cache::file_cache;
use crate::file_device::file_device;
use crate::finding::{Finding, Question};
use crate::fork_growth::fork_growth;
use crate::ladder::ladder;
use crate::mapped_pages::mapped_pages;
use crate::missing_term::missing_term;
use crate::modes::modes;
use crate::page_sizes::page_sizes;
use crate::prediction_score::prediction_score;
use crate::reliable_datagrams::reliable_datagrams;
use crate::remote_file::remote_file;
use crate::round_trip::round_trip;
use crate::rpc_load::rpc_load;
use crate::saturated::saturated;
use crate::scaling::scaling;
use crate::second_thread::second_thread;
use crate::send_crossover::send_crossover;
use crate::send_questions::send_questions;
use crate::sequential::sequential;
use crate::surprise;
use crate::thread_scaling::thread_scaling;
use crate::under_way::under_way;
use crate::unexpected::unexpected;
use crate::virtualisation::virtualisation;
use crate::ways_cross::ways_cross;
use crate::zero_copy::zero_copy;
use crate::zero_copy_price::zero_copy_price;
use costof_model::run_file::Run;

/// What one function finds in a run; empty where the rows do not carry it.
type Find = fn(&Run) -> Vec<Finding>;

/// In the order in which those that are equally surprising are shown.
const FINDERS: &[Find] = &[
    cache_levels,
    cache_references,
    page_sizes,
    sequential,
    scaling,
    core_shared,
    virtualisation,
    dominant_part,
    fork_growth,
    second_thread,
    file_device,
    file_cache,
    remote_file,
    round_trip,
    reliable_datagrams,
    ladder,
    rpc_load,
    saturated,
    under_way,
    zero_copy,
    zero_copy_price,
    send_crossover,
    ways_cross,
    cache_pollution,
    thread_scaling,
    mapped_pages,
    unexpected,
    missing_term,
    modes,
    prediction_score,
];

/// Everything that the points of a run say, in words, most surprising first, but for what answers a
/// question of [`questions()`].
pub fn findings(run: &Run) -> Vec<Finding> {
    both(run).0
}

/// The questions of a study that the run is, each with what answers it.
pub fn questions(run: &Run) -> Vec<Question> {
    both(run).1
}

/// What [`findings()`] and [`questions()`] give, looked for once.
pub fn both(run: &Run) -> (Vec<Finding>, Vec<Question>) {
    let mut found = everything(run);
    let questions = send_questions(run, &found);
    let answers = |found: &Finding| {
        let mut answers = questions.iter().flat_map(|asked| &asked.answers);
        answers.any(|answer| answer == found)
    };
    found.retain(|found| !answers(found));
    surprise::in_order(run, &mut found);
    (found, questions)
}

fn everything(run: &Run) -> Vec<Finding> {
    FINDERS.iter().flat_map(|find| find(run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, REAL_HUGE_PAGES, REAL_SMALL_PAGES, add, run};

    #[test]
    fn a_run_without_points_has_no_findings() {
        assert_eq!(findings(&run(&CLAIMED)), []);
        assert_eq!(findings(&run(&[])), []);
    }

    #[test]
    fn every_finding_names_points_of_the_run() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        add(&mut run, "2MiB", &REAL_HUGE_PAGES, 0.02);
        let findings = findings(&run);
        let kinds: Vec<&str> = findings.iter().map(|finding| &*finding.kind).collect();
        assert_eq!(kinds, ["memory_levels", "memory_levels", "small_pages"]);
        for point in findings.iter().flat_map(|finding| &finding.evidence) {
            assert!(run.points.iter().any(|row| row.point == *point));
        }
    }
}
