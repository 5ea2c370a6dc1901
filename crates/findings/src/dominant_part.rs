//! Of a cost that is made of others: which of them is most of it. Only where the run has measured the
//! part by itself, and its share is surely more than half.

use crate::finding::{Finding, grade_by_others, row};
use crate::missing_term::named;
use costof_model::axis::Axes;
use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

/// From which share on a part is most of the whole.
const MOST_OF_IT: f64 = 0.5;

/// A cost, and a part of it.
struct Composite {
    probe: &'static str,
    /// Words that the whole has on its axes.
    axes: &'static [(&'static str, &'static str)],
    part: Part,
    /// What the part is, after `of it`.
    is: &'static str,
}

/// What a part is measured by.
enum Part {
    /// Another metric of the same point.
    Metric(&'static str),
    /// So many times the answer of another probe with these words, and with those of the whole on
    /// these axes.
    Probe {
        times: f64,
        probe: &'static str,
        axes: &'static [(&'static str, &'static str)],
        shared: &'static [&'static str],
    },
}

const COMPOSITES: &[Composite] = &[
    Composite {
        probe: "os.context_switch",
        axes: &[("cpus", "same")],
        part: Part::Metric("switch_alone"),
        is: "waking, choosing and switching, and the rest what hands over the token",
    },
    Composite {
        probe: "os.context_switch",
        axes: &[("cpus", "same")],
        part: Part::Metric("over_alone"),
        is: "what hands over the token, and the rest waking, choosing and switching",
    },
    Composite {
        probe: "ipc.latency",
        axes: &[("over", "pipe"), ("wait", "block")],
        part: Part::Probe {
            times: 2.0,
            probe: "os.context_switch",
            axes: &[("between", "processes"), ("over", "pipe")],
            shared: &["cpus", "wake"],
        },
        is: "two context switches with their pipes' calls",
    },
    Composite {
        probe: "net.rtt",
        axes: &[("cpus", "cross"), ("wait", "block")],
        part: Part::Probe {
            times: 2.0,
            probe: "os.context_switch",
            axes: &[("between", "processes"), ("over", "futex")],
            shared: &["cpus", "wake"],
        },
        is: "two wake-ups of another processor, as by a futex",
    },
    Composite {
        probe: "os.mmap",
        axes: &[("populate", "no")],
        part: Part::Probe {
            times: 1.0,
            probe: "os.page_fault",
            axes: &[("kind", "minor_anonymous")],
            shared: &[],
        },
        is: "the one page fault",
    },
];

/// One sentence for each of these, about the first point that has a part which is most of it.
pub(crate) fn dominant_part(run: &Run) -> Vec<Finding> {
    COMPOSITES
        .iter()
        .filter_map(|composite| {
            let mut wholes = run.points.iter().filter(|row| {
                row.point.probe == composite.probe
                    && has(row.axes(), composite.axes)
                    && grade_by_others(row) <= Grade::B
                    // Over a link that delays, a round trip is mostly that.
                    && matches!(&*row.point.link, "none" | "loopback")
            });
            wholes.find_map(|whole| found(run, composite, whole))
        })
        .collect()
}

fn has(axes: &Axes, words: &[(&str, &str)]) -> bool {
    let is = |(axis, word): &(&str, &str)| axes.find_word(axis) == Some(word);
    words.iter().all(is)
}

