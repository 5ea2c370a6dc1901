//! Writing and syncing, one after the other.

use super::{Sync, Where};
use crate::file::target_file::{self, TargetFile};
use crate::prelude::*;
use costof_os::file::order::Order;
use costof_os::file::writes::{How, Writer};

/// Writes before the first that counts.
const WARM_UP: u64 = 2;
/// Writes between two checks of the time.
const WRITES_PER_CHECK: u64 = 4;

#[derive(Default)]
pub(super) struct Syncing {
    target: Option<TargetFile>,
    writer: Option<Writer>,
    share: Option<f64>,
}

impl RoleAt<Sync> for Syncing {
    /// It waits for the device.
    fn blocks(&self, _: &At<Sync>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<Sync>, _: &Offers) -> Result<Offers, Failure> {
        self.writer = None;
        self.share = None;
        let (size, block) = (point.size, point.block);
        target_file::require_blocks(size, block)?;
        let target = match point.r#where {
            // After it was emptied, the file is shorter than its recorded size.
            Where::Append => self.target.insert(TargetFile::new(&point.dir)?),
            Where::Overwrite => TargetFile::reuse(&mut self.target, &point.dir)?,
        };
        target.require_device("nothing lasts there")?;
        target.extend(size)?;
        let how = How { is_direct: false, sync: point.call.into() };
        let writer = Writer::new(&target.data, how, Order::sequential(size, block));
        let mut writer = target.check("write", writer)?;
        if point.r#where == Where::Append {
            target.check("write", writer.empty())?;
        }
        target.check("write", writer.write(WARM_UP))?;
        self.writer = Some(writer);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let writer = self.writer.as_mut().expect("a prepared point has a writer");
        let failed = |result| target.check("write and sync", result);
        let appends = point.r#where == Where::Append;
        let blocks = point.size / point.block;
        let mut until_full = blocks - WARM_UP;
        let clock = meter.clock();
        let before = target.counters(writer.written_bytes());
        let mut count = 0;
        meter.repeat(u64::MAX, |meter| {
            for _ in 0..WRITES_PER_CHECK {
                if appends && until_full == 0 {
                    failed(writer.empty())?;
                    until_full = blocks;
                }
                until_full = until_full.saturating_sub(1);
                let start = clock.start();
                failed(writer.write_one())?;
                let written = clock.end();
                failed(writer.sync())?;
                let end = clock.end();
                meter.latency("write", clock.ns(written.saturating_sub(start)));
                meter.latency("latency", clock.ns(end.saturating_sub(start)));
                count += 1;
            }
            Ok(())
        })?;
        self.share = target.share_written(&before, writer.written_bytes());
        if let Some(flushes) = target.flushes_since(&before) {
            meter.value("flushes", flushes as f64 / f64::from(count));
        }
        Ok(())
    }

    fn finish(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let target = self.target.as_ref().expect("a measured point has a file");
        let writer = self.writer.take().expect("a measured point has a writer");
        if !target.check("read", writer.is_written(&target.data))? {
            fail!("the last block differs from what was written");
        }
        if point.r#where == Where::Append {
            // It is shorter than its recorded size.
            self.target = None;
        }
        target_file::require_all_by_device(self.share, meter, |share| {
            format!(
                "for each byte that {} was to make last, {share:.2} went to the device: the file \
                 system, or its mount options, do not do what is asked (--set dir= for another \
                 folder)",
                point.call.word()
            )
        })
    }
}
