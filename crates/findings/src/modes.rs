//! Costs that come in two modes, and what goes with each: launches that recorded different values, or batches
//! that were preempted. Also the costs whose modes go with nothing that was recorded.

use crate::interval::value;
use crate::naming::row_name;
use crate::text::{maybe, percent, span};
use crate::{Finding, Kind};
use costof_model::metric::Mode;
use costof_model::{
    Data, Estimate, LaunchPoint, LaunchRow, Measured, Noise, PointRow, Run, State, Unit,
};

/// A launch has both modes if each has at least this share of its samples.
const HAS: f64 = 0.1;
/// Preemption explains the modes if it hit at least the first share of the slower samples, and at most the
/// second of the faster ones.
const MAX: f64 = 0.8;
const LITTLE: f64 = 0.2;
/// A mode with fewer samples has no meaningful share.
const SAMPLES: u64 = 5;
/// If this many launches all have both modes, that is not chance.
const LAUNCHES: usize = 3;
/// At most this many costs without an explanation are named.
const NAMED: usize = 6;
/// The allowed probability that any of the recorded values separates the launches by chance.
const BY_CHANCE: f64 = 0.05;

/// One finding for each point whose two modes go with something that was recorded, and one for all others.
pub(crate) fn modes(run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unexplained: Vec<TwoModes<'_>> = Vec::new();
    for point in run.select_all().into_iter().filter_map(|row| TwoModes::new(run, row)) {
        match point.cause {
            Cause::Seen(_) => findings.push(one(&point)),
            Cause::NotSeen(_) => unexplained.push(point),
        }
    }
    match &unexplained[..] {
        [] => {}
        [alone] => findings.push(one(alone)),
        several => findings.push(together(several)),
    }
    findings
}

/// A point with two modes, and what goes with them.
struct TwoModes<'r> {
    row: &'r PointRow,
    name: String,
    /// `5.00 ns in 40 % and 9.00 ns in 60 %`.
    both: String,
    cause: Cause,
}

