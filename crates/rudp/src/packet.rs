//! What a datagram looks like: four kinds, each closed by a tag.
//!
//! ```text
//! hello   kind 8 | client's id 64 | nonce 64 | parameters | token length 8 | token | zeros
//! retry   kind 8 | client's id 64 | nonce 64 | token 192
//! accept  kind 8 | client's id 64 | nonce 64 | server's id 64 | server's nonce 64 | parameters
//! data    kind 8 | receiver's id 64 | packet number 64 | still waited for | frames
//! all     … | tag 64
//! ```
//!
//! **The tag** is XXH3 with 64 bits over everything before it. UDP's own sum has
//! 16 bits, is optional in IPv4, and is often done by the device that garbles: of
//! the packets that a path damages it would let one in 65,536 through. XXH3 lets one
//! in 2⁶⁴ through and is several times as fast as a keyed cryptographic hash, which
//! would be what limits the rate on loopback.
//! The seed of a connection comes from both ends' nonces, so that packets of an
//! older connection, and those of a stranger who saw none of ours, do not pass. It
//! is no protection from who reads the packets: a version that encrypts puts its
//! authentication tag in the same place, and counts the kinds on from here.

use crate::cookie::{TOKEN_LEN, Token};
use crate::wire::{Reader, put_varint};
use std::time::Duration;
use twox_hash::XxHash3_64;

/// The bytes that end every datagram.
pub(crate) const TAG_LEN: usize = 8;
/// The most that stands before the frames.
pub(crate) const HEADER_MAX: usize = 1 + 8 + 8 + 8;
/// The least that a hello is filled up to, so that no answer is longer than what
/// it answers (RFC 9000 section 8.1 allows three times as much).
pub(crate) const HELLO_LEN: usize = 96;

const HELLO: u8 = 0x11;
const RETRY: u8 = 0x12;
const ACCEPT: u8 = 0x13;
const DATA: u8 = 0x14;
/// A data packet whose sender waits for its acknowledgement.
const DATA_AWAITED: u8 = 0x15;

/// The seed of tags before both ends know each other's nonce.
pub(crate) const HANDSHAKE_SEED: u64 = 0x7275_6470_0000_0001;

/// What an end says of itself when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// The longest datagram that it sends or takes.
    pub(crate) datagram: u16,
    /// The longest message that it takes.
    pub(crate) message: u32,
    /// How many bytes of messages it holds.
    pub(crate) window: u64,
    /// How many messages it holds.
    pub(crate) messages: u32,
    /// After how long a silence it gives the other up.
    pub(crate) idle: Duration,
}

/// A datagram of a handshake, whose tag is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Hello {
        client: u64,
        nonce: u64,
        parameters: Parameters,
        token: Option<Token>,
    },
    Retry {
        client: u64,
        nonce: u64,
        token: Token,
    },
    Accept {
        client: u64,
        nonce: u64,
        server: u64,
        server_nonce: u64,
        parameters: Parameters,
    },
}

/// A data packet, its tag not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    pub(crate) receiver: u64,
    pub(crate) number: u64,
    /// The lowest packet number whose acknowledgement still means something to the sender.
    pub(crate) waits_from: u64,
    pub(crate) is_awaited: bool,
    pub(crate) frames: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Data<'a> {
    /// The datagram, if it is a data packet.
    #[inline]
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Data<'a>> {
        let (before, _) = datagram.split_last_chunk::<TAG_LEN>()?;
        let (kind, rest) = before.split_first()?;
        if !matches!(*kind, DATA | DATA_AWAITED) {
            return None;
        }
        let mut reader = Reader(rest);
        let receiver = reader.u64()?;
        let number = reader.u64().filter(|number| *number < 1 << 62)?;
        let waits_from = number.checked_sub(reader.varint()?)?;
        Some(Data {
            receiver,
            number,
            waits_from,
            is_awaited: *kind == DATA_AWAITED,
            frames: reader.0,
            whole: datagram,
        })
    }

    /// Whether it is as it was sent, by the other end of the connection with this seed.
    pub(crate) fn has_tag(&self, seed: u64) -> bool {
        has_tag(self.whole, seed)
    }
}

