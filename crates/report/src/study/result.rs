//! The result of a run for a figure, in the figure's unit.

use super::figure::{Against, ESTIMATED_CYCLES, Figure, Of, Stated};
use super::unit::{Conversion, Published, digits};
use crate::names::short_point;
use crate::table::hit_mark;
use costof_findings::Interval;
use costof_model::noise::MEASURED;
use costof_model::{Estimate, Point, PointRow, Run, State, span};

/// Returns why a run lacks a point, if its rows do not say.
pub type Why<'a> = &'a dyn Fn(&Point) -> Option<String>;

/// With fewer operations in a launch, a mean is shown with their number.
const FEW_IN_A_LAUNCH: u64 = 100;

const OF_TSC: &str = "cycles of the TSC, which ticks at a constant rate: they equal core cycles only if the core \
                      runs at that rate; the CPU's counters, which would count core cycles, are not available (`costof doctor` \
                      says why)";

/// A figure, and this machine's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(super) predicted: String,
    pub(super) published: String,
    pub(super) here: String,
    /// Whether `here` is a number, and not what is known in its place.
    pub(super) has_number: bool,
    /// The median, if `here` is a mean.
    pub(super) median: String,
    pub(super) interval: String,
    pub(super) ratio: String,
    /// The range that costof predicted.
    pub(super) expected: String,
    pub(super) grade: String,
    /// Its numbers, unless a ratio of them means nothing.
    pub(super) numbers: Option<Numbers>,
    /// Why it costs what it does.
    pub(super) why: Option<String>,
    /// The numbers of its notes below the table.
    pub(crate) marks: Vec<usize>,
    /// The point that it is compared with.
    pub(crate) point: Option<Point>,
}

/// The numbers of a line, in the unit of the published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) unit: Published,
    pub(super) here: f64,
    /// The range that costof predicted.
    pub(super) costof: Option<(f64, f64)>,
    pub(super) published: Option<(f64, f64)>,
}

/// A result of costof, in the unit of the figure.
pub(super) struct Measured {
    /// The unit in which it is shown, and the value in it.
    unit: Published,
    /// The value, or what is shown in its place without a usable interval.
    value: Result<f64, String>,
    /// The value in the unit of the published figure.
    comparable: f64,
    of: Of,
    /// The median, if the value is a mean.
    median: Option<f64>,
    /// The interval of the median.
    interval: String,
    expected: Option<(f64, f64)>,
    /// The same in the unit of the published figure.
    comparable_expected: Option<(f64, f64)>,
    /// From what costof predicted it.
    because: Option<String>,
    /// A mark for whether the prediction held.
    hit: &'static str,
    grade: String,
    /// What a reader of the number has to know.
    pub(super) note: Option<String>,
    point: Point,
}

impl Measured {
    pub(super) fn into_line(self, figure: &Figure, line: &mut Line) {
        line.grade = self.grade;
        line.point = Some(self.point);
        let expected = |ends| range(ends) + self.hit;
        line.expected = self.expected.map_or_else(String::new, expected);
        let unit = self.unit.space().to_owned() + self.unit.symbol;
        let expected = self.expected.zip(self.because);
        let because = expected
            .map(|(ends, because)| format!("costof expected {}{unit}: {because}", range(ends)));
        line.why = because.or_else(|| figure.notes.first().cloned());
        let value = match self.value {
            Ok(value) => value,
            Err(unusable) => {
                line.here = unusable;
                return;
            }
        };
        if let Some(unit) = figure.predictable() {
            let published = match figure.measured {
                Stated::Range(low, high) => Some((low, high)),
                Stated::Nothing | Stated::Words(_) => None,
            };
            let (here, costof) = (self.comparable, self.comparable_expected);
            line.numbers = Some(Numbers { unit, here, costof, published });
        }
        line.here = self.unit.display(value) + &self.of.said();
        line.has_number = true;
        line.median = self.median.map_or_else(String::new, digits);
        line.interval = self.interval;
        line.ratio = match figure.measured {
            Stated::Range(low, high) if (low..=high).contains(&self.comparable) => {
                let within = if low < high { "within" } else { "1.00" };
                within.to_owned()
            }
            // The ratio to the nearer end of a range.
            Stated::Range(low, high) => {
                let to = if self.comparable < low { low } else { high };
                let ratio =
                    (to > 0.0 && self.comparable >= 0.0).then(|| digits(self.comparable / to));
                ratio.unwrap_or_default()
            }
            Stated::Nothing | Stated::Words(_) => String::new(),
        };
        if matches!(&figure.against, Ok(against) if against.per.is_some()) {
            // A quotient of quotients says nothing.
            line.ratio.clear();
        }
    }
}

