//! What one axis costs: two rows that differ in it alone, compared. Each finder names its rows, the axis and its two
//! values, and says what the two rows mean.

use crate::modes::two_modes;
use crate::naming::circumstances;
use crate::pairs::page_bytes;
use crate::prelude::*;
use crate::text::link;
use std::cmp::Reverse;

/// Two rows that differ in one axis.
struct Two<'r> {
    run: &'r Run,
    /// What they have in common.
    common: Point,
    /// The row with the first word or the largest number, and the other.
    row: &'r PointRow,
    other: &'r PointRow,
}

/// A finding for each set of values on the other axes, from the rows with two words on this one. Of several sizes,
/// what was measured first counts.
fn words<'r>(
    run: &'r Run,
    rows: Select<'r>,
    axis: &str,
    words: (&str, &str),
    found: impl Fn(&Two<'r>) -> Option<Finding>,
) -> Vec<Finding> {
    let at = |group: &Group<'r>, word: &str| group.rows.clone().with_value(axis, word).one();
    let found = |group: Group<'r>| {
        let (row, other) = (at(&group, words.0)?, at(&group, words.1)?);
        found(&Two { run, common: group.common, row, other })
    };
    let groups = rows.group_by(&[axis, "size"]).into_iter();
    groups.filter_map(|group| group.rows.group_by(&[axis]).into_iter().find_map(found)).collect()
}

/// The same from the rows with the largest and the smallest number on this axis. Of several sizes, the largest counts:
/// no cache of one CPU holds it.
fn numbers<'r>(
    run: &'r Run,
    rows: Select<'r>,
    axis: &str,
    found: impl Fn(&Two<'r>) -> Option<Finding>,
) -> Vec<Finding> {
    let found = |group: Group<'r>| {
        let rows = group.rows.by_number(axis);
        let (row, other) = (rows.last()?.1, rows.first()?.1);
        found(&Two { run, common: group.common, row, other })
    };
    let groups = rows.group_by(&[axis, "size", "pages"]).into_iter();
    let found = groups.filter_map(|group| {
        let mut groups = group.rows.group_by(&[axis]);
        // The sort is stable: of equally large ones, what was measured first comes first.
        groups.sort_by_key(|group| Reverse(group.common.axes.find_number("size")));
        groups.into_iter().find_map(found)
    });
    found.collect()
}

impl Two<'_> {
    /// How much more the row takes, at least and at most; none if that is not certain.
    fn more(&self) -> Option<(f64, f64)> {
        surely_more(self.row.primary()?.ci95?, self.other.primary()?.ci95?)
    }

    /// What the row and the other take.
    fn takes(&self) -> Option<[String; 2]> {
        let [row, other] = [self.row.primary()?, self.other.primary()?];
        Some([row, other].map(|estimate| ns(estimate.median)))
    }

    /// The ratio of the row to the other.
    fn ratio(&self) -> Option<Interval> {
        Interval::log_ratio(self.run, self.row, self.other, &self.other.primary)
    }

    /// `56B by tcp over loopback`.
    fn round_trip(&self) -> String {
        let size = bytes(self.row.number("size").unwrap_or(0));
        let over = self.row.word("over").unwrap_or("?");
        format!("{size} by {over} over {}", link(&self.row.point.link))
    }
}

/// If all threads together get less than this many times what one gets, one thread gets nearly everything.
const NEARLY_ALL: f64 = 1.1;

pub(crate) fn scaling(run: &Run) -> Vec<Finding> {
    const PROBES: [&str; 3] = ["memory.bandwidth", "sync.mutex", "sync.false_sharing"];
    let rows = run.select_all().filter(|row| PROBES.contains(&&*row.point.probe));
    numbers(run, rows, "threads", |two| {
        let threads = two.row.number("threads").filter(|threads| *threads > 1)?;
        two.other.is_at("threads", 1).then_some(())?;
        let ratio = two.ratio()?.exp();
        let Interval { low, middle, high } = ratio;
        let what = format!("{}{}", two.common.probe, circumstances(run, &two.common));
        let limit = match low > 1.0 {
            _ if high < 1.0 => ": less than one alone gets",
            false if high < NEARLY_ALL => ": one thread takes nearly all that there is",
            true if high < threads as f64 => ": less than each would get alone",
            _ => "",
        };
        let sentence = match two.other.primary()?.better {
            Better::Higher => {
                let ends = range((low, high), |times| format!("{times:.2}"));
                let efficiency = percent(middle / threads as f64);
                format!(
                    "{threads} threads get {middle:.2} times as much as one ({ends}) by {what}, {efficiency} % of \
                     {threads} times{limit}"
                )
            }
            Better::Lower if low > 1.0 => {
                let ends = range((low, high), |times| format!("{times:.1}"));
                format!(
                    "with {threads} threads each operation of {what} takes {middle:.1} times as long as with one \
                     ({ends}), because what they share moves between them"
                )
            }
            _ => return None,
        };
        Some(Finding::new(Kind::Scaling, [two.other, two.row], sentence))
    })
}

