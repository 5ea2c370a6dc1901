//! What it takes to stream through 1 MiB of main memory, as napkin maths counts it, and how much of
//! what its modules can that is.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use std::cmp::Ordering;

const MEBIBYTE: f64 = 1_048_576.0;

/// The time for 1 MiB, and the share of what the modules can.
pub(crate) fn sequential(run: &Run) -> Vec<Finding> {
    mebibyte(run).into_iter().chain(modules(run)).collect()
}

/// The time for 1 MiB, by what one thread reads, writes and copies in a size that
/// no claimed cache holds, with the instructions that were the fastest.
fn mebibyte(run: &Run) -> Option<Finding> {
    let rows: Vec<(&str, &PointRow)> = ["read", "written", "copied"]
        .into_iter()
        .zip(["read", "write", "copy"])
        .filter_map(|(done, op)| {
            let alone =
                in_main_memory(run, op).filter(|row| row.axes().find_number("threads") == Some(1));
            Some((
                done,
                alone.max_by_key(|row| row.axes().find_number("size"))?,
            ))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let times: Vec<String> = rows
        .iter()
        .filter_map(|(done, row)| {
            let bytes_a_second = row.estimate("throughput")?.median;
            let time = Unit::Nanoseconds.display(MEBIBYTE / bytes_a_second * 1e9);
            Some(format!("{done} in {time}{}", instructions(row)))
        })
        .collect();
    Some(Finding {
        kind: "sequential_mebibyte".into(),
        sentence: format!(
            "sequentially, by one thread, 1 MiB of main memory is {}",
            times.join(", ")
        ),
        advice: None,
        evidence: rows.iter().map(|(_, row)| row.point.clone()).collect(),
    })
}

/// The instructions of the kernel that won, in brackets; nothing where the row does
/// not say.
fn instructions(row: &PointRow) -> String {
    let metric = |name| row.estimate(name).map(|estimate| estimate.median);
    let Some(vector_bytes) = metric("vector_bytes") else {
        return String::new();
    };
    let vectors = if vector_bytes > 1.0 {
        format!("{vector_bytes}-byte vectors")
    } else {
        "a string instruction".to_owned()
    };
    match metric("nontemporal") {
        Some(nontemporal) if nontemporal > 0.0 => format!(" ({vectors}, non-temporal)"),
        _ => format!(" ({vectors})"),
    }
}

/// The most that is read from main memory, by however many threads, beside what its
/// modules can. Reading alone moves what is counted and nothing else.
fn modules(run: &Run) -> Option<Finding> {
    let modules = facts(run)?.memory.modules_bytes_per_s()?;
    let read = |row: &PointRow| row.estimate("throughput").map(|estimate| estimate.median);
    let fastest = in_main_memory(run, "read").max_by(|one, other| {
        read(one)
            .partial_cmp(&read(other))
            .unwrap_or(Ordering::Equal)
    })?;
    let (read, threads) = (read(fastest)?, fastest.axes().find_number("threads")?);
    let [shown, most] = [read, modules].map(|rate| Unit::BytesPerSecond.display(rate));
    let by = match threads {
        1 => "one thread".to_owned(),
        _ => format!("{threads} threads"),
    };
    Some(Finding {
        kind: "memory_modules_share".into(),
        sentence: format!(
            "main memory is read by {by} at {shown}, {:.0} % of the {most} that its modules can, by \
             the firmware's word",
            100.0 * read / modules
        ),
        advice: (read > modules)
            .then(|| "the firmware's word is wrong: a hypervisor may have made it up".to_owned()),
        evidence: vec![fastest.point.clone()],
    })
}

/// An operation on sizes that no claimed cache holds, by the fastest kernel; none
/// where no cache is claimed.
fn in_main_memory<'r>(run: &'r Run, op: &'r str) -> impl Iterator<Item = &'r PointRow> {
    let caches = facts(run)
        .into_iter()
        .flat_map(|facts| (1..=4).filter_map(|level| facts.claimed_cache(level)));
    let largest_cache = caches.map(|cache| cache.size_bytes).max();
    run.points
        .iter()
        .filter(|row| row.point.probe == "memory.bandwidth" && row.estimate("throughput").is_some())
        .filter(move |row| {
            row.axes().find_word("op") == Some(op) && row.axes().find_word("kernel") == Some("best")
        })
        .filter(move |row| {
            largest_cache.is_some_and(|cache| row.axes().find_number("size") > Some(cache))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, point_row, run};
    use costof_model::axis::Axes;
    use costof_model::facts::Dimm;

    fn stream(op: &'static str, size: u64, gigabytes_a_second: f64) -> PointRow {
        by_threads(1, op, size, gigabytes_a_second)
    }

    fn by_threads(threads: u64, op: &'static str, size: u64, gigabytes_a_second: f64) -> PointRow {
        let axes = Axes::default()
            .with("op", op)
            .with("size", size)
            .with("threads", threads)
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

    fn by_kernel(mut row: PointRow, vector_bytes: f64, nontemporal: f64) -> PointRow {
        for (name, value) in [("vector_bytes", vector_bytes), ("nontemporal", nontemporal)] {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median) = (name.into(), value);
            row.metrics.push(metric);
        }
        row
    }

    #[test]
    fn the_kernels_that_won_are_named() {
        let mut run = run(&CLAIMED);
        let rates = [
            ("read", 32.0, 0.0),
            ("write", 64.0, 1.0),
            ("copy", 1.0, 0.0),
        ];
        for (op, vector_bytes, nontemporal) in rates {
            let row = stream(op, 128 << 20, 20.0);
            run.points.push(by_kernel(row, vector_bytes, nontemporal));
        }
        assert_eq!(
            sequential(&run)[0].sentence,
            "sequentially, by one thread, 1 MiB of main memory is read in 52.4 µs (32-byte \
             vectors), written in 52.4 µs (64-byte vectors, non-temporal), copied in 52.4 µs (a \
             string instruction)"
        );
    }

    #[test]
    fn what_is_read_is_held_against_the_modules_where_the_firmware_tells_of_them() {
        let mut run = run(&CLAIMED);
        run.points.push(stream("read", 128 << 20, 20.0));
        run.points.push(by_threads(2, "read", 128 << 20, 32.0));
        assert_eq!(sequential(&run).len(), 1, "no word of the firmware's");
        let tell = |run: &mut Run, transfers_per_s| {
            let facts = run.attempts[0].hosts.get_mut("only").unwrap();
            facts.memory.channel_count = Some(2);
            facts.memory.dimms = vec![Dimm {
                configured_transfers_per_s: Some(transfers_per_s),
                width_bits: Some(64),
                ..Dimm::default()
            }];
        };
        tell(&mut run, 3_200_000_000);
        let findings = sequential(&run);
        assert_eq!(
            findings[1].sentence,
            "main memory is read by 2 threads at 32.0 GB/s, 62 % of the 51.2 GB/s that its modules \
             can, by the firmware's word"
        );
        assert_eq!(findings[1].advice, None);
        tell(&mut run, 1_600_000_000);
        assert!(sequential(&run)[1].advice.is_some(), "more than it can");
    }
}
