//! What calls and their marshalling are predicted to take, from simpler costs.

use super::axes::{Argument, Call, Carried};
use super::load::Load;
use super::marshal::{Direction, Marshalling};
use super::rtt::Rtt;
use super::stream::{self, Stream};
use crate::ends::switch_ns;
use crate::expect::at_the_clock;
use crate::net;
use crate::net::axes::{Exchange, Over};
use crate::net::path::{self, TCP_HEADERS, UDP_HEADERS};
use crate::os::syscall;
use crate::rudp::expect::library_ns;
use crate::rudp::predict;
use crate::rudp::rtt::{Carrier, Messages};
use costof_model::link::Link;
use costof_model::prediction::Known;
use costof_model::typed::{At, Words};
use costof_model::unit::Unit;
use costof_rpc::{Kind, Stack};

/// A range in nanoseconds, and the sum in words.
pub(super) type Range = (f64, f64, String);

fn ns(ns: f64) -> String {
    Unit::Nanoseconds.display(ns)
}

/// Values that the structure has, those of its lists and of what it holds among them.
const STRUCTURE_VALUES: f64 = 25.0;
/// Cycles that a message takes of any stack, its name and length, and each value in it.
const MESSAGE_CYCLES: (f64, f64) = (10.0, 600.0);
const VALUE_CYCLES: (f64, f64) = (4.0, 150.0);
/// How fast strings are copied and looked at for what is no UTF-8: at the most in bytes a cycle, which is
/// a cache line, and at the least in bytes a nanosecond.
const LINE: f64 = 64.0;
const COPIES_LEAST: f64 = 3.0;

/// Marshalling or unmarshalling an argument.
pub(super) fn marshal_ns(payload: Argument, known: &Known<'_>) -> Option<Range> {
    let hz = known.primary("cpu.frequency", &[])?;
    let (values, bytes) = match payload.kind() {
        Kind::Structure => (STRUCTURE_VALUES, payload.bytes() as f64),
        Kind::String(bytes) => (1.0, bytes as f64),
        Kind::Int | Kind::Double => (1.0, 0.0),
    };
    let of = |message: f64, value: f64, copies: f64| {
        (message + values * value) * 1e9 / hz + bytes / copies
    };
    Some((
        of(MESSAGE_CYCLES.0, VALUE_CYCLES.0, LINE * hz / 1e9),
        of(MESSAGE_CYCLES.1, VALUE_CYCLES.1, COPIES_LEAST),
        format!(
            "a message in {} to {} cycles, each value in it ({values}) in {} to {}, with memory for what is \
             unmarshalled, {}; {bytes} B of strings at {LINE} B a cycle to {COPIES_LEAST} GB/s",
            MESSAGE_CYCLES.0,
            MESSAGE_CYCLES.1,
            VALUE_CYCLES.0,
            VALUE_CYCLES.1,
            at_the_clock(hz),
        ),
    ))
}

/// The size at which every run has round trips.
const USUAL_BYTES: usize = 56;

