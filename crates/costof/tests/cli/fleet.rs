//! `costof fleet` and `costof history`: runs of many hosts, and of many days.

use crate::common::{Place, assert_contains, assert_contains_all, run};
use costof_model::noise::{Grade, MEASURED};
use costof_model::run_file::{self, Run};
use std::fs;
use std::path::Path;

/// A folder `runs` with copies of a real run, as if of other hosts or of another day: each has this name, began
/// on this day, and costs this many times as much.
fn place(runs: impl IntoIterator<Item = (String, usize, f64)>) -> Place {
    let place = Place::new();
    let line = "run --only os.syscall --set call=getppid,getpid,read,open --quick --launches 3 --out run.jsonl";
    place.run(line).expect_code(0);
    fs::create_dir(place.path("runs")).unwrap();
    for (number, (host, day, factor)) in (1..).zip(runs) {
        let mut run = place.run_file();
        run.run.started = format!("2026-11-{day:02}T12:00:00Z");
        for attempt in &mut run.attempts {
            attempt.hosts.get_mut(MEASURED).unwrap().host_name = Some(host.clone());
        }
        write_as_if(
            run,
            factor,
            1.01,
            &place.path(&format!("runs/{number}.jsonl")),
        );
    }
    place
}

/// Writes a run as if nothing had disturbed it, everything cost this many times as much, and were known within
/// this factor.
pub(crate) fn write_as_if(mut run: Run, factor: f64, within: f64, file: &Path) {
    for row in &mut run.points {
        row.grade = Grade::A;
        for estimate in &mut row.metrics {
            estimate.median *= factor;
            estimate.ci95 = Some((estimate.median / within, estimate.median * within));
        }
    }
    let lines = run.into_rows().flat_map(|row| run_file::line(&row));
    fs::write(file, lines.collect::<Vec<u8>>()).unwrap();
}

#[test]
fn a_lasting_change_is_told_with_its_day_and_a_spike_is_not() {
    let cost = |day: usize| match day {
        9 => 3.0,
        20.. => 1.5,
        _ => 1.0 + 0.005 * (day % 4) as f64,
    };
    let place = place((1..=30).map(|day| ("host".to_owned(), day, cost(day))));
    let shown = place.run("history runs").expect_code(0).out;
    assert_contains_all(
        &shown,
        &[
            "30 runs since 2026-11-01, 4 rows: 4 lasting changes",
            "2026-11-20",
            "49 % worse",
        ],
    );
    assert!(!shown.contains("2026-11-09"), "{shown}");
    place
        .run("history runs --fail-changed --html history.html")
        .expect_code(0);
    let page = fs::read_to_string(place.path("history.html")).unwrap();
    assert_contains_all(&page, &["2026-11-20 12:00", "system call: getppid", "<svg"]);
    place
        .run("history runs --html runs/1.jsonl")
        .expect_wrong(&["is the run itself"]);
    let json = place.run("history runs --json").expect_code(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let found = json["changes"][0]["found"].as_str().unwrap();
    let until = (1..=found[8..10].parse::<usize>().unwrap()).map(|run| format!("runs/{run}.jsonl"));
    let until = until.collect::<Vec<_>>().join(" ");
    place
        .run(&format!("history {until} --fail-changed"))
        .expect_code(1);
    let none = Place::new().run("history").expect_code(0).out;
    assert_contains_all(&none, &["There is no run yet"]);
    let few = place
        .run("history runs/1.jsonl runs/2.jsonl")
        .expect_code(0)
        .out;
    assert_contains_all(&few, &["no lasting change", "needs five runs"]);
}

#[test]
fn a_run_says_what_it_shows_to_have_changed_and_else_nothing() {
    let cost = |day: usize| match day {
        21.. => 1.5,
        _ => 1.0 + 0.005 * (day % 4) as f64,
    };
    let place = place((1..=28).map(|day| ("host".to_owned(), day, cost(day))));
    let own = place.path("state/costof/runs");
    fs::create_dir_all(&own).unwrap();
    let mut told = Vec::new();
    for number in 1..=28 {
        let file = format!("{number}.jsonl");
        fs::copy(place.path("runs").join(&file), own.join(&file)).unwrap();
        if number < 20 {
            continue;
        }
        let path = own.join(&file).display().to_string();
        // It has all launches, so nothing is measured.
        let run = place.run(&format!("run --resume {path} --force --history"));
        let shown = place.run(&format!("show {path}")).expect_code(0).out;
        let run = run.expect_code(0).out;
        let more = run.strip_prefix(&shown).expect("what `show` shows");
        told.extend((!more.is_empty()).then(|| (number, more.to_owned())));
    }
    let [(22..=26, text)] = &told[..] else {
        panic!("{told:?}");
    };
    // Where a line ends depends on what was measured.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(
        &text,
        &[
            "- changed for good since 2026-11-21: ",
            " worse), and 3 more rows (`costof history`)",
        ],
    );
    for refused in ["--dry-run", "--json"] {
        let line = format!("run os.syscall --history {refused}");
        place.run(&line).expect_wrong(&["--history", refused]);
    }
}

