//! What calls are predicted to take, from simpler costs.

use super::axes::{Argument, Kind};
use super::marshal::{self, Direction, Marshalling};
use crate::cpu::tls;
use crate::prelude::*;
use crate::two_ends::Exchange;
use crate::two_ends::calls::stack;
use costof_rpc::Stack;

/// What a stack adds to a round trip besides marshalling, and its description.
struct Adds {
    /// System calls besides the two sends and two receives of a round trip.
    calls: (f64, f64),
    /// Frames there and back, each in this many reads: built and queued by one task, sent by
    /// another, parsed, and announced to the task that waits.
    frames: f64,
    frame_reads: (f64, f64),
    words: &'static str,
}

const GRPC: Adds = Adds {
    // epoll_wait(2) once or twice at each end per message; reads until there is nothing left.
    calls: (2.0, 12.0),
    frames: 5.0,
    frame_reads: (2.0, 25.0),
    words: "5 frames of HTTP/2: headers and data there; headers, data and trailers back",
};
const THRIFT: Adds = Adds {
    // Frames are read ahead, but a length may arrive alone.
    calls: (0.0, 4.0),
    frames: 2.0,
    frame_reads: (0.2, 5.0),
    words: "2 frames, which are buffers",
};

/// What a call takes besides the round trip of its bytes over the socket below: marshalling, and what the stack
/// adds.
pub(crate) fn added(exchange: &Exchange, _: &str, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let stack = stack(exchange);
    let adds = match stack {
        Stack::Thrift => THRIFT,
        _ => GRPC,
    };
    let size = exchange.size();
    // There and back.
    let coded = match stack {
        Stack::GrpcTls => tls::message(size, measured)? * 2.0,
        Stack::GrpcGzip => compressed(size, measured)? * 2.0,
        _ => Cost::default(),
    };
    let frames = read.clone() * adds.frame_reads * adds.frames;
    Some(
        marshalling(stack, exchange.payload, measured)?
            + (read * adds.calls).named("system calls of the stack")
            + frames.named(adds.words)
            + coded,
    )
}

/// A message that one end compresses by gzip and the other decompresses.
fn compressed(size: usize, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let size = size as f64;
    let bytes =
        cycles(measured, (1.0 * size, 60.0 * size), "to compress and decompress the bytes")?;
    Some(bytes + cycles(measured, (10e3, 600e3), "for the tables of gzip at both ends")?)
}

