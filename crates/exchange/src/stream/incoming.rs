//! What has arrived at the receiver of a stream, whether it matches what was sent, and when it
//! arrived.

use super::HEADER_BYTES;
use crate::content::numbered::{NUMBER_BYTES, Numbered};
use crate::content::wrong_bytes;
use crate::progress::{Checkpoint, Checkpoints, Silence};
use std::io;
use std::time::{Duration, Instant};

/// No transfer lasts longer, whatever the sender announces.
const MAX_DURATION_NS: u64 = 60_000_000_000;

/// The messages of one transfer, at the receiver.
#[derive(Debug)]
pub struct Incoming {
    expected: Numbered,
    /// Bytes of messages that have arrived, each once.
    pub bytes: u64,
    messages: u64,
    /// The header of the first message, as far as it has arrived.
    header: [u8; HEADER_BYTES],
    checkpoints: Checkpoints,
    duration_ns: u64,
    /// Bytes of a window, if there is one: then few messages arrive, and the clock is read for each.
    window_bytes: Option<u64>,
    /// How much had arrived, and when: with the first piece, or once the first window was complete.
    first: (u64, u64),
    last_ns: u64,
    /// Whether the sender wants counts of the messages sent back, and the last count.
    counts_back: Option<bool>,
    counted_back: u64,
    silence: Silence,
}

impl Incoming {
    /// Messages of `size` bytes, each with a header. With a window, the arrival of each is recorded.
    pub fn new(size: usize, window: Option<u64>) -> Incoming {
        Incoming {
            expected: Numbered::new(size, HEADER_BYTES),
            bytes: 0,
            messages: 0,
            header: [0; HEADER_BYTES],
            checkpoints: Checkpoints::default(),
            duration_ns: 0,
            window_bytes: window.map(|window| window * size as u64),
            first: (0, 0),
            last_ns: 0,
            counts_back: None,
            counted_back: 0,
            silence: Silence::default(),
        }
    }

    /// Messages without a header, which may be shorter than one: both ends know the duration.
    pub fn without_header(size: usize, duration: Duration) -> Incoming {
        Incoming {
            expected: Numbered::new(size, 0),
            duration_ns: duration.as_nanos() as u64,
            ..Incoming::new(0, None)
        }
    }

    /// A whole message arrived: the next one, if they arrive in order.
    ///
    /// # Errors
    /// `InvalidData` if it is not what was sent.
    pub fn handle_message(&mut self, message: &[u8], in_order: bool) -> io::Result<()> {
        if !self.expected.is_message(message) {
            return Err(wrong_bytes());
        }
        if self.expected.has_header() {
            if in_order && message[..NUMBER_BYTES] != self.messages.to_le_bytes() {
                return Err(wrong_bytes());
            }
            self.header.copy_from_slice(&message[..HEADER_BYTES]);
        }
        self.messages += 1;
        self.count(message.len() as u64);
        Ok(())
    }

    /// A piece of a stream of messages arrived. Returns how many messages are complete now.
    ///
    /// # Errors
    /// `InvalidData` if it is not what was sent.
    fn handle_piece(&mut self, piece: &[u8]) -> io::Result<u64> {
        for (at, byte) in (self.bytes..HEADER_BYTES as u64).zip(piece) {
            self.header[at as usize] = *byte;
        }
        let is_numbered =
            !self.expected.has_header() || self.expected.is_numbered(piece, self.bytes);
        if !is_numbered || !self.expected.is_tail(piece, self.bytes) {
            return Err(wrong_bytes());
        }
        self.messages = (self.bytes + piece.len() as u64) / self.expected.size() as u64;
        self.count(piece.len() as u64);
        Ok(self.messages)
    }

    /// A piece of a stream of bytes arrived, which begins with
    /// [`Outgoing::preamble`](super::Outgoing::preamble). Returns what to answer the sender.
    ///
    /// # Errors
    /// `InvalidData` if it is not what was sent.
    pub fn handle_bytes(&mut self, mut piece: &[u8]) -> io::Result<Option<[u8; NUMBER_BYTES]>> {
        let counts_back = *self.counts_back.get_or_insert_with(|| {
            let preamble = piece[0];
            piece = &piece[1..];
            preamble == 1
        });
        let messages = self.handle_piece(piece)?;
        let is_new = counts_back && messages > self.counted_back;
        Ok(is_new.then(|| {
            self.counted_back = messages;
            messages.to_le_bytes()
        }))
    }

