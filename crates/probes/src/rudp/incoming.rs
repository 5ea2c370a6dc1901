//! What has come to the end that receives, whether it is what was sent, and when.

use super::outgoing::{HEADER_BYTES, NUMBER_BYTES};
use costof_exchange::transfer::{Mark, Marks};
use costof_os::memory::pattern::pattern;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// No transfer lasts longer, whatever the other end says.
const LONGEST_NS: u64 = 60_000_000_000;
/// How much of each message is compared at its beginning and its end, as far as that is there.
const HEAD_BYTES: usize = 64;
const TAIL_BYTES: usize = 8;

/// The messages of one transfer, from the receiver's side.
#[derive(Debug)]
pub(super) struct Incoming {
    block: Vec<u8>,
    bytes: u64,
    messages: u64,
    /// What the first message says of itself, and how much of that is there.
    header: [u8; HEADER_BYTES],
    marks: Marks,
    lasts_ns: u64,
    /// Whether that was known before: no message has a header then.
    is_known: bool,
    /// How many bytes a window of messages is, where few come: the time is looked at whenever
    /// something does.
    window_bytes: Option<u64>,
    /// How much had come, and when: with the first piece, or with the first window once more comes.
    first: (u64, u64),
    last_ns: u64,
}

impl Incoming {
    /// Of messages of so many bytes. With a window there are few, and of each the time is to be known.
    pub(super) fn new(size: usize, window: Option<u64>) -> Incoming {
        Incoming {
            block: pattern(size),
            bytes: 0,
            messages: 0,
            header: [0; HEADER_BYTES],
            marks: Marks::new(),
            lasts_ns: 0,
            is_known: false,
            window_bytes: window.map(|window| window * size as u64),
            first: (0, 0),
            last_ns: 0,
        }
    }

    /// The same of a transfer of which both ends know how long it lasts: its messages, which may be
    /// shorter than a header, have none.
    pub(super) fn lasting(size: usize, lasts: Duration) -> Incoming {
        Incoming {
            lasts_ns: lasts.as_nanos() as u64,
            is_known: true,
            ..Incoming::new(size, None)
        }
    }

    /// A message of so many bytes came, of which others have looked at what it is.
    ///
    /// # Errors
    /// `InvalidData` where it is longer or shorter than those that were sent.
    pub(super) fn came(&mut self, bytes: usize) -> io::Result<()> {
        if bytes != self.block.len() {
            return Err(other_bytes());
        }
        self.messages += 1;
        self.count(bytes as u64);
        Ok(())
    }

    /// A whole message came, the next one if they come in order.
    ///
    /// # Errors
    /// `InvalidData` where it is not what was sent.
    pub(super) fn take(&mut self, message: &[u8], in_order: bool) -> io::Result<()> {
        let size = self.block.len();
        if self.is_known {
            let head = ..HEAD_BYTES.min(size);
            let tail = size.saturating_sub(TAIL_BYTES)..;
            let is_right = message.len() == size
                && message[head] == self.block[head]
                && message[tail.clone()] == self.block[tail];
            return match is_right {
                true => self.came(size),
                false => Err(other_bytes()),
            };
        }
        let (Some(number), Some(lasts)) = (
            message.first_chunk::<NUMBER_BYTES>(),
            message.get(NUMBER_BYTES..HEADER_BYTES),
        ) else {
            return Err(other_bytes());
        };
        let head = HEADER_BYTES..HEAD_BYTES.min(size);
        let tail = size - TAIL_BYTES..;
        let is_right = message.len() == size
            && (!in_order || u64::from_le_bytes(*number) == self.messages)
            && message[head.clone()] == self.block[head]
            && message[tail.clone()] == self.block[tail];
        if !is_right {
            return Err(other_bytes());
        }
        self.header[NUMBER_BYTES..].copy_from_slice(lasts);
        self.messages += 1;
        self.count(size as u64);
        Ok(())
    }