/// The seed of a connection's tags.
pub(crate) fn seed(client_nonce: u64, server_nonce: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&client_nonce.to_be_bytes());
    both[8..].copy_from_slice(&server_nonce.to_be_bytes());
    XxHash3_64::oneshot_with_seed(HANDSHAKE_SEED, &both)
}

fn has_tag(datagram: &[u8], seed: u64) -> bool {
    let split = datagram.split_last_chunk::<TAG_LEN>();
    split.is_some_and(|(before, tag)| {
        *tag == XxHash3_64::oneshot_with_seed(seed, before).to_be_bytes()
    })
}

/// Appends the tag of what stands from `start` on.
pub(crate) fn put_tag(out: &mut Vec<u8>, start: usize, seed: u64) {
    let tag = XxHash3_64::oneshot_with_seed(seed, &out[start..]);
    out.extend_from_slice(&tag.to_be_bytes());
}

/// Appends the header of a data packet.
pub(crate) fn put_header(
    out: &mut Vec<u8>,
    receiver: u64,
    number: u64,
    waits_from: u64,
    is_awaited: bool,
) {
    out.push(if is_awaited { DATA_AWAITED } else { DATA });
    out.extend_from_slice(&receiver.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    put_varint(out, number - waits_from);
}

/// Marks a data packet that begins at `start` as one whose sender waits.
pub(crate) fn mark_awaited(out: &mut [u8], start: usize) {
    out[start] = DATA_AWAITED;
}

impl Packet {
    /// What the datagram is; `None` for rubbish, and for a data packet.
    pub(crate) fn read(datagram: &[u8]) -> Option<Packet> {
        let kind = *datagram.first()?;
        let (before, _) = datagram.split_last_chunk::<TAG_LEN>()?;
        let mut reader = Reader(before.get(1..)?);
        if !matches!(kind, HELLO | RETRY | ACCEPT) || !has_tag(datagram, HANDSHAKE_SEED) {
            return None;
        }
        let (client, nonce) = (reader.u64()?, reader.u64()?);
        match kind {
            HELLO if datagram.len() >= HELLO_LEN => Some(Packet::Hello {
                client,
                nonce,
                parameters: Parameters::read(&mut reader)?,
                token: match usize::from(reader.u8()?) {
                    0 => None,
                    TOKEN_LEN => Some(read_token(&mut reader)?),
                    _ => return None,
                },
            }),
            RETRY => Some(Packet::Retry {
                client,
                nonce,
                token: read_token(&mut reader)?,
            }),
            ACCEPT => Some(Packet::Accept {
                client,
                nonce,
                server: reader.u64()?,
                server_nonce: reader.u64()?,
                parameters: Parameters::read(&mut reader)?,
            }),
            _ => None,
        }
    }

    /// Appends the packet. Data packets are built in place instead.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut least = 0;
        match self {
            Packet::Hello {
                client,
                nonce,
                parameters,
                token,
            } => {
                least = HELLO_LEN - TAG_LEN;
                out.push(HELLO);
                put_u64s(out, &[*client, *nonce]);
                parameters.write(out);
                out.push(token.map_or(0, |_| TOKEN_LEN as u8));
                out.extend_from_slice(token.as_ref().map_or(&[], |token| token));
            }
            Packet::Retry {
                client,
                nonce,
                token,
            } => {
                out.push(RETRY);
                put_u64s(out, &[*client, *nonce]);
                out.extend_from_slice(token);
            }
            Packet::Accept {
                client,
                nonce,
                server,
                server_nonce,
                parameters,
            } => {
                out.push(ACCEPT);
                put_u64s(out, &[*client, *nonce, *server, *server_nonce]);
                parameters.write(out);
            }
        }
        let end = out.len().max(start + least);
        out.resize(end, 0);
        put_tag(out, start, HANDSHAKE_SEED);
    }
}