    #[inline]
    fn count(&mut self, bytes: u64) {
        if self.bytes == 0 {
            self.last_ns = self.checkpoints.record(0);
            self.first = (bytes, self.last_ns);
        }
        let completes = |window| self.first.0 < window && window <= self.bytes;
        if self.window_bytes.is_some_and(completes) {
            self.first = (self.bytes, self.last_ns);
        }
        self.bytes += bytes;
        if self.window_bytes.is_some() {
            self.last_ns = self.record_now();
        } else if self.checkpoints.is_due_after(bytes) {
            self.record_now();
        }
    }

    /// Records the progress, even if nothing has arrived for a while.
    pub fn record(&mut self) {
        if self.bytes > 0 {
            self.record_now();
        }
    }

    /// Something arrived that may be no progress, such as a message once more: the sender is not silent.
    pub fn something_arrived(&mut self) {
        self.silence = Silence::default();
    }

    /// Records the progress where nothing has arrived for a while.
    ///
    /// # Errors
    /// `TimedOut` if nothing has arrived for a minute.
    pub fn nothing_arrived(&mut self) -> io::Result<()> {
        self.record();
        self.silence.check(self.bytes, Instant::now)
    }

    fn record_now(&mut self) -> u64 {
        if self.expected.has_header() && self.bytes >= HEADER_BYTES as u64 {
            let duration = self.header.last_chunk::<8>().expect("it is longer");
            self.duration_ns = u64::from_le_bytes(*duration).min(MAX_DURATION_NS);
        }
        self.checkpoints.record(self.bytes)
    }

    /// Bytes per second: everything after the first window, from the arrival of that window's last message to
    /// the last arrival. A window that is sent at once arrives at once, so counting from within it would
    /// count one window more than there are round trips. If no more than a window arrived, everything after
    /// its first piece. `None` for a single piece, or without a window.
    pub fn rate(&self) -> Option<f64> {
        let (first_bytes, first_ns) = self.first;
        let ns = self.last_ns.saturating_sub(first_ns);
        (ns > 0).then(|| (self.bytes - first_bytes) as f64 / ns as f64 * 1e9)
    }

