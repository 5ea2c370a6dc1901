//! The two ends: one sends messages, the other takes them in, and answers them where it is to.

use super::{
    LEFT, LEFT_COST, Pattern, check, control, in_flight, is_joined, is_segmented, over, pattern,
    primitive, shape, threads,
};
use crate::arenas;
use crate::net::both_ends::{ARRIVED, DROPPED, SENT};
use crate::net::congestion_control::refused;
use crate::net::flows::{Processors, each};
use crate::net::meeting::{self, broken, cannot_reach};
use crate::net::soft_interrupts::{COUNTED, SoftInterrupts, left_to_count, listed};
use crate::net::windows::{self, KIB};
use costof_measure::facts;
use costof_measure::meter::Meter;
use costof_measure::probe::Role;
use costof_model::facts::CacheKind;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{ClockSource, Launch, Meeting, Offers};
use costof_os::arena::PageSize;
use costof_os::delivery::{self, Counts, Receiver, Sender, Shape};
use costof_os::fields::Messages;
use costof_os::meeting::{Address, Listener, Over};
use costof_os::perf::Event;
use costof_os::segments;
use costof_os::sink::Acknowledger;
use costof_os::victim::Victim;
use fastrand::Rng;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

/// How long a round of a point lasts at least, where no more threads send than two processors can
/// have at once with those that receive.
const LEAST: Duration = Duration::from_millis(50);
/// Where a round may take as long as that or longer, a stream to a receiver takes so many times as
/// long: the first tenths of a second of a connection may be slower than what follows. On a virtual
/// machine with two processors iperf3 had 1 to 2.5 GB/s then, and 4 to 6 from half a second on.
const STRETCH: u32 = 6;
/// In round trips: slow start takes ten to fill 16 MiB from ten segments.
const ROUND_TRIPS: u32 = 40;
/// And at most.
const MOST: Duration = Duration::from_secs(10);
/// How long nothing is sent before it is looked when a message's bytes could be changed.
const IDLE: Duration = Duration::from_micros(500);
/// How often it is looked when a message's bytes could be changed: the median counts. Of large ones,
/// which take long, it is looked less often.
const REUSES: u64 = 9;
const REUSES_OF_LARGE: u64 = 3;
const LARGE_BYTES: u64 = 1 << 20;

fn reuses(point: &Point) -> u64 {
    match point.axes.number("size") > LARGE_BYTES {
        true => REUSES_OF_LARGE,
        false => REUSES,
    }
}

/// The caches whose pollution is looked at, and its metrics.
const LEVELS: [(u32, &str); 3] = [
    (1, "pollution_l1"),
    (2, "pollution_l2"),
    (3, "pollution_l3"),
];
/// How many bursts are kept at most, of those that the receiver asks for.
const BURSTS_MOST: usize = 1 << 20;
/// How much is sent between two readings of an array that has filled a cache.
const POLLUTING_BYTES: u64 = 1 << 20;
const POLLUTING_MOST: u64 = 16;

/// How long where the other end answers or asks: on a busy machine few are, and percentiles want many.
const LEAST_ECHO: Duration = Duration::from_millis(200);

/// How long is sent in a round at least: threads that take turns on a processor have several.
fn least(point: &Point) -> Duration {
    let turns = (threads(point) as u32).div_ceil(2);
    match pattern(point) {
        Pattern::Stream => LEAST * turns,
        Pattern::Echo | Pattern::Trigger => LEAST_ECHO.max(LEAST * turns),
    }
}

/// What finding each other, looking at single messages and ending takes in a round, about.
const SET_UP_NS: f64 = 20e6;
/// How many messages a round has at least, about, and how many bytes of large ones a nanosecond.
const MESSAGES: f64 = 24.0;
const BYTES_PER_NS: f64 = 2.0;

