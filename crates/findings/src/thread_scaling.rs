//! How much more several threads send than one, what a KiB takes them then, and what limits them.

use crate::finding::{Finding, grade_by_others};
use crate::memory_latency::facts;
use crate::ratio::LogRatio;
use crate::send_crossover::{PROBE, about, circumstances, groups};
use costof_model::noise::{Grade, PEER};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

const METRIC: &str = "throughput";
const SENDER: &str = "sender_running";
const RECEIVER: &str = "receiver_running";
/// From which share of its processors' time on an end has no more to give.
const BUSY: f64 = 0.95;
/// Below which share of the time a thread that is alone surely waits.
const WAITS: f64 = 0.9;

/// One size at which one thread and the most were measured.
struct Scaled<'a> {
    size: u64,
    one: &'a PointRow,
    most: &'a PointRow,
    ratio: LogRatio,
}

/// For each primitive, link and circumstance, the most threads beside one.
pub(crate) fn thread_scaling(run: &Run) -> Vec<Finding> {
    let sends = run.points.iter().filter(|row| row.point.probe == PROBE);
    groups(sends, &["threads", "size"])
        .iter()
        .filter_map(|(common, group)| found(run, group, common))
        .collect()
}

fn found(run: &Run, group: &[&PointRow], common: &Point) -> Option<Finding> {
    let threads = |row: &PointRow| row.axes().find_number("threads");
    let most = group.iter().filter_map(|row| threads(row)).max()?;
    let ones = group.iter().filter(|row| threads(row) == Some(1));
    let mut scaled: Vec<Scaled<'_>> = ones
        .filter_map(|one| {
            let size = one.axes().find_number("size")?;
            let is_it = |row: &&&PointRow| {
                threads(row) == Some(most) && row.axes().find_number("size") == Some(size)
            };
            let most = group.iter().find(is_it)?;
            Some(Scaled {
                size,
                one,
                most,
                ratio: LogRatio::of(run, most, one, METRIC)?,
            })
        })
        .filter(|_| most > 1)
        .collect();
    scaled.sort_by_key(|scaled| scaled.size);
    let (smallest, largest) = (scaled.first()?.size, scaled.last()?.size);
    let times =
        |of: fn(&LogRatio) -> f64| ends(scaled.iter().map(|scaled| of(&scaled.ratio).exp()));
    let (least, greatest) = times(|ratio| ratio.middle)?;
    let (low, high) = (times(|ratio| ratio.low)?.0, times(|ratio| ratio.high)?.1);
    let sizes = match smallest == largest {
        true => about(smallest as f64),
        false => format!("{} to {}", about(smallest as f64), about(largest as f64)),
    };
    let mut circumstances_of = common.clone();
    circumstances_of.axes.0.remove("primitive");
    let efficiency = |times: f64| 100.0 * times / most as f64;
    Some(Finding {
        kind: "thread_scaling".into(),
        sentence: format!(
            "{most} threads send {} times as much as one ({low:.2} to {high:.2}) by {} over {}{} at \
             {sizes}, which is an efficiency of {} %{}{}{}{}",
            range((least, greatest), 2),
            common.axes.find_word("primitive").unwrap_or("?"),
            common.link,
            circumstances(run, &circumstances_of),
            range((efficiency(least), efficiency(greatest)), 0),
            dearer(run, &scaled, most),
            waits(&scaled),
            limit(run, &scaled, most, greatest),
            disturbed(&scaled),
        ),
        advice: None,
        evidence: scaled
            .iter()
            .flat_map(|scaled| [scaled.one.point.clone(), scaled.most.point.clone()])
            .collect(),
    })
}

/// Both ends of a range, or one where they look alike.
fn range((low, high): (f64, f64), digits: usize) -> String {
    let [low, high] = [low, high].map(|value| format!("{value:.digits$}"));
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}

