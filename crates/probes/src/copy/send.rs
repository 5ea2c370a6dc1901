//! `copy.send`: which way of sending a message of several fields pays.

mod axes;
mod describe;
pub mod interactive;
mod plan;
mod predict;
mod roles;

use crate::copy::pieces;
use crate::net::both_ends::{joined, take};
use crate::prelude::*;
use axes::CopySend;
use costof_model::metric::Data;

pub(crate) static PROBE: Probe = Probe::new::<CopySend>();

impl Measure for CopySend {
    const METRICS: &'static [Metric] = describe::METRICS;
    const AFTER: &'static [&'static str] = pieces::AFTER;
    const ROUNDS: u32 = 2;
    // Ways of sending are compared: those of one message are in one block.
    const BLOCKS_BY: &'static [&'static str] = axes::BLOCKS_BY;
    // With what every run has: ten minutes, and a minute and a half by a quick one.
    const BUDGET: Option<Budget> = Some(Budget::seconds(70, 500, 0));
    const ROLE_NAMES: &'static [&'static str] = &["receiver", "sender"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<CopySend>(roles::Receiving::start(launch, false)?),
        |launch| role::<CopySend>(roles::Sending::start(launch)?),
    ];

    headlines! {
        "send: 32 KiB in 8 fields, two copies, TCP on loopback": {},
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        plan::more_points(facts)
    }

    fn least_ns(point: &At<CopySend>) -> f64 {
        2.0 * roles::least_ns(point)
    }

    fn memory_bytes(point: &At<CopySend>) -> u64 {
        point.axes.memory_bytes()
    }

    fn processors(point: &At<CopySend>) -> usize {
        2 * point.threads
    }

    fn predict(point: &At<CopySend>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict::predict(point, facts, known)
    }

    /// The receiver's report and the sender's in one; soft interrupts of both ends together.
    fn derive(point: &At<CopySend>, reports: Vec<Report>) -> Report {
        let mut report = joined(reports);
        let left = take(&mut report, LEFT);
        let has = |report: &Report, name: &str| report.metrics.iter().any(|have| have.name == name);
        if let Some(left) = left.filter(|_| !has(&report, "throughput")) {
            derived::add(&mut report, "throughput", left);
        }
        let received = has(&report, "cost");
        report.metrics.retain_mut(|measured| {
            let is_left = measured.name == LEFT_COST;
            if is_left {
                measured.name = "cost".into();
            }
            !(is_left && received)
        });
        let throughput = report.metrics.iter().find(|have| have.name == "throughput");
        if let Some(Data::Value(throughput)) = throughput.map(|have| have.data.clone()) {
            let rate = throughput / point.size as f64;
            derived::add(&mut report, "rate", rate);
        }
        report
    }
}

/// Names of what the sender counts for [`CopySend::derive`]: what it handed to the kernel in a second,
/// which is all that is known where nobody receives it.
const LEFT: &str = "left";
const LEFT_COST: &str = "left_cost";

#[cfg(test)]
mod tests {
    use super::axes::{Allocate, Buffers, Primitive, check};
    use super::*;
    use costof_exchange::delivery::Shape;
    use costof_model::failure::FailureKind;
    use costof_model::metric::Measured;
    use costof_model::rows::State;
    use costof_os::memory::fields;
    use costof_os::net::field_sender;

    /// The default point with these values: `over=udp size=64`.
    pub(super) fn point(values: &str) -> CopySend {
        let mut axes = PROBE.info.defaults();
        for value in values.split(' ').filter(|value| !value.is_empty()) {
            let (name, value) = value.split_once('=').expect("an axis and a value");
            let axis = PROBE.info.axis(name).expect("an axis of the probe");
            let value = axis.parse(value).expect("a value of the axis");
            axes.0.insert(axis.name.clone(), value);
        }
        CopySend::read(&axes).expect("a point of the probe")
    }

    fn at(values: &str, link: &'static str) -> At<CopySend> {
        let (axes, link) = (point(values), link.into());
        At { axes, link }
    }

    #[test]
    fn cold_messages_fill_the_working_set_and_hot_is_one() {
        assert_eq!(point("").shape().count, 1);
        for threads in [1, 4] {
            let several = point(&format!("source=cold size=4096 threads={threads}"));
            let Shape { size, count } = several.shape();
            let bytes = (fields::memory_bytes(count, size, 8).unwrap() * threads) as u64;
            assert!(bytes <= 128 << 20 && bytes > 127 << 20, "{bytes}");
            assert!(several.memory_bytes() >= bytes);
        }
        let large = point("source=cold size=16MiB working_set=1MiB");
        assert_eq!(large.shape().count, 2);
    }

