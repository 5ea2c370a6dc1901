//! Reading while contenders read too.

use super::{Contention, READS};
use crate::file::target_file::{self, TargetFile, require_all_by_device, verify_last};
use crate::prelude::*;
use costof_os::file::contenders::Contenders;
use costof_os::file::data::{Access, DataFile};
use costof_os::file::reads::{Engine, Reader};
use std::thread;

/// The longest time for these reads: a rotational disk, shared by ten, takes a minute.
const MAX_NS: f64 = 20e9;
/// Reads between two checks of the time.
const READS_PER_CHECK: u64 = 10;
/// How long each contender may take until it has read its first block: on a rotational disk, 64 of
/// them take a second.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The file of each contender; one block where a block is longer.
pub(super) const CONTENDER_BYTES: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct Contended {
    random: Rng,
    /// Where contenders run.
    others: Vec<usize>,
    target: Option<TargetFile>,
    reader: Option<Reader>,
    contenders: Option<Contenders>,
    share: Option<f64>,
}

impl Contended {
    pub(super) fn start(launch: &Launch) -> Contended {
        Contended {
            random: Rng::with_seed(launch.seed),
            others: launch.cpus.get(1..).unwrap_or_default().to_vec(),
            ..Contended::default()
        }
    }
}

impl RoleAt<Contention> for Contended {
    /// It waits for the device.
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Contention>, _: &Offers) -> Result<Offers> {
        self.contenders = None;
        self.reader = None;
        let (size, block) = (point.size, point.block);
        target_file::require_blocks(size, block)?;
        let target = TargetFile::reuse(&mut self.target, &point.dir)?;
        target.require_device("there is no device to wait for")?;
        target.require_direct(block, "--set dir= for another folder")?;
        target.extend(size)?;
        let order = target_file::random_order(size, block, block, &mut self.random);
        let file = target.data.open(Access::Direct);
        let reader = file.and_then(|file| Reader::new(Engine::Pread, file, order, true));
        let reader = target.check("read", reader)?;
        let files = (0..point.contenders).map(|_| {
            let mut data = DataFile::create(Some(target.data.folder()))?;
            data.extend(CONTENDER_BYTES.max(block))?;
            Ok(data)
        });
        let files = target.check("write", files.collect())?;
        let contenders = Contenders::start(files, block as usize, &self.others)
            .or_unsupported("cannot start other processes that read")?;
        wait_until_all_read(&contenders)?;
        self.contenders = Some(contenders);
        self.reader = Some(reader);
        Ok(Offers::new())
    }

    fn run(&mut self, _: &At<Contention>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let reader = self.reader.as_mut().expect("a prepared point has a reader");
        let contenders = self.contenders.as_ref().expect("and its contenders");
        let clock = meter.clock();
        target.check("read", reader.read(READS_PER_CHECK))?;
        let before = target.counters(reader.read_bytes());
        let theirs = contenders.reads().map_err(ended)?;
        let start = clock.start();
        let ns_since = |start: u64| clock.ns(clock.end().saturating_sub(start));
        let mut count = 0;
        while count < READS && ns_since(start) < MAX_NS {
            let each = |start: u64, end: u64| {
                meter.latency("latency", clock.ns(end.saturating_sub(start)));
            };
            let read = reader.read_each(READS_PER_CHECK, || clock.end(), each);
            target.check("read", read)?;
            count += READS_PER_CHECK;
        }
        let seconds = ns_since(start) / 1e9;
        let now = contenders.reads().map_err(ended)?;
        let read: u64 = now.iter().zip(&theirs).map(|(now, then)| now - then).sum();
        if !now.is_empty() {
            meter.value("rate", read as f64 / now.len() as f64 / seconds);
        }
        meter.value("rate_all", (read + count) as f64 / seconds);
        self.share = target.share_read(&before, reader.read_bytes());
        Ok(())
    }

    fn finish(&mut self, _: &At<Contention>, meter: &mut Meter<'_>) -> Result {
        self.contenders = None;
        let target = self.target.as_ref().expect("a measured point has a file");
        let reader = self.reader.take().expect("a measured point has a reader");
        verify_last(&reader)?;
        require_all_by_device(self.share, meter, |share| {
            format!(
                "for each byte read past the page cache in {}, {share:.2} came from the device",
                target.folder()
            )
        })
    }
}

/// Waits until each contender has read a block.
fn wait_until_all_read(contenders: &Contenders) -> Result {
    let began = Instant::now();
    loop {
        let reads = contenders.reads().map_err(ended)?;
        let waiting = reads.iter().filter(|reads| **reads == 0).count();
        if waiting == 0 {
            return Ok(());
        }
        if began.elapsed() > START_TIMEOUT {
            unsupported!(
                "{waiting} of {} contenders have read no block within {} s (--set contenders= for \
                 fewer, --set dir= for another folder)",
                reads.len(),
                START_TIMEOUT.as_secs()
            );
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn ended(error: io::Error) -> Failure {
    Failure::error(format!("a contender has ended: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::{alone, measure_if_supported, run, supported, value};

    #[test]
    fn a_block_longer_than_a_contenders_file_makes_that_longer() {
        let axes =
            Contention { contenders: 1, size: 4 << 20, block: 1 << 20, ..Contention::default() };
        if let Some(report) = measure_if_supported(&axes) {
            assert!(value(&report, "rate").is_some());
        }
    }

    #[test]
    fn contenders_read_meanwhile_and_end_before_the_next_point() {
        for contenders in [0, 2] {
            let point = At::from(Contention { contenders, size: 1 << 20, ..Contention::default() });
            let _alone = alone();
            let mut role = Contended::default();
            if supported(role.prepare(&point, &Offers::new())).is_none() {
                return;
            }
            let started = role.contenders.as_ref().unwrap();
            assert!(started.reads().unwrap().iter().all(|reads| *reads > 0));
            let pids = started.pids();
            assert_eq!(pids.len() as u64, contenders);
            let report = run(&mut role, &point).unwrap();
            assert_eq!(value(&report, "rate").is_some(), contenders > 0);
            assert!(value(&report, "rate_all") > Some(0.0));
            for pid in pids {
                assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
            }
        }
    }
}