/// The cost of waking an idle CPU, in exits of a virtual machine.
pub(crate) fn vm_waking(run: &Run) -> Vec<Finding> {
    let at = [("between", "processes"), ("over", "pipe"), ("cpus", "cross")];
    let rows = run.select("os.context_switch").words(&at);
    words(run, rows, "wake", ("idle", "awake"), |two| {
        let exit = run.select("cpu.vm_exit").one().filter(|_| run.is_virtual())?;
        let (least, most) = exit.primary()?.ci95?;
        let Interval { low, middle, high } =
            Interval::difference(run, two.row, two.other, &two.row.primary)?;
        let sentence = format!(
            "handing a token to a CPU that may be idle takes {more} more than to one that is kept awake ({ends}), as \
             much as {least:.1} to {most:.1} VM exits",
            more = ns(middle),
            ends = range((low, high), ns),
            least = low / most,
            most = high / least,
        );
        (low > 0.0).then(|| Finding::new(Kind::VmWaking, [two.row, two.other, exit], sentence))
    })
}

/// The cost of a page, from forks of the smallest and of the largest process.
pub(crate) fn fork_growth(run: &Run) -> Vec<Finding> {
    let rows = run.select("os.process").words(&[("how", "fork"), ("exec", "no")]);
    numbers(run, rows, "resident", |two| {
        let (least, most) = (two.other.number("resident")?, two.row.number("resident")?);
        let (low, high) = two.more()?;
        let page = page_bytes(run);
        let pages = ((most - least) / page) as f64;
        let [large, small] = two.takes()?;
        let (memory, page) = (bytes(most), bytes(page));
        let each = range((low / pages, high / pages), ns);
        let sentence = format!(
            "a fork copies its parent's page tables: with {memory} of touched memory it takes {large} instead of \
             {small}, which is {each} for each page of {page}"
        );
        let advice =
            "in a large process, start programs by posix_spawn or vfork, which copy nothing";
        Some(Finding::new(Kind::ForkGrowth, [two.other, two.row], sentence).advise(advice))
    })
}

/// Calls that use a file, in a process with a second thread.
pub(crate) fn second_thread(run: &Run) -> Vec<Finding> {
    numbers(run, run.select("os.syscall"), "threads", |two| {
        let call = match two.row.word("call")? {
            "read" => "a read of 1 byte",
            "open" => "an open and close",
            _ => return None,
        };
        let are_two = two.row.is_at("threads", 2) && two.other.is_at("threads", 1);
        let ratio = two.ratio().filter(|ratio| are_two && ratio.low > 0.0)?;
        let more = |log: f64| whole(100.0 * log.exp_m1());
        let (middle, ends) = (more(ratio.middle), range((ratio.low, ratio.high), more));
        let sentence = format!(
            "a second thread, which sleeps, makes {call} {middle} % more expensive ({ends}): the kernel then counts \
             the users of each file, and the C library checks for cancellation"
        );
        let advice = "if small reads and writes are most of the work, several single-threaded processes do more than \
                      one with several threads";
        Some(Finding::new(Kind::SecondThread, [two.other, two.row], sentence).advise(advice))
    })
}

