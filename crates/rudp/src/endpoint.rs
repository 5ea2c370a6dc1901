//! Many connections over one socket: which one a datagram is for, who may connect,
//! and which one is next to send or to be told that time passed.

use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Ids};
use crate::cookie::{Cookies, LIFETIME};
use crate::ecn::Ecn;
use crate::event::Event;
use crate::packet::{self, Data, Packet, Parameters};
use crate::time::Time;
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Whom an endpoint lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// How accepted connections behave.
    pub config: Config,
    /// How many there may be, connecting and closing ones among them.
    pub connections: usize,
    /// How many of one IP address.
    pub connections_per_address: usize,
}

impl Default for Accept {
    fn default() -> Accept {
        Accept {
            config: Config::default(),
            connections: 1024,
            connections_per_address: 256,
        }
    }
}

/// Names a connection of an endpoint. It is never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// Where what [`Endpoint::poll_transmit`] wrote is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The address.
    pub to: SocketAddr,
    /// The size of each datagram in the buffer; the last may be shorter.
    pub datagram_bytes: usize,
    /// How they are to be marked. A caller that marks nothing is noticed, and loses nothing but
    /// that queues which fill drop instead of saying so.
    pub ecn: Option<Ecn>,
}

/// One end of any number of connections that share a socket.
#[derive(Debug)]
pub struct Endpoint {
    accept: Option<Accept>,
    cookies: Cookies,
    random: Random,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Clients that were let in, by address and the number that they chose.
    clients: BTreeMap<(SocketAddr, u64), Client>,
    /// Clients that are gone, but whose tokens are still good.
    gone: VecDeque<(Time, SocketAddr, u64)>,
    accepted: usize,
    per_address: BTreeMap<IpAddr, usize>,
    /// Tokens to be sent; nothing else is known of whom they go to.
    retries: VecDeque<(SocketAddr, Packet)>,
    /// Connections that may have something to send, or to tell.
    to_send: VecDeque<u32>,
    to_tell: VecDeque<u32>,
    /// No connection wants to be called earlier than it stands here.
    timers: BTreeSet<(Time, u32)>,
}

#[derive(Debug)]
struct Slot {
    connection: Option<Box<Connection>>,
    is_to_send: bool,
    is_to_tell: bool,
    timer: Option<Time>,
    /// Of an accepted connection: until when its client's token is good.
    token_until: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Client {
    Here(u32),
    /// Its token does not let it in again.
    Gone,
}

/// How many strangers wait for a token at most; more are not answered.
const RETRIES_MAX: usize = 256;
/// How many clients that are gone are remembered; until some are forgotten nobody is let in.
const GONE_MAX: usize = 1 << 16;
/// The low bits of a connection's number say where it is kept.
const SLOT_BITS: u32 = 20;

impl Endpoint {
    /// An endpoint that lets in whom `accept` allows, or nobody.
    ///
    /// The secret makes tokens and numbers that nobody can guess: 16 bytes from a good
    /// source, others for each endpoint and each start of the program.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration for accepted connections.
    pub fn new(secret: [u8; 16], accept: Option<Accept>) -> Result<Endpoint, ConfigError> {
        if let Some(accept) = &accept {
            accept.config.check()?;
        }
        // Two independent keys of one secret.
        let derive = |what: u8| {
            let mut said = [what; 2];
            let mut key = [0; 16];
            for half in key.chunks_mut(8) {
                said[1] += 1;
                let hash = SipHasher24::new_with_key(&secret).hash(&said);
                half.copy_from_slice(&hash.to_be_bytes());
            }
            key
        };
        Ok(Endpoint {
            accept,
            cookies: Cookies::new(derive(1)),
            random: Random {
                key: derive(11),
                drawn: 0,
            },
            slots: Vec::new(),
            free: Vec::new(),
            clients: BTreeMap::new(),
            gone: VecDeque::new(),
            accepted: 0,
            per_address: BTreeMap::new(),
            retries: VecDeque::new(),
            to_send: VecDeque::new(),
            to_tell: VecDeque::new(),
            timers: BTreeSet::new(),
        })
    }

