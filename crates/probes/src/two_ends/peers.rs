//! Where the two ends of an exchange run, and how they find each other: an [`Acceptor`] listens,
//! and a [`Connector`] connects to it and leads.

use crate::prelude::*;
use crate::two_ends::{Exchange, broken, cannot_connect, cannot_reach, path, rendezvous};
use costof_exchange::pattern::connect as connections;
use costof_exchange::rendezvous::{Address, Listener, Over};
use costof_exchange::transport::Wait;
use costof_exchange::transport::socket::Socket;
use std::any::Any;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

struct Local {
    rendezvous: Rendezvous,
    /// This end's CPUs. If there are several, the two ends' lists begin with different ones: the
    /// leading role's first is the other's last.
    cpus: Vec<usize>,
    leads: bool,
}

impl Local {
    fn new(launch: &Launch, leads: bool) -> Result<Local> {
        Ok(Local {
            rendezvous: rendezvous::with_receiver(launch)?,
            cpus: launch.cpus.clone(),
            leads,
        })
    }

    /// Moves this thread to the CPU of the point's end, and keeps that CPU awake if the point wants
    /// it. Each end does this for itself, since the ends may be on two machines.
    fn place(&self, link: &str, exchange: &Exchange, blocks: bool) -> Result<Awake> {
        let Exchange { cpus, wake, .. } = *exchange;
        let shares = cpus != Cpus::Cross;
        rendezvous::can_share(&self.rendezvous, shares)?;
        if !self.rendezvous.apart {
            threads::on(cpus.count(), &self.cpus)?;
        }
        let own = if shares && !self.leads { self.cpus.last() } else { self.cpus.first() };
        let own = *own.ok_or_else(|| Failure::error("this end has no CPU"))?;
        affinity::pin(&[own]).or_fail(format_args!("cannot run on CPU {own}"))?;
        if !blocks {
            return ends::spinning_keeps(cpus, wake);
        }
        if shares && path::is_plain(link) {
            ends::keep(cpus, wake, &self.cpus)
        } else if shares && !self.leads {
            // Over a link with delays, a CPU shared by both ends would idle too: the other end
            // keeps it awake.
            Ok(Awake::Unchanged)
        } else {
            wake::keep(wake, &[own])
        }
    }
}

pub(crate) struct Acceptor {
    local: Local,
    ready: Option<(Listener, Awake)>,
}

impl Acceptor {
    /// Prepares to listen where the launch says.
    ///
    /// # Errors
    /// A launch without a rendezvous, which is a bug of the controller.
    pub(crate) fn start(launch: &Launch) -> Result<Acceptor> {
        Ok(Acceptor { local: Local::new(launch, false)?, ready: None })
    }

    /// Moves to the point's CPU, and listens for `flows` connections. Returns what the other end
    /// must know.
    ///
    /// # Errors
    /// Why it cannot run there, or not listen.
    pub(crate) fn listen(
        &mut self,
        link: &str,
        exchange: &Exchange,
        flows: usize,
    ) -> Result<Offers> {
        let awake = self.local.place(link, exchange, exchange.blocks())?;
        let (listener, offers) =
            rendezvous::listen(link, &self.local.rendezvous, exchange.socket(), flows)?;
        self.ready = Some((listener, awake));
        Ok(offers)
    }

    /// Accepts the client by `accept`. The first value keeps the CPU awake. `None` if the launch
    /// has already ended.
    ///
    /// # Errors
    /// Why no client connected.
    pub(crate) fn accept<T>(
        &mut self,
        meter: &Meter<'_>,
        accept: impl FnOnce(&Listener, &AtomicBool) -> io::Result<T>,
    ) -> Result<Option<(Awake, T)>> {
        let (listener, awake) = self.ready.take().expect("it is prepared");
        let accepted = rendezvous::unless_stopped(accept(&listener, meter.stop()))?;
        Ok(accepted.map(|accepted| (awake, accepted)))
    }

