//! The format of datagrams: four kinds, each of which ends with a tag.
//!
//! ```text
//! hello   kind 8 | client's id 64 | nonce 64 | parameters | token length 8 | token | zeros
//! retry   kind 8 | client's id 64 | nonce 64 | token 192
//! accept  kind 8 | client's id 64 | nonce 64 | server's id 64 | server's nonce 64 | parameters
//! data    kind 8 | receiver's id 64 | packet number 64 | number − least unacknowledged | frames
//! all     … | tag 64
//! ```
//!
//! **The tag** is XXH3 with 64 bits over everything before it. UDP's own checksum has 16 bits, is
//! optional in IPv4, and is often computed by the device that damages packets: it would let one in
//! 65,536 of the packets through that a path damages. XXH3 lets one in 2⁶⁴ through. It is several
//! times as fast as a keyed cryptographic hash, which would limit the rate on loopback. The seed of
//! a connection comes from both ends' nonces. So packets from an older connection do not pass, nor
//! do those from a stranger who saw none of ours. The tag does not protect against anybody who can
//! read the packets. A version with encryption would put its authentication tag in the same place,
//! and number its kinds after these.

use crate::config::{Config, MIN_DATAGRAM};
use crate::frame::Credit;
use crate::token::Token;
use crate::wire::{Reader, put_u64s, put_varint};
use std::time::Duration;
use twox_hash::XxHash3_64;

/// The bytes that end every datagram.
pub(crate) const TAG_LEN: usize = 8;
/// The longest header in front of the frames.
pub(crate) const MAX_HEADER: usize = 1 + 8 + 8 + 8;
/// A hello is padded to this length, so that no answer is longer than the hello (RFC 9000 section
/// 8.1 allows three times as much).
pub(crate) const HELLO_LEN: usize = 96;

const HELLO: u8 = 0x11;
const RETRY: u8 = 0x12;
const ACCEPT: u8 = 0x13;
const DATA: u8 = 0x14;
/// A data packet whose sender asks for an immediate acknowledgement.
const DATA_WANTS_ACK: u8 = 0x15;

/// The seed of tags before both ends know each other's nonce.
pub(crate) const HANDSHAKE_SEED: u64 = 0x7275_6470_0000_0001;

/// The parameters that an end announces when it connects (RFC 9000 section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// The longest datagram that it sends or accepts.
    pub(crate) datagram_bytes: u16,
    /// The longest message that it accepts.
    pub(crate) message_bytes: u32,
    /// How much it buffers for its caller.
    pub(crate) window: Credit,
    pub(crate) idle_timeout: Duration,
}

/// A datagram of a handshake, with a valid tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The id and the nonce that the client chose.
    pub(crate) client: u64,
    pub(crate) nonce: u64,
    pub(crate) step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Hello(Parameters, Option<Token>),
    Retry(Token),
    Accept { server: u64, server_nonce: u64, parameters: Parameters },
}

/// A data packet whose tag is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    pub(crate) receiver: u64,
    pub(crate) number: u64,
    /// The lowest packet number whose acknowledgement still matters to the sender.
    pub(crate) least_unacked: u64,
    pub(crate) wants_ack: bool,
    pub(crate) frames: &'a [u8],
    datagram: &'a [u8],
}

impl<'a> Data<'a> {
    /// Parses the datagram, if it is a data packet.
    #[inline]
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Data<'a>> {
        let (body, _) = datagram.split_last_chunk::<TAG_LEN>()?;
        let (kind, rest) = body.split_first()?;
        if !matches!(*kind, DATA | DATA_WANTS_ACK) {
            return None;
        }
        let mut reader = Reader(rest);
        let receiver = reader.u64()?;
        let number = reader.u64().filter(|number| *number < 1 << 62)?;
        Some(Data {
            receiver,
            number,
            least_unacked: number.checked_sub(reader.varint()?)?,
            wants_ack: *kind == DATA_WANTS_ACK,
            frames: reader.0,
            datagram,
        })
    }

    #[cfg(test)]
    pub(crate) fn new(number: u64, least_unacked: u64, wants_ack: bool) -> Data<'a> {
        Data { receiver: 0, number, least_unacked, wants_ack, frames: &[], datagram: &[] }
    }

    /// Whether it is intact and comes from the other end of the connection with this seed.
    pub(crate) fn has_tag(&self, seed: u64) -> bool {
        has_tag(self.datagram, seed)
    }
}

/// The seed of a connection's tags.
pub(crate) fn seed(client_nonce: u64, server_nonce: u64) -> u64 {
    let mut nonces = Vec::with_capacity(16);
    put_u64s(&mut nonces, &[client_nonce, server_nonce]);
    XxHash3_64::oneshot_with_seed(HANDSHAKE_SEED, &nonces)
}

