//! Ways of sending a message, over links on which the kernel copies and one on which it does not.

use crate::common::{Place, assert_contains, expect_failed_by, expect_metrics, median};
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;

/// Few points of `copy.send`.
fn measured(words: &str) -> Run {
    Place::new().quick(&format!("copy.send {words}")).0
}

/// The same of four ways over a link.
fn over(link: &str) -> Run {
    let ways = "--set primitive=copy_and_send,sendmsg,msg_zerocopy,splice --set size=16KiB";
    measured(&format!("{ways} --link {link}"))
}

/// The rows that are there; what is missing is said, and must be missing for a reason of this
/// machine's.
fn rows<'a>(run: &'a Run, primitives: &[&str]) -> Vec<&'a PointRow> {
    let reasons = ["cannot make the link", "cannot acknowledge", "SO_ZEROCOPY"];
    expect_failed_by(run, &reasons);
    let rows = run.points.iter();
    rows.filter(|row| primitives.contains(&row.axes().word("primitive"))).collect()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn with_a_receiver_on_this_machine_every_send_is_copied_after_all() {
    for link in ["loopback", "veth"] {
        let run = over(link);
        for row in rows(&run, &["copy_and_send", "sendmsg", "msg_zerocopy", "splice"]) {
            assert_eq!(row.state, State::Ok, "{row:?}");
            let metrics = ["throughput", "rate", "cost", "cpu_sender", "cpu_receiver"];
            expect_metrics(row, &metrics);
        }
        for row in rows(&run, &["msg_zerocopy"]) {
            assert!(median(row, "copied") > 0.99, "{row:?}");
            expect_metrics(row, &["asked"]);
        }
    }
}

/// What is said is what was seen, and no more than this machine can tell.
#[test]
#[ignore = "long; ./check --all runs it"]
fn the_verdict_on_zero_copy_says_why() {
    let ways = "--set primitive=copy_and_send,sendmsg,msg_zerocopy --set size=4KiB,64KiB";
    let place = Place::new();
    let (run, _) = place.quick(&format!("copy.send {ways}"));
    if rows(&run, &["msg_zerocopy"]).is_empty() {
        return;
    }
    place.make_quiet("run.jsonl");
    let text = place.run("show run.jsonl --notes").expect_code(0).out;
    let verdict = "msg_zerocopy by tcp over loopback at 4KiB to 64KiB: copied 100 %:";
    // It may stand once more among what matters, behind a dash.
    let lines = text.lines().map(str::trim_start);
    let said = lines.filter(|line| line.starts_with(verdict)).count();
    assert_eq!(said, 1, "{text}");
    assert_contains(&text, "deferred copy");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn into_a_sink_nothing_is_copied_that_was_asked_not_to_be() {
    let run = over("sink");
    for row in rows(&run, &["msg_zerocopy"]) {
        assert!(median(row, "copied") < 0.01, "{row:?}");
        expect_metrics(row, &["asked"]);
    }
    for row in rows(&run, &["copy_and_send", "sendmsg"]) {
        expect_metrics(row, &["throughput"]);
        // Nobody receives, and nothing is asked.
        for absent in ["cpu_receiver", "copied"] {
            assert!(row.estimate(absent).is_none(), "{absent}: {row:?}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn messages_go_as_they_are_asked_for_and_are_answered_over_every_socket() {
    let run = measured(
        "--set primitive=copy_and_send --set pattern=echo,trigger --set in_flight=8 --set size=16KiB \
         --set over=tcp,udp,udp_gso,unix",
    );
    let failures = &run.failures;
    assert_eq!(run.points.len() + failures.len(), 8, "{failures:?}");
    for row in &run.points {
        assert_eq!(row.state, State::Ok, "{row:?}");
        expect_metrics(row, &["throughput", "rate", "cpu_sender", "cpu_receiver"]);
        let is_udp = row.axes().word("over").starts_with("udp");
        let is_echo = row.axes().word("pattern") == "echo";
        assert_eq!(row.estimate("lost").is_some(), is_udp, "{row:?}");
        // Of what comes in part, nobody knows how long it took.
        let is_whole = row.estimate("latency").is_some();
        assert!(is_whole || is_udp, "{row:?}");
        let has_unanswered = row.estimate("unanswered").is_some();
        assert_eq!(has_unanswered, is_udp && is_echo, "{row:?}");
    }
    for failure in failures {
        // More than a socket has room for may be lost of every window.
        let over = failure.point.axes.word("over");
        assert!(over.starts_with("udp"), "{failure:?}");
    }
}

/// The points that a dry run of `copy.send` shows.
fn planned(words: &str) -> Vec<String> {
    let shown = Place::new().run(&format!("run copy.send --dry-run {words}")).expect_code(0).out;
    let (points, _) = shown.split_once("\n\n").expect("an empty line between");
    points.lines().map(str::to_owned).collect()
}

#[test]
fn the_plan_goes_over_every_link_that_this_machine_makes() {
    let points = planned("");
    for link in ["loopback", "veth", "sink"] {
        let over = format!(" over {link}");
        let over_it: Vec<&String> = points.iter().filter(|point| point.contains(&over)).collect();
        for size in ["size=64B", "size=16MiB"] {
            for primitive in ["primitive=sendmsg", "primitive=msg_zerocopy"] {
                let has = |point: &&&String| point.contains(size) && point.contains(primitive);
                let count = over_it.iter().filter(has).count();
                assert_eq!(count, 1, "{primitive} {size}{over}");
            }
        }
    }
    for (cold, pages) in [(true, "4KiB"), (true, "2MiB"), (false, "2MiB")] {
        let like_it = points.iter().filter(|point| {
            point.contains("primitive=msg_zerocopy")
                && point.contains(" over sink")
                && point.contains("source=cold") == cold
                && point.contains("pages=2MiB") == (pages == "2MiB")
        });
        assert!(like_it.count() >= 6, "{cold} {pages}: {points:?}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_link_that_is_asked_for_leaves_the_others_out() {
    for link in ["veth", "sink"] {
        let points = planned(&format!("--link {link}"));
        let over = format!(" over {link}");
        // What its predictions build on has no link, or this one.
        let may_be = |point: &String| point.contains(&over) || !point.contains(" over ");
        assert!(points.iter().all(may_be), "{points:?}");
        let of_two = points.iter().any(|point| point.contains("threads=2 "));
        assert!(of_two, "one axis at a time: {points:?}");
    }
}
