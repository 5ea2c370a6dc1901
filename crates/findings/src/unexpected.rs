//! Which result of sending and receiving was unexpected against its prediction, and why.

use crate::finding::{Finding, grade_by_others};
use crate::saturated::{HAS_TIME, SATURATED};
use crate::send_crossover::circumstances;
use costof_model::Text;
use costof_model::metric::Estimate;
use costof_model::noise::Grade;
use costof_model::prediction::Prediction;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Better;

/// Probes whose predictions are sums of pieces that others have measured.
const LAYER: &str = "copy.";
/// Of fewer points it is not worth saying that all were as expected.
const SOME: usize = 5;

/// A sentence for each probe over each link: what was furthest from its prediction, and what that
/// points to. Where others used the processors, a number is not the machine's, hence no surprise.
pub(crate) fn unexpected(run: &Run) -> Vec<Finding> {
    let mut groups: Vec<((&Text, &Text), Vec<Surprise<'_>>)> = Vec::new();
    for row in &run.points {
        let subject = (&row.point.probe, &row.point.link);
        let Some(surprise) = Surprise::of(row).filter(|_| row.point.probe.starts_with(LAYER))
        else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == subject) {
            Some((_, rows)) => rows.push(surprise),
            None => groups.push((subject, vec![surprise])),
        }
    }
    let said = groups.iter().filter_map(|(_, rows)| said(run, rows));
    said.collect()
}

/// A point that was predicted and measured.
struct Surprise<'a> {
    row: &'a PointRow,
    expected: &'a Prediction,
    measured: &'a Estimate,
    /// None where it was as expected.
    missed_by: Option<f64>,
}

impl Surprise<'_> {
    fn of(row: &PointRow) -> Option<Surprise<'_>> {
        let expected = row.prediction.as_ref()?;
        let measured = row.estimate(&expected.metric)?;
        (grade_by_others(row) <= Grade::B).then(|| Surprise {
            row,
            expected,
            measured,
            missed_by: expected.missed_by(measured),
        })
    }

    /// How far from what was expected, less or more alike.
    fn distance(&self) -> f64 {
        self.missed_by.map_or(0.0, |ratio| ratio.ln().abs())
    }
}

