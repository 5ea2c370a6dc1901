//! Finds what else used the measured core, and which operations took longer meanwhile.

use crate::naming::label;
use crate::prelude::*;
use costof_model::Selection;
use costof_model::noise::{CoreGauge, MEASURED};
use std::collections::BTreeMap;

/// If a core is shared for a smaller part of the time, no number that is shown changes.
const MIN_SHARE: f64 = 0.02;
/// An operation that is slowed down by less counts as unchanged.
const MIN_MORE: f64 = 0.01;
/// If no example was measured, this many other points are named.
const OTHERS: usize = 3;

/// An operation that everybody has a feeling for: a probe, the words on its axes, and its name.
type Example = (&'static str, &'static [(&'static str, &'static str)], &'static str);
const EXAMPLES: [Example; 4] = [
    ("os.syscall", &[("call", "getppid")], "a system call"),
    ("os.context_switch", &[("over", "pipe"), ("cpus", "same")], "a context switch"),
    ("cpu.memcpy", &[], "copying memory"),
    ("os.page_fault", &[("kind", "minor_anonymous")], "a page fault"),
];

/// One finding, if something else used the core for a notable part of the time.
pub(crate) fn core_shared(run: &Run) -> Vec<Finding> {
    let Some((share, watched)) = share(run).filter(|(share, _)| *share >= MIN_SHARE) else {
        return Vec::new();
    };
    let slowed = slowed(run);
    let sibling = sibling(run, watched);
    let alone = "the numbers shown were measured while the core was alone";
    let (who, advice) = match sibling {
        Some((cpu, other)) => (
            format!(", most likely a process on its other CPU ({other})"),
            format!(
                "measure on another core (`--cpu`), keep other processes off both CPUs (`isolcpus={cpu},{other}`), \
                 or take the other offline (`echo 0 | sudo tee /sys/devices/system/cpu/cpu{other}/online`)"
            ),
        ),
        None if run.is_virtual() => (
            ", most likely another virtual machine on the core's second hardware thread".to_owned(),
            format!(
                "{alone}; for the same cost at all times use an instance with dedicated cores, or another host"
            ),
        ),
        None => (
            String::new(),
            format!("{alone}; measure on another core (`--cpu`) to see whether it is this one"),
        ),
    };
    let longer = slowed.iter().enumerate().map(|(at, Slowed { name, more, .. })| {
        let takes = if at == 0 { "then takes " } else { "" };
        let longer = if at == 0 { " longer" } else { "" };
        format!("{name} {takes}{} %{longer}", percent(*more))
    });
    let longer = list(": ", &longer.collect::<Vec<_>>(), ", ");
    let share = percent(share);
    let sentence = format!(
        "core shared: something else used the measured core {share} % of the time{who}{longer}"
    );
    let evidence = watched.into_iter().chain(slowed.iter().map(|slowed| slowed.row));
    vec![Finding::new(Kind::CoreShared, evidence, sentence).advise(advice)]
}

/// The share of the time in which something else used the core, and the point that watched it. If there is no
/// such point, the share comes from the batches of all launches.
fn share(run: &Run) -> Option<(f64, Option<&PointRow>)> {
    let watched = run.select("cpu.neighbour").one();
    if let Some((row, share)) = watched.and_then(|row| Some((row, row.primary()?.median))) {
        return Some((share, Some(row)));
    }
    let gauged = run.launches.iter().filter_map(|launch| launch.noise.core);
    Some((gauged.reduce(CoreGauge::and)?.shared()?, None))
}

/// A point that takes longer while something else uses the core.
struct Slowed<'a> {
    row: &'a PointRow,
    name: String,
    /// The additional time, as a share of the time with the core alone.
    more: f64,
}

