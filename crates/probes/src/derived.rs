//! Metrics computed from those that a role reports.

use crate::prelude::*;
use costof_model::metric::Gauged;
use costof_model::{CoreState, Data, Measured, Selection};

/// The median cost of one operation over a launch's batches, in nanoseconds; `None` if the metric
/// has no batches.
pub(crate) fn median_ns(report: &Report, metric: &str) -> Option<f64> {
    Some(cost(report, metric)?.0)
}

/// That median, and the state of the core in its batches: alone, where there are enough of those.
fn cost(report: &Report, metric: &str) -> Option<(f64, Option<CoreState>)> {
    let measured = report.metrics.iter().find(|measured| measured.name == metric)?;
    let (selection, state) =
        [(Selection::Alone, CoreState::Alone), (Selection::Shared, CoreState::Shared)]
            .into_iter()
            .find(|(selection, _)| measured.suffices(*selection))
            .unwrap_or((Selection::All, CoreState::Mixed));
    let costs: Vec<f64> = measured.selected(selection).into_iter().map(|(cost, _)| cost).collect();
    Some((median(&costs)?, measured.gauged.as_ref().map(|_| state)))
}

/// By how much the median cost of one operation exceeds that of another, in nanoseconds.
pub(crate) fn difference_ns(report: &Report, metric: &str, other: &str) -> Option<f64> {
    Some(median_ns(report, metric)? - median_ns(report, other)?)
}

/// The median costs of two operations over a launch's batches with the core in the same state, in nanoseconds; `None` if
/// either has no batches.
pub(crate) fn medians_ns(report: &Report, metrics: [&str; 2]) -> Option<[f64; 2]> {
    let find = |name| report.metrics.iter().find(|measured| measured.name == name);
    let [Some(one), Some(other)] = metrics.map(find) else {
        return None;
    };
    let selection = [Selection::Alone, Selection::Shared]
        .into_iter()
        .find(|selection| one.suffices(*selection) && other.suffices(*selection));
    let of = |measured: &Measured| {
        let samples = measured.selected(selection.unwrap_or(Selection::All)).into_iter();
        median(&samples.map(|(cost, _)| cost).collect::<Vec<_>>())
    };
    Some([of(one)?, of(other)?])
}

/// A metric that is one number, if the report has it.
pub(crate) fn value(report: &Report, metric: &str) -> Option<f64> {
    let mut metrics = report.metrics.iter();
    match metrics.find(|one| one.name == metric)?.data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}

/// Adds a metric that is one number.
pub(crate) fn add(report: &mut Report, metric: &'static str, value: f64) {
    let value = Data::Value(value);
    report.metrics.push(Measured::new(Text::Borrowed(metric), value));
}

/// Adds the throughput, where an operation of `bytes` bytes has a cost.
pub(crate) fn add_throughput(report: &mut Report, bytes: u64) {
    if let Some((ns, state)) = cost(report, "cost") {
        report.metrics.push(Measured {
            gauged: state.map(|state| Gauged::Samples(vec![state])),
            ..Measured::new(Text::Borrowed("throughput"), Data::Value(bytes as f64 / ns * 1e9))
        });
    }
}

/// The only report, with the throughput where an operation of `bytes` bytes has a cost.
pub(crate) fn with_throughput(reports: Vec<Report>, bytes: u64) -> Report {
    let mut report = only(reports);
    add_throughput(&mut report, bytes);
    report
}

/// Makes a cost that was measured in groups of `operations` that of one operation.
pub(crate) fn divide_cost(report: &mut Report, operations: u64) {
    for measured in &mut report.metrics {
        if let ("cost", Data::Samples(samples)) = (&*measured.name, &mut measured.data) {
            for (counted, _) in samples {
                *counted *= operations;
            }
        }
    }
}

/// Forgets preemptions by the other end: they are part of what is measured, not disturbances.
pub(crate) fn forget_disturbances(report: &mut Report) {
    for measured in &mut report.metrics {
        measured.disturbed.clear();
    }
}

/// Forgets disturbances if the ends share a CPU: taking it from each other is what was measured.
pub(crate) fn on_cpus(cpus: Cpus, mut report: Report) -> Report {
    if cpus == Cpus::Same {
        forget_disturbances(&mut report);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{report, samples};

    fn cost(batches: &[(u64, f64)]) -> Measured {
        Measured { disturbed: vec![0], ..samples("cost", batches) }
    }

    #[test]
    fn throughput_is_bytes_over_the_median_cost() {
        let mut report = report(vec![cost(&[(1, 100.0), (2, 256.0), (1, 128.0)])]);
        add_throughput(&mut report, 8192);
        assert_eq!(report.metrics[1].name, "throughput");
        assert_eq!(report.metrics[1].data, Data::Value(64e9));
    }

    #[test]
    fn what_has_no_cost_has_no_throughput() {
        let mut report = report(Vec::new());
        add_throughput(&mut report, 8192);
        assert!(report.metrics.is_empty());
    }

    #[test]
    fn a_group_is_many_operations() {
        let mut report = report(vec![cost(&[(10, 40.0), (20, 80.0)])]);
        divide_cost(&mut report, 2);
        assert_eq!(median_ns(&report, "cost"), Some(2.0));
        forget_disturbances(&mut report);
        assert!(report.metrics[0].disturbed.is_empty());
    }
}
