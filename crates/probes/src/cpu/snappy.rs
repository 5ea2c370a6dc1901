//! `cpu.snappy`: compressing with Snappy.

mod role;

use crate::prelude::*;
use role::Compressor;

/// All pieces together: more than a branch predictor can learn, and little enough for an L2 or L3
/// cache.
const ALL_BYTES: u64 = 1 << 20;
/// The data are the same on every machine, so that ratio and cost can be compared.
const SEED: u64 = 1;
const BLOCK: u64 = 64 << 10;

words! {
    pub(crate) enum Data {
        /// words of English, each as often as in prose, in random order
        Text = "text",
        /// random bytes, which do not compress: Snappy tries fewer and fewer positions, and copies
        Random = "random",
    }

    pub(crate) enum Direction {
        /// from data to Snappy's raw format
        Compress = "compress",
        /// from Snappy's raw format to data
        Decompress = "decompress",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Snappy>();

point! {
    /// What does it cost to compress and decompress with Snappy?
    ///
    /// Pieces of one MiB of data take turns. Each is compressed as a whole in the raw format,
    /// without framing, into an existing buffer. Every piece has different data, because a CPU
    /// learns all branches of a piece that is repeated. Compressor, tables and buffers are reused,
    /// as in a server. The data come from an L2 or L3 cache. Before the timed batches every piece
    /// is decompressed and compared, and after them the last one.
    ///
    /// # Predicted from
    /// for text, what Snappy's authors measured on a CPU of 2011; for random bytes, the positions
    /// that Snappy tries (cpu.frequency), and a copy
    ///
    /// # Sources
    /// - google/snappy, README: about 250 MB/s to compress and 500 MB/s to decompress on a core of
    ///   a Core i7 of 2011, for the slowest inputs
    /// - google/snappy, snappy.cc, heuristic match skipping; format_description.txt
    /// - crate snap 1.1, the compressor that is measured
    /// - CS 739 mini-project 1: 3 µs for 1 KB, of random bytes; J. Dean, Numbers Everyone Should
    ///   Know: 3 µs with a cheap compressor
    pub(crate) struct Snappy of "cpu.snappy" {
        /// uncompressed bytes of a piece
        size: u64 = bytes(1 << 10..=ALL_BYTES, &[1 << 10, 4 << 10, 64 << 10, 1 << 20]),
        /// what is compressed
        data: Data = words(),
        /// compress or decompress
        direction: Direction = words(),
    }
}

impl Measure for Snappy {
    const METRICS: &'static [Metric] = metrics! {
        /// one piece
        cost: Nanoseconds Lower,
        /// uncompressed bytes per second, by the cost
        throughput: BytesPerSecond Higher,
        /// uncompressed size over compressed size
        ratio: One Neither,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["size", "data", "direction"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Compressor>];

    fn memory_bytes(_: &At<Self>) -> u64 {
        4 * ALL_BYTES
    }

    headlines! {
        "compress 1 KiB with Snappy: text": { data: Data::Text },
        "compress 1 KiB with Snappy: random bytes": { data: Data::Random },
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let size = point.size as f64;
        // Bytes per cycle copied or cleared in a cache.
        const MOVES: (f64, f64) = (16.0, 48.0);
        let moved = |bytes: f64, name| cycles(measured, (bytes / MOVES.1, bytes / MOVES.0), name);
        let cost = match (point.data, point.direction) {
            // Text is among the slowest inputs, to which those figures refer; newer cores are 1.5
            // to 5 times as fast.
            (Data::Text, direction) => {
                let then = match direction {
                    Direction::Compress => 250e6,
                    Direction::Decompress => 500e6,
                };
                Cost::new(size / then * 1e9, "on a core of 2011") * (1.0 / 5.0, 1.0 / 1.5)
            }
            (Data::Random, Direction::Decompress) => {
                moved(size, "to copy it")? + cycles(measured, (20.0, 120.0), "for the call")?
            }
            (Data::Random, Direction::Compress) => {
                let (looks, table_bytes) = fruitless_search(point.size);
                // A load, a hash, an entry of the table, a comparison: a dozen instructions, which
                // overlap with those of the next position.
                let looks = cycles(measured, (2.5 * looks, 7.0 * looks), "positions tried")?;
                looks + moved(size + table_bytes, "data and tables copied or cleared")?
            }
        };
        cost.predict("cost")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::with_throughput(reports, point.size)
    }
}

/// What Snappy does with data without repetitions: the positions it tries, and the bytes of its
/// hash table that it clears.
///
/// The first 32 bytes of a block are tried one by one, every second of the next 32, every third of
/// the next 32, and so on. The table has two bytes for each byte of the block, rounded up to a
/// power of two, between 512 bytes and 32 KiB.
fn fruitless_search(size: u64) -> (f64, f64) {
    let (mut looks, mut table_bytes) = (0.0, 0.0);
    let mut left = size;
    while left > 0 {
        let block = left.min(BLOCK);
        left -= block;
        let mut at = 0;
        while at < block {
            at += 1 + at / 32;
            looks += 1.0;
        }
        let entries = block.next_power_of_two().clamp(256, 16 << 10);
        table_bytes += 2.0 * entries as f64;
    }
    (looks, table_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare() {
        let looks = |size| fruitless_search(size).0;
        // 32 × 1 byte, 16 × 2 bytes, 11 × 3 bytes.
        assert_eq!([looks(32), looks(64), looks(96)], [32.0, 48.0, 59.0]);
        assert_eq!(looks(2 * BLOCK), 2.0 * looks(BLOCK));
        let tables = [100, 1 << 10, 1500, BLOCK + 1].map(|size| fruitless_search(size).1);
        assert_eq!(tables, [512.0, 2048.0, 4096.0, 32768.0 + 512.0]);
    }
}