fn said(run: &Run, rows: &[Surprise<'_>]) -> Option<Finding> {
    let missed: Vec<&Surprise<'_>> = rows.iter().filter(|row| row.missed_by.is_some()).collect();
    let far =
        |one: &&&Surprise<'_>, other: &&&Surprise<'_>| one.distance().total_cmp(&other.distance());
    let point = &rows[0].row.point;
    let over = match &*point.link {
        "none" => String::new(),
        link => format!(" over {link}"),
    };
    let Some(furthest) = missed.iter().max_by(far) else {
        return (rows.len() >= SOME).then(|| Finding {
            kind: "unexpected".into(),
            sentence: format!(
                "nothing of {}{over} was unexpected: {} predictions held",
                point.probe,
                rows.len()
            ),
            advice: None,
            evidence: rows.iter().map(|row| row.row.point.clone()).collect(),
        });
    };
    let unit = furthest.measured.unit;
    let range = (furthest.expected.low, furthest.expected.high);
    let ratio = furthest.missed_by.unwrap_or(1.0);
    let less = ratio < 1.0;
    let sentence = format!(
        "{} of {} predictions of {}{over} were missed; most unexpected is{}: {} of \
         {}, at least a factor of {:.1} {} than the {} {} predicted{}",
        missed.len(),
        rows.len(),
        point.probe,
        match circumstances(run, &furthest.row.point) {
            usual if usual.is_empty() => " the usual point".to_owned(),
            others => others,
        },
        furthest.expected.metric,
        unit.display(furthest.measured.median),
        if less { 1.0 / ratio } else { ratio },
        if less { "less" } else { "more" },
        unit.display_range(range, range.1),
        unit.symbol_of(range.1),
        points_to(furthest, less),
    );
    Some(Finding {
        kind: "unexpected".into(),
        sentence,
        advice: None,
        evidence: missed.iter().map(|row| row.row.point.clone()).collect(),
    })
}

/// What such a difference points to, as far as the ends' processors tell.
fn points_to(surprise: &Surprise<'_>, less: bool) -> String {
    let row = surprise.row;
    let ran = |metric| row.estimate(metric).map(|share| share.median);
    let ends = [
        ("sender", ran("sender_running")),
        ("receiver", ran("receiver_running")),
    ];
    let saturated: Vec<&str> = ends
        .iter()
        .filter(|(_, share)| share.is_some_and(|share| share >= SATURATED))
        .map(|(end, _)| *end)
        .collect();
    let known = || ends.iter().filter_map(|(_, share)| *share);
    let faster = match surprise.measured.better {
        Better::Higher => !less,
        Better::Lower => less,
        Better::Neither => false,
    };
    match saturated.as_slice() {
        _ if known().next().is_none() => String::new(),
        _ if faster => ": a piece costs less here than where it was measured alone".to_owned(),
        [] if known().all(|share| share < HAS_TIME) => {
            ": no end's processor was busy all the time, so it is waiting that no piece has"
                .to_owned()
        }
        [] => String::new(),
        ends => format!(
            ": the {} had no time left, so something it does is in no piece, or costs more here than \
             where it was measured alone",
            ends.join(" and the ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, point_row, run};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    /// A point of `copy.send` with its throughput in GB/s, of which 4 to 8 were expected.
    fn row(size: u64, gigabytes: f64, running: [f64; 2]) -> PointRow {
        let axes = Axes::default().with("size", size);
        let value = gigabytes * 1e9;
        let mut row = point_row(
            "copy.send",
            "throughput",
            axes,
            value,
            (0.9 * value, 1.1 * value),
        );
        row.metrics[0].better = Better::Higher;
        row.point.link = "sink".into();
        row.prediction = Some(Prediction {
            metric: "throughput".into(),
            low: 4e9,
            high: 8e9,
            because: "of its pieces".to_owned(),
        });
        for (name, share) in ["sender_running", "receiver_running"]
            .into_iter()
            .zip(running)
        {
            let mut estimate = row.metrics[0].clone();
            estimate.name = name.into();
            (estimate.median, estimate.ci95) = (share, None);
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
    fn what_is_furthest_is_told_with_what_it_points_to() {
        let rows = vec![
            row(64, 5.0, [1.0, 0.5]),
            row(128, 10.0, [1.0, 0.5]),
            row(256, 1.0, [1.0, 0.5]),
        ];
        let told = sentences(rows.clone());
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("2 of 3 predictions of copy.send over sink were missed"));
        assert!(
            told[0].contains("at least a factor of 3.6 less than the 4"),
            "{told:?}"
        );
        assert!(told[0].contains("the sender had no time left"), "{told:?}");
        let told = sentences(rows[..2].to_vec());
        assert!(
            told[0].contains("a factor of 1.1 more than the 4"),
            "{told:?}"
        );
        assert!(told[0].contains("a piece costs less here"), "{told:?}");
        let told = sentences(vec![row(64, 1.0, [0.5, 0.6])]);
        assert!(told[0].contains("waiting that no piece has"), "{told:?}");
    }

    #[test]
    fn what_takes_less_time_than_predicted_costs_less() {
        let latency = |ns: f64| {
            let mut row = row(64, ns / 1e9, [1.0, 0.5]);
            (row.metrics[0].name, row.metrics[0].better) = ("latency".into(), Better::Lower);
            row.prediction.as_mut().unwrap().metric = "latency".into();
            sentences(vec![row]).remove(0)
        };
        let less = latency(1e9);
        assert!(less.contains("less than the 4"), "{less}");
        assert!(less.contains("a piece costs less here"), "{less}");
        let more = latency(20e9);
        assert!(more.contains("more than the 4"), "{more}");
        assert!(more.contains("the sender had no time left"), "{more}");
    }

    #[test]
    fn where_all_was_as_expected_that_is_told_of_some_points() {
        let rows = vec![row(64, 5.0, [1.0, 0.5]); SOME];
        assert_eq!(
            sentences(rows.clone()),
            ["nothing of copy.send over sink was unexpected: 5 predictions held"]
        );
        assert!(sentences(rows[1..].to_vec()).is_empty());
    }

    #[test]
    fn a_busy_machine_is_no_surprise() {
        let mut busy = row(64, 1.0, [0.5, 0.6]);
        busy.warnings.push(Warning {
            kind: "others".into(),
            grade: Grade::D,
            what: String::new(),
            advice: String::new(),
        });
        let mut unpredicted = row(64, 1.0, [0.5, 0.6]);
        unpredicted.prediction = None;
        assert!(sentences(vec![busy, unpredicted]).is_empty());
    }
}
