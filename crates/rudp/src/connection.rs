//! One connection: what comes in, what goes out, when something is to be done
//! without either.

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;
mod timers;

use crate::config::Config;
use crate::control::{Acknowledged, Controller, Lost, Marked};
use crate::cookie::Token;
use crate::ecn::Marking;
use crate::event::{Event, MessageId, Reason, SendError};
use crate::pacing::Pacer;
use crate::packet::Parameters;
use crate::reassembly::{Credit, Reassembly};
use crate::received::Received;
use crate::recovery::{Outcome, Recovery};
use crate::send::{Part, Sending};
use crate::stats::Stats;
use crate::time::Time;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A connection to another end, kept by an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Connection {
    config: Config,
    peer: SocketAddr,
    ids: Ids,
    state: State,
    /// The longest datagram that both ends take.
    datagram: usize,
    /// The longest message that the other end takes.
    message_max: usize,
    idle: Duration,
    heard_at: Time,
    asked_at: Time,
    recovery: Recovery,
    received: Received,
    marking: Marking,
    controller: Controller,
    pacer: Pacer,
    /// When pacing lets the next packet go, if it holds one back.
    released_at: Option<Time>,
    sending: Sending,
    reassembly: Reassembly,
    /// What the other end lets us send, and what it was told that it may send.
    credit: Credit,
    told: Credit,
    is_credit_due: bool,
    is_ping_due: bool,
    /// Packets that may leave whatever the window says.
    probes: u32,
    short: Short,
    /// Packets that left since one went once more, of which that takes some.
    copies_earned: u32,
    /// Whether this end takes no more messages to send.
    is_closing: bool,
    finish: Finish,
    /// How many probe timeouts have said it again since anything was acknowledged.
    last_words: u32,
    /// How many messages the other end sent, all of which it knows to be here.
    peer_finished: Option<u64>,
    events: VecDeque<Event>,
    /// Told after everything else.
    closed: Option<Reason>,
    /// What waits until the answer to the message that it came with has left.
    late: Option<LateAck>,
    stats: Stats,
    /// Kept for their memory.
    outcome: Outcome,
    parts: Vec<Part>,
}

/// The numbers by which packets are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    /// What the other end writes on packets to us.
    pub(crate) own: u64,
    pub(crate) peer: u64,
    /// The client's nonce, and the server's.
    pub(crate) nonce: u64,
    pub(crate) server_nonce: u64,
    /// Of the tags.
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client asks, first for a token, then with it.
    Connecting {
        token: Option<Token>,
        asks_at: Time,
        wait: Duration,
        asked: u32,
        until: Time,
    },
    /// The server answers, and waits for the client to be heard.
    Accepting {
        is_answer_due: bool,
        until: Time,
    },
    Open,
    /// It is over; the other end may not know yet.
    Lingering {
        until: Time,
        abort: Option<u64>,
        is_abort_due: bool,
    },
    Drained,
}

/// How far telling the other end that everything is sent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    NotSent,
    Sent,
    Acknowledged,
}

/// What becomes of a datagram that would be mostly empty while many are under way: it waits
/// for the next acknowledgement, and not for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    Waits,
    WaitsUntil(Time),
    MayGo,
}

/// An acknowledgement that came with a message, of all that was under way, so that nothing is lost and
/// the answer to the message may leave before it is worked through. After that this answer alone is
/// under way, which any window lets.
#[derive(Clone, Debug)]
struct LateAck {
    came_at: Time,
    numbers: RangeInclusive<u64>,
    delay: Duration,
    /// Whether one datagram has left since: others wait.
    is_overtaken: bool,
}

/// After so many probe timeouts without an answer the network is taken for congested (RFC
/// 9002 section 7.6).
const TIMEOUTS_PERSISTENT: u32 = 3;
/// After so many an end that has everything, and whose own last word alone is not
/// acknowledged, takes the other end for gone: it lingers for less than these take. By then
/// the word was said fifteen times, so that the other end has heard it.
const TIMEOUTS_LAST_WORD: u32 = 8;
/// For how many probe timeouts an end that is done still answers: that is three doublings.
const LINGERS: u32 = 8;

impl Connection {
    /// The client's end, which begins to ask now.
    pub(crate) fn connect(now: Time, peer: SocketAddr, config: Config, ids: Ids) -> Connection {
        let state = State::Connecting {
            token: None,
            asks_at: now,
            wait: timers::HELLO_WAIT,
            asked: 0,
            until: now + config.idle_timeout,
        };
        Connection::new(now, peer, config, ids, state)
    }

    /// The server's end, for a client whose address is proven.
    pub(crate) fn accept(
        now: Time,
        peer: SocketAddr,
        config: Config,
        ids: Ids,
        parameters: &Parameters,
    ) -> Connection {
        let until = now + config.idle_timeout.min(timers::ACCEPT_LASTS);
        let state = State::Accepting {
            is_answer_due: true,
            until,
        };
        let mut connection = Connection::new(now, peer, config, ids, state);
        connection.agree(parameters);
        connection
    }

