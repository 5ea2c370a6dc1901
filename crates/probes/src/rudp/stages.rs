//! `rudp.stages`: what making datagrams reliable takes at either end, by the kernel's own stamps.

use crate::ends::{Cpus, switch_ns};
use crate::expect::between;
use crate::literal::{self, axis, latency, list, metric, text};
use crate::net::axes;
use crate::net::caller::Caller;
use crate::net::echo::{WAIT, message, serve, size, wait};
use crate::net::lost::share_lost;
use crate::net::meeting::{self, broken};
use crate::net::path::{self, End, UDP_HEADERS};
use crate::net::rtt;
use crate::net::stages::{SWITCHED_ON, UNSTAMPED_MOST, absent, first_stamped};
use crate::os::syscall;
use crate::rudp::ends;
use crate::rudp::expect::library_ns;
use crate::rudp::rtt::{STACK, Stack, fits, stack};
use crate::rudp::stamped::{Answered, Asked, Ends, LIBRARY_MOST, fits_one};
use crate::wake::{self, Kept};
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
use costof_model::protocol::{Launch, Meeting, Offers, Report};
use costof_model::rows::State;
use costof_model::unit::{Better, Unit};
use costof_os::conversation::{Conversation, Wait};
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Listener, Over};
use costof_os::timestamping::SwitchedOn;
use rudp::{Config, Control};
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rudp.stages"),
        method: 1,
        question: text("What does making a datagram reliable take at either end?"),
        axes: List::Owned(vec![
            STACK,
            Axis {
                name: text("size"),
                about: text(
                    "bytes of the message, which is one datagram; 65,400 and its headers are the largest",
                ),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: DATAGRAM_MOST_BYTES as u64,
                    usual: list![1400, 56, LIBRARY_MOST as u64],
                },
            },
            WAIT,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("stack"), text("size")],
            list![text("stack"), text("wait")],
        ],
        metrics: list![
            ns(
                "client",
                "at the end that asks, its two stages together: the round trip less what lies between the datagram's leaving and its answer's coming; the study's T4 - T1 - (T3 - T2)",
            ),
            ns(
                "client_send",
                "from before the process sends the message until the driver is given its datagram; T2 - T1",
            ),
            ns(
                "client_receive",
                "from when the stack received the answer's datagram until the process has the answer; T4 - T3",
            ),
            ns(
                "server",
                "at the end that answers, from when the stack received the datagram until the driver is given its answer's; S2 - S1",
            ),
            ns(
                "server_receive",
                "of that, until the process has the message and begins to answer",
            ),
            ns("server_send", "of that, from there on"),
            latency(
                "the round trip, with the stamps: from before the message is sent until the whole answer is there, or with stack=study its acknowledgement"
            ),
            metric(
                "missing",
                Unit::One,
                Better::Lower,
                "the share of messages of which an answer or a stamp was missing at the end that asks; they count for nothing else there",
            ),
        ],
        how: text(
            "As rudp.rtt, one message at a time, on sockets whose datagrams the kernel stamps \
             (SO_TIMESTAMPING, in software: SND and RX), where the study captured them with a \
             sniffer. Either end subtracts stamps of its own host alone, since the clocks of two \
             hosts are never subtracted. stack=udp is what the kernel and the waiting take, so \
             that the difference to it is what the library takes. All stacks send each message as \
             one datagram, which IP cuts where the link's packets are shorter; then the kernel \
             stamps one of them. The library's state machine is driven here by a loop like that \
             of its own driver, one datagram at a time. Stamping costs some microseconds itself, \
             most of them between the stages; the stamps of what left are fetched after the \
             answer.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 2: server and client 9.9 and 8.4 µs for 1400 B on one machine, 17.2 and 24.6 µs for the largest datagram; over a LAN 95.7 and 28.8, 83.7 and 180.9 µs"
            ),
            text("Linux Documentation/networking/timestamping.rst"),
        ],
        predicted_from: text(
            "half of the two sends, receives and context switches of a UDP round trip, from system calls and context switches as this run has measured them; and half of what the library adds to a round trip",
        ),
        after: list![text("os.syscall"), text("os.context_switch")],
        needs: list![
            text("software timestamps of the kernel (SO_TIMESTAMPING)"),
            text("cpus=cross: two processors (--cpu)"),
        ],
        roles: list![text("server"), text("client")],
    }),
    // The stacks are held against each other.
    rounds: 2,
    blocks_by: &[],
    least_ns: |point| path::least_ns(&point.link, size(point) as u64, UDP_HEADERS),
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[
        |launch| Ok(Box::new(Server::start(launch)?)),
        |launch| Ok(Box::new(Client::start(launch)?)),
    ],
    derive,
};

const fn ns(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "reliable datagram: send and receive at one end",
        PROBE.info.defaults(),
    )]
}

/// After how long without an answer a plain datagram is taken for lost, at least.
const LOST: Duration = Duration::from_secs(1);

/// What an end of the point is to be.
fn ends_of<'a>(point: &Point, meeting: &'a Meeting) -> Ends<'a> {
    let usual = ends::config(point, Control::default(), size(point));
    Ends {
        stack: stack(point),
        wait: wait(point),
        size: size(point),
        meeting,
        config: Config {
            // As the others, which IP cuts.
            datagram_bytes: DATAGRAM_MOST_BYTES,
            ..usual
        },
        lost_after: LOST.max(3 * path::may_take(&point.link, size(point) as u64, UDP_HEADERS)),
    }
}

