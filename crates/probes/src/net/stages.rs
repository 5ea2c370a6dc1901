//! `net.stages`: where a round trip spends its time, by the kernel's own stamps.

use crate::ends::{Cpus, switch_ns};
use crate::expect::latency_ns;
use crate::literal::{self, axis, latency, list, metric, text, word, words};
use crate::net::caller::Caller;
use crate::net::echo::{Echo, WAIT, message, over, size, wait};
use crate::net::lost::share_lost;
use crate::net::meeting::broken;
use crate::net::path::{self, TCP_HEADERS};
use crate::net::rtt;
use crate::os::syscall;
use crate::wake;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_model::List;
use costof_model::axis::{Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Better, Unit};
use costof_os::conversation::Wait;
use costof_os::meeting::Over;
use costof_os::timestamping::{Stages, Stamper, SwitchedOn};
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("net.stages"),
        method: 1,
        question: text("Where does a round trip spend its time?"),
        axes: List::Owned(vec![
            words(
                "over",
                "what carries the message",
                list![
                    word("udp", "a UDP datagram each way"),
                    word("tcp", "a TCP connection with TCP_NODELAY"),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of the message, and of the answer; up to 65,507 over UDP"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 64 << 10,
                    usual: list![56, 1024, 16 << 10],
                },
            },
            WAIT,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![list![text("over"), text("wait")]],
        metrics: list![
            latency(
                "the round trip, with the stamps: from before the message is sent until the whole answer is there"
            ),
            ns(
                "send_to_queue",
                "from before the send until the message's last packet enters the queue discipline: the call, the copy, UDP or TCP, and IP",
            ),
            ns(
                "queue_to_driver",
                "from there until the driver is given the packet"
            ),
            ns(
                "driver_to_stack",
                "from there until this host receives the answer: the wire, and all of the other end; on loopback also the rest of the send",
            ),
            ns(
                "stack_to_receive",
                "from there until the receiving process has the answer: IP, UDP or TCP, waking it, and the copy",
            ),
            metric(
                "missing",
                Unit::One,
                Better::Lower,
                "the share of messages of which an answer or a stamp was missing; they count for nothing else",
            ),
        ],
        how: text(
            "As net.rtt, one message at a time, on a socket whose packets the kernel stamps \
             (SO_TIMESTAMPING, in software: SCHED, SND and RX) with the clock that the process \
             reads before it sends and after it has received. The four stages of a message add up \
             to its round trip. All stamps are of the client's host, since the clocks of two \
             hosts are never subtracted: what the other end took is inside driver_to_stack. \
             Stamping costs some microseconds itself, so latency is more than net.rtt's. Of a \
             message of several packets, the last one is stamped.",
        ),
        sources: list![
            text("Linux Documentation/networking/timestamping.rst"),
            text(
                "CSE 221 System Measurement Project, 2014, which found no time of the protocol's own between ping and TCP"
            ),
        ],
        predicted_from: text(
            "the round trip as net.rtt has measured it over the same link, the same wait and size, and system calls for the stamps",
        ),
        after: list![text("os.syscall"), text("net.rtt")],
        needs: list![
            text("software timestamps of the kernel (SO_TIMESTAMPING)"),
            text("cpus=cross: two processors (--cpu)"),
        ],
        roles: list![text("server"), text("client")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| path::least_ns(&point.link, point.axes.number("size"), TCP_HEADERS),
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[
        |launch| Ok(Box::new(Echo::start(launch)?)),
        |launch| Ok(Box::new(Client::start(launch)?)),
    ],
    derive: |_, mut reports| reports.pop().expect("a report of each role"),
};

const fn ns(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "round trip: UDP on loopback, stamped by the kernel",
        PROBE.info.defaults(),
    )]
}

struct Client {
    caller: Caller,
    /// During the launch, from before any processor is kept awake.
    stamps: io::Result<SwitchedOn>,
}

impl Client {
    fn start(launch: &Launch) -> Result<Client, Failure> {
        Ok(Client {
            stamps: SwitchedOn::within(SWITCHED_ON),
            caller: Caller::start(launch)?,
        })
    }
}

/// How long the kernel may take to switch stamps on.
pub(crate) const SWITCHED_ON: Duration = Duration::from_secs(5);
/// How many messages may have none of them before any has.
const UNSTAMPED_FIRST: u32 = 10;
/// How many messages must fit into a point's time, so that some are for warming up.
const MESSAGES_PER_POINT: f64 = 20.0;
/// Messages before those that count.
const WARM_UP: u32 = 20;