/// The argument is marshalled and unmarshalled on its way there, and again on its way back.
fn marshalling(stack: Stack, argument: Kind, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let same = Argument::ALL.iter().find(|known| known.kind() == argument);
    let one_way = |direction| {
        let (stack, payload) = (stack.into(), *same?);
        measured.at(&Marshalling { stack, payload, direction })
    };
    if let (Some(marshal), Some(unmarshal)) =
        (one_way(Direction::Marshal), one_way(Direction::Unmarshal))
    {
        let once = Cost::new(marshal, "to marshal") + Cost::new(unmarshal, "to unmarshal");
        return Some(once * 2.0 * (0.8, 2.0));
    }
    Some(marshal::expected(argument, measured)? * 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::net::rtt::{Rtt, expected};
    use crate::net::stream::Stream;
    use crate::os;
    use crate::rpc::load::Load;
    use crate::testing::{measured, measured_call, measured_over_loopback, text};
    use crate::two_ends::exchange::Exchanges;
    use crate::two_ends::over::Over;
    use crate::wake::Wake;
    use costof_measure::probe::Measure;
    use costof_model::cost::Range;
    use costof_model::facts::Facts;
    use costof_model::metric::Estimate;
    use costof_model::prediction::Prediction;
    use costof_model::rows::PointRow;
    use costof_model::typed::At;

    /// What a run has measured before calls: a TCP round trip of 10 µs, reads of 100 ns, and
    /// marshalling a string of 64 B for gRPC.
    fn before() -> Vec<PointRow> {
        let marshals = |direction, ns| {
            let point = Marshalling { direction, ..Marshalling::default() };
            measured(point, ns)
        };
        vec![
            measured(Frequency {}, 2e9),
            measured_call(os::syscall::Call::Read, 100.0),
            measured_over_loopback(Rtt::default(), 10e3),
            marshals(Direction::Marshal, 50.0),
            marshals(Direction::Unmarshal, 150.0),
        ]
    }

    fn cost_of(over: Over, payload: Argument, measured: &MeasuredRows<'_>) -> Option<Cost> {
        let load = Load { over, payload, ..Load::default() };
        expected("loopback", &load.exchange(), measured)
    }

    fn predicted<P: Measure>(axes: P, link: &'static str, rows: &[PointRow]) -> Option<Prediction> {
        let link = text(link);
        P::predict(&At { axes, link }, &Facts::default(), &MeasuredRows::new(rows))
    }

    #[test]
    fn a_call_is_a_round_trip_and_marshalling_and_what_the_stack_adds() {
        let rows = before();
        let cost = cost_of(Over::Grpc, Argument::String64, &MeasuredRows::new(&rows)).unwrap();
        let (Range(low, high), because) = (cost.range, cost.formula());
        // 8 B more than the round trip that was measured; twice both ways of marshalling.
        let least = 0.85 * 10e3 + 4.0 * 8.0 / 20.0 + 0.8 * 400.0;
        let calls = GRPC.calls.0 + GRPC.frames * GRPC.frame_reads.0;
        assert!((low - (least + calls * 100.0)).abs() < 1e-6, "{low}");
        let most = 1.25 * 10e3 + 4.0 * 8.0 / 2.0 + 2.0 * 400.0;
        let calls = GRPC.calls.1 + GRPC.frames * GRPC.frame_reads.1;
        assert!((high - (most + calls * 100.0)).abs() < 1e-6, "{high}");
        for part in ["56 B by tcp", "10.0 µs", "50.0 ns to marshal + 150 ns", "5 frames"] {
            assert!(because.contains(part), "{part} is missing in: {because}");
        }
    }

    #[test]
    fn encryption_and_compression_are_added_for_both_ways() {
        let mut rows = before();
        rows.push(measured(tls::Tls { step: tls::Step::Message, size: 64 }, 1e3));
        let rows = MeasuredRows::new(&rows);
        let range = |over| cost_of(over, Argument::String64, &rows).unwrap().range;
        let (plain, encrypted) = (range(Over::Grpc), range(Over::GrpcTls));
        assert!((encrypted.0 - plain.0 - 2.0 * 0.8 * 1e3).abs() < 1e-6, "{encrypted:?}");
        assert!((encrypted.1 - plain.1 - 2.0 * 1.5 * 1e3).abs() < 1e-6, "{encrypted:?}");
        assert!(range(Over::GrpcGzip).0 > plain.0);
        // Of 64 KiB, a few bytes may be left for the link: no millisecond of it.
        let slow = |over| {
            let payload = Kind::String(64 << 10);
            let exchange = Exchange { over, payload, ..Rtt::default().exchange() };
            let socket = Cost::new((20e6, 30e6), "over the socket");
            exchange.round_trip("rate=100Mbit", socket, &rows).unwrap().range.0
        };
        assert!(slow(Over::Grpc) > 20e6 && slow(Over::GrpcGzip) < 1e6, "{}", slow(Over::GrpcGzip));
    }

    #[test]
    fn what_was_not_measured_is_a_sum() {
        let rows = before();
        let string = Argument::String2048;
        let cost = cost_of(Over::Thrift, string, &MeasuredRows::new(&rows)).unwrap();
        assert!(cost.formula().contains("4 × marshalling ("), "{cost}");
        assert!(cost.formula().contains("7968 B copied"), "{cost}");
        let idle = Rtt { over: Over::Rudp, wake: Wake::Idle, ..Rtt::default() };
        assert_eq!(predicted(idle, "loopback", &rows), None);
        let unmeasured = MeasuredRows::new(&rows[..2]);
        assert_eq!(cost_of(Over::Grpc, Argument::String64, &unmeasured), None);
    }

    #[test]
    fn a_load_is_expected_until_it_saturates_the_server() {
        let mut rows = before();
        let mut call =
            measured_over_loopback(Rtt { over: Over::Grpc, size: 64, ..Rtt::default() }, 30e3);
        let server = Estimate { name: text("cpu_server"), median: 20e3, ..call.metrics[0].clone() };
        call.metrics.push(server);
        rows.push(call);
        let at_rate = |rate| {
            let load = Load { rate, ..Load::default() };
            predicted(load, "loopback", &rows)
        };
        let half = at_rate(25_000).unwrap();
        // Half of the server: a call waits for two at most.
        assert_eq!((half.low, half.high), (0.3 * 30e3, 1.3 * 30e3 + 40e3));
        assert!(half.because.contains("50 % of its CPU"), "{half:?}");
        assert_eq!(at_rate(40_000), None);
    }

    #[test]
    fn a_stream_is_no_faster_than_its_link() {
        let rows = before();
        let over = |link: &'static str, size| {
            let stream = Stream { over: Over::Grpc, size, ..Stream::default() };
            predicted(stream, link, &rows)
        };
        let Prediction { low, high, because, .. } = over("rate=100Mbit", 64 << 10).unwrap();
        assert!(high < 12.5e6 && low < high && low > 0.0, "{low} {high}");
        assert!(because.contains("12.5 MB/s"), "{because}");
        // A byte in 0.3 reads.
        assert!(over("loopback", 1).unwrap().high < 1e9 / 30.0);
        assert_eq!(over("remote", 1), None);
    }
}
