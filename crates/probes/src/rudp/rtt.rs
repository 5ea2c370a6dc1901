//! `rudp.rtt`: how long a reliable datagram takes to the other end of a link and back.

use crate::derived;
use crate::ends::Cpus;
use crate::expect::latency_ns;
use crate::literal::{self, axis, latency, list, metric, text, word, words};
use crate::net::caller::Caller;
use crate::net::echo::{WAIT, message, serve, size, wait};
use crate::net::lost::share_lost;
use crate::net::meeting::{self, broken};
use crate::net::path::{self, End, UDP_HEADERS};
use crate::rudp::ends::{self, Talk};
use crate::rudp::expect::{library_ns, udp_ns};
use crate::rudp::study::{self, Answering, Asking};
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
use costof_os::clock::{ClockId, now_ns};
use costof_os::conversation::{Conversation, Wait};
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Listener, Over};
use rudp::{Config, Control};
use std::io;
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rudp.rtt"),
        method: 2,
        question: text(
            "How long does a reliable datagram take to the other end of a link and back?",
        ),
        axes: List::Owned(vec![
            STACK,
            Axis {
                name: text("size"),
                about: text(
                    "bytes of the message, and of the answer, which the study's protocol has none of; 4, 8, 32, 512, 1024 and 2048 as for an int, a double, a structure and strings in a remote procedure call",
                ),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 64 << 10,
                    usual: list![56, 4, 8, 32, 512, 1024, 2048],
                },
            },
            WAIT,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("stack"), text("size")],
            list![text("stack"), text("wait")],
            list![text("stack"), text("wake")],
        ],
        metrics: list![
            latency(
                "from before the message is sent until the whole answer is there; with stack=study, until it is acknowledged"
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "the share of messages for which something was sent again; their latency contains it",
            ),
            cpu("cpu_client"),
            cpu("cpu_server"),
        ],
        how: text(
            "A message goes to the other end, which sends it back, one at a time, each stamped. \
             stack=rudp is the library as it comes: its driver over a UDP socket, told to favour \
             latency where a datagram holds the message, its default \
             control, messages in order; an acknowledgement travels with the answer. On loopback \
             its datagrams are as long as UDP's, elsewhere as long as Ethernet carries, so that a \
             longer message is cut by the library, and by IP with stack=udp. stack=study is the \
             study's protocol: the message goes there, and an acknowledgement of 8 B comes back; \
             what is lost is sent again after a second, for the end of which its sender spins. \
             stack=udp has the messages of net.rtt over=udp, and what is lost is sent again after \
             three round trips, or 200 ms. The stacks are measured in turn in each launch. How \
             many messages are sent is fixed before, since whoever stops when the time is over \
             stops at a loss.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 2: 14.97 µs (median 10) between two processes, 68.25 (64) over a gigabit LAN, 189.9 ms over a WAN"
            ),
            text(
                "CS 739 mini-project 1, part 3: 12 to 20 µs for an int, a double, a structure and strings of 512 to 2048 B, by reliable UDP"
            ),
            text("RFC 9002, on when something is lost"),
        ],
        predicted_from: text(
            "the round trip by UDP as net.rtt has measured it over the same link, or system calls and context switches; and what the library adds: its state and memory a datagram, tags and copies of the bytes, and system calls",
        ),
        after: list![
            text("os.syscall"),
            text("os.context_switch"),
            text("net.rtt")
        ],
        needs: list![text("cpus=cross: two processors (--cpu)")],
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

/// What makes datagrams reliable.
pub(crate) const STACK: Axis = words(
    "stack",
    "what carries the message",
    list![
        word(
            "rudp",
            "the library rudp, which acknowledges, tags and paces"
        ),
        word(
            "study",
            "the protocol of the reliable-datagrams study: a number, and a second's patience"
        ),
        word("udp", "plain datagrams, to hold the others against"),
    ],
);

const fn cpu(name: &'static str) -> MetricInfo {
    metric(
        name,
        Unit::Nanoseconds,
        Better::Lower,
        "with wait=block: processor time of that end's thread for a message, in and out",
    )
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "round trip: reliable datagram on loopback",
        PROBE.info.defaults(),
    )]
}

/// What carries a point's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Rudp,
    Study,
    /// What the others are held against: datagrams here, and for calls of procedures connections too.
    Plain(Over),
}

impl Stack {
    /// By what the ends meet, where it is not the library that they talk by.
    pub(crate) fn over(self) -> Over {
        match self {
            Stack::Plain(over) => over,
            Stack::Rudp | Stack::Study => Over::Udp,
        }
    }
}

pub(crate) fn stack(point: &Point) -> Stack {
    match point.axes.word("stack") {
        "study" => Stack::Study,
        "udp" => Stack::Plain(Over::Udp),
        "tcp" => Stack::Plain(Over::Tcp),
        "unix" => Stack::Plain(Over::Unix),
        _ => Stack::Rudp,
    }
}

