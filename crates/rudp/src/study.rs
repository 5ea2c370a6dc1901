//! The protocol of the `reliable-datagrams` study, for comparison with this library's. A request is
//! a 64-bit sequence number and data; the answer is that number. A request without an answer is
//! retransmitted after a second. There is one request at a time, or a window of them.
//!
//! It is kept unchanged: no handshake, no checksum but UDP's, no measured round trip, no congestion
//! control, and no order but that of arrival. Numbers are big-endian.
//!
//! ```
//! use rudp::Time;
//! use rudp::study::{Receiver, Sender};
//!
//! let (mut sender, mut receiver) = (Sender::new(1), Receiver::default());
//! let (mut request, mut answer) = (Vec::new(), Vec::new());
//! let sent_at = Time::from_nanos(0);
//! let number = sender.send(b"hello".to_vec());
//! assert!(sender.poll_transmit(sent_at, &mut request));
//! // It is lost; a second later:
//! let later = sender.poll_timeout().expect("a request is in flight");
//! assert_eq!(later.since(sent_at).as_secs(), 1);
//! assert!(sender.poll_transmit(later, &mut request));
//! assert_eq!(receiver.handle_datagram(&request, &mut answer), Some(&b"hello"[..]));
//! sender.handle_datagram(&answer);
//! assert_eq!(sender.poll_acknowledged(), Some(number));
//! ```

use crate::range_set::RangeSet;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// After this time without an answer a request is retransmitted, unless the caller chooses another.
pub const RETRY: Duration = Duration::from_secs(1);

/// The end that sends messages.
#[derive(Debug)]
pub struct Sender {
    window: usize,
    retry: Duration,
    requests: VecDeque<Request>,
    first: u64,
    acknowledged: VecDeque<u64>,
    retransmissions: u64,
}

#[derive(Debug)]
struct Request {
    /// `None` once it is answered.
    data: Option<Vec<u8>>,
    sent_at: Option<Time>,
}

impl Sender {
    /// With at most this many requests in flight; 1 is the study's first version.
    pub fn new(window: usize) -> Sender {
        Sender {
            window: window.max(1),
            retry: RETRY,
            requests: VecDeque::new(),
            first: 0,
            acknowledged: VecDeque::new(),
            retransmissions: 0,
        }
    }

    /// Retransmits after this time instead of [`RETRY`].
    pub fn retry_after(self, retry: Duration) -> Sender {
        Sender { retry, ..self }
    }

    /// Queues a message. Returns its sequence number.
    pub fn send(&mut self, data: Vec<u8>) -> u64 {
        let request = Request { data: Some(data), sent_at: None };
        self.requests.push_back(request);
        self.first + self.requests.len() as u64 - 1
    }

    /// How many messages wait to be sent or answered.
    pub fn waiting(&self) -> usize {
        let open = self.requests.iter().filter(|request| request.data.is_some());
        open.count()
    }

    /// How often requests were retransmitted.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Handles a received datagram: an answer; anything else changes nothing.
    pub fn handle_datagram(&mut self, datagram: &[u8]) {
        let Ok(number) = datagram.try_into().map(u64::from_be_bytes) else {
            return;
        };
        let Some(at) = number.checked_sub(self.first) else {
            return;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(request) = self.requests.get_mut(at) else {
            return;
        };
        // An answer to something that was never sent is invalid.
        if request.sent_at.is_none() || request.data.take().is_none() {
            return;
        }
        self.acknowledged.push_back(number);
        let is_answered = |request: &mut Request| request.data.is_none();
        while self.requests.pop_front_if(is_answered).is_some() {
            self.first += 1;
        }
    }

    /// Writes the next request into the buffer, if one is due.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let retry = self.retry;
        let in_window = self.requests.iter_mut().zip(self.first..).take(self.window);
        for (request, number) in in_window {
            let Some(data) = &request.data else {
                continue;
            };
            if request.sent_at.is_some_and(|at| now < at + retry) {
                continue;
            }
            self.retransmissions += u64::from(request.sent_at.is_some());
            request.sent_at = Some(now);
            out.clear();
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(data);
            return true;
        }
        false
    }

    /// When [`Sender::poll_transmit`] has something to send again if nothing is received.
    pub fn poll_timeout(&self) -> Option<Time> {
        let open = self.requests.iter().take(self.window).filter(|request| request.data.is_some());
        open.filter_map(|request| request.sent_at).min().map(|at| at + self.retry)
    }

    /// The next message that is known to have arrived.
    pub fn poll_acknowledged(&mut self) -> Option<u64> {
        self.acknowledged.pop_front()
    }
}

/// The end that receives messages.
#[derive(Debug, Default)]
pub struct Receiver {
    received: RangeSet,
}

/// At most this many ranges of sequence numbers are kept; more gaps than any window has.
const MAX_RANGES: usize = 1 << 16;

impl Receiver {
    /// Handles a received datagram and writes the answer into the buffer. Returns the message, if
    /// it is new. A datagram that is not a request gets no answer: the buffer is then empty.
    pub fn handle_datagram<'a>(
        &mut self,
        datagram: &'a [u8],
        answer: &mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        answer.clear();
        let (number, data) = datagram.split_first_chunk()?;
        answer.extend_from_slice(number);
        let number = u64::from_be_bytes(*number);
        let end = number.checked_add(1)?;
        if self.received.insert(number..end) == 0 {
            return None;
        }
        if self.received.len() > MAX_RANGES {
            let second = self.received.iter().nth(1).map(|range| range.start);
            self.received.remove_below(second.unwrap_or(0));
        }
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sender: &mut Sender, now: Time) -> Vec<u64> {
        let mut request = Vec::new();
        let mut numbers = Vec::new();
        while sender.poll_transmit(now, &mut request) {
            let number = request.first_chunk().expect("a number is in front");
            numbers.push(u64::from_be_bytes(*number));
        }
        numbers
    }

    #[test]
    fn no_more_are_under_way_than_the_window_and_what_is_not_answered_goes_again() {
        let mut sender = Sender::new(2);
        for _ in 0..4 {
            sender.send(vec![1]);
        }
        let at = Time::from_nanos(1);
        assert_eq!(sent(&mut sender, at), [0, 1]);
        // Answers to unsent requests and malformed answers are ignored.
        for answer in [&2_u64.to_be_bytes()[..], &[0; 7], &[0; 9]] {
            sender.handle_datagram(answer);
        }
        assert_eq!((sender.poll_acknowledged(), sender.waiting()), (None, 4));
        sender.handle_datagram(&1_u64.to_be_bytes());
        assert_eq!(sender.poll_acknowledged(), Some(1));
        assert_eq!(sent(&mut sender, at), [], "the first still occupies the window");
        assert_eq!(sender.poll_timeout(), Some(at + RETRY));
        assert_eq!(sent(&mut sender, at + RETRY), [0]);
        assert_eq!(sender.retransmissions(), 1);
        sender.handle_datagram(&0_u64.to_be_bytes());
        assert_eq!(sent(&mut sender, at + RETRY), [2, 3]);
    }
}