    fn new(now: Time, peer: SocketAddr, config: Config, ids: Ids, state: State) -> Connection {
        let window = Credit {
            bytes: config.window_bytes,
            messages: config.window_messages.into(),
        };
        Connection {
            peer,
            ids,
            state,
            datagram: config.datagram_bytes,
            message_max: 0,
            idle: config.idle_timeout,
            heard_at: now,
            asked_at: now,
            recovery: Recovery::new(),
            received: Received::default(),
            marking: Marking::default(),
            controller: Controller::new(config.control, config.datagram_bytes),
            pacer: Pacer::default(),
            released_at: None,
            sending: Sending::default(),
            reassembly: Reassembly::new(config.is_ordered, config.message_bytes as u32, window),
            credit: Credit::default(),
            told: window,
            is_credit_due: false,
            is_ping_due: false,
            probes: 0,
            short: Short::Waits,
            copies_earned: 0,
            is_closing: false,
            finish: Finish::NotSent,
            last_words: 0,
            peer_finished: None,
            events: VecDeque::new(),
            closed: None,
            late: None,
            stats: Stats::default(),
            outcome: Outcome::default(),
            parts: Vec::new(),
            config,
        }
    }

    /// Takes over what the other end says of itself.
    fn agree(&mut self, parameters: &Parameters) {
        self.datagram = self.datagram.min(parameters.datagram.into());
        self.controller = Controller::new(self.config.control, self.datagram);
        self.message_max = parameters.message as usize;
        self.credit = Credit {
            bytes: parameters.window,
            messages: parameters.messages.into(),
        };
        self.idle = self.idle.min(parameters.idle);
    }

    /// Takes a message to be sent. Its number, by which events speak of it.
    ///
    /// # Errors
    ///
    /// [`SendError`]: the message was not taken; it says why and when to try again.
    pub fn send(&mut self, message: Vec<u8>) -> Result<MessageId, SendError> {
        match self.state {
            State::Connecting { .. } | State::Accepting { .. } => {
                return Err(SendError::NotConnected);
            }
            State::Open if !self.is_closing => {}
            _ => return Err(SendError::Closed),
        }
        let bytes = message.len();
        if bytes > self.message_max {
            return Err(SendError::TooLong {
                bytes,
                most: self.message_max,
            });
        }
        // An event that nobody fetches takes memory too; one that nobody could fetch yet does not count.
        let events = self.events.len() as u64;
        if !self.has_room_for(bytes, events) {
            self.catch_up();
            if !self.has_room_for(bytes, events) {
                return Err(SendError::Full);
            }
        }
        Ok(self.sending.push(message))
    }

    /// Whether a message of so many bytes may be queued beside so many events.
    fn has_room_for(&self, bytes: usize, events: u64) -> bool {
        let messages = self.sending.unacknowledged() + events;
        let queued = self.sending.unacknowledged_bytes();
        messages < self.config.queue_messages.into()
            && (queued == 0 || queued + bytes as u64 <= self.config.queue_bytes)
    }

    /// Ends the connection in order: what either end has taken to be sent still arrives
    /// and is acknowledged, but nothing more is taken. Ends with [`Reason::Finished`]. A
    /// connection that is not established yet is given up.
    pub fn close(&mut self, now: Time) {
        match self.state {
            State::Open => self.is_closing = true,
            State::Connecting { .. } | State::Accepting { .. } => self.abort(now, 0),
            State::Lingering { .. } | State::Drained => {}
        }
    }

    /// Gives the connection up at once and tells the other end why, if that hears it.
    pub fn abort(&mut self, now: Time, code: u64) {
        self.catch_up();
        match self.state {
            State::Open => {
                self.end(Reason::Aborted);
                self.linger(now, Some(code.min(crate::wire::VARINT_MAX)));
            }
            State::Connecting { .. } | State::Accepting { .. } => {
                self.end(Reason::Aborted);
                self.state = State::Drained;
            }
            State::Lingering { .. } | State::Drained => {}
        }
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The longest message that the other end takes; zero before [`Event::Connected`].
    pub fn message_bytes_max(&self) -> usize {
        self.message_max
    }

    /// What was counted, and how things stand. An acknowledgement that came with a message counts when
    /// it is told, or when something has left since.
    pub fn stats(&self) -> Stats {
        Stats {
            is_marking: self.marking.may_mark(),
            round_trip: self.recovery.rtt.smoothed,
            round_trip_least: self.recovery.rtt.least.unwrap_or_default(),
            window_bytes: self.controller.window(),
            bytes_under_way: self.recovery.bytes_under_way(),
            pacing_bytes_per_second: self.controller.pacing(&self.recovery.rtt),
            queued_bytes: self.sending.unacknowledged_bytes(),
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

    /// The next thing that happened.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if !self.has_event() {
            self.catch_up();
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if let Some(message) = self.reassembly.next() {
            self.is_credit_due |= self.is_credit_worth_telling();
            return Some(Event::Message(message));
        }
        self.closed.take().map(Event::Closed)
    }

    /// Whether the other end may send so much more than it knows that it should be told. A
    /// quarter of the window, unless with less the longest message would not fit any more:
    /// both ends would then wait for each other.
    fn is_credit_worth_telling(&self) -> bool {
        let (now, told) = (self.reassembly.credit(), self.told);
        let window = self.config.window_bytes;
        let bytes = (window / 4)
            .min(window - self.config.message_bytes as u64)
            .max(1);
        let messages = u64::from(self.config.window_messages).div_ceil(4);
        now.bytes - told.bytes >= bytes || now.messages - told.messages >= messages
    }

    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty() || self.reassembly.has_next() || self.closed.is_some()
    }

    /// Whether nothing is to be told unless an acknowledgement is worked through.
    #[cfg(feature = "socket")]
    pub(crate) fn may_tell_later(&self) -> bool {
        self.late.is_some() && !self.has_event()
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.state, State::Drained)
    }

