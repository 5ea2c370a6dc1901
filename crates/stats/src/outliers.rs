//! Which members of a population are odd, so that at most a stated share of those that are called odd are not.
//!
//! A member is a value with a standard error of its own, such as a host's logarithm of a cost. Members that
//! belong scatter around a centre by more than their errors, and a few may not belong. So the centre is the
//! median, and the spread is the one at which half of the standardized deviations lie where Student's t has
//! half of its own: neither is moved by the odd ones if they are few. A population's tails may be heavier than
//! the normal distribution's. So t has as many degrees of freedom as fit the deviations that 19 members in 20
//! stay within; of fewer than 30 members, all but one or two, so that one odd member of a few can be seen.
//!
//! Sources: Y. Benjamini and Y. Hochberg, "Controlling the False Discovery Rate", JRSS B 57 (1995);
//! R. J. Simes, "An improved Bonferroni procedure", Biometrika 73 (1986), for the hypothesis that none of
//! several rows is odd; both hold for independent and for positively dependent tests (Y. Benjamini and
//! D. Yekutieli, "The control of the false discovery rate in multiple testing under dependency", Annals of
//! Statistics 29, 2001).

use crate::quantile::{median, quantile};
use crate::sequential::MEDIAN_ERROR;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A member's value, on a scale on which differences matter, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: f64,
    /// Its standard error, zero or more.
    pub error: f64,
}

/// A population without its odd members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// The median.
    pub centre: f64,
    /// How far members that belong scatter beyond their errors: a standard deviation, if t were normal.
    pub spread: f64,
    /// The degrees of freedom of their deviations.
    pub degrees: f64,
    /// The usual error. A member's own counts where it is larger: one that is smaller may be luck, since it
    /// comes from few measurements.
    pub error: f64,
}

/// Fewer members have no spread to be odd in.
pub const MIN_MEMBERS: usize = 5;

/// The degrees of freedom from which the tails are chosen, the heaviest last.
const DEGREES: [f64; 5] = [10.0, 6.0, 4.0, 3.0, 2.0];
/// Those of sums of many bounded values, which have the tails of a normal distribution if they are independent. Fewer
/// members than degrees do not show tails so light.
const DEGREES_OF_SUMS: [f64; 2] = [100.0, 30.0];
/// This share of the deviations is taken to be of members that belong.
const BELONG: f64 = 0.95;
/// But so many may be odd, where that is more.
const MAY_BE_ODD: f64 = 1.5;
/// At most so many degrees of freedom have the tails that one which is not a member is judged by.
const OTHERS_DEGREES: f64 = 3.0;

impl Population {
    /// The population of these members; `None` of fewer than [`MIN_MEMBERS`].
    pub fn of(members: &[Reading]) -> Option<Population> {
        Self::with_tails(members, DEGREES.into_iter())
    }

    /// The population of these members, each the sum of many bounded values; `None` of fewer than [`MIN_MEMBERS`].
    pub fn of_sums(members: &[Reading]) -> Option<Population> {
        let light = DEGREES_OF_SUMS.into_iter().filter(|degrees| *degrees <= members.len() as f64);
        Self::with_tails(members, light.chain(DEGREES))
    }

    fn with_tails(members: &[Reading], degrees: impl Iterator<Item = f64>) -> Option<Population> {
        if members.len() < MIN_MEMBERS {
            return None;
        }
        let values: Vec<f64> = members.iter().map(|member| member.value).collect();
        let centre = median(&values)?;
        let error = usual_error(members)?;
        let belong = BELONG.min(1.0 - MAY_BE_ODD / members.len() as f64);
        let fits = degrees.map(|degrees| {
            let population = Population {
                centre,
                spread: spread(members, centre, error, degrees),
                degrees,
                error,
            };
            let wide = t(degrees).inverse_cdf(f64::midpoint(1.0, belong));
            let is_inside = quantile(&population.deviations(members), belong) <= Some(wide);
            (population, is_inside)
        });
        let fits: Vec<_> = fits.collect();
        let fit = fits.iter().find(|(_, is_inside)| *is_inside).or(fits.last());
        fit.map(|(population, _)| *population)
    }

    /// The deviations of members, without sign, in standard deviations of their own.
    fn deviations(&self, members: &[Reading]) -> Vec<f64> {
        let members = members.iter();
        members.map(|member| self.deviation(*member).abs()).collect()
    }

    fn deviation(&self, member: Reading) -> f64 {
        let off = member.value - self.centre;
        if off == 0.0 { 0.0 } else { off / self.scale(member.error) }
    }

