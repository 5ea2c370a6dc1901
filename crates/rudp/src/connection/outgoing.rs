//! What a connection sends, and when it may.

use super::{Connection, Finish, Nagle, State};
use crate::frame;
use crate::outcome::Carried;
use crate::packet::{self, Handshake, MAX_HEADER, Step, TAG_LEN};
use crate::time::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A datagram with less than this much room left is padded, so that the datagrams of a batch have
/// one size (`UDP_SEGMENT`).
const PAD_BELOW: usize = 100;
/// With fewer packets in flight than this, a sender that sends no more for now cannot rely on two of them
/// arriving, which would be acknowledged at once.
const ACK_REQUEST_BELOW: u64 = 4;
/// With this many packets in flight, the next acknowledgement is near. The end of a message that would leave
/// a datagram more than half empty waits for it: by then the caller may have queued more to fill it.
/// Otherwise, messages slightly longer than a datagram would cost two datagrams each.
const NAGLE_MIN_IN_FLIGHT: u64 = 8;
/// It waits for at most this fraction of a round trip, and at most this long.
const NAGLE_RTT_FRACTION: u32 = 8;
const NAGLE_MAX_DELAY: Duration = Duration::from_millis(1);
/// Retransmitted data is sent once more at once while there is nothing else to send, because a second loss
/// would cost a second round trip. There is one such copy for this many other packets, so that a queue that
/// overflows does not get twice as much. At most `MAX_COPY_CREDIT` packets count for this.
const PACKETS_PER_COPY: u32 = 4;
const MAX_COPY_CREDIT: u32 = 64;
/// The longest interval between two hellos.
const MAX_HELLO_INTERVAL: Duration = Duration::from_millis(500);

/// The destination of the datagrams that
/// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit) wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The address.
    pub to: SocketAddr,
    /// The size of each datagram in the buffer; the last may be shorter.
    pub datagram_bytes: usize,
}

