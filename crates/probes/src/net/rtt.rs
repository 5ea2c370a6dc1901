//! `net.rtt`: how long a message takes to the other end of a link and back.

use crate::derived;
use crate::ends::{Cpus, switch_ns};
use crate::expect::latency_ns;
use crate::literal::{self, axis, cost, latency, list, metric, text, word, words};
use crate::net::caller::Caller;
use crate::net::echo::{Echo, WAIT, message, over, size, wait};
use crate::net::load::Load;
use crate::net::lost::share_lost;
use crate::net::meeting::broken;
use crate::net::path::{self, TCP_HEADERS, UDP_HEADERS};
use crate::os::syscall;
use crate::wake;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_model::List;
use costof_model::axis::{Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::conversation::{Conversation, Wait};
use costof_os::meeting::Over;
use std::io;
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("net.rtt"),
        method: 1,
        question: text("How long does a message take to the other end of a link and back?"),
        axes: List::Owned(vec![
            words(
                "over",
                "what carries it",
                list![
                    word("tcp", "a TCP connection with TCP_NODELAY"),
                    word(
                        "udp",
                        "a UDP datagram each way, by sockets that are not connected"
                    ),
                    word(
                        "unix",
                        "a Unix stream socket, on one machine without a link"
                    ),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of the message, and of the answer; up to 65,507 over UDP"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 64 << 10,
                    usual: list![56, 1, 1024, 16 << 10, 64 << 10],
                },
            },
            WAIT,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
            Axis {
                name: text("rate"),
                about: text(
                    "messages a second, sent whether the ones before are answered or not; 0: one at a time, the next when the last is answered",
                ),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 0,
                    high: 1_000_000,
                    usual: list![0, 1000, 10_000],
                },
            },
        ]),
        crossings: list![
            list![text("over"), text("wait")],
            list![text("over"), text("wake")],
        ],
        metrics: list![
            latency(
                "from before the message is sent until the whole answer is there; with a rate, from when it was to be sent"
            ),
            cost(
                "one round trip, of many one after the other; not with a rate, and not over a link on which few fit into a launch"
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "over UDP: the share of messages that had no answer in time; one at a time, they were sent again, and their latency contains it",
            ),
            metric(
                "rate",
                Unit::One,
                Better::Higher,
                "with a rate: answers a second, from when the first one came until the last one did",
            ),
        ],
        how: text(
            "A message goes to the other end, which sends it back. It carries a number, by which \
             its answer is known, and the last answer is compared whole. One at a time, each is \
             stamped for `latency`; `cost` is many round trips over their number. A datagram \
             without an answer is sent again after three round trips, or 200 ms if that is more, \
             and counted as lost; how many are sent is fixed before, since whoever stops when the \
             time is over stops at a loss. With a rate, the client spins so as to send in time, \
             `wait` is the server's, and latency counts from the time intended (no coordinated \
             omission). \
             Where ends block, a latency has two modes where the other processor is awake at one \
             time and at another has to be woken from idle, which a virtual machine takes tens of \
             microseconds for; `wake` and `wait` tell such cases apart, `cpus=same` needs no \
             waking. sockperf prints half of this round trip.",
        ),
        sources: list![
            text(
                "CSE 221 System Measurement Project, 2014: 4.05 µs on loopback, 132.9 µs remote (465 by the cycles that it counted), 56 bytes"
            ),
            text("sockperf(1), ping-pong; netperf, TCP_RR and UDP_RR"),
            text("G. Tene, How NOT to Measure Latency, 2013, on coordinated omission"),
            text("RFC 6298, section 2, on when to send again"),
        ],
        predicted_from: text(
            "context switches as os.context_switch has measured them, and system calls that go through the protocol; what the link holds up, and bytes over its rate",
        ),
        after: list![text("os.syscall"), text("os.context_switch")],
        needs: list![
            text("cpus=cross: two processors (--cpu)"),
            text("over=unix: both ends on one machine, --link loopback"),
        ],
        roles: list![text("server"), text("client")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| path::least_ns(&point.link, size(point) as u64, headers(point)),
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[
        |launch| Ok(Box::new(Echo::start(launch)?)),
        |launch| Ok(Box::new(Client(Caller::start(launch)?))),
    ],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    let axes = || PROBE.info.defaults();
    vec![
        Headline::new(
            "round trip: TCP on loopback, spinning",
            axes().with("wait", "spin"),
        ),
        Headline::new("round trip: TCP on loopback, blocked", axes()),
        Headline::new(
            "send 1 KiB over 1 Gb/s, and back (lan)",
            axes().with("size", 1024),
        )
        .over("lan"),
        Headline::new("round trip: TCP over lan", axes()).over("lan"),
    ]
}

