//! What `--resume` accepts, and what it refuses with the reason.

use crate::common::{Ended, Place, assert_contains, expect_complete, interrupt, read};
use costof_model::run_file::Run;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A place with a complete run of the good probe in `run.jsonl`.
fn with_a_run() -> Place {
    let place = Place::new();
    let line = "run test.good --quick --seed 1 --out run.jsonl";
    place.run_misbehaving(line).expect_code(0);
    place
}

/// Goes on with `run.jsonl`.
fn resume(place: &Place, more: &str) -> Ended {
    place.run_misbehaving(&format!("run --resume run.jsonl {more}"))
}

/// Where the row of this type and number is among lines.
fn position_of(lines: &[String], kind: &str, number: usize) -> usize {
    let start = format!("{{\"type\":\"{kind}\"");
    let mut rows = lines.iter().enumerate().filter(|(_, line)| line.starts_with(&start));
    rows.nth(number).unwrap().0
}

/// The lines of a file, each with its line feed.
fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Leaves the first `left` lines of the file, followed by `after`.
fn cut(file: &Path, left: usize, after: &str) -> String {
    let text = lines(file)[..left].concat();
    fs::write(file, format!("{text}{after}")).unwrap();
    text
}

/// Changes the file's first row of a type.
fn edit(file: &Path, kind: &str, change: impl FnOnce(&mut Value)) {
    let mut lines = lines(file);
    let position = position_of(&lines, kind, 0);
    let mut row = serde_json::from_str(&lines[position]).unwrap();
    change(&mut row);
    lines[position] = format!("{row}\n");
    fs::write(file, lines.concat()).unwrap();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn as_many_launches_as_are_asked_for_are_made_also_when_it_goes_on() {
    let place = Place::new();
    let line = "run test.good --quick --launches 8 --seed 1 --out run.jsonl";
    place.run_misbehaving(line).expect_code(0);
    let file = place.path("run.jsonl");
    let launches = |run: &Run| {
        expect_complete(run);
        assert!(run.launches.iter().all(|row| matches!(row.of, 0 | 8)));
        run.launches.len()
    };
    let whole = launches(&read(&file));
    assert_eq!(whole % 8, 0);
    // Its pilots are written first, before anything says how many there are to be.
    let left = position_of(&lines(&file), "launch", 0) + 1;
    cut(&file, left, "");
    resume(&place, "").expect_code(0);
    assert_eq!(launches(&read(&file)), whole);
    // A file may say anything.
    let begun = cut(&file, left, "");
    for asked in [0, 4_294_967_295_u32] {
        fs::write(&file, &begun).unwrap();
        edit(&file, "run", |row| row["plan"]["launches"] = json!(asked));
        resume(&place, "").expect_wrong(&[&format!("{asked} launches")]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rows_that_were_never_alone_are_measured_again_for_the_time_that_the_file_says() {
    let place = Place::new();
    let line = "run test.good --quick --launches 3 --seed 1 --until-alone 2s --out run.jsonl";
    place.run_misbehaving(line).expect_code(0);
    let file = place.path("run.jsonl");
    let all = lines(&file);
    let launches = all[..=position_of(&all, "launch", 2)].concat();
    if !launches.contains("\"core\":[") {
        eprintln!("skipped: no gauge is read here");
        return;
    }
    // As if the core had been shared throughout, and the run had been interrupted then.
    let shared = launches.replace("\"a\"", "\"s\"").replace("\"m\"", "\"s\"");
    fs::write(&file, &shared).unwrap();
    assert_eq!(read(&file).launches.len(), 3);
    resume(&place, "").expect_code(0);
    let run = read(&file);
    expect_complete(&run);
    assert!(run.launches.len() > 3, "{}", run.launches.len());
    // Without time for them, it is done with what was planned.
    fs::write(&file, &shared).unwrap();
    edit(&file, "run", |row| row["plan"]["until_alone_ns"] = Value::Null);
    resume(&place, "").expect_code(0);
    assert_eq!(read(&file).launches.len(), 3);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_torn_last_line_is_cut_and_what_is_missing_is_measured() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    let all = lines(&file);
    let left = position_of(&all, "launch", 2);
    // Torn in its middle, and, stranger, torn with its line feed.
    for torn in [&all[left][..all[left].len() / 2], "{\"type\":\"launch\",\"block\":0}\n"] {
        let whole = cut(&file, left, torn);
        assert_eq!(read(&file).launches.len(), 2);
        resume(&place, "").expect_code(0);
        assert!(fs::read_to_string(&file).unwrap().starts_with(&whole));
        let run = read(&file);
        expect_complete(&run);
        assert_eq!(run.attempts.len(), 2);
        fs::write(&file, whole).unwrap();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_launch_whose_controller_was_killed_between_its_rows_is_done_again_and_counted_once() {
    for (probe, failed) in [
        // The same failure is not written twice,
        ("test.memory", &[Some(0), Some(1), None][..]),
        // but one in other words is (a panic names its thread); it counts as the same launch.
        ("test.panic", &[Some(0), Some(0), Some(1), None]),
    ] {
        let place = Place::new();
        let line = format!("run {probe} --quick --seed 1 --out run.jsonl");
        place.run_misbehaving(&line).expect_code(3);
        let file = place.path("run.jsonl");
        let first = position_of(&lines(&file), "failure", 0);
        // The reason is written, the launch itself is not.
        cut(&file, first + 1, "");
        resume(&place, "").expect_code(3);
        let whole = read(&file);
        let of: Vec<Option<u32>> = whole.failures.iter().map(|row| row.launch).collect();
        assert_eq!(of, failed, "{probe}");
        let launches: Vec<u32> = whole.launches.iter().map(|row| row.launch).collect();
        assert_eq!(launches, [0, 1], "{probe}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_that_is_complete_is_shown_again_and_stays_as_it_is() {
    let place = with_a_run();
    let before = fs::read(place.path("run.jsonl")).unwrap();
    let shown = resume(&place, "").expect_code(0);
    assert_contains(&shown.out, "test.good");
    assert_eq!(fs::read(place.path("run.jsonl")).unwrap(), before);
}

/// What is changed in a row.
type Change = fn(&mut Value);

/// A run without its last rows, in which the first row of a type was changed so, is not gone on with by these
/// options, and stays as it is.
fn refused(kind: &str, change: Change, options: &str, named: &[&str]) -> Place {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    cut(&file, lines(&file).len() - 2, "");
    edit(&file, kind, change);
    let before = fs::read(&file).unwrap();
    resume(&place, options).expect_wrong(named);
    assert_eq!(fs::read(&file).unwrap(), before);
    place
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn another_build_or_machine_is_refused_unless_it_is_forced() {
    let changes: [(&str, Change); 4] = [
        ("costof", |row| row["build"] = json!("0123456789abcdef")),
        ("kernel", |row| {
            row["hosts"]["only"]["kernel"]["release"] = json!("2.6.32");
        }),
        ("host", |row| {
            row["hosts"]["only"]["host_name"] = json!("elsewhere");
        }),
        ("CPU model", |row| {
            row["hosts"]["only"]["cpu"]["model_name"] = json!("80486");
        }),
    ];
    for (what, change) in changes {
        let place = refused("attempt", change, "", &["another", what, "--force"]);
        resume(&place, "--force").expect_code(0);
        expect_complete(&place.run_file());
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_whose_probes_this_costof_does_not_have_is_refused() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    cut(&file, lines(&file).len() - 1, "");
    let ended = place.run("run --resume run.jsonl --force");
    ended.expect_wrong(&["no probe test.good"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn other_methods_points_and_processors_that_are_gone_are_refused_even_if_forced() {
    let changes: [(&str, &str, Change); 3] = [
        ("run", "no point test.good colour=red", |row| {
            row["plan"]["blocks"][0]["points"][0]["axes"] = json!({"colour": "red"});
        }),
        ("probe", "method 0 of test.good", |row| {
            row["method"] = json!(0);
        }),
        ("run", "may not use now: 60000", |row| {
            row["plan"]["placement"]["only"] = json!([60_000]);
        }),
    ];
    for (kind, named, change) in changes {
        refused(kind, change, "--force", &[named]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_that_is_being_written_is_refused() {
    let place = Place::new();
    let line = "run test.hang --set how=sleep --out run.jsonl";
    let writer = place.hanging(&mut place.misbehaving(line));
    let before = fs::read(place.path("run.jsonl")).unwrap();
    let named = ["run.jsonl", "another costof", "wait"];
    resume(&place, "").expect_wrong(&named);
    assert_eq!(fs::read(place.path("run.jsonl")).unwrap(), before);
    interrupt(writer);
}

#[test]
fn what_is_no_run_file_is_refused_with_the_reason() {
    let place = Place::new();
    let newer = r#"{"type":"run","schema":2,"id":7}"#;
    for (text, named) in [
        ("", "no run was recorded"),
        (r#"{"type":"run","sch"#, "it holds no run"),
        ("Dear diary,\n", "not a costof run"),
        (&format!("{newer}\n"), "newer costof"),
    ] {
        fs::write(place.path("run.jsonl"), text).unwrap();
        for command in ["run --resume", "export"] {
            let ended = place.run(&format!("{command} run.jsonl"));
            ended.expect_wrong(&["run.jsonl", named]);
        }
        assert_eq!(fs::read_to_string(place.path("run.jsonl")).unwrap(), text);
    }
}

#[test]
fn a_broken_line_in_the_middle_is_named() {
    let place = with_a_run();
    let file = place.path("run.jsonl");
    let mut all = lines(&file);
    all[2] = "{\"type\":\"launch\"\n".to_owned();
    fs::write(&file, all.concat()).unwrap();
    resume(&place, "").expect_wrong(&["run.jsonl", "line 3 is broken"]);
}
