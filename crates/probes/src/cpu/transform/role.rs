//! Encrypts, hashes and compresses, and compares the results.

use super::{By, Transform};
use crate::english;
use crate::prelude::*;
use ring::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{Context, SHA256, digest};
use std::fmt::Display;
use zstd::DEFAULT_COMPRESSION_LEVEL;
use zstd::bulk::Compressor;

/// The text whose parts are compressed: more than a branch predictor can learn.
const ALL_BYTES: usize = 1 << 20;
/// The data and the key are the same on every machine.
const SEED: u64 = 1;
const KEY: [u8; 32] = [7; 32];

pub(super) struct Transformer {
    /// To compress, several messages, one after another.
    message: Vec<u8>,
    /// The message before it was encrypted, or the compressed one.
    other: Vec<u8>,
    /// Where the last message that was compressed begins, and the bytes it was compressed to.
    compressed: (usize, usize),
}

impl Setup<Transform> for Transformer {
    fn set_up(point: &At<Transform>, _: &Launch) -> Result<Transformer> {
        let text = |length| english::text(length, SEED);
        let of_many = |longest: usize| (text(ALL_BYTES.max(point.size)), vec![0; longest]);
        let (message, other) = match point.by {
            By::Lz4 => of_many(lz4_flex::block::get_maximum_output_size(point.size)),
            By::Zstd => of_many(zstd::zstd_safe::compress_bound(point.size)),
            _ => (text(point.size), text(point.size)),
        };
        Ok(Transformer { message, other, compressed: (0, 0) })
    }

    fn measure(&mut self, point: &At<Transform>, meter: &mut Meter<'_>) -> Result {
        let message = &mut self.message;
        match point.by {
            By::Aes128Gcm => encrypt(&AES_128_GCM, message, &self.other, meter)?,
            By::ChaCha20Poly1305 => encrypt(&CHACHA20_POLY1305, message, &self.other, meter)?,
            By::Sha256 => repeat(meter, || digest(&SHA256, black_box(message))),
            By::Blake3 => repeat(meter, || blake3::hash(black_box(message))),
            By::Crc32c => repeat(meter, || crc32c::crc32c(black_box(message))),
            By::Lz4 => self.compress(point.size, meter, lz4_flex::block::compress_into)?,
            By::Zstd => {
                let context = Compressor::new(DEFAULT_COMPRESSION_LEVEL);
                let mut context = context.map_err(|error| failed(&error))?;
                self.compress(point.size, meter, |piece, to| {
                    context.compress_to_buffer(piece, to)
                })?;
            }
        }
        Ok(())
    }

    fn check(self, point: &At<Transform>, _: &mut Meter<'_>) -> Result {
        let Transformer { message, other, compressed: (start, compressed) } = self;
        let (first, second) = message.split_at(message.len() / 2);
        let is_right = match point.by {
            By::Aes128Gcm | By::ChaCha20Poly1305 => message == other,
            By::Sha256 => {
                let mut parts = Context::new(&SHA256);
                parts.update(first);
                parts.update(second);
                parts.finish().as_ref() == digest(&SHA256, &message).as_ref()
            }
            By::Blake3 => {
                let mut parts = blake3::Hasher::new();
                parts.update(first).update(second);
                parts.finalize() == blake3::hash(&message)
            }
            By::Crc32c => {
                crc32c::crc32c_append(crc32c::crc32c(first), second) == crc32c::crc32c(&message)
            }
            By::Lz4 => {
                let back = lz4_flex::block::decompress(&other[..compressed], point.size);
                back.is_ok_and(|back| back == message[start..start + point.size])
            }
            By::Zstd => {
                let back = zstd::bulk::decompress(&other[..compressed], point.size);
                back.is_ok_and(|back| back == message[start..start + point.size])
            }
        };
        ensure!(is_right, "{} gave a wrong result", point.by.word());
        Ok(())
    }
}

impl Transformer {
    /// Compresses one message of this size after another.
    fn compress<E: Display>(
        &mut self,
        size: usize,
        meter: &mut Meter<'_>,
        mut compress: impl FnMut(&[u8], &mut [u8]) -> Result<usize, E>,
    ) -> Result {
        meter.operation_allocates();
        let (mut start, mut next, mut last) = (0, 0, Ok(0));
        meter.repeatable("cost", |n| {
            for _ in 0..n {
                start = next;
                let piece = black_box(&self.message[start..start + size]);
                last = compress(piece, &mut self.other);
                next += size;
                if next + size > self.message.len() {
                    next = 0;
                }
            }
        });
        self.compressed = (start, last.map_err(|error| failed(&error))?);
        Ok(())
    }
}

fn repeat<T>(meter: &mut Meter<'_>, operation: impl Fn() -> T) {
    meter.repeatable("cost", |n| {
        for _ in 0..n {
            black_box(operation());
        }
    });
}

/// Encrypts a message that was encrypted already, again and again; then a plain one, and decrypts it.
fn encrypt(
    algorithm: &'static Algorithm,
    message: &mut Vec<u8>,
    plain: &[u8],
    meter: &mut Meter<'_>,
) -> Result {
    let key =
        UnboundKey::new(algorithm, &KEY[..algorithm.key_len()]).map_err(|_| failed(&"a key"))?;
    let key = LessSafeKey::new(key);
    let mut number = 0_u128;
    let mut nonce = || {
        number += 1;
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&number.to_le_bytes()[..12]);
        Nonce::assume_unique_for_key(nonce)
    };
    let mut all_went = true;
    meter.repeatable("cost", |n| {
        for _ in 0..n {
            let tag = key.seal_in_place_separate_tag(nonce(), Aad::empty(), message);
            all_went &= black_box(tag).is_ok();
        }
    });
    ensure!(all_went, "a message was not encrypted");
    message.copy_from_slice(plain);
    let last = || Nonce::assume_unique_for_key([255; 12]);
    key.seal_in_place_append_tag(last(), Aad::empty(), message)
        .map_err(|_| failed(&"encrypting"))?;
    ensure!(!message.starts_with(plain), "an encrypted message is as before");
    key.open_in_place(last(), Aad::empty(), message).map_err(|_| failed(&"decrypting"))?;
    message.truncate(plain.len());
    Ok(())
}

fn failed(what: &dyn Display) -> Failure {
    Failure::error(format!("{what} failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::measure;

    #[test]
    fn every_result_is_right_for_short_and_long_messages() {
        for by in By::ALL.iter().copied() {
            for size in [16, 100_000] {
                measure(Transform { size, by }).unwrap();
            }
        }
    }
}
