//! `net.rtt`: how long a message takes to the other end of a link and back.

use crate::ends::{CPUS_CROSS_FIRST, keep, keep_own, processors, share};
use crate::expect::latency_ns;
use crate::literal::{cost, latency, list, text, word, words};
use crate::net::meeting::{self, broken};
use crate::wake;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Meeting, Offers, Report};
use costof_model::unit::Unit;
use costof_os::affinity;
use costof_os::conversation::{Conversation, Listener, Over, Wait};
use std::io;

pub(crate) static PROBE: Probe = Probe {
    info: ProbeInfo {
        id: text("net.rtt"),
        method: 1,
        question: text("How long does a message take to the other end of a link and back?"),
        axes: list![
            words(
                "over",
                "what carries it",
                list![
                    word("tcp", "a TCP connection with TCP_NODELAY"),
                    word("udp", "a UDP datagram each way"),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of the message, and of the answer"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 64 << 10,
                    usual: list![56, 1, 1024, 16 << 10],
                },
            },
            words(
                "wait",
                "how both ends wait for a message",
                list![
                    word("block", "in the kernel"),
                    word("spin", "by asking again and again"),
                ],
            ),
            CPUS_CROSS_FIRST,
            wake::AWAKE_FIRST,
        ],
        crossings: list![list![text("over"), text("wait")]],
        metrics: list![
            latency("from before the message is sent until the whole answer is there"),
            cost("one round trip, of many one after the other"),
        ],
        how: text(
            "A message goes to the other end, which sends it back: one at a time, each stamped. \
             The answer is compared with what was sent.",
        ),
        sources: list![
            text(
                "CSE 221 System Measurement Project, 2014: 4.05 µs on loopback, 132.9 µs remote, 56 bytes"
            ),
            text("sockperf(1), ping-pong; netperf, TCP_RR and UDP_RR"),
        ],
        predicted_from: text(
            "context switches as os.context_switch has measured them, and system calls that go through the protocol twice",
        ),
        after: list![text("os.syscall"), text("os.context_switch")],
        needs: list![text("cpus=cross: two processors (--cpu)")],
        roles: list![text("server"), text("client")],
    },
    rounds: 1,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors,
    headlines,
    more_points: |_| Vec::new(),
    predict,
    roles: &[
        |launch| Ok(Box::new(Server::start(launch)?)),
        |launch| Ok(Box::new(Client::start(launch)?)),
    ],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    ["block", "spin"]
        .map(|wait| {
            Headline::new(
                format!("round trip: TCP on loopback, {wait}"),
                PROBE.info.defaults().with("wait", wait),
            )
        })
        .into()
}

fn over(point: &Point) -> Over {
    match point.axes.word("over") {
        "udp" => Over::Udp,
        _ => Over::Tcp,
    }
}

fn wait(point: &Point) -> Wait {
    match point.axes.word("wait") {
        "spin" => Wait::Spin,
        _ => Wait::Block,
    }
}

fn size(point: &Point) -> usize {
    point.axes.number("size") as usize
}

/// Sends back what comes.
struct Server {
    meeting: Meeting,
    cpus: Vec<usize>,
    listener: Option<Listener>,
}

impl Server {
    fn start(launch: &Launch) -> Result<Server, Failure> {
        Ok(Server {
            meeting: meeting::meeting(launch)?,
            cpus: launch.cpus.clone(),
            listener: None,
        })
    }
}

impl Role for Server {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        meeting::can_share(&self.meeting, share(point))?;
        let cpu = if share(point) {
            self.cpus.last()
        } else {
            self.cpus.first()
        };
        if let Some(cpu) = cpu {
            affinity::pin(&[*cpu]).map_err(|error| Failure::error(error.to_string()))?;
        }
        let (listener, offers) = meeting::listen(&self.meeting, over(point))?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let mut conversation = listener
            .accept(wait(point), self.meeting.token.as_bytes())
            .map_err(|error| broken(&error))?;
        let apart = self.meeting.apart;
        let _kept = apart.then(|| keep_own(point, &self.cpus)).transpose()?;
        let mut message = vec![0; size(point)];
        let mut failed: Option<io::Error> = None;
        meter.until_stopped(|| {
            let answered = match conversation.receive(&mut message) {
                Ok(true) => conversation.send(&message),
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = answered {
                failed.get_or_insert(error);
            }
        });
        // The client closes first, when it has what it wants.
        match failed {
            Some(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(broken(&error)),
            _ => Ok(()),
        }
    }
}

struct Client {
    meeting: Meeting,
    cpus: Vec<usize>,
    offers: Offers,
}

impl Client {
    fn start(launch: &Launch) -> Result<Client, Failure> {
        Ok(Client {
            meeting: meeting::meeting(launch)?,
            cpus: launch.cpus.clone(),
            offers: Offers::new(),
        })
    }
}

impl Role for Client {
    fn prepare(&mut self, _: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        // First of all, since the other end waits for it: what keeps a busy
        // processor awake may take long to get there.
        let mut conversation =
            meeting::call(&self.meeting, &self.offers, over(point), wait(point))?;
        let _kept = match self.meeting.apart {
            true => keep_own(point, &self.cpus)?,
            false => keep(point, &self.cpus)?,
        };
        let message: Vec<u8> = (0..size(point)).map(|byte| byte as u8).collect();
        let mut answer = vec![0; size(point)];
        let mut failed = None;
        let mut round_trips = |n: u64| {
            for _ in 0..n {
                if let Err(error) = round_trip(&mut conversation, &message, &mut answer) {
                    failed.get_or_insert(error);
                    return;
                }
            }
        };
        meter.repeatable("cost", &mut round_trips);
        meter.single("latency", || round_trips(1));
        match failed {
            Some(error) => Err(broken(&error)),
            None if answer == message => Ok(()),
            None => Err(Failure::error("the answer is not what was sent")),
        }
    }
}

/// There and back. Nothing for a second is an error.
fn round_trip(
    conversation: &mut Conversation,
    message: &[u8],
    answer: &mut [u8],
) -> io::Result<()> {
    conversation.send(message)?;
    for _ in 0..20 {
        if conversation.receive(answer)? {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn derive(_: &Point, mut reports: Vec<Report>) -> Report {
    // The client's is the last; the server measures nothing.
    reports.pop().expect("a report of each role")
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let read_ns = known.primary("os.syscall", &[("call", "read")])?;
    let axes: Axes = point.axes.clone();
    if axes.word("wait") == "spin" {
        return latency_ns(
            8.0 * read_ns,
            60.0 * read_ns,
            format!("two sends and two receives, each 4 to 30 times a read of {read_ns:.0} ns"),
        );
    }
    let switch_ns = known.primary(
        "os.context_switch",
        &[
            ("between", "processes"),
            ("over", "pipe"),
            ("cpus", axes.word("cpus")),
            ("wake", axes.word("wake")),
        ],
    )?;
    latency_ns(
        2.0 * switch_ns,
        2.0 * switch_ns + 60.0 * read_ns,
        format!(
            "two context switches of {}, and the protocol four times, up to 15 reads of \
             {read_ns:.0} ns each",
            Unit::Nanoseconds.display(switch_ns)
        ),
    )
}