/// A round trip through a socket over this link, as net.rtt has measured
/// it of this size or of its usual one; else as the sum that net.rtt is predicted by.
fn socket_ns(link: &str, ends: Exchange, known: &Known<'_>) -> Option<Range> {
    let (over, bytes) = (ends.over, ends.size);
    let (called, headers) = match over {
        Over::Udp => ("UDP", UDP_HEADERS),
        Over::Unix => ("Unix socket", TCP_HEADERS),
        Over::Tcp => ("TCP", TCP_HEADERS),
    };
    let measured = |size| {
        let same = net::rtt::Rtt::from(Exchange { size, ..ends });
        known.at_over(link, &same)
    };
    let (more_rounds_ns, more_rounds) = match over {
        Over::Tcp => path::window_adds(link, bytes as u64),
        Over::Udp | Over::Unix => (0.0, String::new()),
    };
    let (low, high, because) = if let Some(measured_ns) = measured(bytes) {
        let because = format!(
            "the {called} round trip of {bytes} B, {} as net.rtt measured, times 0.85 to 1.25",
            ns(measured_ns)
        );
        return Some((0.85 * measured_ns, 1.25 * measured_ns, because));
    } else if let Some(measured_ns) = measured(USUAL_BYTES) {
        let more = (bytes as f64 - USUAL_BYTES as f64).max(0.0);
        let because = format!(
            "the {called} round trip of {USUAL_BYTES} B, {} as net.rtt measured, times 0.85 to 1.25, \
             and four copies of {more} B more at 2 to 20 GB/s",
            ns(measured_ns)
        );
        let sending = |bytes: usize| path::adds(link, bytes as u64, headers).map(|(low, _, _)| low);
        let sending_ns = sending(bytes)? - sending(USUAL_BYTES)?;
        (
            0.85 * measured_ns + 4.0 * more / 20.0 + sending_ns,
            1.25 * measured_ns + 4.0 * more / 2.0 + sending_ns.max(0.0),
            because,
        )
    } else {
        let read_ns = syscall::one_thread_ns(known, syscall::Call::Read)?;
        let switch_ns = switch_ns(ends.cpus, ends.wake, known)?;
        let (low, high, because) = net::rtt::kernel_ns(over, bytes, read_ns);
        let (link_low, link_high, link) = path::adds(link, bytes as u64, headers)?;
        let because = format!(
            "two context switches of {} by a pipe, times 0.8 to 1.25; {because}{link}",
            ns(switch_ns)
        );
        (
            low + 1.6 * switch_ns + link_low,
            high + 2.5 * switch_ns + link_high,
            because,
        )
    };
    Some((low, high + more_rounds_ns, because + &more_rounds))
}

/// As many bytes as an argument has, by what `rudp.rtt` has for them.
pub(super) fn carried_ns(link: &str, messages: &Messages, known: &Known<'_>) -> Option<Range> {
    let (low, high, because) = socket_ns(link, messages.exchange(), known)?;
    match messages.carrier {
        Carrier::Rudp => {
            let (more_low, more_high, more) = library_ns(link, messages.size, known)?;
            Some((low + more_low, high + more_high, because + &more))
        }
        Carrier::Study | Carrier::Plain(_) => Some((low, high, because)),
    }
}

/// What a stack adds to a round trip beside marshalling, and the words for it.
struct Adds {
    /// System calls beside the two sends and two receives of a round trip.
    calls: (f64, f64),
    /// Frames there and back, each in so many reads: built and queued by one task, taken and sent by
    /// another, parsed, and told to the one who waits.
    frames: f64,
    frame_reads: (f64, f64),
    words: &'static str,
}

const GRPC: Adds = Adds {
    // epoll_wait(2) once or twice at each end for a message; reads until there is nothing.
    calls: (2.0, 12.0),
    frames: 5.0,
    frame_reads: (2.0, 25.0),
    words: "5 frames of HTTP/2 (headers and data there; headers, data and trailers back), each built, queued, sent, parsed and told to who waits",
};
const THRIFT: Adds = Adds {
    // Frames are read ahead, but a length may come by itself.
    calls: (0.0, 4.0),
    frames: 2.0,
    frame_reads: (0.2, 5.0),
    words: "2 frames, which are buffers",
};

/// A call: the round trip of its bytes by the socket beneath it, marshalling, and what the stack adds.
pub(super) fn call_ns(link: &str, call: &Call, known: &Known<'_>) -> Option<Range> {
    let (low, high, because) = socket_ns(link, call.exchange(), known)?;
    let read_ns = syscall::one_thread_ns(known, syscall::Call::Read)?;
    let (marshal_low, marshal_high, marshalling) = marshalling_ns(call.stack, call.payload, known)?;
    let adds = match call.stack {
        Stack::Grpc => GRPC,
        Stack::Thrift(..) => THRIFT,
    };
    let added = |calls: f64, frame_reads: f64| (calls + adds.frames * frame_reads) * read_ns;
    Some((
        low + marshal_low + added(adds.calls.0, adds.frame_reads.0),
        high + marshal_high + added(adds.calls.1, adds.frame_reads.1),
        format!(
            "{because}; {marshalling}; by the stack, {} to {} more system calls as long as a read of \
             {read_ns:.0} ns, and {} in {} to {} of them",
            adds.calls.0, adds.calls.1, adds.words, adds.frame_reads.0, adds.frame_reads.1,
        ),
    ))
}

