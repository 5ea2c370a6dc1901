//! Every tool that is installed here says a number that is understood. What it may not do here, or
//! what is not installed, is named; so is a message that sockperf lost.

use costof_peers::checks::{Effort, checks};
use costof_peers::child::Interrupt;
use costof_peers::tool::Conditions;
use std::time::Duration;

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_installed_is_understood() {
    let cpus = costof_os::sched::affinity::allowed().expect("the allowed CPUs are known");
    let interrupt = Interrupt::never();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let on = Conditions {
        cpu: cpus[0],
        next: cpus.get(1).copied(),
        folder: folder.path(),
        limit: Duration::from_secs(100),
        interrupt: &interrupt,
    };
    for check in checks(Effort::QUICK) {
        if let Some(why) = check.lacks {
            eprintln!("skipped: {} {}: {why}", check.probe, check.axes);
            continue;
        }
        for peer in check.peers {
            let what = format!("{} for {} {}", peer.tool, check.probe, check.axes);
            match peer.measure(on) {
                Ok(number) => println!("{what}: {number}"),
                Err(error) => {
                    let why = error.to_string();
                    assert!(!why.contains("no number that"), "{what}: {why}");
                    eprintln!("skipped: {what}: {why}");
                }
            }
        }
    }
}
