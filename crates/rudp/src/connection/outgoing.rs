//! What a connection sends, and when it may.

use super::{Connection, Finish, Ids, Short, State};
use crate::frame;
use crate::packet::{self, HEADER_MAX, Packet, Parameters, TAG_LEN};
use crate::recovery::Carried;
use crate::time::Time;
use std::time::Duration;

/// Where less than this is left of a datagram it is filled, so that datagrams that leave
/// in one go are of one size (`UDP_SEGMENT`).
const FILLED: usize = 100;
/// With fewer packets than this under way a sender that sends no more, for now, cannot count
/// on two to arrive, which would be acknowledged at once.
const PACKETS_AWAITED: u64 = 4;
/// With so many packets under way the next acknowledgement is near. The end of a message that
/// would leave a datagram more than half empty waits for it: by then the caller may have given
/// what fills it. Messages a little longer than a datagram would otherwise cost two each.
const PACKETS_WAITED_FOR: u64 = 8;
/// It waits for this part of a round trip at most, and for this time.
const FILLED_WITHIN: u32 = 8;
const FILLED_WITHIN_MOST: Duration = Duration::from_millis(1);
/// What was lost and went again goes once more at once while there is nothing else to send: a second
/// loss would cost a second round trip. One packet for so many others, so that a queue that overflows
/// does not get twice as much; and so many others count.
const PACKETS_PER_COPY: u32 = 4;
const COPIES_EARNED_MOST: u32 = 64;
/// The longest pause between two hellos.
const HELLO_WAIT_MAX: Duration = Duration::from_millis(500);

impl Connection {
    /// Whether the datagrams that leave next are to be marked as from one who understands marks.
    pub(crate) fn begin_batch(&mut self) -> bool {
        self.recovery.is_marking = matches!(self.state, State::Open) && self.marking.may_mark();
        self.recovery.is_marking
    }

    /// Appends the next datagram, if there is one to go now.
    pub(crate) fn write_datagram(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        match &mut self.state {
            State::Connecting {
                token,
                asks_at,
                wait,
                asked,
                ..
            } => {
                if now < *asks_at {
                    return false;
                }
                *asks_at = now + *wait;
                *wait = (*wait * 3 / 2).min(HELLO_WAIT_MAX);
                *asked += 1;
                let token = *token;
                self.asked_at = now;
                self.write_handshake(out, |ids, parameters| Packet::Hello {
                    client: ids.own,
                    nonce: ids.nonce,
                    parameters,
                    token,
                })
            }
            State::Accepting { is_answer_due, .. } => {
                if !std::mem::take(is_answer_due) {
                    return false;
                }
                self.write_handshake(out, |ids, parameters| Packet::Accept {
                    client: ids.peer,
                    nonce: ids.nonce,
                    server: ids.own,
                    server_nonce: ids.server_nonce,
                    parameters,
                })
            }
            State::Open => self.write_data(now, out),
            State::Lingering {
                abort: Some(code),
                is_abort_due,
                ..
            } => {
                let code = *code;
                std::mem::take(is_abort_due) && self.write_abort(now, out, code)
            }
            State::Lingering { .. } => {
                self.received.is_due(now) && self.write_packet(now, out, false)
            }
            State::Drained => false,
        }
    }