/// A round trip with blocking peers and one with spinning peers differ in two wake-ups, one at each peer.
pub(crate) fn wake_ups(run: &Run) -> Vec<Finding> {
    let rows =
        run.select("net.rtt").words(&[("cpus", "cross"), ("wake", "awake")]).with_value("rate", 0);
    words(run, rows, "wait", ("block", "spin"), |two| {
        let (low, high) = two.more()?;
        let [slow, fast] = two.takes()?;
        let switch = context_switch(run, "awake");
        let switched = maybe(switch.and_then(PointRow::primary), |switch| {
            format!("; a context switch to another CPU by a pipe takes {}", ns(switch.median))
        });
        let (round_trip, each) = (two.round_trip(), range((low / 2.0, high / 2.0), ns));
        let sentence = format!(
            "a round trip of {round_trip} takes {slow} when both ends block instead of {fast} when they spin: a \
             wake-up at each end, of {each}{switched}"
        );
        Some(Finding::new(
            Kind::RoundTripWakeUps,
            [two.row, two.other].into_iter().chain(switch),
            sentence,
        ))
    })
}

/// A round trip between CPUs that may be idle, and one between CPUs that are kept awake.
pub(crate) fn resting(run: &Run) -> Vec<Finding> {
    let rows =
        run.select("net.rtt").words(&[("cpus", "cross"), ("wait", "block")]).with_value("rate", 0);
    words(run, rows, "wake", ("idle", "awake"), |two| {
        let (low, high) = two.more()?;
        let [slow, fast] = two.takes()?;
        let (idle, awake) = (context_switch(run, "idle"), context_switch(run, "awake"));
        let switches = idle.zip(awake).and_then(|(idle, awake)| {
            let (low, high) = surely_more(idle.primary()?.ci95?, awake.primary()?.ci95?)?;
            let text = format!("; of a context switch by a pipe it is {} to {}", ns(low), ns(high));
            Some((text, vec![idle, awake]))
        });
        let (switched, besides) = switches.unwrap_or_default();
        let (round_trip, each) = (two.round_trip(), range((low / 2.0, high / 2.0), ns));
        let sentence = format!(
            "a round trip of {round_trip} takes {slow} instead of {fast} where nothing keeps the CPUs awake: waking \
             each idle CPU is {each} of it{switched}"
        );
        let advice =
            "spin, or keep the CPUs awake (an idle loop that polls), where latency matters";
        Some(
            Finding::new(
                Kind::RoundTripResting,
                [two.row, two.other].into_iter().chain(besides),
                sentence,
            )
            .advise(advice),
        )
    })
}

/// A mode is the same as another round trip if the two differ by at most this factor.
const SAME: f64 = 1.25;
/// The slower mode is a different thing from this factor on.
const SLOWER: f64 = 1.5;

/// Two modes of a round trip between CPUs that may be idle, if the faster mode is the round trip between CPUs
/// that are kept awake.
pub(crate) fn awake_and_idle_modes(run: &Run) -> Vec<Finding> {
    let rows =
        run.select("net.rtt").words(&[("cpus", "cross"), ("wait", "block")]).with_value("rate", 0);
    words(run, rows, "wake", ("idle", "awake"), |two| {
        let [fast, slow] = two_modes(two.row.primary()?)?;
        let awake_ns = two.other.primary()?.median;
        let is_awake = (awake_ns / SAME..=awake_ns * SAME).contains(&fast.median);
        let sentence = format!(
            "of the round trips of {round_trip} between CPUs that may be idle, {fast_share} % take about {fast}, as \
             between CPUs that are kept awake ({awake}); the other {slow_share} % take about {slow}: a CPU was idle \
             and had to be woken",
            round_trip = two.round_trip(),
            fast_share = percent(fast.share),
            fast = ns(fast.median),
            awake = ns(awake_ns),
            slow_share = percent(slow.share),
            slow = ns(slow.median),
        );
        (is_awake && slow.median >= SLOWER * awake_ns)
            .then(|| Finding::new(Kind::RoundTripModes, [two.row, two.other], sentence))
    })
}