    /// Accepts the client's first connection, which has the token. The second value accepts its
    /// further ones; the first keeps the CPU awake. `None` if the launch has already ended.
    ///
    /// # Errors
    /// Why no client connected.
    pub(crate) fn accept_many(
        &mut self,
        meter: &Meter<'_>,
    ) -> Result<Option<(Awake, connections::Acceptor)>> {
        let (listener, awake) = self.ready.take().expect("it is prepared");
        let accepted = Socket::accept(&listener, Wait::Block, meter.stop());
        let Some(first) = rendezvous::unless_stopped(accepted)? else {
            return Ok(None);
        };
        let acceptor = connections::Acceptor::new(listener, first);
        Ok(Some((awake, acceptor.map_err(broken)?)))
    }
}

pub(crate) struct Connector {
    local: Local,
    ready: Option<(Offers, Awake)>,
    /// What the next point drops.
    kept: Option<Box<dyn Any>>,
}

impl Connector {
    /// Prepares to connect where the launch says.
    ///
    /// # Errors
    /// A launch without a rendezvous, which is a bug of the controller.
    pub(crate) fn start(launch: &Launch) -> Result<Connector> {
        Ok(Connector { local: Local::new(launch, true)?, ready: None, kept: None })
    }

    /// Moves to the point's CPU, and remembers where the other end listens. `blocks` says whether this end waits in
    /// the kernel.
    ///
    /// # Errors
    /// Why it cannot run there.
    pub(crate) fn prepare(
        &mut self,
        link: &str,
        exchange: &Exchange,
        blocks: bool,
        offers: &Offers,
    ) -> Result<Offers> {
        self.kept = None;
        let awake = self.local.place(link, exchange, blocks)?;
        self.ready = Some((offers.clone(), awake));
        Ok(Offers::new())
    }

    /// Keeps the connections of a client of calls until the next point: the server's threads have to live until
    /// their CPU time is read.
    pub(crate) fn keep(&mut self, connections: impl Any) {
        self.kept = Some(Box::new(connections));
    }

    /// What the other end has said of itself by this name.
    pub(crate) fn offer(&self, name: &str) -> Option<String> {
        self.ready.as_ref()?.0.get(name).cloned()
    }

    /// Connects by `connect`, which is given the server's address and the token. The first value
    /// keeps the CPU awake.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(crate) fn connect<T>(
        &mut self,
        connect: impl FnOnce(&Address, &[u8]) -> io::Result<T>,
    ) -> Result<(Awake, T)> {
        let (offers, awake) = self.ready.take().expect("it is prepared");
        let address: Address = rendezvous::offered(&offers)?;
        let token = self.local.rendezvous.token.as_bytes();
        let connected = connect(&address, token).map_err(|error| cannot_reach(&address, &error))?;
        Ok((awake, connected))
    }

    /// Opens both ends in this role by `open`, which is given this end's address and the token. The
    /// first value keeps the CPU awake.
    ///
    /// # Errors
    /// Why they cannot be opened.
    pub(crate) fn alone<T>(
        &mut self,
        open: impl FnOnce(IpAddr, &[u8]) -> io::Result<T>,
    ) -> Result<(Awake, T)> {
        let (_, awake) = self.ready.take().expect("it is prepared");
        let Rendezvous { address, token, .. } = &self.local.rendezvous;
        let opened = open(*address, token.as_bytes()).map_err(broken)?;
        Ok((awake, opened))
    }

    /// Connects to a server that [accepts many](Acceptor::accept_many). The second value makes
    /// further connections; the first keeps the CPU awake.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(crate) fn connect_many(&mut self) -> Result<(Awake, connections::Connector)> {
        let (awake, first) =
            self.connect(|address, token| Socket::connect(Over::Tcp, address, Wait::Block, token))?;
        let connector = connections::Connector::new(first);
        Ok((awake, connector.map_err(cannot_connect)?))
    }
}
