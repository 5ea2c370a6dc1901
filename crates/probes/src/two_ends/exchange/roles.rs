//! The roles of messages that are answered one at a time: a server for every transport, and what
//! clients share.

use crate::prelude::*;
use crate::two_ends::{Acceptor, Connector, Exchange, Exchanges, broken};
use costof_exchange::pattern::ping_pong::Server;
use costof_exchange::rendezvous::is_end;
use costof_exchange::transport::{Channels, calls};

type ServeAt<P> = fn(&At<P>, &mut Acceptor, &mut Meter<'_>) -> Result;

pub(crate) struct ServerRole<P> {
    acceptor: Acceptor,
    serve: ServeAt<P>,
}

impl<P> ServerRole<P> {
    /// A server that serves its client by `serve`.
    ///
    /// # Errors
    /// Those of [`Acceptor::start`].
    pub(crate) fn start(launch: &Launch, serve: ServeAt<P>) -> Result<ServerRole<P>> {
        Ok(ServerRole { acceptor: Acceptor::start(launch)?, serve })
    }
}

/// Answers messages until the leading role is done.
///
/// # Errors
/// Why no client connected, or no more could be answered.
pub(crate) fn serve_channel<C: Channels>(
    exchange: &Exchange,
    link: &str,
    acceptor: &mut Acceptor,
    meter: &mut Meter<'_>,
) -> Result {
    let messages = exchange.messages(link);
    let accepted = acceptor.accept(meter, |listener, stop| C::accept(listener, &messages, stop))?;
    let Some((_awake, transport)) = accepted else {
        return Ok(());
    };
    let mut server = Server::new(transport, messages.size);
    let used = CpuTime::start();
    let mut answered = 0;
    serve(meter, |_| {
        answered += u64::from(server.answer()?);
        Ok(())
    })?;
    used.report("cpu_server", answered, exchange, meter);
    Ok(())
}

/// Answers messages as the transport of the point does.
///
/// # Errors
/// Those of [`serve_channel`]; the transport answers none.
pub(crate) fn answer<P: Exchanges>(
    point: &At<P>,
    acceptor: &mut Acceptor,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = &point.exchange();
    (exchange.over.round_trips()?.serve)(exchange, &point.link, acceptor, meter)
}

impl<P: Exchanges> RoleAt<P> for ServerRole<P> {
    fn blocks(&self, point: &At<P>) -> bool {
        point.exchange().blocks()
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers> {
        listen(&mut self.acceptor, point)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        (self.serve)(point, &mut self.acceptor, meter)
    }
}

/// Listens for the client of an exchange.
///
/// # Errors
/// What cannot be measured at this point; those of [`Acceptor::listen`].
pub(crate) fn listen<P: Exchanges>(acceptor: &mut Acceptor, point: &At<P>) -> Result<Offers> {
    let exchange = point.exchange();
    exchange.check()?;
    point.check()?;
    let carrier = exchange.over.in_this_build()?;
    let mut offers = acceptor.listen(&point.link, &exchange, point.connections())?;
    if let Some(stack) = carrier.stack {
        offers.extend(calls::offers(stack).map_err(broken)?);
    }
    Ok(offers)
}

type MeasureAt<P> = fn(&At<P>, &mut Connector, &mut Meter<'_>) -> Result;

pub(crate) struct ClientRole<P> {
    connector: Connector,
    measure: MeasureAt<P>,
}

impl<P> ClientRole<P> {
    /// A client that measures by `measure`.
    ///
    /// # Errors
    /// Those of [`Connector::start`].
    pub(crate) fn start(launch: &Launch, measure: MeasureAt<P>) -> Result<ClientRole<P>> {
        Ok(ClientRole { connector: Connector::start(launch)?, measure })
    }
}

impl<P: Exchanges> RoleAt<P> for ClientRole<P> {
    fn blocks(&self, point: &At<P>) -> bool {
        point.client_blocks()
    }

    fn prepare(&mut self, point: &At<P>, offers: &Offers) -> Result<Offers> {
        point.exchange().over.in_this_build()?;
        self.connector.prepare(&point.link, &point.exchange(), point.client_blocks(), offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        (self.measure)(point, &mut self.connector, meter)
    }
}

/// Answers one message after the other until the leading role is done; the client may leave
/// earlier. `answer` returns regularly even without a message.
///
/// # Errors
/// Why no more could be answered, unless the client has left.
pub(crate) fn serve(
    meter: &mut Meter<'_>,
    mut answer: impl FnMut(&mut Meter<'_>) -> io::Result<()>,
) -> Result {
    let mut ended: Option<io::Error> = None;
    while !meter.is_stopped() {
        match ended {
            // The client is done, and the controller is about to stop this role.
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
            None => ended = answer(meter).err(),
        }
    }
    match ended {
        Some(error) if !is_end(&error) => Err(broken(error)),
        _ => Ok(()),
    }
}

/// Whether only few exchanges fit into a point's time, judging by the first one. Such a point has
/// no warm-up.
pub(crate) fn is_slow(first_ns: f64, meter: &Meter<'_>) -> bool {
    const EXCHANGES_PER_POINT: f64 = 20.0;
    first_ns * EXCHANGES_PER_POINT >= meter.time_ns()
}

/// Makes exchanges that do not count, unless they are [slow](is_slow). Returns the shortest time of
/// one, in nanoseconds. `first_ns` is the time of an earlier exchange. `exchange` makes one more
/// and returns its time, or `None` if its time says nothing.
///
/// # Errors
/// The first error of `exchange`.
pub(crate) fn warm_up(
    first_ns: f64,
    meter: &Meter<'_>,
    mut exchange: impl FnMut() -> Result<Option<f64>>,
) -> Result<f64> {
    const WARM_UP: u32 = 20;
    let mut least_ns = first_ns;
    if !is_slow(first_ns, meter) {
        for _ in 0..WARM_UP {
            least_ns = exchange()?.map_or(least_ns, |ns| least_ns.min(ns));
        }
    }
    Ok(least_ns)
}

/// This thread's CPU time for its messages.
pub(crate) struct CpuTime {
    began_ns: u64,
}

impl CpuTime {
    pub(crate) fn start() -> CpuTime {
        CpuTime { began_ns: now_ns(ClockId::ThreadCpu) }
    }

    /// Reports the CPU time per message, if the end waits in the kernel. A spinning end uses its
    /// whole CPU.
    pub(crate) fn report(
        &self,
        metric: &'static str,
        messages: u64,
        exchange: &Exchange,
        meter: &mut Meter<'_>,
    ) {
        let used_ns = now_ns(ClockId::ThreadCpu).saturating_sub(self.began_ns);
        if exchange.waiting_ends() > 0.0 && messages > 0 {
            meter.value(metric, used_ns as f64 / messages as f64);
        }
    }
}
