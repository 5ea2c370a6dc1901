//! `rpc.load`: how long calls take that are made at a rate, whatever was answered.

use super::axes::Argument;
use crate::net::rtt::{Rtt, expected};
use crate::prelude::*;
use crate::two_ends::calls::{broken, connect};
use crate::two_ends::reports::CALLS;
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, ServerRole, Wait, answer, exchange, joined,
    path,
};
use costof_exchange::pattern::open_loop::OpenLoop;
use costof_measure::clock::Clock;
use costof_rpc::InFlight;

pub(crate) static PROBE: Probe = Probe::new::<Load>();

point! {
    /// How long do calls take that are made at a rate, up to saturation?
    ///
    /// The client spins to make calls in time. Latency counts from the intended time (no
    /// coordinated omission), also if the call was made late. Calls share their connections
    /// as streams of HTTP/2. At most 4,096 calls are in flight, with no more than 16 MiB of arguments. Calls that are due
    /// beyond that wait, and the wait counts as latency. Each end has a CPU of its own. The server
    /// sleeps when there is nothing to do, and its CPU is kept awake. Calls are made for 400 ms.
    ///
    /// # Predicted from
    /// a call (net.rtt); below saturation, the server's time for one: evenly spaced calls hardly
    /// wait for each other
    ///
    /// # Sources
    /// - G. Tene, How NOT to Measure Latency, 2013, on coordinated omission
    /// - B. Schroeder, A. Wierman, M. Harchol-Balter, Open Versus Closed: A Cautionary Tale, NSDI
    ///   2006
    /// - gRPC, Benchmarking, on QPS workers with open-loop load
    ///
    /// # Needs
    /// - two CPUs (--cpu)
    pub(crate) struct Load of "rpc.load" {
        /// what carries a call
        over: Over = Over::that(Over::Grpc, |over, _| over == Over::Grpc),
        payload: Argument = Argument::axis(),
        /// calls per second, evenly spaced, made whether or not earlier ones are answered
        rate: u64 =
            count(1..=10_000_000, &[ 1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000, ]),
        /// number of connections, which the calls use in turn; the server has one thread for all of
        /// them
        connections: usize = count(1..=CONNECTIONS_MAX, &[1, 4]),
    }
}

/// Each end has a CPU of its own that is kept awake.
impl Exchanges for Load {
    fn exchange(&self) -> Exchange {
        let (payload, cpus, wake) = (self.payload.kind(), Cpus::Cross, Wake::Awake);
        Exchange { over: self.over, payload, wait: Wait::Block, cpus, wake }
    }

    fn connections(&self) -> usize {
        self.connections
    }

    /// It spins, to make calls in time.
    fn client_blocks(&self) -> bool {
        false
    }
}

impl Measure for Load {
    const METRICS: &'static [Metric] = metrics! {
        /// from the time when the call was due until its answer is unmarshalled
        latency: Nanoseconds Lower,
        /// answers per second, from the first one to the last one; less than the rate where the
        /// server is saturated
        rate: One Higher,
        /// calls in flight when another one is made, on average
        in_flight: One Lower,
        /// the highest number of them
        in_flight_most: One Lower,
        /// time of the client's thread per call: only iterations of its loop that made a call or
        /// received an answer, not those that only polled
        cpu_client: Nanoseconds Lower,
        /// CPU time of the server's thread per call
        cpu_server: Nanoseconds Lower,
        /// the share of calls still unanswered a quarter of a second after the last call
        unanswered: One Lower,
    };
    const AFTER: NameList = &["net.rtt"];
    const CROSSINGS: &'static [NameList] = &[&["over", "rate"]];
    const PROCESSORS: usize = 2;
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    const BUDGET: Option<Budget> = Some(Budget::seconds(45, 90, 0));
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Load>(ServerRole::start(launch, answer)?),
        |launch| role::<Load>(ClientRole::start(launch, measure)?),
    ];

    fn aliases() -> Vec<Alias> {
        Over::was_stack(Load::PROBE)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        LASTS_NS.max(point.exchange().least_ns(&point.link))
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        in_flight_most(point.payload) as u64 * CALL_BYTES + 4 * IN_FLIGHT_BYTES
    }

    headlines! {
        "remote procedure calls: 1,000 a second by gRPC": {},
    }

    /// A call at a rate that does not saturate the server.
    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let alone = Rtt::new(&point.exchange());
        let server_ns = measured.metric_at(&alone, "cpu_server")?;
        let used = server_ns * point.rate as f64 / 1e9;
        if used >= UNSATURATED {
            return None;
        }
        let call = match measured.at_over(&point.link, &alone) {
            // The client waits in the kernel there.
            Some(ns) => Cost::new(ns, "for one call at a time (net.rtt)") * (0.3, 1.3),
            None => expected(&point.link, &point.exchange(), measured)?,
        };
        let name =
            format!("for calls before it at a server that uses {:.0} % of its CPU", 100.0 * used);
        (call + Cost::new((0.0, server_ns / (1.0 - used)), name)).predict("latency")
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        joined(reports)
    }
}