    /// Whether a datagram of this size is as long as any.
    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        bytes == self.datagram
    }

    /// Whether an answer was all that was to be sent, so that nothing else may follow it but what is
    /// known when it has left.
    pub(crate) fn has_answered(&self) -> bool {
        self.late.is_some() && !self.sending.has_unsent()
    }

    fn write_handshake(
        &mut self,
        out: &mut Vec<u8>,
        packet: impl FnOnce(Ids, Parameters) -> Packet,
    ) -> bool {
        let start = out.len();
        packet(self.ids, self.config.parameters()).write(out);
        self.count_sent(out.len() - start);
        true
    }

    fn write_abort(&mut self, now: Time, out: &mut Vec<u8>, code: u64) -> bool {
        let start = out.len();
        self.put_header(out);
        frame::put_abort(out, code);
        self.seal_unanswered(now, out, start);
        true
    }

    fn write_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.released_at = None;
        if let Some(late) = &mut self.late {
            let is_first = !std::mem::replace(&mut late.is_overtaken, true);
            if is_first && self.may_answer() {
                self.pacer.begin_anew();
                return self.write_packet(now, out, true);
            }
            self.catch_up();
        }
        let may_send = match self.has_something_to_send() {
            false => {
                self.recovery.is_app_limited();
                self.may_copy() && self.may_send(now)
            }
            true => self.probes > 0 || (!self.waits_to_be_filled(now) && self.may_send(now)),
        };
        (may_send || self.received.is_due(now)) && self.write_packet(now, out, may_send)
    }

    /// Whether something new may leave before what came with the last message is worked through. Nothing
    /// is under way then: the window lets one datagram go, and it may go whatever pacing says.
    fn may_answer(&mut self) -> bool {
        self.sending
            .has_next(self.credit, self.controller.messages())
    }

    fn waits_to_be_filled(&mut self, now: Time) -> bool {
        let may_wait = self.short != Short::MayGo
            && self.recovery.packets_under_way() >= PACKETS_WAITED_FOR
            && self.sending.has_only_an_end(self.datagram as u64 / 2)
            && !(self.is_credit_due || self.is_ping_due || self.is_closing)
            // There it is messages that are counted, and each is to be complete.
            && self.controller.messages() == u64::MAX;
        if may_wait && self.short == Short::Waits {
            let wait = (self.recovery.rtt.smoothed / FILLED_WITHIN).min(FILLED_WITHIN_MOST);
            self.short = Short::WaitsUntil(now + wait);
        }
        may_wait
    }

    fn is_finish_due(&self) -> bool {
        self.is_closing && self.finish == Finish::NotSent && self.sending.unacknowledged() == 0
    }

    fn has_something_to_send(&mut self) -> bool {
        let has_part = self
            .sending
            .has_next(self.credit, self.controller.messages());
        has_part
            || self.probes > 0
            || self.is_credit_due
            || self.is_ping_due
            || self.is_finish_due()
    }

    /// Whether window and pacing let one more datagram go.
    fn may_send(&mut self, now: Time) -> bool {
        if !self.has_room(0) {
            return false;
        }
        if let Some(rate) = self.controller.pacing(&self.recovery.rtt) {
            self.released_at = self.pacer.waits_until(now, rate, self.datagram);
        }
        self.released_at.is_none()
    }

    /// Whether one more datagram may be under way after so many more bytes.
    fn has_room(&self, more: usize) -> bool {
        let under_way = self.recovery.bytes_under_way() + more as u64;
        under_way == 0 || under_way.saturating_add(self.datagram as u64) <= self.controller.window()
    }

    fn put_header(&self, out: &mut Vec<u8>) {
        let (number, from) = (self.recovery.next_number(), self.recovery.waits_from());
        packet::put_header(out, self.ids.peer, number, from, false);
    }

    fn write_packet(&mut self, now: Time, out: &mut Vec<u8>, may_send: bool) -> bool {
        let start = out.len();
        let end = start + self.datagram - TAG_LEN;
        debug_assert!(
            start + HEADER_MAX < end,
            "the shortest datagram holds a header"
        );
        self.put_header(out);
        let room = end - out.len();
        self.received.write_ack(now, out, room);
        let after_ack = out.len();
        if !may_send {
            self.seal_unanswered(now, out, start);
            return true;
        }
        let carried = self.put_controls(out, end);
        self.put_parts(out, end);
        let is_copy = out.len() == after_ack && self.may_copy() && self.put_copies(out, end);
        let is_probe = self.probes > 0;
        if is_probe && out.len() == after_ack && out.len() < end {
            frame::put_ping(out);
        }
        if out.len() == after_ack {
            // The acknowledgement left no room.
            self.seal_unanswered(now, out, start);
            return true;
        }
        if !self.parts.is_empty() && end - out.len() < FILLED {
            let missing = end - out.len();
            frame::put_padding(out, missing);
        }
        self.probes = self.probes.saturating_sub(1);
        self.short = Short::Waits;
        let bytes = out.len() + TAG_LEN - start;
        if is_probe || carried.finish || self.waits_after(bytes) {
            packet::mark_awaited(out, start);
        }
        packet::put_tag(out, start, self.ids.seed);
        match is_copy {
            true => {
                self.recovery.sent_copy(now, bytes, &self.parts);
                self.copies_earned -= PACKETS_PER_COPY;
            }
            false => {
                self.recovery.sent(now, bytes, carried, &self.parts);
                self.copies_earned = COPIES_EARNED_MOST.min(self.copies_earned + 1);
            }
        }
        self.pacer.sent(bytes);
        self.count_sent(bytes);
        true
    }

    /// Appends what is not a message.
    fn put_controls(&mut self, out: &mut Vec<u8>, end: usize) -> Carried {
        /// The longest of them.
        const ROOM: usize = 1 + 8 + 8;
        let mut carried = Carried::default();
        if self.is_credit_due && end - out.len() >= ROOM {
            let credit = self.reassembly.credit();
            frame::put_credit(out, credit.bytes, credit.messages);
            self.told = credit;
            self.is_credit_due = false;
            carried.credit = true;
        }
        if self.is_finish_due() && end - out.len() >= ROOM {
            frame::put_finish(out, self.sending.count());
            self.finish = Finish::Sent;
            carried.finish = true;
        }
        if self.is_ping_due && end - out.len() >= ROOM {
            frame::put_ping(out);
            self.is_ping_due = false;
        }
        carried
    }

    fn put_parts(&mut self, out: &mut Vec<u8>, end: usize) {
        self.parts.clear();
        let messages = self.controller.messages();
        while let Some(part) = self
            .sending
            .write_next(out, end - out.len(), self.credit, messages)
        {
            self.parts.push(part);
        }
    }

    /// Whether what went again may go once more.
    fn may_copy(&mut self) -> bool {
        self.copies_earned >= PACKETS_PER_COPY && self.sending.has_copy()
    }

    /// Appends what went again, once more. Whether there was any.
    fn put_copies(&mut self, out: &mut Vec<u8>, end: usize) -> bool {
        while let Some(part) = self.sending.write_copy(out, end - out.len()) {
            self.parts.push(part);
        }
        !self.parts.is_empty()
    }

    /// Whether nothing follows a packet of so many bytes before something arrives.
    fn waits_after(&mut self, bytes: usize) -> bool {
        // All that counts as under way has arrived where that is not worked through yet.
        if self.late.is_some() || self.recovery.packets_under_way() + 1 >= PACKETS_AWAITED {
            return false;
        }
        let messages = self.controller.messages();
        self.sending.has_nothing_left()
            || self.sending.is_at(messages)
            || self.sending.is_held_back(self.credit, messages)
            || (self.sending.has_next(self.credit, messages) && !self.has_room(bytes))
    }

    /// Ends a packet that nobody acknowledges.
    fn seal_unanswered(&mut self, now: Time, out: &mut Vec<u8>, start: usize) {
        packet::put_tag(out, start, self.ids.seed);
        self.recovery.sent_unanswered(now);
        self.count_sent(out.len() - start);
    }

    fn count_sent(&mut self, bytes: usize) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes as u64;
        if self.recovery.is_marking {
            self.marking.sent();
        }
    }
}
