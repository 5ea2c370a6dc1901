//! Finds the size up to which files are read from memory, and what limits it.

use crate::text::{bytes, maybe, whole};
use crate::{Finding, Kind};
use costof_model::{Facts, PointRow, Run};
use costof_stats::changepoints::{Level, half_way, level, levels};

const MIB: f64 = (1 << 20) as f64;
/// Below this share of bytes from the device, none counts as coming from there.
const NONE: f64 = 0.01;
/// Sizes that show where memory ends, as shares of the expected size.
const SHARES: [f64; 9] = [0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15];
/// A result within this factor of the expected size confirms it.
const NEAR: f64 = 1.1;

/// A finding for each folder whose files were read.
pub(crate) fn file_cache(run: &Run) -> Vec<Finding> {
    let rows = run.select("file.cache_size");
    let mut folders = rows.group_with(|row| Some(row.word("dir").unwrap_or("")));
    folders.sort_by_key(|(dir, _)| *dir);
    let found = folders.into_iter().filter_map(|(_, rows)| {
        // If a row has no size, the rows make no curve.
        let count = rows.len();
        let rows = rows.by_number("size");
        (rows.len() == count).then_some(rows)
    });
    found.filter_map(|rows| in_folder(run.facts(), &rows)).collect()
}

fn in_folder(facts: Option<&Facts>, rows: &[(u64, &PointRow)]) -> Option<Finding> {
    let curve = |step: fn(&PointRow) -> Option<f64>| -> Option<Vec<(f64, f64)>> {
        let points = rows.iter().map(|(size, row)| Some((*size as f64, step(row)?)));
        let points: Vec<(f64, f64)> = points.collect::<Option<_>>()?;
        let are_positive = points.iter().all(|(size, cost)| *size > 0.0 && *cost > 0.0);
        let ascend = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (are_positive && ascend).then_some(points)
    };
    let costs = curve(|row| row.median("cost"))?;
    // Counts of bytes are better than times, because a neighbour who slows all reads does not change them. If
    // the disk counts bytes, each byte that is read again moves once from memory, or twice if it comes from
    // the device.
    let moved = curve(|row| row.median("device_share").map(|share| 1.0 + share));
    let curve = moved.as_ref().unwrap_or(&costs);
    let levels = levels(curve);
    let rise = |(inner, outer): &(&Level, &Level)| outer.cost / inner.cost;
    let steps = levels.iter().zip(levels.iter().skip(1));
    let cliff = steps
        .filter(|step| rise(step) > 1.0)
        .max_by(|one, other| rise(one).total_cmp(&rise(other)));
    let Some((cached, device)) = cliff else {
        return no_cliff(facts?, rows);
    };
    let at = half_way(curve, cached, device);
    let speed = |stretch: &Level| MIB / level(&costs, stretch.first, stretch.last).cost;
    let limit = maybe(facts, |facts| limit(facts, at));
    let sentence = format!(
        "a file that is read again comes from memory up to about {size} MiB, at {cached:.2} GB/s, and from the device \
         beyond, at {device:.2} GB/s{limit}",
        size = mib(at),
        cached = speed(cached),
        device = speed(device),
    );
    let evidence = rows.iter().map(|(_, row)| *row);
    Some(Finding::new(Kind::FileCacheSize, evidence, sentence))
}

fn mib(bytes: f64) -> String {
    whole((bytes / MIB).round())
}

/// If all sizes end below the expected one: which size to measure.
fn no_cliff(facts: &Facts, rows: &[(u64, &PointRow)]) -> Option<Finding> {
    let share = |row: &PointRow| row.median("device_share");
    let all_cached = rows.iter().all(|(_, row)| share(row).is_some_and(|share| share < NONE));
    let (largest, _) = *rows.last()?;
    let leave = facts.most_cached_bytes()?;
    let sizes = SHARES.map(|share| format!("{}MiB", (share * leave as f64 / MIB) as u64));
    let (read, leaves, sizes) = (bytes(largest), leave >> 20, sizes.join(","));
    let sentence = format!(
        "files of up to {read} come from memory when they are read again: the limit was not reached, and the \
         machine reports {leaves} MiB"
    );
    let advice = format!(
        "`costof run file.cache_size --timeout 600 --set size={sizes}` looks for the limit; it takes minutes, \
         and as much disk space"
    );
    let evidence = rows.iter().map(|(_, row)| *row);
    let is_below = all_cached && largest < leave;
    is_below.then(|| Finding::new(Kind::FileCacheSize, evidence, sentence).advise(advice))
}

