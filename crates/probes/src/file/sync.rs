//! `file.sync`: what it costs to have what was written last.

use super::axes;
use super::expect;
use super::target_file::{self, TargetFile, all_by_the_device, temporary_name};
use crate::prelude::*;
use costof_model::Text;
use costof_model::facts::Medium;
use costof_os::file::order::Order;
use costof_os::file::writes::{self, How, Writer};
use std::io;

/// Writes before the first that counts.
const WARM_UP: u64 = 2;
/// Writes before the time is looked at again.
const AT_ONCE: u64 = 4;

words! {
    /// What makes it last.
    pub(crate) enum Call => writes::Sync {
        /// fsync(2) after the write: data, and all that is known of the file
        Fsync = "fsync",
        /// fdatasync(2) after the write: data, and what is needed to read it
        Fdatasync = "fdatasync",
        /// the write itself, to a file opened with O_DSYNC
        Dsync = "dsync",
    }
}

words! {
    /// Where in the file the block goes.
    pub(crate) enum Where {
        /// over one that was written before: the file stays as long as it is
        Overwrite = "overwrite",
        /// behind the last, as in a log: the file gets longer, which has to last too
        Append = "append",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Sync>();

point! {
    /// What does it cost to write a block so that it lasts?
    ///
    /// pwrite(2) of a block into the page cache of a file without a name (O_TMPFILE), and the call,
    /// one after the other; nothing else of the file is dirty. Each write carries its number, and
    /// the last one is read back. Appended blocks go to a file that is made empty, untimed, when it
    /// has its size. What a file system does for it is in the cost: a journal's commit, which
    /// whatever else writes there shares. Whether a device's word is good cannot be seen: a virtual
    /// disk may have its host's memory behind it.
    ///
    /// # Predicted from
    /// what file.read or os.page_fault has read from the same device, or times by its kind: 1 or 2
    /// such requests for the data, up to 4 more for a journal; until the device has emptied its
    /// cache, by its kind: up to 5 ms of flash, 10 ms of a virtual disk, two turns of one that
    /// turns
    ///
    /// # Sources
    /// - fsync(2), open(2) on O_DSYNC; Linux Documentation/block/writeback_cache_control.rst,
    ///   admin-guide/iostats.rst
    /// - T. Pillai et al., All File Systems Are Not Created Equal, OSDI 2014
    ///
    /// # Needs
    /// - a folder on a file system that is not in memory, with the file's size free (--set dir=)
    pub(crate) struct Sync of "file.sync" {
        /// what makes it last
        call: Call = words(),
        /// where in the file the block goes
        r#where: Where = words(),
        block: u64 = axes::block(&[4 << 10, 64 << 10, 1 << 20]),
        size: u64 = axes::size(&[16 << 20]),
        dir: Text = axes::dir(),
    }
}

impl Measure for Sync {
    const METRICS: &'static [Metric] = metrics! {
        /// the write and the call that makes it last, together, each stamped
        latency: Nanoseconds Lower,
        /// the write alone, each stamped; with dsync it is all
        write: Nanoseconds Lower,
        /// bytes that went to the device for each that was written, by /proc/self/io and the disk's
        /// own counter, whichever says less; absent where nobody can tell
        device_share: One Neither,
        /// how often the device was told to empty its own cache, for each write, by the disk's
        /// counter for everybody (Linux 5.5): 0 where it says that it has none
        flushes: One Neither,
    };
    const AFTER: &'static [&'static str] =
        &["os.syscall", "cpu.memcpy", "os.page_fault", "file.read"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["call", "where"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: &'static [&'static str] = &["size", "dir"];
    const ROLES: &'static [StartRole] = &[|_| role::<Sync>(Syncing::default())];

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let disk = temporary_name(facts).unwrap_or_else(|| "its disk".to_owned());
        let label = format!("write 4 KiB and fsync, to {disk}");
        vec![Headline::new(label, Sync::default())]
    }

    fn memory_bytes(point: &At<Sync>) -> u64 {
        point.size
    }

    fn predict(point: &At<Sync>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        let request = expect::request(&point.blocks(), facts, known)?;
        // A write of the data, and one more where its place in the file is noted too.
        let mut cost = (request.clone() * (1.0, 2.0)).named("to write the data");
        // To commit a journal, or write a log, behind that. Times of files are kept by the tick: not
        // every fsync finds one that has changed.
        let journal = match (point.r#where, point.call) {
            (Where::Append, _) => (1.0, 4.0),
            (Where::Overwrite, Call::Fsync) => (0.0, 4.0),
            (Where::Overwrite, _) => (0.0, 0.0),
        };
        cost += (request * journal).named("a journal");
        cost += flush(&point.dir, facts) + expect::bytes(&point.blocks(), facts)?;
        cost.predict("latency")
    }
}

#[derive(Default)]
struct Syncing {
    place: Option<TargetFile>,
    writer: Option<Writer>,
    share: Option<f64>,
}

