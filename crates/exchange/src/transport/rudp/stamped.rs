//! The protocol of the library `rudp` over time-stamped datagrams, one at a time. It is driven as
//! by the library's own socket, which has no time stamps.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rudp::{Config, ConnectionId, Endpoint, Event, Reason, Time};

use super::{SPINS_PER_POLL, accept_one, config, receive_among, send_by};
use crate::progress::POLL_INTERVAL;
use crate::transport::stamped::{Stamped, StampedChannels, Stamps};
use crate::transport::{Channel, Wait};
use costof_os::random;

/// The longest datagram that can arrive.
const BUFFER_BYTES: usize = 1 << 16;
/// How long an end waits within the receiving call, and how far away its next timer must be for that: both as
/// in the library's own socket.
const TICK: Duration = Duration::from_millis(1);
const MIN_WAIT: Duration = Duration::from_millis(5);

/// One end of a connection of the library, over stamped datagrams.
pub struct StampedRudp {
    datagrams: Stamped,
    peer: SocketAddr,
    endpoint: Endpoint,
    /// `None` at the server, until the client has connected.
    id: Option<ConnectionId>,
    began: Instant,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

/// Each message is one datagram, as long as IP allows, which IP fragments.
impl StampedChannels for StampedRudp {
    type Client = Self;
    type Server = Self;

    fn client(datagrams: Stamped, size: usize) -> io::Result<Self> {
        let mut client = Self::new(datagrams, None)?;
        let id = client.endpoint.connect(client.now(), client.peer, config(size, true));
        client.id = Some(id.map_err(io::Error::other)?);
        // The connection notices if the peer does not answer.
        while client.next()? != Some(Event::Connected) {}
        Ok(client)
    }

    /// Its peer connects while this end receives.
    fn server(datagrams: Stamped, size: usize) -> io::Result<Self> {
        Self::new(datagrams, Some(config(size, true)))
    }
}

impl StampedRudp {
    fn new(datagrams: Stamped, accept: Option<Config>) -> io::Result<Self> {
        let endpoint = Endpoint::new(random::bytes()?, accept.map(accept_one));
        datagrams.set_receive_timeout(TICK)?;
        Ok(Self {
            peer: datagrams.peer()?,
            datagrams,
            endpoint: endpoint.map_err(io::Error::other)?,
            id: None,
            began: Instant::now(),
            outgoing: Vec::with_capacity(BUFFER_BYTES),
            incoming: vec![0; BUFFER_BYTES],
        })
    }

    fn now(&self) -> Time {
        Time::default() + self.began.elapsed()
    }

    /// The next event. `None` if nothing has happened for a while.
    fn next(&mut self) -> io::Result<Option<Event>> {
        let polls = match self.datagrams.wait() {
            Wait::Block => 1,
            Wait::Spin => SPINS_PER_POLL,
        };
        let mut polled = 0;
        while polled < polls {
            if let Some((id, event)) = self.endpoint.poll_event() {
                self.id = Some(id);
                return match event {
                    Event::Closed(Reason::TimedOut) => Err(ErrorKind::TimedOut.into()),
                    Event::Closed(_) => Err(ErrorKind::UnexpectedEof.into()),
                    event => Ok(Some(event)),
                };
            }
            self.transmit(self.now())?;
            let (now, due) = (self.now(), self.endpoint.poll_timeout());
            let idle = match self.datagrams.wait() {
                Wait::Block => due.map_or(POLL_INTERVAL, |at| POLL_INTERVAL.min(at.since(now))),
                Wait::Spin => Duration::ZERO,
            };
            if let Some(length) = self.receive_within(idle)? {
                let (now, datagram) = (self.now(), &self.incoming[..length]);
                self.endpoint.handle_datagram(now, self.peer, datagram);
                continue;
            }
            let now = self.now();
            if due.is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            } else {
                polled += 1;
            }
        }
        Ok(None)
    }

    /// Receives a datagram, waiting for at most this long, as the library's own socket does: within the
    /// receiving call if there is time, since waiting before it costs more.
    fn receive_within(&mut self, idle: Duration) -> io::Result<Option<usize>> {
        let datagrams = &mut self.datagrams;
        let length = if idle >= MIN_WAIT {
            datagrams.receive_datagram(&mut self.incoming)?
        } else {
            datagrams.try_receive_datagram(&mut self.incoming)?
        };
        if length.is_some() || idle.is_zero() {
            return Ok(length);
        }
        datagrams.wait_readable(idle)?;
        datagrams.try_receive_datagram(&mut self.incoming)
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let (endpoint, out) = (&mut self.endpoint, &mut self.outgoing);
        while endpoint.poll_transmit(now, 1, BUFFER_BYTES, out).is_some() {
            self.datagrams.send_bytes(out)?;
        }
        Ok(())
    }
}

impl Channel for StampedRudp {
    /// Sends a message, as far as it can leave at once.
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        let connection = self.id.and_then(|id| self.endpoint.connection(id));
        send_by(connection, message)?;
        self.transmit(self.now())
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        receive_among(|| self.next(), message)
    }

    /// The connection notices an end that has gone.
    fn answer_timeout(&self) -> Duration {
        Duration::MAX
    }
}

impl Stamps for StampedRudp {
    fn stamped(&mut self) -> &mut Stamped {
        &mut self.datagrams
    }
}