    /// Its progress, recorded from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.checkpoints.as_slice()
    }

    /// How long the transfer should last, as the sender announces it.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Order, Outgoing};
    use super::*;
    use costof_os::memory::pattern::pattern;

    const SIZE: usize = 100;
    const DURATION: Duration = Duration::from_millis(1234);

    fn sent(count: usize) -> Vec<u8> {
        let mut outgoing = Outgoing::new(Order {
            size: SIZE,
            window: None,
            duration: DURATION,
            grace: Duration::ZERO,
            messages: None,
            has_header: true,
        });
        let message = |_| outgoing.next_message().expect("no window").to_vec();
        (0..count).flat_map(message).collect()
    }

    #[test]
    fn messages_are_counted_and_announce_the_duration() {
        let mut incoming = Incoming::new(SIZE, None);
        for message in sent(20).chunks(SIZE) {
            incoming.handle_message(message, true).unwrap();
        }
        incoming.record();
        assert_eq!(incoming.duration(), DURATION);
        assert_eq!((incoming.bytes, incoming.messages), (2000, 20));
    }

    #[test]
    fn a_stream_may_come_in_any_pieces() {
        let sent = sent(20);
        for piece in [1, 7, 16, 99, 100, 101, 350, 2000] {
            let mut incoming = Incoming::new(SIZE, None);
            let mut messages = 0;
            for piece in sent.chunks(piece) {
                messages = incoming.handle_piece(piece).unwrap();
            }
            incoming.record();
            assert_eq!((messages, incoming.duration()), (20, DURATION));
        }
    }

    #[test]
    fn messages_are_counted_back_where_the_sender_wants_it() {
        for wants in [0, 1] {
            let mut incoming = Incoming::new(SIZE, None);
            let stream = [&[wants][..], &sent(2)].concat();
            let answers = stream.chunks(50).map(|piece| incoming.handle_bytes(piece));
            let counts: Vec<u64> =
                answers.filter_map(|answer| answer.unwrap().map(u64::from_le_bytes)).collect();
            let expected: &[u64] = if wants == 1 { &[1, 2] } else { &[] };
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn messages_of_a_byte_have_no_header() {
        let duration = Duration::from_millis(300);
        for size in [1, 7, 100] {
            let message = pattern(size);
            let mut incoming = Incoming::without_header(size, duration);
            for _ in 0..3 {
                incoming.handle_message(&message, true).unwrap();
            }
            assert_eq!(incoming.handle_piece(&message.repeat(3)).unwrap(), 6);
            incoming.record();
            let expected = (duration, 6 * size as u64);
            assert_eq!((incoming.duration(), incoming.bytes), expected);
            let mut other = message.clone();
            other[size - 1] ^= 1;
            assert!(incoming.handle_message(&other, true).is_err(), "{size}");
            assert!(incoming.handle_piece(&other).is_err(), "{size}");
            let longer = pattern(size + 1);
            assert!(incoming.handle_message(&longer, true).is_err(), "{size}");
        }
    }

    const PAUSE: Duration = Duration::from_millis(2);

    #[test]
    fn the_rate_ends_when_the_last_message_arrived() {
        let mut incoming = Incoming::new(SIZE, Some(1));
        assert_eq!(incoming.rate(), None);
        for message in sent(3).chunks(SIZE) {
            incoming.handle_message(message, true).unwrap();
            std::thread::sleep(PAUSE);
        }
        let rate = incoming.rate().unwrap();
        // Nothing that is recorded later changes it.
        incoming.record();
        assert_eq!(incoming.rate(), Some(rate));
        let most = SIZE as f64 / PAUSE.as_secs_f64();
        assert!(rate > 0.0 && rate <= most, "{rate}");
    }

    #[test]
    fn a_window_that_arrives_at_once_is_one_for_each_round_trip() {
        let rate_of = |window| {
            let mut incoming = Incoming::new(SIZE, Some(window));
            for window in sent(8).chunks(4 * SIZE) {
                for message in window.chunks(SIZE) {
                    incoming.handle_message(message, true).unwrap();
                }
                std::thread::sleep(PAUSE);
            }
            incoming.rate().unwrap()
        };
        let most = 4.0 * SIZE as f64 / PAUSE.as_secs_f64();
        let rate = rate_of(4);
        assert!(rate > 0.0 && rate <= most, "{rate}");
        // Without a second window, the first one must do.
        assert!(rate_of(8) > 0.0);
    }

    #[test]
    fn what_was_not_sent_is_noticed() {
        let sent = sent(3);
        let mut incoming = Incoming::new(SIZE, None);
        let second = &sent[SIZE..2 * SIZE];
        assert!(incoming.handle_message(second, true).is_err());
        assert!(incoming.handle_message(second, false).is_ok());
        assert!(incoming.handle_message(&sent[..SIZE - 1], false).is_err());
        assert!(incoming.handle_message(&sent[..SIZE + 1], false).is_err());
        for at in [HEADER_BYTES, 63, SIZE - 1] {
            let mut message = sent[..SIZE].to_vec();
            message[at] ^= 1;
            assert!(incoming.handle_message(&message, false).is_err(), "{at}");
        }
        let mut incoming = Incoming::new(SIZE, None);
        let mut wrong = sent.clone();
        wrong[SIZE] ^= 1;
        assert!(incoming.handle_piece(&wrong[..SIZE]).is_ok());
        assert!(incoming.handle_piece(&wrong[SIZE..]).is_err());
    }

    #[test]
    fn a_sender_that_announces_nonsense_delays_nobody() {
        let mut incoming = Incoming::new(SIZE, None);
        let mut message = sent(1);
        message[NUMBER_BYTES..HEADER_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
        incoming.handle_message(&message, true).unwrap();
        incoming.record();
        assert_eq!(incoming.duration(), Duration::from_secs(60));
    }
}