/// Pages of code, tables and stack that both ends touch for the first time with a call: the kernel maps
/// what is in the page cache in up to 16 pages at a fault.
const FIRST_FAULTS_CALLS: (f64, f64) = (20.0, 800.0);
const FIRST_FAULTS_BYTES: (f64, f64) = (0.0, 40.0);

/// The first call of both processes: one as any other, and the page faults of what it touches first.
pub(super) fn first_ns(point: &At<Rtt>, known: &Known<'_>) -> Option<Range> {
    let fault_ns = known.primary("os.page_fault", &[("kind", "minor_file")])?;
    let ((low, high, because), faults) = match Carried::from(&point.axes) {
        Carried::Calls(call) => (call_ns(&point.link, &call, known)?, FIRST_FAULTS_CALLS),
        Carried::Bytes(messages) => {
            let carried = carried_ns(&point.link, &messages, known)?;
            (carried, FIRST_FAULTS_BYTES)
        }
    };
    Some((
        low + faults.0 * fault_ns,
        3.0 * high + faults.1 * fault_ns,
        format!(
            "{because}; up to three times that with cold caches; and at both ends {} to {} page faults \
             of code that is in the page cache, {} each as os.page_fault measured",
            faults.0,
            faults.1,
            ns(fault_ns)
        ),
    ))
}

/// How much of a processor a load may use for its calls to wait for nothing that lasts.
const UNSATURATED: f64 = 0.7;

/// A call that is made at a rate, where that is less than saturates the server.
pub(super) fn loaded_ns(point: &At<Load>, known: &Known<'_>) -> Option<Range> {
    let alone = Rtt::from(&point.axes);
    let server_ns = known.metric_at(&alone, "cpu_server")?;
    let used = server_ns * point.rate as f64 / 1e9;
    if used >= UNSATURATED {
        return None;
    }
    let (low, high, because) = match known.at_over(&point.link, &alone) {
        Some(call_ns) => (
            0.3 * call_ns,
            1.3 * call_ns,
            format!(
                "a call, {} as rpc.rtt measured one at a time, where the client waits in the kernel, times \
                 0.3 to 1.3",
                ns(call_ns)
            ),
        ),
        None => call_ns(&point.link, &Call::from(&point.axes), known)?,
    };
    let waits_ns = server_ns / (1.0 - used);
    Some((
        low,
        high + waits_ns,
        format!(
            "{because}; and up to {} for those before it at a server that uses {:.0} % of its processor, \
             {} a call",
            ns(waits_ns),
            100.0 * used,
            ns(server_ns)
        ),
    ))
}

/// What a message of a stream takes of the thread that has more to do, in reads, and how fast its bytes are
/// copied besides, in bytes a nanosecond: most and least.
fn message_reads(stack: stream::Stack) -> ((f64, f64), (f64, f64), &'static str) {
    match stack {
        // Many small ones go into one write.
        stream::Stack::Grpc => (
            (0.3, 20.0),
            (10.0, 0.5),
            "a frame of HTTP/2, a buffer and a task that wakes another",
        ),
        stream::Stack::Thrift => (
            (1.0, 15.0),
            (10.0, 0.5),
            "a call in a frame, written at once",
        ),
        stream::Stack::Tcp => ((0.7, 12.0), (20.0, 1.0), "a write through TCP"),
        stream::Stack::Rudp => (
            (0.1, 15.0),
            (10.0, 0.4),
            "a message in packets with a tag each",
        ),
    }
}