fn range((low, high): (f64, f64)) -> String {
    // A dash between negative numbers would be read as a sign.
    let dash = if low < 0.0 { " to " } else { "–" };
    span(&digits(low), dash, &digits(high))
}

/// The result of a run for a figure, or why there is none.
pub(super) fn measured(
    against: &Against,
    unit: Published,
    run: &Run,
    why: Why<'_>,
) -> Result<Measured, String> {
    let found =
        (run.points.iter()).filter(|row| against.is(row) && against.is_far(&row.point, run));
    // If several labels match, the shortest, which says nothing more; of several sizes the smallest.
    let order = |row: &&PointRow| {
        let size = row.axes().find_number("size").filter(|_| against.beyond_caches);
        (row.label.as_deref().map_or(0, str::len), size)
    };
    let Some(row) = found.min_by_key(order) else {
        return Err(missing(against, run, why));
    };
    let name = |row: &PointRow| short_point(&row.point, run.probe(&row.point.probe));
    if row.state == State::BelowResolution {
        return Err(format!("{} lies below the resolution of the clock", name(row)));
    }
    if let Some(per) = &against.per {
        let per = Against { point: per.clone(), ..against.clone() };
        let Some(other) = run.points.iter().find(|row| per.is(row)) else {
            return Err(missing(&per, run, why));
        };
        let metric = against.metric.as_ref().unwrap_or(&row.primary);
        return ratio(unit, run, (row, other), metric).ok_or_else(|| uncounted(run, metric));
    }
    let estimate = estimate(against, unit, row).ok_or_else(|| match &against.metric {
        Some(metric) => uncounted(run, metric),
        None => "this run has no number of it in this unit".to_owned(),
    })?;
    let times = against.operations(row)?;
    let conversion = unit.from(estimate.unit, times, against.bytes)?;
    let value = statistic(against.of, estimate, row)
        .ok_or_else(|| format!("{} has too few samples for it", name(row)))?;
    let comparable = conversion.apply(value);
    let median = conversion.apply(estimate.median);
    let is_mean = against.of == Of::Mean;
    let comparable_expected = expected(estimate, row, conversion);
    let unit = unit.fitting(if is_mean { comparable.min(median) } else { comparable });
    let conversion = unit.from(estimate.unit, times, against.bytes)?;
    // A mean is shown with the median, whose interval and prediction these are.
    let shows_median = matches!(against.of, Of::Median | Of::Mean);
    let interval = estimate.usable_interval().filter(|_| shows_median);
    let unusable = estimate.unusable(|ends| {
        let (low, high) = conversion.range(ends);
        if low < high {
            return range((low, high)) + unit.space() + unit.symbol;
        }
        unit.display(high)
    });
    Ok(Measured {
        unit,
        value: unusable.map_or_else(|| Ok(conversion.apply(value)), Err),
        comparable,
        of: against.of,
        median: is_mean.then(|| conversion.apply(estimate.median)),
        interval: interval.map_or_else(String::new, |ends| range(conversion.range(ends))),
        expected: expected(estimate, row, conversion).filter(|_| shows_median),
        comparable_expected: comparable_expected.filter(|_| shows_median),
        because: row.prediction.as_ref().map(|prediction| prediction.because.clone()),
        hit: hit_mark(row),
        grade: row.grade.to_string(),
        note: note(against.of, estimate, row),
        point: row.point.clone(),
    })
}