    /// The standard deviation of members with this error.
    fn scale(&self, error: f64) -> f64 {
        self.spread.hypot(error.max(self.error))
    }

    /// The probability that a member which belongs lies as far off, on either side.
    pub fn p(&self, member: Reading) -> f64 {
        2.0 * t(self.degrees).sf(self.deviation(member).abs())
    }

    /// The probability that one which is not among the members, of which there are so many, lies as far off if it
    /// belongs. What a few members do not show is taken to be bad: their tails are those of t with three degrees of
    /// freedom or heavier, and their centre and spread have errors.
    pub fn p_of_another(&self, other: Reading, members: usize) -> f64 {
        let members = members as f64;
        let degrees = self.degrees.min(OTHERS_DEGREES).min((members - 1.0) / 2.0).max(1.0);
        let off = self.deviation(other) / (1.0 + MEDIAN_ERROR.powi(2) / members).sqrt();
        2.0 * t(degrees).sf(off.abs())
    }

    /// The share of members that lie below this value.
    pub fn below(&self, value: f64) -> f64 {
        t(self.degrees).cdf(self.deviation(Reading { value, error: 0.0 }))
    }

    /// How far off a member with this error must be so that it is found at this probability `p`, more often
    /// than not.
    pub fn detectable(&self, error: f64, p: f64) -> f64 {
        t(self.degrees).inverse_cdf(1.0 - p / 2.0) * self.scale(error)
    }
}

/// The median of these values, and the standard deviation of a normal distribution that has as much as the values have
/// of half of its deviations, or of nine in ten if these lie farther off; `None` without values. Each group of values
/// counts alike, however many it has.
pub fn scatter(groups: &[Vec<f64>]) -> Option<(f64, f64)> {
    let weighted = groups.iter().flat_map(|group| {
        let weight = (group.len() as f64).recip();
        group.iter().map(move |value| (*value, weight))
    });
    let mut weighted: Vec<(f64, f64)> = weighted.collect();
    let centre = weighted_quantile(&mut weighted, 0.5)?;
    weighted.iter_mut().for_each(|(value, _)| *value = (*value - centre).abs());
    let mut within =
        |share: f64| Some(weighted_quantile(&mut weighted, share)? / normal_within(share));
    Some((centre, within(0.5)?.max(within(0.9)?)))
}

/// The `p` quantile of values with weights, interpolated linearly, which is [`quantile`] if the weights are equal: each
/// value lies where the weight below it ends, and the more of its own weight is below, the more values are.
fn weighted_quantile(weighted: &mut [(f64, f64)], p: f64) -> Option<f64> {
    weighted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let last = weighted.len().checked_sub(1)? as f64;
    let wanted = p * last * weighted.iter().map(|(_, weight)| weight).sum::<f64>();
    let (mut below, mut before) = (0.0, None);
    for (rank, (value, weight)) in weighted.iter().enumerate() {
        let at = rank as f64 * weight + last * below;
        if at >= wanted {
            let (before, low) = before.unwrap_or((at, *value));
            let far = if at > before { (wanted - before) / (at - before) } else { 1.0 };
            return Some(low + (value - low) * far);
        }
        (below, before) = (below + weight, Some((at, *value)));
    }
    before.map(|(_, value)| value)
}

/// So many standard deviations from the centre lies this share of a normal distribution.
fn normal_within(share: f64) -> f64 {
    statrs::distribution::Normal::standard().inverse_cdf(f64::midpoint(1.0, share))
}

/// The spread at which half of the deviations are less than half of those of t. It is the median of the spreads
/// at which each of them is just that.
fn spread(members: &[Reading], centre: f64, error: f64, degrees: f64) -> f64 {
    let half = t(degrees).inverse_cdf(0.75);
    let square = |member: &Reading| {
        ((member.value - centre) / half).powi(2) - member.error.max(error).powi(2)
    };
    let squares: Vec<f64> = members.iter().map(square).collect();
    median(&squares).unwrap_or(0.0).max(0.0).sqrt()
}

/// Two populations lie apart by more than this many errors of a member.
const APART_ERRORS: f64 = 4.0;
/// The probability that one population with a single peak seems to be two.
const PARTED_BY_CHANCE: f64 = 0.001;

