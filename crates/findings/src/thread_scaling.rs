//! How much more several threads send than one.

use crate::finding::Finding;
use crate::memory_latency::facts;
use crate::ratio::LogRatio;
use crate::send_crossover::{PROBE, about, alike, circumstances};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

const METRIC: &str = "throughput";

/// One size at which one thread and the most were measured.
struct Scaled<'a> {
    size: u64,
    one: &'a PointRow,
    most: &'a PointRow,
    ratio: LogRatio,
}

/// For each primitive, link and circumstance, the most threads beside one.
pub(crate) fn thread_scaling(run: &Run) -> Vec<Finding> {
    let rows: Vec<&PointRow> = run
        .points
        .iter()
        .filter(|row| row.point.probe == PROBE)
        .collect();
    let mut done: Vec<Point> = Vec::new();
    let mut findings = Vec::new();
    for row in &rows {
        let all = alike(row, &["threads", "size"]);
        if done.contains(&all) {
            continue;
        }
        let group: Vec<&PointRow> = rows
            .iter()
            .copied()
            .filter(|other| alike(other, &["threads", "size"]) == all)
            .collect();
        findings.extend(found(run, &group, &all));
        done.push(all);
    }
    findings
}

fn found(run: &Run, group: &[&PointRow], common: &Point) -> Option<Finding> {
    let threads = |row: &PointRow| row.axes().find_number("threads");
    let most = group.iter().filter_map(|row| threads(row)).max()?;
    let ones = group.iter().filter(|row| threads(row) == Some(1));
    let mut scaled: Vec<Scaled<'_>> = ones
        .filter_map(|one| {
            let size = one.axes().find_number("size")?;
            let is_it = |row: &&&PointRow| {
                threads(row) == Some(most) && row.axes().find_number("size") == Some(size)
            };
            let most = group.iter().find(is_it)?;
            Some(Scaled {
                size,
                one,
                most,
                ratio: LogRatio::of(run, most, one, METRIC)?,
            })
        })
        .filter(|_| most > 1)
        .collect();
    scaled.sort_by_key(|scaled| scaled.size);
    let (smallest, largest) = (scaled.first()?.size, scaled.last()?.size);
    let ends = |of: fn(&LogRatio) -> f64| {
        let times = scaled.iter().map(|scaled| of(&scaled.ratio).exp());
        times.fold((f64::INFINITY, 0.0), |(least, greatest), times| {
            (f64::min(least, times), f64::max(greatest, times))
        })
    };
    let (least, greatest) = ends(|ratio| ratio.middle);
    let (low, high) = (ends(|ratio| ratio.low).0, ends(|ratio| ratio.high).1);
    let sizes = match smallest == largest {
        true => about(smallest as f64),
        false => format!("{} to {}", about(smallest as f64), about(largest as f64)),
    };
    let mut circumstances_of = common.clone();
    circumstances_of.axes.0.remove("primitive");
    let efficiency = |times: f64| 100.0 * times / most as f64;
    Some(Finding {
        kind: "thread_scaling".into(),
        sentence: format!(
            "{most} threads send {} times as much as one ({low:.2} to {high:.2}) by {} over {}{} at \
             {sizes}: {} % of {most} times{}",
            range((least, greatest), 2),
            common.axes.find_word("primitive").unwrap_or("?"),
            common.link,
            circumstances(run, &circumstances_of),
            range((efficiency(least), efficiency(greatest)), 0),
            limit(run, most, greatest),
        ),
        advice: None,
        evidence: scaled
            .iter()
            .flat_map(|scaled| [scaled.one.point.clone(), scaled.most.point.clone()])
            .collect(),
    })
}

/// Both ends of a range, or one where they look alike.
fn range((low, high): (f64, f64), digits: usize) -> String {
    let [low, high] = [low, high].map(|value| format!("{value:.digits$}"));
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}

/// What is sure to limit them: processors, where both ends' threads have fewer than one each.
fn limit(run: &Run, threads: u64, times: f64) -> String {
    let Some(processors) = facts(run).map(|facts| facts.usable_cpus().len() as u64) else {
        return String::new();
    };
    let both_ends = 2 * threads;
    match (1..both_ends).contains(&processors) && times < threads as f64 {
        true => format!(
            "; with those that receive, {both_ends} threads share {processors} {}",
            if processors == 1 {
                "processor"
            } else {
                "processors"
            }
        ),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;
    use costof_model::facts::CpuSet;

    fn row(threads: u64, size: u64, value: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", "two_copy")
            .with("size", size)
            .with("threads", threads);
        let mut row = point_row(PROBE, METRIC, axes, value, (0.98 * value, 1.02 * value));
        row.point.link = "veth".into();
        row
    }

    #[test]
    fn scaling_is_told_over_all_sizes_with_its_efficiency() {
        let mut run = run(&[]);
        for (threads, size, value) in [
            (1, 4096, 4.0),
            (8, 4096, 6.0),
            (2, 4096, 5.0),
            (1, 64, 1.0),
            (8, 64, 2.0),
        ] {
            run.points.push(row(threads, size, value));
        }
        let findings = thread_scaling(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence,
            "8 threads send 1.50 to 2.00 times as much as one (1.46 to 2.06) by two_copy over veth at \
             64B to 4KiB: 19 to 25 % of 8 times"
        );
        assert_eq!(findings[0].evidence.len(), 4);
    }

    #[test]
    fn processors_that_threads_share_are_named() {
        let mut run = run(&[]);
        run.points.push(row(1, 64, 1.0));
        assert_eq!(thread_scaling(&run), []);
        run.points.push(row(4, 64, 1.0));
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        facts.cpu.online = CpuSet::from_iter([0, 1]);
        let findings = thread_scaling(&run);
        let sentence = &findings[0].sentence;
        assert!(
            sentence.ends_with(
                "25 % of 4 times; with those that receive, 8 threads share 2 processors"
            ),
            "{sentence}"
        );
    }
}