/// A stream of messages: how many bytes of them a second, and because of what.
pub(super) fn streamed(point: &At<Stream>, known: &Known<'_>) -> Option<Range> {
    let read_ns = syscall::one_thread_ns(known, syscall::Call::Read)?;
    let size = point.size as f64;
    let (reads, copies, what) = message_reads(point.stack);
    let least_ns = reads.0 * read_ns + size / copies.0;
    let most_ns = reads.1 * read_ns + size / copies.1;
    let (mut low, mut high) = (size / most_ns * 1e9, size / least_ns * 1e9);
    let mut because = format!(
        "{what}, {} to {} reads of {read_ns:.0} ns for each, and its bytes at {} to {} GB/s",
        reads.0, reads.1, copies.1, copies.0
    );
    let rate = |rate: f64| Unit::BytesPerSecond.display(rate);
    match point.link.parse().ok()? {
        Link::Loopback | Link::Veth => {
            let tcp =
                known.primary_over(&point.link, "net.bandwidth", &[("over", Over::Tcp.word())]);
            if let Some(most) = tcp.map(|tcp| 1.5 * tcp).filter(|most| *most < high) {
                high = most;
                because += &format!("; at most 1.5 times net.bandwidth's, {}", rate(high));
            }
        }
        // What loss makes of it is TCP's congestion control's affair.
        Link::Emulated { up, .. } if up.loss == 0.0 => {
            let (limit, why) = predict::limit(&(&point.axes).into(), &up)?;
            if limit < high {
                high = limit;
                because += &format!("; at most {why}");
            }
        }
        Link::Emulated { .. } | Link::Remote | Link::Sink => return None,
    }
    low = low.min(0.7 * high);
    Some((low, high, because))
}

