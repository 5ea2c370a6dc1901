//! Many connections over one socket: finds the connection of a datagram, and the next connection to
//! send, to report events, or to time out.

use crate::admission::{Accept, Admission, Verdict};
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Ids, Transmit};
use crate::event::Event;
use crate::packet::{self, Data, Handshake, Parameters, Step};
use crate::schedule::{Timers, Turns};
use crate::time::Time;
use crate::token::{Client, Token};
use siphasher::sip::SipHasher24;
use std::net::SocketAddr;

/// Identifies a connection of an endpoint. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// One end of any number of connections that share a socket.
#[derive(Debug)]
pub struct Endpoint {
    admission: Option<Admission>,
    random: Random,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    /// Connections that may have something to send, or events.
    transmits: Turns,
    events: Turns,
    timers: Timers,
}

/// The low bits of a connection's id are its slot.
const SLOT_BITS: u32 = 20;
const MAX_SLOTS: usize = 1 << SLOT_BITS;

impl Endpoint {
    /// An endpoint that accepts connections according to `accept`, or none.
    ///
    /// The secret makes tokens and ids that nobody can guess: 16 bytes from a good random source,
    /// different for each endpoint and each start of the program.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration for accepted connections.
    pub fn new(secret: [u8; 16], accept: Option<Accept>) -> Result<Endpoint, ConfigError> {
        if let Some(accept) = &accept {
            accept.config.check()?;
        }
        // Two independent keys from one secret.
        let derive = |purpose: u8| {
            let mut key = [0; 16];
            for (half, number) in key.chunks_mut(8).zip(1..) {
                let hash = SipHasher24::new_with_key(&secret).hash(&[purpose, purpose + number]);
                half.copy_from_slice(&hash.to_be_bytes());
            }
            key
        };
        Ok(Endpoint {
            admission: accept.map(|accept| Admission::new(accept, derive(1))),
            random: Random { key: derive(11), sampled: 0 },
            slots: Vec::new(),
            free: Vec::new(),
            transmits: Turns::default(),
            events: Turns::default(),
            timers: Timers::default(),
        })
    }

    /// Starts to connect to the endpoint at this address. [`Event::Connected`] follows.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration.
    ///
    /// # Panics
    ///
    /// If the endpoint has a million connections.
    pub fn connect(
        &mut self,
        now: Time,
        to: SocketAddr,
        config: Config,
    ) -> Result<ConnectionId, ConfigError> {
        config.check()?;
        let (slot, own) = self.allocate();
        let ids = Ids { own, nonce: self.random.next(), ..Ids::default() };
        self.insert(slot, Connection::connect(now, to, config, ids));
        Ok(ConnectionId(own))
    }

