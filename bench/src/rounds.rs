//! Two sides measured in turns, and the ratio of what each round gave.

use crate::error::Result;
use crate::verdict::{Bounds, Verdict};
use costof_measure::statistics::quantile::median;
use costof_measure::statistics::ratio::ratio_interval;
use fastrand::Rng;

/// One round: what each side cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) costof_ns: f64,
    pub(crate) peer_ns: f64,
}

/// Measures both sides once a round, in an order drawn for each round, so that
/// what drifts meets both alike. Each side is told the round.
pub(crate) fn interleave(
    rounds: usize,
    random: &mut Rng,
    peer: &str,
    costof_ns: &mut dyn FnMut(usize) -> Result<f64>,
    peer_ns: &mut dyn FnMut(usize) -> Result<f64>,
) -> Result<Vec<Round>> {
    println!("round  first      costof ns  {peer:>9} ns   ratio");
    (0..rounds)
        .map(|number| {
            let costof_first = random.bool();
            let round = if costof_first {
                let costof_ns = costof_ns(number)?;
                let peer_ns = peer_ns(number)?;
                Round { costof_ns, peer_ns }
            } else {
                let peer_ns = peer_ns(number)?;
                let costof_ns = costof_ns(number)?;
                Round { costof_ns, peer_ns }
            };
            println!(
                "{:>5}  {:<9} {:>10.2}  {:>12.2}   {:.3}",
                number + 1,
                if costof_first { "costof" } else { peer },
                round.costof_ns,
                round.peer_ns,
                round.costof_ns / round.peer_ns
            );
            Ok(round)
        })
        .collect()
}

/// Prints what the rounds say together, and judges it.
pub(crate) fn judge(rounds: &[Round], peer: &str, bounds: Bounds) -> Verdict {
    let costof_ns: Vec<f64> = rounds.iter().map(|round| round.costof_ns).collect();
    let peer_ns: Vec<f64> = rounds.iter().map(|round| round.peer_ns).collect();
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    println!(
        "\nmedians over rounds: costof {:.2} ns, {peer} {:.2} ns",
        middle(&costof_ns),
        middle(&peer_ns)
    );
    println!(
        "costof over {peer}: {}; bound: {bounds}",
        ratio(&costof_ns, &peer_ns)
    );
    bounds.judge(ratio_interval(&costof_ns, &peer_ns))
}

/// The median of the paired ratios, with its interval, in words.
pub(crate) fn ratio(numerators: &[f64], denominators: &[f64]) -> String {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(numerator, denominator)| numerator / denominator)
        .collect();
    let middle = median(&ratios).unwrap_or(f64::NAN);
    match ratio_interval(numerators, denominators) {
        Some(interval) => format!(
            "{middle:.3} (95 % interval {:.3} to {:.3}, {} rounds)",
            interval.low,
            interval.high,
            ratios.len()
        ),
        None => format!("{middle:.3} ({} rounds, no interval)", ratios.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failed;
    use std::cell::RefCell;

    #[test]
    fn each_round_measures_both_and_either_may_be_first() {
        let order = RefCell::new(Vec::new());
        let mut costof = |round: usize| {
            order.borrow_mut().push((round, "costof"));
            Ok(100.0)
        };
        let mut peer = |round: usize| {
            order.borrow_mut().push((round, "peer"));
            Ok(50.0)
        };
        let rounds = interleave(32, &mut Rng::with_seed(1), "peer", &mut costof, &mut peer);
        let expected = Round {
            costof_ns: 100.0,
            peer_ns: 50.0,
        };
        assert_eq!(rounds.unwrap(), [expected; 32]);
        let order = order.into_inner();
        let firsts: Vec<&str> = order.iter().step_by(2).map(|(_, side)| *side).collect();
        assert!(firsts.contains(&"costof") && firsts.contains(&"peer"));
        for (round, pair) in order.chunks(2).enumerate() {
            assert!(pair.iter().all(|(of, _)| *of == round) && pair[0].1 != pair[1].1);
        }
    }

    #[test]
    fn a_side_that_fails_ends_the_comparison() {
        let mut fine = |_| Ok(1.0);
        let mut broken = |_| Err(failed("gone"));
        let error = interleave(3, &mut Rng::with_seed(1), "peer", &mut fine, &mut broken);
        assert_eq!(error.unwrap_err().to_string(), "gone");
    }

    #[test]
    fn rounds_are_paired_before_they_are_judged() {
        // The machine is three times slower in half of the rounds; the ratio is not.
        let slow = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 3.0];
        let rounds = slow.map(|factor| Round {
            costof_ns: 102.0 * factor,
            peer_ns: 100.0 * factor,
        });
        let bounds = Bounds {
            low: 0.0,
            high: 1.05,
        };
        assert_eq!(judge(&rounds, "peer", bounds), Verdict::Holds);
        assert!(ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).starts_with("0.500 (95 %"));
        assert!(ratio(&[1.0], &[2.0]).contains("no interval"));
    }
}
