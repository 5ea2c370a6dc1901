//! Finds what limits reads of a remote file: the link, the server, the client, or the wait of one call for
//! the one before.

use crate::prelude::*;
use costof_model::State;

/// From this share of its time on, the client's CPU is the limit.
const BUSY: f64 = 0.9;
/// If packets wait in the link, a handshake takes at least this many times as long.
const WAITS: f64 = 3.0;
/// It also takes at least this much longer, since the wake-ups of CPUs explain a smaller difference.
const WAITS_NS: f64 = 100_000.0;

/// For each path, the limit of its throughput, and the parts of one small read.
pub(crate) fn remote_file(run: &Run) -> Vec<Finding> {
    let rows = run.select("file.remote").filter(|row| row.state == State::Ok);
    let paths = rows.group_by(&["pattern", "block", "size", "depth"]).into_iter();
    let found = paths.flat_map(|path| [limit(&path.rows), parts(&path.rows)]);
    found.flatten().collect()
}

fn number(row: &PointRow, axis: &str) -> u64 {
    row.number(axis).unwrap_or(0)
}

/// The limit at the point with the highest throughput.
fn limit(rows: &Select<'_>) -> Option<Finding> {
    let throughput = |row: &PointRow| row.median("throughput").unwrap_or(0.0);
    let fastest = greatest(rows.iter().copied(), throughput)?;
    let bytes_per_s = fastest.median("throughput")?;
    let busy = fastest.median("cpu")? * bytes_per_s / 1024.0 / 1e9;
    let alone = fastest.median("handshake");
    let handshakes = alone.zip(fastest.median("handshake_loaded"));
    let deeper = |row: &PointRow| {
        number(row, "depth") > 1
            && number(row, "block") == number(fastest, "block")
            && row.word("pattern") == fastest.word("pattern")
    };
    let depth = number(fastest, "depth");
    let is_queued = |(alone, loaded)| loaded > WAITS * alone && loaded - alone > WAITS_NS;
    let is_alone = depth == 1 && !rows.iter().any(|row| deeper(row));
    let takes = || {
        let (alone, loaded) = handshakes.unwrap_or_default();
        format!("takes {} while the file is read and {} otherwise", ns(loaded), ns(alone))
    };
    let is_busy = format!("this end's CPU is busy {} % of the time", percent(busy));
    let mut waits = false;
    let limit = match handshakes {
        _ if busy > BUSY => "this end's CPU, which it keeps busy all the time".to_owned(),
        Some(handshakes) if is_queued(handshakes) => format!(
            "the link, in which packets wait: a handshake with the server's kernel {}",
            takes()
        ),
        _ if is_alone => {
            waits = true;
            "that each call waits for the one before".to_owned()
        }
        Some(_) => format!(
            "the server: no packets wait in the link (a handshake {}), and {is_busy}",
            takes()
        ),
        None => format!("the link or the server: {is_busy}"),
    };
    let is_random = fastest.word("pattern") == Some("random");
    let sentence = format!(
        "{path} is read at {rate} at most, {order} in blocks of {block} with {depth} in flight; the limit is {limit}",
        path = fastest.word("path").unwrap_or("?"),
        rate = rate(bytes_per_s),
        order = if is_random { "randomly" } else { "sequentially" },
        block = bytes(number(fastest, "block")),
    );
    let advice = when(waits, "measure it with several in flight (--set depth=1,16)");
    Some(Finding::new(Kind::RemoteFileLimit, [fastest], sentence).advise(advice))
}

/// The parts of the smallest random read with one in flight: the link's round trip, the time in which a
/// server does nothing, and the rest.
fn parts(rows: &Select<'_>) -> Option<Finding> {
    let alone = rows.clone().with_value("depth", 1).into_iter();
    let small =
        alone.min_by_key(|row| (number(row, "block"), row.word("pattern") != Some("random")))?;
    let latency = small.median("latency")?;
    let (call, handshake) = (small.median("null_call")?, small.median("handshake")?);
    let sentence = format!(
        "a block of {size} of {path} by itself takes {latency}: {handshake} for a handshake's round trip, {call} more \
         for a call that does nothing (the server, and waking up), and {block} for the block",
        size = bytes(number(small, "block")),
        path = small.word("path").unwrap_or("?"),
        latency = ns(latency),
        handshake = ns(handshake),
        call = ns(call - handshake),
        block = ns(latency - call),
    );
    let adds_up = handshake <= call && call <= latency;
    adds_up.then(|| Finding::new(Kind::RemoteReadParts, [small], sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, contains, point_row, reads, sentences};
    use costof_model::Unit;

    /// A point with its latency, throughput, and CPU time per KiB, and handshakes alone and under
    /// load.
    fn row(block: u64, depth: u64, rate: f64, cpu_ns: f64, handshakes: (f64, f64)) -> PointRow {
        let axes = axes!(path = "nfs://h/e/f", pattern = "random", block, depth);
        let latency = 40_000.0;
        let mut row = point_row("file.remote", "latency", axes, latency, (latency, latency));
        for (name, unit, value) in [
            ("throughput", Unit::BytesPerSecond, rate),
            ("null_call", Unit::Nanoseconds, 30_000.0),
            ("handshake", Unit::Nanoseconds, handshakes.0),
            ("handshake_loaded", Unit::Nanoseconds, handshakes.1),
            ("cpu", Unit::Nanoseconds, cpu_ns),
        ] {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.unit, metric.median) = (name.into(), unit, value);
            metric.ci95 = Some((value, value));
            row.metrics.push(metric);
        }
        row
    }

    const QUIET: (f64, f64) = (8_000.0, 9_000.0);

    #[test]
    fn packets_that_wait_say_that_it_is_the_link() {
        let rows =
            [row(4096, 1, 9e6, 500.0, QUIET), row(1 << 20, 16, 11.9e6, 500.0, (8_000.0, 9.5e6))];
        let found = sentences(remote_file, &rows);
        reads!(&found[..2]);
    }

    #[test]
    fn without_them_it_is_the_server_this_end_or_one_call_at_a_time() {
        let limit = |rows: &[PointRow]| sentences(remote_file, rows).remove(0);
        for (rows, says) in [
            (
                &[row(4096, 1, 100e6, 500.0, QUIET), row(4096, 16, 101e6, 500.0, QUIET)][..],
                "is the server:",
            ),
            // Packets in flight before the load do not speed it up.
            (
                &[row(4096, 1, 102e6, 500.0, QUIET), row(4096, 16, 101e6, 500.0, QUIET)],
                "is the server:",
            ),
            (&[row(4096, 1, 100e6, 500.0, QUIET)], "each call waits"),
            // 1,000 ns per KiB, a million KiB per second.
            (&[row(4096, 16, 1.024e9, 1000.0, (8_000.0, 9.5e6))], "this end's CPU"),
        ] {
            contains(&limit(rows), says);
        }
    }

    #[test]
    fn a_mounted_path_has_no_handshake() {
        let mut mounted = row(4096, 16, 100e6, 500.0, QUIET);
        mounted.metrics.retain(|metric| !metric.name.starts_with("handshake"));
        let found = sentences(remote_file, &[mounted]);
        assert_eq!(found.len(), 1);
        contains(&found[0], "the link or the server");
    }
}
