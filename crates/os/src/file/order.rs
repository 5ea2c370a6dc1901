//! The order in which the blocks of a file are read or written.

/// The order of the blocks of a file, repeated round after round. Used on measured paths.
#[derive(Clone, Debug)]
pub struct Order {
    /// Where the blocks begin, in order; empty for ascending blocks without gaps.
    offsets: Vec<u64>,
    /// How many there are.
    count: u64,
    block_bytes: u64,
    /// Where the first of ascending blocks begins.
    start: u64,
    at: u64,
}

impl Order {
    /// The whole blocks of the file in ascending order.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn sequential(file_bytes: u64, block_bytes: u64) -> Self {
        let count = file_bytes / block_bytes;
        assert!(count > 0, "the file has a block");
        Self { offsets: Vec::new(), count, block_bytes, start: 0, at: 0 }
    }

    /// The whole blocks of one of several equal parts of the file, in ascending order.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn of_part(part: u64, part_bytes: u64, block_bytes: u64) -> Self {
        Self { start: part * part_bytes, ..Self::sequential(part_bytes, block_bytes) }
    }

    /// The blocks that begin at these bytes, in this order.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn from_offsets(offsets: Vec<u64>, block_bytes: u64) -> Self {
        assert!(!offsets.is_empty(), "there is a block");
        Self { count: offsets.len() as u64, offsets, block_bytes, start: 0, at: 0 }
    }

    /// How many blocks there are before the order repeats.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The size of a block in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Where the last block ends; at most [`u64::MAX`].
    pub fn end(&self) -> u64 {
        let ascending = self.start + (self.count - 1) * self.block_bytes;
        let last = self.offsets.iter().max().copied().unwrap_or(ascending);
        last.saturating_add(self.block_bytes)
    }

    /// Begins again with the first block.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// Where the next block begins.
    #[inline]
    pub(crate) fn advance(&mut self) -> u64 {
        let at = self.at;
        self.at = if at + 1 == self.count { 0 } else { at + 1 };
        match self.offsets.get(at as usize) {
            Some(offset) => *offset,
            None => self.start + at * self.block_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_comes_once_a_round() {
        let mut order = Order::sequential(1000, 256);
        let two_rounds: Vec<u64> = (0..6).map(|_| order.advance()).collect();
        assert_eq!(two_rounds, [0, 256, 512, 0, 256, 512]);
        assert_eq!((order.count(), order.end()), (3, 768));
        let mut order = Order::from_offsets(vec![512, 0], 256);
        let some: Vec<u64> = (0..3).map(|_| order.advance()).collect();
        order.rewind();
        assert_eq!((some, order.advance()), (vec![512, 0, 512], 512));
        assert_eq!((order.count(), order.end()), (2, 768));
        let mut order = Order::of_part(2, 600, 256);
        let two_rounds: Vec<u64> = (0..3).map(|_| order.advance()).collect();
        assert_eq!(two_rounds, [1200, 1456, 1200]);
        assert_eq!((order.count(), order.end()), (2, 1712));
        // No mapping is as long: one that were shorter would be read beyond its end.
        let order = Order::from_offsets(vec![u64::MAX - 10], 256);
        assert_eq!(order.end(), u64::MAX);
    }
}
