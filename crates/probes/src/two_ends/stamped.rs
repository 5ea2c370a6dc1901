//! Messages that are answered one at a time over sockets whose packets the kernel stamps: the roles of `net.stages` and
//! `rudp.stages`. An end subtracts stamps of its own host alone.

use crate::prelude::*;
use crate::two_ends::exchange::roles::serve;
use crate::two_ends::{
    Acceptor, Connector, Exchange, Exchanges, broken, path, share_lost, warm_up,
};
use costof_exchange::pattern::ping_pong::{Client, ClientStages, Server};
use costof_exchange::transport::socket::Socket;
use costof_exchange::transport::stamped::{Stamped, StampedChannels};
use costof_os::net::timestamps::SwitchedOn;

/// A role on a socket whose packets the kernel stamps.
pub(crate) struct Stamping<R> {
    /// Held for the whole launch. Switched on before any CPU is kept awake.
    stamps: io::Result<SwitchedOn>,
    role: R,
}

impl<R> Stamping<R> {
    /// # Errors
    /// Those of the role.
    pub(crate) fn start(role: impl FnOnce() -> Result<R>) -> Result<Stamping<R>> {
        /// How long the kernel may take to switch stamps on.
        const SWITCHED_ON: Duration = Duration::from_secs(5);
        Ok(Stamping { stamps: SwitchedOn::within(SWITCHED_ON), role: role()? })
    }
}

impl<P, R: RoleAt<P>> RoleAt<P> for Stamping<R> {
    fn blocks(&self, point: &At<P>) -> bool {
        self.role.blocks(point)
    }

    fn prepare(&mut self, point: &At<P>, offers: &Offers) -> Result<Offers> {
        self.stamps.as_ref().map_err(no_stamps)?;
        self.role.prepare(point, offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        self.role.run(point, meter)
    }
}

/// The failure to report if packets cannot be stamped.
fn no_stamps(error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "this kernel does not stamp packets as asked: {error} (SO_TIMESTAMPING; net.rtt needs none)"
    ))
}

/// What a probe records of the stages of messages.
pub(crate) struct Recording {
    /// Whether packets are stamped when they enter the queue discipline too.
    pub(crate) queue: bool,
    /// Whether the first message counts.
    pub(crate) first: bool,
    /// Records a message that has all of its stamps.
    pub(crate) each: fn(&ClientStages, &mut Meter<'_>),
}

/// Both ends, compiled for their transport, so that nothing timed is dispatched.
#[derive(Debug)]
pub(crate) struct StampedEnds {
    serve: fn(usize, Stamped, &mut Meter<'_>) -> Result,
    measure: fn(&Exchange, &str, Stamped, &Recording, &mut Meter<'_>) -> Result,
}

impl StampedEnds {
    pub(crate) const fn of<C: StampedChannels>() -> StampedEnds {
        StampedEnds { serve: serve_over::<C>, measure: measure_over::<C> }
    }

    fn at(exchange: &Exchange) -> Result<&'static StampedEnds> {
        let ends = exchange.over.description().stamped.as_ref();
        ends.ok_or_else(|| Failure::unsupported("this has no ends over stamped sockets"))
    }
}

/// Answers messages, and records their stages at this end.
///
/// # Errors
/// Why no client connected, the kernel stamps no packets, or no more could be answered.
pub(crate) fn serve_stamped<P: Exchanges>(
    point: &At<P>,
    acceptor: &mut Acceptor,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = point.exchange();
    let wait = exchange.wait.into();
    let accepted = acceptor.accept(meter, |listener, stop| Socket::accept(listener, wait, stop))?;
    let Some((_awake, socket)) = accepted else {
        return Ok(());
    };
    let stamped = Stamped::new(socket).map_err(|error| no_stamps(&error))?;
    (StampedEnds::at(&exchange)?.serve)(exchange.size(), stamped, meter)
}

fn serve_over<C: StampedChannels>(size: usize, socket: Stamped, meter: &mut Meter<'_>) -> Result {
    let server = C::server(socket, size).map_err(broken)?;
    let mut server = Server::new(server, size);
    serve(meter, |meter| {
        if let Some(stages) = server.answer_stamped()? {
            let receive = stages.taken - stages.received;
            let send = stages.left - stages.taken;
            meter.latency("server", (receive + send) as f64);
            meter.latency("server_receive", receive as f64);
            meter.latency("server_send", send as f64);
        }
        Ok(())
    })
}

/// Measures the stages of messages at this end until the point's time is over, and the share of messages without them.
///
/// # Errors
/// Why the server cannot be reached, the kernel stamps no packets (any more), or an answer is wrong.
pub(crate) fn measure_stamped<P: Exchanges>(
    point: &At<P>,
    recording: &Recording,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = point.exchange();
    let (_awake, socket) = exchange.connect_socket(connector)?;
    let stamp = if recording.queue { Stamped::with_queue } else { Stamped::new };
    let stamped = stamp(socket).map_err(|error| no_stamps(&error))?;
    (StampedEnds::at(&exchange)?.measure)(&exchange, &point.link, stamped, recording, meter)
}

fn measure_over<C: StampedChannels>(
    exchange: &Exchange,
    link: &str,
    socket: Stamped,
    recording: &Recording,
    meter: &mut Meter<'_>,
) -> Result {
    /// How many messages in a row may lack stamps.
    const MAX_UNSTAMPED: u32 = 1000;
    let client = C::client(socket, exchange.size()).map_err(broken)?;
    let mut client = Client::new(client, exchange.size());
    client.set_min_rto(exchange.may_take(link));
    let mut stamped = || {
        let stages = client.exchange_stamped().map_err(broken)?;
        Ok(stages.filter(|stages| stages.queued.is_some() || !recording.queue))
    };
    let first = first_stamped(&mut stamped)?;
    if recording.first {
        (recording.each)(&first, meter);
    }
    let latency_ns = |stages: ClientStages| stages.latency_ns() as f64;
    let first_ns = latency_ns(first);
    let each_ns = warm_up(first_ns, meter, || Ok(stamped()?.map(latency_ns)))?;
    let mut unstamped = 0;
    let mut slow = meter.lasting(path::lasts_ns(first_ns));
    let missing = share_lost(&mut slow, each_ns, |meter| {
        let stages = stamped()?;
        match &stages {
            Some(stages) => {
                (recording.each)(stages, meter);
                unstamped = 0;
            }
            None => unstamped += 1,
        }
        ensure!(unstamped < MAX_UNSTAMPED, "the kernel no longer stamps packets");
        Ok(stages.is_none())
    })?;
    meter.value("missing", missing);
    Ok(())
}

/// The stages of the first message that has all of its stamps.
fn first_stamped(
    stamped: &mut impl FnMut() -> Result<Option<ClientStages>>,
) -> Result<ClientStages> {
    /// How many messages may lack stamps before any has them.
    const MAX_UNSTAMPED: u32 = 10;
    for _ in 0..MAX_UNSTAMPED {
        if let Some(stages) = stamped()? {
            return Ok(stages);
        }
    }
    Err(Failure::error(
        "no message has an answer and all of its stamps (a firewall may drop it, or \
         the link may not stamp packets)",
    ))
}
