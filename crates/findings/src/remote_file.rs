//! What limits the reading of a remote file: the link, the server, this end, or that one call waits for
//! the other.

use crate::finding::{Finding, grade_by_others};
use crate::send_crossover::groups;
use costof_model::noise::Grade;
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

const PROBE: &str = "file.remote";
/// From which share of its time on this end's processor limits.
const BUSY: f64 = 0.9;
/// How many times as long a handshake takes where packets wait in the link, at least.
const WAITS: f64 = 3.0;
/// By how much longer, at least, in nanoseconds: processors that are woken explain less.
const WAITS_NS: f64 = 100_000.0;

/// For each path, what limits its throughput, and what a small read by itself consists of.
pub(crate) fn remote_file(run: &Run) -> Vec<Finding> {
    let rows = run.points.iter().filter(|row| {
        row.point.probe == PROBE && row.state == State::Ok && grade_by_others(row) < Grade::D
    });
    let paths = groups(rows, &["pattern", "block", "depth"]);
    let found = paths
        .iter()
        .flat_map(|(_, rows)| [limit(rows), parts(rows)]);
    found.flatten().collect()
}

fn number(row: &PointRow, axis: &str) -> u64 {
    row.axes().find_number(axis).unwrap_or(0)
}

fn word<'r>(row: &'r PointRow, axis: &str) -> &'r str {
    row.axes().find_word(axis).unwrap_or("?")
}

fn ns(ns: f64) -> String {
    Unit::Nanoseconds.display(ns)
}

/// What limits the point at which most is read.
fn limit(rows: &[&PointRow]) -> Option<Finding> {
    let throughput = |row: &&&PointRow| row.median("throughput").unwrap_or(0.0);
    let fastest = rows
        .iter()
        .max_by(|one, other| throughput(one).total_cmp(&throughput(other)))?;
    let bytes_a_second = fastest.median("throughput")?;
    let busy = fastest.median("cpu")? * bytes_a_second / 1024.0 / 1e9;
    let handshakes = fastest
        .median("handshake")
        .zip(fastest.median("handshake_loaded"));
    let deeper = |row: &&&PointRow| {
        number(row, "depth") > 1
            && number(row, "block") == number(fastest, "block")
            && word(row, "pattern") == word(fastest, "pattern")
    };
    let depth = number(fastest, "depth");
    let (by, advice) = if busy > BUSY {
        let by = "this end's processor, which it keeps busy all the time".to_owned();
        (by, None)
    } else if let Some((alone, loaded)) = handshakes
        && loaded > WAITS * alone
        && loaded - alone > WAITS_NS
    {
        let by = format!(
            "the link, in which packets wait: a handshake with the server's kernel takes {} while \
             the file is read and {} otherwise",
            ns(loaded),
            ns(alone)
        );
        (by, None)
    } else if depth == 1 && rows.iter().find(deeper).is_none() {
        let by = "that each call waits for the one before".to_owned();
        (
            by,
            Some("measure it with several under way (--set depth=1,16)".to_owned()),
        )
    } else if let Some((alone, loaded)) = handshakes {
        let by = format!(
            "the server: no packets wait in the link (a handshake takes {} while the file is read \
             and {} otherwise), and this end's processor is busy for {:.0} % of the time",
            ns(loaded),
            ns(alone),
            100.0 * busy
        );
        (by, None)
    } else {
        let by = format!(
            "the link or the server: this end's processor is busy for {:.0} % of the time",
            100.0 * busy
        );
        (by, None)
    };
    Some(Finding {
        kind: "remote_file_limit".into(),
        sentence: format!(
            "{} is read at {} at most, {} in blocks of {} with {depth} under way; what limits it is {by}",
            word(fastest, "path"),
            Unit::BytesPerSecond.display(bytes_a_second),
            match word(fastest, "pattern") {
                "random" => "randomly",
                _ => "sequentially",
            },
            display_bytes(number(fastest, "block")),
        ),
        advice,
        evidence: vec![fastest.point.clone()],
    })
}