fn config(point: &Point) -> Config {
    ends::config(point, Control::default(), size(point))
}

/// Refuses a message that no datagram holds.
pub(crate) fn fits(point: &Point) -> Result<(), Failure> {
    let most = match stack(point) {
        Stack::Study => DATAGRAM_MOST_BYTES - study::NUMBER,
        Stack::Plain(Over::Udp) => DATAGRAM_MOST_BYTES,
        Stack::Rudp | Stack::Plain(_) => return Ok(()),
    };
    match size(point) > most {
        true => Err(Failure::unsupported(format!(
            "a message of this stack is one datagram, which carries {most} B of it at most (--set \
             size={most}, or stack=rudp)"
        ))),
        false => Ok(()),
    }
}

/// The end that answers.
pub(crate) struct Server {
    end: End,
    kept: Option<Kept>,
    listener: Option<Listener>,
}

impl Server {
    /// # Errors
    /// Those of [`End::of`].
    pub(crate) fn start(launch: &Launch) -> Result<Server, Failure> {
        Ok(Server {
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
        self.kept = Some(self.end.settle(
            &point.link,
            axis(point, "cpus"),
            axis(point, "wake"),
            wait(point) == Wait::Block,
        )?);
        let meeting = &self.end.meeting;
        let (listener, offers) = meeting::listen(&point.link, meeting, stack(point).over(), 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _kept = self.kept.take();
        let listener = self.listener.take().expect("it is prepared");
        let Some(mut answers) = self.meet(point, &listener, meter)? else {
            return Ok(());
        };
        let (began_ns, mut messages) = (now_ns(ClockId::ThreadCpu), 0_u64);
        serve(meter, |_| {
            messages += u64::from(answers.answer()?);
            Ok(())
        })?;
        cpu_time(point, "cpu_server", began_ns, messages, meter);
        Ok(())
    }
}

impl Server {
    /// None where the launch has ended before.
    fn meet(
        &self,
        point: &Point,
        listener: &Listener,
        meter: &Meter<'_>,
    ) -> Result<Option<Answers>, Failure> {
        if stack(point) == Stack::Rudp {
            let talk = Talk::accept(listener, config(point), wait(point), meter.stop())?;
            return Ok(talk.map(|talk| Answers::Library(Box::new(talk))));
        }
        let accepted = Conversation::accept(listener, wait(point), meter.stop());
        let met = meeting::met(accepted)?;
        Ok(met.map(|conversation| match stack(point) {
            Stack::Study => {
                let token = &self.end.meeting.token;
                let answering = Answering::new(conversation, size(point), token);
                Answers::Study(answering, message(point))
            }
            _ => Answers::Plain(conversation, vec![0; size(point)]),
        }))
    }
}

/// One who answers.
enum Answers {
    Library(Box<Talk>),
    /// And the message that is to come.
    Study(Answering<Conversation>, Vec<u8>),
    Plain(Conversation, Vec<u8>),
}

impl Answers {
    /// Whether a message came, which is answered.
    fn answer(&mut self) -> io::Result<bool> {
        match self {
            Answers::Library(talk) => match talk.receive()? {
                Some(message) => talk.send(message).map(|()| true),
                None => Ok(false),
            },
            Answers::Study(answering, expected) => match answering.answer()? {
                Some(message) if message != expected => Err(io::ErrorKind::InvalidData.into()),
                message => Ok(message.is_some()),
            },
            Answers::Plain(conversation, message) => match conversation.receive(message)? {
                true => conversation.send(message).map(|()| true),
                false => Ok(false),
            },
        }
    }
}

/// What an end's thread has used a message, where it waits in the kernel: one that spins uses all
/// of its processor.
fn cpu_time(
    point: &Point,
    metric: &'static str,
    began_ns: u64,
    messages: u64,
    meter: &mut Meter<'_>,
) {
    let used_ns = now_ns(ClockId::ThreadCpu).saturating_sub(began_ns);
    if wait(point) == Wait::Block && messages > 0 {
        meter.value(metric, used_ns as f64 / messages as f64);
    }
}

/// The end that asks.
pub(crate) struct Client(Caller);

impl Client {
    /// # Errors
    /// Those of [`Caller::start`].
    pub(crate) fn start(launch: &Launch) -> Result<Client, Failure> {
        Ok(Client(Caller::start(launch)?))
    }
}

/// How many messages must fit into a point's time, so that some are for warming up.
const MESSAGES_PER_POINT: f64 = 20.0;
/// Messages before those that count.
const WARM_UP: u32 = 20;

impl Role for Client {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.0.prepare(
            &point.link,
            (axis(point, "cpus"), axis(point, "wake")),
            offers,
            wait(point) == Wait::Block,
        )
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (_kept, mut asks) = self
            .0
            .call_by(|meeting, offers| Asks::call(point, meeting, offers))?;
        // The library's messages are its own memory, as the study's are.
        meter.operation_allocates();
        let failed = |error: io::Error| broken(&error);
        let start = Instant::now();
        asks.ask(point, |ask| ask()).map_err(failed)?;
        let first_ns = start.elapsed().as_nanos() as f64;
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let start = Instant::now();
                asks.ask(point, |ask| ask()).map_err(failed)?;
                each_ns = each_ns.min(start.elapsed().as_nanos() as f64);
            }
        }
        let (began_ns, mut messages) = (now_ns(ClockId::ThreadCpu), 0_u64);
        let mut again = asks.sent_again();
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let lost = share_lost(&mut slow, each_ns, |meter| {
            let before = again;
            let asked = asks.ask(point, |ask| meter.time("latency", ask));
            asked.map_err(failed)?;
            messages += 1;
            again = asks.sent_again();
            Ok(again > before)
        })?;
        cpu_time(point, "cpu_client", began_ns, messages, meter);
        meter.value("lost", lost);
        Ok(())
    }
}

