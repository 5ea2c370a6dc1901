//! Finds results of sends and receives that contradict their prediction, and why.

use crate::naming::{circumstances, over};
use crate::prelude::*;
use crate::saturated::{HAS_TIME, SATURATED};
use crate::surprise;

/// Probes whose predictions are sums of costs that other probes measured.
const LAYER: &str = "copy.";
/// With fewer points, it is not worth saying that all were as predicted.
const SOME: usize = 5;

/// A finding for each probe over each link: the point furthest from its prediction, and the possible reason.
pub(crate) fn unexpected(run: &Run) -> Vec<Finding> {
    let rows = run.select_all();
    let predicted = rows.filter(|row| row.point.probe.starts_with(LAYER) && row.scored().is_some());
    let groups = predicted.group_with(|row| Some((&row.point.probe, &row.point.link)));
    let found = groups.iter().filter_map(|(_, rows)| finding(run, rows));
    found.collect()
}

fn finding(run: &Run, rows: &Select<'_>) -> Option<Finding> {
    let missed = rows.clone().filter(|row| row.missed_by().is_some());
    let first = &rows.one()?.point;
    let (what, all) = (format!("{}{}", first.probe, over(first)), rows.len());
    let Some(furthest) = greatest(missed.iter().copied(), surprise::of_row) else {
        let sentence = format!("nothing about {what} was unexpected: {all} predictions held");
        let found = || Finding::new(Kind::Unexpected, rows.iter().copied(), sentence);
        return (all >= SOME).then(found);
    };
    let (expected, measured) = furthest.scored()?;
    let ratio = furthest.missed_by()?;
    let is_less = ratio < 1.0;
    let point = match circumstances(run, &furthest.point) {
        none if none.is_empty() => " the point with all defaults".to_owned(),
        others => others,
    };
    let sentence = format!(
        "{missed} of {all} predictions of {what} were missed; most unexpected is{point}: {metric} of {measured}, a \
         factor of {factor:.1} {direction} than the {predicted} predicted{cause}",
        missed = missed.len(),
        metric = expected.metric,
        measured = measured.unit.display(measured.median),
        factor = ratio.max(1.0 / ratio),
        direction = if is_less { "less" } else { "more" },
        predicted = measured.unit.display_range((expected.low, expected.high)),
        cause = maybe(cause(furthest, measured.better, is_less), |cause| format!(": {cause}")),
    );
    Some(Finding::new(Kind::Unexpected, missed, sentence))
}

/// The reason that such a difference suggests, as far as the CPUs of the peers show it.
fn cause(row: &PointRow, better: Better, is_less: bool) -> Option<String> {
    let ends = ["sender", "receiver"].into_iter();
    let ends: Vec<(&str, f64)> =
        ends.filter_map(|end| Some((end, row.median(&format!("{end}_running"))?))).collect();
    let saturated: Vec<&str> =
        ends.iter().filter(|(_, share)| *share >= SATURATED).map(|(end, _)| *end).collect();
    let is_faster = match better {
        Better::Higher => !is_less,
        Better::Lower => is_less,
        Better::Neither => false,
    };
    if ends.is_empty() {
        None
    } else if is_faster {
        Some("a part costs less here than where it was measured alone".to_owned())
    } else if !saturated.is_empty() {
        Some(format!(
            "the {} had no idle time, so the prediction leaves out some of its work, or a part costs more here \
             than where it was measured alone",
            saturated.join(" and the ")
        ))
    } else {
        let wait = ends.iter().all(|(_, share)| *share < HAS_TIME);
        let why = "no end's CPU was busy all the time, so the missing time is waiting, which no part of the \
                   prediction counts";
        wait.then(|| why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{CLAIMED, RowExt, axes, known_row, reads, run};
    use costof_model::{Grade, Prediction};

    /// A point of `copy.send` with its throughput in GB/s; 4 to 8 were predicted.
    fn row(size: u64, gigabytes: f64, running: [f64; 2]) -> PointRow {
        let axes = axes!(size);
        let value = gigabytes * 1e9;
        let mut row = known_row("copy.send", "throughput", axes, value, 0.1);
        row.metrics[0].better = Better::Higher;
        row.point.link = "sink".into();
        row.prediction = Some(Prediction {
            metric: "throughput".into(),
            low: 4e9,
            high: 8e9,
            because: "of its pieces".to_owned(),
        });
        for (name, share) in ["sender_running", "receiver_running"].into_iter().zip(running) {
            let mut estimate = row.metrics[0].clone();
            estimate.name = name.into();
            (estimate.median, estimate.ci95) = (share, Some((share, share)));
            row.metrics.push(estimate);
        }
        row
    }

    fn sentences(rows: Vec<PointRow>) -> Vec<String> {
        let mut run = run(&CLAIMED);
        run.points = rows;
        let findings = unexpected(&run);
        findings.into_iter().map(|found| found.sentence).collect()
    }

    #[test]
    fn what_is_furthest_is_reported_with_what_it_points_to() {
        let rows =
            vec![row(64, 5.0, [1.0, 0.5]), row(128, 10.0, [1.0, 0.5]), row(256, 1.0, [1.0, 0.5])];
        let runs = [rows.clone(), rows[..2].to_vec(), vec![row(64, 1.0, [0.5, 0.6])]];
        reads!(runs.into_iter().flat_map(sentences));
    }

    #[test]
    fn what_takes_less_time_than_predicted_costs_less() {
        let latency = |ns: f64| {
            let mut row = row(64, ns / 1e9, [1.0, 0.5]);
            (row.metrics[0].name, row.metrics[0].better) = ("latency".into(), Better::Lower);
            row.prediction.as_mut().unwrap().metric = "latency".into();
            sentences(vec![row]).remove(0)
        };
        reads!([1e9, 20e9].map(latency));
    }

    #[test]
    fn where_all_was_as_expected_that_is_reported_of_some_points() {
        let rows = vec![row(64, 5.0, [1.0, 0.5]); SOME];
        reads!(sentences(rows.clone()));
        assert!(sentences(rows[1..].to_vec()).is_empty());
    }

    #[test]
    fn a_busy_machine_is_no_surprise() {
        let busy = row(64, 1.0, [0.5, 0.6]).warned("others", Grade::D);
        let mut unpredicted = row(64, 1.0, [0.5, 0.6]);
        unpredicted.prediction = None;
        assert!(sentences(vec![busy, unpredicted]).is_empty());
    }
}