    /// The connection, unless it has ended and was reported as closed.
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slot_of(id.0)?;
        // Whatever the caller does with it may cause something to send or to report.
        self.touch(slot);
        self.slots[slot as usize].as_deref_mut()
    }

    /// Handles a datagram that was received from this address. A damaged datagram, or one for no
    /// connection, changes nothing.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        if let Some(data) = Data::read(datagram) {
            let slot = self.slot_of(data.receiver);
            self.deliver(slot, from, |connection| connection.handle_data(now, &data));
        } else if let Some(packet) = Handshake::read(datagram) {
            let client = Client { address: from, id: packet.client, nonce: packet.nonce };
            let slot = match packet.step {
                Step::Hello(parameters, token) => self.accept(now, &client, &parameters, token),
                Step::Retry(_) | Step::Accept { .. } => self.slot_of(packet.client),
            };
            self.deliver(slot, from, |connection| connection.handle_handshake(now, &packet));
        }
    }

    /// Passes a packet to its connection, if that has this peer address.
    fn deliver(
        &mut self,
        slot: Option<u32>,
        from: SocketAddr,
        handle: impl FnOnce(&mut Connection),
    ) {
        if let Some(slot) = slot
            && let Some(connection) = &mut self.slots[slot as usize]
            && connection.peer() == from
        {
            handle(connection);
            self.touch(slot);
        }
    }

    /// Handles a client's hello: creates a connection if the client may have one. Returns the
    /// connection that the client already has, if any.
    fn accept(
        &mut self,
        now: Time,
        client: &Client,
        parameters: &Parameters,
        token: Option<Token>,
    ) -> Option<u32> {
        let token_expires = match self.admission.as_mut()?.hello(now, client, token) {
            Verdict::Known(slot) => return Some(slot),
            Verdict::Refused => return None,
            Verdict::Admitted(token_expires) => token_expires,
        };
        // However many it may accept.
        if self.connections() >= MAX_SLOTS {
            return None;
        }
        let (slot, own) = self.allocate();
        let server_nonce = self.random.next();
        let ids = Ids {
            own,
            peer: client.id,
            nonce: client.nonce,
            server_nonce,
            seed: packet::seed(client.nonce, server_nonce),
        };
        let config = (self.admission.as_mut()?).connected(client, slot, token_expires);
        let connection = Connection::accept(now, client.address, config, ids, parameters);
        self.insert(slot, connection);
        None
    }

    /// Acts on the timeout that [`Endpoint::poll_timeout`] named.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, slot)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.set(slot, None);
            if let Some(connection) = &mut self.slots[slot as usize] {
                connection.handle_timeout(now);
                self.touch(slot);
            }
        }
    }

    /// The latest time at which to call [`Endpoint::handle_timeout`] if nothing arrives before.
    /// Call this after [`Endpoint::poll_transmit`] has returned `None`.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| at)
    }

    /// The same, but never too early, which costs more.
    #[cfg(feature = "socket")]
    pub(crate) fn poll_timeout_exact(&mut self) -> Option<Time> {
        loop {
            let (at, slot) = self.timers.first()?;
            let connection = self.slots[slot as usize].as_ref();
            let exact = connection.and_then(|connection| connection.timeout_at());
            if exact == Some(at) {
                return exact;
            }
            self.timers.set(slot, exact);
        }
    }

    /// Clears the buffer and writes the next datagrams into it: at most this many, all for one
    /// address, and all of one size except the last, which may be shorter. Writes only one if two
    /// would be longer than `bytes`.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        datagrams: usize,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        out.clear();
        let admission = self.admission.as_mut();
        if let Some((to, retry)) = admission.and_then(Admission::poll_retry) {
            retry.write(out);
            return Some(Transmit { to, datagram_bytes: out.len() });
        }
        while let Some(slot) = self.transmits.front() {
            if let Some(connection) = &mut self.slots[slot as usize]
                && let Some(transmit) = connection.poll_transmit(now, datagrams, bytes, out)
            {
                self.transmits.rotate();
                return Some(transmit);
            }
            self.transmits.pop();
            self.flush(slot);
        }
        None
    }

    /// Whether [`Endpoint::poll_transmit`] may have something to send.
    #[cfg(feature = "socket")]
    pub(crate) fn has_transmits(&self) -> bool {
        self.transmits.front().is_some()
            || (self.admission.as_ref()).is_some_and(Admission::has_retries)
    }

    /// The next event, and its connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(slot) = self.events.front() {
            let event = self.event_of(slot);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The same, except for events that depend on a deferred acknowledgement.
    #[cfg(feature = "socket")]
    pub(crate) fn poll_ready_event(&mut self) -> Option<(ConnectionId, Event)> {
        for _ in 0..self.events.len() {
            let slot = self.events.front()?;
            let connection = self.slots[slot as usize].as_ref();
            if connection.is_some_and(|connection| connection.has_deferred_events_only()) {
                self.events.rotate();
                continue;
            }
            let event = self.event_of(slot);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The next event of the first connection in the queue, which leaves the queue if it has none.
    fn event_of(&mut self, slot: u32) -> Option<(ConnectionId, Event)> {
        if let Some(connection) = &mut self.slots[slot as usize]
            && let Some(event) = connection.poll_event()
        {
            let id = ConnectionId(connection.ids().own);
            // Taking a message may give the other end credit.
            self.transmits.push(slot);
            return Some((id, event));
        }
        self.events.pop();
        self.flush(slot);
        None
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A free slot, and an id for a connection there.
    fn allocate(&mut self) -> (u32, u64) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        assert!((slot as usize) < MAX_SLOTS, "an endpoint has no more than a million connections");
        let id = self.random.next() >> SLOT_BITS << SLOT_BITS | u64::from(slot);
        (slot, id)
    }

    fn insert(&mut self, slot: u32, connection: Connection) {
        self.slots[slot as usize] = Some(Box::new(connection));
        self.touch(slot);
    }

    fn slot_of(&self, own: u64) -> Option<u32> {
        let slot = (own & ((1 << SLOT_BITS) - 1)) as u32;
        let connection = self.slots.get(slot as usize)?.as_deref()?;
        (connection.ids().own == own).then_some(slot)
    }

    /// Notes that something may have changed for this connection.
    fn touch(&mut self, slot: u32) {
        self.transmits.push(slot);
        self.events.push(slot);
    }

    /// A connection has nothing to send and no event: sets its timer, or discards it if it has no
    /// timer and has ended.
    fn flush(&mut self, slot: u32) {
        let Some(connection) = &self.slots[slot as usize] else {
            return;
        };
        if connection.is_drained() && !connection.has_event() {
            self.discard(slot);
            return;
        }
        // A timer that fires too early costs a call; setting it anew each time would cost more.
        if let Some(at) = connection.timeout_at()
            && self.timers.get(slot).is_none_or(|earlier| at < earlier)
        {
            self.timers.set(slot, Some(at));
        }
    }

    fn discard(&mut self, slot: u32) {
        let Some(connection) = self.slots[slot as usize].take() else {
            return;
        };
        self.timers.set(slot, None);
        self.free.push(slot);
        if let Some(admission) = &mut self.admission {
            admission.ended(connection.peer(), connection.ids().peer, slot);
        }
    }
}

/// Random numbers that nobody without the key can guess.
#[derive(Debug)]
struct Random {
    key: [u8; 16],
    sampled: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.sampled += 1;
        SipHasher24::new_with_key(&self.key).hash(&self.sampled.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_for_whom_no_slot_is_left_is_refused() {
        let (now, address) = (Time::from_nanos(1), "192.0.2.1:1".parse().unwrap());
        let accept = Accept { connections: usize::MAX, ..Accept::default() };
        let mut server = Endpoint::new([1; 16], Some(accept)).unwrap();
        server.slots.resize_with(MAX_SLOTS, || None);
        let mut client = Endpoint::new([2; 16], None).unwrap();
        client.connect(now, address, Config::default()).unwrap();
        // A hello, the token for it, and a hello with that.
        let mut datagram = Vec::new();
        for _ in 0..2 {
            client.poll_transmit(now, 1, 0, &mut datagram).unwrap();
            server.handle_datagram(now, address, &datagram);
            if server.poll_transmit(now, 1, 0, &mut datagram).is_some() {
                client.handle_datagram(now, address, &datagram);
            }
        }
        assert_eq!(server.connections(), MAX_SLOTS);
        assert!(server.slots.iter().all(Option::is_none));
    }
}