    #[test]
    fn every_word_is_its_own_way_of_sending() {
        let mut ways = Vec::new();
        for &primitive in Primitive::ALL {
            for (buffers, allocate) in [
                (Buffers::Plain, Allocate::Once),
                (Buffers::Registered, Allocate::Once),
                (Buffers::Plain, Allocate::PerMessage),
            ] {
                let sent = CopySend {
                    primitive,
                    buffers,
                    allocate,
                    ..CopySend::default()
                };
                ways.extend(sent.full_primitive());
            }
        }
        let all = field_sender::Primitive::ALL;
        assert_eq!(ways.len(), all.len());
        assert!(all.iter().all(|way| ways.contains(way)));
    }

    #[test]
    fn what_cannot_be_says_why_and_what_else_can() {
        for (values, link, says) in [
            ("over=udp size=65508", "loopback", "size=65507"),
            ("over=udp_gso size=65508", "loopback", "size=65507"),
            ("over=udp congestion_control=reno", "loopback", "only TCP"),
            ("in_flight=2", "loopback", "pattern=echo"),
            ("over=unix nagle=on", "loopback", "nagle=off"),
            ("pattern=echo nagle=on", "loopback", "nagle=off"),
            ("pattern=echo", "sink", "nobody answers"),
            ("pattern=trigger", "sink", "pattern=stream"),
            ("buffers=registered", "loopback", "uring_send"),
            (
                "primitive=one_copy allocate=per_message",
                "loopback",
                "allocate=once",
            ),
        ] {
            let failure = check(&at(values, link)).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains(says), "{}", failure.reason);
        }
        // As much as is wanted may be unanswered, and over UDP too.
        for values in [
            "",
            "pattern=echo in_flight=1024 size=16MiB",
            "pattern=echo in_flight=1024 over=udp_gso",
        ] {
            assert_eq!(check(&at(values, "loopback")), Ok(()), "{values}");
        }
    }

    /// Ways of sending share a block, and so their messages.
    #[test]
    fn blocks_differ_in_all_but_the_ways_of_sending() {
        let ways = ["primitive", "nagle", "allocate", "buffers"];
        for axis in CopySend::AXES {
            assert_ne!(
                axes::BLOCKS_BY.contains(axis),
                ways.contains(axis),
                "{axis}"
            );
        }
    }

    fn report(metrics: &[(&'static str, Data)]) -> Report {
        let metrics = metrics
            .iter()
            .map(|(name, data)| Measured::new((*name).into(), data.clone()));
        Report {
            state: State::Ok,
            allocations: 0,
            metrics: metrics.collect(),
        }
    }

    fn value(report: &Report, name: &str) -> Option<Data> {
        let found = report.metrics.iter().find(|metric| metric.name == name);
        found.map(|metric| metric.data.clone())
    }

    #[test]
    fn what_left_counts_where_nothing_arrives() {
        let sender = report(&[
            (LEFT, Data::Value(65_536.0)),
            (LEFT_COST, Data::Samples(vec![(1, 2.0)])),
        ]);
        let point = at("", "loopback");
        let sunk = CopySend::derive(&point, vec![report(&[]), sender.clone()]);
        assert_eq!(value(&sunk, "throughput"), Some(Data::Value(65_536.0)));
        assert_eq!(value(&sunk, "rate"), Some(Data::Value(2.0)));
        assert_eq!(value(&sunk, "cost"), Some(Data::Samples(vec![(1, 2.0)])));
        let receiver = report(&[
            ("throughput", Data::Value(32_768.0)),
            ("cost", Data::Samples(vec![(1, 3.0)])),
        ]);
        let received = CopySend::derive(&point, vec![receiver, sender]);
        assert_eq!(value(&received, "throughput"), Some(Data::Value(32_768.0)));
        assert_eq!(value(&received, "rate"), Some(Data::Value(1.0)));
        assert_eq!(
            value(&received, "cost"),
            Some(Data::Samples(vec![(1, 3.0)]))
        );
        for name in [LEFT, LEFT_COST] {
            assert_eq!(value(&sunk, name).or(value(&received, name)), None);
        }
    }
}
