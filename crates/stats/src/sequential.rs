//! Whether a member of a population belongs, or is off by a change that matters, decided measurement by
//! measurement: a sequential probability ratio test.
//!
//! A member's value differs from the centre as members do, however often it is measured, and by the error of its
//! measurements, which shrinks. With deviation x, change d and variance v of both together, the logarithm of the
//! likelihood ratio is d (x - d/2) / v. The member fails where that reaches ln(1/a), and passes where it falls to
//! ln(b). Whenever one looks, a member that belongs has failed with at most the probability a, and one that is off
//! by the change has passed with at most b.
//!
//! Sources: A. Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16 (1945);
//! J. Ville, "Étude critique de la notion de collectif" (1939), for the inequality that allows to look at any time.

use crate::outliers::{Reading, t};
use statrs::distribution::{ContinuousCDF, Normal};

/// The error of a median over that of a mean, of many values of a normal distribution.
pub const MEDIAN_ERROR: f64 = 1.253;

/// What is known of the members that belong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belong {
    /// How far they scatter beyond their errors: a standard deviation.
    pub spread: f64,
    /// The degrees of freedom of how far they scatter.
    pub degrees: f64,
    /// How many are known, two or more.
    pub members: usize,
    /// The error that each has, however often it is measured.
    pub error: f64,
    /// How far the measurements of one scatter.
    pub measurement: f64,
}

/// The test of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequentialTest {
    belong: Belong,
    /// How far members scatter however often they are measured, wide enough for the tails of that, and for what is
    /// not known of the centre.
    scatter: f64,
    change: f64,
    fails: f64,
    passes: f64,
}

/// What a test shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It is not off by the change.
    Passes,
    /// It does not belong.
    Fails,
    /// Neither.
    Open,
}

impl SequentialTest {
    /// A test for this change, with the probabilities that a member which belongs fails, and that one which is off
    /// by the change passes.
    pub fn new(belong: Belong, change: f64, fails: f64, passes: f64) -> SequentialTest {
        let members = belong.members as f64;
        // As many members lie beyond t's limit as beyond the normal one's of a wider distribution.
        let degrees = belong.degrees.min(members - 1.0).max(1.0);
        let rare = 1.0 - fails;
        let tails = t(degrees).inverse_cdf(rare) / Normal::standard().inverse_cdf(rare);
        let centre = (1.0 + MEDIAN_ERROR.powi(2) / members).sqrt();
        SequentialTest {
            scatter: belong.spread.hypot(belong.error) * tails * centre,
            belong,
            change,
            fails: -fails.ln(),
            passes: passes.ln(),
        }
    }

    /// The smallest change that could be shown: measured without end, half of those that belong would pass, and
    /// half of those that are off by it would fail.
    pub fn smallest(&self) -> f64 {
        (2.0 * self.fails.max(-self.passes)).sqrt() * self.scatter
    }

    /// What a member shows that is off by this much after so many measurements.
    pub fn shown(&self, off: Reading, measurements: u32) -> Shown {
        let error = off.error.max(self.error(measurements));
        let more = (error.powi(2) - self.belong.error.powi(2)).max(0.0);
        let variance = self.scatter.powi(2) + more;
        let off = self.change * (off.value - self.change / 2.0);
        if off >= self.fails * variance {
            Shown::Fails
        } else if off <= self.passes * variance {
            Shown::Passes
        } else {
            Shown::Open
        }
    }

    /// The usual error after so many measurements.
    fn error(&self, measurements: u32) -> f64 {
        let measurements = f64::from(measurements.max(1));
        MEDIAN_ERROR * self.belong.measurement / measurements.sqrt()
    }

    /// The first of these numbers of measurements that shows something, if the deviation stays.
    pub fn shown_after(&self, off: f64, measurements: impl Iterator<Item = u32>) -> Option<u32> {
        let stays = Reading { value: off, error: 0.0 };
        let mut measurements = measurements;
        measurements.find(|count| self.shown(stays, *count) != Shown::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELONG: Belong =
        Belong { spread: 0.01, degrees: 4.0, members: 20, error: 0.002, measurement: 0.02 };

    /// How often members that are off by this much fail and pass, of 4,000 measured up to 30 times.
    fn shares(off: f64, degrees: f64) -> [f64; 2] {
        let mut random = fastrand::Rng::with_seed(5);
        let test = SequentialTest::new(BELONG, 0.05, 0.01, 0.1);
        let mut counts = [0, 0];
        let mut sample = |degrees| t(degrees).inverse_cdf(random.f64().clamp(1e-9, 1.0 - 1e-9));
        for _ in 0..4000 {
            let own = off + BELONG.spread * sample(degrees);
            let mut sum = 0.0;
            let shown = (1..=30).map(|count| {
                sum += own + BELONG.measurement * sample(1e3);
                let value = sum / f64::from(count);
                test.shown(Reading { value, error: 0.0 }, count)
            });
            match shown.into_iter().find(|shown| *shown != Shown::Open) {
                Some(Shown::Fails) => counts[0] += 1,
                Some(_) => counts[1] += 1,
                None => {}
            }
        }
        counts.map(|count| f64::from(count) / 4000.0)
    }

    #[test]
    fn each_error_is_at_most_as_frequent_as_stated() {
        for degrees in [4.0, 1e3] {
            let [failed, passed] = shares(0.0, degrees);
            assert!(failed <= 0.01 && passed > 0.8, "{failed} {passed}");
            let [failed, passed] = shares(0.05, degrees);
            assert!(passed <= 0.1 && failed > 0.4, "{failed} {passed}");
            assert!(shares(-0.05, degrees)[1] > 0.99);
        }
    }

    #[test]
    fn what_members_hide_is_known_before_measuring() {
        let test = |spread, members| {
            let belong = Belong { spread, degrees: 1e3, members, ..BELONG };
            SequentialTest::new(belong, 0.05, 0.001, 0.1)
        };
        assert!(test(0.001, 40).smallest() < 0.02);
        assert!(test(0.02, 40).smallest() > 0.05);
        // Of few members, little is known.
        assert!(test(0.005, 5).smallest() > 1.5 * test(0.005, 40).smallest());
        let needed = |off| test(0.005, 40).shown_after(off, 3..=30);
        assert_eq!(needed(0.0), Some(3));
        assert_eq!(needed(0.025), None);
        assert!(needed(0.05) > Some(3));
    }
}