/// A value between two populations: in a gap that is wider than either of them, with at least a quarter of the
/// members, and no fewer than [`MIN_MEMBERS`], on each side. `None` if the members may be of one.
///
/// Where one population has a single peak, its values between the quartiles lie about as dense everywhere. So
/// the share of their range that the widest gap takes is that of uniform spacings (R. Pyke, "Spacings", JRSS B
/// 27, 1965).
pub fn parting(members: &[Reading]) -> Option<f64> {
    let mut values: Vec<f64> = members.iter().map(|member| member.value).collect();
    values.sort_by(f64::total_cmp);
    let least = values.len().div_ceil(4).max(MIN_MEMBERS);
    let gap = |at: usize| values[at] - values[at - 1];
    let places = least..=values.len().checked_sub(least)?;
    let at = places.max_by(|one, other| gap(*one).total_cmp(&gap(*other)))?;
    let (below, above) = values.split_at(at);
    let width = |part: &[f64]| Some(quantile(part, 0.9)? - quantile(part, 0.1)?);
    let error = usual_error(members)?;
    let widest = width(below)?.max(width(above)?).max(APART_ERRORS * error);
    let spacings = (values.len() / 2) as f64;
    let share = gap(at) / (quantile(&values, 0.75)? - quantile(&values, 0.25)?);
    let by_chance = spacings * (1.0 - share).max(0.0).powf(spacings - 1.0);
    let is_two = gap(at) > widest && by_chance < PARTED_BY_CHANCE;
    is_two.then(|| f64::midpoint(values[at - 1], values[at]))
}

fn usual_error(members: &[Reading]) -> Option<f64> {
    let errors: Vec<f64> = members.iter().map(|member| member.error).collect();
    median(&errors)
}

pub(crate) fn t(degrees: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive")
}

/// The probability of these tests together if none of their hypotheses is false (Simes); 1 without a test.
pub fn simes(tests: &[f64]) -> f64 {
    let mut tests = tests.to_vec();
    tests.sort_by(f64::total_cmp);
    let all = tests.len() as f64;
    let ranked = (1..).zip(&tests);
    ranked.map(|(rank, p)| all * p / f64::from(rank)).fold(1.0, f64::min)
}

