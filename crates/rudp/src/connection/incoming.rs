//! What a datagram does to a connection. All of it is checked before any of it is
//! acted upon, so that one that is not in order changes nothing.

use super::timers::ACCEPT_LASTS;
use super::{Connection, Finish, LateAck, State};
use crate::control::Controller;
use crate::ecn::Ecn;
use crate::event::{Event, Reason};
use crate::frame::{Ack, Frame};
use crate::packet::{self, Data, Packet, Parameters};
use crate::time::Time;
use crate::wire::Reader;
use std::time::Duration;

/// Most packets have no more frames than these: marks, an acknowledgement, a message, padding. What
/// follows them is read once more.
const FRAMES_KEPT: usize = 4;

/// The frames of a packet, in order.
struct Checked<'a> {
    /// Whether they are to be acknowledged.
    is_eliciting: bool,
    /// Whether a message is among them, or a part of one.
    has_message: bool,
    /// How many of the first are kept as they were read.
    kept: usize,
    /// What follows those.
    rest: Reader<'a>,
}

impl Connection {
    /// A packet for this connection came from the other end's address.
    pub(crate) fn handle_packet(&mut self, now: Time, ecn: Option<Ecn>, packet: &Packet<'_>) {
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
            Packet::Data(data) => self.handle_data(now, ecn, &data),
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

    fn handle_data(&mut self, now: Time, ecn: Option<Ecn>, data: &Data<'_>) {
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
        let mut first = [Frame::Padding; FRAMES_KEPT];
        let Some(checked) = self.check(data.frames, &mut first) else {
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
        for frame in &first[..checked.kept] {
            let late = match frame {
                Frame::Ack(ack) if checked.has_message => self.put_off(now, ack),
                _ => None,
            };
            match late {
                Some(_) => self.late = late,
                None => self.apply(now, frame),
            }
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
    fn check<'a>(
        &self,
        frames: &'a [u8],
        first: &mut [Frame<'a>; FRAMES_KEPT],
    ) -> Option<Checked<'a>> {
        let mut reader = Reader(frames);
        let mut checked = Checked {
            is_eliciting: false,
            has_message: false,
            kept: 0,
            rest: reader,
        };
        while !reader.is_empty() {
            let frame = Frame::read(&mut reader)?;
            checked.is_eliciting |= frame.is_eliciting();
            checked.has_message |= matches!(frame, Frame::Message(_));
            let is_allowed = match &frame {
                Frame::Ack(ack) => ack.largest < self.recovery.next_number(),
                Frame::Message(piece) => self.reassembly.check(piece).is_ok(),
                Frame::Finish { messages } => self.reassembly.has_all(*messages),
                Frame::Padding
                | Frame::Ping
                | Frame::Credit { .. }
                | Frame::Abort { .. }
                | Frame::Marks(_) => true,
            };
            if !is_allowed {
                return None;
            }
            if let Some(place) = first.get_mut(checked.kept) {
                *place = frame;
                checked.kept += 1;
                checked.rest = reader;
            }
        }
        Some(checked)
    }

    /// What to keep of an acknowledgement that may be put off: one of all that is under way, while nothing
    /// that arrived is to go again. Not where how fast packets arrive is taken from when they left and what
    /// had arrived by then.
    fn put_off(&self, now: Time, ack: &Ack<'_>) -> Option<LateAck> {
        let numbers = ack.ranges().next()?;
        let may_be_late = matches!(self.state, State::Open)
            && self.late.is_none()
            && self.recovery.is_all_there_is(&numbers)
            && !self.sending.has_lost()
            && !matches!(self.controller, Controller::Rate(_));
        may_be_late.then_some(LateAck {
            came_at: now,
            numbers,
            delay: ack.delay,
            is_overtaken: false,
        })
    }

    fn apply(&mut self, now: Time, frame: &Frame<'_>) {
        match frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => {
                self.catch_up();
                self.recovery
                    .acknowledge(now, ack.ranges(), ack.delay, &mut self.outcome);
                self.apply_outcome(now);
            }
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
            // Two parts in one packet may together be more than either: then the second is
            // not taken, from a sender that does not keep the rules.
            Frame::Message(piece) if matches!(self.state, State::Open) => {
                if self.reassembly.take(piece).is_err() {
                    self.stats.packets_rejected += 1;
                }
            }
            Frame::Message(_) => {}
        }
    }

    /// Whether only this end's last word is not acknowledged.
    pub(super) fn has_only_finish_open(&self) -> bool {
        self.finish == Finish::Sent
            && self.peer_finished.is_some()
            && self.sending.unacknowledged() == 0
    }
}