    /// A piece of a stream of messages came. Says how many messages are there now.
    ///
    /// # Errors
    /// `InvalidData` where it is not what was sent.
    pub(super) fn take_piece(&mut self, piece: &[u8]) -> io::Result<u64> {
        let size = self.block.len() as u64;
        for (at, byte) in (self.bytes..HEADER_BYTES as u64).zip(piece) {
            self.header[at as usize] = *byte;
        }
        let number = self.bytes.div_ceil(size);
        let at = (number * size - self.bytes) as usize;
        let wrong_number = !self.is_known
            && piece
                .get(at..at + NUMBER_BYTES)
                .is_some_and(|found| found != number.to_le_bytes());
        let header = match self.is_known {
            true => 0,
            false => HEADER_BYTES,
        };
        let tail = piece.len().saturating_sub(TAIL_BYTES);
        let wrong_tail = piece[tail..]
            .iter()
            .zip(self.bytes + tail as u64..)
            .map(|(byte, at)| (*byte, (at % size) as usize))
            .any(|(byte, within)| within >= header && byte != self.block[within]);
        if wrong_number || wrong_tail {
            return Err(other_bytes());
        }
        self.messages = (self.bytes + piece.len() as u64) / size;
        self.count(piece.len() as u64);
        Ok(self.messages)
    }

    #[inline]
    fn count(&mut self, bytes: u64) {
        if self.bytes == 0 {
            self.last_ns = self.marks.note(0);
            self.first = (bytes, self.last_ns);
        }
        let is_in_window = |window| self.first.0 < window && window <= self.bytes;
        if self.window_bytes.is_some_and(is_in_window) {
            self.first = (self.bytes, self.last_ns);
        }
        self.bytes += bytes;
        if self.window_bytes.is_some() {
            self.last_ns = self.note();
        } else if self.marks.is_due_after(bytes) {
            self.note();
        }
    }

    /// Notes how far it is: also where nothing has come for a while.
    pub(super) fn look(&mut self) {
        if self.bytes > 0 {
            self.note();
        }
    }

    fn note(&mut self) -> u64 {
        if !self.is_known && self.bytes >= HEADER_BYTES as u64 {
            let lasts = self.header.last_chunk::<8>().expect("it is longer");
            self.lasts_ns = u64::from_le_bytes(*lasts).min(LONGEST_NS);
        }
        self.marks.note(self.bytes)
    }

    /// Bytes in a second: all behind the first window, from when the last of that came until the last
    /// of all did. A window that leaves in one go comes in one go, so that to count from within it would
    /// count a window more than there are round trips. Where no more than a window came, all behind the
    /// first piece of it. None of a single piece, or where the time was not looked at so often.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first_bytes, first_ns) = self.first;
        let ns = self.last_ns.saturating_sub(first_ns);
        (ns > 0).then(|| (self.bytes - first_bytes) as f64 / ns as f64 * 1e9)
    }

    /// How far it was, from time to time.
    pub(super) fn marks(&self) -> &[Mark] {
        self.marks.marks()
    }

    /// How long the transfer was to last, as the sender says.
    pub(super) fn lasts(&self) -> Duration {
        Duration::from_nanos(self.lasts_ns)
    }
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")
}

#[cfg(test)]
mod tests {
    use super::super::outgoing::{Order, Outgoing};
    use super::*;

    const SIZE: usize = 100;

    fn sent(count: usize) -> Vec<u8> {
        let mut outgoing = Outgoing::new(Order {
            size: SIZE,
            window: None,
            lasts: Duration::from_millis(1234),
            longer: Duration::ZERO,
            messages: None,
            is_known: false,
        });
        let message = |_| outgoing.next().expect("no window holds it back").to_vec();
        (0..count).flat_map(message).collect()
    }

    #[test]
    fn messages_are_counted_and_say_how_long_it_lasts() {
        let mut incoming = Incoming::new(SIZE, None);
        for message in sent(20).chunks(SIZE) {
            incoming.take(message, true).unwrap();
        }
        incoming.look();
        assert_eq!(incoming.lasts(), Duration::from_millis(1234));
        assert_eq!((incoming.bytes, incoming.messages), (2000, 20));
    }

