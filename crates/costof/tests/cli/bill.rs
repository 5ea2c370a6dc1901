//! `costof bill`: what a program pays in the kernel.

use crate::common::{Place, assert_contains, assert_contains_all};
use serde_json::Value;
use std::fs;

/// Few runs, without measuring prices: what is asserted is which items there are, never how long they take.
const QUICK: &str = "--budget 100ms --no-measure";

fn bill(place: &Place, program: &str) -> Value {
    let ended = place.run(&format!("bill {QUICK} --json -- {program}")).expect_code(0);
    serde_json::from_str(&ended.out).unwrap()
}

fn count(bill: &Value, item: &str) -> Option<f64> {
    let items = bill["items"].as_array().unwrap();
    items.iter().find(|it| it["name"] == item)?["count"].as_f64()
}

#[test]
fn a_programs_calls_are_counted_and_priced() {
    let place = Place::new();
    let bill = bill(&place, "dd if=/dev/zero of=/dev/null bs=64 count=3000");
    for call in ["device read of 64B", "device write of 64B"] {
        assert_eq!(count(&bill, call), Some(3000.0), "{bill}");
    }
    let entry = bill["classes"].as_array().unwrap().iter().find(|it| it["class"] == "entry");
    let entries = entry.unwrap()["count"].as_f64().unwrap();
    assert!((6000.0..6400.0).contains(&entries), "{entries}");
    let ends = ["low", "value", "high"].map(|end| bill["itemised_ns"][end].as_f64().unwrap());
    assert!(ends.is_sorted() && ends[1] > 0.0, "{ends:?}");
    let runs = bill["runs"].as_u64();
    assert!(runs >= Some(5), "{runs:?}");
}

#[test]
fn a_program_that_fails_only_while_it_is_counted_has_no_bill() {
    let place = Place::new();
    let is_not_traced = "-- grep -qE TracerPid:.0$ /proc/self/status";
    place
        .run(&format!("bill {QUICK} --by ptrace {is_not_traced}"))
        .expect_wrong(&["but ended with exit code 1 while ptrace counted it"]);
    place.run(&format!("bill {QUICK} --by ptrace --ignore-failure {is_not_traced}")).expect_code(0);
}

#[test]
fn the_answer_comes_first_and_the_sum_is_checked() {
    let place = Place::new();
    let text = place.run(&format!("bill {QUICK} --html page.html -- ls /")).expect_code(0).out;
    assert!(text.starts_with("`ls /` "), "{text}");
    assert_contains_all(
        &text,
        &[
            "entering the kernel",
            "user code",
            "What would help",
            "How it was made",
            "runs in which nothing was counted",
        ],
    );
    assert!(text.contains("temised: ") || text.contains("too short to be measured"), "{text}");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_contains_all(&page, &["What ls / pays", "class=\"bill\"", "entering the kernel"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn bills_are_saved_shown_again_and_compared() {
    let place = Place::new();
    for (file, count) in [("a.json", 1000), ("b.json", 5000)] {
        let dd = format!("dd if=/dev/zero of=/dev/null bs=64 count={count}");
        place.run(&format!("bill {QUICK} --save {file} -- {dd}")).expect_code(0);
    }
    let shown = place.run("bill --show a.json").expect_code(0).out;
    assert_contains(&shown, "count=1000");
    let diff = place.run("bill --diff a.json b.json").expect_code(0).out;
    assert_contains_all(&diff, &["device read of 64B", "1,000", "5,000", "Counts explain"]);
    // By its content, not its name.
    fs::rename(place.path("b.json"), place.path("b.jsn")).unwrap();
    let renamed = place.run("bill --diff a.json b.jsn").expect_code(0).out;
    assert_eq!(renamed, diff);
    fs::rename(place.path("b.jsn"), place.path("b.json")).unwrap();
    let text = place.run("bill --show b.json --prometheus").expect_code(0).out;
    assert_contains_all(
        &text,
        &["# TYPE costof_bill_item_count gauge", "item=\"device read of 64B\"} 5000.0"],
    );
    let mut second: Value =
        serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    second["per_second"] = true.into();
    fs::write(place.path("second.json"), second.to_string()).unwrap();
    place.run("bill --diff a.json second.json").expect_wrong(&["cannot be compared"]);
    fs::write(place.path("other.json"), "{}").unwrap();
    place.run("bill --show other.json").expect_wrong(&["other.json", "--save"]);
}

#[test]
fn a_program_that_fails_or_is_not_there_is_refused() {
    let place = Place::new();
    place.run(&format!("bill {QUICK} -- false")).expect_wrong(&["exit code 1", "--ignore-failure"]);
    place.run(&format!("bill {QUICK} -- ./nothing")).expect_wrong(&["no command `./nothing`"]);
    place.run("bill").expect_wrong(&["PROGRAM"]);
    place.run("bill --pid 2147483647 --for 1s").expect_wrong(&["process 2147483647"]);
    place.run("bill --pid 1 --for 100ms").expect_wrong(&["--for takes 1s or more"]);
    place.run("bill --diff nothing.bill true").expect_wrong(&["nothing.bill", "no such file"]);
    place.run("bill --diff 'true|true' 'false|true' --budget 200ms --no-measure").expect_code(0);
    place.run("bill --save nowhere/x -- ls").expect_wrong(&["nowhere/x", "no folder that exists"]);
    for unused in
        ["--for 2s -- ls", "--pid 1 --budget 1s", "--show a --as b", "--show a --by ptrace"]
    {
        place.run(&format!("bill {unused}")).expect_wrong(&["cannot be used with"]);
    }
}