fn put_u64s(out: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn read_token(reader: &mut Reader<'_>) -> Option<Token> {
    reader.bytes(TOKEN_LEN)?.try_into().ok()
}

impl Parameters {
    fn read(reader: &mut Reader<'_>) -> Option<Parameters> {
        let parameters = Parameters {
            datagram: reader.u16()?,
            message: reader.u32()?,
            window: reader.u64()?,
            messages: reader.u32()?,
            idle: Duration::from_millis(reader.u32()?.into()),
        };
        let is_sound = usize::from(parameters.datagram) >= crate::config::DATAGRAM_LEAST
            && parameters.window >= parameters.message.into()
            && parameters.window < 1 << 40
            && parameters.messages > 0
            && parameters.idle > Duration::ZERO;
        is_sound.then_some(parameters)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.datagram.to_be_bytes());
        out.extend_from_slice(&self.message.to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&self.messages.to_be_bytes());
        let idle_ms = u32::try_from(self.idle.as_millis()).unwrap_or(u32::MAX);
        out.extend_from_slice(&idle_ms.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameters() -> impl Strategy<Value = Parameters> {
        let numbers = (
            200..=u16::MAX,
            any::<u32>(),
            1..u32::MAX,
            1..u32::MAX,
            0..1_u64 << 38,
        );
        numbers.prop_map(|(datagram, message, messages, idle_ms, more)| Parameters {
            datagram,
            message,
            window: u64::from(message) + more,
            messages,
            idle: Duration::from_millis(idle_ms.into()),
        })
    }

    fn handshake() -> impl Strategy<Value = Packet> {
        let token = || prop::array::uniform24(any::<u8>());
        prop_oneof![
            (
                any::<u64>(),
                any::<u64>(),
                parameters(),
                prop::option::of(token())
            )
                .prop_map(|(client, nonce, parameters, token)| {
                    Packet::Hello {
                        client,
                        nonce,
                        parameters,
                        token,
                    }
                }),
            (any::<u64>(), any::<u64>(), token()).prop_map(|(client, nonce, token)| {
                Packet::Retry {
                    client,
                    nonce,
                    token,
                }
            }),
            (any::<[u64; 4]>(), parameters()).prop_map(
                |([client, nonce, server, server_nonce], parameters)| {
                    Packet::Accept {
                        client,
                        nonce,
                        server,
                        server_nonce,
                        parameters,
                    }
                }
            ),
        ]
    }

    #[test]
    fn a_hello_that_is_shorter_than_its_answers_is_none() {
        let mut hello = Vec::new();
        let packet = Packet::Hello {
            client: 1,
            nonce: 2,
            parameters: crate::Config::default().parameters(),
            token: None,
        };
        packet.write(&mut hello);
        assert_eq!(hello.len(), HELLO_LEN);
        // All that it says is there, and the tag is right.
        hello.truncate(HELLO_LEN - TAG_LEN - 1);
        put_tag(&mut hello, 0, HANDSHAKE_SEED);
        assert_eq!(Packet::read(&hello), None);
    }

    #[test]
    fn each_end_of_a_connection_has_its_part_in_the_seed() {
        let seeds = [
            seed(1, 2),
            seed(1, 3),
            seed(3, 2),
            seed(2, 1),
            HANDSHAKE_SEED,
        ];
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
            prop_assert_eq!(Packet::read(&datagram), Some(packet));
            prop_assert!(datagram.len() <= HELLO_LEN);
            let cut = flip.index(datagram.len());
            prop_assert_eq!(Packet::read(&datagram[..cut]), None);
            datagram[cut] ^= 1 << bit;
            prop_assert_eq!(Packet::read(&datagram), None);
        }

        #[test]
        fn a_data_packet_is_read_back_and_a_damaged_one_has_no_tag(
            receiver in any::<u64>(),
            number in 0..1_u64 << 62,
            back in 0..100_000_u64,
            is_awaited in any::<bool>(),
            frames in prop::collection::vec(any::<u8>(), 0..100),
            seed in any::<u64>(),
            flip in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let waits_from = number.saturating_sub(back);
            let mut datagram = vec![1, 2, 3];
            put_header(&mut datagram, receiver, number, waits_from, is_awaited);
            datagram.extend_from_slice(&frames);
            put_tag(&mut datagram, 3, seed);
            let mut datagram = datagram.split_off(3);
            prop_assert_eq!(Packet::read(&datagram), None);
            let data = Data::read(&datagram).expect("it is a data packet");
            prop_assert_eq!((data.receiver, data.number), (receiver, number));
            prop_assert_eq!((data.waits_from, data.is_awaited), (waits_from, is_awaited));
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
            prop_assert_eq!(Packet::read(&bytes), None);
            let has_tag = Data::read(&bytes).is_some_and(|data| data.has_tag(7));
            prop_assert!(!has_tag);
        }
    }
}