/// How many times the processor time of a KiB is what it is with one thread: what threads that share
/// caches, memory and locks take from each other.
fn dearer(run: &Run, scaled: &[Scaled<'_>], threads: u64) -> String {
    let ratios: Vec<LogRatio> = scaled
        .iter()
        .filter_map(|scaled| LogRatio::of(run, scaled.most, scaled.one, "cpu_sender"))
        .collect();
    let (Some(times), Some(low), Some(high)) = (
        ends(ratios.iter().map(|ratio| ratio.middle.exp())),
        ends(ratios.iter().map(|ratio| ratio.low.exp())),
        ends(ratios.iter().map(|ratio| ratio.high.exp())),
    ) else {
        return String::new();
    };
    let contention = match (low.0 > 1.0, high.1 < 1.0) {
        (true, _) if has_one_each(run, scaled, threads) => {
            ", so they take cache, memory or locks from each other"
        }
        (true, _) => {
            ", so they take cache, memory or locks from each other, or switches between them take it"
        }
        (_, true) => "",
        _ => ", so that no contention can be told",
    };
    format!(
        "; a KiB takes the sender {} times the processor time ({:.2} to {:.2}){contention}{}",
        range(times, 2),
        low.0,
        high.1,
        misses(run, scaled)
    )
}

/// Whether each sending thread surely has a processor of its own.
fn has_one_each(run: &Run, scaled: &[Scaled<'_>], threads: u64) -> bool {
    let usable = facts(run).map_or(0, |facts| facts.usable_cpus().len());
    scaled.iter().all(|scaled| {
        let own = processors(run, scaled.most, "sender", threads);
        own.unwrap_or(usable) as u64 >= threads
    })
}

/// How many times the misses, where the processor counts them.
fn misses(run: &Run, scaled: &[Scaled<'_>]) -> String {
    let levels = [("L1", "l1d_load_misses"), ("last-level", "llc_load_misses")];
    let said = levels.iter().filter_map(|(level, counter)| {
        let ratios = scaled
            .iter()
            .filter_map(|scaled| LogRatio::of(run, scaled.most, scaled.one, counter));
        let times = ends(ratios.map(|ratio| ratio.middle.exp()))?;
        Some(format!("{} times the {level} misses", range(times, 2)))
    });
    let said: Vec<String> = said.collect();
    match said.is_empty() {
        true => String::new(),
        false => format!(", with {}", said.join(" and ")),
    }
}

/// Where one message is in flight, one thread alone waits: that several wait at the same time is no
/// scaling of what sending takes.
fn waits(scaled: &[Scaled<'_>]) -> String {
    let one_in_flight = scaled.iter().all(|scaled| {
        let axes = scaled.one.axes();
        axes.find_word("pattern")
            .is_some_and(|pattern| pattern != "stream")
            && axes.find_number("in_flight").unwrap_or(1) == 1
    });
    let ran = ends(
        scaled
            .iter()
            .filter_map(|scaled| running(scaled.one, SENDER)),
    );
    let Some(ran) = ran.filter(|(_, most)| one_in_flight && *most < WAITS) else {
        return String::new();
    };
    format!(
        "; with one message in flight one thread waits for the other end and for being woken (it ran \
         for {} % of the time), and others run meanwhile",
        range((100.0 * ran.0, 100.0 * ran.1), 0)
    )
}

/// What limits the most threads: the processors of an end, where its threads leave none of them idle.
fn limit(run: &Run, scaled: &[Scaled<'_>], threads: u64, times: f64) -> String {
    let used = |role: &'static str, metric| {
        let of = scaled.iter().map(|scaled| {
            let all = processors(run, scaled.most, role, threads)?;
            Some((threads as f64 * running(scaled.most, metric)?, all))
        });
        let of: Option<Vec<(f64, usize)>> = of.collect();
        let of = of?;
        let all = of.first()?.1;
        let busy = ends(of.iter().map(|(busy, _)| *busy))?;
        Some((busy, all, busy.0 >= BUSY * all as f64))
    };
    let said = |((low, high), all, _): ((f64, f64), usize, bool)| {
        let noun = if all == 1 { "processor" } else { "processors" };
        format!("{} of {all} {noun}", range((low, high), 2))
    };
    match (used("sender", SENDER), used("receiver", RECEIVER)) {
        (Some(sender), Some(receiver)) if sender.2 && receiver.2 => format!(
            "; what limits is the processors: the senders used {}, the receivers {}",
            said(sender),
            said(receiver)
        ),
        (Some(sender), _) if sender.2 => format!(
            "; what limits is the senders' processors: they used {}",
            said(sender)
        ),
        (_, Some(receiver)) if receiver.2 => format!(
            "; what limits is the receivers' processors: they used {}",
            said(receiver)
        ),
        (Some(sender), Some(receiver)) => format!(
            "; no processor was always busy: the senders used {}, the receivers {}, and both waited, \
             for each other or the link",
            said(sender),
            said(receiver)
        ),
        _ => shared(run, threads, times),
    }
}

/// Whether others used the processors meanwhile.
fn disturbed(scaled: &[Scaled<'_>]) -> &'static str {
    let mut rows = scaled.iter().flat_map(|scaled| [scaled.one, scaled.most]);
    match rows.any(|row| grade_by_others(row) > Grade::B) {
        true => "; others used the processors meanwhile, so that this is no more than a hint",
        false => "",
    }
}

/// For which share of the time an end's threads ran, in the mean over them.
fn running(row: &PointRow, metric: &str) -> Option<f64> {
    Some(row.estimate(metric)?.median)
}

/// How many processors the threads of a role have, as `copy.send` gives them: every second of the
/// run's where both ends are on one machine.
fn processors(run: &Run, row: &PointRow, role: &str, threads: u64) -> Option<usize> {
    let given = row.placement.0.get(role)?.len();
    let apart = run.run.plan.placement.0.contains_key(PEER);
    let own = match given % 2 {
        0 if !apart => given / 2,
        _ => given,
    };
    Some(own.min(threads as usize)).filter(|own| *own > 0)
}

/// What is sure to limit them all the same: processors, where both ends' threads have fewer than one
/// each.
fn shared(run: &Run, threads: u64, times: f64) -> String {
    let Some(processors) = facts(run).map(|facts| facts.usable_cpus().len() as u64) else {
        return String::new();
    };
    let both_ends = 2 * threads;
    match (1..both_ends).contains(&processors) && times < threads as f64 {
        true => format!(
            "; with those that receive, {both_ends} threads share {processors} {}",
            if processors == 1 {
                "processor"
            } else {
                "processors"
            }
        ),
        false => String::new(),
    }
}

/// The least and the greatest; none of none.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((least, greatest)) => Some((f64::min(least, value), f64::max(greatest, value))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use crate::send_crossover::PROBE;
    use costof_model::axis::Axes;
    use costof_model::facts::CpuSet;

    fn row(threads: u64, size: u64, value: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", "two_copy")
            .with("size", size)
            .with("threads", threads);
        let mut row = point_row(PROBE, METRIC, axes, value, (0.98 * value, 1.02 * value));
        row.point.link = "veth".into();
        row
    }

    #[test]
    fn scaling_is_told_over_all_sizes_with_its_efficiency() {
        let mut run = run(&[]);
        for (threads, size, value) in [
            (1, 4096, 4.0),
            (8, 4096, 6.0),
            (2, 4096, 5.0),
            (1, 64, 1.0),
            (8, 64, 2.0),
        ] {
            run.points.push(row(threads, size, value));
        }
        let findings = thread_scaling(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence,
            "8 threads send 1.50 to 2.00 times as much as one (1.46 to 2.06) by two_copy over veth at \
             64B to 4KiB, which is an efficiency of 19 to 25 %"
        );
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
        let sentence = &findings[0].sentence;
        assert!(
            sentence.ends_with(
                "an efficiency of 25 %; with those that receive, 8 threads share 2 processors"
            ),
            "{sentence}"
        );
    }

    /// What a row of threads that send so much runs for, and what a KiB takes.
    fn ran(mut row: PointRow, sender: f64, receiver: f64, cpu: f64) -> PointRow {
        for (name, value) in [(SENDER, sender), (RECEIVER, receiver), ("cpu_sender", cpu)] {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median) = (name.into(), value);
            metric.ci95 = Some((0.9 * value, 1.1 * value));
            row.metrics.push(metric);
        }
        let cpus = [("sender", vec![1, 0]), ("receiver", vec![0, 1])];
        row.placement.0 = cpus
            .map(|(role, cpus)| (role.into(), cpus))
            .into_iter()
            .collect();
        row
    }

    fn sentence(rows: [PointRow; 2]) -> String {
        let mut run = run(&[]);
        run.points.extend(rows);
        thread_scaling(&run).remove(0).sentence
    }

    #[test]
    fn an_end_whose_processors_are_always_busy_is_what_limits() {
        let rows = |sender, receiver| {
            [
                ran(row(1, 4096, 4.0), 1.0, 0.4, 100.0),
                ran(row(4, 4096, 4.0), sender, receiver, 120.0),
            ]
        };
        let told = sentence(rows(0.25, 0.1));
        assert!(
            told.ends_with(
                "an efficiency of 25 %; a KiB takes the sender 1.20 times the processor time (1.04 to \
                 1.38), so they take cache, memory or locks from each other, or switches between them take it; what limits is the senders' processors: they used 1.00 of 1 processor"
            ),
            "{told}"
        );
        let mut apart = rows(0.25, 0.1);
        apart[1].placement.0 = [("sender".into(), (0..8).collect())].into_iter().collect();
        let told = sentence(apart);
        assert!(told.contains("locks from each other"), "{told}");
        assert!(!told.contains("switches"), "{told}");
        for (sender, receiver, says) in [
            (0.1, 0.25, "is the receivers' processors"),
            (
                0.25,
                0.25,
                "the senders used 1.00 of 1 processor, the receivers 1.00 of 1",
            ),
            (
                0.2,
                0.2,
                "no processor was always busy: the senders used 0.80 of 1 processor",
            ),
        ] {
            let told = sentence(rows(sender, receiver));
            assert!(told.contains(says), "{told}");
        }
    }

    #[test]
    fn a_busy_machine_says_so() {
        let mut rows = [row(1, 4096, 4.0), row(4, 4096, 5.0)];
        assert!(!sentence(rows.clone()).contains("a hint"));
        rows[1].warnings.push(costof_model::noise::Warning {
            kind: "steal".into(),
            grade: Grade::C,
            what: String::new(),
            advice: String::new(),
        });
        assert!(sentence(rows).ends_with("no more than a hint"));
    }

    #[test]
    fn misses_are_told_where_they_are_counted() {
        let counted = |threads, misses: f64| {
            let mut row = ran(row(threads, 4096, 4.0), 0.25, 0.1, 100.0);
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median) = ("llc_load_misses".into(), misses);
            metric.ci95 = Some((misses, misses));
            row.metrics.push(metric);
            row
        };
        let told = sentence([counted(1, 10.0), counted(4, 15.0)]);
        assert!(
            told.contains("can be told, with 1.50 times the last-level misses;"),
            "{told}"
        );
    }

    #[test]
    fn threads_that_wait_for_answers_fill_each_others_time() {
        let echo = |threads, rate, running| {
            let mut row = ran(row(threads, 64, rate), running, running, 100.0);
            row.point.axes = row.point.axes.with("pattern", "echo").with("in_flight", 1);
            row
        };
        let told = sentence([echo(1, 1.0, 0.25), echo(4, 5.0, 0.23)]);
        assert!(told.contains("an efficiency of 125 %"), "{told}");
        assert!(
            told.contains(
                "one thread waits for the other end and for being woken (it ran for 25 %"
            ),
            "{told}"
        );
        let many = |threads, rate| {
            let mut row = echo(threads, rate, 0.25);
            row.point.axes = row.point.axes.with("in_flight", 16);
            row
        };
        assert!(!sentence([many(1, 1.0), many(4, 5.0)]).contains("waits for the other end"));
    }
}
