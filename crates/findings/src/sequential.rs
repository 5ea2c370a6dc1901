//! What it takes to stream through 1 MiB of main memory, as napkin maths counts it.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::axis::AxisValue;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

const MEBIBYTE: f64 = 1_048_576.0;

/// The time for 1 MiB, by what one thread reads, writes and copies in a size that
/// no claimed cache holds.
pub(crate) fn sequential(run: &Run) -> Vec<Finding> {
    let rows: Vec<(&str, &PointRow)> = ["read", "written", "copied"]
        .into_iter()
        .zip(["read", "write", "copy"])
        .filter_map(|(done, op)| Some((done, in_main_memory(run, op)?)))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let times: Vec<String> = rows
        .iter()
        .filter_map(|(done, row)| {
            let bytes_a_second = row.estimate("throughput")?.median;
            let time = Unit::Nanoseconds.display(MEBIBYTE / bytes_a_second * 1e9);
            Some(format!("{done} in {time}"))
        })
        .collect();
    vec![Finding {
        kind: "sequential_mebibyte".into(),
        sentence: format!(
            "sequentially, by one thread, 1 MiB of main memory is {}",
            times.join(", ")
        ),
        advice: None,
        evidence: rows.iter().map(|(_, row)| row.point.clone()).collect(),
    }]
}

/// The largest size of an operation, where no claimed cache holds it.
fn in_main_memory<'r>(run: &'r Run, op: &str) -> Option<&'r PointRow> {
    let facts = facts(run)?;
    let caches = (1..=4).filter_map(|level| facts.claimed_cache(level));
    let largest_cache = caches.map(|cache| cache.size_bytes).max()?;
    run.points
        .iter()
        .filter(|row| row.point.probe == "memory.bandwidth" && row.estimate("throughput").is_some())
        .filter(|row| word(row, "op") == Some(op) && word(row, "kernel") == Some("best"))
        .filter(|row| {
            number(row, "threads") == Some(1) && number(row, "size") > Some(largest_cache)
        })
        .max_by_key(|row| number(row, "size"))
}

fn word<'r>(row: &'r PointRow, axis: &str) -> Option<&'r str> {
    match row.axes().0.get(axis)? {
        AxisValue::Word(word) => Some(word),
        AxisValue::Number(_) => None,
    }
}

fn number(row: &PointRow, axis: &str) -> Option<u64> {
    match row.axes().0.get(axis)? {
        AxisValue::Number(number) => Some(*number),
        AxisValue::Word(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, point_row, run};
    use costof_model::axis::Axes;

    fn stream(op: &'static str, size: u64, gigabytes_a_second: f64) -> PointRow {
        let axes = Axes::default()
            .with("op", op)
            .with("size", size)
            .with("threads", 1)
            .with("kernel", "best");
        let rate = gigabytes_a_second * 1e9;
        point_row("memory.bandwidth", "throughput", axes, rate, (rate, rate))
    }

    #[test]
    fn only_what_no_cache_holds_is_main_memory() {
        let mut run = run(&CLAIMED);
        run.points.push(stream("read", 1 << 20, 100.0));
        assert_eq!(sequential(&run), []);
        run.points.push(stream("copy", 128 << 20, 10.0));
        run.points.push(stream("read", 128 << 20, 20.0));
        let findings = sequential(&run);
        assert_eq!(
            findings[0].sentence,
            "sequentially, by one thread, 1 MiB of main memory is read in 52.4 µs, copied in 105 µs"
        );
        assert_eq!(findings[0].evidence.len(), 2);
    }
}