    /// Begins to connect to the endpoint at this address; [`Event::Connected`] says when it
    /// is done.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration.
    ///
    /// # Panics
    ///
    /// Where an endpoint has a million connections.
    pub fn connect(
        &mut self,
        now: Time,
        to: SocketAddr,
        config: Config,
    ) -> Result<ConnectionId, ConfigError> {
        config.check()?;
        let (slot, own) = self.make_room();
        let nonce = self.random.next();
        let ids = Ids {
            own,
            peer: 0,
            nonce,
            server_nonce: 0,
            seed: 0,
        };
        self.put(slot, Connection::connect(now, to, config, ids), None);
        Ok(ConnectionId(own))
    }

    /// The connection, if it has not ended and been reported as closed.
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slot_of(id.0)?;
        // Whatever the caller does with it may give it something to send or to tell.
        self.touch(slot);
        self.slots[slot as usize].connection.as_deref_mut()
    }

    /// A datagram came from this address. Rubbish and what is for nobody changes nothing.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.handle_marked_datagram(now, from, None, datagram);
    }

    /// The same for one that came with this mark.
    pub fn handle_marked_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Option<Ecn>,
        datagram: &[u8],
    ) {
        if let Some(data) = Data::read(datagram) {
            let slot = self.slot_of(data.receiver);
            self.hand_over(slot, from, |connection| {
                connection.handle_data(now, ecn, &data)
            });
            return;
        }
        let Some(packet) = Packet::read(datagram) else {
            return;
        };
        let slot = match packet {
            Packet::Hello {
                client,
                nonce,
                parameters,
                token,
            } => {
                self.forget_gone(now);
                match self.clients.get(&(from, client)) {
                    Some(Client::Here(slot)) => Some(*slot),
                    Some(Client::Gone) => None,
                    None => {
                        let cookies = &self.cookies;
                        let check = |token| cookies.check(&token, now, from, client, nonce);
                        self.meet(now, from, client, nonce, &parameters, token.and_then(check));
                        None
                    }
                }
            }
            Packet::Retry { client, .. } | Packet::Accept { client, .. } => self.slot_of(client),
        };
        self.hand_over(slot, from, |connection| {
            connection.handle_handshake(now, &packet)
        });
    }

    /// Gives what came from this address to the connection that it is for, if that is with this
    /// address.
    fn hand_over(
        &mut self,
        slot: Option<u32>,
        from: SocketAddr,
        give: impl FnOnce(&mut Connection),
    ) {
        if let Some(slot) = slot
            && let Some(connection) = &mut self.slots[slot as usize].connection
            && connection.peer() == from
        {
            give(connection);
            self.touch(slot);
        }
    }

    /// Somebody says hello who is not known: with a token that is good until then, or without.
    fn meet(
        &mut self,
        now: Time,
        from: SocketAddr,
        client: u64,
        nonce: u64,
        parameters: &Parameters,
        token_until: Option<Time>,
    ) {
        if self.accept.is_none() {
            return;
        }
        let Some(token_until) = token_until else {
            if self.retries.len() < RETRIES_MAX {
                let token = self.cookies.issue(now, from, client, nonce);
                self.retries.push_back((
                    from,
                    Packet::Retry {
                        client,
                        nonce,
                        token,
                    },
                ));
            }
            return;
        };
        let Some(accept) = &self.accept else {
            return;
        };
        let of_address = self.per_address.get(&from.ip()).copied().unwrap_or(0);
        if self.accepted >= accept.connections
            || of_address >= accept.connections_per_address
            || self.gone.len() >= GONE_MAX
        {
            return;
        }
        let config = accept.config.clone();
        let (slot, own) = self.make_room();
        let server_nonce = self.random.next();
        let seed = packet::seed(nonce, server_nonce);
        let ids = Ids {
            own,
            peer: client,
            nonce,
            server_nonce,
            seed,
        };
        let connection = Connection::accept(now, from, config, ids, parameters);
        self.put(slot, connection, Some(token_until));
        self.clients.insert((from, client), Client::Here(slot));
        self.accepted += 1;
        *self.per_address.entry(from.ip()).or_default() += 1;
    }

    fn forget_gone(&mut self, now: Time) {
        while let Some((until, address, client)) = self.gone.front().copied() {
            if now <= until {
                return;
            }
            self.gone.pop_front();
            self.clients.remove(&(address, client));
        }
    }

    /// The time that [`Endpoint::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, slot)) = self.timers.first().copied() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            let place = &mut self.slots[slot as usize];
            place.timer = None;
            if let Some(connection) = &mut place.connection {
                connection.handle_timeout(now);
                self.touch(slot);
            }
        }
    }

    /// When [`Endpoint::handle_timeout`] is to be called at the latest, if nothing comes
    /// before. To be asked after [`Endpoint::poll_transmit`] had nothing left.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The same, and not too early either: costs more where it was.
    #[cfg(feature = "socket")]
    pub(crate) fn poll_timeout_exact(&mut self) -> Option<Time> {
        loop {
            let (at, slot) = *self.timers.first()?;
            let place = &mut self.slots[slot as usize];
            let exact = place.connection.as_ref().and_then(|one| one.timeout_at());
            if exact == Some(at) {
                return exact;
            }
            self.timers.pop_first();
            place.timer = exact;
            self.timers.extend(exact.map(|at| (at, slot)));
        }
    }

    /// Writes the next datagrams into the buffer, which is emptied before: all for one
    /// address and of one size but for the last, up to so many, and no more than one if
    /// two would be longer than `bytes`.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        datagrams: usize,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        out.clear();
        if let Some((to, retry)) = self.retries.pop_front() {
            retry.write(out);
            return Some(Transmit {
                to,
                datagram_bytes: out.len(),
                ecn: None,
            });
        }
        while let Some(slot) = self.to_send.front().copied() {
            let place = &mut self.slots[slot as usize];
            if let Some(connection) = &mut place.connection
                && let Some(transmit) = transmit(connection, now, datagrams, bytes, out)
            {
                // The others are to have their turn.
                if self.to_send.len() > 1 {
                    self.to_send.rotate_left(1);
                }
                return Some(transmit);
            }
            self.to_send.pop_front();
            self.slots[slot as usize].is_to_send = false;
            self.settle(slot);
        }
        None
    }

    /// Whether [`Endpoint::poll_transmit`] may have something.
    #[cfg(feature = "socket")]
    pub(crate) fn may_have_to_send(&self) -> bool {
        !self.retries.is_empty() || !self.to_send.is_empty()
    }

    /// The next thing that happened, and to which connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(slot) = self.to_tell.front().copied() {
            let event = self.event_of(slot);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The same, or nothing where that is known only when an acknowledgement is worked through.
    #[cfg(feature = "socket")]
    pub(crate) fn poll_event_at_hand(&mut self) -> Option<(ConnectionId, Event)> {
        for _ in 0..self.to_tell.len() {
            let slot = self.to_tell.front().copied()?;
            let connection = self.slots[slot as usize].connection.as_ref();
            if connection.is_some_and(|one| one.may_tell_later()) {
                self.to_tell.rotate_left(1);
                continue;
            }
            let event = self.event_of(slot);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// What happened to the connection that is the first to tell, which it is no longer if that is
    /// nothing.
    fn event_of(&mut self, slot: u32) -> Option<(ConnectionId, Event)> {
        if let Some(connection) = &mut self.slots[slot as usize].connection
            && let Some(event) = connection.poll_event()
        {
            let id = ConnectionId(connection.ids().own);
            // Taking a message may give the other end credit.
            self.mark_to_send(slot);
            return Some((id, event));
        }
        self.to_tell.pop_front();
        self.slots[slot as usize].is_to_tell = false;
        self.settle(slot);
        None
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn make_room(&mut self) -> (u32, u64) {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len() as u32;
            assert!(
                slot < 1 << SLOT_BITS,
                "an endpoint has no more than a million connections"
            );
            self.slots.push(Slot {
                connection: None,
                is_to_send: false,
                is_to_tell: false,
                timer: None,
                token_until: None,
            });
            slot
        });
        (
            slot,
            self.random.next() >> SLOT_BITS << SLOT_BITS | u64::from(slot),
        )
    }

    fn put(&mut self, slot: u32, connection: Connection, token_until: Option<Time>) {
        let place = &mut self.slots[slot as usize];
        place.connection = Some(Box::new(connection));
        place.token_until = token_until;
        self.touch(slot);
    }

    fn slot_of(&self, own: u64) -> Option<u32> {
        let slot = (own & ((1 << SLOT_BITS) - 1)) as u32;
        let connection = self.slots.get(slot as usize)?.connection.as_deref()?;
        (connection.ids().own == own).then_some(slot)
    }

    fn mark_to_send(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if !std::mem::replace(&mut place.is_to_send, true) {
            self.to_send.push_back(slot);
        }
    }

    /// Something may have changed for this connection.
    fn touch(&mut self, slot: u32) {
        self.mark_to_send(slot);
        let place = &mut self.slots[slot as usize];
        if !std::mem::replace(&mut place.is_to_tell, true) {
            self.to_tell.push_back(slot);
        }
    }

    /// A connection has nothing to send or nothing to tell: sets its timer, and lets it go
    /// if it has neither and ended.
    fn settle(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(connection) = &place.connection else {
            return;
        };
        if connection.is_drained() && !connection.has_event() {
            self.let_go(slot);
            return;
        }
        // A timer that is too early costs a call; setting it anew each time would cost more.
        if let Some(at) = connection.timeout_at()
            && place.timer.is_none_or(|earlier| at < earlier)
        {
            if let Some(old) = place.timer.replace(at) {
                self.timers.remove(&(old, slot));
            }
            self.timers.insert((at, slot));
        }
    }

    fn let_go(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(connection) = place.connection.take() else {
            return;
        };
        if let Some(at) = place.timer.take() {
            self.timers.remove(&(at, slot));
        }
        self.free.push(slot);
        let Some(until) = place.token_until.take() else {
            return;
        };
        let (address, client) = (connection.peer(), connection.ids().peer);
        self.clients.insert((address, client), Client::Gone);
        // They expire in about this order, and none is remembered longer than a token lasts.
        self.gone.push_back((until, address, client));
        self.accepted -= 1;
        if let Some(count) = self.per_address.get_mut(&address.ip()) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address.ip());
            }
        }
    }
}