impl Role for Client {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.stamps.as_ref().map_err(absent)?;
        self.caller
            .prepare(point, offers, wait(point) == Wait::Block)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (over, wait) = (over(point), wait(point));
        let (_kept, mut conversation) = self.caller.call(over, wait)?;
        let bytes = point.axes.number("size");
        conversation.may_take(path::may_take(&point.link, bytes, TCP_HEADERS));
        let mut stamper = Stamper::new(conversation, over, wait).map_err(|error| absent(&error))?;
        let mut message = message(point);
        let mut answer = vec![0; message.len()];
        let mut ask = || {
            stamper
                .ask(&mut message, &mut answer)
                .map_err(|error| broken(&error))
        };
        let first = first_stamped(&mut ask)?;
        let first_ns = took_ns(&first);
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let stages = ask()?;
                each_ns = stages.map_or(each_ns, |stages| each_ns.min(took_ns(&stages)));
            }
        }
        record(&first, meter);
        let mut unstamped = 0;
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let missing = share_lost(&mut slow, each_ns, |meter| {
            let stages = ask()?;
            match &stages {
                Some(stages) => {
                    record(stages, meter);
                    unstamped = 0;
                }
                None => unstamped += 1,
            }
            match unstamped {
                UNSTAMPED_MOST => Err(Failure::error("the kernel has ceased to stamp packets")),
                _ => Ok(stages.is_none()),
            }
        })?;
        meter.value("missing", missing);
        match answer == message {
            true => Ok(()),
            false => Err(Failure::error("the answer is not what was sent")),
        }
    }
}

/// How many messages in a row may have no stamps.
pub(crate) const UNSTAMPED_MOST: u32 = 1000;

/// A failure to have packets stamped.
pub(crate) fn absent(error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "this kernel does not stamp packets as asked: {error} (SO_TIMESTAMPING; net.rtt needs none)"
    ))
}

/// The stages of the first message that is stamped all over.
///
/// # Errors
/// Those of `ask`; that none of the first messages is.
pub(crate) fn first_stamped<T>(
    ask: &mut impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for _ in 0..UNSTAMPED_FIRST {
        if let Some(stages) = ask()? {
            return Ok(stages);
        }
    }
    Err(Failure::error(
        "no message has an answer and all of its stamps: does a firewall drop it, or has \
         the link no such stamps?",
    ))
}

fn took_ns(stages: &Stages) -> f64 {
    (stages.answered - stages.asked) as f64
}

fn record(stages: &Stages, meter: &mut Meter<'_>) {
    let Stages {
        asked,
        scheduled,
        handed_over,
        received,
        answered,
    } = *stages;
    // They are ascending.
    for (metric, from, to) in [
        ("latency", asked, answered),
        ("send_to_queue", asked, scheduled),
        ("queue_to_driver", scheduled, handed_over),
        ("driver_to_stack", handed_over, received),
        ("stack_to_receive", received, answered),
    ] {
        meter.latency(metric, (to - from) as f64);
    }
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let axes = &point.axes;
    let read_ns = syscall::one_thread_ns(known, "read")?;
    // Two clones of the packet are stamped and queued, and one more call fetches each.
    let (stamps_low, stamps_high) = (2.0 * read_ns, 80.0 * read_ns);
    let stamps = format!("2 to 80 reads of {read_ns:.0} ns for the stamps");
    let bytes = axes.number("size").to_string();
    let same = [
        ("over", axes.word("over")),
        ("wait", axes.word("wait")),
        ("cpus", axes.word("cpus")),
        ("wake", axes.word("wake")),
        ("size", &bytes),
        ("rate", "0"),
    ];
    if let Some(rtt_ns) = known.primary_over(&point.link, "net.rtt", &same) {
        return latency_ns(
            0.9 * rtt_ns + stamps_low,
            1.3 * rtt_ns + stamps_high,
            format!(
                "the round trip without stamps, {} as net.rtt measured, times 0.9 to 1.3; {stamps}",
                Unit::Nanoseconds.display(rtt_ns)
            ),
        );
    }
    let (low, high, because) = rtt::kernel_ns(over(point), size(point), read_ns);
    let (link_low, link_high, link) = path::adds(&point.link, axes.number("size"), TCP_HEADERS)?;
    let (window_ns, window) = match over(point) {
        Over::Tcp => path::window_adds(&point.link, axes.number("size")),
        _ => (0.0, String::new()),
    };
    let (wait_ns, waits) = match wait(point) {
        Wait::Spin => (0.0, String::new()),
        Wait::Block => {
            let switch_ns = switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
            let shown = Unit::Nanoseconds.display(switch_ns);
            (
                switch_ns,
                format!("; two context switches of {shown}, times 0.8 to 1.25"),
            )
        }
    };
    latency_ns(
        low + link_low + 1.6 * wait_ns + stamps_low,
        high + link_high + window_ns + 2.5 * wait_ns + stamps_high,
        format!("{because}{waits}; {stamps}{link}{window}"),
    )
}
