//! What a datagram does to a connection. All of it is checked before any of it is
//! acted upon, so that one that is not in order changes nothing.

use super::timers::ACCEPT_LASTS;
use super::{Connection, Finish, LateAck, State};
use crate::control::Controller;
use crate::ecn::{Ecn, Marks};
use crate::event::{Event, Reason};
use crate::frame::{Ack, Frame, Piece};
use crate::packet::{self, Data, Packet, Parameters};
use crate::time::Time;
use crate::wire::Reader;
use std::time::Duration;

/// The frames of a packet, in order: most begin with some of these, in this order, and have no
/// others.
pub(super) struct Checked<'a> {
    pub(super) marks: Option<Marks>,
    pub(super) ack: Option<Ack<'a>>,
    pub(super) message: Option<Piece<'a>>,
    /// What follows those, to be read once more.
    pub(super) rest: Reader<'a>,
    /// Whether any of them is to be acknowledged.
    pub(super) is_eliciting: bool,
    /// Whether a message is among them, or a part of one.
    pub(super) has_message: bool,
}

impl Connection {
    /// A packet of the handshake came for this connection, from the other end's address.
    pub(crate) fn handle_handshake(&mut self, now: Time, packet: &Packet) {
        match *packet {
            // Also where there is a token: it may be too old by now.
            Packet::Retry {
                nonce, token: new, ..
            } if nonce == self.ids.nonce => {
                if let State::Connecting {
                    token,
                    asks_at,
                    asked,
                    ..
                } = &mut self.state
                {
                    (*token, *asks_at, *asked) = (Some(new), now, 0);
                }
            }
            Packet::Accept {
                nonce,
                server,
                server_nonce,
                parameters,
                ..
            } if nonce == self.ids.nonce => {
                self.handle_accept(now, server, server_nonce, &parameters);
            }
            Packet::Hello { nonce, .. } if nonce == self.ids.nonce => {
                if let State::Accepting { .. } = self.state {
                    // Who still asks is still there.
                    let until = now + self.idle.min(ACCEPT_LASTS);
                    self.state = State::Accepting {
                        is_answer_due: true,
                        until,
                    };
                }
            }
            _ => self.stats.packets_rejected += 1,
        }
    }

    fn handle_accept(&mut self, now: Time, server: u64, nonce: u64, parameters: &Parameters) {
        let State::Connecting { asked, .. } = self.state else {
            return;
        };
        self.ids.peer = server;
        self.ids.server_nonce = nonce;
        self.ids.seed = packet::seed(self.ids.nonce, nonce);
        self.agree(parameters);
        if asked == 1 {
            self.recovery
                .rtt
                .sample(now.since(self.asked_at), Duration::ZERO);
        }
        self.heard_at = now;
        self.asked_at = now;
        self.state = State::Open;
        // So that the server knows that it was heard.
        self.is_ping_due = true;
        self.events.push_back(Event::Connected);
    }

