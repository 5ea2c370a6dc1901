//! How many blocks are read at once, and what comes before them.

use super::{Cache, Pattern, Read, evict};
use crate::file::target_file::TargetFile;
use crate::prelude::*;
use costof_os::file::reads::Reader;

/// A stretch of a cold file that is read in order. It is long compared with the kernel's
/// read-ahead, which is wasted at its end.
const COLD_STRETCH_BYTES: u64 = 32 << 20;

/// How many blocks are read before the file is evicted again.
#[derive(Clone, Copy)]
pub(super) enum Batch {
    /// Any number: it is not evicted.
    Any,
    /// At most this many.
    UpTo(u64),
    /// Always this many, from the file's beginning on: the kernel reads ahead, which is wasted
    /// where a sequence ends early, and half as many do not take half the time.
    Stretch(u64),
}

impl Batch {
    pub(super) fn new(point: &At<Read>, reader: &Reader) -> Batch {
        match (point.cache, point.pattern) {
            (Cache::Warm | Cache::Direct, _) => Batch::Any,
            (Cache::Cold, Pattern::Sequential) => {
                Batch::Stretch(reader.blocks().min(COLD_STRETCH_BYTES / point.block))
            }
            (Cache::Cold, Pattern::Random | Pattern::Seek) => Batch::UpTo(reader.blocks()),
        }
    }

    /// How many blocks to read at once where this many are wanted.
    pub(super) fn count(self, wanted: u64) -> u64 {
        match self {
            Batch::Any => wanted,
            Batch::UpTo(most) => wanted.min(most),
            Batch::Stretch(blocks) => blocks,
        }
    }

    /// Prepares the next batch.
    pub(super) fn prepare(self, target: &TargetFile, reader: &mut Reader) -> Result {
        match self {
            Batch::Any => Ok(()),
            Batch::UpTo(_) => evict(target, reader),
            Batch::Stretch(_) => {
                evict(target, reader)?;
                reader.rewind();
                Ok(())
            }
        }
    }
}