/// Fills the buffer with what a connection has to send, as far as it goes together.
pub(crate) fn transmit(
    connection: &mut Connection,
    now: Time,
    datagrams: usize,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Option<Transmit> {
    let mut datagram_bytes = 0;
    let ecn = connection.begin_batch().then_some(Ecn::Ect0);
    for _ in 0..datagrams.max(1) {
        let start = out.len();
        if !connection.write_datagram(now, out) {
            break;
        }
        let bytes = out.len() - start;
        if start == 0 {
            datagram_bytes = bytes;
        }
        // Only a full one may be followed by others, none of which is longer.
        let has_room = out.len() + datagram_bytes <= bytes_max;
        let is_last = bytes < datagram_bytes || !connection.is_full(bytes);
        if is_last || !has_room || connection.has_answered() {
            break;
        }
    }
    let to = connection.peer();
    (datagram_bytes > 0).then_some(Transmit {
        to,
        datagram_bytes,
        ecn,
    })
}

/// Numbers that nobody can guess who does not have the key.
#[derive(Debug)]
struct Random {
    key: [u8; 16],
    drawn: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        SipHasher24::new_with_key(&self.key).hash(&self.drawn.to_be_bytes())
    }
}

// A token outlives its connection by less than this, which bounds what is remembered.
const _: () = assert!(LIFETIME.as_secs() <= 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_let_in_while_too_many_that_are_gone_are_remembered() {
        let now = Time::from_nanos(1);
        let address = "192.0.2.1:1".parse().unwrap();
        let mut server = Endpoint::new([1; 16], Some(Accept::default())).unwrap();
        for client in 0..GONE_MAX as u64 {
            server.clients.insert((address, client), Client::Gone);
            server.gone.push_back((now + LIFETIME, address, client));
        }
        let parameters = Config::default().parameters();
        let meet = |server: &mut Endpoint, now, client| {
            server.meet(now, address, client, 7, &parameters, Some(now + LIFETIME));
            server.connections()
        };
        let new = GONE_MAX as u64;
        assert_eq!(meet(&mut server, now, new), 0);
        // One token is over, and with it what there was to remember.
        server.gone[0].0 = now;
        let later = now + std::time::Duration::from_nanos(1);
        server.forget_gone(later);
        assert!(!server.clients.contains_key(&(address, 0)));
        assert_eq!(meet(&mut server, later, new), 1);
    }
}
