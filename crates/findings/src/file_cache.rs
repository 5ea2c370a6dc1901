//! Up to which size files come from memory, and what limits that.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::display_bytes;
use costof_stats::changepoints::{Level, half_way, level, levels};
use std::collections::BTreeMap;

const PROBE: &str = "file.cache_size";
const MIB: f64 = (1 << 20) as f64;
/// Below such a share of bytes from the device, none came from there.
const NONE: f64 = 0.01;
/// Sizes that tell where memory ends, as shares of what there is.
const SHARES: [f64; 9] = [0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15];
/// What was found is what was expected where it lies so near.
const NEAR: f64 = 1.1;

/// For each folder whose files were read.
pub(crate) fn file_cache(run: &Run) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&PointRow>> = BTreeMap::new();
    for row in run.points.iter().filter(|row| row.point.probe == PROBE) {
        let dir = row.axes().find_word("dir").unwrap_or("");
        folders.entry(dir).or_default().push(row);
    }
    folders
        .into_values()
        .filter_map(|rows| of_folder(facts(run), rows))
        .collect()
}

fn of_folder(facts: Option<&Facts>, mut rows: Vec<&PointRow>) -> Option<Finding> {
    rows.sort_by_key(|row| row.axes().find_number("size"));
    let curve_of = |step: &dyn Fn(&PointRow) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = rows.iter().filter_map(|row| {
            let size = row.axes().find_number("size")? as f64;
            Some((size, step(row)?))
        });
        points.collect()
    };
    let costs = curve_of(&|row| row.median("cost"));
    let is_a_curve = |curve: &[(f64, f64)]| {
        let is_a_point = |(size, cost): &(f64, f64)| *size > 0.0 && *cost > 0.0;
        curve.len() == rows.len()
            && curve.iter().all(is_a_point)
            && curve.windows(2).all(|pair| pair[0].0 < pair[1].0)
    };
    if !is_a_curve(&costs) {
        return None;
    }
    let evidence = rows.iter().map(|row| row.point.clone()).collect();
    // Bytes are counted, and a neighbour who makes all reads slow leaves the counts as they are:
    // where a disk counts them, each byte that is read again moves once, or twice from the device.
    let moved = curve_of(&|row| row.median("device_share").map(|share| 1.0 + share));
    let curve = if is_a_curve(&moved) { &moved } else { &costs };
    let levels = levels(curve);
    let rise = |(inner, outer): &(&Level, &Level)| outer.cost / inner.cost;
    let steps = levels.iter().zip(levels.iter().skip(1));
    let cliff = steps
        .filter(|step| rise(step) > 1.0)
        .max_by(|one, other| rise(one).total_cmp(&rise(other)));
    let Some((cached, device)) = cliff else {
        return no_cliff(facts?, &rows, evidence);
    };
    let at = half_way(curve, cached, device);
    let rate = |stretch: &Level| {
        let cost = level(&costs, stretch.first, stretch.last).cost;
        format!("{:.2} GB/s", MIB / cost)
    };
    let sentence = format!(
        "a file that is read again comes from memory up to about {} MiB, at {}, and from the device \
         beyond, at {}{}",
        (at / MIB).round(),
        rate(cached),
        rate(device),
        facts.map_or_else(String::new, |facts| limited(facts, at)),
    );
    Some(Finding {
        kind: "file_cache_size".into(),
        sentence,
        advice: None,
        evidence,
    })
}

/// Where the sizes end before what the facts leave does: which to ask for.
fn no_cliff(facts: &Facts, rows: &[&PointRow], evidence: Vec<Point>) -> Option<Finding> {
    let is_cached = |row: &&&PointRow| {
        let share = row.median("device_share");
        share.is_some_and(|share| share < NONE)
    };
    let all_cached = rows.iter().filter(is_cached).count() == rows.len();
    let largest = rows.last()?.axes().find_number("size")?;
    let leave = facts.most_cached_bytes()?;
    let sizes = SHARES.map(|share| format!("{}MiB", (share * leave as f64 / MIB) as u64));
    (all_cached && largest < leave).then(|| Finding {
        kind: "file_cache_size".into(),
        sentence: format!(
            "files of up to {} come from memory when they are read again, which is no limit: the \
             facts leave {} MiB",
            display_bytes(largest),
            leave >> 20
        ),
        advice: Some(format!(
            "`costof run file.cache_size --timeout 600 --set size={}` looks for one, in minutes, \
             and needs as much of the disk",
            sizes.join(",")
        )),
        evidence,
    })
}