fn found(run: &Run, composite: &Composite, whole: &PointRow) -> Option<Finding> {
    let interval = |row: &PointRow, metric: &str| {
        let estimate = row.estimate(metric)?;
        let (low, high) = estimate.ci95?;
        (estimate.unit == Unit::Nanoseconds && low > 0.0).then_some((low, estimate.median, high))
    };
    let mut evidence = vec![whole.point.clone()];
    let (low, middle, high) = match composite.part {
        Part::Metric(metric) => interval(whole, metric)?,
        Part::Probe {
            times,
            probe,
            axes,
            shared,
        } => {
            let shared = shared
                .iter()
                .map(|axis| Some((*axis, whole.axes().find_word(axis)?)))
                .collect::<Option<Vec<_>>>()?;
            let words: Vec<(&str, &str)> = axes.iter().copied().chain(shared).collect();
            let part = row(run, probe, &words)?;
            if grade_by_others(part) > Grade::B {
                return None;
            }
            evidence.push(part.point.clone());
            let (low, middle, high) = interval(part, &part.primary)?;
            (times * low, times * middle, times * high)
        }
    };
    let (whole_low, whole_middle, whole_high) = interval(whole, &whole.primary)?;
    let (least, most) = (low / whole_high, high / whole_low);
    // What is surely more than the whole is no part of it.
    if !(least > MOST_OF_IT && least <= 1.0) {
        return None;
    }
    let share = match most >= 1.0 {
        true => format!("at least {:.0} % of it", (100.0 * least).floor()),
        false => format!(
            "{:.0} % of it ({:.0} to {:.0})",
            100.0 * middle / whole_middle,
            100.0 * least,
            100.0 * most,
        ),
    };
    Some(Finding {
        kind: "dominant_part".into(),
        sentence: format!(
            "{} takes {}: {share} is {}",
            named(run, &whole.point),
            Unit::Nanoseconds.display(whole_middle),
            composite.is,
        ),
        advice: None,
        evidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};

    fn around(probe: &'static str, axes: Axes, ns: f64) -> PointRow {
        point_row(probe, "cost", axes, ns, (0.98 * ns, 1.02 * ns))
    }

    fn switch(over: &'static str, ns: f64) -> PointRow {
        let axes = Axes::default()
            .with("between", "processes")
            .with("over", over)
            .with("cpus", "cross")
            .with("wake", "awake");
        around("os.context_switch", axes, ns)
    }

    fn pipe(ns: f64) -> PointRow {
        let axes = Axes::default()
            .with("over", "pipe")
            .with("wait", "block")
            .with("cpus", "cross")
            .with("wake", "awake");
        around("ipc.latency", axes, ns)
    }

    #[test]
    fn a_part_that_is_surely_most_of_it_is_told() {
        let rows = [pipe(10_000.0), switch("pipe", 4000.0)];
        assert_eq!(
            sentences(dominant_part, &rows),
            [
                "ipc.latency takes 10.0 µs: 80 % of it (77 to 83) is two context switches with their \
                 pipes' calls"
            ]
        );
        for part in [switch("pipe", 2500.0), switch("futex", 4000.0)] {
            assert!(sentences(dominant_part, &[pipe(10_000.0), part]).is_empty());
        }
    }

    #[test]
    fn a_metric_of_the_same_point_may_be_the_part() {
        let axes = Axes::default().with("cpus", "same");
        let mut row = around("os.context_switch", axes, 1000.0);
        let mut part = row.metrics[0].clone();
        part.name = "switch_alone".into();
        (part.median, part.ci95) = (800.0, Some((790.0, 810.0)));
        row.metrics.push(part);
        let told = sentences(dominant_part, &[row]);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("os.context_switch takes 1.00 µs: 80 % of it (77 to 83) is waking")
        );
    }

    #[test]
    fn a_part_that_may_be_all_of_it_is_told_by_its_least() {
        let rows = [pipe(10_000.0), switch("pipe", 4950.0)];
        assert_eq!(
            sentences(dominant_part, &rows),
            [
                "ipc.latency takes 10.0 µs: at least 95 % of it is two context switches with their \
                 pipes' calls"
            ]
        );
    }

    #[test]
    fn a_part_that_is_surely_more_than_all_of_it_is_a_contradiction() {
        let rows = [pipe(10_000.0), switch("pipe", 6000.0)];
        assert!(sentences(dominant_part, &rows).is_empty());
    }
}
