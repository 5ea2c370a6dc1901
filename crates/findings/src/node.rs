//! Finds what is wrong with a node as a whole: a CPU that is slower than the others, one that others use, a clock that
//! is not held, a memory node that reads less than another.
//!
//! These are ratios of what took turns in launches, and CPU time that the kernel counted: whatever disturbed the run,
//! they hold.

use crate::interval::{of_launches, value};
use crate::prelude::*;
use costof_model::{CpuSet, LaunchPoint, Unit};
use costof_stats::median;
use std::collections::{BTreeMap, HashMap};

/// A CPU is slow if it surely takes this much longer than the median of the others of its kind.
const SLOWER: f64 = 0.05;
/// A CPU that ran a thread that never waits for less of the time was used by others.
const RUNNING: f64 = 0.9;
/// A clock is not held if it loses this share. In a virtual machine, what its neighbours do moves it by half of that.
const FALLS: f64 = 0.1;
/// A memory node is slow if it surely reads this much less than the best.
const READS_LESS: f64 = 0.1;

/// What a core does in `node.core`, by its word, in a sentence.
const WORKS: [(&str, &str); 2] =
    [("loop", "the loop"), ("l2", "a load from the second-level cache")];

/// CPUs that are slower than the others of their kind.
pub(crate) fn slow_cores(run: &Run) -> Vec<Finding> {
    let found = WORKS.into_iter().flat_map(|(word, work)| {
        let mut kinds: BTreeMap<Option<usize>, Vec<&PointRow>> = BTreeMap::new();
        for row in run.select_any("node.core").with_value("work", word).iter() {
            kinds.entry(kind(run.facts(), cpu(row))).or_default().push(row);
        }
        kinds.into_values().filter_map(move |rows| slow_of_kind(run, work, &rows))
    });
    found.collect()
}

/// The finding about CPUs of one kind at one work.
fn slow_of_kind(run: &Run, work: &str, rows: &[&PointRow]) -> Option<Finding> {
    let mut slow = ratios(run, rows);
    slow.retain(|(_, ratio)| ratio.low > 1.0 + SLOWER);
    let by = span(slow.iter().map(|(_, ratio)| ratio.middle - 1.0))?;
    let cpus: CpuSet = slow.iter().map(|(row, _)| cpu(row)).collect();
    let sentence = format!(
        "CPU{} {cpus}: {} % slower than the median of the {} of its kind, in {work}",
        when(slow.len() > 1, "s"),
        range(by, percent),
        counted(rows.len() - 1, "other"),
    );
    let advice = "compare its clock and temperature with the others' (`turbostat`, `dmesg`); where a restart does not \
                  help, drain the node";
    let evidence = slow.iter().map(|(row, _)| *row);
    Some(Finding::new(Kind::SlowCore, evidence, sentence).advise(advice))
}

fn cpu(row: &PointRow) -> u32 {
    row.number("cpu").unwrap_or(0) as u32
}

/// The kind of core that a CPU is of, where they differ.
fn kind(facts: Option<&Facts>, cpu: u32) -> Option<usize> {
    facts?.cpu.core_kinds.iter().position(|kind| kind.cpus.contains(cpu))
}

/// The cost at each of these rows over the median of the others, with the interval of the launches' ratios.
fn ratios<'r>(run: &Run, rows: &[&'r PointRow]) -> Vec<(&'r PointRow, Interval)> {
    let positions: HashMap<&Point, usize> =
        rows.iter().enumerate().map(|(position, row)| (&row.point, position)).collect();
    let mut logarithms = vec![Vec::new(); rows.len()];
    for launch in &run.launches {
        let costs = launch
            .points
            .iter()
            .filter_map(|given| Some((*positions.get(&given.point)?, value(given, "cost")?)));
        let costs: Vec<(usize, f64)> = costs.collect();
        for (position, cost) in &costs {
            let others = costs.iter().filter(|(other, _)| other != position);
            let others: Vec<f64> = others.map(|(_, cost)| *cost).collect();
            logarithms[*position].extend(median(&others).map(|others| (cost / others).ln()));
        }
    }
    let ratios = rows.iter().zip(logarithms);
    ratios.filter_map(|(row, logarithms)| Some((*row, of_launches(&logarithms)?.exp()))).collect()
}

