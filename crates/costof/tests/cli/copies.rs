//! Ways of sending a message, over links on which the kernel copies and one on which it does not.

use crate::common::{Place, assert_contains, read, run, was_starved};
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;

/// Few points of `copy.send` over a link.
fn measured(place: &Place, link: &str) -> Run {
    let words = format!(
        "run copy.send --set primitive=two_copy,one_copy,zero_copy,splice --set size=16KiB --quick \
         --seed 1 --out run.jsonl --link {link}"
    );
    let costof = &mut place.costof(&words);
    run(costof);
    place.expect_nothing_runs();
    read(&place.path("run.jsonl"))
}

/// The rows that are there; what is missing is said, and must be missing for a reason of this
/// machine's.
#[expect(clippy::print_stderr, reason = "what was not tried is said")]
fn rows<'a>(run: &'a Run, primitives: &[&str]) -> Vec<&'a PointRow> {
    for failure in run.failures.iter().filter(|row| !was_starved(row)) {
        let is_not_to_be_had = failure.reason.contains("cannot make the link")
            || failure.reason.contains("nothing can acknowledge")
            || failure.reason.contains("SO_ZEROCOPY");
        assert!(is_not_to_be_had, "{failure:?}");
        eprintln!("skipped: {}: {}", failure.point, failure.reason);
    }
    let rows = run.points.iter().filter(|row| {
        let primitive = row.axes().find_word("primitive").unwrap();
        primitives.contains(&primitive)
    });
    rows.collect()
}

fn estimate(row: &PointRow, metric: &str) -> f64 {
    let estimate = row.estimate(metric);
    estimate
        .unwrap_or_else(|| panic!("{metric} is missing in {row:?}"))
        .median
}

#[test]
fn with_a_receiver_on_this_machine_every_send_is_copied_after_all() {
    for link in ["loopback", "veth"] {
        let place = Place::new();
        let run = measured(&place, link);
        for row in rows(&run, &["two_copy", "one_copy", "zero_copy", "splice"]) {
            assert_eq!(row.state, State::Ok, "{row:?}");
            for metric in ["throughput", "rate", "cost", "cpu_sender", "cpu_receiver"] {
                assert!(estimate(row, metric) > 0.0, "{metric} {row:?}");
            }
        }
        for row in rows(&run, &["zero_copy"]) {
            assert!(estimate(row, "copied") > 0.99, "{row:?}");
            assert!(estimate(row, "asked") > 0.0, "{row:?}");
        }
    }
}

/// What is said is what was seen, and no more than this machine can tell.
#[test]
fn the_six_questions_are_asked_of_the_ways_of_the_study_and_the_verdict_says_why() {
    let place = Place::new();
    let words = "run copy.send --set primitive=two_copy,one_copy,zero_copy --set size=4KiB,64KiB \
                 --quick --seed 1 --out run.jsonl";
    let text = run(&mut place.costof(words)).out;
    if rows(&read(&place.path("run.jsonl")), &["zero_copy"]).is_empty() {
        return;
    }
    for number in 1..=6 {
        let asked = text.matches(&format!("\n{number}. ")).count();
        assert_eq!(asked, 1, "{text}");
    }
    let verdict = "zero_copy by tcp over loopback at 4KiB to 64KiB: copied 100 %: the receiver is on \
                   this machine (loopback)";
    assert_eq!(text.matches(verdict).count(), 1, "{text}");
    assert_contains(&text, "so this measures a deferred copy");
}

#[test]
fn into_a_sink_nothing_is_copied_that_was_asked_not_to_be() {
    let place = Place::new();
    let run = measured(&place, "sink");
    for row in rows(&run, &["zero_copy"]) {
        assert!(estimate(row, "copied") < 0.01, "{row:?}");
        assert!(estimate(row, "asked") > 0.0, "{row:?}");
    }
    for row in rows(&run, &["two_copy", "one_copy"]) {
        assert!(estimate(row, "throughput") > 0.0, "{row:?}");
        assert!(
            row.estimate("cpu_receiver").is_none(),
            "nobody receives: {row:?}"
        );
        assert!(
            row.estimate("copied").is_none(),
            "nothing is asked: {row:?}"
        );
    }
}

