//! Grades: what a neighbour's load leaves of them. B, where the batches that it disturbed are left out.

use crate::common::{Place, assert_contains};
use costof_model::noise::Grade;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_neighbour_on_the_measured_processor_costs_the_grade_and_is_named() {
    let cpu =
        costof_os::sched::affinity::allowed().unwrap().pop().expect("this test runs somewhere");
    let place = Place::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            costof_os::sched::affinity::pin(&[cpu]).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let line = format!("run --only null cpu.loop --quick --cpu {cpu} --out run.jsonl");
        let ended = place.run(&line);
        stop.store(true, Ordering::Relaxed);
        ended.expect_code(0);
    });
    let run = place.run_file();
    assert!(!run.points.is_empty());
    for point in &run.points {
        assert!(point.grade >= Grade::B, "{point:?}");
        let mut warnings = point.warnings.iter();
        let waited = warnings.find(|warning| warning.kind == "run_queue_wait");
        assert_contains(&waited.expect("it says why").advice, "--cpu");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_waits_by_design_has_no_waiting_as_noise() {
    let place = Place::new();
    let run = place.measured("null os.thread --set cpus=same");
    let is_counted = std::fs::exists("/proc/thread-self/schedstat").unwrap();
    for launch in &run.launches {
        let waits = launch.points[0].point.probe == "os.thread";
        let waited_ns = launch.noise.run_queue_wait_ns;
        assert_eq!(waited_ns.is_some(), is_counted && !waits, "{waited_ns:?}");
    }
}
