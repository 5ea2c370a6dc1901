//! Writing and syncing, one after the other.

use super::{Sync, Where};
use crate::file::target_file::{self, TargetFile};
use crate::prelude::*;
use costof_os::file::order::Order;
use costof_os::file::writes::{How, Writer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Writes before the first that counts.
const WARM_UP: u64 = 2;
/// Writes between two checks of the time.
const WRITES_PER_CHECK: u64 = 4;

#[derive(Default)]
pub(super) struct Syncing {
    /// Where the other writers run: on any CPU of the run; where the kernel likes if there are none.
    cpus: Vec<usize>,
    target: Option<TargetFile>,
    writer: Option<Writer>,
    others: Vec<Writer>,
    share: Option<f64>,
}

/// What the other writers and the measured one share.
#[derive(Default)]
struct Shared {
    /// Blocks that the other writers have made durable.
    done: AtomicU64,
    /// How many of the others have written their first one.
    writing: AtomicU64,
    stop: AtomicBool,
}

/// A thread of one of the other writers.
type Other<'s> = ScopedJoinHandle<'s, io::Result<()>>;

impl Shared {
    /// Writes until it is to stop.
    fn write(&self, writer: &mut Writer) -> io::Result<()> {
        writer.write(1)?;
        self.writing.fetch_add(1, Ordering::Relaxed);
        while !self.stop.load(Ordering::Relaxed) {
            writer.write(1)?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Starts a thread for each of these writers, and waits until each has written.
    fn start<'s>(
        &'s self,
        writers: &'s mut [Writer],
        cpus: &'s [usize],
        scope: &'s Scope<'s, '_>,
    ) -> Result<Vec<Other<'s>>> {
        let mut threads = Vec::new();
        for writer in writers {
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                if !cpus.is_empty() {
                    // If this fails, it stays with the measured one.
                    let _ = affinity::pin(cpus);
                }
                self.write(writer)
            });
            threads.push(thread.or_unsupported("cannot start another writer (--set writers=)")?);
        }
        let is_waiting = || self.writing.load(Ordering::Relaxed) < threads.len() as u64;
        while is_waiting() && !threads.iter().any(Other::is_finished) {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(threads)
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Syncing {
    pub(super) fn start(launch: &Launch) -> Syncing {
        Syncing { cpus: launch.cpus.clone(), ..Syncing::default() }
    }
}

impl RoleAt<Sync> for Syncing {
    /// It waits for the device.
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Sync>, _: &Offers) -> Result<Offers> {
        self.writer = None;
        self.others.clear();
        self.share = None;
        let (size, block) = (point.size, point.block);
        let part = size / point.writers;
        target_file::require_blocks(part, block)?;
        let target = match point.r#where {
            // After it was emptied, the file is shorter than its recorded size.
            Where::Append => self.target.insert(TargetFile::new(&point.dir)?),
            Where::Overwrite => TargetFile::reuse(&mut self.target, &point.dir)?,
        };
        target.require_device("nothing lasts there")?;
        target.extend(size)?;
        let how = How { is_direct: false, sync: point.call.into() };
        let new = |number| {
            let order = Order::of_part(number, part, block);
            target.check("write", Writer::new(&target.data, how, order))
        };
        let mut writer = new(0)?;
        self.others = (1..point.writers).map(new).collect::<Result<_, _>>()?;
        if point.r#where == Where::Append {
            target.check("write", writer.empty())?;
        }
        target.check("write", writer.write(WARM_UP))?;
        self.writer = Some(writer);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let writer = self.writer.as_mut().expect("a prepared point has a writer");
        let written = |writer: &Writer, others: &[Writer]| {
            writer.written_bytes() + others.iter().map(Writer::written_bytes).sum::<u64>()
        };
        let before = target.counters(written(writer, &self.others));
        let shared = Shared::default();
        thread::scope(|scope| {
            let threads = shared.start(&mut self.others, &self.cpus, scope);
            let measured = threads.and_then(|threads| {
                commit(point, target, writer, &shared.done, meter)?;
                Ok(threads)
            });
            shared.stop.store(true, Ordering::Relaxed);
            for thread in measured? {
                let ended = thread.join().expect("writing does not panic");
                target.check("write and sync", ended)?;
            }
            Ok(())
        })?;
        let bytes = written(writer, &self.others);
        self.share = target.share_written(&before, bytes);
        if let Some(flushes) = target.flushes_since(&before) {
            let writes = (bytes - before.bytes()) / point.block;
            meter.value("flushes", flushes as f64 / writes as f64);
        }
        Ok(())
    }

    fn finish(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a measured point has a file");
        let writer = self.writer.take().expect("a measured point has a writer");
        let is_written = target.check("read", writer.is_written(&target.data))?;
        ensure!(is_written, "the last block differs from what was written");
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

/// Writes and syncs until the time is over; `others` counts what the other writers do meanwhile.
fn commit(
    point: &At<Sync>,
    target: &TargetFile,
    writer: &mut Writer,
    others: &AtomicU64,
    meter: &mut Meter<'_>,
) -> Result {
    let failed = |result| target.check("write and sync", result);
    let appends = point.r#where == Where::Append;
    let blocks = point.size / point.block;
    let mut until_full = blocks - WARM_UP;
    let clock = meter.clock();
    let (mut count, mut untimed) = (0, 0);
    let others_before = others.load(Ordering::Relaxed);
    let (began, used) = (clock.start(), usage::thread());
    meter.repeat(u64::MAX, |meter| {
        for _ in 0..WRITES_PER_CHECK {
            if appends && until_full == 0 {
                let start = clock.start();
                failed(writer.empty())?;
                untimed += clock.end().saturating_sub(start);
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
    let ns = clock.ns(clock.end().saturating_sub(began).saturating_sub(untimed));
    if !appends {
        let used = usage::thread().since(&used);
        meter.value("cpu", used.cpu_ns() as f64 / count as f64);
    }
    let all = count + others.load(Ordering::Relaxed) - others_before;
    meter.value("rate", all as f64 * 1e9 / ns);
    Ok(())
}