/// The examples that were measured; if there are none, the points that are slowed down most.
fn slowed(run: &Run) -> Vec<Slowed<'_>> {
    let slowed = |row, name: String| more(row).map(|more| Slowed { row, name, more });
    let examples = EXAMPLES.iter().filter_map(|(probe, words, name)| {
        let mut rows = run.select(probe).words(words).into_iter();
        rows.find_map(|row| slowed(row, (*name).to_owned()))
    });
    let examples: Vec<Slowed<'_>> = examples.collect();
    if !examples.is_empty() {
        return examples;
    }
    let rows = run.select_all().into_iter();
    let name = |row: &PointRow| label(row).unwrap_or_else(|| row.point.to_string());
    let mut others: Vec<Slowed<'_>> = rows.filter_map(|row| slowed(row, name(row))).collect();
    others.sort_by(|one, other| other.more.total_cmp(&one.more));
    others.truncate(OTHERS);
    others
}

/// The additional time of an operation while the core is shared, as a share of its time alone; `None` if that
/// is unknown, or if there is none.
fn more(row: &PointRow) -> Option<f64> {
    let cost = row.primary()?;
    let core = cost.core?;
    let is_cost = cost.better == Better::Lower && core.selection == Selection::Alone;
    let more = core.shared_median? / cost.median - 1.0;
    (is_cost && more.is_finite() && more >= MIN_MORE).then_some(more)
}

/// The CPU whose core was shared, and another CPU of that core, if this machine reports them. `watched` is the row
/// that tells of one CPU by itself.
fn sibling(run: &Run, watched: Option<&PointRow>) -> Option<(u32, u32)> {
    let cpu = match watched {
        Some(row) => *row.placement.0.get(MEASURED)?.first()?,
        None => most_shared(run)?,
    } as u32;
    let core = run.facts()?.cpu.cores.iter().find(|core| core.contains(cpu))?;
    let other = core.iter().find(|other| *other != cpu)?;
    Some((cpu, other))
}