/// The end that answers.
struct Server {
    end: End,
    kept: Option<Kept>,
    listener: Option<Listener>,
    /// During the launch, from before any processor is kept awake.
    stamps: io::Result<SwitchedOn>,
}

impl Server {
    fn start(launch: &Launch) -> Result<Server, Failure> {
        Ok(Server {
            stamps: SwitchedOn::within(SWITCHED_ON),
            end: End::of(launch, false)?,
            kept: None,
            listener: None,
        })
    }
}

impl Role for Server {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        fits(point)?;
        fits_one(stack(point), size(point))?;
        self.stamps.as_ref().map_err(absent)?;
        self.kept = Some(self.end.settle(
            &point.link,
            axis(point, "cpus"),
            axis(point, "wake"),
            wait(point) == Wait::Block,
        )?);
        let (listener, offers) = meeting::listen(&point.link, &self.end.meeting, Over::Udp, 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _kept = self.kept.take();
        let listener = self.listener.take().expect("it is prepared");
        let accepted = Conversation::accept(&listener, wait(point), meter.stop());
        let Some(conversation) = meeting::met(accepted)? else {
            return Ok(());
        };
        let ends = ends_of(point, &self.end.meeting);
        let mut answers = ends.answers(conversation).map_err(|error| absent(&error))?;
        serve(meter, |meter| {
            if let Some(Answered { came, had, left }) = answers.answer()? {
                for (metric, from, to) in [
                    ("server", came, left),
                    ("server_receive", came, had),
                    ("server_send", had, left),
                ] {
                    meter.latency(metric, (to - from) as f64);
                }
            }
            Ok(())
        })
    }
}

/// The end that asks.
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

/// How many messages must fit into a point's time, so that some are for warming up.
const MESSAGES_PER_POINT: f64 = 20.0;
/// Messages before those that count.
const WARM_UP: u32 = 20;
/// Bytes of a message's number, where it has as many.
const NUMBER: usize = 8;

impl Role for Client {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.stamps.as_ref().map_err(absent)?;
        self.caller.prepare(
            &point.link,
            (axis(point, "cpus"), axis(point, "wake")),
            offers,
            wait(point) == Wait::Block,
        )
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (_kept, mut asks) = self.caller.call_by(|meeting, offers| {
            let conversation = meeting::call(meeting, offers, Over::Udp, wait(point))?;
            let asks = ends_of(point, meeting).asks(conversation);
            asks.map_err(|error| broken(&error))
        })?;
        let mut message = message(point);
        let (mut number, length) = (0_u64, message.len().min(NUMBER));
        let mut ask = || {
            number += 1;
            message[..length].copy_from_slice(&number.to_le_bytes()[..length]);
            asks.ask(&message).map_err(|error| broken(&error))
        };
        let first = first_stamped(&mut ask)?;
        let first_ns = took_ns(&first);
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let asked = ask()?;
                each_ns = asked.map_or(each_ns, |asked| each_ns.min(took_ns(&asked)));
            }
        }
        let mut unstamped = 0;
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let missing = share_lost(&mut slow, each_ns, |meter| {
            let asked = ask()?;
            match &asked {
                Some(asked) => {
                    record(asked, meter);
                    unstamped = 0;
                }
                None => unstamped += 1,
            }
            match unstamped {
                UNSTAMPED_MOST => Err(Failure::error("the kernel has ceased to stamp packets")),
                _ => Ok(asked.is_none()),
            }
        })?;
        meter.value("missing", missing);
        Ok(())
    }
}

fn took_ns(asked: &Asked) -> f64 {
    (asked.answered - asked.sent) as f64
}

fn record(asked: &Asked, meter: &mut Meter<'_>) {
    // They are ascending.
    let send = asked.left - asked.sent;
    let receive = asked.answered - asked.came;
    meter.latency("client", (send + receive) as f64);
    meter.latency("client_send", send as f64);
    meter.latency("client_receive", receive as f64);
    meter.latency("latency", took_ns(asked));
}

fn derive(_: &Point, reports: Vec<Report>) -> Report {
    let [server, mut client] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if client.state == State::Ok {
        client.metrics.extend(server.metrics);
    }
    client
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let read_ns = syscall::one_thread_ns(known, "read")?;
    let (low, high, because) = rtt::kernel_ns(axes::Over::Udp, size(point), read_ns);
    let (mut low, mut high) = (low / 3.0, high / 2.0 + 16.0 * read_ns);
    let mut because = format!("a third to a half of {because}; up to 16 reads for the stamps");
    if wait(point) == Wait::Block {
        let switch_ns = switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
        low += 0.4 * switch_ns;
        high += 1.25 * switch_ns;
        because += &format!(
            "; a context switch of {} by a pipe, times 0.4 to 1.25",
            Unit::Nanoseconds.display(switch_ns)
        );
    }
    if stack(point) == Stack::Rudp {
        let (more_low, more_high, more) = library_ns(point, known)?;
        low += more_low / 2.0;
        high += more_high / 2.0;
        because += &more;
        because += ", of which half is at one end";
    }
    between("client", (low, high), because)
}