    /// Nothing more is sent or expected; what was not acknowledged is reported.
    fn end(&mut self, reason: Reason) {
        if matches!(self.state, State::Lingering { .. } | State::Drained) {
            return;
        }
        let ids = self.sending.give_up();
        self.events
            .extend(ids.into_iter().map(Event::Undeliverable));
        self.closed = Some(reason);
    }

    fn linger(&mut self, now: Time, abort: Option<u64>) {
        let until = now + LINGERS * self.recovery.probe_timeout();
        self.state = State::Lingering {
            until,
            abort,
            is_abort_due: abort.is_some(),
        };
    }

    /// Works through the acknowledgement that was put off, if one was.
    fn catch_up(&mut self) {
        if let Some(late) = self.late.take() {
            let numbers = std::iter::once(late.numbers);
            self.recovery
                .acknowledge(late.came_at, numbers, late.delay, &mut self.outcome);
            self.apply_outcome(late.came_at);
        }
    }

    /// Acts upon what an acknowledgement or a timeout has changed.
    fn apply_outcome(&mut self, now: Time) {
        let mut outcome = std::mem::take(&mut self.outcome);
        for part in &outcome.acknowledged {
            if let Some(id) = self.sending.acknowledge(*part) {
                self.events.push_back(Event::Acknowledged(id));
            }
        }
        for part in &outcome.lost {
            self.sending.lose(*part);
        }
        self.is_credit_due |= outcome.carried_lost.credit;
        if outcome.carried_lost.finish && self.finish == Finish::Sent {
            self.finish = Finish::NotSent;
        }
        if outcome.carried_acknowledged.finish {
            self.finish = Finish::Acknowledged;
        }
        self.tell_controller(now, &outcome);
        outcome.clear();
        self.outcome = outcome;
        self.finish_if_all_is_said(now);
    }

    fn tell_controller(&mut self, now: Time, outcome: &Outcome) {
        let rtt = &self.recovery.rtt;
        if let Some(sent_at) = outcome.lost_sent_at {
            self.controller.lost(&Lost {
                now,
                bytes: outcome.lost_bytes,
                sent_at,
            });
            self.stats.packets_lost += outcome.lost_packets;
            let least = rtt.least.unwrap_or(rtt.smoothed);
            if rtt.smoothed > least + least / 8 + Duration::from_millis(2) {
                self.stats.packets_lost_in_queue += outcome.lost_packets;
            }
        }
        if let Some(sent_at) = outcome.acknowledged_sent_at {
            let packets = self.marking.acknowledged(outcome.marked_packets);
            if packets > 0 {
                self.stats.packets_marked += packets;
                self.controller.marked(&Marked {
                    now,
                    packets,
                    sent_at,
                });
            }
        }
        if outcome.spurious_packets > 0 {
            self.controller.spurious(outcome.spurious_bytes);
            self.stats.packets_spuriously_lost += outcome.spurious_packets;
        }
        if let Some(sent_at) = outcome.acknowledged_sent_at {
            if let Short::WaitsUntil(_) = self.short {
                self.short = Short::MayGo;
            }
            self.controller.acknowledged(&Acknowledged {
                now,
                bytes: outcome.acknowledged_bytes,
                sent_at,
                prior_delivered: outcome.prior_delivered,
                delivered: self.recovery.delivered(),
                rtt,
                has_rtt: outcome.has_rtt,
                delivery: outcome.delivery,
                is_app_limited: self.recovery.was_app_limited(),
                is_window_unused: self.recovery.was_window_unused(),
            });
        }
    }

    fn finish_if_all_is_said(&mut self, now: Time) {
        let is_over = self.finish == Finish::Acknowledged && self.peer_finished.is_some();
        if is_over && matches!(self.state, State::Open) {
            self.end(Reason::Finished);
            self.linger(now, None);
        }
    }
}
