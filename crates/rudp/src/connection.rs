//! One connection: what it receives, what it sends, and when it must act without receiving
//! anything.

mod apply;
mod incoming;
mod outgoing;
mod state;
#[cfg(test)]
mod tests;
mod timers;

pub use outgoing::Transmit;

use crate::config::Config;
use crate::control::Controller;
use crate::event::{Event, MessageId, Reason, SendError};
use crate::frame::Credit;
use crate::outcome::Outcome;
use crate::pacing::Pacer;
use crate::packet::Parameters;
use crate::reassembly::Reassembly;
use crate::received::Received;
use crate::recovery::Recovery;
use crate::send::{Part, SendQueue};
use crate::stats::Stats;
use crate::time::Time;
use state::{DeferredAck, Finish, Hello, Nagle, State};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection to another end, kept by an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Connection {
    config: Config,
    peer: SocketAddr,
    ids: Ids,
    state: State,
    /// When the handshake is given up, or the state of an ended connection is discarded.
    deadline: Time,
    /// The longest datagram that both ends accept.
    datagram: usize,
    /// The longest message that the other end accepts.
    max_message: usize,
    idle_timeout: Duration,
    last_received_at: Time,
    last_ping_at: Time,
    recovery: Recovery,
    received: Received,
    controller: Controller,
    pacer: Pacer,
    /// When pacing lets the next packet leave, if it delays one.
    paced_until: Option<Time>,
    sending: SendQueue,
    reassembly: Reassembly,
    /// The credit that the other end granted, and the credit that was last advertised to it.
    credit: Credit,
    advertised: Credit,
    is_credit_due: bool,
    is_ping_due: bool,
    /// Packets that may leave regardless of the window.
    probes: u32,
    nagle: Nagle,
    /// Packets that left since the last copy of a retransmission; each copy uses up some of them.
    copy_credit: u32,
    /// Whether this end accepts no more messages to send.
    is_closing: bool,
    finish: Finish,
    /// How many probe timeouts have repeated the finish frame since the last acknowledgement.
    finish_timeouts: u32,
    /// How many messages the other end sent, all of them acknowledged.
    peer_finished: Option<u64>,
    events: VecDeque<Event>,
    /// The last event.
    closed: Option<Reason>,
    deferred_ack: Option<DeferredAck>,
    stats: Stats,
    /// Kept to reuse its memory.
    outcome: Outcome,
    parts: Vec<Part>,
}

/// The numbers that identify packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids {
    /// The id that the other end writes on packets to this one.
    pub(crate) own: u64,
    pub(crate) peer: u64,
    /// The client's nonce, and the server's.
    pub(crate) nonce: u64,
    pub(crate) server_nonce: u64,
    /// The seed of the tags.
    pub(crate) seed: u64,
}

/// After this many probe timeouts an end considers the other end gone, if it has received
/// everything and only its own finish is unacknowledged. The other end lingers for less time than
/// these take. By then the finish was sent fifteen times, so the other end has received it.
const MAX_FINISH_TIMEOUTS: u32 = 8;
/// For how many probe timeouts an ended connection still answers: that is three doublings.
const LINGER_TIMEOUTS: u32 = 8;
/// How long the first hello waits for an answer.
const INITIAL_HELLO_INTERVAL: Duration = Duration::from_millis(250);
/// How long the first packet of an accepted client may take: at 30 % loss, about one in a hundred
/// thousand takes more than ten seconds.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);

impl Connection {
    /// The client's end, which sends a hello now.
    pub(crate) fn connect(now: Time, peer: SocketAddr, config: Config, ids: Ids) -> Connection {
        let hello = Hello { token: None, next_at: now, interval: INITIAL_HELLO_INTERVAL, count: 0 };
        Connection::new(now, peer, config, ids, State::Connecting(hello))
    }

    /// The server's end, for a client whose address is proven.
    pub(crate) fn accept(
        now: Time,
        peer: SocketAddr,
        config: Config,
        ids: Ids,
        parameters: &Parameters,
    ) -> Connection {
        let state = State::Accepting { is_answer_due: true };
        let mut connection = Connection::new(now, peer, config, ids, state);
        connection.deadline = now + connection.idle_timeout.min(ACCEPT_TIMEOUT);
        connection.negotiate(parameters);
        connection
    }

    fn new(now: Time, peer: SocketAddr, config: Config, ids: Ids, state: State) -> Connection {
        let window = Parameters::from(&config).window;
        Connection {
            peer,
            ids,
            state,
            deadline: now + config.idle_timeout,
            datagram: config.datagram_bytes,
            max_message: 0,
            idle_timeout: config.idle_timeout,
            last_received_at: now,
            last_ping_at: now,
            recovery: Recovery::default(),
            received: Received::default(),
            controller: Controller::new(config.control, config.datagram_bytes),
            pacer: Pacer::default(),
            paced_until: None,
            sending: SendQueue::default(),
            reassembly: Reassembly::new(config.is_ordered, config.message_bytes as u32, window),
            credit: Credit::default(),
            advertised: window,
            is_credit_due: false,
            is_ping_due: false,
            probes: 0,
            nagle: Nagle::Delay,
            copy_credit: 0,
            is_closing: false,
            finish: Finish::NotSent,
            finish_timeouts: 0,
            peer_finished: None,
            events: VecDeque::new(),
            closed: None,
            deferred_ack: None,
            stats: Stats::default(),
            outcome: Outcome::default(),
            parts: Vec::new(),
            config,
        }
    }

