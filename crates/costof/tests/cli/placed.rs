//! On which CPUs launches run.

use crate::common::{COSTOF, Place, skipped};
use costof_model::noise::{CONTROLLER, ELIGIBLE, MEASURED, Placement};
use costof_model::run_file::Run;
use costof_os::sched::affinity;

fn cpus<'a>(placement: &'a Placement, role: &str) -> &'a [usize] {
    placement.0.get(role).map_or(&[], Vec::as_slice)
}

/// The CPUs of each launch of a run, in the order of the file.
fn measured(run: &Run) -> Vec<&[usize]> {
    let launches = run.launches.iter();
    let measured = launches.map(|launch| cpus(&launch.placement, MEASURED));
    measured.collect()
}

/// A run whose machine's worker answers what sed makes of it, and is asked what sed makes of that.
fn run(asked: &str, answers: &str) -> Run {
    let place = Place::new();
    let on = format!("exec:sed -u '{asked}' | {COSTOF} worker | sed -u '{answers}'");
    let mut command = place.costof("run --only null --launches 3 --seed 1 --out run.jsonl --on");
    crate::common::run(command.arg(on)).expect_code(0);
    place.expect_nothing_runs();
    place.run_file()
}

#[test]
fn a_launch_goes_to_the_cpu_whose_core_is_most_alone() {
    let run = run(
        // The worker looks at all of them, even if the first is alone.
        r#"s/"enough":[0-9]*/"enough":9/"#,
        // No core is alone but that of the lowest CPU, and the machine itself uses none.
        r#"s/"busy":[0-9.]\+/"busy":null/g; s/"alone":[0-9.]*/"alone":0.0/g; s/\("cpu":0,"alone":\)0.0/\11.0/"#,
    );
    let plan = &run.run.plan.placement;
    let has_gauge = run.attempts[0].clock.core_floor.is_some();
    if !has_gauge || !cpus(plan, ELIGIBLE).contains(&0) || cpus(plan, MEASURED)[0] == 0 {
        return skipped("there must be two alike CPUs with a gauge");
    }
    assert_eq!(measured(&run)[0], [0]);
    assert!(!cpus(&run.launches[0].placement, CONTROLLER).contains(&0));
}

#[test]
fn an_older_worker_stays_on_its_cpu() {
    let run = run(r#"s/"do":"look"/"do":"unheard_of"/"#, "");
    let first = cpus(&run.run.plan.placement, MEASURED)[0];
    assert_eq!(measured(&run), [&[first]; 3]);
}

#[test]
fn named_cpus_are_the_measured_ones() {
    let allowed = affinity::allowed().unwrap();
    let place = Place::new();
    let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let line = format!("run --only null --launches 3 --out run.jsonl --cpu {}", list.join(","));
    place.run(&line).expect_code(0);
    let run = place.run_file();
    assert!(cpus(&run.run.plan.placement, ELIGIBLE).is_empty());
    assert_eq!(measured(&run), [&[allowed[0]]; 3]);
}