/// CPUs that a thread did not have for itself, alone or with all at work.
pub(crate) fn busy_cores(run: &Run) -> Vec<Finding> {
    let quota = run.facts().and_then(|facts| facts.inherited.cgroup.cpu_quota_cpus);
    let quota = maybe(quota, |cpus| format!(" (its control group has a quota of {cpus} CPUs)"));
    let is_busy = |row: &PointRow| row.counted("running").is_some_and(|share| share < RUNNING);
    let mut busy: BTreeMap<Option<u64>, Vec<&PointRow>> = BTreeMap::new();
    for row in run.points.iter().filter(|row| row.point.layer() == "node" && is_busy(row)) {
        busy.entry(row.number("cpu")).or_default().push(row);
    }
    let findings = busy.into_iter().map(|(cpu, rows)| {
        let which = match cpu {
            Some(cpu) => format!("CPU {cpu}"),
            None => "with all CPUs at work, one of them".to_owned(),
        };
        let shares = span(rows.iter().filter_map(|row| row.counted("running")));
        let sentence = format!(
            "{which}: a thread that never waits had it for {} % of the time{quota}",
            maybe(shares, |shares| range(shares, percent)),
        );
        let advice = "`ps -eLo psr,pcpu,pid,comm --sort=-pcpu | head` shows what else runs, and on which CPU; `cat \
                      /sys/fs/cgroup/cpu.max` shows a quota";
        Finding::new(Kind::BusyCore, rows, sentence).advise(advice)
    });
    findings.collect()
}

/// A clock that falls while all CPUs work, or that one of them does not reach.
pub(crate) fn held_clock(run: &Run) -> Vec<Finding> {
    let found = run.select_any("node.clock").one().and_then(|row| {
        let given: Vec<&LaunchPoint> = run.given_to(&row.point).map(|(_, given)| given).collect();
        let (start, end) = (value(given.first()?, "at_start")?, value(given.last()?, "at_end")?);
        let (lowest, mean) = (row.counted("lowest")?, row.counted("mean")?);
        let hz = |hz| Unit::Hertz.display(hz);
        let falls = (end < start * (1.0 - FALLS)).then(|| {
            let by = percent(1.0 - end / start);
            format!("the clock of all CPUs falls by {by} % while they work, from {} to {}", hz(start), hz(end))
        });
        // On a machine with several kinds of cores, the lowest is always one of the slow kind.
        let has_kinds = run.facts().is_some_and(|facts| !facts.cpu.core_kinds.is_empty());
        let is_below = lowest < mean * (1.0 - FALLS) && !has_kinds;
        let below = is_below.then(|| {
            let cpu = maybe(row.counted("lowest_cpu"), whole);
            format!("CPU {cpu} holds {}, all together {} on average", hz(lowest), hz(mean))
        });
        let parts: Vec<String> = falls.into_iter().chain(below).collect();
        let advice = "look at cooling and power limits (`turbostat`, `ipmitool sdr`), and drain the node if others of its \
                      kind hold their clock";
        let finding = Finding::new(Kind::HeldClock, [row], parts.join("; ")).advise(advice);
        (!parts.is_empty()).then_some(finding)
    });
    found.into_iter().collect()
}

