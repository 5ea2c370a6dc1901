//! How the cost of a fork grows with the memory of the process that forks.

use crate::Kind;
use crate::figures::{bytes, figures, ns};
use crate::finding::Finding;
use crate::pairs::surely_more;
use costof_model::run_file::Run;

pub(crate) const SENTENCES: &str = r#"
[fork_growth]
sentence = "a fork copies its parent's page tables: with {memory} of touched memory it takes {large} instead of {small}, which is {low} to {high} for each page of {page}"
advice = "in a large process, start programs by posix_spawn or vfork, which copy nothing"
"#;

/// The cost of a page, from forks of the smallest and of the largest process.
pub(crate) fn fork_growth(run: &Run) -> Vec<Finding> {
    growth(run).into_iter().collect()
}

fn growth(run: &Run) -> Option<Finding> {
    let forks = run
        .select("os.process")
        .words(&[("how", "fork"), ("exec", "no")]);
    let forks = forks.by_number("resident");
    let ((least, small), (most, large)) = (*forks.first()?, *forks.last()?);
    let (small_cost, large_cost) = (small.primary()?, large.primary()?);
    let (low, high) = surely_more(large_cost.ci95?, small_cost.ci95?)?;
    let page = run
        .facts()
        .and_then(|facts| facts.memory.page_bytes)
        .unwrap_or(4096);
    let pages = ((most - least) / page) as f64;
    let figures = figures()
        .with("memory", bytes(most))
        .with("large", ns(large_cost.median))
        .with("small", ns(small_cost.median))
        .with("low", ns(low / pages))
        .with("high", ns(high / pages))
        .with("page", bytes(page));
    Some(Finding::new(Kind::ForkGrowth, [small, large], figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, run};
    use costof_model::rows::PointRow;

    fn fork(how: &'static str, resident: u64, us: f64) -> PointRow {
        let axes = axes!(how, exec = "no", resident);
        let ns = us * 1000.0;
        known_row("os.process", "latency", axes, ns, 0.02)
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
            findings[0].sentence(),
            "a fork copies its parent's page tables: with 64MiB of touched memory it takes 2.00 ms instead of 150 µs, which is 110 ns to 116 ns for each page of 4KiB"
        );
        assert_eq!(findings[0].evidence.len(), 2);
    }

    #[test]
    fn forks_that_cannot_be_distinguished_say_nothing() {
        let mut run = run(&[]);
        run.points.push(fork("fork", 0, 150.0));
        run.points.push(fork("fork", 64 << 20, 152.0));
        assert_eq!(fork_growth(&run), []);
    }
}
