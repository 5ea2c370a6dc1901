//! Reading a file again that was just read.

use super::{BLOCK, CacheSize};
use crate::file::target_file::{TargetFile, verify_last};
use crate::prelude::*;
use costof_os::file::data::Access;
use costof_os::file::order::Order;
use costof_os::file::reads::{Engine, Reader};

/// The most that is read again of a file. Of a file that is too large for the cache, as much of its
/// beginning is gone, and what is read anew takes the place of what comes next.
const MAX_REREAD_BYTES: u64 = 512 << 20;
/// In how many parts that is timed.
const STRETCHES: u64 = 8;

#[derive(Default)]
pub(super) struct Rereader {
    target: Option<TargetFile>,
    reader: Option<Reader>,
    cached: u64,
    share: Option<f64>,
}

impl RoleAt<CacheSize> for Rereader {
    /// It waits for the device.
    fn blocks(&self, _: &At<CacheSize>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<CacheSize>, _: &Offers) -> Result<Offers, Failure> {
        self.reader = None;
        let size = point.size;
        let target = TargetFile::reuse(&mut self.target, &point.dir)?;
        target.require_device("nothing else holds them")?;
        target.extend(size)?;
        target.evict()?;
        let order = Order::sequential(size, BLOCK);
        let reader = target.data.open(Access::Cached).and_then(|file| {
            let mut reader = Reader::new(Engine::Pread, file, order, false)?;
            reader.read(reader.blocks())?;
            reader.rewind();
            Ok(reader)
        });
        let reader = target.check("read", reader)?;
        self.cached = target.cached(size)?;
        self.reader = Some(reader);
        Ok(Offers::new())
    }

    fn run(&mut self, _: &At<CacheSize>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let reader = self.reader.as_mut().expect("a prepared point has a reader");
        let clock = meter.clock();
        let before = target.counters(reader.read_bytes());
        let blocks = reader.blocks().min(MAX_REREAD_BYTES / BLOCK);
        let each = (blocks / STRETCHES).max(1);
        for _ in 0..blocks / each {
            let start = clock.start();
            let read = reader.read(each);
            let ns = clock.ns(clock.end().saturating_sub(start));
            target.check("read", read)?;
            meter.batch_done("cost", each, ns);
        }
        self.share = target.share_read(&before, reader.read_bytes());
        Ok(())
    }

    fn finish(&mut self, _: &At<CacheSize>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let reader = self.reader.take().expect("a measured point has a reader");
        verify_last(&reader)?;
        meter.value("cached", self.cached as f64);
        if let Some(share) = self.share {
            meter.value("device_share", share);
        }
        Ok(())
    }
}
