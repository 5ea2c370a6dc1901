//! Whether a bound holds: yes, no, or inconclusive by what was measured.

use costof_model::span;
use costof_peers::agreement::{Agreement, Band, Placed};
use costof_stats::{Interval, median, median_interval};
use std::fmt;
use std::process::ExitCode;

/// Everything up to `high`.
pub(crate) const fn at_most(high: f64) -> Band {
    Band::new(0.0, high)
}

/// Everything from `low` on.
pub(crate) const fn at_least(low: f64) -> Band {
    Band::new(low, f64::INFINITY)
}

/// The ratio with its interval.
pub(crate) fn ratio_text(agreement: &Agreement) -> String {
    let (ratio, rounds) = (agreement.ratio, agreement.one.len());
    match agreement.interval {
        Some(Interval { low, high, .. }) => {
            let range = span(&format!("{low:.3}"), " to ", &format!("{high:.3}"));
            format!("{ratio:.3} (95 % interval {range}, {rounds} rounds)")
        }
        None => format!("{ratio:.3} ({rounds} rounds, no interval)"),
    }
}

/// A cost that is no more than 5 % above that of the best peer.
pub(crate) const COST: Band = at_most(1.05);
/// A rate that is no more than 5 % below that of the best peer.
pub(crate) const RATE: Band = at_least(0.95);

/// The judgement on one bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Holds,
    DoesNotHold,
    /// With the reason, and what would decide it.
    Undecided(String),
}

/// By the whole interval: inside, outside, or over an end.
pub(crate) fn judge(band: Band, interval: Option<Interval>) -> Verdict {
    by_place(interval.map(|interval| band.place(interval.low, interval.high)))
}

/// By where the interval lies relative to the bound; none of too few rounds.
pub(crate) fn by_place(placed: Option<Placed>) -> Verdict {
    let more = |why: &str| Verdict::Undecided(format!("{why}: more rounds (--rounds N)"));
    match placed {
        None => more("fewer than three rounds have no interval"),
        Some(Placed::Inside) => Verdict::Holds,
        Some(Placed::Outside) => Verdict::DoesNotHold,
        Some(Placed::Across) => more("the interval reaches over an end of the bound"),
    }
}

/// What is bounded, its bound, and what each round gave.
pub(crate) struct Bounded {
    what: String,
    band: Band,
    rounds: Vec<f64>,
}

impl Bounded {
    pub(crate) fn new(what: String, band: Band, rounds: Vec<f64>) -> Bounded {
        Bounded { what, band, rounds }
    }

    /// Prints the median over rounds, and judges its interval. On a noisy machine it refutes nothing.
    pub(crate) fn report(self, quiet: bool) -> Verdict {
        let shown = shown_median(&self.rounds);
        judge(self.band, median_interval(&self.rounds))
            .refuted_only_if_quiet(quiet)
            .report(&format!("{}: {shown}", self.what))
    }
}

/// The median over rounds, with its 95 % interval where there is one.
pub(crate) fn shown_median(rounds: &[f64]) -> String {
    let middle = median(rounds).unwrap_or(f64::NAN);
    match median_interval(rounds) {
        Some(Interval { low, high, .. }) => format!("{middle:.3} ({low:.3} to {high:.3})"),
        None => format!("{middle:.3}"),
    }
}

/// Our number over that of the best of the peers, and which that is: the lowest where a number is to be
/// low, else the highest. A peer without a number may be better than those that have one.
pub(crate) fn against_best(
    band: Band,
    peers: &[(&str, Result<Agreement, String>)],
) -> (Verdict, Option<usize>) {
    let sign = if band.high.is_finite() { 1.0 } else { -1.0 };
    let number = |agreement: &Agreement| sign * agreement.medians().1;
    let given = peers.iter().enumerate();
    let given = given.filter_map(|(at, (_, given))| Some((at, given.as_ref().ok()?)));
    let best = given.min_by(|(_, one), (_, other)| number(one).total_cmp(&number(other)));
    let missing = peers.iter().filter_map(|(name, given)| Some((name, given.as_ref().err()?)));
    let Some((best, agreement)) = best else {
        let missing: Vec<String> = missing.map(|(name, why)| format!("{name} ({why})")).collect();
        let why = format!("there is no number of {}", missing.join(", "));
        return (Verdict::Undecided(why), None);
    };
    let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
    let verdict = match judge(band, agreement.interval) {
        Verdict::Holds if !missing.is_empty() => {
            Verdict::Undecided(format!("{} may be better", missing.join(", ")))
        }
        verdict => verdict,
    };
    (verdict, Some(best))
}