/// How long a round takes at least.
pub(super) fn least_ns(point: &Point) -> f64 {
    let messages_ns = MESSAGES * point.axes.number("size") as f64 / BYTES_PER_NS;
    SET_UP_NS + messages_ns.max(least(point).as_nanos() as f64)
}

/// How many messages that is.
fn polluting(point: &Point) -> u64 {
    (POLLUTING_BYTES / point.axes.number("size")).clamp(1, POLLUTING_MOST)
}

/// How many single messages the first connection has before its stream, at most.
fn singles(point: &Point) -> u64 {
    reuses(point) + LEVELS.len() as u64 * polluting(point)
}

/// What messages of points must have in common that are laid out once.
#[derive(Clone, PartialEq)]
struct Laid {
    shape: Shape,
    fields: u64,
    pages: String,
    threads: usize,
}

impl Laid {
    fn of(point: &Point) -> Laid {
        Laid {
            shape: shape(point),
            fields: point.axes.number("fields"),
            pages: point.axes.word("pages").to_owned(),
            threads: threads(point),
        }
    }
}

/// Whether a point comes for the first time in a launch, from which on it has been seen.
fn is_first(seen: &mut Vec<Point>, point: &Point) -> bool {
    let is_first = !seen.contains(point);
    if is_first {
        seen.push(point.clone());
    }
    is_first
}

/// The messages of each thread of a point.
fn messages(point: &Point, random: &mut Rng) -> Result<Vec<Messages>, Failure> {
    let shape = shape(point);
    let fields = point.axes.number("fields") as usize;
    let pages = point.axes.word("pages");
    let page_size = match pages {
        "2MiB" => PageSize::Huge,
        _ => PageSize::Base,
    };
    let shuffle = &mut |order: &mut [usize]| random.shuffle(order);
    (0..threads(point))
        .map(|_| {
            let shape = (shape.count, shape.size, fields);
            let messages = Messages::new(shape, page_size, shuffle).map_err(|error| {
                arenas::failed("fill", super::memory_bytes(point), pages, &error)
            })?;
            arenas::check(messages.arena(), pages, arenas::MOSTLY)?;
            Ok(messages)
        })
        .collect()
}

/// Takes in what comes, and says how much that was.
pub(super) struct Receiving {
    meeting: Meeting,
    cpus: Processors,
    random: Rng,
    listener: Option<Listener>,
    answers: Vec<Option<Messages>>,
    /// None where people send by hand.
    singles: bool,
    /// Which points have had their single messages.
    seen: Vec<Point>,
    /// What has arrived at the last point, in bytes, even where that failed.
    pub(super) arrived_bytes: u64,
}

impl Receiving {
    pub(super) fn start(launch: &Launch) -> Result<Receiving, Failure> {
        let meeting = meeting::place(launch)?;
        Ok(Receiving {
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            random: Rng::with_seed(launch.seed),
            listener: None,
            answers: Vec::new(),
            singles: true,
            seen: Vec::new(),
            arrived_bytes: 0,
        })
    }

    /// The receiving end where people send by hand: all that comes is what they asked for.
    pub(super) fn by_hand(launch: &Launch) -> Result<Receiving, Failure> {
        Ok(Receiving {
            singles: false,
            ..Receiving::start(launch)?
        })
    }
}