    /// Applies the parameters that the other end announces.
    fn negotiate(&mut self, parameters: &Parameters) {
        self.datagram = self.datagram.min(parameters.datagram_bytes.into());
        self.controller = Controller::new(self.config.control, self.datagram);
        self.max_message = parameters.message_bytes as usize;
        self.credit = parameters.window;
        self.idle_timeout = self.idle_timeout.min(parameters.idle_timeout);
    }

    /// Queues a message to be sent. Returns its number, which events refer to.
    ///
    /// # Errors
    ///
    /// [`SendError`]: the message was not queued; it says why and when to try again.
    pub fn send(&mut self, message: Vec<u8>) -> Result<MessageId, SendError> {
        match self.state {
            State::Connecting(_) | State::Accepting { .. } => return Err(SendError::NotConnected),
            State::Open if !self.is_closing => {}
            _ => return Err(SendError::Closed),
        }
        let bytes = message.len();
        if bytes > self.max_message {
            return Err(SendError::TooLong { bytes, most: self.max_message });
        }
        // An event that the caller has not fetched also takes memory; one that the caller could not
        // fetch yet does not count.
        let events = self.events.len() as u64;
        if !self.has_room_for(bytes, events) {
            self.apply_deferred_ack();
            if !self.has_room_for(bytes, events) {
                return Err(SendError::Full);
            }
        }
        Ok(self.sending.push(message))
    }

    /// Whether a message of this many bytes may be queued next to this many events.
    fn has_room_for(&self, bytes: usize, events: u64) -> bool {
        let messages = self.sending.unacknowledged() + events;
        let queued = self.sending.unacknowledged_bytes();
        messages < self.config.queue_messages.into()
            && (queued == 0 || queued + bytes as u64 <= self.config.queue_bytes)
    }

    /// Closes the connection gracefully: all messages that either end has queued still arrive and
    /// are acknowledged, but no more are accepted. Ends with [`Reason::Finished`]. A connection
    /// that is not established yet is given up.
    pub fn close(&mut self, now: Time) {
        match self.state {
            State::Open => self.is_closing = true,
            _ => self.abort(now, 0),
        }
    }

    /// Aborts the connection at once and sends the code to the other end, if it still listens.
    pub fn abort(&mut self, now: Time, code: u64) {
        self.apply_deferred_ack();
        match self.state {
            State::Open => {
                self.end(Reason::Aborted);
                self.linger(now);
                self.state = State::Aborting {
                    code: code.min(crate::wire::VARINT_MAX),
                    is_answer_due: true,
                };
            }
            State::Connecting(_) | State::Accepting { .. } => self.drop_as(Reason::Aborted),
            State::Aborting { .. } | State::Lingering | State::Drained => {}
        }
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The longest message that the other end accepts; zero before [`Event::Connected`].
    pub fn message_bytes_max(&self) -> usize {
        self.max_message
    }

    /// Counters, and the current state. An acknowledgement that arrived with a message counts once
    /// the message is reported, or once something was sent after it.
    pub fn stats(&self) -> Stats {
        Stats {
            round_trip: self.recovery.rtt.smoothed,
            round_trip_least: self.recovery.rtt.min.unwrap_or_default(),
            window_bytes: self.controller.window(),
            bytes_in_flight: self.recovery.bytes_in_flight(),
            pacing_bytes_per_second: self.controller.pacing(&self.recovery.rtt),
            queued_bytes: self.sending.unacknowledged_bytes(),
            unsent_bytes: self.sending.new_bytes(),
            queued_messages: self.sending.unacknowledged(),
            held_bytes: self.reassembly.held_bytes(),
            packets_remembered: self.recovery.remembered(),
            ranges_remembered: self.received.ranges(),
            ..self.stats
        }
    }

    pub(crate) fn ids(&self) -> Ids {
        self.ids
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if !self.has_event() {
            self.apply_deferred_ack();
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if let Some(message) = self.reassembly.next() {
            self.is_credit_due |= self.should_advertise_credit();
            return Some(Event::Message(message));
        }
        self.closed.take().map(Event::Closed)
    }

    /// Whether the credit has grown enough to advertise it: by a quarter of the window, or by less
    /// if the longest message would otherwise no longer fit. Both ends would then wait for each
    /// other.
    fn should_advertise_credit(&self) -> bool {
        let (now, before) = (self.reassembly.credit(), self.advertised);
        let window = self.config.window_bytes;
        let bytes = (window / 4).min(window - self.config.message_bytes as u64).max(1);
        let messages = u64::from(self.config.window_messages).div_ceil(4);
        now.bytes - before.bytes >= bytes || now.messages - before.messages >= messages
    }

    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty() || self.reassembly.has_next() || self.closed.is_some()
    }

    /// Whether every remaining event depends on the deferred acknowledgement.
    #[cfg(feature = "socket")]
    pub(crate) fn has_deferred_events_only(&self) -> bool {
        self.deferred_ack.is_some() && !self.has_event()
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.state, State::Drained)
    }

    /// Ends the connection: nothing more is sent or expected. Reports the messages that were not
    /// acknowledged.
    fn end(&mut self, reason: Reason) {
        let ids = self.sending.abandon();
        self.events.extend(ids.into_iter().map(Event::Undeliverable));
        self.closed = Some(reason);
    }

    /// Ends the connection without sending anything to the other end.
    fn drop_as(&mut self, reason: Reason) {
        self.end(reason);
        self.state = State::Drained;
    }

    fn linger(&mut self, now: Time) {
        self.deadline = now + LINGER_TIMEOUTS * self.recovery.probe_timeout();
        self.state = State::Lingering;
    }
}
