//! Whether a bound holds: yes, no, or not to be told from what was measured.

use crate::rounds::Given;
use costof_peers::agreement::{Band, Placed};
use costof_stats::{Interval, median, ratio_interval};
use std::fmt;
use std::process::ExitCode;

/// What is said of one bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Holds,
    DoesNotHold,
    /// With the reason, and what would tell.
    CannotBeTold(String),
}

/// The range in which a ratio holds, ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Bounds {
    /// Whether a number lies within, ends included.
    pub(crate) fn holds(self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// A cost that is no more than 5 % above that of the best peer.
    pub(crate) const COST: Bounds = Bounds {
        low: 0.0,
        high: 1.05,
    };
    /// A rate that is no more than 5 % below that of the best peer.
    pub(crate) const RATE: Bounds = Bounds {
        low: 0.95,
        high: f64::INFINITY,
    };

    /// The first side's over that of the best of the others: the lowest where a number is to be low.
    /// One that has none may be better than those that have.
    pub(crate) fn of_the_best(self, sides: &[(&str, &Given)]) -> Verdict {
        let Some((Ok(own), others)) = sides.split_first().map(|((_, own), others)| (*own, others))
        else {
            return Verdict::CannotBeTold("there is no number of ours".to_owned());
        };
        let given = others.iter().filter_map(|(_, given)| given.as_deref().ok());
        let by_middle = |one: &&[f64], other: &&[f64]| {
            let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN);
            middle(one).total_cmp(&middle(other))
        };
        let best = match self.high.is_finite() {
            true => given.min_by(by_middle),
            false => given.max_by(by_middle),
        };
        let missing = others.iter().filter(|(_, given)| given.is_err());
        let missing = missing
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ");
        let Some(best) = best else {
            return Verdict::CannotBeTold(format!("there is no number of {missing}"));
        };
        match self.judge(ratio_interval(own, best)) {
            Verdict::Holds if !missing.is_empty() => {
                Verdict::CannotBeTold(format!("{missing} may be better"))
            }
            verdict => verdict,
        }
    }

    /// By the whole interval: inside, outside, or over an end.
    pub(crate) fn judge(self, ratio: Option<Interval>) -> Verdict {
        let more = |why: &str| Verdict::CannotBeTold(format!("{why}: more rounds (--rounds N)"));
        match ratio {
            None => more("fewer than three rounds have no interval"),
            Some(interval) => match Band::new(self.low, self.high).place(interval) {
                Placed::Inside => Verdict::Holds,
                Placed::Outside => Verdict::DoesNotHold,
                Placed::Across => more("the interval reaches over an end of the bound"),
            },
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high.is_infinite() {
            write!(f, "at least {}", self.low)
        } else if self.low > 0.0 {
            write!(f, "{} to {}", self.low, self.high)
        } else {
            write!(f, "at most {}", self.high)
        }
    }
}

/// Whether something is true that only a quiet machine can show false.
pub(crate) fn on_a_quiet_machine(holds: bool, quiet: bool) -> Verdict {
    match Verdict::from(holds) {
        Verdict::DoesNotHold => Verdict::DoesNotHold.only_if_quiet(quiet),
        verdict => verdict,
    }
}