    #[test]
    fn a_stream_may_come_in_any_pieces() {
        let sent = sent(20);
        for piece in [1, 7, 16, 99, 100, 101, 350, 2000] {
            let mut incoming = Incoming::new(SIZE, None);
            let mut there = 0;
            for piece in sent.chunks(piece) {
                there = incoming.take_piece(piece).unwrap();
            }
            incoming.look();
            assert_eq!((there, incoming.lasts()), (20, Duration::from_millis(1234)));
        }
    }

    #[test]
    fn messages_of_a_byte_have_no_header() {
        let lasts = Duration::from_millis(300);
        for size in [1, 7, 100] {
            let message = pattern(size);
            let mut incoming = Incoming::lasting(size, lasts);
            incoming.take(&message, true).unwrap();
            incoming.take(&message, true).unwrap();
            incoming.came(size).unwrap();
            assert_eq!(incoming.take_piece(&message.repeat(3)).unwrap(), 6);
            incoming.look();
            assert_eq!((incoming.lasts(), incoming.bytes), (lasts, 6 * size as u64));
            let mut other = message.clone();
            other[size - 1] ^= 1;
            assert!(incoming.take(&other, true).is_err(), "{size}");
            assert!(incoming.take_piece(&other).is_err(), "{size}");
            assert!(incoming.came(size + 1).is_err(), "{size}");
        }
    }

    const PAUSE: Duration = Duration::from_millis(2);

    #[test]
    fn the_rate_ends_when_the_last_one_came() {
        let mut incoming = Incoming::new(SIZE, Some(1));
        assert_eq!(incoming.rate(), None);
        for message in sent(3).chunks(SIZE) {
            incoming.take(message, true).unwrap();
            std::thread::sleep(PAUSE);
        }
        let rate = incoming.rate().unwrap();
        // Nothing that is looked at later changes it.
        incoming.look();
        assert_eq!(incoming.rate(), Some(rate));
        let most = SIZE as f64 / PAUSE.as_secs_f64();
        assert!(rate > 0.0 && rate <= most, "{rate}");
    }

    #[test]
    fn a_window_that_comes_in_one_go_is_one_for_each_round_trip() {
        let rate_of = |window| {
            let mut incoming = Incoming::new(SIZE, Some(window));
            for window in sent(8).chunks(4 * SIZE) {
                for message in window.chunks(SIZE) {
                    incoming.take(message, true).unwrap();
                }
                std::thread::sleep(PAUSE);
            }
            incoming.rate().unwrap()
        };
        let most = 4.0 * SIZE as f64 / PAUSE.as_secs_f64();
        let rate = rate_of(4);
        assert!(rate > 0.0 && rate <= most, "{rate}");
        // Where no second window comes, what there is of the first one has to do.
        assert!(rate_of(8) > 0.0);
    }

    #[test]
    fn what_was_not_sent_is_noticed() {
        let sent = sent(3);
        let mut incoming = Incoming::new(SIZE, None);
        assert!(incoming.take(&sent[SIZE..2 * SIZE], true).is_err());
        assert!(incoming.take(&sent[SIZE..2 * SIZE], false).is_ok());
        assert!(incoming.take(&sent[..SIZE - 1], false).is_err());
        assert!(incoming.take(&sent[..SIZE + 1], false).is_err());
        for at in [HEADER_BYTES, HEAD_BYTES - 1, SIZE - 1] {
            let mut message = sent[..SIZE].to_vec();
            message[at] ^= 1;
            assert!(incoming.take(&message, false).is_err(), "{at}");
        }
        let mut incoming = Incoming::new(SIZE, None);
        let mut wrong = sent.clone();
        wrong[SIZE] ^= 1;
        assert!(incoming.take_piece(&wrong[..SIZE]).is_ok());
        assert!(incoming.take_piece(&wrong[SIZE..]).is_err());
    }

    #[test]
    fn a_sender_that_says_nonsense_holds_up_nobody() {
        let mut incoming = Incoming::new(SIZE, None);
        let mut message = sent(1);
        message[NUMBER_BYTES..HEADER_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
        incoming.take(&message, true).unwrap();
        incoming.look();
        assert_eq!(incoming.lasts(), Duration::from_secs(60));
    }
}
