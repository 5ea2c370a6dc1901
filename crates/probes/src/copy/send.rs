//! `copy.send`: which way of sending a message of several fields pays.

mod axes;
pub mod by_hand;
mod describe;
mod plan;
mod predict;
mod roles;

use crate::arenas;
use crate::copy::pieces;
use crate::derived;
use crate::net::both_ends::{joined, take};
use crate::net::congestion_control::CongestionControl;
use crate::prelude::*;
use axes::{Allocate, Buffers, CopySend, Nagle, Over, Pattern, Primitive, Source};
use costof_exchange::delivery::Shape;
use costof_measure::schedule::Precision;
use costof_model::metric::Data;
use costof_os::memory::fields;
use costof_os::net::field_sender;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe::new::<CopySend>();

impl Measure for CopySend {
    const METRICS: &'static [Metric] = describe::METRICS;
    const AFTER: &'static [&'static str] = pieces::AFTER;
    const ROUNDS: u32 = 2;
    // Ways of sending are compared: those of one message are in one block.
    const BLOCKS_BY: &'static [&'static str] = &[
        "size",
        "pattern",
        "in_flight",
        "threads",
        "source",
        "pages",
        "over",
        "congestion_control",
        "fields",
        "working_set",
    ];
    const BUDGET: Option<fn(Precision) -> Duration> = Some(plan::budget);
    const ROLE_NAMES: &'static [&'static str] = &["receiver", "sender"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<CopySend>(roles::Receiving::start(launch)?),
        |launch| role::<CopySend>(roles::Sending::start(launch)?),
    ];

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "send: 32 KiB in 8 fields, two copies, TCP on loopback",
            CopySend::default(),
        )]
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        plan::more_points(facts)
    }

    fn least_ns(point: &At<CopySend>) -> f64 {
        2.0 * roles::least_ns(point)
    }

    fn memory_bytes(point: &At<CopySend>) -> u64 {
        let Shape { size, count } = point.shape();
        let messages = fields::memory_bytes(count, size, point.fields).unwrap_or(usize::MAX);
        // A file has them once more; both ends have a message and a buffer beside them, and the sender
        // arrays that fill its caches.
        let copies = if point.primitive.is_sendfile() { 2 } else { 1 };
        let each = copies * messages as u64 + 2 * point.size + (8 << 20);
        point.threads as u64 * each + (64 << 20)
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

impl CopySend {
    /// What each thread sends: one message, or as many as fill its share of the working set, but no
    /// fewer than two.
    fn shape(&self) -> Shape {
        let size = self.size as usize;
        let count = match self.source {
            Source::Hot => 1,
            Source::Cold => {
                let share = self.working_set as usize / self.threads;
                let each = fields::memory_bytes(1, size, self.fields).unwrap_or(usize::MAX);
                (share / each).max(2)
            }
        };
        Shape { size, count }
    }

    /// The way of sending.
    ///
    /// # Errors
    /// What cannot be, wherever it is tried.
    fn way(&self) -> Result<field_sender::Primitive, Failure> {
        use field_sender::Primitive as Way;
        if self.buffers == Buffers::Registered && !self.primitive.is_uring() {
            return Err(Failure::unsupported(
                "only io_uring sends from registered buffers (--set primitive=uring_send,uring_zero_copy)",
            ));
        }
        if self.allocate == Allocate::PerMessage && self.primitive != Primitive::TwoCopy {
            return Err(Failure::unsupported(
                "only two_copy has a buffer that could be allocated for each message (--set \
                 allocate=once)",
            ));
        }
        Ok(match self.primitive {
            Primitive::TwoCopy => match self.allocate {
                Allocate::Once => Way::TwoCopy,
                Allocate::PerMessage => Way::TwoCopyAllocating,
            },
            Primitive::OneCopy => Way::OneCopy,
            Primitive::ZeroCopy => Way::ZeroCopy,
            Primitive::WriteEach => Way::WriteEach,
            Primitive::UringSend => match self.buffers {
                Buffers::Plain => Way::UringSend,
                Buffers::Registered => Way::UringSendRegistered,
            },
            Primitive::UringZeroCopy => match self.buffers {
                Buffers::Plain => Way::UringZeroCopy,
                Buffers::Registered => Way::UringZeroCopyRegistered,
            },
            Primitive::SendfileMemory => Way::SendfileMemory,
            Primitive::SendfileFile => Way::SendfileFile,
            Primitive::Splice => Way::Splice,
        })
    }
}

/// What cannot be, wherever it is tried.
fn check(point: &At<CopySend>) -> Result<(), Failure> {
    point.way()?;
    let unsupported = |reason: &str| Err(Failure::unsupported(reason));
    if point.over.is_udp() && point.size as usize > DATAGRAM_MOST_BYTES {
        return unsupported("a datagram has 65507 B of payload at most (--set size=65507)");
    }
    if point.over != Over::Tcp && point.congestion_control != CongestionControl::Default {
        return unsupported("only TCP has a congestion control (--set congestion_control=default)");
    }
    if point.nagle == Nagle::On && (point.over != Over::Tcp || point.pattern != Pattern::Stream) {
        return unsupported(
            "Nagle's algorithm is TCP's, and would keep the end of a message from whoever is to \
             answer it (--set nagle=off, or over=tcp and pattern=stream)",
        );
    }
    if point.pattern == Pattern::Stream && point.in_flight > 1 {
        return unsupported(
            "a stream has as much under way as its socket takes (--set pattern=echo, trigger)",
        );
    }
    if point.link == "sink" && point.pattern != Pattern::Stream {
        return unsupported("nobody answers or asks on the link sink (--set pattern=stream)");
    }
    let bytes = CopySend::memory_bytes(point);
    if !arenas::fits(bytes) {
        return Err(arenas::does_not_fit(bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::failure::FailureKind;
    use costof_model::metric::Measured;
    use costof_model::rows::State;

    fn on_loopback(axes: CopySend) -> At<CopySend> {
        let link = "loopback".into();
        At { axes, link }
    }

    #[test]
    fn cold_messages_fill_the_working_set_and_hot_is_one() {
        assert_eq!(CopySend::default().shape().count, 1);
        let cold = CopySend {
            source: Source::Cold,
            size: 4096,
            ..CopySend::default()
        };
        for threads in [1, 4] {
            let several = CopySend {
                threads,
                ..cold.clone()
            };
            let Shape { size, count } = several.shape();
            let bytes = (fields::memory_bytes(count, size, 8).unwrap() * threads) as u64;
            assert!(bytes <= 128 << 20 && bytes > 127 << 20, "{bytes}");
            assert!(CopySend::memory_bytes(&several.into()) >= bytes);
        }
        let large = CopySend {
            size: 16 << 20,
            working_set: 1 << 20,
            ..cold
        };
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
                ways.extend(sent.way());
            }
        }
        let all = field_sender::Primitive::ALL;
        assert_eq!(ways.len(), all.len());
        assert!(all.iter().all(|way| ways.contains(way)));
    }

    #[test]
    fn what_cannot_be_says_why_and_what_else_can() {
        let usual = CopySend::default;
        let over = |over| CopySend { over, ..usual() };
        let pattern = |pattern| CopySend { pattern, ..usual() };
        let size = 65_508;
        let datagram = CopySend {
            size,
            ..over(Over::Udp)
        };
        let segmented = CopySend {
            size,
            ..over(Over::UdpGso)
        };
        let congestion_control = CongestionControl::Reno;
        let controlled = CopySend {
            congestion_control,
            ..over(Over::Udp)
        };
        let several = CopySend {
            in_flight: 2,
            ..usual()
        };
        let nagle = Nagle::On;
        let joined = CopySend {
            nagle,
            ..over(Over::Unix)
        };
        let joined_echo = CopySend {
            nagle,
            ..pattern(Pattern::Echo)
        };
        let buffers = Buffers::Registered;
        let registered = CopySend { buffers, ..usual() };
        let allocated = CopySend {
            allocate: Allocate::PerMessage,
            primitive: Primitive::OneCopy,
            ..usual()
        };
        for (axes, link, says) in [
            (datagram, "loopback", "size=65507"),
            (segmented, "loopback", "size=65507"),
            (controlled, "loopback", "only TCP"),
            (several, "loopback", "pattern=echo"),
            (joined, "loopback", "nagle=off"),
            (joined_echo, "loopback", "nagle=off"),
            (pattern(Pattern::Echo), "sink", "nobody answers"),
            (pattern(Pattern::Trigger), "sink", "pattern=stream"),
            (registered, "loopback", "uring_send"),
            (allocated, "loopback", "allocate=once"),
        ] {
            let link = link.into();
            let failure = check(&At { axes, link }).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains(says), "{}", failure.reason);
        }
        assert_eq!(check(&on_loopback(usual())), Ok(()));
        // As much as is wanted may be unanswered, and over UDP too.
        let many = CopySend {
            in_flight: 1024,
            ..pattern(Pattern::Echo)
        };
        let large = CopySend {
            size: 16 << 20,
            ..many.clone()
        };
        let segmented = CopySend {
            over: Over::UdpGso,
            ..many
        };
        assert_eq!(check(&on_loopback(large)), Ok(()));
        assert_eq!(check(&on_loopback(segmented)), Ok(()));
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
        let point = on_loopback(CopySend::default());
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
