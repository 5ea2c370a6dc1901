//! The code of the fuzz target `rudp_datagrams` (`fuzz/` of the workspace). The tests here run it on random bytes from fixed
//! seeds, so that the target keeps working.

use crate::frame::{self, Frame};
use crate::packet::{self, Data, HANDSHAKE_SEED, Handshake};
use crate::range_set::RangeSet;
use crate::wire::Reader;
use std::time::Duration;

/// Parses the bytes as a datagram and as frames. What was parsed must stay the same when it is
/// written and parsed again.
pub fn codec(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    packet::put_tag(&mut sealed, 0, HANDSHAKE_SEED);
    let (handshake, data) = (Handshake::read(&sealed), Data::read(&sealed));
    assert!(handshake.is_none() || data.is_none());
    if let Some(packet) = handshake {
        let mut written = Vec::new();
        packet.write(&mut written);
        assert_eq!(Handshake::read(&written), Some(packet));
    }
    let mut reader = Reader(bytes);
    while let Some(read) = Frame::read(&mut reader) {
        let mut written = Vec::new();
        let is_exact = write(&read, &mut written);
        let mut rest = Reader(&written);
        let found = Frame::read(&mut rest);
        assert!(rest.is_empty(), "{read:?}");
        match (read, found) {
            // Ranges are written in their shortest form; the input may have had a longer one.
            (Frame::Ack(read), Some(Frame::Ack(found))) => {
                assert_eq!(read.largest, found.largest);
                assert!(read.ranges().eq(found.ranges()));
                assert!(!is_exact || read.delay == found.delay);
            }
            (read, found) => assert_eq!(Some(read), found),
        }
    }
}

/// Writes the frame. Returns whether all of it was written without a limit.
fn write(frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
    match frame {
        Frame::Padding => frame::put_padding(out, 1),
        Frame::Ping => frame::put_ping(out),
        Frame::Credit(credit) => frame::put_credit(out, *credit),
        Frame::Finish { messages } => frame::put_finish(out, *messages),
        Frame::Abort { code } => frame::put_abort(out, *code),
        Frame::Message(piece) => frame::put_message(out, piece),
        Frame::Ack(ack) => {
            let mut received = RangeSet::new();
            for range in ack.ranges() {
                received.insert(*range.start()..range.end() + 1);
            }
            let has_room = frame::put_ack(out, &received, ack.delay, usize::MAX, usize::MAX);
            assert!(has_room);
            return ack.delay <= Duration::from_micros(1 << 30);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_codec_reads_what_it_writes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            codec(&bytes);
        }
    }

    #[test]
    fn frames_of_small_numbers_are_read_back() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut bytes = [0; 100];
        for _ in 0..100_000 {
            random.fill(&mut bytes);
            for byte in &mut bytes {
                // Most fields of frames are small numbers.
                if random.bool() {
                    *byte %= 9;
                }
            }
            codec(&bytes[..random.usize(..bytes.len())]);
        }
    }

    #[test]
    fn handshakes_are_read_back() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut bytes = [0; 120];
        for _ in 0..100_000 {
            random.fill(&mut bytes);
            bytes[0] = random.u8(0x11..0x14);
            // Where a hello or an acceptance has its window, which is below 2^40.
            let window = if bytes[0] == 0x11 { 23 } else { 39 };
            bytes[window..window + 4].fill(0);
            if bytes[0] == 0x11 {
                // A token or none.
                bytes[39] = [0, 24][random.usize(..2)];
            }
            codec(&bytes[..random.usize(80..bytes.len())]);
        }
    }
}