impl Sync {
    /// What the device gets.
    fn blocks(&self) -> expect::Blocks<'_> {
        expect::Blocks {
            dir: &self.dir,
            block: self.block,
            jump: true,
            by_read: false,
        }
    }

    fn how(&self) -> How {
        How {
            is_direct: false,
            sync: self.call.into(),
        }
    }
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
        target_file::has_blocks(size, block)?;
        let place = match point.r#where {
            // What was emptied is as long as its length says no more.
            Where::Append => self.place.insert(TargetFile::of(&point.dir)?),
            Where::Overwrite => TargetFile::again(&mut self.place, &point.dir)?,
        };
        place.must_have_a_device("nothing lasts there")?;
        place.extend(size)?;
        let failed = |error: io::Error| place.failed("write", &error);
        let order = Order::sequential(size, block);
        let mut writer = Writer::new(&place.data, point.how(), order).map_err(failed)?;
        if point.r#where == Where::Append {
            writer.empty().map_err(failed)?;
        }
        writer.write(WARM_UP).map_err(failed)?;
        self.writer = Some(writer);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a prepared point has a file");
        let writer = self.writer.as_mut().expect("a prepared point has a writer");
        let failed = |error: io::Error| place.failed("write and sync", &error);
        let (size, block) = (point.size, point.block);
        let appends = point.r#where == Where::Append;
        let blocks = size / block;
        let mut until_full = blocks - WARM_UP;
        let clock = meter.clock();
        let before = (place.counters(), writer.written_bytes());
        let mut count = 0;
        meter.repeat(u64::MAX, |meter| {
            for _ in 0..AT_ONCE {
                if appends && until_full == 0 {
                    writer.empty().map_err(failed)?;
                    until_full = blocks;
                }
                until_full = until_full.saturating_sub(1);
                let start = clock.start();
                writer.write_one().map_err(failed)?;
                let written = clock.end();
                writer.sync().map_err(failed)?;
                let end = clock.end();
                meter.latency("write", clock.ns(written.saturating_sub(start)));
                meter.latency("latency", clock.ns(end.saturating_sub(start)));
                count += 1;
            }
            Ok(())
        })?;
        let bytes = writer.written_bytes() - before.1;
        self.share = place.share_written(&before.0, bytes);
        if let Some(flushes) = place.flushes_since(&before.0) {
            meter.value("flushes", flushes as f64 / f64::from(count));
        }
        Ok(())
    }

    fn finish(&mut self, point: &At<Sync>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a measured point has a file");
        let writer = self.writer.take().expect("a measured point has a writer");
        let is_written = writer.is_written(&place.data);
        if !is_written.map_err(|error| place.failed("read", &error))? {
            fail!("the last block does not stand as it was written");
        }
        let share = self.share;
        if point.r#where == Where::Append {
            // Shorter than it is known to be.
            self.place = None;
        }
        all_by_the_device(share, meter, |share| {
            format!(
                "for each byte that {} was to make last, {share:.2} went to the device: the file \
                 system, or who mounted it, does not do what is asked (--set dir= for another \
                 folder)",
                point.call.word()
            )
        })
    }
}

/// What it takes until the device has emptied its own cache, once or twice.
fn flush(dir: &str, facts: &Facts) -> Cost {
    match target_file::medium(dir, facts) {
        Medium::Rotational => Cost::new((2e6, 24e6), "until a disk has turned once or twice"),
        // Of capacitors that keep it, or of cells that must be programmed.
        Medium::Flash => Cost::new((0.0, 5e6), "until flash has emptied its cache"),
        // Nothing, or an fsync of the host's on a disk of whatever kind.
        _ => Cost::new((0.0, 10e6), "until the host has emptied its cache"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tried::{measure, value};
    use costof_model::failure::FailureKind;

    #[test]
    fn what_lasts_has_gone_to_the_device() {
        for call in Call::ALL.iter().copied() {
            for r#where in Where::ALL.iter().copied() {
                let axes = Sync {
                    call,
                    r#where,
                    size: 64 << 10,
                    ..Sync::default()
                };
                match measure(axes.clone()) {
                    Ok(report) => {
                        let share = value(&report, "device_share");
                        assert!(
                            share.is_none_or(|share| share >= crate::file::target_file::ALL),
                            "{axes:?}"
                        );
                    }
                    Err(failure) => {
                        assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
                        eprintln!("checked less: {axes:?}: {failure}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_disk_that_turns_takes_a_turn() {
        use costof_model::facts::{Disk, DiskKind, FileSystem};
        let facts = |kind| Facts {
            disks: vec![Disk {
                name: "sda".to_owned(),
                kind,
                ..Disk::default()
            }],
            file_systems: vec![FileSystem {
                mount_point: "/".to_owned(),
                disk: Some("sda".to_owned()),
                ..FileSystem::default()
            }],
            temporary_folder: Some("/tmp".to_owned()),
            ..Facts::default()
        };
        let point = At::from(Sync::default());
        let expect = |kind| Sync::predict(&point, &facts(kind), &Known(&[]));
        let turns = expect(DiskKind::Rotational).unwrap();
        assert!(turns.low >= 2e6, "{turns:?}");
        let flash = expect(DiskKind::Nvme).unwrap();
        assert!(flash.low < 1e5, "{flash:?}");
        assert!(flash.because.contains("journal"), "{flash:?}");
        assert_eq!(expect(DiskKind::Unknown), None);
    }

    #[test]
    fn nothing_lasts_in_memory() {
        let in_memory = Sync {
            dir: "/dev/shm".into(),
            ..Sync::default()
        };
        match measure(in_memory) {
            Err(failure) => assert!(failure.reason.contains("/dev/shm"), "{failure}"),
            Ok(_) => eprintln!("skipped: /dev/shm is on no tmpfs"),
        }
    }
}
