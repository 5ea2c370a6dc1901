//! How a connection handles a datagram. It checks everything before it acts on anything, so that an
//! invalid datagram changes nothing.

use super::{ACCEPT_TIMEOUT, Connection, DeferredAck, Finish, State};
use crate::control::Controller;
use crate::event::{Event, Reason};
use crate::frame::{Ack, Frame, Piece};
use crate::packet::{self, Data, Handshake, Step};
use crate::time::Time;
use crate::wire::Reader;
use std::time::Duration;

/// The frames of a packet, in order: most begin with some of these, in this order, and have no
/// others.
pub(super) struct Checked<'a> {
    pub(super) ack: Option<Ack<'a>>,
    pub(super) message: Option<Piece<'a>>,
    /// What follows them, to be read again.
    pub(super) rest: Reader<'a>,
    /// Whether any of them elicits an acknowledgement.
    pub(super) is_ack_eliciting: bool,
    /// Whether a message is among them, or a part of one.
    pub(super) has_message: bool,
}

impl Connection {
    /// A handshake packet was received from the other end's address.
    pub(crate) fn handle_handshake(&mut self, now: Time, packet: &Handshake) {
        if packet.nonce != self.ids.nonce {
            self.stats.packets_rejected += 1;
            return;
        }
        match (packet.step, &mut self.state) {
            // Even if there is a token: it may have expired by now.
            (Step::Retry(token), State::Connecting(hello)) => {
                (hello.token, hello.next_at, hello.count) = (Some(token), now, 0);
            }
            (Step::Accept { server, server_nonce, parameters }, State::Connecting(hello)) => {
                if hello.count == 1 {
                    let round_trip = now.since(self.last_ping_at);
                    self.recovery.rtt.sample(round_trip, Duration::ZERO);
                }
                self.ids.peer = server;
                self.ids.server_nonce = server_nonce;
                self.ids.seed = packet::seed(self.ids.nonce, server_nonce);
                self.negotiate(&parameters);
                self.last_received_at = now;
                self.last_ping_at = now;
                self.state = State::Open;
                // This shows the server that its answer arrived.
                self.is_ping_due = true;
                self.events.push_back(Event::Connected);
            }
            (Step::Hello(..), State::Accepting { is_answer_due }) => {
                *is_answer_due = true;
                self.deadline = now + self.idle_timeout.min(ACCEPT_TIMEOUT);
            }
            _ => {}
        }
    }

    /// A data packet was received for this connection, from the other end's address.
    pub(crate) fn handle_data(&mut self, now: Time, data: &Data<'_>) {
        self.apply_deferred_ack();
        if matches!(self.state, State::Connecting(_) | State::Drained) {
            return;
        }
        if !data.has_tag(self.ids.seed) {
            self.stats.packets_rejected += 1;
            return;
        }
        if !self.received.is_new(data.number) {
            self.stats.packets_duplicate += 1;
            return;
        }
        let Some(checked) = self.check(data.frames) else {
            self.stats.packets_rejected += 1;
            return;
        };
        self.stats.packets_received += 1;
        self.last_received_at = now;
        if let State::Accepting { .. } = self.state {
            self.state = State::Open;
            self.events.push_back(Event::Connected);
        }
        self.received.record(now, data, checked.is_ack_eliciting);
        if let Some(ack) = &checked.ack
            && !(checked.has_message && self.defer_ack(now, ack))
        {
            self.apply_ack(now, ack);
        }
        if let Some(piece) = &checked.message {
            self.apply_message(piece);
        }
        let mut rest = checked.rest;
        while let Some(frame) = Frame::read(&mut rest) {
            self.apply(now, &frame);
        }
        if let State::Aborting { is_answer_due, .. } = &mut self.state {
            *is_answer_due = true;
        }
    }