/// What a reader of the number has to know: few operations make a mean that says little.
fn note(of: Of, estimate: &Estimate, row: &PointRow) -> Option<String> {
    let is_few =
        estimate.name == "latency" && estimate.n < FEW_IN_A_LAUNCH * u64::from(row.launches);
    if of == Of::Mean && is_few {
        return Some(format!("the mean of {} in {} launches", estimate.n, row.launches));
    }
    is_of_tsc(estimate, row).then(|| OF_TSC.to_owned())
}

/// Whether an estimate counts cycles of the TSC, as the CPU's counters are not available.
fn is_of_tsc(estimate: &Estimate, row: &PointRow) -> bool {
    estimate.name == "cycles_per_byte" && row.median("cycles_by_pmu") == Some(0.0)
}

/// The statistic of an estimate. Estimated cycles have one sample for each launch, so all but their median are
/// computed from the samples of the time.
fn statistic(of: Of, estimate: &Estimate, row: &PointRow) -> Option<f64> {
    let (of_time, per_ns) = match cycles_per_ns(estimate, row) {
        Some(per_ns) if estimate.name == ESTIMATED_CYCLES => (row.primary()?, per_ns),
        _ => (estimate, 1.0),
    };
    let value = match of {
        Of::Median => return Some(estimate.median),
        Of::Mean => Some(of_time.mean),
        Of::Deviation => of_time.sd,
        Of::Least => Some(of_time.min),
        Of::Percentile(percent) => of_time.percentile(percent),
    };
    Some(value? * per_ns)
}

/// The ratio of a metric at two rows, from the launches that measured both.
fn ratio(
    unit: Published,
    run: &Run,
    (row, other): (&PointRow, &PointRow),
    metric: &str,
) -> Option<Measured> {
    let medians = row.estimate(metric)?.median / other.estimate(metric)?.median;
    let ratio = Interval::log_ratio(run, row, other, metric).map(Interval::exp);
    medians.is_finite().then(|| Measured {
        unit,
        value: ratio.map_or(Err("too noisy".to_owned()), |ratio| Ok(unit.of_ratio(ratio.middle))),
        comparable: unit.of_ratio(ratio.map_or(medians, |ratio| ratio.middle)),
        of: Of::Median,
        median: None,
        interval: ratio.map_or_else(String::new, |ratio| {
            range((unit.of_ratio(ratio.low), unit.of_ratio(ratio.high)))
        }),
        expected: None,
        comparable_expected: None,
        because: None,
        hit: "",
        grade: row.grade.max(other.grade).to_string(),
        note: None,
        point: row.point.clone(),
    })
}

/// Why a run has no row for this figure.
fn missing(against: &Against, run: &Run, why: Why<'_>) -> String {
    if let Some(label) = &against.label {
        let otherwise = || format!("the run has no row `{label}` of the latency table");
        return against.because.clone().unwrap_or_else(otherwise);
    }
    let is_it = |point: &Point| against.names(point) && against.is_far(point, run);
    let mut point = against.point.clone();
    if let Some(bytes) = against.far_bytes(run) {
        point.axes = point.axes.with("size", bytes);
    }
    absent(run, is_it, &point, why)
}

/// Why a run has no row for this point, or one that is like it.
pub fn absent(run: &Run, is_it: impl Fn(&Point) -> bool, point: &Point, why: Why<'_>) -> String {
    let failed = run.failures.iter().rfind(|row| is_it(&row.point));
    if let Some(row) = failed {
        return row.reason.clone();
    }
    if run.run.plan.points().any(is_it) {
        return "the run ended before it was measured".to_owned();
    }
    why(point).unwrap_or_else(|| match &*run.run.plan.precision {
        "quick" => "left out of a quick run".to_owned(),
        _ => "not part of this run".to_owned(),
    })
}

