//! The time to stream through 1 MiB of main memory, as back-of-the-envelope estimates count it, and the share
//! of the memory modules' bandwidth that reads reach.

use crate::prelude::*;

const MEBIBYTE: f64 = 1_048_576.0;

/// Findings about the time for 1 MiB, and about the share of the modules' bandwidth.
pub(crate) fn sequential(run: &Run) -> Vec<Finding> {
    mebibyte(run).into_iter().chain(modules(run)).collect()
}

/// The time for 1 MiB when one thread reads, writes or copies more data than any claimed cache holds, with
/// the fastest instructions.
fn mebibyte(run: &Run) -> Option<Finding> {
    let operations = [("read", "read"), ("written", "write"), ("copied", "copy")];
    let of = |op: &str| {
        let alone =
            in_main_memory(run.select_any("memory.bandwidth"), run, op).with_value("threads", 1);
        alone.into_iter().max_by_key(|row| row.number("size"))
    };
    let rows = operations.map(|(done, op)| (done, of(op)));
    let (sound, unsound): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .filter_map(|(done, row)| Some((done, row?)))
        .partition(|(_, row)| row.is_sound());
    let operation = |(done, row): &(&str, &PointRow)| {
        let time = ns(MEBIBYTE / row.median("throughput")? * 1e9);
        let by = match row.median("vector_bytes") {
            None => String::new(),
            Some(bytes) if bytes <= 1.0 => " (a string instruction)".to_owned(),
            Some(bytes) => {
                let past = when(row.median("nontemporal") > Some(0.0), ", non-temporal");
                format!(" ({}-byte vectors{past})", bytes as u64)
            }
        };
        Some(format!("{done} in {time}{by}"))
    };
    let unknown = |(done, row): &(&str, &PointRow)| {
        Some(format!("; how fast it is {done} is not known ({})", row.why_unsound()?))
    };
    let known: Vec<String> = sound.iter().filter_map(operation).collect();
    let unknown: String = unsound.iter().filter_map(unknown).collect();
    let all = known.join(", ");
    let sentence = format!("sequentially, by one thread, 1 MiB of main memory is {all}{unknown}");
    let evidence = sound.iter().map(|(_, row)| *row);
    (!known.is_empty()).then(|| Finding::new(Kind::SequentialMebibyte, evidence, sentence))
}

/// Compares the highest read bandwidth of main memory, with any number of threads, with the bandwidth of the
/// modules. It uses only reads, since a read moves exactly the bytes that are counted.
fn modules(run: &Run) -> Option<Finding> {
    let modules = run.facts()?.memory.modules_bytes_per_s()?;
    let read = |row: &PointRow| row.median("throughput").unwrap_or(0.0);
    let fastest = greatest(in_main_memory(run.select("memory.bandwidth"), run, "read"), read)?;
    let who = match fastest.number("threads")? {
        1 => "one thread reads".to_owned(),
        threads => format!("{threads} threads read"),
    };
    let (share, read) = (read(fastest) / modules, read(fastest));
    let sentence = format!(
        "{who} main memory at {read}, {share} % of the {modules} that its modules can deliver according to the firmware",
        read = rate(read),
        share = percent(share),
        modules = rate(modules),
    );
    let wrong = "the firmware's figure is wrong: a hypervisor may have invented it";
    let found = Finding::new(Kind::MemoryModulesShare, [fastest], sentence);
    Some(found.advise(when(read > modules, wrong)))
}

/// Of these rows, an operation on sizes that no claimed cache holds; empty if the
/// machine claims no cache.
fn in_main_memory<'r>(rows: Select<'r>, run: &Run, op: &str) -> Select<'r> {
    let claimed = |level| run.facts()?.claimed_cache(level);
    let largest = (1..=4).filter_map(claimed).map(|cache| cache.size_bytes).max();
    let rows = rows.with_value("op", op);
    rows.filter(|row| {
        let is_larger = largest.is_some_and(|cache| row.number("size") > Some(cache));
        is_larger && row.estimate("throughput").is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{CLAIMED, RowExt, add_metric, axes, point_row, reads, run};
    use costof_model::Grade;
    use costof_model::facts::Dimm;

    fn stream(op: &'static str, size: u64, gigabytes_a_second: f64) -> PointRow {
        by_threads(1, op, size, gigabytes_a_second)
    }

    fn by_threads(threads: u64, op: &'static str, size: u64, gigabytes_a_second: f64) -> PointRow {
        let axes = axes!(op, size, threads);
        let rate = gigabytes_a_second * 1e9;
        point_row("memory.bandwidth", "throughput", axes, rate, (rate, rate))
    }

    #[test]
    fn an_operation_that_noise_decides_is_named_and_not_left_to_the_others() {
        let mut run = run(&CLAIMED);
        let read = stream("read", 1 << 30, 10.0).warned("others", Grade::D);
        run.points = vec![read, stream("copy", 1 << 30, 5.0)];
        reads!(sequential(&run));
        run.points.pop();
        assert_eq!(sequential(&run), []);
    }

    #[test]
    fn only_what_no_cache_holds_is_main_memory() {
        let mut run = run(&CLAIMED);
        run.points.push(stream("read", 1 << 20, 100.0));
        assert_eq!(sequential(&run), []);
        run.points.push(stream("copy", 128 << 20, 10.0));
        run.points.push(stream("read", 128 << 20, 20.0));
        let findings = sequential(&run);
        reads!(&findings);
        assert_eq!(findings[0].evidence.len(), 2);
    }

    fn by_kernel(mut row: PointRow, vector_bytes: f64, nontemporal: f64) -> PointRow {
        for (name, value) in [("vector_bytes", vector_bytes), ("nontemporal", nontemporal)] {
            add_metric(&mut row, name, value);
        }
        row
    }

    #[test]
    fn the_kernels_that_won_are_named() {
        let mut run = run(&CLAIMED);
        let rates = [("read", 32.0, 0.0), ("write", 64.0, 1.0), ("copy", 1.0, 0.0)];
        for (op, vector_bytes, nontemporal) in rates {
            let row = stream(op, 128 << 20, 20.0);
            run.points.push(by_kernel(row, vector_bytes, nontemporal));
        }
        reads!(sequential(&run));
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
        reads!([&findings[1].sentence]);
        assert_eq!(findings[1].advice, None);
        tell(&mut run, 1_600_000_000);
        assert!(sequential(&run)[1].advice.is_some(), "more than it can");
    }
}
