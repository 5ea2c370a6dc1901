//! `costof report`: a run as a page, as plots, as values and as a table, and what is said of files that
//! are no whole run.

use crate::common::{Place, assert_contains, assert_contains_all, ended, signal, spawn};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

/// A place with a run of the real costof in `run.jsonl`.
fn measured() -> Place {
    let place = Place::new();
    let words = "--only null cpu.frequency cpu.clock --quick --seed 4242";
    place.quiet_run(words, "run.jsonl");
    place
}

/// What `costof report` says with these arguments, which end with this exit code.
#[track_caller]
fn report(place: &Place, arguments: &str, code: i32) -> (String, String) {
    let ended = place.run(&format!("report {arguments}")).expect_code(code);
    (ended.out, ended.err)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_becomes_a_page_plots_values_and_a_table() {
    let place = measured();
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let (out, err) = report(&place, "run.jsonl", 0);
    assert_eq!(out, "");
    assert_contains(&err, "the page is in run.html");
    let page = read("run.html");
    assert_contains_all(
        &page,
        &["<!DOCTYPE html>", "clock read: counter", "core clock", "costof run --only null", "<svg"],
    );
    fs::remove_file(place.path("run.html")).unwrap();
    let all = "run.jsonl --html page.html --svg plots --csv values.csv --markdown";
    let (out, _) = report(&place, all, 0);
    assert_contains(&out, "| clock read: counter |");
    assert_eq!(read("page.html"), page);
    let plots: Vec<_> =
        fs::read_dir(place.path("plots")).unwrap().flatten().map(|plot| plot.path()).collect();
    assert!(!plots.is_empty());
    for plot in plots {
        let text = fs::read_to_string(&plot).unwrap();
        let is_whole = text.starts_with("<svg xmlns=") && text.ends_with("</svg>");
        assert!(is_whole, "{plot:?}");
    }
    assert_contains(&read("values.csv"), "\r\ncpu.clock(source=");
    // What was not asked is not written.
    assert!(!place.path("run.html").exists());
    report(&place, "run.jsonl --csv values/", 0);
    let first = read("values.csv").lines().nth(1).unwrap().to_owned();
    let named = format!("0001-harness.null.csv,{first}");
    assert_contains(&read("values/summary.csv"), &named);
    // `export` writes the same.
    for (format, written) in [("csv", "values.csv"), ("markdown", "")] {
        let exported = place.run(&format!("export run.jsonl --format {format}")).expect_code(0).out;
        let expected = if written.is_empty() { out.clone() } else { read(written) };
        assert_eq!(exported, expected, "{format}");
    }
    for (format, folder) in [("csv-launches", "values"), ("svg", "plots")] {
        let line = format!("export run.jsonl --format {format} --out exported");
        assert_contains(&place.run(&line).expect_code(0).err, "to exported");
        let names = |folder: &str| {
            let files = fs::read_dir(place.path(folder)).unwrap().flatten();
            files.map(|file| file.file_name()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names("exported"), names(folder));
        for name in names(folder) {
            let [one, other] = ["exported", folder].map(|folder| place.path(folder).join(&name));
            assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap(), "{name:?}");
        }
        fs::remove_dir_all(place.path("exported")).unwrap();
    }
    let first = read("values/0001-harness.null.csv");
    let head = "point,metric,unit,launch,operations,value\r\nharness.null,cost,ns,0,";
    assert!(first.starts_with(head), "{first}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn without_a_file_the_latest_run_is_shown() {
    let place = Place::new();
    let (_, err) = report(&place, "", 2);
    assert_contains(&err, "history");
    place.run("run --only null --quick").expect_code(0);
    let (out, _) = report(&place, "--markdown", 0);
    assert_contains(&out, "empty batch");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_anonymous_page_names_neither_machine_nor_command() {
    let place = measured();
    report(&place, "run.jsonl --anonymous --html page.html", 0);
    report(&place, "run.jsonl --html named.html", 0);
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let command = "--seed 4242";
    for secret in [boot.trim(), command, &place.path("").to_string_lossy()] {
        assert!(!read("page.html").contains(secret), "{secret}");
    }
    assert!(read("named.html").contains(boot.trim()) && read("named.html").contains(command));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_report_that_a_signal_ends_leaves_no_file_of_its_own() {
    let place = measured();
    for part in 0..30 {
        let report = spawn(&mut place.costof("report run.jsonl --html page.html"));
        std::thread::sleep(Duration::from_millis(5 + 3 * part));
        let sent = [Signal::TERM, Signal::HUP, Signal::INT][part as usize % 3];
        signal(&report, sent);
        ended(report);
    }
    let mut names: Vec<_> =
        fs::read_dir(place.path("")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| name.to_string_lossy().ends_with(".tmp"));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn what_is_no_run_is_refused_with_the_reason() {
    let place = Place::new();
    for (text, says) in [
        ("", "it is empty"),
        ("{\"type\":\"run\"", "not written whole"),
        ("hello\n", "not a costof run"),
        ("{\"type\":\"point\"}\n", "not a costof run"),
        ("{\"type\":\"run\",\"schema\":99,\"id\":5}\n", "newer costof"),
    ] {
        fs::write(place.path("bad.jsonl"), text).unwrap();
        let (_, err) = report(&place, "bad.jsonl", 2);
        assert_contains_all(&err, &[says, "bad.jsonl"]);
    }
    let (_, err) = report(&place, "none.jsonl", 2);
    assert_contains(&err, "cannot open none.jsonl");
    assert!(!place.path("bad.html").exists());
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_is_shown_as_far_as_it_can_be_read() {
    let place = measured();
    let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
    // Torn: what is whole is shown, and nothing is wrong with it.
    fs::write(place.path("torn.jsonl"), &text[..text.len() - 20]).unwrap();
    let (_, err) = report(&place, "torn.jsonl", 0);
    assert!(!err.contains("was read up to"), "{err}");
    let page = fs::read_to_string(place.path("torn.html")).unwrap();
    assert!(page.contains("The run was interrupted"));
    // Broken in the middle, ended by zeros, and a line that is too long.
    let broken = format!("{text}{{\"type\":\"end\"}}\n{text}");
    fs::write(place.path("broken.jsonl"), &broken).unwrap();
    let zeros = format!("{}{}", &text[..text.len() - 20], "\0".repeat(4096));
    fs::write(place.path("zeros.jsonl"), zeros).unwrap();
    fs::write(place.path("long.jsonl"), text + &"x".repeat(65 << 20)).unwrap();
    for (name, says) in [
        ("broken", "is broken"),
        ("zeros", "zeros follow"),
        ("long", "is longer than 67108864 bytes"),
    ] {
        let (_, err) = report(&place, &format!("{name}.jsonl"), 0);
        assert_contains(&err, says);
        let page = fs::read_to_string(place.path(&format!("{name}.html"))).unwrap();
        assert_contains_all(&page, &["core clock", says]);
    }
    let compared = place.run("compare zeros.jsonl run.jsonl");
    assert_contains(&compared.err, "zeros.jsonl: The run file");
    // What follows the zeros is cut off, which nobody should have to find out.
    let resumed = place.run("run --resume zeros.jsonl").expect_code(0);
    assert_contains(&resumed.err, "zeros.jsonl: The run file");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_is_never_overwritten_by_what_is_made_of_it() {
    let place = measured();
    let before = fs::read(place.path("run.jsonl")).unwrap();
    fs::hard_link(place.path("run.jsonl"), place.path("linked.jsonl")).unwrap();
    for option in ["--html run.jsonl", "--csv ./run.jsonl", "--csv linked.jsonl"] {
        let (_, err) = report(&place, &format!("run.jsonl {option}"), 2);
        assert_contains(&err, "is the run itself");
    }
    assert_eq!(fs::read(place.path("run.jsonl")).unwrap(), before);
    let (_, err) = report(&place, "run.jsonl --html none/page.html", 2);
    assert_contains(&err, "cannot write none/page.html");
}