/// Why a metric is absent: for counts of the CPU, what the kernel said when they were asked for.
pub(super) fn uncounted(run: &Run, metric: &str) -> String {
    let name = metric.replace('_', " ");
    if !metric.contains("miss") && metric != "cycles" {
        return format!("no launch of this run reported {name}");
    }
    let absent = run.attempts.last().map(|attempt| &attempt.counters.absent);
    let reason = absent.and_then(|absent| absent.get(metric)).cloned();
    reason.unwrap_or_else(|| {
        format!(
            "this run has no {name}: the CPU's counters are not available (`costof doctor` says why)"
        )
    })
}

impl Against {
    /// How many operations of costof's the figure is of.
    pub(super) fn operations(&self, row: &PointRow) -> Result<Option<f64>, String> {
        let Some(seconds) = self.seconds else {
            return Ok(self.times);
        };
        let rate = row.median("rate").ok_or("its rate was not measured")?;
        Ok(Some(self.times.unwrap_or(1.0) * seconds * rate))
    }

    /// Whether this is its point, wherever the files of the run lie.
    fn names(&self, point: &Point) -> bool {
        let named = &self.point;
        let mut axes = point.axes.0.iter();
        (&point.probe, &point.link) == (&named.probe, &named.link)
            && point.axes.0.len() == named.axes.0.len()
            && axes.all(|(name, value)| {
                named.axes.0.get(name) == Some(value) || self.open.contains(name)
            })
    }

    /// The least size of which the caches of the run's machine hold little, if that is asked.
    fn far_bytes(&self, run: &Run) -> Option<u64> {
        let attempt = run.attempts.last().filter(|_| self.beyond_caches)?;
        let stride = self.point.axes.find_number("stride").unwrap_or(0);
        Some(attempt.hosts.get(MEASURED)?.bytes_beyond_caches(stride))
    }

    fn is_far(&self, point: &Point, run: &Run) -> bool {
        self.far_bytes(run).is_none_or(|least| point.axes.find_number("size") >= Some(least))
    }

    /// Whether a row is the one to compare with.
    fn is(&self, row: &PointRow) -> bool {
        let Some(label) = &self.label else {
            return self.names(&row.point);
        };
        let axes = self.point.axes.0.iter();
        let mut agree = axes.map(|(name, value)| row.axes().0.get(name) == Some(value));
        row.point.probe == self.point.probe
            && row.point.link == self.point.link
            && row.label.as_deref().is_some_and(|own| own.contains(label))
            && agree.all(|agrees| agrees)
    }
}

/// The estimate to compare with. For cycles, counted ones are preferred to estimated ones.
fn estimate<'r>(against: &Against, unit: Published, row: &'r PointRow) -> Option<&'r Estimate> {
    match &against.metric {
        Some(name) => row.estimate(name),
        None if unit.is_cycles() => {
            row.estimate("cycles").or_else(|| row.estimate(ESTIMATED_CYCLES))
        }
        None => row.primary(),
    }
}

/// The predicted range in the unit of the figure.
fn expected(estimate: &Estimate, row: &PointRow, conversion: Conversion) -> Option<(f64, f64)> {
    let expected = row.prediction.as_ref()?;
    if expected.metric == estimate.name {
        return Some(conversion.range((expected.low, expected.high)));
    }
    let per_ns = cycles_per_ns(estimate, row).filter(|_| expected.metric == row.primary)?;
    Some(conversion.range((expected.low * per_ns, expected.high * per_ns)))
}

/// The core clock that converts a cost to cycles; none if the figure is not in cycles.
fn cycles_per_ns(estimate: &Estimate, row: &PointRow) -> Option<f64> {
    let cost = row.primary()?;
    let per_ns = estimate.median / cost.median;
    (estimate.name.ends_with("cycles") && per_ns.is_finite()).then_some(per_ns)
}