    /// A data packet came for this connection, from the other end's address.
    pub(crate) fn handle_data(&mut self, now: Time, ecn: Option<Ecn>, data: &Data<'_>) {
        self.catch_up();
        match self.state {
            State::Connecting { .. } | State::Drained => return,
            State::Accepting { .. } | State::Open | State::Lingering { .. } => {}
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
        self.heard_at = now;
        if let State::Accepting { .. } = self.state {
            self.state = State::Open;
            self.events.push_back(Event::Connected);
        }
        let (number, waits_from) = (data.number, data.waits_from);
        self.received.take(
            now,
            number,
            waits_from,
            checked.is_eliciting,
            data.is_awaited,
            ecn,
        );
        if let Some(marks) = checked.marks {
            self.marking.told(marks);
        }
        if let Some(ack) = &checked.ack
            && !(checked.has_message && self.put_off(now, ack))
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
        if let State::Lingering {
            abort: Some(_),
            is_abort_due,
            ..
        } = &mut self.state
        {
            *is_abort_due = true;
        }
    }

    /// What the frames are, if all of them are in order.
    pub(super) fn check<'a>(&self, frames: &'a [u8]) -> Option<Checked<'a>> {
        let mut reader = Reader(frames);
        let marks = Frame::read_marks(&mut reader)?;
        let ack = Frame::read_ack(&mut reader)?;
        let message = Frame::read_message(&mut reader)?;
        let mut checked = Checked {
            marks,
            ack,
            message,
            rest: reader,
            is_eliciting: message.is_some(),
            has_message: message.is_some(),
        };
        let mut is_allowed = ack.is_none_or(|ack| self.allows_ack(&ack))
            && message.is_none_or(|piece| self.reassembly.check(&piece).is_ok());
        while is_allowed && !reader.is_empty() {
            let frame = Frame::read(&mut reader)?;
            checked.is_eliciting |= frame.is_eliciting();
            checked.has_message |= matches!(frame, Frame::Message(_));
            is_allowed = match &frame {
                Frame::Ack(ack) => self.allows_ack(ack),
                Frame::Message(piece) => self.reassembly.check(piece).is_ok(),
                Frame::Finish { messages } => self.reassembly.has_all(*messages),
                Frame::Padding
                | Frame::Ping
                | Frame::Credit { .. }
                | Frame::Abort { .. }
                | Frame::Marks(_) => true,
            };
        }
        is_allowed.then_some(checked)
    }

    /// Whether it names nothing that was not sent.
    fn allows_ack(&self, ack: &Ack<'_>) -> bool {
        ack.largest < self.recovery.next_number()
    }

    /// Puts an acknowledgement off, if it may be: one of all that is under way, while nothing
    /// that arrived is to go again. Not where how fast packets arrive is taken from when they left and what
    /// had arrived by then. Whether it did.
    fn put_off(&mut self, now: Time, ack: &Ack<'_>) -> bool {
        let Some(numbers) = ack.ranges().next() else {
            return false;
        };
        let may_be_late = matches!(self.state, State::Open)
            && self.late.is_none()
            && self.recovery.is_all_there_is(&numbers)
            && !self.sending.has_lost()
            && !matches!(self.controller, Controller::Rate(_));
        if may_be_late {
            self.late = Some(LateAck {
                came_at: now,
                numbers,
                delay: ack.delay,
                is_overtaken: false,
            });
        }
        may_be_late
    }

    fn apply_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.catch_up();
        self.recovery
            .acknowledge(now, ack.ranges(), ack.delay, &mut self.outcome);
        self.apply_outcome(now);
    }

    fn apply_message(&mut self, piece: &Piece<'_>) {
        // Two parts in one packet may together be more than either: then the second is
        // not taken, from a sender that does not keep the rules.
        if matches!(self.state, State::Open) && self.reassembly.take(piece).is_err() {
            self.stats.packets_rejected += 1;
        }
    }

    fn apply(&mut self, now: Time, frame: &Frame<'_>) {
        match frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => self.apply_ack(now, ack),
            Frame::Marks(marks) => self.marking.told(*marks),
            Frame::Credit { bytes, messages } => {
                self.credit.bytes = self.credit.bytes.max(*bytes);
                self.credit.messages = self.credit.messages.max(*messages);
            }
            Frame::Finish { messages } => {
                self.catch_up();
                self.peer_finished = Some(*messages);
                self.is_closing = true;
                self.finish_if_all_is_said(now);
            }
            Frame::Abort { code } => {
                self.catch_up();
                if let State::Open = self.state {
                    self.end(Reason::AbortedByPeer { code: *code });
                    self.linger(now, None);
                }
            }
            Frame::Message(piece) => self.apply_message(piece),
        }
    }

    /// Whether only this end's last word is not acknowledged.
    pub(super) fn has_only_finish_open(&self) -> bool {
        self.finish == Finish::Sent
            && self.peer_finished.is_some()
            && self.sending.unacknowledged() == 0
    }
}
