//! `costof estimate`: what an expression of costs comes to.

use crate::common::{Place, assert_contains, assert_contains_all};
use crate::written::file_in;
use serde_json::Value;

const EXPRESSION: &str = "2 * os.syscall(call=getpid) + 1us / 2";

/// What is estimated with these options.
fn estimated(place: &Place, options: &str) -> Value {
    let ended = place.run(&format!("estimate --json {options} {EXPRESSION}"));
    serde_json::from_str(&ended.expect_code(0).out).unwrap()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_point_is_predicted_until_it_is_measured_and_then_found_in_the_history() {
    let place = Place::new();
    assert_eq!(estimated(&place, "")["points"][0]["predicted"], true);

    let live = estimated(&place, "--measure --quick");
    let again = estimated(&place, "");
    // Reading a number back may change its last digit.
    let [one, other] = [&live, &again].map(|it| it["total"].as_f64().unwrap());
    assert!((one / other - 1.0).abs() < 1e-12, "{live}: {again}");

    // On a busy machine it may still have no number.
    let run = file_in(&place.path("state")).unwrap();
    place.make_quiet(run.to_str().unwrap());
    let measured = estimated(&place, "");
    let [low, total, high] =
        ["low", "total", "high"].map(|field| measured[field].as_f64().unwrap());
    assert_eq!(measured["unit"], "ns");
    assert_eq!(measured["parts"][1]["value"], 500.0);
    assert!(total > 500.0, "{measured}");
    assert!(low <= total && total <= high, "{measured}");
    assert_eq!(measured["points"][0]["predicted"], false);

    let text = place.run(&format!("estimate {EXPRESSION}")).expect_code(0).out;
    assert_contains_all(&text, &["95 % interval", "1us / 2", "█", "grade"]);
}

#[test]
fn what_is_neither_measured_nor_predicted_is_named() {
    let missing = Place::new().run("estimate 3 * cpu.loop").expect_code(3);
    assert_contains_all(&missing.err, &["cpu.loop", "--measure", "--run"]);
}

#[test]
fn everyday_words_and_numbers_are_understood() {
    let place = Place::new();
    let missing = place.run("estimate '3 * fsync + 2 * roundtrip'").expect_code(3);
    assert_contains_all(&missing.err, &["file.sync", "net.rtt", "--measure"]);
    let total = |expression: &str| {
        let ended = place.run(&format!("estimate --json '{expression}'")).expect_code(0);
        serde_json::from_str::<Value>(&ended.out).unwrap()["total"].as_f64()
    };
    assert_eq!(total("10k * 3ns"), Some(30_000.0));
    assert_eq!(total("1.25GB / 10Gbit/s"), Some(1e9));
    assert_eq!(total("50/s"), Some(50.0));
    for word in ["writev", "sendmsg"] {
        let explained = place.run(&format!("explain {word}")).expect_code(0);
        assert!(explained.out.starts_with("copy.send: "), "{}", explained.out);
    }
    let planned = place.run("run rpc.load --only --set rate=50/s --dry-run").expect_code(0);
    assert_contains(&planned.out, "rate=50");
}
