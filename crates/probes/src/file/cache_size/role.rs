//! Reading a file again that was just read.

use super::{BLOCK, CacheSize};
use crate::file::target_file::{TargetFile, random_order, unknown_share, verify_last};
use crate::prelude::*;
use costof_os::file::data::Access;
use costof_os::file::order::Order;
use costof_os::file::reads::{Engine, Reader};

/// The most that is read again of a file. Of a file that is too large for the cache, as much of its
/// beginning is gone, and what is read anew takes the place of what comes next.
const MAX_REREAD_BYTES: u64 = 512 << 20;
/// In how many parts that is timed.
const STRETCHES: u64 = 8;
/// Pages of the mapped file that are touched: on a rotational disk they take two seconds.
const FAULTS: u64 = 256;
/// A fault also maps the cached pages around it (`fault_around_bytes`, mm/memory.c): this many
/// bytes per fault.
const FAULT_AROUND: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct Rereader {
    /// The largest size of the launch: the file is written once.
    largest: u64,
    random: Rng,
    target: Option<TargetFile>,
    reader: Option<Reader>,
    cached: u64,
    share: Option<f64>,
}

impl Rereader {
    pub(super) fn start(launch: &Launch) -> Rereader {
        let points = launch.points.iter();
        let sizes = points.filter_map(|point| Some(CacheSize::read(&point.axes)?.size));
        Rereader {
            largest: sizes.max().unwrap_or(0),
            random: Rng::with_seed(launch.seed),
            ..Rereader::default()
        }
    }
}

impl RoleAt<CacheSize> for Rereader {
    /// It waits for the device.
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<CacheSize>, _: &Offers) -> Result<Offers> {
        self.reader = None;
        let size = point.size;
        let target = TargetFile::reuse(&mut self.target, &point.dir)?;
        target.require_device("nothing else holds them")?;
        if target.data.len() < size {
            // Where the largest would fill the disk, a smaller one may still fit.
            target.extend(self.largest.max(size)).or_else(|_| target.extend(size))?;
            target.evict()?;
        }
        target.read_into_cache(size)?;
        let fits = target.cached(size)? == size;
        if !fits {
            target.evict()?;
        }
        let order = Order::sequential(size, BLOCK);
        let reader = target.data.open(Access::Cached).and_then(|file| {
            let mut reader = Reader::new(Engine::Pread, file, order, false)?;
            if !fits {
                reader.read(reader.blocks())?;
                reader.rewind();
            }
            Ok(reader)
        });
        let reader = target.check("read", reader)?;
        self.cached = target.cached(size)?;
        self.reader = Some(reader);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<CacheSize>, meter: &mut Meter<'_>) -> Result {
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
        fault(target, point.size, &mut self.random, meter)
    }

    fn finish(&mut self, point: &At<CacheSize>, meter: &mut Meter<'_>) -> Result {
        let reader = self.reader.take().expect("a measured point has a reader");
        verify_last(&reader)?;
        meter.value("cached", self.cached as f64);
        // Reading again takes no device where all of it is cached.
        match self.share {
            Some(share) => meter.value("device_share", share),
            None if self.cached < point.size => return Err(unknown_share()),
            None => {}
        }
        Ok(())
    }
}

/// Touches pages of the mapped file at random, each for the first time.
fn fault(target: &TargetFile, size: u64, random: &mut Rng, meter: &mut Meter<'_>) -> Result {
    let page = base_page_bytes() as u64;
    let order = random_order(size, page, FAULT_AROUND.max(page), random);
    let faults = FAULTS.min(order.count());
    let mapped = target.data.open(Access::CachedRandom);
    let mapped = mapped.and_then(|file| Reader::new(Engine::Map, file, order, true));
    let mut mapped = target.check("map", mapped)?;
    let clock = meter.clock();
    let each = |start: u64, end: u64| {
        meter.latency("fault", clock.ns(end.saturating_sub(start)));
    };
    let touched = mapped.read_each(faults, || clock.end(), each);
    target.check("read", touched)?;
    verify_last(&mapped)
}
