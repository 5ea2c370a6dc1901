//! `rpc.first_call`: what the first call of a process takes, beside those that follow.

use super::axes::Argument;
use crate::net::rtt::expected;
use crate::prelude::*;
use crate::two_ends::calls::{broken, start};
use crate::two_ends::exchange::roles::listen;
use crate::two_ends::rendezvous::broken as exchange_broken;
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, Wait, cannot_connect, exchange, path, peers,
};
use costof_exchange::pattern::connect::{
    self as connections, Acceptor, SILENCE_TIMEOUT, Unconnected,
};
use costof_exchange::transport::calls::RpcServer;
use costof_rpc::{Client, Payload, Stack};
use costof_stats::Distribution;
use std::net::TcpStream;

pub(crate) static PROBE: Probe = Probe::new::<FirstCall>();

point! {
    /// How much longer than others does the first call of a process take?
    ///
    /// Each launch measures one point, so both ends are processes that have never called before.
    /// They have greeted each other over another connection, and have made what a process makes
    /// once before it connects: the runtime. The server has acknowledged the client's ports, and waits in
    /// accept(). The client connects, makes one call, and then many more. Then it connects again, several
    /// times. The first call takes longer than the first
    /// call of a later connection, because code and tables are loaded into memory on first use. The rest
    /// belongs to the connection. gRPC does not wait for the other end's settings, which arrive during the
    /// first call. The answer is the argument. A launch has one first call, so a few launches say little
    /// about how much it varies.
    ///
    /// # Predicted from
    /// a predicted call (as net.rtt), and page faults for code that is in the page cache
    /// (os.page_fault)
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 3: gRPC's first calls 4.9 to 14.9 ms, then 0.54 to 2.05;
    ///   Thrift's with an int 221 µs, then 43, 31, 29, 30
    /// - RFC 9113, section 3.4, HTTP/2 connection preface
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct FirstCall of "rpc.first_call" {
        /// what carries a call
        over: Over = Over::that(Over::Grpc, |over, _| matches!(over, Over::Grpc | Over::Thrift)),
        payload: Argument = Argument::axis(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

/// A later call.
impl Exchanges for FirstCall {
    fn exchange(&self) -> Exchange {
        let FirstCall { over, payload, cpus, wake } = *self;
        Exchange { over, payload: payload.kind(), wait: Wait::Block, cpus, wake }
    }
}

impl Measure for FirstCall {
    // 3: the server waits in accept(), and not in poll() before.
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = metrics! {
        /// the first call of both processes, over a new connection
        first: Nanoseconds Lower,
        /// the second call over that connection; the next three follow it without a pause
        second: Nanoseconds Lower,
        /// the third call
        third: Nanoseconds Lower,
        /// the fourth call
        fourth: Nanoseconds Lower,
        /// the fifth call
        fifth: Nanoseconds Lower,
        /// making that connection: connect(), and what the stack sends first without waiting for an
        /// answer
        connection: Nanoseconds Lower,
        /// one of the later calls over it; the twenty calls after the first are not counted
        latency: Nanoseconds Lower,
        /// the first call divided by the median of these later ones
        times_later: One Lower,
        /// a further connection of the same processes, the median of a few
        connection_again: Nanoseconds Lower,
        /// the first call over such a further connection, the median of a few
        first_again: Nanoseconds Lower,
    };
    const AFTER: NameList = &[
        "cpu.frequency",
        "os.syscall",
        "os.context_switch",
        "os.page_fault",
        "net.rtt",
        "rpc.marshal",
    ];
    const CROSSINGS: &'static [NameList] = &[&["over", "payload"]];
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    // A process has one first call.
    const BLOCKS_BY: NameList = &["over", "payload", "cpus", "wake"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(10, 30, 0));
    const ROLES: &'static [StartRole] = &[
        |launch| role::<FirstCall>(ServerRole::start(launch)?),
        |launch| role::<FirstCall>(ClientRole::start(launch, measure)?),
    ];

    fn aliases() -> Vec<Alias> {
        Over::was_stack(FirstCall::PROBE)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        2.0 * point.exchange().least_ns(&point.link)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    // In every run, each would be a block of its own.
    headlines! {
        "first remote procedure call over a connection: gRPC on loopback": {},
    }

    /// A later call, plus cold caches and the page faults of what it touches first.
    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        /// Pages of code, tables and stack that both ends touch for the first time with a call: the
        /// kernel maps what is in the page cache in up to 16 pages at a fault.
        const FAULTS_CALL: (f64, f64) = (20.0, 800.0);
        let fault_ns = measured.primary("os.page_fault", &[("kind", "minor_file")])?;
        let faults =
            Cost::new(fault_ns, "for a page fault of code in the page cache") * FAULTS_CALL;
        let cold = expected(&point.link, &point.exchange(), measured)? * (1.0, 3.0);
        (cold + faults).predict("first")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = leading(reports);
        let mut metrics = report.metrics.iter();
        let later = metrics
            .find(|metric| metric.name == "latency")
            .and_then(|metric| Distribution::new(metric.data.counted()).median());
        if let (Some(first), Some(later)) = (derived::value(&report, "first"), later) {
            derived::add(&mut report, "times_later", first / later);
        }
        derived::on_cpus(point.cpus, report)
    }
}

/// The end that is called.
struct ServerRole {
    acceptor: peers::Acceptor,
    serves: Option<RpcServer>,
}

impl ServerRole {
    fn start(launch: &Launch) -> Result<ServerRole> {
        Ok(ServerRole { acceptor: peers::Acceptor::start(launch)?, serves: None })
    }
}

impl RoleAt<FirstCall> for ServerRole {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<FirstCall>, _: &Offers) -> Result<Offers> {
        let offers = listen(&mut self.acceptor, point)?;
        // On the CPU that this thread has been moved to.
        self.serves = Some(start(stack(point))?);
        Ok(offers)
    }

    fn run(&mut self, _: &At<FirstCall>, meter: &mut Meter<'_>) -> Result {
        let serves = self.serves.take().expect("it is prepared");
        let Some((_awake, mut acceptor)) = self.acceptor.accept_many(meter)? else {
            return Ok(());
        };
        meter.operation_allocates();
        while !meter.is_stopped() {
            let next = next(&mut acceptor).map_err(exchange_broken)?;
            if let Some(stream) = next {
                serves.serve(vec![stream.into()]).map_err(broken)?;
            }
        }
        Ok(())
    }
}

/// The client's next connection; `None` if nobody has connected for a while.
fn next(acceptor: &mut Acceptor) -> io::Result<Option<TcpStream>> {
    let Some(connection) = acceptor.accept_next()? else {
        return Ok(None);
    };
    let stream = TcpStream::from(connection.into_socket());
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_TIMEOUT))?;
    Ok(Some(stream))
}

