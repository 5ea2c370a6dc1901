//! `copy.send`: the fastest way to send a message of several fields.

pub(crate) mod axes;
mod describe;
mod plan;
mod predict;
pub(crate) mod roles;

use crate::copy::pieces;
use crate::prelude::*;
use crate::two_ends::joined;
use crate::two_ends::reports::take;
use axes::CopySend;

pub(crate) static PROBE: Probe = Probe::new::<CopySend>();

impl Measure for CopySend {
    // 2: cache pollution compares messages with none, after the same passes through the array. 3: system calls
    // of an echo include those that receive its answers.
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = describe::METRICS;
    const AFTER: NameList = pieces::AFTER;
    const ROUNDS: u32 = 2;
    // Points that send the same message in different ways share a block, so that they can be
    // compared.
    const BLOCKS_BY: NameList = axes::BLOCKS_BY;
    // The whole plan of every run: ten minutes; a quick one a minute and a half.
    const BUDGET: Option<Budget> = Some(Budget::seconds(70, 500, 0));
    const ROLE_NAMES: NameList = &["receiver", "sender"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<CopySend>(roles::Receiving::start(launch)?),
        |launch| role::<CopySend>(roles::Sending::start(launch)?),
    ];

    headlines! {
        "send: 32 KiB in 8 fields, two copies, TCP on loopback": {},
    }

    /// The words of the reports that `# Sources` names.
    fn aliases() -> Vec<Alias> {
        let renamed = axes::OLD_WORDS.iter().map(|(was, is)| {
            Alias::new(
                format!("copy.send(primitive={was})"),
                format!("copy.send(primitive={})", is.word()),
            )
        });
        renamed.collect()
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        plan::more_points(facts)
    }

    fn check_axes(point: &At<Self>) -> Result {
        axes::check_axes(point)
    }

    /// The messages that sendfile sends lie in a file.
    fn disk_bytes(point: &At<Self>) -> u64 {
        match point.primitive {
            axes::Primitive::SendfileFile => point.memory_bytes(),
            _ => 0,
        }
    }

    fn least_ns(point: &At<Self>) -> f64 {
        2.0 * roles::least_ns(point) + roles::singles_ns(point)
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.axes.memory_bytes()
    }

    fn processors(point: &At<Self>) -> usize {
        2 * point.threads
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point, facts, measured)
    }

    /// Merges the receiver's report and the sender's; soft interrupts of both ends are added.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
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
        if let Some(throughput) = derived::value(&report, "throughput") {
            derived::add(&mut report, "rate", throughput / point.size as f64);
        }
        report
    }
}

/// What the sender reports to [`CopySend::derive`]: what it handed to the kernel per second. Where
/// nobody receives, nothing else is known.
const LEFT: &str = "left";
const LEFT_COST: &str = "left_cost";

#[cfg(test)]
mod tests {
    use super::axes::{Allocate, Buffers, Primitive, check};
    use super::*;
    use crate::testing::{self, data, number, report, samples};
    use costof_exchange::pattern::flow::Shape;
    use costof_model::failure::FailureKind;
    use costof_model::metric::Data;
    use costof_os::memory::fields;
    use costof_os::net::field_sender;

    fn point(values: &str) -> CopySend {
        testing::at(values)
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
                let sent = CopySend { primitive, buffers, allocate, ..CopySend::default() };
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
            ("buffers=registered", "loopback", "io_uring_send"),
            ("primitive=sendmsg allocate=per_message", "loopback", "allocate=once"),
        ] {
            let failure = check(&at(values, link)).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains(says), "{}", failure.reason);
        }
        // Several messages may be unanswered, also over UDP.
        for values in [
            "",
            "pattern=echo in_flight=1024 size=16MiB",
            "pattern=echo in_flight=1024 over=udp_gso",
        ] {
            assert_eq!(check(&at(values, "loopback")), Ok(()), "{values}");
        }
    }

    #[test]
    fn blocks_differ_in_all_but_the_ways_of_sending() {
        let ways = ["primitive", "nagle", "allocate", "buffers"];
        for axis in CopySend::AXES {
            assert_ne!(axes::BLOCKS_BY.contains(axis), ways.contains(axis), "{axis}");
        }
    }

    #[test]
    fn what_left_counts_where_nothing_arrives() {
        let sender = report(vec![number(LEFT, 65_536.0), samples(LEFT_COST, &[(1, 2.0)])]);
        let receiver = report(vec![number("throughput", 32_768.0), samples("cost", &[(1, 3.0)])]);
        for (receiver, throughput, rate, cost_ns) in
            [(report(Vec::new()), 65_536.0, 2.0, 2.0), (receiver, 32_768.0, 1.0, 3.0)]
        {
            let sent = CopySend::derive(&at("", "loopback"), vec![receiver, sender.clone()]);
            for (name, expected) in [
                ("throughput", Some(Data::Value(throughput))),
                ("rate", Some(Data::Value(rate))),
                ("cost", Some(Data::Samples(vec![(1, cost_ns)]))),
                (LEFT, None),
                (LEFT_COST, None),
            ] {
                assert_eq!(data(&sent, name), expected.as_ref(), "{name}");
            }
        }
    }
}