/// Bytes of headers that a packet of the message has.
fn headers(point: &Point) -> u64 {
    match over(point) {
        Over::Udp => UDP_HEADERS,
        _ => TCP_HEADERS,
    }
}

fn rate(point: &Point) -> u64 {
    point.axes.number("rate")
}

struct Client(Caller);

impl Role for Client {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        if rate(point) > 0 {
            can_load(point)?;
        }
        self.0.prepare(point, offers, wait(point) == Wait::Block)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (_kept, mut conversation) = self.0.call(over(point), wait(point))?;
        conversation.may_take(path::may_take(
            &point.link,
            size(point) as u64,
            headers(point),
        ));
        match rate(point) {
            0 => one_at_a_time(point, &mut conversation, meter),
            rate => at_a_rate(point, rate, &mut conversation, meter),
        }
    }
}

/// How many round trips must fit into a point's time, so that batches of them do.
const ROUND_TRIPS_PER_POINT: f64 = 20.0;

fn one_at_a_time(
    point: &Point,
    conversation: &mut Conversation,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let mut message = message(point);
    let mut answer = vec![0; message.len()];
    let first_ns = first_round_trip_ns(conversation, &mut message, &mut answer)?;
    let mut failed: Option<io::Error> = None;
    let mut round_trips = |n: u64| {
        for _ in 0..n {
            if failed.is_none() {
                failed = conversation.ask(&mut message, &mut answer).err();
            }
        }
        conversation.sent_again()
    };
    let is_slow = first_ns * ROUND_TRIPS_PER_POINT >= meter.time_ns();
    if is_slow {
        // The first round trip was as good as any.
        meter.latency("latency", first_ns);
    } else {
        meter.repeatable("cost", |n| {
            round_trips(n);
        });
    }
    // Of batches most of which contain a loss, the median does too.
    let cost_ns = meter.cost_ns("cost").unwrap_or(first_ns);
    let each_ns = cost_ns.min(first_ns);
    let mut meter = meter.lasting(path::lasts_ns(first_ns));
    if over(point) == Over::Udp {
        let mut again = round_trips(0);
        let lost = share_lost(&mut meter, each_ns, |meter| {
            let before = again;
            again = meter.time("latency", || round_trips(1));
            Ok(again > before)
        })?;
        meter.value("lost", lost);
    } else if is_slow {
        meter.repeat(u64::MAX, |meter| {
            meter.time("latency", || round_trips(1));
            Ok(())
        })?;
    } else {
        meter.single("latency", || {
            round_trips(1);
        });
    }
    if let Some(error) = failed {
        return Err(broken(&error));
    }
    match answer == message {
        true => Ok(()),
        false => Err(Failure::error("the answer is not what was sent")),
    }
}

/// How many messages may be lost before any that is not.
const FIRST_TRIES: u32 = 3;

fn first_round_trip_ns(
    conversation: &mut Conversation,
    message: &mut [u8],
    answer: &mut [u8],
) -> Result<f64, Failure> {
    let mut tries = 0;
    loop {
        let (start, before) = (Instant::now(), conversation.sent_again());
        let answered = conversation.ask(message, answer);
        answered.map_err(|error| broken(&error))?;
        tries += 1;
        // One that was lost says nothing of how long others take.
        if conversation.sent_again() == before || tries == FIRST_TRIES {
            return Ok(start.elapsed().as_nanos() as f64);
        }
    }
}

/// Bytes of a message's number with a rate, where a datagram may overtake others.
const NUMBER: usize = 8;

/// Whether a point can have a rate.
fn can_load(point: &Point) -> Result<(), Failure> {
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        return Err(Failure::unsupported(
            "with a rate the client spins, so as to send in time, and leaves its processor to \
             nobody (--set cpus=cross, or rate=0)",
        ));
    }
    if over(point) == Over::Udp && size(point) < NUMBER {
        return Err(Failure::unsupported(
            "with a rate, a datagram carries its number in 8 B (--set size=8, or over=tcp)",
        ));
    }
    Ok(())
}