/// The probability up to which a test is a discovery, so that of all discoveries at most this share is false in
/// expectation (Benjamini and Hochberg); `None` if there is no discovery.
pub fn threshold(tests: &[f64], rate: f64) -> Option<f64> {
    let mut tests = tests.to_vec();
    tests.sort_by(f64::total_cmp);
    let all = tests.len() as f64;
    let ranked = (1..).zip(tests);
    let found = ranked.filter(|(rank, p)| *p <= rate * f64::from(*rank) / all);
    found.map(|(_, p)| p).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that scatter by one as t with these degrees does, each with an error of its own.
    fn members(random: &mut fastrand::Rng, degrees: f64, count: usize) -> Vec<Reading> {
        let t = t(degrees);
        let member = |_| {
            let error = random.f64();
            let own = t.inverse_cdf(random.f64().clamp(1e-9, 1.0 - 1e-9));
            let normal = self::t(1e3).inverse_cdf(random.f64().clamp(1e-9, 1.0 - 1e-9));
            Reading { value: own + error * normal, error }
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn at_most_a_twentieth_of_those_called_odd_belong() {
        let mut random = fastrand::Rng::with_seed(7);
        for degrees in [1e3, 5.0, 3.0] {
            let (mut false_share, mut found, rounds) = (0.0, 0, 200);
            for _ in 0..rounds {
                let mut members = members(&mut random, degrees, 200);
                members[..10].iter_mut().for_each(|odd| odd.value += 30.0);
                let population = Population::of(&members).unwrap();
                let tests: Vec<f64> = members.iter().map(|member| population.p(*member)).collect();
                let limit = threshold(&tests, 0.05).unwrap_or(-1.0);
                let called = |range: &[f64]| range.iter().filter(|p| **p <= limit).count();
                let (right, wrong) = (called(&tests[..10]), called(&tests[10..]));
                false_share += wrong as f64 / (right + wrong).max(1) as f64;
                found += right;
            }
            let rate = false_share / f64::from(rounds);
            assert!(rate < 0.07, "{degrees}: {rate}");
            assert!(found > 10 * rounds as usize / 2, "{degrees}: {found}");
        }
    }

    #[test]
    #[ignore = "long; ./check --all runs it"]
    fn one_that_belongs_but_is_not_among_few_members_is_seldom_odd() {
        let mut random = fastrand::Rng::with_seed(10);
        for (degrees, count) in [(1e3, 5), (1e3, 20), (3.0, 5), (3.0, 12), (3.0, 50)] {
            let mut wrong = [0, 0];
            for _ in 0..200 {
                let rows = (0..40).map(|_| {
                    let members = members(&mut random, degrees, count + 1);
                    let (other, members) = members.split_last().unwrap();
                    let population = Population::of(members).unwrap();
                    (population.p_of_another(*other, count), population.p(*other))
                });
                let (of_another, of_member): (Vec<f64>, Vec<f64>) = rows.unzip();
                wrong[0] += u32::from(threshold(&of_another, 0.05).is_some());
                wrong[1] += u32::from(threshold(&of_member, 0.05).is_some());
            }
            assert!(wrong[0] <= 16, "{degrees}, {count}: {wrong:?}");
            // As a member, one of five would be odd in a row too often.
            assert!(count > 5 || wrong[1] > 40, "{degrees}, {count}: {wrong:?}");
        }
    }

    #[test]
    fn the_spread_is_without_errors_and_without_the_odd() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut all = members(&mut random, 1e3, 2000);
        all[..60].iter_mut().for_each(|odd| odd.value += 30.0);
        let population = Population::of(&all).unwrap();
        assert!((0.9..1.2).contains(&population.spread), "{population:?}");
        assert!(population.centre.abs() < 0.2, "{population:?}");
        // Errors explain all of it.
        let alike = |value| Reading { value, error: 1.0 };
        let population = Population::of(&[-0.3, -0.1, 0.0, 0.1, 0.3].map(alike)).unwrap();
        assert_eq!((population.centre, population.spread), (0.0, 0.0));
        assert_eq!(Population::of(&[1.0; 4].map(alike)), None);
        // What is the same everywhere is exact: everything else is odd.
        let exact = |value| Reading { value, error: 0.0 };
        let population = Population::of(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0].map(exact)).unwrap();
        assert_eq!(population.p(exact(1.0)), 1.0);
        assert!(population.p(exact(2.0)) < 1e-9);
        assert_eq!([0.9, 1.0, 1.1].map(|value| population.below(value)), [0.0, 0.5, 1.0]);
        let population = Population { spread: 1.0, degrees: 10.0, ..population };
        assert!((population.below(2.0) - 0.83).abs() < 0.005, "{}", population.below(2.0));
    }

    #[test]
    fn two_populations_are_parted_and_one_seldom() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut parted = |degrees, apart: f64, count: usize, others: usize| {
            let of_200 = (0..200).filter(|_| {
                let mut members = members(&mut random, degrees, count);
                members[..others].iter_mut().for_each(|it| it.value += apart);
                parting(&members).is_some()
            });
            of_200.count()
        };
        for count in [10, 20, 100] {
            assert!(parted(1e3, 0.0, count, 0) <= 1);
            assert!(parted(3.0, 0.0, count, 0) <= 1);
        }
        assert!(parted(1e3, 12.0, 20, 10) > 150);
        assert_eq!(parted(1e3, 12.0, 100, 20), 0);
        assert!(parted(1e3, 12.0, 100, 30) > 150);
        let alike = |value| Reading { value, error: 1.0 };
        let two = [0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        assert_eq!(parting(&two.map(alike)), Some(2.5));
        assert_eq!(parting(&two.map(|value| alike(value / 2.0))), None);
        assert_eq!(parting(&two[1..].iter().copied().map(alike).collect::<Vec<_>>()), None);
    }

    #[test]
    fn each_group_counts_alike() {
        let values: Vec<f64> = (0..40).map(|value| f64::from(value * value)).collect();
        let alone: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
        let (centre, of_alone) = scatter(&alone).unwrap();
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9 * other;
        assert!(near(centre, quantile(&values, 0.5).unwrap()), "{centre}");
        let offs: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
        let widest = [0.5, 0.9].map(|share| quantile(&offs, share).unwrap() / normal_within(share));
        assert!(near(of_alone, widest[0].max(widest[1])), "{of_alone}");
        // As many values again, all of one group.
        let mut groups = alone.clone();
        groups.push(vec![1e6; 40]);
        let (centre, scatter) = scatter(&groups).unwrap();
        assert!(
            (400.0..=441.0).contains(&centre) && scatter < 1.2 * of_alone,
            "{centre} {scatter}"
        );
        assert_eq!(super::scatter(&[]), None);
    }

    #[test]
    fn tests_are_taken_together() {
        assert_eq!(simes(&[]), 1.0);
        assert_eq!(simes(&[0.01, 0.5]), 0.02);
        assert_eq!(simes(&[0.04, 0.03]), 0.04);
        assert_eq!(threshold(&[0.01, 0.9, 0.04], 0.05), Some(0.01));
        assert_eq!(threshold(&[0.01, 0.03, 0.04], 0.05), Some(0.04));
        assert_eq!(threshold(&[0.3, 0.9], 0.05), None);
    }
}
