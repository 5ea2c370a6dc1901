//! How often something came about, with the interval of that.

use crate::verdict::{self, Verdict};
use costof_peers::agreement::Band;
use std::fmt;

/// The normal value that is exceeded in 2.5 %.
const Z: f64 = 1.959_964;

/// So many of so many tries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    came: u32,
    tries: u32,
}

impl Share {
    pub(crate) fn new(came: u32, tries: u32) -> Share {
        Share { came, tries }
    }

    pub(crate) fn add(&mut self, came: bool) {
        self.tries += 1;
        self.came += u32::from(came);
    }

    /// These tries and those.
    pub(crate) fn and(self, other: Share) -> Share {
        Share { came: self.came + other.came, tries: self.tries + other.tries }
    }

    /// How often it came.
    pub(crate) fn came(self) -> usize {
        self.came as usize
    }

    /// How many tries there were.
    pub(crate) fn tries(self) -> usize {
        self.tries as usize
    }

    /// The share, from 0 to 1.
    pub(crate) fn share(self) -> f64 {
        f64::from(self.came) / f64::from(self.tries.max(1))
    }

    /// The 95 % interval of the share, from 0 to 1; all of that without a try. (E. B. Wilson, "Probable
    /// inference, the law of succession, and statistical inference", JASA 22, 1927.)
    pub(crate) fn interval(self) -> (f64, f64) {
        if self.tries == 0 {
            return (0.0, 1.0);
        }
        let tries = f64::from(self.tries);
        let share = self.share();
        let middle = share + Z * Z / (2.0 * tries);
        let half = Z * (share * (1.0 - share) / tries + Z * Z / (4.0 * tries * tries)).sqrt();
        let whole = 1.0 + Z * Z / tries;
        ((middle - half).max(0.0) / whole, ((middle + half) / whole).min(1.0))
    }

    /// Whether it comes as often as this.
    pub(crate) fn judge(self, band: Band) -> Verdict {
        let (low, high) = self.interval();
        verdict::by_place(Some(band.place(low, high)))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.interval();
        let percent = 100.0 * self.share();
        write!(
            f,
            "{} of {}, {percent:.1} % (95 % interval {:.1} to {:.1} %)",
            self.came,
            self.tries,
            100.0 * low,
            100.0 * high
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(came: u32, tries: u32) -> Share {
        Share::new(came, tries)
    }

    #[test]
    fn intervals_are_wilsons() {
        // By hand: (0.10135 + 0.01298 ± 0.05032) ÷ 1.02596.
        let (low, high) = share(15, 148).interval();
        assert!((low - 0.0624).abs() < 5e-4 && (high - 0.1605).abs() < 5e-4, "{low} {high}");
        assert_eq!(share(0, 0).interval(), (0.0, 1.0));
        assert!(share(0, 10).interval().0 < 1e-12 && share(10, 10).interval().1 > 1.0 - 1e-12);
    }

    #[test]
    fn bounds_hold_where_the_whole_interval_does() {
        let (rare, usual) = (crate::verdict::at_most(0.05), verdict::at_least(0.9));
        for (share, band, expected) in [
            (share(0, 75), rare, Some(true)),
            (share(0, 60), rare, None),
            (share(1, 75), rare, None),
            (share(20, 75), rare, Some(false)),
            (share(36, 36), usual, Some(true)),
            (share(34, 36), usual, None),
            (share(20, 36), usual, Some(false)),
        ] {
            let verdict = share.judge(band);
            match expected {
                Some(holds) => assert_eq!(verdict, Verdict::from(holds), "{share}"),
                None => assert!(matches!(verdict, Verdict::Undecided(_)), "{share}"),
            }
        }
    }
}
