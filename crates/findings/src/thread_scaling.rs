//! How much more several threads send than one, and what that costs per KiB.

use crate::prelude::*;
use crate::sends::PROBE;

const SENDER: &str = "sender_running";
/// A single thread that runs for less than this share of the time surely waits.
const WAITS: f64 = 0.9;

/// A size that was measured with one thread and with the largest number of threads.
struct Scaled<'a> {
    size: u64,
    one: &'a PointRow,
    most: &'a PointRow,
    ratio: Interval,
}

/// The smallest and the largest ratio over several sizes, and the ends of all their intervals.
struct Ratios {
    middles: (f64, f64),
    low: f64,
    high: f64,
}

/// For each primitive, link and circumstance, compares the largest number of threads with one.
pub(crate) fn thread_scaling(run: &Run) -> Vec<Finding> {
    let groups = run.select(PROBE).group_by(&["threads", "size"]);
    let found = groups.iter().filter_map(|group| finding(run, group));
    found.collect()
}

fn finding(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let (threads, _) = *group.rows.clone().by_number("threads").last()?;
    let pairs = pairs(&group.rows, "size", "threads", (1, threads)).into_iter();
    let scaled = pairs.filter_map(|Pair { number, row, other }| {
        let ratio = Interval::log_ratio(run, other, row, "throughput")?.exp();
        Some(Scaled { size: number, one: row, most: other, ratio })
    });
    let scaled: Vec<Scaled<'_>> = scaled.filter(|_| threads > 1).collect();
    let (smallest, largest) = (scaled.first()?.size, scaled.last()?.size);
    let ratios = Ratios::new(scaled.iter().map(|scaled| scaled.ratio))?;
    let (least, greatest) = ratios.middles;
    let largest = (largest > smallest).then_some(largest);
    let waits = maybe(waits(&scaled), |ran| {
        format!(
            "; with one message in flight, one thread mostly waits for the other end and for its wake-up (it ran \
             {} % of the time), and others run meanwhile",
            range(ran, percent)
        )
    });
    let sentence = format!(
        "{threads} threads send {more} times as much as one ({ends}) by {primitive} over {place} at \
         {smallest}{largest}, which is an efficiency of {efficiency} %{cpu_time}{waits}{shared}",
        more = range(ratios.middles, times),
        ends = range((ratios.low, ratios.high), times),
        primitive = group.common.axes.find_word("primitive").unwrap_or("?"),
        place = place(run, &group.common.without(&["primitive"])),
        smallest = size(smallest as f64),
        largest = maybe(largest, |largest| format!(" to {}", size(largest as f64))),
        efficiency = range((least / threads as f64, greatest / threads as f64), percent),
        cpu_time = maybe(cpu_time(run, &scaled), |cpu| format!("; {cpu}")),
        shared = maybe(shared(run, threads, greatest), |shared| format!("; {shared}")),
    );
    let evidence = scaled.iter().flat_map(|scaled| [scaled.one, scaled.most]);
    Some(Finding::new(Kind::ThreadScaling, evidence, sentence))
}

impl Ratios {
    fn new(ratios: impl Iterator<Item = Interval> + Clone) -> Option<Ratios> {
        Some(Ratios {
            middles: span(ratios.clone().map(|ratio| ratio.middle))?,
            low: span(ratios.clone().map(|ratio| ratio.low))?.0,
            high: span(ratios.map(|ratio| ratio.high))?.1,
        })
    }

    /// `1.20 to 1.30 times the CPU time (1.10 to 1.40)`.
    fn text(&self, what: &str) -> String {
        let (middles, ends) = (range(self.middles, times), range((self.low, self.high), times));
        format!("{middles} times the {what} ({ends})")
    }
}

