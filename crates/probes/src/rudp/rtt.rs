//! `rudp.rtt`: how long a reliable datagram takes to the other end of a link and back.

use crate::derived;
use crate::ends::Cpus;
use crate::net::axes::{Exchange, Over, Wait};
use crate::net::caller::Caller;
use crate::net::echo::serve;
use crate::net::lost::share_lost;
use crate::net::meeting::{self, broken};
use crate::net::path::{self, End, UDP_HEADERS};
use crate::prelude::*;
use crate::rudp::ends::{self, Talk};
use crate::rudp::expect::{library, udp};
use crate::rudp::study::{self, Answering, Asking};
use crate::wake::{self, Kept, Wake};
use costof_exchange::conversation::Conversation;
use costof_exchange::rendezvous::Listener;
use costof_model::protocol::Meeting;
use costof_model::rows::State;
use costof_model::typed::AxisOf;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use rudp::{Config, Control};
use std::io;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe::new::<Rtt>();

words! {
    /// What carries a message.
    pub(crate) enum Stack {
        /// the library rudp, which acknowledges, tags and paces
        Rudp = "rudp",
        /// the protocol of the reliable-datagrams study: a number, and a second's patience
        Study = "study",
        /// plain datagrams, to hold the others against
        Udp = "udp",
    }
}

impl Stack {
    /// The axis.
    pub(crate) fn axis() -> AxisOf<Stack> {
        words().about("what carries the message")
    }
}

point! {
    /// How long does a reliable datagram take to the other end of a link and back?
    ///
    /// A message goes to the other end, which sends it back, one at a time, each stamped.
    /// stack=rudp is the library as it comes: its driver over a UDP socket, told to favour latency
    /// where a datagram holds the message, its default control, messages in order; an
    /// acknowledgement travels with the answer. On loopback its datagrams are as long as UDP's,
    /// elsewhere as long as Ethernet carries, so that a longer message is cut by the library, and
    /// by IP with stack=udp. stack=study is the study's protocol: the message goes there, and an
    /// acknowledgement of 8 B comes back; what is lost is sent again after a second, for the end of
    /// which its sender spins. stack=udp has the messages of net.rtt over=udp, and what is lost is
    /// sent again after three round trips, or 200 ms. The stacks are measured in turn in each
    /// launch. How many messages are sent is fixed before, since whoever stops when the time is
    /// over stops at a loss.
    ///
    /// # Predicted from
    /// the round trip by UDP as net.rtt has measured it over the same link, or system calls and
    /// context switches; and what the library adds: its state and memory a datagram, tags and
    /// copies of the bytes, and system calls
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: 14.97 µs (median 10) between two processes, 68.25 (64) over
    ///   a gigabit LAN, 189.9 ms over a WAN
    /// - CS 739 mini-project 1, part 3: 12 to 20 µs for an int, a double, a structure and strings
    ///   of 512 to 2048 B, by reliable UDP
    /// - RFC 9002, on when something is lost
    ///
    /// # Needs
    /// - cpus=cross: two processors (--cpu)
    pub(crate) struct Rtt of "rudp.rtt" {
        stack: Stack = Stack::axis(),
        /// bytes of the message, and of the answer, which the study's protocol has none of; 4, 8,
        /// 32, 512, 1024 and 2048 as for an int, a double, a structure and strings in a remote
        /// procedure call
        size: usize = bytes(1..=64 << 10, &[56, 4, 8, 32, 512, 1024, 2048]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl From<&Rtt> for Messages {
    fn from(point: &Rtt) -> Messages {
        Messages {
            carrier: point.stack.into(),
            size: point.size,
            wait: point.wait,
            cpus: point.cpus,
            wake: point.wake,
        }
    }
}

impl Measure for Rtt {
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// from before the message is sent until the whole answer is there; with stack=study, until
        /// it is acknowledged
        latency: Nanoseconds Lower,
        /// the share of messages for which something was sent again; their latency contains it
        lost: One Lower,
        /// with wait=block: processor time of that end's thread for a message, in and out
        cpu_client: Nanoseconds Lower,
        /// with wait=block: processor time of that end's thread for a message, in and out
        cpu_server: Nanoseconds Lower,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "os.context_switch", "net.rtt"];
    const CROSSINGS: &'static [&'static [&'static str]] =
        &[&["stack", "size"], &["stack", "wait"], &["stack", "wake"]];
    // The stacks are held against each other.
    const ROUNDS: u32 = 2;
    const ROLE_NAMES: &'static [&'static str] = &["server", "client"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Rtt>(Server::start(launch)?),
        |launch| role::<Rtt>(Client::start(launch)?),
    ];

    fn least_ns(point: &At<Rtt>) -> f64 {
        path::least_ns(&point.link, point.size as u64, UDP_HEADERS)
    }

    fn processors(point: &At<Rtt>) -> usize {
        point.cpus.count()
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "round trip: reliable datagram on loopback",
            Rtt::default(),
        )]
    }

    fn predict(point: &At<Rtt>, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict(point, known)
    }

    fn derive(point: &At<Rtt>, reports: Vec<Report>) -> Report {
        let mut report = with_the_servers(reports);
        if point.cpus == Cpus::Same {
            derived::forget_disturbances(&mut report);
        }
        report
    }
}