/// The CPU with more than half of the time for which the launches' cores were shared.
fn most_shared(run: &Run) -> Option<usize> {
    let mut shared: BTreeMap<usize, f64> = BTreeMap::new();
    for (cpu, core) in run.gauged_cpus() {
        *shared.entry(cpu).or_default() += core.shared_ns;
    }
    let half = shared.values().sum::<f64>() / 2.0;
    shared.into_iter().find(|(_, ns)| *ns > half).map(|(cpu, _)| cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{
        RowExt, contains, ends, launch, point_row, reads, run as run_without_points,
    };
    use costof_model::metric::CoreShare;
    use costof_model::testing::probe_info;
    use costof_model::{Axes, CpuSet};

    /// A run on a virtual machine whose core was shared for this share of the time.
    fn run(share: f64) -> Run {
        let mut run = run_without_points(&[]);
        let ends = (0.9 * share, share);
        let watched = point_row("cpu.neighbour", "shared", Axes::default(), share, ends);
        run.points.push(watched);
        run
    }

    /// A cost of 100 ns while the core is alone, and of `shared` while it is shared.
    fn cost(
        probe: &'static str,
        axes: &[(&'static str, &'static str)],
        shared_ns: f64,
    ) -> PointRow {
        let axes = axes.iter().fold(Axes::default(), |axes, (name, word)| axes.with(name, *word));
        let mut row = point_row(probe, "cost", axes, 100.0, (99.0, 101.0));
        row.metrics[0].core = Some(CoreShare {
            selection: Selection::Alone,
            alone: 0.5,
            shared: 0.4,
            shared_median: Some(shared_ns),
            alone_by_ratio: None,
        });
        row
    }

    fn sentence(run: &Run) -> Option<String> {
        let findings = core_shared(run);
        for point in findings.iter().flat_map(|finding| &finding.evidence) {
            assert!(run.points.iter().any(|row| row.point == *point));
        }
        findings.into_iter().next().map(|finding| finding.sentence)
    }

    #[test]
    fn the_share_is_reported_with_what_takes_longer() {
        let mut run = run(0.62);
        let of_a_guest = sentence(&run);
        run.points.push(cost("harness.null", &[], 200.0));
        for (cpus, ns) in [("cross", 190.0), ("same", 157.0)] {
            let axes = [("over", "pipe"), ("cpus", cpus)];
            run.points.push(cost("os.context_switch", &axes, ns));
        }
        run.points.push(cost("os.syscall", &[("call", "getppid")], 124.0));
        run.points.push(cost("os.page_fault", &[("kind", "minor_anonymous")], 100.4));
        reads!(of_a_guest.into_iter().chain(sentence(&run)));
    }

    #[test]
    fn without_the_usual_ones_the_most_slowed_are_reported() {
        let mut run = run(0.62);
        for (call, ns) in [("a", 110.0), ("b", 140.0), ("c", 130.0), ("d", 120.0)] {
            run.points.push(cost("cpu.call", &[("type", call)], ns));
        }
        // A point that was never measured alone says nothing.
        run.points.push(cost("harness.null", &[], 300.0));
        run.points[5].metrics[0].core.as_mut().unwrap().selection = Selection::Shared;
        reads!(sentence(&run));
    }

    #[test]
    fn a_core_that_is_hardly_shared_is_not_reported() {
        assert_eq!(sentence(&run(0.01)), None);
        assert_eq!(sentence(&run_without_points(&[])), None);
    }

    #[test]
    fn where_nothing_watched_the_launches_tell() {
        let mut run = run_without_points(&[]);
        run.points.push(cost("os.syscall", &[("call", "getppid")], 124.0));
        for (alone_ns, shared_ns) in [(60.0, 30.0), (10.0, 0.0)] {
            launch(&mut run, &[]);
            run.launches.last_mut().unwrap().noise.core = Some(CoreGauge {
                floor: 0.25,
                alone_ns,
                shared_ns,
                mixed_ns: 20.0,
                ..CoreGauge::default()
            });
        }
        launch(&mut run, &[]);
        let shown = sentence(&run).unwrap();
        contains(&shown, "core 21 % of");
        ends(&shown, "24 % longer");
    }

    #[test]
    fn the_cause_is_as_likely_as_the_machine_says() {
        let mut run = run(0.62);
        run.points[0] = run.points[0].clone().placed([(MEASURED, &[1])]);
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        facts.cpu.cores = ["0,4", "1,5"].map(|core| CpuSet::parse(core).unwrap()).into();
        let found = core_shared(&run).remove(0);
        contains(&found.sentence, "CPU (5)");
        assert!(found.advice.unwrap().contains("/cpu5/online"));
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        facts.cpu.cores = Vec::new();
        facts.virtualization.virtual_machine = Some(false);
        assert!(sentence(&run).unwrap().ends_with("62 % of the time"));
    }

    #[test]
    fn the_other_cpu_is_that_of_the_core_that_launches_found_shared() {
        let mut run = run_without_points(&[]);
        run.run.plan.placement.0.insert(MEASURED.into(), vec![0]);
        run.probes = vec![probe_info("os.syscall")];
        run.points.push(cost("os.syscall", &[], 124.0));
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        facts.cpu.cores = ["0,4", "1,5"].map(|core| CpuSet::parse(core).unwrap()).into();
        let row = run.points[0].clone();
        let mut is_named = |cpu, shared_ns| {
            launch(&mut run, &[(&row, &[("cost", 100.0)])]);
            let done = run.launches.last_mut().unwrap();
            done.noise.core = Some(CoreGauge { floor: 0.25, shared_ns, ..CoreGauge::default() });
            done.placement.0.insert(MEASURED.into(), vec![cpu]);
            let shown = sentence(&run).unwrap();
            [4, 5].map(|other| shown.contains(&format!("CPU ({other})")))
        };
        assert_eq!(is_named(1, 20.0), [false, true], "not the plan's");
        assert_eq!(is_named(0, 20.0), [false, false], "both alike");
        assert_eq!(is_named(0, 10.0), [true, false]);
    }
}
