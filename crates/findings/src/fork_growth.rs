//! How the cost of a fork grows with the memory of the process that forks.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

/// What forks of processes of several sizes say about a page.
pub(crate) fn fork_growth(run: &Run) -> Vec<Finding> {
    between_least_and_most(run).into_iter().collect()
}

fn between_least_and_most(run: &Run) -> Option<Finding> {
    let mut forks: Vec<(u64, &PointRow)> = run
        .points
        .iter()
        .filter(|row| row.point.probe == "os.process")
        .filter(|row| {
            let word = |axis| row.axes().find_word(axis);
            word("how") == Some("fork") && word("exec") == Some("no")
        })
        .filter_map(|row| Some((row.axes().find_number("resident")?, row)))
        .collect();
    forks.sort_by_key(|(bytes, _)| *bytes);
    let ((least, small), (most, large)) = (forks.first()?, forks.last()?);
    let (small_low, small_high) = small.primary()?.ci95?;
    let (large_low, large_high) = large.primary()?.ci95?;
    if large_low <= small_high {
        return None;
    }
    let page_bytes = facts(run)
        .and_then(|facts| facts.memory.page_bytes)
        .unwrap_or(4096);
    let pages = (most - least) / page_bytes;
    let ns = |value: f64| Unit::Nanoseconds.display(value);
    Some(Finding {
        kind: "fork_growth".into(),
        sentence: format!(
            "a fork copies its parent's page tables: with {} of touched memory it takes {} instead \
             of {}, which is {} to {} for each page of {}",
            display_bytes(*most),
            ns(large.primary()?.median),
            ns(small.primary()?.median),
            ns((large_low - small_high) / pages as f64),
            ns((large_high - small_low) / pages as f64),
            display_bytes(page_bytes),
        ),
        advice: Some(
            "a large process starts programs cheaper by posix_spawn or vfork, which copy nothing"
                .to_owned(),
        ),
        evidence: vec![small.point.clone(), large.point.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;

    fn fork(how: &'static str, resident: u64, us: f64) -> PointRow {
        let axes = Axes::default()
            .with("how", how)
            .with("exec", "no")
            .with("resident", resident);
        let ns = us * 1000.0;
        point_row("os.process", "latency", axes, ns, (ns * 0.98, ns * 1.02))
    }

    #[test]
    fn the_pages_between_two_sizes_share_what_the_larger_fork_takes_more() {
        let mut run = run(&[]);
        run.points.push(fork("fork", 0, 150.0));
        run.points.push(fork("vfork", 1 << 30, 20.0));
        assert_eq!(fork_growth(&run), []);
        run.points.push(fork("fork", 64 << 20, 2000.0));
        let findings = fork_growth(&run);
        assert_eq!(
            findings[0].sentence,
            "a fork copies its parent's page tables: with 64MiB of touched memory it takes 2.00 ms \
             instead of 150 µs, which is 110 ns to 116 ns for each page of 4KiB"
        );
        assert_eq!(findings[0].evidence.len(), 2);
    }

    #[test]
    fn forks_that_cannot_be_told_apart_say_nothing() {
        let mut run = run(&[]);
        run.points.push(fork("fork", 0, 150.0));
        run.points.push(fork("fork", 64 << 20, 152.0));
        assert_eq!(fork_growth(&run), []);
    }
}