/// The client's report with what the server has measured.
pub(super) fn with_the_servers(reports: Vec<Report>) -> Report {
    let [server, mut client] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if client.state == State::Ok {
        client.metrics.extend(server.metrics);
    }
    client
}

/// What carries messages, of this probe and of those that have the same ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Rudp,
    Study,
    /// What the others are held against: datagrams here, and for calls of procedures connections too.
    Plain(Over),
}

impl From<Stack> for Carrier {
    fn from(stack: Stack) -> Carrier {
        match stack {
            Stack::Rudp => Carrier::Rudp,
            Stack::Study => Carrier::Study,
            Stack::Udp => Carrier::Plain(Over::Udp),
        }
    }
}

/// What the two ends of a round trip have to agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages {
    pub(crate) carrier: Carrier,
    /// Bytes of a message, and of its answer.
    pub(crate) size: usize,
    pub(crate) wait: Wait,
    pub(crate) cpus: Cpus,
    pub(crate) wake: Wake,
}

/// For roles that work at any point which converts into them.
impl From<&Messages> for Messages {
    fn from(messages: &Messages) -> Messages {
        *messages
    }
}

impl Messages {
    /// The same by what carries the datagrams, or the bytes.
    pub(crate) fn exchange(&self) -> Exchange {
        Exchange {
            over: match self.carrier {
                Carrier::Rudp | Carrier::Study => Over::Udp,
                Carrier::Plain(over) => over,
            },
            size: self.size,
            wait: self.wait,
            cpus: self.cpus,
            wake: self.wake,
        }
    }

    /// Refuses a message that no datagram holds.
    pub(crate) fn fits(&self) -> Result<(), Failure> {
        let most = match self.carrier {
            Carrier::Study => DATAGRAM_MOST_BYTES - study::NUMBER,
            Carrier::Plain(Over::Udp) => DATAGRAM_MOST_BYTES,
            Carrier::Rudp | Carrier::Plain(Over::Tcp | Over::Unix) => return Ok(()),
        };
        if self.size <= most {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "a message of this stack is one datagram, which carries {most} B of it at most (--set \
             size={most}, or stack=rudp)"
        )))
    }
}

