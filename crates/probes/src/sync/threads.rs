//! How many threads, and on which processors.

use crate::literal::text;
use costof_model::List;
use costof_model::axis::{Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::unit::Unit;

/// The axis `threads`, with these values where a run is not told.
pub(crate) const fn axis(about: &'static str, usual: List<u64>) -> Axis {
    Axis {
        name: text("threads"),
        about: text(about),
        domain: Domain::Number {
            unit: Unit::One,
            low: 1,
            high: 4096,
            usual,
        },
    }
}

/// 4, 8, 16 and so on, up to `most`.
pub(crate) fn more(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(4), |threads| Some(2 * threads))
        .take_while(move |threads| *threads <= most)
}

/// How many processors this process can use.
pub(crate) fn processors(facts: &Facts) -> u64 {
    facts.usable_cpus().len() as u64
}

/// The processors on which so many threads run. Two or more need two of them,
/// or they would take turns by the scheduler's clock and share nothing at the
/// same time.
///
/// # Errors
/// Where there is only one for several.
pub(crate) fn placed(threads: usize, cpus: &[usize]) -> Result<&[usize], Failure> {
    if threads > 1 && cpus.len() < 2 {
        return Err(Failure::unsupported(format!(
            "{threads} threads that meet need two processors, and this run has {} (--cpu names \
             more, as --cpu 0,1)",
            cpus.len()
        )));
    }
    Ok(&cpus[..threads.min(cpus.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        assert_eq!(more(2).count(), 0);
        assert_eq!(more(4).collect::<Vec<_>>(), [4]);
        assert_eq!(more(31).collect::<Vec<_>>(), [4, 8, 16]);
    }

    #[test]
    fn several_threads_need_two_processors() {
        assert_eq!(placed(1, &[7]).unwrap(), [7]);
        assert_eq!(placed(2, &[7, 5, 6]).unwrap(), [7, 5]);
        assert_eq!(placed(8, &[7, 5]).unwrap(), [7, 5]);
        let failure = placed(2, &[7]).unwrap_err();
        assert!(failure.reason.contains("--cpu"), "{failure}");
    }
}
