//! For a cost that consists of others, which part is most of it. A part counts only if the run measured it by
//! itself, and if its share is surely more than half.

use crate::naming::row_name;
use crate::text::{ns, percent, range};
use crate::{Finding, Kind};
use costof_model::{PointRow, Run, Unit};

/// From this share on, a part is most of the whole.
const MOST_OF_IT: f64 = 0.5;

/// Words on axes.
type Words = &'static [(&'static str, &'static str)];

/// A cost, and one of its parts.
struct Composite {
    probe: &'static str,
    /// The words on the axes of the whole.
    words: Words,
    part: Part,
    /// The name of the part, after `of it`.
    is: &'static str,
}

/// How a part is measured.
enum Part {
    /// Another metric of the same point.
    Metric(&'static str),
    /// This many times the result of another probe. Its point has these words, and on the shared axes the
    /// words of the whole.
    Probe { times: f64, probe: &'static str, words: Words, shared: &'static [&'static str] },
}

const COMPOSITES: &[Composite] = &[
    Composite {
        probe: "os.context_switch",
        words: &[("cpus", "same")],
        part: Part::Metric("switch_alone"),
        is: "waking, scheduling and switching; the rest hands over the token",
    },
    Composite {
        probe: "os.context_switch",
        words: &[("cpus", "same")],
        part: Part::Metric("over_alone"),
        is: "handing over the token; the rest is waking, scheduling and switching",
    },
    Composite {
        probe: "ipc.latency",
        words: &[("over", "pipe"), ("wait", "block")],
        part: Part::Probe {
            times: 2.0,
            probe: "os.context_switch",
            words: &[("between", "processes"), ("over", "pipe")],
            shared: &["cpus", "wake"],
        },
        is: "two context switches with their pipes' calls",
    },
    Composite {
        probe: "net.rtt",
        words: &[("cpus", "cross"), ("wait", "block")],
        part: Part::Probe {
            times: 2.0,
            probe: "os.context_switch",
            words: &[("between", "processes"), ("over", "futex")],
            shared: &["cpus", "wake"],
        },
        is: "two wake-ups of another CPU, as by a futex",
    },
    Composite {
        probe: "os.mmap",
        words: &[("populate", "no")],
        part: Part::Probe {
            times: 1.0,
            probe: "os.page_fault",
            words: &[("kind", "minor_anonymous")],
            shared: &[],
        },
        is: "the one page fault",
    },
];

/// For each composite, one finding about the first point in which a part is most of the cost.
pub(crate) fn dominant_part(run: &Run) -> Vec<Finding> {
    let found = COMPOSITES.iter().filter_map(|composite| {
        let wholes = run.select(composite.probe).words(composite.words);
        // Over a link with a delay, most of a round trip is that delay.
        let mut wholes =
            wholes.filter(|row| matches!(&*row.point.link, "none" | "loopback")).into_iter();
        wholes.find_map(|whole| finding(run, composite, whole))
    });
    found.collect()
}

fn finding(run: &Run, composite: &Composite, whole: &PointRow) -> Option<Finding> {
    let interval = |row: &PointRow, metric: &str| {
        let estimate = row.estimate(metric)?;
        let (low, high) = estimate.ci95?;
        (estimate.unit == Unit::Nanoseconds && low > 0.0).then_some([low, estimate.median, high])
    };
    let mut evidence = vec![whole];
    let [low, middle, high] = match composite.part {
        Part::Metric(metric) => interval(whole, metric)?,
        Part::Probe { times, probe, words, shared } => {
            let shared = shared.iter().map(|axis| Some((*axis, whole.word(axis)?)));
            let shared = shared.collect::<Option<Vec<_>>>()?;
            let part = run.select(probe).words(words).words(&shared).one()?;
            evidence.push(part);
            interval(part, &part.primary)?.map(|ns| times * ns)
        }
    };
    let [whole_low, whole_middle, whole_high] = interval(whole, &whole.primary)?;
    let (least, most) = (low / whole_high, high / whole_low);
    let share = if most >= 1.0 {
        format!("at least {} % of it", percent((100.0 * least).floor() / 100.0))
    } else {
        let share = percent(middle / whole_middle);
        format!("{share} % of it ({})", range((least, most), percent))
    };
    let (point, takes, part) = (row_name(run, whole), ns(whole_middle), composite.is);
    let sentence = format!("{point} takes {takes}: {share} is {part}");
    // A part that surely costs more than the whole is not a part of it.
    let is_most = least > MOST_OF_IT && least <= 1.0;
    is_most.then(|| Finding::new(Kind::DominantPart, evidence, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, begins, known_row, reads, sentences};
    use costof_model::Axes;

    fn around(probe: &'static str, axes: Axes, ns: f64) -> PointRow {
        known_row(probe, "cost", axes, ns, 0.02)
    }

    fn switch(over: &'static str, ns: f64) -> PointRow {
        let axes = axes!(between = "processes", over, cpus = "cross", wake = "awake");
        around("os.context_switch", axes, ns)
    }

    fn pipe(ns: f64) -> PointRow {
        let axes = axes!(over = "pipe", wait = "block", cpus = "cross", wake = "awake");
        around("ipc.latency", axes, ns)
    }

    #[test]
    fn a_part_that_is_surely_most_of_it_is_reported() {
        let rows = [pipe(10_000.0), switch("pipe", 4000.0)];
        reads!(sentences(dominant_part, &rows));
        for part in [switch("pipe", 2500.0), switch("futex", 4000.0)] {
            assert!(sentences(dominant_part, &[pipe(10_000.0), part]).is_empty());
        }
    }

    #[test]
    fn a_metric_of_the_same_point_may_be_the_part() {
        let axes = axes!(cpus = "same");
        let mut row = around("os.context_switch", axes, 1000.0);
        let mut part = row.metrics[0].clone();
        part.name = "switch_alone".into();
        (part.median, part.ci95) = (800.0, Some((790.0, 810.0)));
        row.metrics.push(part);
        let shown = sentences(dominant_part, &[row]);
        assert_eq!(shown.len(), 1);
        begins(&shown[0], "os.context_switch takes 1.00 µs: 80 % of it (77 to 83) is waking");
    }

    #[test]
    fn a_part_that_may_be_all_of_it_is_reported_by_its_least() {
        let rows = [pipe(10_000.0), switch("pipe", 4950.0)];
        reads!(sentences(dominant_part, &rows));
    }

    #[test]
    fn a_part_that_is_surely_more_than_all_of_it_is_a_contradiction() {
        let rows = [pipe(10_000.0), switch("pipe", 6000.0)];
        assert!(sentences(dominant_part, &rows).is_empty());
    }
}