fn has_tag(datagram: &[u8], seed: u64) -> bool {
    let split = datagram.split_last_chunk::<TAG_LEN>();
    split.is_some_and(|(body, tag)| *tag == XxHash3_64::oneshot_with_seed(seed, body).to_be_bytes())
}

/// Appends the tag of the datagram that begins at `start`.
pub(crate) fn put_tag(out: &mut Vec<u8>, start: usize, seed: u64) {
    let tag = XxHash3_64::oneshot_with_seed(seed, &out[start..]);
    out.extend_from_slice(&tag.to_be_bytes());
}

/// Appends the header of a data packet.
pub(crate) fn put_header(out: &mut Vec<u8>, receiver: u64, number: u64, least_unacked: u64) {
    out.push(DATA);
    put_u64s(out, &[receiver, number]);
    put_varint(out, number - least_unacked);
}

/// Makes the data packet that begins at `start` request an immediate acknowledgement.
pub(crate) fn request_ack(out: &mut [u8], start: usize) {
    out[start] = DATA_WANTS_ACK;
}

impl Handshake {
    /// Parses the datagram, if it belongs to a handshake and is intact.
    pub(crate) fn read(datagram: &[u8]) -> Option<Handshake> {
        let (body, _) = datagram.split_last_chunk::<TAG_LEN>()?;
        let (kind, body) = body.split_first()?;
        if !matches!(*kind, HELLO | RETRY | ACCEPT) || !has_tag(datagram, HANDSHAKE_SEED) {
            return None;
        }
        let mut reader = Reader(body);
        let (client, nonce) = (reader.u64()?, reader.u64()?);
        let step = match *kind {
            HELLO if datagram.len() < HELLO_LEN => return None,
            HELLO => Step::Hello(Parameters::read(&mut reader)?, read_token(&mut reader)?),
            RETRY => Step::Retry(reader.array()?),
            _ => Step::Accept {
                server: reader.u64()?,
                server_nonce: reader.u64()?,
                parameters: Parameters::read(&mut reader)?,
            },
        };
        Some(Handshake { client, nonce, step })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(match self.step {
            Step::Hello(..) => HELLO,
            Step::Retry(_) => RETRY,
            Step::Accept { .. } => ACCEPT,
        });
        put_u64s(out, &[self.client, self.nonce]);
        match &self.step {
            Step::Hello(parameters, token) => {
                parameters.write(out);
                let token = token.as_ref().map_or(&[][..], |token| token);
                out.push(token.len() as u8);
                out.extend_from_slice(token);
                out.resize(out.len().max(start + HELLO_LEN - TAG_LEN), 0);
            }
            Step::Retry(token) => out.extend_from_slice(token),
            Step::Accept { server, server_nonce, parameters } => {
                put_u64s(out, &[*server, *server_nonce]);
                parameters.write(out);
            }
        }
        put_tag(out, start, HANDSHAKE_SEED);
    }
}

/// The token after its length, which is zero if there is none.
fn read_token(reader: &mut Reader<'_>) -> Option<Option<Token>> {
    match usize::from(reader.u8()?) {
        0 => Some(None),
        len if len == size_of::<Token>() => reader.array().map(Some),
        _ => None,
    }
}

impl From<&Config> for Parameters {
    fn from(config: &Config) -> Parameters {
        Parameters {
            datagram_bytes: config.datagram_bytes as u16,
            message_bytes: config.message_bytes as u32,
            window: Credit { bytes: config.window_bytes, messages: config.window_messages.into() },
            idle_timeout: config.idle_timeout,
        }
    }
}