/// The argument is marshalled and unmarshalled on its way there, and again on its way back.
fn marshalling_ns(stack: Stack, payload: Argument, known: &Known<'_>) -> Option<Range> {
    let measured = |direction| {
        let stack = stack.into();
        known.at(&Marshalling {
            stack,
            payload,
            direction,
        })
    };
    match (measured(Direction::Marshal), measured(Direction::Unmarshal)) {
        (Some(marshal), Some(unmarshal)) => {
            let both = 2.0 * (marshal + unmarshal);
            Some((
                0.8 * both,
                2.0 * both,
                format!(
                    "marshalling there and back, twice the {} and {} that rpc.marshal measured, times \
                     0.8 to 2",
                    ns(marshal),
                    ns(unmarshal)
                ),
            ))
        }
        _ => {
            let (low, high, because) = marshal_ns(payload, known)?;
            let because =
                format!("marshalling and unmarshalling there and back, four times: {because}");
            Some((4.0 * low, 4.0 * high, because))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency;
    use crate::os;
    use crate::rpc::{marshal, rtt};
    use crate::testing::{measured, text};
    use costof_measure::probe::Measure;
    use costof_model::axis::Axes;
    use costof_model::facts::Facts;
    use costof_model::metric::Estimate;
    use costof_model::rows::PointRow;

    /// What a run has before calls: a TCP round trip of 10 µs, reads of 100 ns, and what marshalling a
    /// string of 64 B takes of gRPC.
    fn before() -> Vec<PointRow> {
        let mut tcp = measured(&net::rtt::PROBE, net::rtt::Rtt::default(), 10e3);
        tcp.point.link = text("loopback");
        let call = crate::os::syscall::PROBE
            .info
            .defaults()
            .with("call", "read");
        let marshals = |direction, ns| {
            let point = Marshalling {
                direction,
                ..Marshalling::default()
            };
            measured(&marshal::PROBE, point, ns)
        };
        vec![
            measured(&frequency::PROBE, Axes::default(), 2e9),
            measured(&os::syscall::PROBE, call, 100.0),
            tcp,
            marshals(Direction::Marshal, 50.0),
            marshals(Direction::Unmarshal, 150.0),
        ]
    }

    fn call(stack: Stack, payload: Argument, known: &Known<'_>) -> Option<Range> {
        let call = Call {
            stack,
            payload,
            ..Call::from(&Load::default())
        };
        call_ns("loopback", &call, known)
    }

    #[test]
    fn a_call_is_a_round_trip_and_marshalling_and_what_the_stack_adds() {
        let rows = before();
        let (low, high, because) = call(Stack::Grpc, Argument::String64, &Known(&rows)).unwrap();
        // 8 B more than the round trip that was measured; twice both ways of marshalling.
        let least = 0.85 * 10e3 + 4.0 * 8.0 / 20.0 + 0.8 * 400.0;
        let calls = GRPC.calls.0 + GRPC.frames * GRPC.frame_reads.0;
        assert!((low - (least + calls * 100.0)).abs() < 1e-6, "{low}");
        let most = 1.25 * 10e3 + 4.0 * 8.0 / 2.0 + 2.0 * 400.0;
        let calls = GRPC.calls.1 + GRPC.frames * GRPC.frame_reads.1;
        assert!((high - (most + calls * 100.0)).abs() < 1e-6, "{high}");
        for part in [
            "10.0 µs as net.rtt",
            "50.0 ns and 150 ns that rpc.marshal",
            "5 frames",
        ] {
            assert!(because.contains(part), "{part} is missing in: {because}");
        }
    }

    #[test]
    fn what_was_not_measured_is_a_sum() {
        let rows = before();
        let string = Argument::String2048;
        let (_, _, because) = call(Stack::THRIFT, string, &Known(&rows)).unwrap();
        assert!(because.contains("four times: a message in"), "{because}");
        assert!(because.contains("four copies of 1992 B more"), "{because}");
        let axes = Rtt {
            stack: rtt::Stack::Udp,
            ..Rtt::default()
        };
        let link = text("loopback");
        let udp = Rtt::predict(&At { axes, link }, &Facts::default(), &Known(&rows));
        assert_eq!(udp, None);
        let unmeasured = Known(&rows[..2]);
        assert_eq!(call(Stack::Grpc, Argument::String64, &unmeasured), None);
    }

    #[test]
    fn a_load_is_expected_until_it_saturates_the_server() {
        let mut rows = before();
        let mut call = measured(&rtt::PROBE, Rtt::default(), 30e3);
        call.point.link = text("loopback");
        let server = Estimate {
            name: text("cpu_server"),
            median: 20e3,
            ..call.metrics[0].clone()
        };
        call.metrics.push(server);
        rows.push(call);
        let at_rate = |rate| {
            let axes = Load {
                rate,
                ..Load::default()
            };
            let link = text("loopback");
            loaded_ns(&At { axes, link }, &Known(&rows))
        };
        let (low, high, because) = at_rate(25_000).unwrap();
        // Half of the server: a call waits for two at most.
        assert_eq!((low, high), (0.3 * 30e3, 1.3 * 30e3 + 40e3));
        assert!(because.contains("50 % of its processor"), "{because}");
        assert_eq!(at_rate(40_000), None);
    }

    #[test]
    fn a_stream_is_no_faster_than_its_link() {
        let rows = before();
        let over = |link: &'static str, size| {
            let axes = Stream {
                size,
                ..Stream::default()
            };
            let link = text(link);
            streamed(&At { axes, link }, &Known(&rows))
        };
        let (low, high, because) = over("rate=100Mbit", 64 << 10).unwrap();
        assert!(high < 12.5e6 && low < high && low > 0.0, "{low} {high}");
        assert!(because.contains("12.5 MB/s"), "{because}");
        let (_, high, _) = over("loopback", 1).unwrap();
        // A byte in 0.3 reads.
        assert!(high < 1e9 / 30.0, "{high}");
        assert_eq!(over("remote", 1), None);
    }
}
