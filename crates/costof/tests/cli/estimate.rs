//! `costof estimate`: what an expression of costs comes to.

use crate::common::{Place, assert_contains_all, run};
use serde_json::Value;

#[test]
fn a_point_is_predicted_until_it_is_measured_and_then_found_in_the_history() {
    let place = Place::new();
    let command = "estimate --json 2 * os.syscall(call=getpid) + 1us / 2";
    let predicted = run(&mut place.costof(command)).expect_code(0);
    let predicted: Value = serde_json::from_str(&predicted.out).unwrap();
    assert_eq!(predicted["points"][0]["predicted"], true);

    let measured = "estimate --json --measure --quick 2 * os.syscall(call=getpid) + 1us / 2";
    let measured = run(&mut place.costof(measured)).expect_code(0);
    let measured: Value = serde_json::from_str(&measured.out).unwrap();
    let total = measured["total"].as_f64().unwrap();
    assert_eq!(measured["unit"], "ns");
    assert_eq!(measured["parts"][1]["value"], 500.0);
    assert!(total > 500.0, "{measured}");
    let ends = [&measured["low"], &measured["high"]].map(|end| end.as_f64().unwrap());
    assert!(ends[0] <= total && total <= ends[1], "{measured}");
    assert_eq!(measured["points"][0]["predicted"], false);

    let again = run(&mut place.costof(command)).expect_code(0);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["total"], measured["total"]);
    let text = command.replace("--json ", "");
    let text = run(&mut place.costof(&*text)).expect_code(0).out;
    assert_contains_all(&text, &["95 % interval", "1us / 2", "█", "grade"]);
}

#[test]
fn what_is_neither_measured_nor_predicted_is_named() {
    let missing = run(&mut Place::new().costof("estimate 3 * cpu.loop")).expect_code(3);
    assert_contains_all(&missing.err, &["cpu.loop", "--measure", "--run"]);
}

#[test]
fn a_wrong_expression_names_the_way_out() {
    let place = Place::new();
    for (words, named) in [
        ("estimate os.syscal * 2", "did you mean `os.syscall`"),
        ("estimate os.syscall + 1MiB", "cannot be added"),
        ("estimate os.syscall(call=getpd)", "getpid"),
        ("estimate 2 *", "is missing"),
    ] {
        run(&mut place.costof(words)).expect_wrong(&[named]);
    }
}
