//! Quantiles, mean and scatter of a sample.

/// The middle value, or the mean of the two middle ones; in the unit of `values`.
///
/// `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut values = values.to_vec();
    let (is_even, middle) = (values.len().is_multiple_of(2), values.len() / 2);
    let (below, high, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let low = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    Some(low.map_or(*high, |low| low + (*high - low) * 0.5))
}

/// The `p` quantile (0 to 1; outside, the nearer end), interpolated linearly between neighbours;
/// in the unit of `values`.
///
/// `None` without values. Source: Hyndman and Fan, "Sample Quantiles in Statistical Packages"
/// (1996), type 7, the default of R and NumPy.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, p)
}

/// As [`quantile`], of values that are in ascending order already.
pub(crate) fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below], sorted[above]);
    Some(low + (high - low) * (position - below as f64))
}

/// The arithmetic mean, in the unit of `values`; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divided by n − 1), in the unit of `values`.
///
/// `None` for fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use statrs::statistics::Statistics;

    use super::*;

    const VALUES: [f64; 7] = [61.2, 14.1, 15.3, 58.7, 13.9, 16.4, 60.0];

    fn assert_near(found: Option<f64>, expected: f64) {
        let found = found.expect("there are values");
        assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy.quantile([61.2, 14.1, 15.3, 58.7, 13.9, 16.4, 60.0], [.05, .25, .5, .9, .99])
        let expected = [13.96, 14.7, 16.4, 60.480_000_000_000_004, 61.128];
        for (p, expected) in [0.05, 0.25, 0.5, 0.9, 0.99].into_iter().zip(expected) {
            assert_near(quantile(&VALUES, p), expected);
        }
    }

    #[test]
    fn the_ends_and_what_lies_beyond_them_are_the_extremes() {
        assert_eq!(quantile(&VALUES, 0.0), Some(13.9));
        assert_eq!(quantile(&VALUES, -1.0), Some(13.9));
        assert_eq!(quantile(&VALUES, 1.0), Some(61.2));
        assert_eq!(quantile(&VALUES, 2.0), Some(61.2));
    }

    #[test]
    fn an_even_number_of_values_has_its_median_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn mean_and_deviation_are_those_of_numpy_and_statrs() {
        // numpy.mean(VALUES), numpy.std(VALUES, ddof=1)
        assert_near(mean(&VALUES), 34.228_571_428_571_435);
        assert_near(standard_deviation(&VALUES), 24.100_602_640_163_33);
        assert_near(mean(&VALUES), VALUES.mean());
        assert_near(standard_deviation(&VALUES), VALUES.std_dev());
    }

    #[test]
    fn too_few_values_have_no_answer() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(standard_deviation(&[1.0]), None);
    }
}
