//! Messages by several transports, over links that lose packets and one that does not.

use crate::common::{Place, expect_failed_by, expect_metrics, is_starved, median};
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;

/// What these words give.
fn measured(words: &str) -> Run {
    Place::new().quick(words).0
}

/// The point of this transport. What is missing is said, and must be missing for a reason of this
/// machine's or this build's.
fn row<'a>(run: &'a Run, over: &str, window: u64) -> Option<&'a PointRow> {
    expect_failed_by(run, &["cannot make the link", "was built without quinn"]);
    let row = run.points.iter().find(|row| {
        row.axes().find_word("over") == Some(over)
            && row.axes().find_number("window") == Some(window)
    })?;
    assert_eq!(row.state, State::Ok, "{row:?}");
    Some(row)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_transport_carries_messages_with_a_window_and_without() {
    let run = measured(
        "net.stream --set over=rudp,study,quic,tcp --set window=0,4 --set size=1400,20000",
    );
    for over in ["rudp", "study", "quic", "tcp"] {
        for window in [0, 4] {
            let Some(row) = row(&run, over, window) else {
                continue;
            };
            if is_starved(&run, row) {
                expect_metrics(row, &["throughput"]);
                continue;
            }
            expect_metrics(row, &["throughput", "cpu_sender", "cpu_receiver", "mtu"]);
            for metric in ["start_up", "retransmissions"] {
                assert!(median(row, metric) >= 0.0, "{metric} {row:?}");
            }
            let has_datagrams = row.estimate("lost_in_queue").is_some();
            assert_eq!(has_datagrams, over != "tcp", "{row:?}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn messages_arrive_over_a_link_that_loses_them() {
    let run = measured("rudp.loss --set over=rudp,quic,tcp --link rate=100Mbit,up.loss=10%");
    for over in ["rudp", "quic", "tcp"] {
        let Some(row) = row(&run, over, 10) else {
            continue;
        };
        assert!(median(row, "asked") >= 100.0, "{row:?}");
        let share = median(row, "goodput_share");
        assert!(share > 0.0 && share < 1.1, "{row:?}");
        expect_metrics(row, &["latency", "retransmissions"]);
        let starved = median(row, "starved");
        assert!((0.0..=1.0).contains(&starved), "{row:?}");
    }
}

#[test]
fn the_plan_has_the_losses_of_the_study_for_every_transport() {
    let shown = Place::new().run("run rudp.loss --dry-run").expect_code(0);
    for link in [
        "wan",
        "rate=100Mbit",
        "rate=100Mbit,up.loss=10%",
        "rate=100Mbit,up.loss=30%",
        "delay=95ms,rate=100Mbit,up.loss=30%",
    ] {
        let on = format!(" over {link} [emulated]");
        let lines: Vec<&str> =
            shown.out.lines().filter(|line| line.trim_end().ends_with(&on)).collect();
        for set in ["over=study", "over=quic", "over=tcp", "control=rate"] {
            let has = lines.iter().any(|line| line.contains(set));
            assert!(has, "{set}{on} is missing in {}", shown.out);
        }
    }
}
