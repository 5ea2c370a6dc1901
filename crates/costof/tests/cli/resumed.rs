//! What `--resume` accepts, and what it refuses with the reason.

use crate::common::{
    Place, assert_contains, ended, expect_complete, read, run, signal, spawn, wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A place with a complete run of the good probe in `run.jsonl`.
fn with_a_run() -> Place {
    let place = Place::new();
    let arguments = "run test.good --quick --seed 1 --out run.jsonl";
    run(&mut place.misbehaving(arguments)).expect_code(0);
    place
}

/// The lines of a file, each with its line feed.
fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Leaves so many lines of the file, and this after them.
fn cut(file: &Path, left: usize, after: &str) -> String {
    let text = lines(file)[..left].concat();
    fs::write(file, format!("{text}{after}")).unwrap();
    text
}

/// Changes the file's first row of a type.
fn edit(file: &Path, kind: &str, change: impl FnOnce(&mut Value)) {
    let mut lines = lines(file);
    let is_of_it = |line: &&mut String| line.starts_with(&format!("{{\"type\":\"{kind}\""));
    let line = lines.iter_mut().find(is_of_it).unwrap();
    let mut row = serde_json::from_str(line).unwrap();
    change(&mut row);
    *line = format!("{row}\n");
    fs::write(file, lines.concat()).unwrap();
}

#[test]
fn as_many_launches_as_are_asked_for_are_made_also_when_it_goes_on() {
    let place = Place::new();
    let words = "run test.good --quick --launches 8 --seed 1 --out run.jsonl";
    run(&mut place.misbehaving(words)).expect_code(0);
    let file = place.path("run.jsonl");
    let launches = |run: &costof_model::run_file::Run| {
        expect_complete(run);
        assert!(run.launches.iter().all(|row| matches!(row.of, 0 | 8)));
        run.launches.len()
    };
    let whole = launches(&read(&file));
    assert_eq!(whole % 8, 0);
    // Its pilots are written first, before anything says how many there are to be.
    let is_launch = |line: &&String| line.starts_with("{\"type\":\"launch\"");
    let all = lines(&file);
    let first = all.iter().find(is_launch).unwrap();
    let left = all.iter().position(|line| line == first).unwrap() + 1;
    cut(&file, left, "");
    run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(0);
    assert_eq!(launches(&read(&file)), whole);
    // A file may say anything.
    let begun = cut(&file, left, "");
    for asked in [0, 4_294_967_295_u32] {
        fs::write(&file, &begun).unwrap();
        edit(&file, "run", |row| row["plan"]["launches"] = json!(asked));
        let told = run(&mut place.misbehaving("run --resume run.jsonl"));
        let says = format!("{asked} launches");
        assert!(told.expect_code(2).err.contains(&says));
    }

    for (number, says) in [("2", "3..=10000"), ("many", "invalid")] {
        let told = run(&mut place.misbehaving(&["run", "test.good", "--launches", number]));
        assert!(told.expect_code(2).err.contains(says));
    }
}

#[test]
fn a_torn_last_line_is_cut_and_what_is_missing_is_measured() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    let is_launch = |line: &String| line.starts_with("{\"type\":\"launch\"");
    let second = lines(&file)
        .iter()
        .filter(|line| is_launch(line))
        .nth(2)
        .unwrap()
        .clone();
    let left = lines(&file)
        .iter()
        .position(|line| *line == second)
        .unwrap();
    // Torn in its middle, and, stranger, torn with its line feed.
    for torn in [
        &second[..second.len() / 2],
        "{\"type\":\"launch\",\"block\":0}\n",
    ] {
        let whole = cut(&file, left, torn);
        assert_eq!(read(&file).launches.len(), 2);
        run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(0);
        assert!(fs::read_to_string(&file).unwrap().starts_with(&whole));
        let run = read(&file);
        expect_complete(&run);
        assert_eq!(run.attempts.len(), 2);
        fs::write(&file, whole).unwrap();
    }
}

#[test]
fn a_launch_whose_controller_was_killed_between_its_rows_is_done_again_and_counted_once() {
    for (probe, failed) in [
        // The same failure is not written twice,
        ("test.memory", &[Some(0), Some(1), None][..]),
        // but one in other words is (a panic names its thread); it counts as the same launch.
        ("test.panic", &[Some(0), Some(0), Some(1), None]),
    ] {
        let place = Place::new();
        let arguments = ["run", probe, "--quick", "--seed", "1", "--out", "run.jsonl"];
        run(&mut place.misbehaving(&arguments)).expect_code(3);
        let file = place.path("run.jsonl");
        let is_failure = |line: &String| line.starts_with("{\"type\":\"failure\"");
        let first = lines(&file).iter().position(is_failure).unwrap();
        // The reason is written, the launch itself is not.
        cut(&file, first + 1, "");
        run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(3);
        let whole = read(&file);
        let of: Vec<Option<u32>> = whole.failures.iter().map(|row| row.launch).collect();
        assert_eq!(of, failed, "{probe}");
        let launches: Vec<u32> = whole.launches.iter().map(|row| row.launch).collect();
        assert_eq!(launches, [0, 1], "{probe}");
    }
}