impl Verdict {
    /// This verdict, where a noisy machine could not have caused it.
    pub(crate) fn only_if_quiet(self, quiet: bool) -> Verdict {
        if quiet {
            return self;
        }
        let why = "the machine was not quiet: stop other programs, and measure again";
        Verdict::Undecided(why.to_owned())
    }

    /// This verdict, where only a quiet machine can refute what holds.
    pub(crate) fn refuted_only_if_quiet(self, quiet: bool) -> Verdict {
        match self {
            Verdict::DoesNotHold => self.only_if_quiet(quiet),
            verdict => verdict,
        }
    }

    /// Prints it at the end of a line.
    pub(crate) fn end_line(self, line: &str) -> Verdict {
        println!("{line}; verdict: {self}");
        self
    }

    /// Prints it, with what it is on.
    pub(crate) fn report(self, what: &str) -> Verdict {
        println!("verdict on {what}: {self}\n");
        self
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::DoesNotHold }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Holds => write!(f, "holds"),
            Verdict::DoesNotHold => write!(f, "does not hold"),
            Verdict::Undecided(why) => write!(f, "inconclusive: {why}"),
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

    const WITHIN: Band = Band::new(0.9, 1.1);

    #[test]
    fn a_ratio_is_shown_with_its_interval_if_it_has_one() {
        let shown =
            |rounds| ratio_text(&Agreement::new(vec![2.0; rounds], vec![1.0; rounds]).unwrap());
        assert_eq!(shown(1), "2.000 (1 rounds, no interval)");
        assert!(shown(6).starts_with("2.000 (95 %"), "{}", shown(6));
    }

    #[test]
    fn the_whole_interval_is_judged() {
        for (band, ratios, expected) in [
            (COST, &[1.0, 1.01, 1.02, 1.0, 1.05, 0.99][..], "holds"),
            (WITHIN, &[1.0, 1.01, 1.02, 1.0, 1.05, 0.99], "holds"),
            (COST, &[0.5; 6], "holds"),
            (RATE, &[0.95, 1.0, 1.1, 1.2, 1.3, 9.0], "holds"),
            (COST, &[1.06; 6], "does not hold"),
            (WITHIN, &[1.11; 6], "does not hold"),
            (WITHIN, &[0.89; 6], "does not hold"),
            (RATE, &[0.94; 6], "does not hold"),
            (COST, &[1.04, 1.04, 1.04, 1.04, 1.04, 1.06], "--rounds"),
            (WITHIN, &[0.89, 1.0, 1.0, 1.0, 1.0, 1.0], "--rounds"),
            (WITHIN, &[0.8, 1.0, 1.0, 1.0, 1.0, 1.2], "--rounds"),
            (COST, &[1.0, 1.0], "fewer than three"),
        ] {
            let verdict = judge(band, median_interval(ratios)).to_string();
            assert!(verdict.contains(expected), "{ratios:?}: {verdict}");
        }
    }

    #[test]
    fn the_best_peer_counts_and_one_without_a_number_may_be_better() {
        let numbers = |number: f64| Agreement::new(vec![1.0; 6], vec![number; 6]).unwrap();
        let slow = || ("slow", Ok(numbers(2.0)));
        let fast = || ("fast", Ok(numbers(0.9)));
        let gone = || ("gone", Err("why".to_owned()));
        for (band, peers, expected) in [
            (COST, &[slow()][..], "holds"),
            (COST, &[slow(), fast()], "does not hold"),
            // The best rate is the highest.
            (RATE, &[slow(), fast()], "does not hold"),
            (RATE, &[fast()], "holds"),
            (COST, &[slow(), gone()], "gone may"),
            (COST, &[gone()], "of gone (why)"),
        ] {
            let (verdict, _) = against_best(band, peers);
            assert!(verdict.to_string().contains(expected), "{verdict}");
        }
    }

    #[test]
    fn a_noisy_machine_refutes_nothing() {
        assert_eq!(Verdict::Holds.refuted_only_if_quiet(false), Verdict::Holds);
        let refuted = Verdict::DoesNotHold;
        assert_eq!(refuted.clone().refuted_only_if_quiet(true), refuted);
        assert!(matches!(refuted.refuted_only_if_quiet(false), Verdict::Undecided(_)));
    }

    #[test]
    fn only_verdicts_that_all_hold_end_with_zero() {
        let code = |verdicts: &[Verdict]| format!("{:?}", exit_code(verdicts));
        let zero = format!("{:?}", ExitCode::SUCCESS);
        assert_eq!(code(&[Verdict::Holds, Verdict::Holds]), zero);
        assert_ne!(code(&[Verdict::Holds, Verdict::DoesNotHold]), zero);
        assert_ne!(code(&[Verdict::Undecided(String::new())]), zero);
    }
}