/// How busy a CPU may be if calls are to wait for nothing but short events.
const UNSATURATED: f64 = 0.7;
/// The most connections of a point.
const CONNECTIONS_MAX: u64 = 64;
/// How long calls are made, in nanoseconds.
const LASTS_NS: f64 = 400e6;
/// The most calls in flight: more would measure memory, not a server's queue.
const IN_FLIGHT_MAX: usize = 4096;
/// The most bytes of arguments in flight.
const IN_FLIGHT_BYTES: u64 = 16 << 20;
/// Approximate memory of a call in flight, without its argument.
const CALL_BYTES: u64 = 4096;
/// How long to wait for answers at the end, before the other end is cut off.
const DRAINS: Duration = Duration::from_secs(2);

fn in_flight_most(payload: Argument) -> usize {
    IN_FLIGHT_MAX.min(IN_FLIGHT_BYTES as usize / payload.bytes())
}

/// Makes the calls of a point.
fn measure(
    point: &At<Load>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let exchange = point.exchange();
    let (_awake, sockets) = connect(&exchange, point.connections, connector)?;
    meter.operation_allocates();
    let calls = InFlight::over(sockets, &point.payload.payload());
    let mut calls = Calls {
        calls: calls.map_err(broken)?,
        clock: meter.clock(),
        made: 0,
        most: in_flight_most(point.payload),
    };
    // One call over each connection, and then another one to see how long it takes.
    for _ in 0..=point.connections {
        calls.one()?;
    }
    let first_ns = calls.one()?;
    let lasts_ns = LASTS_NS.max(meter.time_ns()).max(path::lasts_ns(first_ns));
    let load = OpenLoop::new(point.rate, lasts_ns, first_ns);
    let loaded = calls.loaded(load, meter)?;
    let load = &loaded.load;
    ensure!(load.answers > 0, "no call was answered");
    if let Some(rate) = load.rate() {
        meter.value("rate", rate);
    }
    meter.value("in_flight", loaded.mean);
    meter.value("in_flight_most", loaded.most);
    meter.value("cpu_client", loaded.busy_ns / load.answers as f64);
    meter.value("unanswered", load.lost());
    meter.value(CALLS, calls.made as f64);
    connector.keep(calls.calls);
    Ok(())
}

/// Calls to make, and how many have been made.
struct Calls<'a> {
    calls: InFlight,
    clock: &'a dyn Clock,
    made: u64,
    /// The most calls in flight.
    most: usize,
}

/// The result of a load.
struct Loaded {
    load: OpenLoop,
    /// Calls in flight when another one was made: on average, and at most.
    mean: f64,
    most: f64,
    /// How long the thread was not only polling.
    busy_ns: f64,
}

impl Calls<'_> {
    fn begin(&mut self) {
        self.calls.begin();
        self.made += 1;
    }

    /// Whether any answer came; `each` is called with the number of each call, from 0 on.
    fn turn(&mut self, each: &mut dyn FnMut(u64)) -> Result<bool, Failure> {
        let (mut wrong, mut any) = (None, false);
        self.calls.poll(&mut |number, outcome| {
            any = true;
            match outcome {
                Ok(()) => each(number),
                Err(error) => wrong = Some(error),
            }
        });
        match wrong {
            Some(error) => Err(broken(error)),
            None => Ok(any),
        }
    }

    /// How long one call takes while no other is in flight, in nanoseconds.
    fn one(&mut self) -> Result<f64, Failure> {
        let start = self.clock.start();
        self.begin();
        while !self.turn(&mut |_| {})? {}
        Ok(self.clock.ns(self.clock.end().saturating_sub(start)))
    }

    fn loaded(&mut self, mut load: OpenLoop, meter: &mut Meter<'_>) -> Result<Loaded, Failure> {
        let clock = self.clock;
        let start = clock.start();
        let now_ns = || clock.ns(clock.end().saturating_sub(start));
        // Earlier calls have numbers too.
        let before = self.made;
        let (mut sum, mut most, mut busy_ns) = (0.0, 0.0_f64, 0.0);
        let mut now = now_ns();
        while !load.is_over(now) {
            let began = now;
            let is_due = self.calls.count() < self.most && load.due(now).is_some();
            if is_due {
                let in_flight = self.calls.count() as f64;
                sum += in_flight;
                most = most.max(in_flight);
                self.begin();
                load.mark_sent();
            }
            let answered = self.turn(&mut |number| {
                let number = (number + 1).saturating_sub(before);
                if let Some(ns) = load.answered(number, now_ns()) {
                    meter.latency("latency", ns);
                }
            })?;
            now = now_ns();
            if is_due || answered {
                busy_ns += now - began;
            }
        }
        let drains_ns = now + DRAINS.as_nanos() as f64;
        while self.calls.count() > 0 && now_ns() < drains_ns {
            self.turn(&mut |_| {})?;
        }
        let made = (self.made - before).max(1) as f64;
        Ok(Loaded { load, mean: sum / made, most, busy_ns })
    }
}