impl Verdict {
    /// This verdict, where a noisy machine could not have brought it about.
    pub(crate) fn only_if_quiet(self, quiet: bool) -> Verdict {
        if quiet {
            self
        } else {
            Verdict::CannotBeTold(
                "the machine was not quiet: stop what else runs, and measure again".to_owned(),
            )
        }
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Verdict {
        if holds {
            Verdict::Holds
        } else {
            Verdict::DoesNotHold
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Holds => write!(f, "holds"),
            Verdict::DoesNotHold => write!(f, "does not hold"),
            Verdict::CannotBeTold(why) => write!(f, "cannot be told yet: {why}"),
        }
    }
}

/// 0 where all hold, else 1.
pub(crate) fn exit_code(verdicts: &[Verdict]) -> ExitCode {
    let all_hold = verdicts.iter().all(|verdict| *verdict == Verdict::Holds);
    ExitCode::from(u8::from(!all_hold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_stats::median_interval;

    const AT_MOST: Bounds = Bounds::COST;
    const WITHIN: Bounds = Bounds {
        low: 0.9,
        high: 1.1,
    };

    fn judge(bounds: Bounds, ratios: &[f64]) -> String {
        bounds.judge(median_interval(ratios)).to_string()
    }

    #[test]
    fn an_interval_inside_the_bound_holds() {
        let ratios = [1.0, 1.01, 1.02, 1.0, 1.05, 0.99];
        assert_eq!(judge(AT_MOST, &ratios), "holds");
        assert_eq!(judge(WITHIN, &ratios), "holds");
        assert_eq!(judge(AT_MOST, &[0.5; 6]), "holds");
        assert_eq!(
            judge(Bounds::RATE, &[0.95, 1.0, 1.1, 1.2, 1.3, 9.0]),
            "holds"
        );
    }

    #[test]
    fn an_interval_outside_the_bound_does_not_hold() {
        assert_eq!(judge(AT_MOST, &[1.06; 6]), "does not hold");
        assert_eq!(judge(WITHIN, &[1.11; 6]), "does not hold");
        assert_eq!(judge(WITHIN, &[0.89; 6]), "does not hold");
        assert_eq!(judge(Bounds::RATE, &[0.94; 6]), "does not hold");
    }

    #[test]
    fn an_interval_over_an_end_asks_for_more_rounds() {
        for (bounds, ratios) in [
            (AT_MOST, [1.04, 1.04, 1.04, 1.04, 1.04, 1.06]),
            (WITHIN, [0.89, 1.0, 1.0, 1.0, 1.0, 1.0]),
            (WITHIN, [0.8, 1.0, 1.0, 1.0, 1.0, 1.2]),
        ] {
            assert!(judge(bounds, &ratios).contains("--rounds"));
        }
        assert!(judge(AT_MOST, &[1.0, 1.0]).contains("fewer than three"));
    }

    #[test]
    fn the_best_of_the_others_counts_and_one_without_a_number_may_be_better() {
        let numbers = |number: f64| -> Given { Ok(vec![number; 6]) };
        let (own, slow, fast) = (numbers(1.0), numbers(2.0), numbers(0.9));
        let missing: Given = Err("gone".to_owned());
        let cost = |sides: &[(&str, &Given)]| AT_MOST.of_the_best(sides);
        assert_eq!(cost(&[("own", &own), ("slow", &slow)]), Verdict::Holds);
        let both = [("own", &own), ("slow", &slow), ("fast", &fast)];
        assert_eq!(cost(&both), Verdict::DoesNotHold);
        // Of a rate the highest is the best.
        assert_eq!(Bounds::RATE.of_the_best(&both), Verdict::DoesNotHold);
        assert_eq!(
            Bounds::RATE.of_the_best(&[both[0], both[2]]),
            Verdict::Holds
        );
        for (sides, why) in [
            (
                vec![("own", &own), ("slow", &slow), ("gone", &missing)],
                "gone may",
            ),
            (vec![("own", &own), ("gone", &missing)], "of gone"),
            (vec![("own", &missing), ("slow", &slow)], "of ours"),
        ] {
            assert!(cost(&sides).to_string().contains(why), "{why}");
        }
    }

    #[test]
    fn a_noisy_machine_refutes_nothing() {
        assert_eq!(on_a_quiet_machine(true, false), Verdict::Holds);
        assert_eq!(on_a_quiet_machine(false, true), Verdict::DoesNotHold);
        assert!(matches!(
            on_a_quiet_machine(false, false),
            Verdict::CannotBeTold(_)
        ));
    }

    #[test]
    fn only_verdicts_that_all_hold_end_with_zero() {
        let code = |verdicts: &[Verdict]| format!("{:?}", exit_code(verdicts));
        let zero = format!("{:?}", ExitCode::SUCCESS);
        assert_eq!(code(&[Verdict::Holds, Verdict::Holds]), zero);
        assert_ne!(code(&[Verdict::Holds, Verdict::DoesNotHold]), zero);
        assert_ne!(code(&[Verdict::CannotBeTold(String::new())]), zero);
    }
}
