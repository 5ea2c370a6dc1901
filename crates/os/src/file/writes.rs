//! Measured: writing blocks of a file with pwrite(2), and making them durable with fsync(2),
//! fdatasync(2) or `O_DSYNC`.
//!
//! Source: pwrite(2), fsync(2), open(2) on `O_DSYNC` and `O_DIRECT`, ftruncate(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::data::{DataFile, fill};
use super::order::Order;
use crate::memory::arena::{Arena, PageSize};
use crate::system_call::{check, retry};

/// How writes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sync {
    /// Not at all: the descriptor decides where the data goes.
    Nothing,
    /// fsync(2) after each: data and all metadata of the file.
    Fsync,
    /// fdatasync(2) after each: data and the metadata needed to read it.
    Fdatasync,
    /// `O_DSYNC`: as fdatasync(2), in the write itself.
    Dsync,
}

/// How a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Past the page cache (`O_DIRECT`).
    pub is_direct: bool,
    /// How each write is made durable.
    pub sync: Sync,
}

/// Writes the blocks of a file. Each write has different contents, so that a block shows which write was its
/// last.
#[derive(Debug)]
pub struct Writer {
    file: File,
    sync: Sync,
    order: Order,
    block: Arena,
    /// Writes that were completed.
    count: u64,
    /// The offset of the last write, in bytes.
    last: u64,
}

/// How many bytes at a block's beginning hold the number of its write.
const NUMBER_BYTES: usize = 8;

impl Writer {
    /// Writes blocks of this order to the file.
    ///
    /// # Errors
    ///
    /// The errors of open(2) and mmap(2).
    pub fn new(data: &DataFile, how: How, order: Order) -> io::Result<Self> {
        let dsync = match how.sync {
            Sync::Dsync => libc::O_DSYNC,
            Sync::Nothing | Sync::Fsync | Sync::Fdatasync => 0,
        };
        let direct = if how.is_direct { libc::O_DIRECT } else { 0 };
        let mut block = Arena::map(order.block_bytes() as usize, PageSize::Base)?;
        fill(block.as_mut_slice(), 0);
        Ok(Self {
            file: data.open_with(dsync | direct)?,
            sync: how.sync,
            order,
            block,
            count: 0,
            last: 0,
        })
    }

    /// Writes the next `n` blocks, and makes each durable before the next.
    ///
    /// # Errors
    ///
    /// The errors of pwrite(2), fsync(2) and fdatasync(2); `StorageFull` if a write stops short.
    pub fn write(&mut self, n: u64) -> io::Result<()> {
        for _ in 0..n {
            self.write_one()?;
            self.sync()?;
        }
        Ok(())
    }

    /// Writes the next block. Only `O_DSYNC` makes it durable.
    #[inline]
    pub fn write_one(&mut self) -> io::Result<()> {
        let offset = self.order.advance();
        let bytes = self.order.block_bytes() as usize;
        self.count += 1;
        self.last = offset;
        let block = self.block.as_mut_slice();
        block[..NUMBER_BYTES].copy_from_slice(&self.count.to_ne_bytes());
        let (file, block) = (self.file.as_raw_fd(), block.as_ptr().cast());
        let offset = offset.cast_signed();
        // SAFETY: the block is as long as is written.
        let written = retry(|| unsafe { libc::pwrite64(file, block, bytes, offset) })?;
        if written.cast_unsigned() == bytes {
            return Ok(());
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    /// Makes the last write durable, with the chosen call; `O_DSYNC` needs none.
    ///
    /// # Errors
    ///
    /// The errors of fsync(2) and fdatasync(2).
    #[inline]
    pub fn sync(&self) -> io::Result<()> {
        let file = self.file.as_raw_fd();
        let answer = match self.sync {
            Sync::Nothing | Sync::Dsync => 0,
            // SAFETY: takes a descriptor alone.
            Sync::Fsync => unsafe { libc::fsync(file) },
            // SAFETY: as above.
            Sync::Fdatasync => unsafe { libc::fdatasync(file) },
        };
        check(answer).map(drop)
    }

    /// Empties the file and restarts the order, so that the next writes append to it.
    ///
    /// # Errors
    ///
    /// The errors of ftruncate(2) and fsync(2).
    pub fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()?;
        self.order.rewind();
        Ok(())
    }

    /// Bytes written since it was created.
    pub fn written_bytes(&self) -> u64 {
        self.count * self.order.block_bytes()
    }

    /// Whether the file contains the last block as it was written. Read through the page cache.
    ///
    /// # Errors
    ///
    /// The errors of pread(2).
    pub fn is_written(&self, data: &DataFile) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let mut there = vec![0; self.order.block_bytes() as usize];
        data.file().read_exact_at(&mut there, self.last)?;
        Ok(there == self.block.as_slice()[..there.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_is_the_last_one_that_stands_there() {
        let Some(data) = DataFile::for_test(1 << 20) else {
            return;
        };
        for sync in [Sync::Nothing, Sync::Fsync, Sync::Fdatasync, Sync::Dsync] {
            for is_direct in [false, true] {
                let how = How { is_direct, sync };
                let order = Order::sequential(64 << 10, 4096);
                let Ok(mut writer) = Writer::new(&data, how, order) else {
                    eprintln!("checked less: {how:?}");
                    continue;
                };
                writer.write(3).unwrap();
                assert!(writer.is_written(&data).unwrap(), "{how:?}");
                writer.write_one().unwrap();
                writer.sync().unwrap();
                assert!(writer.is_written(&data).unwrap(), "{how:?}");
                assert_eq!(writer.written_bytes(), 4 * 4096);
            }
        }
    }

    #[test]
    fn what_is_appended_makes_the_file_longer_until_it_is_emptied() {
        let Some(data) = DataFile::for_test(0) else {
            return;
        };
        let how = How { is_direct: false, sync: Sync::Nothing };
        let mut writer = Writer::new(&data, how, Order::sequential(1 << 20, 4096)).unwrap();
        let len = || data.file().metadata().unwrap().len();
        writer.write(5).unwrap();
        assert_eq!(len(), 5 * 4096);
        writer.empty().unwrap();
        assert_eq!(len(), 0);
        writer.write(1).unwrap();
        assert_eq!(len(), 4096);
    }
}
