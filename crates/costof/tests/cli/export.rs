//! `costof export`: a run without its launches, and without names if asked.

use crate::common::{Place, assert_contains};
use costof_model::run_file;
use std::fs;

/// A run of the real costof, and what `export` makes of it with these options.
fn exported(options: &str) -> (Place, String) {
    let place = Place::new();
    place.quiet_run("--only null cpu.frequency --quick --seed 4242", "run.jsonl");
    let text = place.run(&format!("export run.jsonl {options}"));
    (place, text.expect_code(0).out)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn all_rows_but_the_launches_are_exported() {
    let (place, text) = exported("");
    let mut whole = place.run_file();
    let exported = run_file::read(text.as_bytes()).unwrap();
    assert!(!whole.launches.is_empty() && !whole.points.is_empty());
    whole.launches.clear();
    whole.whole_bytes = exported.whole_bytes;
    assert_eq!(exported, whole);
    // An export is a run file: it can be exported again, and shown.
    fs::write(place.path("small.jsonl"), &text).unwrap();
    let again = place.run("export small.jsonl").expect_code(0);
    assert_eq!(again.out, text);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_anonymous_export_names_neither_machine_nor_user() {
    let (place, text) = exported("--anonymous");
    let named = place.run("export run.jsonl").expect_code(0).out;
    let read_line = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.trim().to_owned()
    };
    // The boot is known where it is not asked to be left out.
    let boot = read_line("/proc/sys/kernel/random/boot_id");
    assert_contains(&named, &boot);
    let mut secrets = vec![boot, place.path("").to_string_lossy().into_owned()];
    secrets.push(read_line("/proc/sys/kernel/hostname"));
    secrets.push(read_line("/etc/machine-id"));
    for device in fs::read_dir("/sys/class/net").unwrap().flatten() {
        secrets.push(read_line(device.path().join("address").to_str().unwrap()));
    }
    secrets.extend(["USER", "HOME"].iter().flat_map(std::env::var));
    for secret in secrets.iter().filter(|secret| secret.len() > 2) {
        // No part of a longer word: a host called `intel` is not named by `intel_pstate`.
        let is_named = text
            .split(|c: char| !c.is_alphanumeric() && !"-_.:/".contains(c))
            .any(|word| word == secret.as_str() || (secret.contains('/') && word.contains(secret)));
        assert!(!is_named || secret == "00:00:00:00:00:00", "`{secret}` is in: {text}");
    }
    let anonymous = run_file::read(text.as_bytes()).unwrap();
    assert!(anonymous.run.command.is_empty());
    for attempt in &anonymous.attempts {
        assert_eq!(attempt.boot, None);
        let names = attempt.hosts.values().map(|facts| &facts.host_name);
        assert!(names.into_iter().all(Option::is_none));
    }
    assert_eq!(anonymous.points, place.run_file().points);
}