/// The calls after the first that are recorded one by one.
const NEXT_CALLS: [&str; 4] = ["second", "third", "fourth", "fifth"];
/// Calls after the first that do not count as later ones.
const WARM_UP: usize = 20;
/// Further connections, at most.
const MAX_FURTHER_CONNECTIONS: u64 = 50;

fn measure(point: &At<FirstCall>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    let (_awake, mut connector) = connector.connect_many()?;
    meter.operation_allocates();
    let mut requests = Requests::new(point)?;
    let first_ns = once(&mut requests, &mut connector, ("connection", "first"), meter)?;
    for metric in NEXT_CALLS {
        one_call(&mut requests, metric, meter)?;
    }
    for _ in NEXT_CALLS.len()..WARM_UP {
        requests.request()?;
    }
    let mut slow = meter.lasting(path::lasts_ns(first_ns));
    slow.share(2).repeat(u64::MAX, |meter| meter.time("latency", || requests.request()))?;
    slow.share(2).repeat(MAX_FURTHER_CONNECTIONS, |meter| {
        requests.client.disconnect();
        once(&mut requests, &mut connector, ("connection_again", "first_again"), meter).map(drop)
    })
}

/// Connects and makes one call, each recorded under its metric. Returns the duration of the call,
/// in nanoseconds.
fn once(
    requests: &mut Requests,
    connector: &mut connections::Connector,
    (connection, first): (&'static str, &'static str),
    meter: &mut Meter<'_>,
) -> Result<f64> {
    let socket = connector.open().map_err(cannot_connect)?;
    let mut connected = Ok(());
    meter.first(connection, || connected = requests.connect(socket));
    connected?;
    let start = Instant::now();
    one_call(requests, first, meter)?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// Makes one call, recorded under this metric.
fn one_call(requests: &mut Requests, metric: &'static str, meter: &mut Meter<'_>) -> Result {
    let mut answered = Ok(());
    meter.first(metric, || answered = requests.request());
    answered
}

/// What the client calls, and with which argument.
struct Requests {
    client: Box<dyn Client>,
    payload: Payload,
}

impl Requests {
    fn new(point: &FirstCall) -> Result<Requests> {
        let client = costof_rpc::client(stack(point), None).map_err(broken)?;
        Ok(Requests { client, payload: point.payload.payload() })
    }

    fn connect(&mut self, socket: Unconnected) -> Result {
        let connection = socket.connect().map_err(exchange_broken)?;
        self.client.over(TcpStream::from(connection.into_socket()).into()).map_err(broken)
    }

    fn request(&mut self) -> Result {
        self.client.call(&self.payload).map_err(broken)
    }
}

fn stack(point: &FirstCall) -> Stack {
    point.over.stack().expect("the axis has only what carries calls")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;
    use costof_model::metric::{Data, Measured};

    #[test]
    fn the_first_call_is_compared_with_the_median_of_later_ones() {
        let later = Data::Histogram(vec![(30.0, 3), (90.0, 1)]);
        let mut client = report(vec![Measured::new("latency".into(), later)]);
        derived::add(&mut client, "first", 240.0);
        let (axes, link) = (FirstCall::default(), "loopback".into());
        let derived = FirstCall::derive(&At { axes, link }, vec![report(Vec::new()), client]);
        assert_eq!(derived::value(&derived, "times_later"), Some(8.0));
    }
}
