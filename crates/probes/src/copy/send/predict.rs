//! Predictions of `copy.send`: the copies, parts and calls of each end.

use super::axes::{Buffers, CopySend, Pattern, Primitive, Source};
use crate::copy::pieces::{Pieces, packets};
use crate::prelude::*;
use crate::two_ends::Over;

/// The payload of the largest datagram that fits into one Ethernet frame.
const CABLE_DATAGRAM_BYTES: u64 = 1472;
/// Sends between two reapings of completions.
const REAPED: u64 = 32;

pub(super) fn predict(
    point: &At<CopySend>,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let link: Link = point.link.parse().ok()?;
    // Nothing is known of another host's network.
    let received = match link {
        Link::Loopback | Link::Veth => true,
        Link::Sink => false,
        Link::Remote | Link::Emulated { .. } => return None,
    };
    let in_pieces = point.socket().is_datagrams() && point.size > CABLE_DATAGRAM_BYTES;
    // Nor how the device segments a message.
    if (in_pieces && link == Link::Veth) || point.over == Over::UdpGso {
        return None;
    }
    let pieces = Pieces::new(measured, facts)?;
    match point.pattern {
        Pattern::Stream => stream(point, facts, &pieces, received),
        Pattern::Echo => echo(point, facts, &pieces),
        Pattern::Trigger => None,
    }
}

/// Flows that run at the same time, each end on a CPU of its own; 0 if the ends share one.
fn apart(point: &At<CopySend>, facts: &Facts, ends: usize) -> usize {
    point.threads.min(facts.planned_cpus().len() / ends)
}

fn stream(
    point: &At<CopySend>,
    facts: &Facts,
    pieces: &Pieces<'_>,
    received: bool,
) -> Option<Prediction> {
    let bytes = point.size as f64;
    let packets = if point.socket().is_datagrams() {
        Range::from(1.0)
    } else if field_by_field(point) {
        // Each field is sent separately, and leaves at once.
        packets(bytes, references(point)).max(Range::from(point.fields as f64))
    } else {
        packets(bytes, references(point))
    };
    let (sends, receives, packet) = if received {
        pieces.packet(&point.link, point.over)
    } else {
        let sends = pieces.packet_into_sink();
        (sends, Range::default(), "like 3 to 12.5 reads")
    };
    let mut sender = prepared(point, pieces, received);
    let copy = sender_copies(point, pieces, received);
    sender += Cost::new(copy, "of copying into the kernel");
    sender += Cost::new(sends * packets, format!("for its packets, {packet}"));
    if point.over == Over::Tcp {
        sender += pieces.pacing(point.congestion_control.name(), bytes)?;
    }
    let mut receiver = Cost::default();
    if received {
        receiver += Cost::new(pieces.copy_out(bytes), "of copying out of it");
        receiver += Cost::new(receives * packets, "for its packets");
        receiver += Cost::new(pieces.calls(packets), "of calls");
    }
    let flows = apart(point, facts, if received { 2 } else { 1 });
    let message = match (received, flows) {
        (false, _) => sender.named("the sender"),
        (true, 0) => sender.named("the sender") + receiver.named("the receiver, in turn"),
        (true, _) => sender.named("the sender").max(receiver.named("the receiver")),
    };
    let at_once = flows.max(1) as f64;
    let message =
        if flows > 1 { message.named(format!("{flows} flows at a time")) } else { message };
    message.predict_throughput(at_once * bytes)
}

/// The work for a message apart from its copy into the kernel.
fn prepared(point: &At<CopySend>, pieces: &Pieces<'_>, received: bool) -> Cost {
    let bytes = point.size as f64;
    let fields = point.fields as f64;
    let registered = point.buffers == Buffers::Registered;
    let mut sum = Cost::default();
    let (calls, is_gathered) = match point.primitive {
        Primitive::CopyAndSend | Primitive::SendfileMemfd | Primitive::SendfileFile => {
            (Range::from(1.0), false)
        }
        Primitive::Sendmsg | Primitive::MsgZerocopy => (Range::from(1.0), true),
        Primitive::MsgZerocopyBody => (Range::from(2.0), true),
        Primitive::SendEach => (Range::from(fields), false),
        Primitive::Splice => (Range::from(2.0), true),
        // io_uring does the work of a call for each request, and is entered once.
        Primitive::IoUringSend | Primitive::IoUringSendZc if registered => {
            (Range(0.5 * fields, fields + 1.0), false)
        }
        Primitive::IoUringSend | Primitive::IoUringSendZc => (Range(1.0, 2.0), true),
    };
    sum += Cost::new(pieces.calls(calls), "of calls");
    if point.primitive == Primitive::CopyAndSend {
        let serialised = pieces.serialise(bytes, fields, point.source == Source::Hot);
        sum += Cost::new(serialised, "of serialising");
    }
    if is_gathered && fields > 1.0 {
        sum += Cost::new(pieces.entries(bytes, fields), "for iovec entries");
    }
    let pages = references(point);
    let referenced = pieces.references(pages, point.pages);
    if !registered {
        sum += Cost::new(referenced, format!("for {pages:.0} references to pages"));
    }
    if matches!(point.primitive, Primitive::MsgZerocopy | Primitive::MsgZerocopyBody) {
        sum += Cost::new(pieces.reap(REAPED), "for its completion");
    }
    // The kernel copies later, page by page, into new pages.
    if received && point.primitive.asks_for_no_copy() {
        sum += Cost::new(pieces.references(pages, Pages::Base), "for pages to copy them into");
    }
    sum
}

