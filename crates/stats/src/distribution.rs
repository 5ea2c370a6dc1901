//! A sample with many equal values, such as a histogram, summarized without writing out each value.

/// Values in ascending order, each with how often it occurs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    counted: Vec<(f64, u64)>,
}

impl Distribution {
    /// The distribution of pairs of a value and how often it occurs, in any order.
    pub fn new(counted: impl IntoIterator<Item = (f64, u64)>) -> Distribution {
        let mut counted: Vec<(f64, u64)> =
            counted.into_iter().filter(|(_, count)| *count > 0).collect();
        counted.sort_by(|a, b| a.0.total_cmp(&b.0));
        Distribution { counted }
    }

    /// Several distributions as one.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Distribution>) -> Distribution {
        Distribution::new(parts.into_iter().flat_map(|part| part.counted.iter().copied()))
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        let counts = self.counted.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The `p` quantile (0 to 1) by Hyndman and Fan's type 7, as
    /// [`crate::quantile()`]; `None` without values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let last = self.count().checked_sub(1)?;
        let position = p.clamp(0.0, 1.0) * last as f64;
        let below = position.floor();
        let low = self.value_at(below as u64)?;
        let high = self.value_at((below as u64 + 1).min(last))?;
        Some(low + (high - low) * (position - below))
    }

    /// The median; `None` without values.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The value at a position in ascending order, from 0.
    fn value_at(&self, position: u64) -> Option<f64> {
        let mut seen = 0;
        self.counted
            .iter()
            .find(|(_, count)| {
                seen = u64::saturating_add(seen, *count);
                seen > position
            })
            .map(|(value, _)| *value)
    }

    /// The arithmetic mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.counted.iter().map(|(value, n)| value * *n as f64).sum();
        let count = self.count();
        (count > 0).then(|| sum / count as f64)
    }

    /// The sample standard deviation; `None` for fewer than two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        let (mean, count) = (self.mean()?, self.count());
        let squares: f64 =
            self.counted.iter().map(|(value, n)| (value - mean).powi(2) * *n as f64).sum();
        (count > 1).then(|| (squares / (count - 1) as f64).sqrt())
    }

    /// The smallest value; `None` without values.
    pub fn minimum(&self) -> Option<f64> {
        self.counted.first().map(|(value, _)| *value)
    }

    /// At most this many values, in ascending order, that represent all of them: all values, or
    /// evenly spaced quantiles.
    pub fn representatives(&self, at_most: u64) -> Vec<f64> {
        let total = u128::from(self.count());
        let wanted = total.min(u128::from(at_most));
        let mut values: Vec<f64> = Vec::with_capacity(wanted as usize);
        let mut seen = 0_u128;
        for &(value, count) in &self.counted {
            seen += u128::from(count);
            // The i-th of `wanted` values is the quantile at the middle of its part: (i + ½) ÷
            // wanted.
            while (values.len() as u128) < wanted
                && (2 * values.len() as u128 + 1) * total <= 2 * seen * wanted
            {
                values.push(value);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile;

    #[test]
    fn it_says_what_the_values_written_out_say() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let counted: Vec<(f64, u64)> = (0..random.usize(1..20))
                .map(|_| (random.f64() * 100.0, random.u64(1..6)))
                .collect();
            let written: Vec<f64> = counted
                .iter()
                .flat_map(|(value, count)| std::iter::repeat_n(*value, *count as usize))
                .collect();
            let distribution = Distribution::new(counted);
            let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => assert!((a - b).abs() < 1e-9, "{a} {b}"),
                (a, b) => assert_eq!(a, b),
            };
            for p in [0.0, 0.1, 0.5, 0.99, 1.0] {
                close(distribution.quantile(p), quantile::quantile(&written, p));
            }
            close(distribution.mean(), quantile::mean(&written));
            close(distribution.standard_deviation(), quantile::standard_deviation(&written));
            close(distribution.minimum(), quantile::quantile(&written, 0.0));
            assert_eq!(distribution.count(), written.len() as u64);
            assert_eq!(distribution.representatives(u64::MAX).len(), written.len());
        }
    }

    #[test]
    fn a_few_values_stand_for_very_many() {
        let distribution = Distribution::new([(15.0, 3 << 40), (60.0, 1 << 40)]);
        let values = distribution.representatives(1000);
        assert_eq!(values.len(), 1000);
        assert_eq!(values.iter().filter(|value| **value == 60.0).count(), 250);
        assert_eq!(distribution.median(), Some(15.0));
        assert_eq!(Distribution::default().median(), None);
        assert!(Distribution::default().representatives(10).is_empty());
    }
}