impl Role for Receiving {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        self.listener = None;
        if self.meeting.sink.is_some() {
            return Ok(Offers::new());
        }
        self.answers = match pattern(point) == Pattern::Echo {
            true => messages(point, &mut self.random)?
                .into_iter()
                .map(Some)
                .collect(),
            false => (0..threads(point)).map(|_| None).collect(),
        };
        let (listener, mut offers) =
            meeting::listen(point, &self.meeting, over(point), threads(point))?;
        if let Some(control) = control(point).filter(|_| pattern(point) == Pattern::Echo) {
            let chosen = listener.set_congestion_control(control);
            chosen.map_err(|error| refused(point, &error).unwrap_or_else(|| broken(&error)))?;
        }
        self.listener = Some(listener);
        offers.insert(COUNTED.into(), listed(&self.cpus.used(threads(point))));
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            // In a sink nothing arrives.
            meter.until_stopped(|| sleep(Duration::from_millis(1)));
            return Ok(());
        };
        let stop = meter.stop();
        let accepted = match is_segmented(point) {
            true => delivery::accept_segmented(&listener, shape(point), stop),
            false => delivery::accept(&listener, shape(point), stop),
        };
        let accepted = accepted.map_or_else(
            |error| match error.kind() {
                ErrorKind::Unsupported => Err(Failure::unsupported(error.to_string())),
                _ => meeting::met(Err(error)),
            },
            |flows| Ok(Some(flows)),
        );
        let Some(mut flows) = accepted? else {
            return Ok(());
        };
        if self.singles && pattern(point) == Pattern::Stream && is_first(&mut self.seen, point) {
            flows[0].mark_after(singles(point));
        }
        let primitive = primitive(point)?;
        let used = self.cpus.used(flows.len());
        let interrupts = SoftInterrupts::watch(used.into_iter().collect());
        let mut flows: Vec<_> = flows.into_iter().zip(self.answers.drain(..)).collect();
        let received = each(&mut flows, &self.cpus, |(flow, answers)| {
            let mut bursts = Vec::new();
            match (answers.take(), pattern(point)) {
                (Some(answers), _) => flow.answer(primitive, answers, stop)?,
                (None, Pattern::Trigger) => {
                    bursts.reserve_exact(BURSTS_MOST);
                    flow.ask(in_flight(point), stop, &mut |asked_ns, took_ns| {
                        if bursts.len() < bursts.capacity() {
                            bursts.push((asked_ns as f64, took_ns as f64));
                        }
                    })?;
                }
                (None, _) => flow.receive(stop)?,
            }
            Ok(bursts)
        });
        let flows: Vec<Receiver> = flows.into_iter().map(|(flow, _)| flow).collect();
        self.arrived_bytes = flows.iter().map(Receiver::bytes).sum();
        let bursts = received.map_err(|error| failed(point, &error))?;
        if !flows.iter().all(Receiver::last_piece_is_right) {
            return Err(Failure::error("other bytes arrived than were sent"));
        }
        let marks: Vec<_> = flows.iter().map(Receiver::marks).collect();
        match windows::settled(&marks) {
            Some(settled) => {
                meter.value("throughput", windows::throughput(&marks, settled));
                for (asked_ns, took_ns) in bursts.into_iter().flatten() {
                    if asked_ns >= settled.0 {
                        meter.latency("latency", took_ns);
                    }
                }
                for (kib, ns) in windows::windows(&marks, settled) {
                    meter.batch_done("cost", kib, ns);
                }
                let used = windows::used(&marks, settled);
                meter.value("cpu_receiver", used.cpu_ns_per_kib);
                meter.value("receiver_running", used.running);
            }
            None if self.singles => {
                return Err(Failure::error("too little arrived to say how fast"));
            }
            // Of a few messages that people send, the sender knows how long they took.
            None => {}
        }
        interrupts.report(flows.iter().map(Receiver::bytes).sum(), meter);
        if over(point) == Over::Udp {
            let arrived: u64 = flows.iter().map(Receiver::datagrams).sum();
            meter.value(ARRIVED, arrived as f64);
            // Of several that come at once, the socket counts one.
            if !is_segmented(point) {
                let dropped = flows.iter().map(Receiver::dropped).sum::<io::Result<u64>>();
                let dropped = dropped.map_err(|error| failed(point, &error))?;
                meter.value(DROPPED, dropped as f64);
            }
        }
        meter.allocated(flows.iter().map(Receiver::allocations).sum());
        Ok(())
    }
}

