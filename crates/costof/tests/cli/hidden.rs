//! What a sandbox hides, or makes up, is unknown and never zero; what a process inherited that would spoil everything is
//! left, or named.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, is_installed, may_trace, or_skip, run,
    skipped, within, within_script,
};
use costof_model::noise::{Grade, Warning};
use rustix::process::geteuid;
use std::process::Command;

/// The command in a mount namespace of its own, after this script has changed it; or why there is none here.
fn in_sandbox(script: &str, command: &Command) -> Result<Command, String> {
    if !geteuid().is_root() {
        return Err("only root can hide what /proc shows".to_owned());
    }
    let script = format!("{script} && exec \"$@\"");
    let private = ["unshare", "--mount", "--propagation", "private"];
    Ok(within(&[&private[..], &["sh", "-c", &script, "sh"]].concat(), command))
}

const LINE: &str = "run --only null --quick --launches 3 --out run.jsonl";

/// How costof runs in a sandbox, and the warnings of its only row, whose grade is never better than C.
fn sandboxed(script: &str) -> Result<(Ended, Vec<Warning>), String> {
    let place = Place::new();
    let ended = run(&mut in_sandbox(script, &place.costof(LINE))?).expect_code(0);
    let point = place.run_file().points.remove(0);
    assert!(point.grade >= Grade::C, "{point:?}");
    Ok((ended, point.warnings))
}

fn unknown(warnings: &[Warning]) -> &Warning {
    let mut warnings = warnings.iter();
    warnings.find(|warning| warning.kind == "unknown").expect("something is unknown")
}

#[test]
fn a_hidden_or_made_up_count_of_time_costs_the_grade() {
    for (script, why) in [
        ("mount --bind /dev/null /proc/stat", "not the kernel's own"),
        // What it said a moment ago.
        ("cat /proc/stat >stat && mount --bind stat /proc/stat", "not the kernel's own"),
        ("mount -t proc -o subset=pid none /proc", "No such file"),
    ] {
        let (ended, warnings) = or_skip!(sandboxed(script));
        let what = &unknown(&warnings).what;
        assert_contains_all(what, &["the hypervisor", "other processes", "/proc/stat", why]);
        // What the machine is does not need files.
        assert!(!ended.out.contains("unknown CPU"), "{}", ended.out);
        let release = Command::new("uname").arg("-r").output().unwrap().stdout;
        assert_contains(&ended.out, String::from_utf8(release).unwrap().trim());
    }
}

#[test]
fn a_quota_that_nobody_can_see_costs_the_grade() {
    let (_, warnings) = or_skip!(sandboxed("mount -t tmpfs none /sys/fs/cgroup"));
    assert_contains_all(&unknown(&warnings).what, &["quota", "cgroup is hidden"]);
}

#[test]
fn a_traced_worker_has_no_number_to_trust() {
    or_skip!(may_trace());
    let place = Place::new();
    let tracer = ["strace", "-f", "-e", "trace=none", "-e", "signal=none", "-o", "/dev/null"];
    run(&mut within(&tracer, &place.costof(LINE))).expect_code(0);
    let point = place.run_file().points.remove(0);
    assert_eq!(point.grade, Grade::D);
    assert!(point.warnings.iter().any(|warning| warning.kind == "traced"), "{point:?}");
}

#[test]
fn workers_run_under_the_ordinary_policy_whatever_they_inherit() {
    if !is_installed("chrt") {
        return skipped("there is no chrt");
    }
    let spinning = "run --only ipc.latency --set over=shared_memory --set wait=spin --set size=1 --quick --launches 3 \
                    --out run.jsonl";
    for (policy, name) in
        [(["--batch", "0"], "SCHED_BATCH"), (["--fifo", "50"], "SCHED_FIFO at priority 50")]
    {
        let chrt = [&["chrt"], &policy[..]].concat();
        if !Command::new(chrt[0]).args(&chrt[1..]).arg("true").status().unwrap().success() {
            skipped(format!("{name} is not permitted"));
            continue;
        }
        let place = Place::new();
        // Whatever goes wrong must not stop the machine.
        let limit = ["timeout", "--signal", "KILL", "120"];
        let outer = [&limit[..], &chrt].concat();
        let ended = run(&mut within(&outer, &place.costof(spinning))).expect_code(0);
        assert_contains_all(&ended.err, &[name, "ordinary policy"]);
        let run = place.run_file();
        assert!(!run.points.is_empty());
        let facts = run.facts().unwrap();
        assert_eq!(facts.inherited.scheduling_policy.as_deref(), Some("other"));
    }
}

#[test]
fn a_mebibyte_of_stack_is_enough_and_less_is_refused() {
    let place = Place::new();
    let start = |kib: u32, line: &str| {
        let script = format!("ulimit -s {kib} && exec \"$@\"");
        run(&mut within_script(&script, &place.costof(line)))
    };
    assert_contains(&start(1024, "--version").expect_code(0).out, "costof");
    start(1024, LINE).expect_code(0);
    start(1024, "show run.jsonl").expect_code(0);
    start(256, "show run.jsonl").expect_wrong(&["256 KiB", "ulimit -s"]);
}