/// A context switch between processes on two CPUs that may be idle, or are kept awake.
fn context_switch<'r>(run: &'r Run, wake: &str) -> Option<&'r PointRow> {
    let words = [("between", "processes"), ("over", "pipe"), ("cpus", "cross"), ("wake", wake)];
    let switches = run.select("os.context_switch").words(&words);
    switches.filter(|row| row.primary().is_some()).one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, contains, ends, known_row, reads, run, sentences};
    use costof_model::metric::Mode;
    use costof_model::{Axes, Grade};

    fn threaded(probe: &'static str, threads: u64, value: f64, better: Better) -> PointRow {
        let axes = axes!(threads);
        let mut row = known_row(probe, "answer", axes, value, 0.01);
        row.metrics[0].better = better;
        row
    }

    fn bandwidth(threads: u64, value: f64) -> PointRow {
        threaded("memory.bandwidth", threads, value, Better::Higher)
    }

    #[test]
    fn more_threads_are_held_against_as_many_times_one() {
        let shown = |two| sentences(scaling, &[bandwidth(1, 10.0), bandwidth(2, two)]);
        reads!([15.0, 20.0, 10.0, 5.0].into_iter().flat_map(shown));
        let mut unsure = bandwidth(2, 12.0);
        unsure.metrics[0].ci95 = Some((8.0, 14.0));
        let shown = sentences(scaling, &[bandwidth(1, 10.0), unsure]);
        ends(&shown[0], "60 % of 2 times");
        assert!(sentences(scaling, &[bandwidth(1, 10.0)]).is_empty());
        assert!(sentences(scaling, &[bandwidth(2, 10.0)]).is_empty());
    }

    #[test]
    fn of_several_sizes_the_largest_is_reported() {
        let sized = |size: u64, threads, value| {
            let mut row = bandwidth(threads, value);
            row.point.axes = row.point.axes.clone().with("size", size);
            row
        };
        let rows =
            [sized(64, 1, 10.0), sized(64, 2, 20.0), sized(4096, 1, 10.0), sized(4096, 2, 12.0)];
        let shown = sentences(scaling, &rows);
        assert_eq!(shown.len(), 1);
        contains(&shown[0], "1.20 times");
    }

    #[test]
    fn what_becomes_dearer_is_reported_where_it_surely_does() {
        let mutex = |threads, ns| threaded("sync.mutex", threads, ns, Better::Lower);
        reads!(sentences(scaling, &[mutex(1, 5.0), mutex(2, 50.0)]));
        assert!(sentences(scaling, &[mutex(1, 5.0), mutex(2, 5.0)]).is_empty());
    }

    fn fork(how: &'static str, resident: u64, us: f64) -> PointRow {
        let axes = axes!(how, exec = "no", resident);
        let ns = us * 1000.0;
        known_row("os.process", "latency", axes, ns, 0.02)
    }

    #[test]
    fn the_pages_between_two_sizes_share_what_the_larger_fork_takes_more() {
        let mut run = run(&[]);
        run.points.push(fork("fork", 0, 150.0));
        run.points.push(fork("vfork", 1 << 30, 20.0));
        assert_eq!(fork_growth(&run), []);
        run.points.push(fork("fork", 64 << 20, 2000.0));
        let findings = fork_growth(&run);
        reads!(&findings);
        assert_eq!(findings[0].evidence.len(), 2);
    }

    #[test]
    fn forks_that_cannot_be_distinguished_say_nothing() {
        let mut run = run(&[]);
        run.points.push(fork("fork", 0, 150.0));
        run.points.push(fork("fork", 64 << 20, 152.0));
        assert_eq!(fork_growth(&run), []);
    }

    fn call(call: &'static str, threads: u64, ns: f64) -> PointRow {
        let axes = axes!(call, threads);
        known_row("os.syscall", "cost", axes, ns, 0.01)
    }

    #[test]
    fn a_call_on_a_file_that_is_surely_dearer_is_reported() {
        let shown = sentences(
            second_thread,
            &[
                call("read", 1, 140.0),
                call("read", 2, 188.0),
                call("getppid", 1, 100.0),
                call("getppid", 2, 120.0),
                call("open", 1, 1000.0),
            ],
        );
        reads!(&shown);
    }

    #[test]
    fn what_may_be_no_difference_is_not() {
        for two in [90.0, 100.0, 101.0] {
            let rows = [call("read", 1, 100.0), call("read", 2, two)];
            assert!(sentences(second_thread, &rows).is_empty());
        }
    }

    fn timed(probe: &'static str, metric: &'static str, axes: Axes, us: f64) -> PointRow {
        let ns = us * 1000.0;
        known_row(probe, metric, axes, ns, 0.01)
    }

    fn rtt(wait: &'static str, wake: &'static str, us: f64) -> PointRow {
        let axes = axes!(over = "tcp", size = 56, wait, cpus = "cross", wake, rate = 0);
        timed("net.rtt", "latency", axes, us).over("loopback")
    }

    fn switch(wake: &'static str, us: f64) -> PointRow {
        let axes = axes!(between = "processes", over = "pipe", cpus = "cross", wake);
        timed("os.context_switch", "cost", axes, us)
    }

    fn round_trips(rows: &[PointRow]) -> Vec<String> {
        let finders = [wake_ups, resting, awake_and_idle_modes];
        finders.into_iter().flat_map(|finder| sentences(finder, rows)).collect()
    }

    #[test]
    fn blocking_costs_a_wake_up_at_each_end() {
        let (spin, block) = (rtt("spin", "awake", 8.0), rtt("block", "awake", 28.0));
        let found = round_trips(&[spin.clone(), block.clone()]);
        reads!(&found);
        let found = round_trips(&[switch("awake", 9.0), block.clone(), spin]);
        ends(&found[0], "by a pipe takes 9.00 µs");
        // Overlapping intervals, or points without a counterpart, give no finding.
        assert_eq!(round_trips(&[rtt("spin", "awake", 27.9), block.clone()]), [""; 0]);
        assert_eq!(round_trips(&[switch("awake", 9.0), block]), [""; 0]);
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_a_wake_up() {
        let found = |grade| {
            let block = rtt("block", "awake", 28.0).warned("others", grade);
            round_trips(&[rtt("spin", "awake", 8.0), block]).len()
        };
        assert_eq!((found(Grade::C), found(Grade::D)), (1, 0));
    }

    #[test]
    fn each_link_and_protocol_is_reported_once() {
        let mut rows = vec![rtt("spin", "awake", 8.0), rtt("block", "awake", 28.0)];
        for row in rows.clone() {
            let mut large = row.clone();
            large.point.axes = large.point.axes.with("size", 1024);
            let mut veth = row;
            veth.point.link = "veth".into();
            rows.extend([large, veth]);
        }
        let found = round_trips(&rows);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("56B") && found[1].contains("56B by tcp over veth"));
    }

    #[test]
    fn a_processor_that_rests_is_reported_beside_one_that_is_kept_awake() {
        let rows = [rtt("block", "awake", 28.0), rtt("block", "idle", 64.0)];
        reads!(round_trips(&rows));
        let switches = [switch("awake", 10.0), switch("idle", 27.0)];
        let found = round_trips(&[&rows[..], &switches].concat());
        ends(&found[0], "by a pipe it is 16.6 µs to 17.4 µs");
        let same = [rtt("block", "awake", 28.0), rtt("block", "idle", 28.1)];
        assert_eq!(round_trips(&same), [""; 0]);
    }

    #[test]
    fn two_modes_have_a_cause_where_the_faster_is_that_of_processors_kept_awake() {
        let awake = rtt("block", "awake", 15.0);
        let with = |fast: f64, slow: f64| {
            let mut idle = rtt("block", "idle", 15.0);
            idle.metrics[0].modes = [(fast, 0.7), (slow, 0.3)]
                .map(|(us, share)| Mode { median: us * 1000.0, share })
                .to_vec();
            round_trips(&[awake.clone(), idle])
        };
        let found = with(14.5, 60.0);
        reads!(&found);
        // No finding if the faster mode differs from the round trip, or the slower hardly differs.
        assert_eq!(with(40.0, 60.0), [""; 0]);
        assert_eq!(with(14.5, 17.0), [""; 0]);
    }

    #[test]
    fn waking_is_reported_where_it_surely_takes_more() {
        let exit = known_row("cpu.vm_exit", "cost", Axes::default(), 2000.0, 0.1);
        let around = |wake, us: f64| {
            let ends = (900.0 * us, 1100.0 * us);
            let mut row = switch(wake, us);
            row.metrics[0].ci95 = Some(ends);
            row
        };
        let shown =
            sentences(vm_waking, &[exit.clone(), around("idle", 30.0), around("awake", 10.0)]);
        reads!(&shown);
        let alike = [exit.clone(), around("idle", 10.5), around("awake", 10.0)];
        assert!(sentences(vm_waking, &alike).is_empty());
    }
}