impl<'r> TwoModes<'r> {
    fn new(run: &Run, row: &'r PointRow) -> Option<TwoModes<'r>> {
        let estimate = row.primary()?;
        let [lesser, greater] = two_modes(estimate)?;
        let border = (lesser.median * greater.median).sqrt();
        let launches =
            run.launches_of(&row.point).filter_map(|launch| Seen::new(launch, row, border));
        let mode = |mode: &Mode| {
            format!("{} in {} %", estimate.unit.display(mode.median), percent(mode.share))
        };
        Some(TwoModes {
            row,
            name: row_name(run, row),
            both: format!("{} and {}", mode(lesser), mode(greater)),
            cause: cause(row, &launches.collect::<Vec<_>>()),
        })
    }
}

fn one(TwoModes { row, name, both, cause }: &TwoModes<'_>) -> Finding {
    let (Cause::Seen(why) | Cause::NotSeen(why)) = cause;
    Finding::new(Kind::Modes, [*row], format!("{name} has two modes, {both}: {why}"))
}

fn together(points: &[TwoModes<'_>]) -> Finding {
    let shown = points.iter().take(NAMED).map(|point| format!("{} ({})", point.name, point.both));
    let shown = shown.collect::<Vec<_>>().join("; ");
    let (count, more) = (points.len(), points.len().saturating_sub(NAMED));
    let more = maybe((more > 0).then_some(more), |more| format!("; and {more} more"));
    let sentence = format!(
        "{count} rows have two modes each, and costof recorded nothing that explains them: {shown}{more}"
    );
    Finding::new(Kind::Modes, points.iter().map(|point| point.row), sentence)
}

/// The modes of an estimate that has two, the lower one first.
pub(crate) fn two_modes(estimate: &Estimate) -> Option<[&Mode; 2]> {
    match estimate.modes.as_slice() {
        [one, other] if one.median <= other.median => Some([one, other]),
        [one, other] => Some([other, one]),
        _ => None,
    }
}

/// A launch, and how many of its samples are in the higher mode.
struct Seen<'a> {
    launch: &'a LaunchRow,
    point: &'a LaunchPoint,
    /// The samples in the lower and in the higher mode, and how many of each were preempted.
    samples: [u64; 2],
    preempted: [u64; 2],
}

impl<'a> Seen<'a> {
    fn new(launch: &'a LaunchRow, row: &PointRow, border: f64) -> Option<Seen<'a>> {
        let mut points = launch.points.iter();
        let point = points.find(|point| point.point == row.point && point.state == State::Ok)?;
        let mut metrics = point.metrics.iter();
        let measured = metrics.find(|metric| metric.name == row.primary)?;
        let (samples, preempted) = counted(measured, border);
        (samples != [0, 0]).then_some(Seen { launch, point, samples, preempted })
    }

    fn greater_share(&self) -> f64 {
        let [lesser, greater] = self.samples.map(|count| count as f64);
        greater / (lesser + greater)
    }

    fn has_both(&self) -> bool {
        (HAS..=1.0 - HAS).contains(&self.greater_share())
    }
}

fn counted(measured: &Measured, border: f64) -> ([u64; 2], [u64; 2]) {
    let (mut samples, mut preempted) = ([0_u64; 2], [0; 2]);
    if let Data::Histogram(buckets) = &measured.data {
        for (ns, count) in buckets {
            samples[usize::from(f64::from(*ns) > border)] += u64::from(*count);
        }
    }
    for (position, cost) in (0..).zip(measured.data.costs()) {
        let mode = usize::from(cost > border);
        samples[mode] += 1;
        preempted[mode] += u64::from(measured.disturbed.contains(&position));
    }
    (samples, preempted)
}

/// What goes with the modes, or why that is not known.
enum Cause {
    Seen(String),
    NotSeen(String),
}

/// What goes with the modes, as far as the launches recorded it.
fn cause(row: &PointRow, launches: &[Seen<'_>]) -> Cause {
    let all = launches.len();
    let both = launches.iter().filter(|launch| launch.has_both()).count();
    let (greater, lesser): (Vec<&Seen<'_>>, Vec<&Seen<'_>>) =
        launches.iter().partition(|launch| launch.greater_share() > 0.5);
    Cause::NotSeen(if all == 0 {
        "the run file has none of its launches, so the cause is unknown".to_owned()
    } else if were_preempted(launches) {
        return Cause::Seen("the higher one is that of preempted batches".to_owned());
    } else if both == all && all >= LAUNCHES {
        format!(
            "all {all} launches have both, so the cause changes within a launch; costof recorded nothing that \
             shows it"
        )
    } else if 2 * both >= all {
        format!("{both} of {all} launches have both; costof recorded nothing that shows the cause")
    } else if lesser.is_empty() || greater.is_empty() {
        format!(
            "all {all} launches are mostly in the same mode; costof recorded nothing that shows what causes \
             the other"
        )
    } else {
        return between(row, &lesser, &greater);
    })
}

/// Whether the higher mode consists of preempted samples.
fn were_preempted(launches: &[Seen<'_>]) -> bool {
    let sum = |of: fn(&Seen<'_>) -> u64| launches.iter().map(of).fold(0, u64::saturating_add);
    let [lesser, greater] = [sum(|seen| seen.samples[0]), sum(|seen| seen.samples[1])];
    let [of_lesser, of_greater] = [sum(|seen| seen.preempted[0]), sum(|seen| seen.preempted[1])];
    lesser >= SAMPLES
        && greater >= SAMPLES
        && of_greater as f64 >= MAX * greater as f64
        && of_lesser as f64 <= LITTLE * lesser as f64
}

/// The values of these launches; none if any lacks it.
fn all<'s>(launches: &[&Seen<'s>], value: &dyn Fn(&Seen<'s>) -> Option<f64>) -> Option<(f64, f64)> {
    let values: Option<Vec<f64>> = launches.iter().map(|seen| value(seen)).collect();
    span(values?)
}

/// What differs between the launches of the two modes.
fn between(row: &PointRow, lesser: &[&Seen<'_>], greater: &[&Seen<'_>]) -> Cause {
    type Ends = (f64, f64);
    let recorded = |name, value: &dyn Fn(&Seen<'_>) -> Option<f64>| -> Option<(&str, Ends, Ends)> {
        Some((name, all(lesser, value)?, all(greater, value)?))
    };
    let of_noise = RECORDED_OF_LAUNCHES.iter();
    let of_noise: Vec<_> =
        of_noise.filter_map(|(name, of)| recorded(*name, &|seen| of(&seen.launch.noise))).collect();
    // The other metrics of the point, such as `huge_share` and `preempted`. They may be the cause, or another
    // consequence. Metrics in nanoseconds are mostly the same time once more.
    let others =
        row.metrics.iter().filter(|metric| metric.name != row.primary && metric.unit == Unit::One);
    let others: Vec<_> = others
        .filter_map(|metric| recorded(&*metric.name, &|seen| value(seen.point, &metric.name)))
        .collect();
    let (low, high) = (lesser.len(), greater.len());
    let counts = format!("{low} launches are in the lower mode and {high} in the higher");
    let looked_at = of_noise.len() + others.len();
    if looked_at == 0 || looked_at as f64 * by_chance(low + high, high) > BY_CHANCE {
        let why = "too few to distinguish a cause from chance";
        return Cause::NotSeen(format!("{counts}: {why}"));
    }
    let separating =
        of_noise.iter().chain(&others).filter_map(|(name, lesser, greater)| match () {
            () if lesser.1 < greater.0 => Some(format!("more {name}")),
            () if greater.1 < lesser.0 => Some(format!("less {name}")),
            () => None,
        });
    let separating: Vec<String> = separating.collect();
    if separating.is_empty() {
        let names: Vec<&str> = of_noise.iter().map(|(name, ..)| *name).collect();
        let names = names.join(", ");
        return Cause::NotSeen(format!(
            "{counts}, and nothing that costof recorded separates them: {names}"
        ));
    }
    let separating = separating.join(" and ");
    Cause::Seen(format!("{counts}; each in the higher one had {separating} than any in the lower"))
}

/// Reads a value that describes the CPUs, the memory or the neighbours of a launch.
type OfNoise = fn(&Noise) -> Option<f64>;

const RECORDED_OF_LAUNCHES: [(&str, OfNoise); 8] = [
    ("distance between its CPUs", |noise| noise.distance_ns.map(|(before, _)| before)),
    ("core clock", |noise| {
        Some(f64::midpoint(noise.core_clock_before_hz?, noise.core_clock_after_hz?))
    }),
    ("time taken by the hypervisor", |noise| Some(noise.steal_ns? / noise.duration_ns)),
    ("time used by others on its CPU", |noise| Some(noise.others_ns? / noise.duration_ns)),
    ("time used by others on other CPUs", |noise| noise.others_elsewhere),
    ("preemptions", |noise| Some(noise.preemptions as f64)),
    ("migrations", |noise| Some(noise.migrations? as f64)),
    ("page faults", |noise| Some((noise.minor_faults + noise.major_faults) as f64)),
];

/// The probability that an unrelated value separates the launches like this by chance: two out of
/// all ways to choose this many launches.
fn by_chance(all: usize, chosen: usize) -> f64 {
    let ways = (0..chosen)
        .fold(1.0, |ways, position| ways * (all - position) as f64 / (position + 1) as f64);
    2.0 / ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, begins, contains, ends, launch, point_row, reads, run};
    use costof_model::Axes;

    /// A point with these costs, one launch each, with the given noise.
    fn sentence(costs: &[f64], noise: impl Fn(f64) -> Noise) -> String {
        let mut run = run(&[]);
        let mut row = point_row("os.pin", "cost", Axes::default(), 150.0, (100.0, 200.0));
        row.metrics[0].modes = [200.0, 100.0].map(|median| Mode { median, share: 0.5 }).to_vec();
        for cost in costs {
            launch(&mut run, &[(&row, &[("cost", *cost)])]);
            run.launches.last_mut().unwrap().noise = noise(*cost);
        }
        run.points.push(row);
        let found = modes(&run);
        assert_eq!(found.len(), 1);
        found[0].sentence.clone()
    }

    fn noise(clock: f64, migrations: u64) -> Noise {
        Noise {
            duration_ns: 1e9,
            core_clock_before_hz: Some(clock),
            core_clock_after_hz: Some(clock),
            migrations: Some(migrations),
            ..Noise::default()
        }
    }

    const MANY: [f64; 14] = [
        100.0, 200.0, 101.0, 201.0, 99.0, 199.0, 100.0, 200.0, 101.0, 201.0, 99.0, 199.0, 100.0,
        200.0,
    ];

    #[test]
    fn what_separates_all_launches_is_what_goes_with_the_modes() {
        let clock = sentence(&MANY, |cost| noise(if cost > 150.0 { 2e9 } else { 4e9 }, 1));
        let nothing = sentence(&MANY, |_| noise(4e9, 1));
        reads!([clock, nothing]);
    }

    #[test]
    fn few_launches_may_be_separated_by_chance() {
        let shown = sentence(&MANY[..6], |cost| noise(if cost > 150.0 { 2e9 } else { 4e9 }, 1));
        contains(&shown, "too few");
        assert!((by_chance(6, 3) - 0.1).abs() < 1e-12);
        assert!((by_chance(14, 7) - 2.0 / 3432.0).abs() < 1e-12);
        let shown = sentence(&[], |_| Noise::default());
        contains(&shown, "none of its launches");
    }

    #[test]
    fn modes_that_nothing_goes_with_are_reported_together() {
        let mut run = run(&[]);
        for (probe, ns) in [("os.pin", 100.0), ("os.getpid", 50.0)] {
            let mut row = point_row(probe, "cost", Axes::default(), ns, (ns, ns));
            row.metrics[0].modes =
                [ns, 2.0 * ns].map(|median| Mode { median, share: 0.5 }).to_vec();
            run.points.push(row);
        }
        let found = modes(&run);
        assert_eq!((found.len(), found[0].evidence.len()), (1, 2));
        reads!(&found);
    }

    #[test]
    fn of_many_answers_some_are_named() {
        let mut run = run(&[]);
        for ns in (1..=9).map(f64::from) {
            let mut row = point_row("os.pin", "cost", Axes::default(), ns, (ns, ns));
            row.point.axes = axes!(size = ns as u64);
            row.metrics[0].modes =
                [ns, 2.0 * ns].map(|median| Mode { median, share: 0.5 }).to_vec();
            run.points.push(row);
        }
        let found = modes(&run);
        assert_eq!((found.len(), found[0].evidence.len()), (1, 9));
        let shown = found[0].sentence.clone();
        begins(&shown, "9 rows ");
        ends(&shown, "; and 3 more");
        assert_eq!(shown.matches("os.pin").count(), 6);
    }

    /// A point of 100 and 200 ns, with these launches and disturbed batches.
    fn of_launches(launches: &[Data], disturbed: &[u32]) -> String {
        let mut run = run(&[]);
        let mut row = point_row("os.pin", "cost", Axes::default(), 150.0, (100.0, 200.0));
        row.metrics[0].modes = [100.0, 200.0].map(|median| Mode { median, share: 0.5 }).to_vec();
        for data in launches {
            launch(&mut run, &[(&row, &[("cost", 0.0)])]);
            let measured = &mut run.launches.last_mut().unwrap().points[0].metrics[0];
            measured.data = data.clone();
            measured.disturbed = disturbed.to_vec();
        }
        run.points.push(row);
        modes(&run)[0].sentence.clone()
    }

    /// Two launches with batches in both modes; these were preempted.
    fn batches(disturbed: &[u32]) -> String {
        let costs = [1000.0, 1000.0, 1000.0, 2000.0, 2000.0, 2000.0];
        let data = Data::Samples(costs.map(|ns| (10, ns)).to_vec());
        of_launches(&[data.clone(), data], disturbed)
    }

    #[test]
    fn what_is_alike_in_a_launch_is_no_cause_only_where_all_of_several_have_both() {
        let of = |lesser, greater| Data::Histogram(vec![(100.0, lesser), (200.0, greater)]);
        let (both, one, other) = (of(5, 5), of(10, 0), of(0, 10));
        let three = [both.clone(), both.clone(), both.clone()];
        let two = [both.clone(), both.clone(), other];
        reads!([&three, &two].map(|launches| of_launches(launches, &[])));
        for launches in [&three[..2], &[one.clone(), one.clone(), one]] {
            let shown = of_launches(launches, &[]);
            assert!(!shown.contains("so the cause"), "{shown}");
        }
    }

    #[test]
    fn more_samples_than_a_count_holds_are_counted() {
        let data = Data::Histogram(vec![(100.0, u32::MAX), (99.0, u32::MAX), (200.0, u32::MAX)]);
        let shown = of_launches(&[data.clone(), data.clone(), data], &[]);
        contains(&shown, "all 3 launches have both");
    }

    #[test]
    fn launches_that_have_both_modes_are_no_cause_and_preempted_batches_are_one() {
        assert!(batches(&[3, 4, 5]).ends_with("preempted batches"));
        for disturbed in [&[][..], &[0, 1, 2], &[0, 1, 2, 3, 4, 5]] {
            let shown = batches(disturbed);
            contains(&shown, "2 of 2 launches have both");
        }
    }
}