/// Memory nodes that read less from their own memory than the best with as many CPUs.
pub(crate) fn node_memory(run: &Run) -> Vec<Finding> {
    let near = |row: &PointRow| row.number("from") == row.number("memory");
    let rows = run.select_any("node.bandwidth").with_value("on", "node").filter(near);
    let found = rows.iter().filter_map(|row| {
        let alike = rows.iter().filter(|other| other.counted("threads") == row.counted("threads"));
        let read = |row: &&&PointRow| row.counted("throughput").unwrap_or(0.0);
        let best = alike.max_by(|one, other| read(one).total_cmp(&read(other)))?;
        let ratio = Interval::log_ratio(run, row, best, "throughput")?.exp();
        let [low, middle, high] = [ratio.low, ratio.middle, ratio.high].map(|it| percent(1.0 - it));
        let sentence = format!(
            "memory node {}: its CPUs read {middle} % less from it ({high} to {low}) than those of node {} from theirs, as \
             with a missing, slow or misplaced memory module",
            row.number("from")?,
            best.number("from")?
        );
        let advice = "compare the modules of the sockets (`dmidecode -t memory`), and drain the node";
        let finding = Finding::new(Kind::NodeMemory, [*row, *best], sentence).advise(advice);
        (ratio.high < 1.0 - READS_LESS).then_some(finding)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, contains, known_row, launch, reads, run};
    use costof_model::facts::CoreKind;

    /// A row of a CPU at work.
    fn core(cpu: u64, work: &'static str) -> PointRow {
        known_row("node.core", "cost", axes!(cpu, work), 1.0, 0.01).metric("running", 1.0)
    }

    /// A run in whose three launches each CPU had this cost; CPUs from 8 on are of another kind.
    fn of_cores(work: &'static str, costs: &[f64]) -> Run {
        let mut run = run(&[]);
        let kind =
            |cpus: &str| CoreKind { cpus: CpuSet::parse(cpus).unwrap(), ..CoreKind::default() };
        run.attempts[0].hosts.get_mut("only").unwrap().cpu.core_kinds =
            vec![kind("0-7"), kind("8-63")];
        run.points = (0..costs.len() as u64).map(|cpu| core(cpu, work)).collect();
        let rows = run.points.clone();
        for noise in [0.99, 1.0, 1.01] {
            // A neighbour slows all CPUs of a launch alike.
            let metrics: Vec<_> = costs.iter().map(|cost| [("cost", cost * noise)]).collect();
            let points: Vec<_> =
                rows.iter().zip(&metrics).map(|(row, metrics)| (row, &metrics[..])).collect();
            launch(&mut run, &points);
        }
        run
    }

    #[test]
    fn a_slow_core_is_named_among_those_of_its_kind() {
        let costs = [1.0, 1.0, 1.34, 1.01, 0.99, 1.0, 1.0, 1.02, 2.0, 2.0, 2.7];
        let found = slow_cores(&of_cores("loop", &costs));
        reads!(&found);
        let cpus: Vec<u64> = found.iter().map(|it| it.evidence[0].axes.number("cpu")).collect();
        assert_eq!(cpus, [2, 10]);
        assert_eq!(slow_cores(&of_cores("l2", &[1.0, 1.03, 0.98])), []);
        let of_two = slow_cores(&of_cores("l2", &[1.0, 1.5]));
        contains(&of_two[0].sentence, "CPU 1: 50 % slower than the median of the 1 other");
        assert_eq!(of_two.len(), 1);
        assert_eq!(slow_cores(&of_cores("loop", &[1.0])), [], "there is no other");
    }

    #[test]
    fn of_many_slow_cores_all_are_listed() {
        let slow = |cpu| if (20..30).contains(&cpu) { 1.3 } else { 1.0 };
        let costs: Vec<f64> = (0..40).map(slow).collect();
        let found = slow_cores(&of_cores("loop", &costs));
        assert_eq!((found.len(), found[0].evidence.len()), (1, 10));
        contains(&found[0].sentence, "CPUs 20-29: 30 % slower");
    }

    #[test]
    fn a_launch_without_a_number_is_left_out() {
        let mut run = of_cores("loop", &[1.0, 1.0, 1.5]);
        run.launches[0].points.remove(2);
        assert_eq!(slow_cores(&run), [], "two launches have no interval");
    }

    #[test]
    fn a_core_that_others_use_is_named() {
        let mut run = of_cores("loop", &[1.0, 1.0]);
        assert_eq!(busy_cores(&run), []);
        run.points[1] = core(1, "loop").warned("others", costof_model::noise::Grade::D);
        run.points[1].metrics.last_mut().unwrap().median = 0.51;
        reads!(busy_cores(&run));
    }

    /// A run whose CPU 17 had this clock, the lowest, and whose launches began and ended with these.
    fn clock(lowest: f64, launches: [[f64; 2]; 3]) -> Run {
        let row = known_row("node.clock", "lowest", axes!(), lowest, 0.01).metric("running", 0.75);
        let row = row.metric("lowest_cpu", 17.0).metric("mean", 3.3e9);
        let mut run = run(&[]);
        run.points.push(row.clone());
        for [start, end] in launches {
            launch(&mut run, &[(&row, &[("at_start", start), ("at_end", end)])]);
        }
        run
    }

    #[test]
    fn a_clock_that_is_not_held_is_reported_with_its_cpu() {
        let held = [[3.4e9, 3.4e9]; 3];
        assert_eq!(held_clock(&clock(3.2e9, held)), []);
        let falls = [[3.4e9, 3.2e9], [3.1e9, 3.0e9], [3.0e9, 2.9e9]];
        reads!([clock(3.2e9, falls), clock(2.0e9, held)].iter().flat_map(held_clock));
        assert_eq!(held_clock(&run(&[])), []);
        let mut run = clock(3.2e9, held);
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        facts.inherited.cgroup.cpu_quota_cpus = Some(1.5);
        let sentence = &busy_cores(&run)[0].sentence;
        contains(sentence, "75 %");
        contains(sentence, "quota of 1.5 CPUs");
    }

    #[test]
    fn a_memory_node_that_reads_less_is_named() {
        let row = |from: u64, memory: u64, value: f64| {
            known_row("node.bandwidth", "throughput", axes!(on = "node", from, memory), value, 0.02)
                .metric("threads", 32.0)
        };
        let mut run = run(&[]);
        run.points = vec![row(0, 0, 200e9), row(0, 1, 60e9), row(1, 1, 150e9)];
        reads!(node_memory(&run));
        run.points[2] = row(1, 1, 195e9);
        assert_eq!(node_memory(&run), []);
        // Half of its CPUs read less, whatever its memory.
        run.points[2] = row(1, 1, 100e9);
        run.points[2].metrics[1].median = 16.0;
        assert_eq!(node_memory(&run), []);
    }
}