/// One who asks, and how often so far.
struct Asks {
    by: By,
    number: u64,
    /// The last answer, to be sent again.
    message: Vec<u8>,
    /// What an answer is held against.
    expected: Vec<u8>,
}

enum By {
    Library(Box<Talk>),
    Study(Asking<Conversation>),
    Plain(Conversation, Vec<u8>),
}

impl Asks {
    fn call(point: &Point, meeting: &Meeting, offers: &Offers) -> Result<Asks, Failure> {
        let by = match stack(point) {
            Stack::Rudp => {
                let talk = Talk::call(meeting, offers, config(point), wait(point))?;
                By::Library(Box::new(talk))
            }
            stack => {
                let called = meeting::call(meeting, offers, stack.over(), wait(point));
                let mut conversation = called?;
                let bytes = size(point);
                conversation.may_take(path::may_take(&point.link, bytes as u64, UDP_HEADERS));
                match stack {
                    Stack::Study => By::Study(Asking::new(conversation)),
                    _ => By::Plain(conversation, vec![0; bytes]),
                }
            }
        };
        Ok(Asks {
            by,
            number: 0,
            message: Vec::new(),
            expected: message(point),
        })
    }

    /// A message there and back, which `timed` is to call, and only that.
    ///
    /// # Errors
    /// Why there is no answer; `InvalidData` where it is another one.
    fn ask(
        &mut self,
        point: &Point,
        timed: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.number += 1;
        if let By::Study(asking) = &mut self.by {
            let mut message = Some(self.expected.clone());
            return timed(&mut || asking.ask(message.take().unwrap_or_default()));
        }
        // Answers are told apart by a number, as far as they are long enough for one.
        let length = size(point).min(size_of::<u64>());
        self.expected[..length].copy_from_slice(&self.number.to_le_bytes()[..length]);
        if self.message.is_empty() {
            self.message.clone_from(&self.expected);
        }
        self.message[..length].copy_from_slice(&self.expected[..length]);
        match &mut self.by {
            By::Library(talk) => {
                let message = &mut self.message;
                timed(&mut || {
                    *message = talk.ask(std::mem::take(message))?;
                    Ok(())
                })?;
            }
            By::Plain(conversation, answer) => {
                timed(&mut || conversation.ask(&mut self.message, answer))?;
                std::mem::swap(&mut self.message, answer);
            }
            By::Study(_) => {}
        }
        match self.message == self.expected {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// How often something was sent again so far.
    fn sent_again(&mut self) -> u64 {
        match &mut self.by {
            By::Library(talk) => talk.connection().map_or(0, |connection| {
                let stats = connection.stats();
                stats.packets_lost + stats.probe_timeouts
            }),
            By::Study(asking) => asking.resent(),
            By::Plain(conversation, _) => conversation.sent_again(),
        }
    }
}

fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let [server, mut report] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if report.state == State::Ok {
        report.metrics.extend(server.metrics);
    }
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    report
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = udp_ns(point, known)?;
    match stack(point) {
        Stack::Plain(_) => latency_ns(low, high, because),
        Stack::Study => {
            let link_ns =
                |bytes: u64| path::adds(&point.link, bytes, UDP_HEADERS).map(|(low, _, _)| low);
            let whole_ns = link_ns(size(point) as u64)? - link_ns(study::NUMBER as u64)?;
            let because = because + "; what comes back is 8 B";
            latency_ns(low - whole_ns / 2.0, high, because)
        }
        Stack::Rudp => {
            let (more_low, more_high, more) = library_ns(point, known)?;
            latency_ns(low + more_low, high + more_high, because + &more)
        }
    }
}
