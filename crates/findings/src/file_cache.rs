//! Finds the size up to which files are read from memory.

use crate::prelude::*;
use costof_stats::changepoints::{Level, half_way, level, levels};

const MIB: f64 = (1 << 20) as f64;
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
    found.filter_map(|rows| in_folder(&rows)).collect()
}

fn in_folder(rows: &[(u64, &PointRow)]) -> Option<Finding> {
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
    let (cached, device) = cliff?;
    let at = half_way(curve, cached, device);
    let speed = |stretch: &Level| MIB / level(&costs, stretch.first, stretch.last).cost;
    let sentence = format!(
        "a file that is read again comes from memory up to about {size} MiB, at {cached:.2} GB/s, and from the device \
         beyond, at {device:.2} GB/s",
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

    #[test]
    fn the_cliff_is_found() {
        contains(&file_cache(&curve(380))[0].sentence, "up to about 39");
    }

    #[test]
    fn reads_that_a_neighbour_slows_hide_no_cliff_that_is_counted() {
        let mut run = curve(320);
        let slow = [85e3, 76e3, 79e3, 132e3, 158e3, 109e3, 548e3, 420e3, 900e3];
        for (position, row) in run.points.iter_mut().enumerate() {
            let is_cached = row.axes().number("size") <= 320 << 20;
            if let Some(cost) = slow.get(position) {
                row.metrics[0].median = *cost;
            }
            add_metric(row, "device_share", if is_cached { 0.0 } else { 1.0 });
        }
        let sentence = file_cache(&run)[0].sentence.clone();
        contains(&sentence, "up to about 33");
    }

    #[test]
    fn shares_that_no_run_can_have_are_not_looked_at() {
        for share in [-2.0, -1.0, f64::NAN] {
            let mut run = curve(380);
            let by_cost = file_cache(&run);
            for row in &mut run.points {
                add_metric(row, "device_share", share);
            }
            assert_eq!(file_cache(&run), by_cost);
        }
    }

    #[test]
    fn without_a_cliff_nothing_is_said() {
        assert_eq!(file_cache(&run(&[])), []);
        assert_eq!(file_cache(&curve(1000)), []);
    }
}