/// Page fragments of an uncopied message, with 4 KiB pages. A field may begin anywhere in one.
fn references(point: &At<CopySend>) -> f64 {
    match point.primitive {
        way if way.asks_for_no_copy() || way.copies_nothing() => {
            point.size as f64 / 4096.0 + point.fields as f64
        }
        _ => 0.0,
    }
}

/// Whether each field is a send of its own: a call each, or a request each if buffers are
/// registered.
fn field_by_field(point: &At<CopySend>) -> bool {
    point.buffers == Buffers::Registered || point.primitive == Primitive::SendEach
}

/// Copies from the sender's memory into the kernel, at once or later.
fn sender_copies(point: &At<CopySend>, pieces: &Pieces<'_>, received: bool) -> Range {
    let bytes = point.size as f64;
    match point.primitive {
        // The buffer was just written, so it is cached.
        Primitive::CopyAndSend => pieces.copy_in(bytes, true),
        way if way.copies_nothing() => Range::default(),
        // For a receiver on this machine the kernel copies anyway (msg_zerocopy.rst, "Loopback").
        way if way.asks_for_no_copy() && !received => Range::default(),
        _ => pieces.copy_in(bytes, point.source == Source::Hot),
    }
}

/// A message and its answer: a round trip of messages of this size (`net.rtt`), and what else is
/// done for them.
fn echo(point: &At<CopySend>, facts: &Facts, pieces: &Pieces<'_>) -> Option<Prediction> {
    // With several in flight, the queueing depends on which end is faster.
    if point.in_flight > 1 || apart(point, facts, 2) < point.threads {
        return None;
    }
    let round_trip = pieces.echo(&point.link, point.over, point.size as f64)?;
    let round_trip = Cost::new(round_trip, "for a round trip, blocked (net.rtt)") * (0.8, 1.25);
    let added = prepared(point, pieces, true).named("preparing a message");
    (round_trip + added * 2.0 * (0.0, 1.0)).predict("latency")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::parts::Parts;
    use crate::cpu::memcpy::Memcpy;
    use crate::net::rtt::Rtt;
    use crate::os::timer::Timer;
    use crate::testing::{self, measured, measured_over_loopback, read_and_copy};
    use costof_model::facts::{Cache, CacheKind};
    use costof_model::rows::PointRow;

    /// Measured: a read 100 ns, a copy in memory 10 B/ns. For 4 KiB: a cached copy 100, an uncached
    /// one 400, eight entries 200 ns. Copies of eight fields take as long as one of all. Round trips 10 µs spinning, 30 blocking.
    fn rows() -> Vec<PointRow> {
        let mut rows = read_and_copy().to_vec();
        rows.extend([
            measured(testing::at::<Memcpy>("size=4KiB source=hot"), 100.0),
            measured(testing::at::<Memcpy>("size=4KiB source=cold"), 400.0),
            measured(Parts::default(), 200.0),
            measured_over_loopback(testing::at::<Rtt>("wait=spin"), 10_000.0),
            measured_over_loopback(testing::at::<Rtt>("wait=block"), 30_000.0),
        ]);
        rows
    }

    fn facts(cpus: u32) -> Facts {
        let mut facts = Facts { run_cpus: (0..cpus).collect(), ..Facts::default() };
        facts.cpu.caches.push(Cache {
            level: 2,
            kind: CacheKind::Unified,
            size_bytes: 1 << 20,
            ..Cache::default()
        });
        facts
    }

    fn sent(values: &str) -> CopySend {
        testing::at(&format!("size=4KiB {values}"))
    }

    fn of(
        values: &str,
        link: &'static str,
        facts: &Facts,
        rows: &[PointRow],
    ) -> Option<Prediction> {
        let (axes, link) = (sent(values), link.into());
        predict(&At { axes, link }, facts, &MeasuredRows::new(rows))
    }

    fn expected(values: &str, link: &'static str) -> Prediction {
        of(values, link, &facts(2), &rows()).unwrap()
    }

    /// The lowest and highest predicted time of a message of 4 KiB.
    fn takes_ns(expected: &Prediction) -> (f64, f64) {
        assert_eq!(expected.metric, "throughput");
        let takes = |throughput: f64| (4096.0 / throughput * 1e10).round() / 10.0;
        (takes(expected.high), takes(expected.low))
    }

    #[test]
    fn the_sender_is_the_sum_of_its_pieces() {
        let copy_and_send = expected("", "loopback");
        // Calls, serialising, an uncached copy, and a quarter of the spinning round trip or half of
        // the blocking one.
        let least = 100.0 + 0.9 * 100.0 + 100.0 + 2500.0;
        let most = 500.0 + 1.3 * 100.0 + (100.0 + 409.6) + 15_000.0;
        assert_eq!(takes_ns(&copy_and_send), (least, most));
        let sendmsg = expected("primitive=sendmsg", "loopback");
        let least = 100.0 + 0.7 * 200.0 + 100.0 + 2500.0;
        let most = 500.0 + 1.3 * 200.0 + (100.0 + 409.6) + 15_000.0;
        assert_eq!(takes_ns(&sendmsg), (least, most));
        let each = expected("primitive=send_each", "loopback");
        let least = 8.0 * 100.0 + 100.0 + 8.0 * 2500.0;
        let most = 8.0 * 500.0 + (100.0 + 409.6) + 8.0 * 15_000.0;
        assert_eq!(takes_ns(&each), (least, most));
        for words in ["of serialising", "of copying into", "net.rtt", "the longer of"] {
            assert!(copy_and_send.because.contains(words), "{}", copy_and_send.because);
        }
    }

    #[test]
    fn fewer_copies_are_expected_to_be_faster_and_a_deferred_one_is_not() {
        let most = |primitive: &str, link| {
            expected(&format!("size=1MiB primitive={primitive}"), link).high
        };
        assert!(most("sendmsg", "sink") > most("copy_and_send", "sink"));
        assert!(most("msg_zerocopy", "sink") > most("sendmsg", "sink"));
        assert!(most("msg_zerocopy", "loopback") < most("sendmsg", "loopback"));
        assert!(most("splice", "loopback") > most("sendmsg", "loopback"));
    }

    #[test]
    fn ends_that_share_a_processor_take_turns() {
        let of = |threads, cpus| {
            let values = format!("threads={threads}");
            takes_ns(&of(&values, "loopback", &facts(cpus), &rows()).unwrap())
        };
        let (apart, shared) = (of(1, 2), of(1, 1));
        let receiver = (200.0 + 500.0 + 100.0, 400.0 + 409.6 + 5000.0 + 500.0);
        assert_eq!(shared, (apart.0 + receiver.0, apart.1 + receiver.1));
        assert_eq!(of(8, 2), apart);
        assert_eq!(of(8, 4).1, apart.1 / 2.0);
    }

    #[test]
    fn pacing_widens_and_is_not_guessed() {
        let bbr = "congestion_control=bbr";
        let late = |slack, ns| measured(testing::at::<Timer>(slack), ns);
        let (facts, mut rows) = (facts(2), rows());
        assert_eq!(of(bbr, "loopback", &facts, &rows), None);
        rows.push(late("slack=least", 16_000.0));
        let paced = of(bbr, "loopback", &facts, &rows).unwrap();
        let plain = takes_ns(&expected("", "loopback"));
        assert_eq!(takes_ns(&paced), (plain.0, plain.1 + 1000.0));
        assert!(paced.because.contains("bbr"), "{}", paced.because);

        let mut with_slack = facts.clone();
        with_slack.inherited.timer_slack_ns = Some(50_000);
        rows.pop();
        rows.push(late("slack=default", 66_000.0));
        assert_eq!(of(bbr, "loopback", &with_slack, &rows), Some(paced.clone()));
        assert_eq!(of(bbr, "loopback", &facts, &rows), None);
        rows.pop();
        rows.push(late("slack=least", 16_000.0));

        let mut by_default = facts;
        let control = "net.ipv4.tcp_congestion_control".to_owned();
        by_default.kernel.sysctls.insert(control, "bbr".to_owned());
        assert_eq!(of("", "loopback", &by_default, &rows), Some(paced));
    }

    #[test]
    fn an_echo_is_a_round_trip() {
        let echo = "pattern=echo";
        let expected = expected(echo, "loopback");
        assert_eq!(expected.metric, "latency");
        // The measured round trip of 56 bytes, and two copies each way of the rest.
        assert!(expected.low > 0.8 * 30_000.0 && expected.low < 0.8 * 31_000.0);
        assert!(expected.high > 1.25 * 30_000.0 && expected.high < 1.25 * 34_000.0 + 1400.0);
        for values in ["pattern=echo in_flight=2", "pattern=echo threads=2"] {
            assert_eq!(of(values, "loopback", &facts(2), &rows()), None);
        }
    }

    #[test]
    fn what_is_not_known_is_not_predicted() {
        for link in ["wan", "remote", "delay=10ms"] {
            assert_eq!(of("", link, &facts(2), &rows()), None);
        }
        assert_eq!(of("", "loopback", &facts(2), &[]), None);
        assert_eq!(of("over=udp", "veth", &facts(2), &rows()), None);
        assert!(of("", "veth", &facts(2), &rows()[..2]).is_some());
    }
}