#[test]
fn a_run_that_is_complete_is_shown_again_and_stays_as_it_is() {
    let place = with_a_run();
    let before = fs::read(place.path("run.jsonl")).unwrap();
    let shown = run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(0);
    assert_contains(&shown.out, "test.good");
    assert_eq!(fs::read(place.path("run.jsonl")).unwrap(), before);
}

#[test]
fn another_build_or_machine_is_refused_unless_it_is_forced() {
    let other_build = |row: &mut Value| row["build"] = json!("0123456789abcdef");
    let other_kernel = |row: &mut Value| {
        row["hosts"]["only"]["kernel"]["release"] = json!("2.6.32");
    };
    let other_host = |row: &mut Value| row["hosts"]["only"]["host_name"] = json!("elsewhere");
    let other_processor = |row: &mut Value| {
        row["hosts"]["only"]["cpu"]["model_name"] = json!("80486");
    };
    for (what, change) in [
        ("costof", other_build as fn(&mut Value)),
        ("kernel", other_kernel as fn(&mut Value)),
        ("host", other_host as fn(&mut Value)),
        ("processor", other_processor as fn(&mut Value)),
    ] {
        let place = with_a_run();
        let file = place.path("run.jsonl");
        cut(&file, lines(&file).len() - 2, "");
        edit(&file, "attempt", change);
        let before = fs::read(&file).unwrap();
        let resume = ["run", "--resume", "run.jsonl"];
        run(&mut place.misbehaving(&resume)).expect_wrong(&["another", what, "--force"]);
        assert_eq!(fs::read(&file).unwrap(), before);
        let forced = ["run", "--resume", "run.jsonl", "--force"];
        run(&mut place.misbehaving(&forced)).expect_code(0);
        expect_complete(&read(&file));
    }
}

#[test]
fn a_run_whose_probes_this_costof_does_not_have_is_refused() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    cut(&file, lines(&file).len() - 1, "");
    let resume = ["run", "--resume", "run.jsonl", "--force"];
    run(&mut place.costof(&resume)).expect_wrong(&["no probe test.good"]);
}

#[test]
fn other_methods_points_and_processors_that_are_gone_are_refused_even_if_forced() {
    let other_method = |row: &mut Value| row["method"] = json!(0);
    let other_processors = |row: &mut Value| row["plan"]["placement"]["only"] = json!([60_000]);
    let other_axes = |row: &mut Value| {
        row["plan"]["blocks"][0]["points"][0]["axes"] = json!({"colour": "red"});
    };
    for (kind, named, change) in [
        (
            "run",
            "no point test.good colour=red",
            other_axes as fn(&mut Value),
        ),
        (
            "probe",
            "method 0 of test.good",
            other_method as fn(&mut Value),
        ),
        (
            "run",
            "may not use now: 60000",
            other_processors as fn(&mut Value),
        ),
    ] {
        let place = with_a_run();
        let file = place.path("run.jsonl");
        cut(&file, lines(&file).len() - 2, "");
        edit(&file, kind, change);
        let before = fs::read(&file).unwrap();
        let resume = ["run", "--resume", "run.jsonl", "--force"];
        run(&mut place.misbehaving(&resume)).expect_wrong(&[named]);
        assert_eq!(fs::read(&file).unwrap(), before);
    }
}

#[test]
fn a_file_that_is_being_written_is_refused() {
    let place = Place::new();
    let arguments = [
        "run",
        "test.hang",
        "--set",
        "how=sleep",
        "--out",
        "run.jsonl",
    ];
    let writer = spawn(&mut place.misbehaving(&arguments));
    wait_for("the probe to hang", || place.path("hanging").exists());
    let before = fs::read(place.path("run.jsonl")).unwrap();
    run(&mut place.misbehaving("run --resume run.jsonl")).expect_wrong(&[
        "run.jsonl",
        "being written by another costof",
        "wait",
    ]);
    assert_eq!(fs::read(place.path("run.jsonl")).unwrap(), before);
    signal(&writer, Signal::INT);
    ended(writer).expect_code(130);
}

#[test]
fn what_is_no_run_file_is_refused_with_the_reason() {
    let place = Place::new();
    let newer = r#"{"type":"run","schema":2,"id":7}"#;
    for (text, named) in [
        ("", "no run was recorded in it"),
        (r#"{"type":"run","sch"#, "no run was recorded in it"),
        ("Dear diary,\n", "not a costof run"),
        (&format!("{newer}\n"), "newer costof"),
    ] {
        fs::write(place.path("run.jsonl"), text).unwrap();
        for command in [
            &["run", "--resume", "run.jsonl"][..],
            &["export", "run.jsonl"],
        ] {
            run(&mut place.costof(command)).expect_wrong(&["run.jsonl", named]);
        }
        assert_eq!(fs::read_to_string(place.path("run.jsonl")).unwrap(), text);
    }
    run(&mut place.costof("run --resume none.jsonl")).expect_wrong(&["none.jsonl", "No such file"]);
    // What the file says cannot be asked again.
    run(&mut place.costof("run null --resume run.jsonl"))
        .expect_wrong(&["--resume", "cannot be used with"]);
}

#[test]
fn a_broken_line_in_the_middle_is_named() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    let mut all = lines(&file);
    all[2] = "{\"type\":\"launch\"\n".to_owned();
    fs::write(&file, all.concat()).unwrap();
    run(&mut place.misbehaving("run --resume run.jsonl"))
        .expect_wrong(&["run.jsonl", "line 3 is broken"]);
}
