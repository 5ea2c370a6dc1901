//! `net.bandwidth` over links that are slow and lose packets: both ends report what arrived, though
//! the last of it, or what says that it was the last, never comes.

use crate::common::{Place, or_skip, was_starved};
use costof_model::metric::Data;
use costof_model::rows::{LaunchRow, State};

/// The share of packets that may be lost where the link is set to lose 5 %.
const LOST: std::ops::Range<f64> = 0.04..0.06;

/// The launches of a point over the lossy link that were not starved, or why there is no such link, or point, here.
fn launches(axes: &str) -> Result<Vec<LaunchRow>, String> {
    let place = Place::new();
    let ended = place.run(&format!(
        "run --only net.bandwidth --quick --timeout 30 --seed 1 --out run.jsonl --link delay=50ms,loss=5% {axes}"
    ));
    let absent = ["cannot make the link", "congestion control cubic"];
    if absent.iter().any(|absent| ended.out.contains(absent)) {
        return Err(ended.out);
    }
    ended.expect_measured();
    let mut run = place.run_file();
    assert!(run.launches.len() >= 3, "{:?}", run.launches);
    place.expect_nothing_runs();
    let starved: Vec<u32> =
        run.failures.iter().filter(|row| was_starved(row)).filter_map(|row| row.launch).collect();
    run.launches.retain(|launch| !starved.contains(&launch.launch));
    Ok(run.launches)
}

fn value(launch: &LaunchRow, name: &str) -> Option<f64> {
    let [point] = &launch.points[..] else {
        panic!("there is one point: {launch:?}");
    };
    assert_eq!(point.state, State::Ok, "{launch:?}");
    let found = point.metrics.iter().find(|metric| metric.name == name)?;
    match found.data {
        Data::Value(value) => Some(value),
        Data::Samples(_) | Data::Histogram(_) => None,
    }
}

/// Of TCP more waits to be sent, in the end, than arrives in a second over such a link.
#[test]
#[ignore = "long; ./check --all runs it"]
fn a_connection_that_is_cut_short_has_a_throughput() {
    let axes = "--set over=tcp --set size=1KiB --set congestion_control=cubic";
    for launch in or_skip!(launches(axes)) {
        let throughput = value(&launch, "throughput").expect("something arrived");
        // A window of one segment, and the link without any loss.
        assert!((1448.0..1e9).contains(&throughput), "{throughput}");
        let retransmissions = value(&launch, "retransmissions").expect("TCP counts them");
        assert!((0.01..0.5).contains(&retransmissions), "{retransmissions}");
    }
}

/// The receiver counts what arrived, the sender what it sent, the kernel what the receiver had no
/// room for: the rest is what the link lost, by the link's own account.
#[test]
#[ignore = "long; ./check --all runs it"]
fn of_datagrams_as_many_are_lost_as_the_link_says() {
    for launch in or_skip!(launches("--set over=udp --set size=1000")) {
        assert!(value(&launch, "throughput").is_some());
        let lost = value(&launch, "lost").expect("both ends count datagrams");
        let in_queue = value(&launch, "lost_in_queue").expect("the kernel counts them");
        let link = launch.link.as_ref().expect("something emulates it");
        let up = &link.up;
        let by_link = up.lost as f64 / (up.lost + up.packets) as f64;
        assert!(LOST.contains(&by_link), "{up:?}");
        // It may also be too slow for a sender at its fastest.
        let on_the_way = up.lost + up.queue_drops.unwrap_or(0) + up.overruns;
        let on_the_way = on_the_way as f64 / (on_the_way + up.packets) as f64;
        assert!(on_the_way > LOST.start, "{up:?}");
        let found = lost - in_queue;
        assert!((found - on_the_way).abs() < 0.01, "{found} {on_the_way}");
    }
}