#[test]
fn nodes_that_share_a_host_name_have_files_of_their_own() {
    let place = Place::new();
    for (variable, node, file) in [
        ("COSTOF_HOST_NAME", "node-7.rack", "runs/node-7.rack.jsonl"),
        ("SLURMD_NODENAME", "../n1", "runs/_..-n1.jsonl"),
    ] {
        let mut costof = place.costof("run --only null --quick --out runs/");
        run(costof.env(variable, node)).expect_code(0);
        let facts = &place.read(file).attempts[0].hosts[MEASURED];
        assert_eq!(facts.host_name.as_deref(), Some(node));
    }
    let mut again = place.costof("run --only null --quick --out runs");
    let again = run(again.env("COSTOF_HOST_NAME", "node-7.rack"));
    again.expect_wrong(&["runs/node-7.rack.jsonl", "--out"]);
}

#[test]
fn the_odd_host_is_named_with_its_reason() {
    let factor = |host: usize| {
        if host == 12 {
            2.0
        } else {
            1.0 + 0.01 * (host % 5) as f64
        }
    };
    let place = place((1..=12).map(|host| (format!("n{host:02}"), 1, factor(host))));
    let shown = place.run("fleet runs").expect_code(0);
    assert_contains_all(
        &shown.out,
        &[
            "12 hosts",
            "1 is odd",
            "slower     n12: all 4 os rows",
            "n[01-11] (11)",
        ],
    );
    // A run that is given twice does not count twice.
    let twice = place.run("fleet runs runs/12.jsonl").expect_code(0);
    assert_eq!(twice.out, shown.out);
    assert_contains(&twice.err, "runs/12.jsonl has the same run as another file");
    let failed = place.run("fleet runs --fail-odd --reason").expect_code(1);
    assert!(
        failed.out.starts_with("n12 costof: all 4 os rows"),
        "{}",
        failed.out
    );
    assert_eq!(failed.out.lines().count(), 1);
    // What is no run is left out of a folder, and an error if it is named.
    fs::write(place.path("runs/notes.jsonl"), "{}\n").unwrap();
    // A pipe would be waited for.
    place.command("mkfifo runs/pipe.jsonl").status().unwrap();
    let noted = place.run("fleet runs").expect_code(0);
    assert_eq!(noted.out, shown.out);
    assert_contains_all(&noted.err, &["left out", "notes.jsonl"]);
    place
        .run("fleet runs/notes.jsonl")
        .expect_wrong(&["notes.jsonl"]);
    let json = place.run("fleet runs --json").expect_code(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cohorts"][0]["hosts"][0]["name"], "n12");
    assert_eq!(json["cohorts"][0]["hosts"][0]["verdict"], "slower");
    // Four hosts are too few.
    let few = place.run("fleet runs/1.jsonl runs/2.jsonl runs/3.jsonl runs/12.jsonl --fail-odd");
    assert_contains_all(&few.expect_code(0).out, &["undecided", "five hosts"]);
    fs::create_dir(place.path("empty")).unwrap();
    for (words, named) in [
        ("fleet empty", "no run file"),
        ("fleet none.jsonl", "none.jsonl"),
        (
            "fleet runs --by kernal",
            "no fact `kernal`, did you mean `kernel`?",
        ),
        // It has no end.
        ("fleet /dev/zero", "it is empty"),
        ("fleet", "RUN"),
    ] {
        place.run(words).expect_wrong(&[named]);
    }
}
