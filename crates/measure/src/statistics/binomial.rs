//! The binomial distribution with even odds, from which order-statistic intervals get their coverage.

/// The probability that at most `successes` of `trials` fair coins come up heads.
///
/// Summed term by term from logarithms, so that thousands of trials do not underflow; the error is
/// below 1e-10 up to 10,000 trials.
pub(super) fn symmetric_binomial_cdf(successes: usize, trials: usize) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    let mut log_term = -(trials as f64) * std::f64::consts::LN_2;
    let mut sum = log_term.exp();
    for heads in 1..=successes {
        log_term += ((trials - heads + 1) as f64 / heads as f64).ln();
        sum += log_term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{Binomial, DiscreteCDF};

    use super::*;

    #[test]
    fn it_is_scipys() {
        // scipy.stats.binom.cdf(k, n, .5)
        let expected = [
            (0, 6, 0.015_625),
            (1, 9, 0.019_531_25),
            (2, 12, 0.019_287_109_375),
            (3, 15, 0.017_578_125),
            (40, 100, 0.028_443_966_820_490_444),
            (4900, 10_000, 0.023_292_763_852_473_225),
        ];
        for (successes, trials, expected) in expected {
            let found = symmetric_binomial_cdf(successes, trials);
            assert!((found - expected).abs() < 1e-10, "{trials} trials: {found}");
        }
    }

    #[test]
    fn it_is_statrs_for_all_small_numbers() {
        for trials in 1..60 {
            let theirs = Binomial::new(0.5, trials as u64).expect("0.5 is a probability");
            for successes in 0..trials {
                let difference =
                    symmetric_binomial_cdf(successes, trials) - theirs.cdf(successes as u64);
                assert!(difference.abs() < 1e-9, "{successes} of {trials}");
            }
        }
    }

    #[test]
    fn all_successes_are_certain() {
        assert_eq!(symmetric_binomial_cdf(0, 0), 1.0);
        assert_eq!(symmetric_binomial_cdf(7, 7), 1.0);
    }
}