/// Sends as fast as it can, or as answers come.
pub(super) struct Sending {
    meeting: Meeting,
    cpus: Processors,
    all_cpus: Vec<usize>,
    partners: Vec<usize>,
    /// Of the counter that cycles are counted by, where it is the processor's own.
    reference_hz: Option<f64>,
    random: Rng,
    offers: Offers,
    /// Laid out, and for messages of which shape: those of earlier points are sent on.
    messages: Option<(Laid, Vec<Messages>)>,
    /// Which points have had their single messages.
    seen: Vec<Point>,
    /// An array for each level of caches, and its metric.
    victims: Vec<(&'static str, Victim)>,
    /// Where people send by hand, when that ends.
    ending: Option<Ending>,
    /// Messages that were sent at the last point, even where that failed.
    pub(super) sent: u64,
}

/// When sending by hand ends: by the first of these.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) duration: Duration,
    /// Messages of each connection.
    pub(super) messages: u64,
    pub(super) stop: Arc<AtomicBool>,
}

impl Sending {
    pub(super) fn start(launch: &Launch) -> Result<Sending, Failure> {
        let victims = victims(launch.cpus.first().copied().unwrap_or(0));
        Sending::of(launch, victims, None)
    }

    /// The sending end where people send by hand: nothing but what they asked for.
    pub(super) fn by_hand(launch: &Launch, ending: Ending) -> Result<Sending, Failure> {
        Sending::of(launch, Vec::new(), Some(ending))
    }