impl Parameters {
    fn read(reader: &mut Reader<'_>) -> Option<Parameters> {
        let parameters = Parameters {
            datagram_bytes: reader.u16()?,
            message_bytes: reader.u32()?,
            window: Credit { bytes: reader.u64()?, messages: reader.u32()?.into() },
            idle_timeout: Duration::from_millis(reader.u32()?.into()),
        };
        let is_valid = usize::from(parameters.datagram_bytes) >= MIN_DATAGRAM
            && parameters.window.bytes >= parameters.message_bytes.into()
            && parameters.window.bytes < 1 << 40
            && parameters.window.messages > 0
            && parameters.idle_timeout > Duration::ZERO;
        is_valid.then_some(parameters)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.datagram_bytes.to_be_bytes());
        out.extend_from_slice(&self.message_bytes.to_be_bytes());
        out.extend_from_slice(&self.window.bytes.to_be_bytes());
        out.extend_from_slice(&(self.window.messages as u32).to_be_bytes());
        let idle_ms = u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX);
        out.extend_from_slice(&idle_ms.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameters() -> impl Strategy<Value = Parameters> {
        let numbers = (200..=u16::MAX, any::<u32>(), 1..u32::MAX, 1..u32::MAX, 0..1_u64 << 38);
        numbers.prop_map(|(datagram_bytes, message_bytes, messages, idle_ms, more)| {
            let bytes = u64::from(message_bytes) + more;
            let messages = messages.into();
            Parameters {
                datagram_bytes,
                message_bytes,
                window: Credit { bytes, messages },
                idle_timeout: Duration::from_millis(idle_ms.into()),
            }
        })
    }

    fn handshake() -> impl Strategy<Value = Handshake> {
        let token = || prop::array::uniform24(any::<u8>());
        let step = prop_oneof![
            (parameters(), prop::option::of(token()))
                .prop_map(|(parameters, token)| Step::Hello(parameters, token)),
            token().prop_map(Step::Retry),
            (any::<[u64; 2]>(), parameters()).prop_map(|([server, server_nonce], parameters)| {
                Step::Accept { server, server_nonce, parameters }
            }),
        ];
        (any::<[u64; 2]>(), step).prop_map(|([client, nonce], step)| Handshake {
            client,
            nonce,
            step,
        })
    }

    #[test]
    fn a_hello_that_is_shorter_than_its_answers_is_none() {
        let mut hello = Vec::new();
        let packet =
            Handshake { client: 1, nonce: 2, step: Step::Hello((&Config::default()).into(), None) };
        packet.write(&mut hello);
        assert_eq!(hello.len(), HELLO_LEN);
        // All of its fields are there, and the tag is right.
        hello.truncate(HELLO_LEN - TAG_LEN - 1);
        put_tag(&mut hello, 0, HANDSHAKE_SEED);
        assert_eq!(Handshake::read(&hello), None);
    }

    #[test]
    fn each_end_of_a_connection_has_its_part_in_the_seed() {
        let seeds = [seed(1, 2), seed(1, 3), seed(3, 2), seed(2, 1), HANDSHAKE_SEED];
        for (at, one) in seeds.iter().enumerate() {
            assert!(!seeds[..at].contains(one), "{seeds:x?}");
        }
    }

    proptest! {
        #[test]
        fn a_handshake_is_read_back_and_a_damaged_one_is_not(
            packet in handshake(),
            flip in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut datagram = Vec::new();
            packet.write(&mut datagram);
            prop_assert_eq!(Handshake::read(&datagram), Some(packet));
            prop_assert!(datagram.len() <= HELLO_LEN);
            let cut = flip.index(datagram.len());
            prop_assert_eq!(Handshake::read(&datagram[..cut]), None);
            datagram[cut] ^= 1 << bit;
            prop_assert_eq!(Handshake::read(&datagram), None);
        }

        #[test]
        fn a_data_packet_is_read_back_and_a_damaged_one_has_no_tag(
            receiver in any::<u64>(),
            number in 0..1_u64 << 62,
            back in 0..100_000_u64,
            wants_ack in any::<bool>(),
            frames in prop::collection::vec(any::<u8>(), 0..100),
            seed in any::<u64>(),
            flip in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let least_unacked = number.saturating_sub(back);
            let mut datagram = vec![1, 2, 3];
            put_header(&mut datagram, receiver, number, least_unacked);
            if wants_ack {
                request_ack(&mut datagram, 3);
            }
            datagram.extend_from_slice(&frames);
            put_tag(&mut datagram, 3, seed);
            let mut datagram = datagram.split_off(3);
            prop_assert_eq!(Handshake::read(&datagram), None);
            let data = Data::read(&datagram).expect("it is a data packet");
            prop_assert_eq!((data.receiver, data.number), (receiver, number));
            prop_assert_eq!((data.least_unacked, data.wants_ack), (least_unacked, wants_ack));
            prop_assert_eq!(data.frames, &frames[..]);
            prop_assert!(data.has_tag(seed));
            prop_assert!(!data.has_tag(seed ^ 1), "another connection's packet");
            let at = flip.index(datagram.len());
            let passes = |datagram: &[u8]| {
                Data::read(datagram).is_some_and(|data| data.has_tag(seed))
            };
            prop_assert!(!passes(&datagram[..at]));
            datagram[at] ^= 1 << bit;
            prop_assert!(!passes(&datagram));
        }

        #[test]
        fn rubbish_is_no_handshake(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Handshake::read(&bytes), None);
            let has_tag = Data::read(&bytes).is_some_and(|data| data.has_tag(7));
            prop_assert!(!has_tag);
        }
    }
}
