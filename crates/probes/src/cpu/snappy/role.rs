//! Compresses and decompresses, and compares the result.

use super::{ALL_BYTES, Data, Direction, SEED, Snappy};
use crate::english;
use crate::prelude::*;
use snap::raw::{Decoder, Encoder, max_compress_len};

pub(super) struct Compressor {
    encoder: Encoder,
    decoder: Decoder,
    pieces: Vec<Piece>,
    /// Large enough for every result.
    output: Vec<u8>,
    /// The last operation: its piece, and the bytes it wrote or its error.
    last: Option<(usize, Result<usize, snap::Error>)>,
}

struct Piece {
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

impl Setup<Snappy> for Compressor {
    fn set_up(point: &At<Snappy>, _: &Launch) -> Result<Compressor> {
        let size = point.size as usize;
        let data = match point.data {
            Data::Text => english::text(ALL_BYTES as usize, SEED),
            Data::Random => {
                let mut data = vec![0; ALL_BYTES as usize];
                Rng::with_seed(SEED).fill(&mut data);
                data
            }
        };
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let mut pieces = Vec::new();
        for plain in data.chunks_exact(size) {
            let compressed = encoder.compress_vec(plain).map_err(failed)?;
            let back = decoder.decompress_vec(&compressed).map_err(failed)?;
            is_the_same(plain, &back)?;
            pieces.push(Piece { plain: plain.to_vec(), compressed });
        }
        Ok(Compressor {
            encoder,
            decoder,
            pieces,
            output: vec![0; max_compress_len(size)],
            last: None,
        })
    }

    fn measure(&mut self, point: &At<Snappy>, meter: &mut Meter<'_>) -> Result {
        let Compressor { encoder, decoder, pieces, output, last } = self;
        let mut next = 0;
        let mut in_turn = |n: u64, operation: &mut dyn FnMut(&Piece) -> _| {
            for _ in 0..n {
                let result = operation(&pieces[next]);
                *last = Some((next, result));
                next = (next + 1) % pieces.len();
            }
        };
        match point.direction {
            Direction::Compress => meter.repeatable("cost", |n| {
                in_turn(n, &mut |piece| encoder.compress(&piece.plain, output));
            }),
            Direction::Decompress => meter.repeatable("cost", |n| {
                in_turn(n, &mut |piece| decoder.decompress(&piece.compressed, output));
            }),
        }
        Ok(())
    }

    fn check(mut self, point: &At<Snappy>, meter: &mut Meter<'_>) -> Result {
        let (piece, written) = self.last.take().expect("a measured point has a result");
        let result = &self.output[..written.map_err(failed)?];
        let plain = &self.pieces[piece].plain;
        match point.direction {
            Direction::Compress => {
                let back = self.decoder.decompress_vec(result).map_err(failed)?;
                is_the_same(plain, &back)?;
            }
            Direction::Decompress => is_the_same(plain, result)?,
        }
        let bytes = |of: fn(&Piece) -> usize| self.pieces.iter().map(of).sum::<usize>() as f64;
        let plain_bytes = bytes(|piece| piece.plain.len());
        meter.value("ratio", plain_bytes / bytes(|piece| piece.compressed.len()));
        Ok(())
    }
}

fn failed(error: snap::Error) -> Failure {
    Failure::error(format!("Snappy failed: {error}"))
}

fn is_the_same(plain: &[u8], back: &[u8]) -> Result {
    ensure!(
        plain == back,
        "{} bytes differ after compressing and decompressing them: {} came back",
        plain.len(),
        back.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_different_is_a_failure() {
        assert!(is_the_same(b"abc", b"abc").is_ok());
        let failure = is_the_same(b"abc", b"ab").unwrap_err();
        assert!(failure.reason.contains("3 bytes differ after"), "{failure}");
    }
}