impl Connection {
    /// Appends the next datagrams that may leave together: all of one size except the last, which
    /// may be shorter.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        datagrams: usize,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut datagram_bytes = 0;
        for _ in 0..datagrams.max(1) {
            let start = out.len();
            if !self.write_datagram(now, out) {
                break;
            }
            let bytes = out.len() - start;
            if start == 0 {
                datagram_bytes = bytes;
            }
            // Only a full one may be followed by others, none of which is longer.
            let has_room = out.len() + datagram_bytes <= max_bytes;
            let is_last = bytes < datagram_bytes || bytes != self.datagram;
            if is_last || !has_room || self.has_answered() {
                break;
            }
        }
        (datagram_bytes > 0).then_some(Transmit { to: self.peer, datagram_bytes })
    }

    /// Appends the next datagram, if one may leave now.
    pub(super) fn write_datagram(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        match &mut self.state {
            State::Connecting(hello) => {
                if now < hello.next_at {
                    return false;
                }
                hello.next_at = now + hello.interval;
                hello.interval = (hello.interval * 3 / 2).min(MAX_HELLO_INTERVAL);
                hello.count += 1;
                self.last_ping_at = now;
                let step = Step::Hello((&self.config).into(), hello.token);
                self.write_handshake(out, self.ids.own, step)
            }
            State::Accepting { is_answer_due } => {
                let step = Step::Accept {
                    server: self.ids.own,
                    server_nonce: self.ids.server_nonce,
                    parameters: (&self.config).into(),
                };
                std::mem::take(is_answer_due) && self.write_handshake(out, self.ids.peer, step)
            }
            State::Open => self.write_data(now, out),
            State::Aborting { code, is_answer_due } => {
                let code = *code;
                std::mem::take(is_answer_due) && self.write_abort(now, out, code)
            }
            State::Lingering => self.received.is_due(now) && self.write_packet(now, out, false),
            State::Drained => false,
        }
    }

    /// Whether the reply was everything to send. What follows depends on the deferred
    /// acknowledgement.
    fn has_answered(&self) -> bool {
        self.deferred_ack.is_some() && !self.sending.has_unsent()
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>, client: u64, step: Step) -> bool {
        let start = out.len();
        let nonce = self.ids.nonce;
        let packet = Handshake { client, nonce, step };
        packet.write(out);
        self.count_sent(out.len() - start);
        true
    }

    fn write_abort(&mut self, now: Time, out: &mut Vec<u8>, code: u64) -> bool {
        let start = out.len();
        self.put_header(out);
        frame::put_abort(out, code);
        self.seal_non_eliciting(now, out, start);
        true
    }

    fn write_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.paced_until = None;
        if let Some(ack) = &mut self.deferred_ack {
            let is_first = !std::mem::replace(&mut ack.is_overtaken, true);
            if is_first && self.may_answer() {
                self.pacer.begin_anew();
                return self.write_packet(now, out, true);
            }
            self.apply_deferred_ack();
        }
        let may_send = if self.has_something_to_send() {
            self.probes > 0 || (!self.delays_partial_datagram(now) && self.may_send(now))
        } else {
            self.recovery.is_app_limited();
            self.may_copy() && self.may_send(now)
        };
        (may_send || self.received.is_due(now)) && self.write_packet(now, out, may_send)
    }

    /// Whether something new may leave before the deferred acknowledgement is applied. Nothing is in flight
    /// then, so the window allows one datagram, and pacing does not delay it.
    fn may_answer(&mut self) -> bool {
        self.sending.has_next(self.credit, self.controller.messages())
    }

    fn delays_partial_datagram(&mut self, now: Time) -> bool {
        let may_wait = self.nagle != Nagle::Send
            && self.recovery.packets_in_flight() >= NAGLE_MIN_IN_FLIGHT
            && self.sending.has_only_a_tail(self.datagram as u64 / 2)
            && !(self.is_credit_due || self.is_ping_due || self.is_closing)
            // `Fixed` counts messages, and each must be complete.
            && self.controller.messages() == u64::MAX;
        if may_wait && self.nagle == Nagle::Delay {
            let wait = (self.recovery.rtt.smoothed / NAGLE_RTT_FRACTION).min(NAGLE_MAX_DELAY);
            self.nagle = Nagle::DelayUntil(now + wait);
        }
        may_wait
    }

    fn is_finish_due(&self) -> bool {
        self.is_closing && self.finish == Finish::NotSent && self.sending.unacknowledged() == 0
    }

    fn has_something_to_send(&mut self) -> bool {
        let has_part = self.sending.has_next(self.credit, self.controller.messages());
        has_part
            || self.probes > 0
            || self.is_credit_due
            || self.is_ping_due
            || self.is_finish_due()
    }

    /// Whether window and pacing allow another datagram.
    fn may_send(&mut self, now: Time) -> bool {
        if !self.has_room(0) {
            return false;
        }
        if let Some(rate) = self.controller.pacing(&self.recovery.rtt) {
            self.paced_until = self.pacer.waits_until(now, rate, self.datagram);
        }
        self.paced_until.is_none()
    }

    /// Whether another datagram may be in flight after this many more bytes.
    fn has_room(&self, more: usize) -> bool {
        let in_flight = self.recovery.bytes_in_flight() + more as u64;
        in_flight == 0 || in_flight.saturating_add(self.datagram as u64) <= self.controller.window()
    }

    fn put_header(&self, out: &mut Vec<u8>) {
        let (number, from) = (self.recovery.next_number(), self.recovery.least_unacked());
        packet::put_header(out, self.ids.peer, number, from);
    }

    fn write_packet(&mut self, now: Time, out: &mut Vec<u8>, may_send: bool) -> bool {
        let start = out.len();
        let end = start + self.datagram - TAG_LEN;
        debug_assert!(start + MAX_HEADER < end, "the shortest datagram holds a header");
        self.put_header(out);
        let room = end - out.len();
        self.received.write_ack(now, out, room);
        let after_ack = out.len();
        if !may_send {
            self.seal_non_eliciting(now, out, start);
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
            self.seal_non_eliciting(now, out, start);
            return true;
        }
        if !self.parts.is_empty() && end - out.len() < PAD_BELOW {
            let missing = end - out.len();
            frame::put_padding(out, missing);
        }
        self.probes = self.probes.saturating_sub(1);
        self.nagle = Nagle::Delay;
        let bytes = out.len() + TAG_LEN - start;
        if is_probe || carried.finish || self.waits_after(bytes) {
            packet::request_ack(out, start);
        }
        packet::put_tag(out, start, self.ids.seed);
        if is_copy {
            self.recovery.sent_copy(now, bytes, &self.parts);
            self.copy_credit -= PACKETS_PER_COPY;
        } else {
            self.recovery.sent(now, bytes, carried, &self.parts);
            self.copy_credit = MAX_COPY_CREDIT.min(self.copy_credit + 1);
        }
        self.pacer.sent(bytes);
        self.count_sent(bytes);
        true
    }

    /// Appends the frames that are not messages.
    fn put_controls(&mut self, out: &mut Vec<u8>, end: usize) -> Carried {
        /// The longest of them.
        const ROOM: usize = 1 + 8 + 8;
        let mut carried = Carried::default();
        if self.is_credit_due && end - out.len() >= ROOM {
            let credit = self.reassembly.credit();
            frame::put_credit(out, credit);
            self.advertised = credit;
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
        while let Some(part) = self.sending.write_next(out, end - out.len(), self.credit, messages)
        {
            self.parts.push(part);
        }
    }

    /// Whether retransmitted data may be sent once more.
    fn may_copy(&mut self) -> bool {
        self.copy_credit >= PACKETS_PER_COPY && self.sending.has_copy()
    }

    /// Appends retransmitted data once more. Returns whether there was any.
    fn put_copies(&mut self, out: &mut Vec<u8>, end: usize) -> bool {
        while let Some(part) = self.sending.write_copy(out, end - out.len()) {
            self.parts.push(part);
        }
        !self.parts.is_empty()
    }

    /// Whether nothing follows a packet of this many bytes before something arrives.
    fn waits_after(&mut self, bytes: usize) -> bool {
        // If an acknowledgement is deferred, everything that counts as in flight has arrived.
        if self.deferred_ack.is_some() || self.recovery.packets_in_flight() + 1 >= ACK_REQUEST_BELOW
        {
            return false;
        }
        let messages = self.controller.messages();
        self.sending.is_idle()
            || self.sending.is_at_message_limit(messages)
            || self.sending.is_blocked(self.credit, messages)
            || (self.sending.has_next(self.credit, messages) && !self.has_room(bytes))
    }

    /// Completes a packet that will not be acknowledged.
    fn seal_non_eliciting(&mut self, now: Time, out: &mut Vec<u8>, start: usize) {
        packet::put_tag(out, start, self.ids.seed);
        self.recovery.sent_non_eliciting(now);
        self.count_sent(out.len() - start);
    }

    fn count_sent(&mut self, bytes: usize) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes as u64;
    }
}