fn at_a_rate(
    point: &Point,
    rate: u64,
    conversation: &mut Conversation,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let mut message = message(point);
    let pattern = message.clone();
    let mut answer = vec![0; message.len()];
    let number_bytes = message.len().min(NUMBER);
    let first_ns = first_round_trip_ns(conversation, &mut message, &mut answer)?;
    let mut load = Load::new(rate, meter.time_ns(), first_ns);
    let clock = meter.clock();
    let start = clock.start();
    let now_ns = || clock.ns(clock.end().saturating_sub(start));
    let mut failed: Option<Failure> = None;
    let mut next = || -> io::Result<Option<f64>> {
        loop {
            let now = now_ns();
            if load.is_over(now) {
                return Ok(None);
            }
            if let Some(number) = load.due(now) {
                message[..number_bytes].copy_from_slice(&number.to_le_bytes()[..number_bytes]);
                if conversation.send_now(&message)? {
                    load.made();
                }
            }
            if conversation.receive_now(&mut answer)? {
                let now = now_ns();
                let number = number_of(&answer).unwrap_or(load.answers() + 1);
                if answer[number_bytes..] != pattern[number_bytes..] {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if let Some(latency_ns) = load.answered(number, now) {
                    return Ok(Some(latency_ns));
                }
            }
        }
    };
    meter.open_loop("latency", |_| match next() {
        Ok(latency_ns) => latency_ns,
        Err(error) => {
            failed = Some(broken(&error));
            None
        }
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    if load.answers() == 0 {
        return Err(Failure::error("no message was answered"));
    }
    if over(point) == Over::Udp {
        meter.value("lost", load.lost());
    }
    if let Some(rate) = load.rate() {
        meter.value("rate", rate);
    }
    Ok(())
}

/// The number that an answer carries; none where it is too short for one, and comes in its turn.
fn number_of(answer: &[u8]) -> Option<u64> {
    answer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn derive(point: &Point, mut reports: Vec<Report>) -> Report {
    // The client's is the last; the server measures nothing.
    let mut report = reports.pop().expect("a report of each role");
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    report
}

/// What a message of this size takes through the protocol and back where no processor has to be
/// woken, and because of what.
pub(crate) fn kernel_ns(over: Over, size: usize, read_ns: f64) -> (f64, f64, String) {
    let size = size as f64;
    let (low, high, words) = match over {
        Over::Tcp => (6.0, 25.0, "TCP, IP and the device"),
        Over::Udp => (5.0, 20.0, "UDP, IP and the device"),
        Over::Unix => (2.0, 8.0, "a queue of buffers"),
    };
    // Two copies each way, and beyond 4 KiB pages have to be found for them.
    (
        2.0 * low * read_ns + 4.0 * size / 20.0,
        2.0 * high * read_ns + 4.0 * size / 2.0,
        format!(
            "two sends and two receives through {words}, {low} to {high} reads of {read_ns:.0} ns \
             each way, and four copies of {size} B at 2 to 20 GB/s"
        ),
    )
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let axes = &point.axes;
    let read_ns = syscall::one_thread_ns(known, "read")?;
    let (mut low, mut high, mut because) = kernel_ns(over(point), size(point), read_ns);
    if axes.word("wait") == "block" {
        let switch_ns = switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
        // With a rate only the server waits in the kernel.
        let (switches, count) = if rate(point) == 0 {
            (2.0, "two")
        } else {
            (1.0, "one")
        };
        low += 0.8 * switches * switch_ns;
        high += 1.25 * switches * switch_ns;
        because = format!(
            "{count} context switch{} of {} by a pipe, times 0.8 to 1.25; {because}",
            if rate(point) == 0 { "es" } else { "" },
            Unit::Nanoseconds.display(switch_ns)
        );
    }
    let bytes = size(point) as u64;
    let (link_low, link_high, link) = path::adds(&point.link, bytes, headers(point))?;
    let (window_ns, window) = match over(point) {
        Over::Tcp => path::window_adds(&point.link, bytes),
        _ => (0.0, String::new()),
    };
    latency_ns(
        low + link_low,
        high + link_high + window_ns,
        format!("{because}{link}{window}"),
    )
}