/// What limits it, as far as the facts tell.
fn limited(facts: &Facts, at: f64) -> String {
    let named = |bytes: u64, what: &str| {
        let bytes = bytes as f64;
        let is_near = (at / bytes).max(bytes / at) <= NEAR;
        is_near.then(|| format!("{what} {} MiB", (bytes / MIB).round()))
    };
    let group = facts.inherited.cgroup.memory_limit_bytes;
    let group = group.and_then(|bytes| named(bytes, "the control group's memory limit,"));
    let memory = || {
        let available = facts.memory.available_bytes?;
        named(available, "the memory that was available,")
    };
    match group.or_else(memory) {
        Some(limit) => format!(
            ": what limits it is {limit}; nothing of it was dirty, so no limit on dirty pages does"
        ),
        None => facts.most_cached_bytes().map_or_else(String::new, |bytes| {
            format!(
                ", where the facts have {} MiB: something that they do not tell limits it",
                (bytes as f64 / MIB).round()
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;

    /// Sizes in MiB around 400, and the cost of a block of each.
    fn curve(limit_mib: u64) -> Run {
        let mut run = run(&[]);
        for size in [100, 160, 220, 280, 320, 340, 360, 380, 400, 420, 440, 480] {
            let cost = if size <= limit_mib { 70e3 } else { 900e3 };
            let axes = Axes::default()
                .with("size", size << 20)
                .with("dir", "temporary");
            let row = point_row(PROBE, "cost", axes, cost, (cost, cost));
            run.points.push(row);
        }
        run
    }

    fn with_limit(run: &mut Run, limit: Option<u64>, available: u64) {
        let host = run.attempts.last_mut().unwrap().hosts.values_mut().next();
        let facts = host.unwrap();
        facts.inherited.cgroup.memory_limit_bytes = limit;
        facts.memory.available_bytes = Some(available);
    }

    #[test]
    fn the_cliff_is_found_and_what_limits_it() {
        let mut run = curve(380);
        with_limit(&mut run, Some(400 << 20), 8 << 30);
        let findings = file_cache(&run);
        let sentence = &findings[0].sentence;
        assert!(sentence.contains("up to about 39"), "{sentence}");
        assert!(
            sentence.contains("control group's memory limit, 400 MiB"),
            "{sentence}"
        );
        with_limit(&mut run, None, 400 << 20);
        assert!(
            file_cache(&run)[0]
                .sentence
                .contains("memory that was available")
        );
        with_limit(&mut run, None, 8 << 30);
        assert!(file_cache(&run)[0].sentence.contains("do not tell"));
    }

    #[test]
    fn reads_that_a_neighbour_slows_hide_no_cliff_that_is_counted() {
        let mut run = curve(320);
        with_limit(&mut run, Some(320 << 20), 8 << 30);
        let slow = [85e3, 76e3, 79e3, 132e3, 158e3, 109e3, 548e3, 420e3, 900e3];
        for (position, row) in run.points.iter_mut().enumerate() {
            let is_cached = row.axes().number("size") <= 320 << 20;
            if let Some(cost) = slow.get(position) {
                row.metrics[0].median = *cost;
            }
            let mut share = row.metrics[0].clone();
            share.name = "device_share".into();
            share.median = if is_cached { 0.0 } else { 1.0 };
            row.metrics.push(share);
        }
        let sentence = &file_cache(&run)[0].sentence;
        assert!(sentence.contains("limit, 320 MiB"), "{sentence}");
    }

    #[test]
    fn shares_that_no_run_can_have_are_not_looked_at() {
        for share in [-2.0, -1.0, f64::NAN] {
            let mut run = curve(380);
            with_limit(&mut run, Some(400 << 20), 8 << 30);
            let by_cost = file_cache(&run);
            for row in &mut run.points {
                let mut of_device = row.metrics[0].clone();
                of_device.name = "device_share".into();
                of_device.median = share;
                row.metrics.push(of_device);
            }
            assert_eq!(file_cache(&run), by_cost);
        }
    }

    #[test]
    fn sizes_that_end_too_early_are_told_with_those_to_ask_for() {
        let mut run = run(&[]);
        let axes = Axes::default()
            .with("size", 64 << 20)
            .with("dir", "temporary");
        let mut row = point_row(PROBE, "cost", axes, 70e3, (70e3, 70e3));
        let mut share = row.metrics[0].clone();
        share.name = "device_share".into();
        share.median = 0.0;
        row.metrics.push(share);
        run.points.push(row);
        with_limit(&mut run, None, 8 << 30);
        let findings = file_cache(&run);
        let sentence = &findings[0].sentence;
        assert!(sentence.contains("up to 64MiB"), "{sentence}");
        assert!(sentence.contains("8192 MiB"), "{sentence}");
        let advice = findings[0].advice.as_deref().unwrap();
        assert!(
            advice.contains("4096MiB") && advice.contains("8192MiB"),
            "{advice}"
        );
    }

    #[test]
    fn without_a_cliff_nothing_is_said() {
        assert_eq!(file_cache(&run(&[])), []);
        assert_eq!(file_cache(&curve(1000)), []);
    }
}