    fn of(
        launch: &Launch,
        victims: Vec<(&'static str, Victim)>,
        ending: Option<Ending>,
    ) -> Result<Sending, Failure> {
        let meeting = meeting::place(launch)?;
        let is_cycles = launch.clock.source == ClockSource::Counter && cfg!(target_arch = "x86_64");
        Ok(Sending {
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            all_cpus: launch.cpus.clone(),
            partners: launch.partners.clone(),
            reference_hz: is_cycles.then_some(launch.clock.hz),
            random: Rng::with_seed(launch.seed),
            offers: Offers::new(),
            messages: None,
            seen: Vec::new(),
            victims,
            ending,
            sent: 0,
        })
    }

    /// The thread that acknowledges what is sent into a sink, on a processor that no sender uses
    /// where there is one.
    fn acknowledger(&self, point: &Point) -> Result<Acknowledger, Failure> {
        let used = self.cpus.used(threads(point));
        let all = self.all_cpus.iter().chain(&self.partners).copied();
        let free: Vec<usize> = all.filter(|cpu| !used.contains(cpu)).collect();
        Acknowledger::start(&free).map_err(|error| {
            Failure::unsupported(format!(
                "nothing can acknowledge what is sent into this sink over TCP: {error} (it needs a \
                 network namespace with veth; --set over=udp)"
            ))
        })
    }

    fn reached(&self, point: &Point, error: &io::Error) -> Failure {
        refused(point, error).unwrap_or_else(|| match error.kind() {
            ErrorKind::Unsupported => Failure::unsupported(error.to_string()),
            _ => cannot_reach(&self.meeting.address, error),
        })
    }

    /// Has messages go as several datagrams where they are to.
    fn segment(&self, point: &Point, flows: &mut [Sender]) -> Result<(), Failure> {
        if is_segmented(point) {
            let segmented = flows.iter_mut().try_for_each(Sender::segment);
            segmented.map_err(|error| self.reached(point, &error))?;
        }
        Ok(())
    }

    /// Has the end of a message wait for the next one where it is to: not of single messages, behind
    /// which nothing comes.
    fn join(point: &Point, flows: &mut [Sender]) -> Result<(), Failure> {
        if is_joined(point) {
            let joined = flows.iter_mut().try_for_each(Sender::join_small);
            joined.map_err(|error| failed(point, &error))?;
        }
        Ok(())
    }

    /// How long to send, where a point is to be measured for so long.
    fn asked(&self, point: &Point, time_ns: f64) -> Duration {
        let asked = Duration::from_nanos(time_ns as u64);
        let gets_going = pattern(point) == Pattern::Stream && self.meeting.sink.is_none();
        match gets_going && asked >= LEAST {
            true => STRETCH * asked,
            false => asked,
        }
    }

    /// Sends through these flows, and adds what that was.
    fn send(
        &self,
        point: &Point,
        flows: &mut [Sender],
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let round_trip = flows.iter().map(Sender::round_trip).max();
        let duration = match &self.ending {
            Some(ending) => ending.duration,
            None => duration(
                self.asked(point, meter.time_ns()),
                least(point),
                round_trip.unwrap_or_default(),
            ),
        };
        if let Some(ending) = &self.ending {
            for flow in &mut *flows {
                flow.end_by(ending.messages, Arc::clone(&ending.stop));
            }
        }
        let in_sink = self.meeting.sink.is_some();
        let used = self.cpus.used(flows.len());
        let interrupts = match in_sink {
            true => Some(used.into_iter().collect()),
            false => left_to_count(used, &self.offers, self.meeting.apart),
        };
        let interrupts = interrupts.map(SoftInterrupts::watch);
        let latencies = each(flows, &self.cpus, |flow| {
            let mut latencies = Vec::new();
            match pattern(point) {
                Pattern::Echo => {
                    // Room for as many as there can be, so that none is allocated meanwhile.
                    let most = self.ending.as_ref().map_or(u64::MAX, |end| end.messages);
                    let most = (duration.as_micros() * 2).min(most.into()).min(4 << 20);
                    latencies.reserve_exact(most as usize);
                    flow.echo(duration, in_flight(point) as usize, &mut |ns| {
                        if latencies.len() < latencies.capacity() {
                            latencies.push(ns);
                        }
                    })?;
                }
                Pattern::Trigger => flow.trigger(duration, in_flight(point))?,
                Pattern::Stream => flow.stream(duration)?,
            }
            Ok(latencies)
        })
        .map_err(|error| failed(point, &error))?;
        for ns in latencies.into_iter().flatten() {
            meter.latency("latency", ns as f64);
        }
        let marks: Vec<_> = flows.iter().map(Sender::marks).collect();
        let by_hand = || windows::whole(&marks).filter(|_| self.ending.is_some());
        let settled = windows::settled(&marks)
            .or_else(by_hand)
            .ok_or_else(|| Failure::error("too little could be sent to say how fast"))?;
        let used = windows::used(&marks, settled);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
        let bytes: u64 = marks.iter().map(|marks| windows::bytes(marks)).sum();
        let counted = counted(flows, Event::Cycles).filter(|_| bytes > 0);
        let reference = || Some(used.cpu_ns_per_kib / KIB * self.reference_hz? / 1e9);
        let cycles = counted.map(|cycles| cycles as f64 / bytes as f64);
        if let Some(cycles) = cycles.or_else(reference) {
            meter.value("cycles_per_byte", cycles);
            meter.value("cycles_by_pmu", f64::from(u8::from(counted.is_some())));
        }
        if in_sink || self.ending.is_some() {
            meter.value(LEFT, windows::throughput(&marks, settled));
            for (kib, ns) in windows::windows(&marks, settled) {
                meter.batch_done(LEFT_COST, kib, ns);
            }
        }
        if let Some(interrupts) = interrupts {
            interrupts.report(bytes, meter);
        }
        Self::count_calls(flows, meter);
        meter.allocated(match point.axes.word("allocate") {
            // It is what is measured.
            "per_message" => 0,
            _ => flows.iter().map(Sender::allocations).sum(),
        });
        Ok(())
    }

    /// What is seen at single messages, of one flow and where nothing else is under way. They come
    /// before all others: pauses behind a stream would count as a part of it where it arrives.
    fn singles(
        &self,
        point: &Point,
        flow: &mut Sender,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let idle = IDLE + 2 * flow.round_trip();
        for _ in 0..reuses(point) {
            // What was sent before leaves the socket.
            sleep(idle);
            let ns = flow.reusable_after_ns();
            let ns = ns.map_err(|error| failed(point, &error))?;
            meter.value("reusable", ns as f64);
        }
        let messages = polluting(point);
        for &(metric, ref victim) in &self.victims {
            sleep(idle);
            let ns = flow.pollution_ns(victim, messages as u32);
            let ns = ns.map_err(|error| failed(point, &error))?;
            meter.value(metric, ns);
        }
        Ok(())
    }

    /// What sending took all flows together, before anything was waited for.
    fn count_calls(flows: &[Sender], meter: &mut Meter<'_>) {
        let counts: Vec<_> = flows.iter().map(Sender::sent).collect();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        let messages = sum(|counts| counts.messages).max(1.0);
        meter.value("system_calls", sum(|counts| counts.system_calls) / messages);
        let used = flows.iter().map(|flow| flow.counted().usage);
        let switches = used.map(|used| used.voluntary_switches + used.involuntary_switches);
        meter.value("context_switches", switches.sum::<u64>() as f64 / messages);
        let migrations = flows.iter().map(|flow| flow.counted().migrations);
        if let Some(migrations) = migrations.sum::<Option<u64>>() {
            meter.value("migrations", migrations as f64);
        }
        for (event, metric) in [
            (Event::L1dLoadMisses, "l1d_load_misses"),
            (Event::L2LoadMisses, "l2_load_misses"),
            (Event::LlcLoadMisses, "llc_load_misses"),
            (Event::DtlbLoadMisses, "dtlb_load_misses"),
        ] {
            if let Some(count) = counted(flows, event) {
                meter.value(metric, count as f64 / messages);
            }
        }
    }

    /// What became of it all, once the kernel is done with it.
    fn count(point: &Point, flows: &[Sender], meter: &mut Meter<'_>) -> Result<(), Failure> {
        let counts: Vec<_> = flows.iter().map(Sender::counts).collect();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        let messages = sum(|counts| counts.messages).max(1.0);
        if over(point) == Over::Udp {
            let refused: u64 = flows.iter().map(Sender::refused).sum();
            let each = match is_segmented(point) {
                true => segments::count(point.axes.number("size") as usize),
                false => 1,
            };
            meter.value(SENT, (messages + refused as f64) * each as f64);
        }
        if over(point) == Over::Udp && pattern(point) == Pattern::Echo {
            let asked: u64 = flows.iter().map(|flow| flow.unanswered().0).sum();
            let unanswered: u64 = flows.iter().map(|flow| flow.unanswered().1).sum();
            meter.value("unanswered", unanswered as f64 / asked.max(1) as f64);
        }
        let completed = sum(|counts| counts.completed);
        if completed > 0.0 {
            meter.value("asked", completed);
            meter.value("copied", sum(|counts| counts.copied) / completed);
        }
        // Said of every send that would ask: where there was room for none, nothing is completed.
        if point.axes.word("primitive").ends_with("zero_copy") {
            meter.value("fallbacks", sum(|counts| counts.fallbacks) / messages);
        }
        let infos = flows.iter().map(Sender::tcp_info);
        let infos = infos
            .collect::<io::Result<Option<Vec<_>>>>()
            .map_err(|error| failed(point, &error))?
            .unwrap_or_default();
        let sent: u64 = infos.iter().map(|info| info.sent_bytes).sum();
        let again: u64 = infos.iter().map(|info| info.sent_again_bytes).sum();
        if sent > 0 {
            meter.value("retransmissions", again as f64 / sent as f64);
        }
        Ok(())
    }
}

impl Role for Sending {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        if self.meeting.sink.is_some() && over(point) == Over::Unix {
            return Err(Failure::unsupported(
                "a Unix socket does not lead to a sink (--link loopback)",
            ));
        }
        let laid = Laid::of(point);
        if self.messages.as_ref().is_none_or(|(has, _)| *has != laid) {
            // What an earlier point has used is given back first.
            self.messages = None;
            self.messages = Some((laid, messages(point, &mut self.random)?));
        }
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (laid, messages) = self.messages.take().expect("a point is prepared");
        let primitive = primitive(point)?;
        let is_first = is_first(&mut self.seen, point);
        let (over, control) = (over(point), control(point));
        if let Some(sink) = self.meeting.sink {
            let acknowledger = match over {
                Over::Tcp => Some(self.acknowledger(point)?),
                Over::Udp | Over::Unix => None,
            };
            let ends = (self.meeting.address, sink);
            let acknowledged = acknowledger.as_ref();
            let mut flows =
                delivery::into_sink(over, ends, acknowledged, control, primitive, messages)
                    .map_err(|error| self.reached(point, &error))?;
            self.segment(point, &mut flows)?;
            if is_first {
                self.singles(point, &mut flows[0], meter)?;
            }
            Self::join(point, &mut flows)?;
            self.send(point, &mut flows, meter)?;
            each(&mut flows, &self.cpus, Sender::end_in_sink)
                .map_err(|error| failed(point, &error))?;
            Self::count(point, &flows, meter)?;
            // Nobody there looks which message it is: the next point goes on with those that were not
            // sent for longest, so that cold ones are.
            let messages = flows.into_iter().map(Sender::into_messages);
            self.messages = Some((laid, messages.collect()));
            return Ok(());
        }
        let address: Address = meeting::offered(&self.offers)?;
        let token = self.meeting.token.as_bytes();
        let mut flows = delivery::call(over, &address, control, token, primitive, messages)
            .map_err(|error| self.reached(point, &error))?;
        self.segment(point, &mut flows)?;
        if self.ending.is_none() && pattern(point) == Pattern::Stream && is_first {
            self.singles(point, &mut flows[0], meter)?;
        }
        Self::join(point, &mut flows)?;
        let sent = self.send(point, &mut flows, meter);
        self.sent = flows.iter().map(|flow| flow.counts().messages).sum();
        sent?;
        each(&mut flows, &self.cpus, Sender::end).map_err(|error| failed(point, &error))?;
        Self::count(point, &flows, meter)
    }
}

