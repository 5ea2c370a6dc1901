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
    let run = run("", &only_cpu_0_is_alone());
    let plan = &run.run.plan.placement;
    let has_gauge = run.attempts[0].clock.core_floor.is_some();
    if !has_gauge || !cpus(plan, ELIGIBLE).contains(&0) || cpus(plan, MEASURED)[0] == 0 {
        return skipped("there must be two alike CPUs with a gauge");
    }
    assert_eq!(measured(&run)[0], [0]);
    assert!(!cpus(&run.launches[0].placement, CONTROLLER).contains(&0));
}

/// Answers looks: no core is alone but that of the lowest CPU, and the machine itself uses none.
fn only_cpu_0_is_alone() -> String {
    let look = |cpu: &usize| {
        let alone = if *cpu == 0 { "1.0" } else { "0.0" };
        format!(r#"{{"cpu":{cpu},"alone":{alone},"busy":null,"max_khz":null}}"#)
    };
    let looks: Vec<String> = affinity::allowed().unwrap().iter().map(look).collect();
    format!(r#"/"is":"looked"/s/"cpus":\[.*\]/"cpus":[{}]/"#, looks.join(","))
}

#[test]
fn where_a_device_is_measured_a_launch_stays_on_its_cpu() {
    let place = Place::new();
    let answers = only_cpu_0_is_alone();
    let on = format!("exec:{COSTOF} worker | sed -u '{answers}'");
    let line = "run --only file.sync --set writers=1 --launches 3 --seed 1 --out run.jsonl --on";
    // Its files may lie where no number of a device can be had.
    crate::common::run(place.costof(line).arg(on));
    let run = place.run_file();
    let first = cpus(&run.run.plan.placement, MEASURED)[0];
    assert!(!run.launches.is_empty());
    assert!(measured(&run).iter().all(|cpus| cpus == &[first]), "{:?}", measured(&run));
}

#[test]
fn an_older_worker_stays_on_its_cpu_and_is_asked_once() {
    let place = Place::new();
    let on = format!(
        r#"exec:sed -u 's/"do":"look"/"do":"unheard_of"/' | tee -a asked | {COSTOF} worker"#
    );
    let line = "run --only null --launches 3 --seed 1 --out run.jsonl --on";
    crate::common::run(place.costof(line).arg(on)).expect_code(0);
    place.expect_nothing_runs();
    let run = place.run_file();
    let first = cpus(&run.run.plan.placement, MEASURED)[0];
    assert_eq!(measured(&run), [&[first]; 3]);
    let asked = std::fs::read_to_string(place.path("asked")).unwrap();
    assert!(asked.matches("unheard_of").count() <= 1, "{asked}");
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
