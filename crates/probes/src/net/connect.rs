//! `net.connect`: setting up a TCP connection and tearing it down.

use crate::prelude::*;
use crate::rpc::axes::Kind;
use crate::two_ends::path::{self, TCP_HEADERS};
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, ServerRole, Wait, broken, cannot_connect,
    exchange, is_slow, joined, peers,
};
use costof_exchange::pattern::connect::{self as connections, Acceptor, Connection};
use costof_measure::clock::Clock;

pub(crate) static PROBE: Probe = Probe::new::<Connect>();

point! {
    /// How long does it take to set up a TCP connection and to tear it down?
    ///
    /// Connections come in threes. The client connects and closes; then it connects again and tears
    /// that connection down with shutdown(), recv() and close(), so that the server is done with
    /// both; and it does that once more. The first connect() of the three, its close(), and the
    /// second's whole tear-down are stamped at the client; socket() is not. The server waits in
    /// accept(), reads until the client is done, and closes. Where both ends share a CPU, all that
    /// it does until it waits again may lie inside the client's call. So it stamps only the third
    /// connection's accept(), for which it waits in poll(), and close(). No byte is sent. Both ends
    /// send FIN, and the client's ports stay in TIME-WAIT for a minute. SO_LINGER of 0 would avoid
    /// that, but by a reset, which is another way to end a connection. So a port has at most 4,000
    /// connections, and each launch listens on another port. The client has bound its socket to a
    /// port that the server expects, so that the server can refuse strangers. So connect() chooses
    /// no port. On loopback, it includes what both ends' kernels do for three packets, and waking
    /// the server.
    ///
    /// # Predicted from
    /// a spinning TCP round trip (net.rtt), waking the server (os.context_switch), and one round
    /// trip of the link's delays
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: set-up 9.5 µs and tear-down 7.7 µs on loopback,
    ///   762 and 6.7 µs remote
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_connect
    /// - RFC 9293, section 3.6; connect(2), accept(2), shutdown(2)
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct Connect of "net.connect" {
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

/// A connection over which nothing is sent.
impl Exchanges for Connect {
    fn exchange(&self) -> Exchange {
        let Connect { cpus, wake } = *self;
        Exchange { over: Over::Tcp, payload: Kind::String(0), wait: Wait::Block, cpus, wake }
    }
}

impl Measure for Connect {
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = metrics! {
        /// the client's connect(): until the handshake is complete
        latency: Nanoseconds Lower,
        /// the client's close() of a new connection, which sends FIN and returns
        close: Nanoseconds Lower,
        /// the client's shutdown() of a new connection, recv() until the server has closed too, and
        /// close()
        tear_down: Nanoseconds Lower,
        /// the server's accept() of a connection that is ready, whoever shares its core; includes
        /// connections of the warm-up, which the server cannot distinguish
        accept: Nanoseconds Lower,
        /// the server's close(), after the client's FIN, whoever shares its core; includes
        /// connections of the warm-up
        server_close: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch", "net.rtt"];
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Connect>(ServerRole::start(launch, serve)?),
        |launch| role::<Connect>(ClientRole::start(launch, measure)?),
    ];

    fn least_ns(point: &At<Self>) -> f64 {
        point.exchange().least_ns(&point.link)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    headlines! {
        "TCP connection on loopback: set up": {},
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let spinning = [("over", "tcp"), ("wait", "spin"), ("size", "56"), ("rate", "0")];
        let rtt_ns = measured.primary_over("loopback", "net.rtt", &spinning)?;
        let packets = Cost::new(rtt_ns, "for a spinning round trip") * (1.4, 3.2);
        let packets =
            packets.named("three packets instead of two, and creating the server's socket");
        let wakes = context_switch::measured_cost(point.cpus, point.wake, measured)? * (0.0, 0.5);
        (packets + wakes + path::cost(&point.link, 0, TCP_HEADERS)?).predict("latency")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::on_cpus(point.cpus, joined(reports))
    }
}

fn serve(_: &At<Connect>, acceptor: &mut peers::Acceptor, meter: &mut Meter<'_>) -> Result {
    let Some((_awake, mut acceptor)) = acceptor.accept_many(meter)? else {
        return Ok(());
    };
    let mut served = Served::new(meter.clock());
    while !meter.is_stopped() {
        served.next(&mut acceptor).map_err(broken)?;
    }
    for [accept_ns, close_ns] in served.stamped {
        meter.latency("accept", accept_ns);
        meter.latency("server_close", close_ns);
    }
    Ok(())
}

/// Connections of which the client stamps its calls, before one of which the server does.
const CLIENTS: u64 = 2;
/// Connections of a round.
const ROUND: u64 = CLIENTS + 1;

/// What the server has done so far.
struct Served<'a> {
    clock: &'a dyn Clock,
    /// The client's connections.
    count: u64,
    /// How long accept() and close() took, in nanoseconds. Recorded when all are done: on a shared CPU,
    /// the client would wait meanwhile.
    stamped: Vec<[f64; 2]>,
}

impl Served<'_> {
    fn new(clock: &dyn Clock) -> Served<'_> {
        Served { clock, count: 0, stamped: Vec::with_capacity((CONNECTIONS_MAX / ROUND) as usize) }
    }

    /// Serves the client's next connection, if one comes soon.
    fn next(&mut self, acceptor: &mut Acceptor) -> io::Result<()> {
        if self.count % ROUND < CLIENTS {
            if let Some(connection) = acceptor.accept_next()? {
                self.count += 1;
                connection.wait_for_fin()?;
                connection.close();
            }
        } else if acceptor.wait()? {
            let (accepted, accept_ns) = self.timed(|| acceptor.accept());
            if let Some(connection) = acceptor.from_client(accepted)? {
                self.count += 1;
                connection.wait_for_fin()?;
                let ((), close_ns) = self.timed(|| connection.close());
                self.stamped.push([accept_ns, close_ns]);
            }
        }
        Ok(())
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> (T, f64) {
        let start = self.clock.start();
        let result = call();
        let end = self.clock.end();
        (result, self.clock.ns(end.saturating_sub(start)))
    }
}

/// Few enough connections to one port that ports do not run out.
const CONNECTIONS_MAX: u64 = 4_000;
/// Rounds of the warm-up.
const WARM_UP: u64 = 10;
/// One more connection is for the token, and one more round to see how long it takes.
const ROUNDS_MAX: u64 = (CONNECTIONS_MAX - 1) / ROUND - 1 - WARM_UP;

fn measure(_: &At<Connect>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    let (_awake, mut connector) = connector.connect_many()?;
    connect(&mut connector)?.close();
    let start = Instant::now();
    connect_and_tear_down(&mut connector)?;
    let first_ns = start.elapsed().as_nanos() as f64;
    connect_and_tear_down(&mut connector)?;
    if !is_slow(first_ns, meter) {
        for _ in 0..WARM_UP {
            connect(&mut connector)?.close();
            connect_and_tear_down(&mut connector)?;
            connect_and_tear_down(&mut connector)?;
        }
    }
    // Over a slow link, a connection takes a round trip to set up and one to tear down.
    let mut meter = meter.lasting(path::lasts_ns(first_ns / 2.0));
    meter.repeat(ROUNDS_MAX, |meter| round(&mut connector, meter))
}

/// Three connections: one is closed, the others torn down until both ends are done.
fn round(connector: &mut connections::Connector, meter: &mut Meter<'_>) -> Result {
    let socket = connector.open().map_err(cannot_connect)?;
    let connected = meter.time("latency", || socket.connect());
    let connection = connected.map_err(cannot_connect)?;
    meter.time("close", || connection.close());
    let connection = connect(connector)?;
    meter.time("tear_down", || connection.tear_down()).map_err(broken)?;
    connect_and_tear_down(connector)
}

fn connect_and_tear_down(connector: &mut connections::Connector) -> Result {
    let connection = connect(connector)?;
    connection.tear_down().map_err(broken)
}

fn connect(connector: &mut connections::Connector) -> Result<Connection> {
    let socket = connector.open();
    let connected = socket.and_then(|socket| socket.connect());
    connected.map_err(cannot_connect)
}