/// The reason for the limit, as far as the facts show it.
fn limit(facts: &Facts, at: f64) -> String {
    let near = |bytes: &u64| (at / *bytes as f64).max(*bytes as f64 / at) <= NEAR;
    let mib = |bytes: u64| mib(bytes as f64);
    let group = facts.inherited.cgroup.memory_limit_bytes.filter(near);
    let memory = facts.memory.available_bytes.filter(near);
    let what = match (group, memory, facts.most_cached_bytes()) {
        (Some(bytes), ..) => format!("the control group's memory limit, {} MiB", mib(bytes)),
        (_, Some(bytes), _) => format!("the memory that was available, {} MiB", mib(bytes)),
        (.., Some(bytes)) => {
            return format!(
                ", although the machine reports {} MiB: the actual limit is unknown",
                mib(bytes)
            );
        }
        _ => return String::new(),
    };
    format!(": the limit is {what}; no page was dirty, so no limit on dirty pages applies")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{add_metric, axes, contains, point_row, run};

    /// Sizes in MiB around 400, each with the cost of a block.
    fn curve(limit_mib: u64) -> Run {
        let mut run = run(&[]);
        for size in [100, 160, 220, 280, 320, 340, 360, 380, 400, 420, 440, 480] {
            let cost = if size <= limit_mib { 70e3 } else { 900e3 };
            let axes = axes!(size = size << 20, dir = "temporary");
            let row = point_row("file.cache_size", "cost", axes, cost, (cost, cost));
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
        let sentence = findings[0].sentence.clone();
        contains(&sentence, "up to about 39");
        contains(&sentence, "memory limit, 400 MiB");
        with_limit(&mut run, None, 400 << 20);
        assert!(file_cache(&run)[0].sentence.contains("memory that was available"));
        with_limit(&mut run, None, 8 << 30);
        assert!(file_cache(&run)[0].sentence.contains("is unknown"));
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
            add_metric(row, "device_share", if is_cached { 0.0 } else { 1.0 });
        }
        let sentence = file_cache(&run)[0].sentence.clone();
        contains(&sentence, "limit, 320 MiB");
    }

    #[test]
    fn shares_that_no_run_can_have_are_not_looked_at() {
        for share in [-2.0, -1.0, f64::NAN] {
            let mut run = curve(380);
            with_limit(&mut run, Some(400 << 20), 8 << 30);
            let by_cost = file_cache(&run);
            for row in &mut run.points {
                add_metric(row, "device_share", share);
            }
            assert_eq!(file_cache(&run), by_cost);
        }
    }

    #[test]
    fn sizes_that_end_too_early_are_reported_with_those_to_ask_for() {
        let mut run = run(&[]);
        let axes = axes!(size = 64 << 20, dir = "temporary");
        let mut row = point_row("file.cache_size", "cost", axes, 70e3, (70e3, 70e3));
        add_metric(&mut row, "device_share", 0.0);
        run.points.push(row);
        with_limit(&mut run, None, 8 << 30);
        let findings = file_cache(&run);
        let sentence = findings[0].sentence.clone();
        contains(&sentence, "up to 64MiB");
        contains(&sentence, "8192 MiB");
        let advice = findings[0].advice.clone().unwrap();
        assert!(advice.contains("4096MiB") && advice.contains("8192MiB"), "{advice}");
    }

    #[test]
    fn without_a_cliff_nothing_is_said() {
        assert_eq!(file_cache(&run(&[])), []);
        assert_eq!(file_cache(&curve(1000)), []);
    }
}