fn config(point: &At<Messages>) -> Config {
    ends::config(&point.link, Control::default(), point.size)
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

impl<P> RoleAt<P> for Server
where
    for<'a> Messages: From<&'a P>,
{
    fn blocks(&self, point: &At<P>) -> bool {
        Messages::from(&point.axes).wait == Wait::Block
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers, Failure> {
        let messages = Messages::from(&point.axes);
        messages.fits()?;
        let ends = messages.exchange();
        let (meeting, link) = (&self.end.meeting, &point.link);
        let kept = self.end.settle(link, ends.cpus, ends.wake, ends.blocks())?;
        self.kept = Some(kept);
        let (listener, offers) = meeting::listen(link, meeting, ends.over.into(), 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let point = &point.to::<Messages>();
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
        cpu_time(point.wait, "cpu_server", began_ns, messages, meter);
        Ok(())
    }
}

impl Server {
    /// None where the launch has ended before.
    fn meet(
        &self,
        point: &At<Messages>,
        listener: &Listener,
        meter: &Meter<'_>,
    ) -> Result<Option<Answers>, Failure> {
        let (wait, stop) = (point.wait.into(), meter.stop());
        let conversation = || meeting::met(Conversation::accept(listener, wait, stop));
        Ok(match point.carrier {
            Carrier::Rudp => {
                let talk = Talk::accept(listener, config(point), wait, stop)?;
                talk.map(|talk| Answers::Library(Box::new(talk)))
            }
            Carrier::Study => conversation()?.map(|conversation| {
                let token = &self.end.meeting.token;
                let answering = Answering::new(conversation, point.size, token);
                Answers::Study(answering, point.exchange().message())
            }),
            Carrier::Plain(_) => {
                let plain = |conversation| Answers::Plain(conversation, vec![0; point.size]);
                conversation()?.map(plain)
            }
        })
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
fn cpu_time(wait: Wait, metric: &'static str, began_ns: u64, messages: u64, meter: &mut Meter<'_>) {
    let used_ns = now_ns(ClockId::ThreadCpu).saturating_sub(began_ns);
    if wait == Wait::Block && messages > 0 {
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

impl<P> RoleAt<P> for Client
where
    for<'a> Messages: From<&'a P>,
{
    fn blocks(&self, point: &At<P>) -> bool {
        Messages::from(&point.axes).wait == Wait::Block
    }

    fn prepare(&mut self, point: &At<P>, offers: &Offers) -> Result<Offers, Failure> {
        let ends = Messages::from(&point.axes).exchange();
        let cpus = (ends.cpus, ends.wake);
        self.0.prepare(&point.link, cpus, offers, ends.blocks())
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let point = &point.to::<Messages>();
        let (_kept, mut asks) = self
            .0
            .call_by(|meeting, offers| Asks::call(point, meeting, offers))?;
        // The library's messages are its own memory, as the study's are.
        meter.operation_allocates();
        let failed = |error: io::Error| broken(&error);
        let start = Instant::now();
        asks.ask(|ask| ask()).map_err(failed)?;
        let first_ns = start.elapsed().as_nanos() as f64;
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let start = Instant::now();
                asks.ask(|ask| ask()).map_err(failed)?;
                each_ns = each_ns.min(start.elapsed().as_nanos() as f64);
            }
        }
        let (began_ns, mut messages) = (now_ns(ClockId::ThreadCpu), 0_u64);
        let mut again = asks.sent_again();
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let lost = share_lost(&mut slow, each_ns, |meter| {
            let before = again;
            let asked = asks.ask(|ask| meter.time("latency", ask));
            asked.map_err(failed)?;
            messages += 1;
            again = asks.sent_again();
            Ok(again > before)
        })?;
        cpu_time(point.wait, "cpu_client", began_ns, messages, meter);
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
    fn call(point: &At<Messages>, meeting: &Meeting, offers: &Offers) -> Result<Asks, Failure> {
        let (ends, wait) = (point.exchange(), point.wait.into());
        let conversation = || {
            let mut conversation = meeting::call(meeting, offers, ends.over.into(), wait)?;
            let bytes = ends.size as u64;
            conversation.may_take(path::may_take(&point.link, bytes, UDP_HEADERS));
            Ok(conversation)
        };
        let by = match point.carrier {
            Carrier::Rudp => {
                let talk = Talk::call(meeting, offers, config(point), wait)?;
                By::Library(Box::new(talk))
            }
            Carrier::Study => By::Study(Asking::new(conversation()?)),
            Carrier::Plain(_) => By::Plain(conversation()?, vec![0; ends.size]),
        };
        Ok(Asks {
            by,
            number: 0,
            message: Vec::new(),
            expected: ends.message(),
        })
    }

    /// A message there and back, which `timed` is to call, and only that.
    ///
    /// # Errors
    /// Why there is no answer; `InvalidData` where it is another one.
    fn ask(
        &mut self,
        timed: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.number += 1;
        if let By::Study(asking) = &mut self.by {
            let mut message = Some(self.expected.clone());
            return timed(&mut || asking.ask(message.take().unwrap_or_default()));
        }
        // Answers are told apart by a number, as far as they are long enough for one.
        let length = self.expected.len().min(size_of::<u64>());
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

fn predict(point: &At<Rtt>, known: &Known<'_>) -> Option<Prediction> {
    let udp = udp(&point.link, Messages::from(&point.axes).exchange(), known)?;
    let cost = match point.stack {
        Stack::Udp => udp,
        Stack::Study => {
            let link_ns = |bytes: u64| Some(path::cost(&point.link, bytes, UDP_HEADERS)?.range.0);
            let whole_ns = link_ns(point.size as u64)? - link_ns(study::NUMBER as u64)?;
            let low_ns = udp.range.0 - whole_ns / 2.0;
            udp.named("a round trip of which 8 B come back")
                .at_least(low_ns)
        }
        Stack::Rudp => udp + library(&point.link, point.size, known)?,
    };
    cost.predict("latency")
}