/// The ratio of a metric to its value with one thread.
fn ratios(run: &Run, scaled: &[Scaled<'_>], metric: &str) -> Option<Ratios> {
    let ratio = |scaled: &Scaled<'_>| Interval::log_ratio(run, scaled.most, scaled.one, metric);
    let ratios: Vec<Interval> = scaled.iter().filter_map(ratio).map(Interval::exp).collect();
    Ratios::new(ratios.iter().copied())
}

/// The ratio of the CPU time per KiB to that with one thread. It shows what threads lose by sharing caches,
/// memory and locks.
fn cpu_time(run: &Run, scaled: &[Scaled<'_>]) -> Option<String> {
    let cpu = ratios(run, scaled, "cpu_sender")?;
    let counters = [
        ("L1 misses", "l1d_load_misses"),
        ("last-level misses", "llc_load_misses"),
        ("data TLB misses", "dtlb_load_misses"),
        ("context switches", "context_switches"),
    ];
    let counted = counters.iter().filter_map(|(what, counter)| {
        Some(format!("{} times the {what}", range(ratios(run, scaled, counter)?.middles, times)))
    });
    let counted = list(", with ", &counted.collect::<Vec<_>>(), " and ");
    let means = match (cpu.low > 1.0, cpu.high < 1.0) {
        (true, _) => ", so they compete for cache, memory or locks, or context switches take it",
        (_, true) => "",
        _ => ", so there is no sign of contention",
    };
    Some(format!("a KiB takes the sender {}{means}{counted}", cpu.text("CPU time")))
}

/// For which share of the time a single thread runs, if it has one message in flight and waits for it.
/// Several threads then only wait at the same time, which does not show how sending scales.
fn waits(scaled: &[Scaled<'_>]) -> Option<(f64, f64)> {
    let one_in_flight = scaled.iter().all(|scaled| {
        let pattern = scaled.one.word("pattern");
        let in_flight = scaled.one.number("in_flight").unwrap_or(1);
        pattern.is_some_and(|pattern| pattern != "stream") && in_flight == 1
    });
    let ran = span(scaled.iter().filter_map(|scaled| scaled.one.median(SENDER)));
    ran.filter(|(_, most)| one_in_flight && *most < WAITS)
}

/// That the threads of both ends have fewer CPUs than threads, so that the CPUs limit them.
fn shared(run: &Run, threads: u64, times: f64) -> Option<String> {
    let cpus = run.facts()?.usable_cpus().len() as u64;
    let both_ends = 2 * threads;
    let are_fewer = (1..both_ends).contains(&cpus) && times < threads as f64;
    let cpus = counted(cpus, "CPU");
    are_fewer.then(|| format!("{both_ends} threads, senders and receivers, share {cpus}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, contains, ends, known_row, reads, run};
    use costof_model::CpuSet;

    fn row(threads: u64, size: u64, value: f64) -> PointRow {
        let axes = axes!(primitive = "copy_and_send", size, threads);
        known_row(PROBE, "throughput", axes, value, 0.02).over("veth")
    }

    #[test]
    fn scaling_is_reported_over_all_sizes_with_its_efficiency() {
        let mut run = run(&[]);
        for (threads, size, value) in
            [(1, 4096, 4.0), (8, 4096, 6.0), (2, 4096, 5.0), (1, 64, 1.0), (8, 64, 2.0)]
        {
            run.points.push(row(threads, size, value));
        }
        let findings = thread_scaling(&run);
        reads!(&findings);
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
        ends(&findings[0].sentence, "share 2 CPUs");
        contains(&findings[0].sentence, "25 %; 8 threads");
    }

    /// A row of senders that ran for this share of the time, with this CPU time per KiB.
    fn ran(row: PointRow, sender: f64, cpu: f64) -> PointRow {
        row.metric(SENDER, sender).metric("cpu_sender", cpu)
    }

    fn sentence(rows: [PointRow; 2]) -> String {
        let mut run = run(&[]);
        run.points.extend(rows);
        thread_scaling(&run).remove(0).sentence
    }

    /// On a busy machine this was once reported as "7.62 to 485 times".
    #[test]
    fn a_ratio_that_is_unknown_by_more_than_a_factor_of_ten_is_none() {
        let mut run = run(&[]);
        run.points = vec![row(1, 4096, 1.0), row(4, 4096, 60.0).known_within(0.8)];
        assert_eq!(thread_scaling(&run).len(), 1);
        run.points[0].metrics[0].ci95 = Some((0.3, 2.0));
        assert_eq!(thread_scaling(&run), []);
    }

    #[test]
    fn misses_are_reported_where_they_are_counted() {
        let counted = |threads, misses: f64| {
            let mut row =
                ran(row(threads, 4096, 4.0), 0.25, 100.0).metric("llc_load_misses", misses);
            row.metrics.last_mut().unwrap().ci95 = Some((misses, misses));
            row
        };
        let shown = sentence([counted(1, 10.0), counted(4, 15.0)]);
        contains(&shown, "1.50 times the last-level misses");
    }

    #[test]
    fn threads_that_wait_for_answers_fill_each_others_time() {
        let echo = |threads, rate, running| {
            let mut row = ran(row(threads, 64, rate), running, 100.0);
            row.point.axes = row.point.axes.with("pattern", "echo").with("in_flight", 1);
            row
        };
        let shown = sentence([echo(1, 1.0, 0.25), echo(4, 5.0, 0.23)]);
        contains(&shown, "125 %");
        contains(&shown, "waits for");
        contains(&shown, "ran 25 %");
        let many = |threads, rate| {
            let mut row = echo(threads, rate, 0.25);
            row.point.axes = row.point.axes.with("in_flight", 16);
            row
        };
        assert!(!sentence([many(1, 1.0), many(4, 5.0)]).contains("waits for"));
    }
}