/// What the smallest random read consists of, one at a time: the link's round trip, what a server takes
/// to do nothing, and the rest.
fn parts(rows: &[&PointRow]) -> Option<Finding> {
    let alone = rows.iter().filter(|row| number(row, "depth") == 1);
    let small = alone.min_by_key(|row| (number(row, "block"), word(row, "pattern") != "random"))?;
    let latency = small.median("latency")?;
    let (call, handshake) = (small.median("null_call")?, small.median("handshake")?);
    if call < handshake || latency < call {
        return None;
    }
    Some(Finding {
        kind: "remote_read_parts".into(),
        sentence: format!(
            "of the {} that a block of {} of {} takes by itself, {} are a handshake's round trip, {} \
             more what the server and being woken take for a call that does nothing, and {} the block",
            ns(latency),
            display_bytes(number(small, "block")),
            word(small, "path"),
            ns(handshake),
            ns(call - handshake),
            ns(latency - call),
        ),
        advice: None,
        evidence: vec![small.point.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};
    use costof_model::axis::Axes;

    /// A point with its latency, throughput, and processor time for a KiB, and the handshakes alone and
    /// under load.
    fn row(block: u64, depth: u64, rate: f64, cpu_ns: f64, handshakes: (f64, f64)) -> PointRow {
        let axes = Axes::default()
            .with("path", "nfs://h/e/f")
            .with("pattern", "random")
            .with("block", block)
            .with("depth", depth);
        let latency = 40_000.0;
        let mut row = point_row(PROBE, "latency", axes, latency, (latency, latency));
        for (name, unit, value) in [
            ("throughput", Unit::BytesPerSecond, rate),
            ("null_call", Unit::Nanoseconds, 30_000.0),
            ("handshake", Unit::Nanoseconds, handshakes.0),
            ("handshake_loaded", Unit::Nanoseconds, handshakes.1),
            ("cpu", Unit::Nanoseconds, cpu_ns),
        ] {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.unit, metric.median) = (name.into(), unit, value);
            metric.ci95 = None;
            row.metrics.push(metric);
        }
        row
    }

    const QUIET: (f64, f64) = (8_000.0, 9_000.0);

    #[test]
    fn packets_that_wait_say_that_it_is_the_link() {
        let rows = [
            row(4096, 1, 9e6, 500.0, QUIET),
            row(1 << 20, 16, 11.9e6, 500.0, (8_000.0, 9.5e6)),
        ];
        let found = sentences(remote_file, &rows);
        assert_eq!(
            found[0],
            "nfs://h/e/f is read at 11.9 MB/s at most, randomly in blocks of 1MiB with 16 under way; \
             what limits it is the link, in which packets wait: a handshake with the server's kernel \
             takes 9.50 ms while the file is read and 8.00 µs otherwise"
        );
        assert_eq!(
            found[1],
            "of the 40.0 µs that a block of 4KiB of nfs://h/e/f takes by itself, 8.00 µs are a \
             handshake's round trip, 22.0 µs more what the server and being woken take for a call \
             that does nothing, and 10.0 µs the block"
        );
    }

    #[test]
    fn without_them_it_is_the_server_this_end_or_one_call_at_a_time() {
        let limit = |rows: &[PointRow]| sentences(remote_file, rows).remove(0);
        let server = limit(&[
            row(4096, 1, 100e6, 500.0, QUIET),
            row(4096, 16, 101e6, 500.0, QUIET),
        ]);
        assert!(
            server.contains("is the server: no packets wait"),
            "{server}"
        );
        // What is under way before makes nothing faster.
        let server = limit(&[
            row(4096, 1, 102e6, 500.0, QUIET),
            row(4096, 16, 101e6, 500.0, QUIET),
        ]);
        assert!(
            server.contains("is the server: no packets wait"),
            "{server}"
        );
        let alone = limit(&[row(4096, 1, 100e6, 500.0, QUIET)]);
        assert!(
            alone.contains("each call waits for the one before"),
            "{alone}"
        );
        // 1,000 ns for a KiB, a million times a second.
        let busy = limit(&[row(4096, 16, 1.024e9, 1000.0, (8_000.0, 9.5e6))]);
        assert!(busy.contains("is this end's processor"), "{busy}");
    }

    #[test]
    fn a_mounted_path_has_no_handshake() {
        let mut mounted = row(4096, 16, 100e6, 500.0, QUIET);
        mounted
            .metrics
            .retain(|metric| !metric.name.starts_with("handshake"));
        let found = sentences(remote_file, &[mounted]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("is the link or the server"),
            "{}",
            found[0]
        );
    }
}