/// An array of three quarters of each cache that the processor claims; none where it claims none.
fn victims(cpu: usize) -> Vec<(&'static str, Victim)> {
    let caches = facts::caches_of(cpu as u32);
    let of_level = |(level, metric)| {
        let data = caches
            .iter()
            .find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?;
        let victim = Victim::new(data.size_bytes as usize / 4 * 3).ok()?;
        Some((metric, victim))
    };
    LEVELS.into_iter().filter_map(of_level).collect()
}

/// What the processor counted of all sending threads; none where one of them was not counted.
fn counted(flows: &[Sender], event: Event) -> Option<u64> {
    flows.iter().map(|flow| flow.counted().count(event)).sum()
}

/// A failure while messages go.
fn failed(point: &Point, error: &io::Error) -> Failure {
    match error.raw_os_error() {
        // EIO
        Some(5) if is_segmented(point) => Failure::unsupported(
            "the device computes no checksums, without which it cuts up no message (ethtool -K \
             DEVICE tx on, or --set over=udp)",
        ),
        // EMSGSIZE
        Some(90) => Failure::unsupported(
            "a packet holds 17 pieces of memory at most, and the fields of one datagram lie on more \
             (--set pages=2MiB, fewer fields, or a smaller size)",
        ),
        // EOPNOTSUPP
        Some(95) => Failure::unsupported(
            "this kind of socket has no such way of sending (--set over=tcp, or another primitive)",
        ),
        _ => broken(error),
    }
}

/// How long to send, where so much is asked for.
fn duration(asked: Duration, least: Duration, round_trip: Duration) -> Duration {
    asked.max(least).max(ROUND_TRIPS * round_trip).min(MOST)
}