#[test]
fn messages_go_as_they_are_asked_for_and_are_answered_over_every_socket() {
    let place = Place::new();
    let words = "run copy.send --set pattern=echo,trigger --set in_flight=8 --set size=16KiB --set \
                 over=tcp,udp,udp_gso,unix --quick --seed 1 --out run.jsonl";
    run(&mut place.costof(words));
    place.expect_nothing_runs();
    let run = read(&place.path("run.jsonl"));
    assert_eq!(
        run.points.len() + run.failures.len(),
        8,
        "{:?}",
        run.failures
    );
    for row in &run.points {
        assert_eq!(row.state, State::Ok, "{row:?}");
        let over = row.axes().find_word("over").unwrap();
        let is_echo = row.axes().find_word("pattern") == Some("echo");
        for metric in ["throughput", "rate", "cpu_sender", "cpu_receiver"] {
            assert!(estimate(row, metric) > 0.0, "{metric} {row:?}");
        }
        let is_udp = over.starts_with("udp");
        assert_eq!(row.estimate("lost").is_some(), is_udp, "{row:?}");
        // Of what comes in part, nobody knows how long it took.
        let is_whole = row.estimate("latency").is_some();
        assert!(is_whole || is_udp, "{row:?}");
        assert_eq!(
            row.estimate("unanswered").is_some(),
            is_udp && is_echo,
            "{row:?}"
        );
    }
    for failure in &run.failures {
        // More than a socket has room for may be lost of every window.
        let over = failure.point.axes.find_word("over");
        assert!(
            over.is_some_and(|over| over.starts_with("udp")),
            "{failure:?}"
        );
    }
}

/// The points that a dry run of `copy.send` shows, and the links of which it says what they take.
fn planned(words: &str) -> (Vec<String>, Vec<String>) {
    let place = Place::new();
    let words = format!("run copy.send --dry-run {words}");
    let shown = run(&mut place.costof(&words)).expect_code(0).out;
    let (points, takes) = shown.split_once("\n\n").expect("an empty line between");
    let links = takes.lines().filter(|line| line.starts_with("over "));
    (
        points.lines().map(str::to_owned).collect(),
        links.map(str::to_owned).collect(),
    )
}

#[test]
fn the_plan_goes_over_every_link_that_this_machine_makes() {
    let (points, links) = planned("");
    for link in ["loopback", "veth", "sink"] {
        let over = format!(" over {link}");
        let of_it = points.iter().filter(|point| point.contains(&over));
        let of_it: Vec<&String> = of_it.collect();
        for size in ["size=64B", "size=16MiB"] {
            for primitive in ["primitive=one_copy", "primitive=zero_copy"] {
                let has = |point: &&&String| point.contains(size) && point.contains(primitive);
                assert_eq!(
                    of_it.iter().filter(has).count(),
                    1,
                    "{primitive} {size}{over}"
                );
            }
        }
        let said = format!("over {link}: {} points, ", of_it.len());
        let has = links.iter().any(|line| line.starts_with(&said));
        assert!(has, "`{said}` is missing in {links:?}");
    }
    for (cold, pages) in [(true, "4KiB"), (true, "2MiB"), (false, "2MiB")] {
        let of_it = points.iter().filter(|point| {
            point.contains("primitive=zero_copy")
                && point.contains(" over sink")
                && point.contains("source=cold") == cold
                && point.contains("pages=2MiB") == (pages == "2MiB")
        });
        assert!(of_it.count() >= 6, "{cold} {pages}: {points:?}");
    }
}

#[test]
fn a_link_that_is_asked_for_leaves_the_others_out() {
    for link in ["veth", "sink"] {
        let (points, links) = planned(&format!("--link {link}"));
        let over = format!(" over {link}");
        // What its predictions build on has no link, or this one.
        let may_be = |point: &String| point.contains(&over) || !point.contains(" over ");
        assert!(points.iter().all(may_be), "{points:?}");
        let of_none = |line: &String| line.starts_with("over no link: ");
        let said = |line: &String| line.starts_with(&format!("over {link}: "));
        assert!(
            links.iter().all(|line| of_none(line) || said(line)),
            "{links:?}"
        );
        let of_two = points.iter().any(|point| point.contains("threads=2 "));
        assert!(of_two, "one axis at a time: {points:?}");
    }
}