    /// The frames, if all of them are valid.
    pub(super) fn check<'a>(&self, frames: &'a [u8]) -> Option<Checked<'a>> {
        let mut reader = Reader(frames);
        let ack = Frame::read_ack(&mut reader)?;
        let message = Frame::read_message(&mut reader)?;
        let mut checked = Checked {
            ack,
            message,
            rest: reader,
            is_ack_eliciting: message.is_some(),
            has_message: message.is_some(),
        };
        let mut has_ack = ack.is_some();
        let mut is_allowed = ack.is_none_or(|ack| self.allows_ack(&ack))
            && message.is_none_or(|piece| self.reassembly.check(&piece).is_ok());
        while is_allowed && !reader.is_empty() {
            let frame = Frame::read(&mut reader)?;
            checked.is_ack_eliciting |= frame.is_ack_eliciting();
            checked.has_message |= matches!(frame, Frame::Message(_));
            is_allowed = match &frame {
                // One packet has one: each is compared with everything in flight.
                Frame::Ack(ack) => !std::mem::replace(&mut has_ack, true) && self.allows_ack(ack),
                Frame::Message(piece) => self.reassembly.check(piece).is_ok(),
                Frame::Finish { messages } => self.reassembly.has_all(*messages),
                Frame::Padding | Frame::Ping | Frame::Credit(_) | Frame::Abort { .. } => true,
            };
        }
        is_allowed.then_some(checked)
    }

    /// Whether it acknowledges only packets that were sent.
    fn allows_ack(&self, ack: &Ack<'_>) -> bool {
        ack.largest < self.recovery.next_number()
    }

    /// Defers an acknowledgement of everything in flight, if nothing needs a retransmission. Not with `Rate`,
    /// which derives the delivery rate from when packets left and what had arrived by then. Returns whether
    /// it did.
    fn defer_ack(&mut self, now: Time, ack: &Ack<'_>) -> bool {
        let Some(numbers) = ack.ranges().next() else {
            return false;
        };
        let may_defer = matches!(self.state, State::Open)
            && self.deferred_ack.is_none()
            && self.recovery.is_all_in_flight(&numbers)
            && !self.sending.has_retransmissions()
            && !matches!(self.controller, Controller::Rate(_));
        if may_defer {
            self.deferred_ack = Some(DeferredAck {
                received_at: now,
                numbers,
                delay: ack.delay,
                is_overtaken: false,
            });
        }
        may_defer
    }

    fn apply_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.apply_deferred_ack();
        self.recovery.acknowledge(now, ack.ranges(), ack.delay, &mut self.outcome);
        self.apply_outcome(now);
    }

    fn apply_message(&mut self, piece: &Piece<'_>) {
        // Two parts in one packet may together exceed the limits that each keeps. Only a sender that violates
        // the protocol does this; its second part is then not taken.
        if matches!(self.state, State::Open) && self.reassembly.take(piece).is_err() {
            self.stats.packets_rejected += 1;
        }
    }

    fn apply(&mut self, now: Time, frame: &Frame<'_>) {
        match frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => self.apply_ack(now, ack),
            Frame::Credit(credit) => {
                self.credit.bytes = self.credit.bytes.max(credit.bytes);
                self.credit.messages = self.credit.messages.max(credit.messages);
            }
            Frame::Finish { messages } => {
                self.apply_deferred_ack();
                self.peer_finished = Some(*messages);
                self.is_closing = true;
                self.finish_if_done(now);
            }
            Frame::Abort { code } => {
                self.apply_deferred_ack();
                if let State::Open = self.state {
                    self.end(Reason::AbortedByPeer { code: *code });
                    self.linger(now);
                }
            }
            Frame::Message(piece) => self.apply_message(piece),
        }
    }

    /// Whether only this end's finish is unacknowledged.
    pub(super) fn has_only_finish_unacked(&self) -> bool {
        self.finish == Finish::Sent
            && self.peer_finished.is_some()
            && self.sending.unacknowledged() == 0
    }
}
