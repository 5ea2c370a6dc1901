//! `file.sync`: what it costs to have what was written last.

mod role;

use super::{axes, expect, target_file};
use crate::prelude::*;
use costof_os::file::writes;
use role::Syncing;

words! {
    /// What makes it durable.
    pub(crate) enum Call => writes::Sync {
        /// fsync(2) after the write: the data and all metadata of the file
        Fsync = "fsync",
        /// fdatasync(2) after the write: the data, and the metadata that is needed to read it
        Fdatasync = "fdatasync",
        /// the write itself, to a file opened with O_DSYNC
        Dsync = "dsync",
    }

    /// Where in the file the block goes.
    pub(crate) enum Where {
        /// over existing data: the file keeps its length
        Overwrite = "overwrite",
        /// at the end, as in a log: the file gets longer, and its length has to be durable too
        Append = "append",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Sync>();

point! {
    /// What does it cost to write a block so that it is durable?
    ///
    /// A block is written by pwrite(2) into the page cache of a file without a name (O_TMPFILE),
    /// and the call follows, again and again; nothing else of the file is dirty. Each write carries
    /// its number, and the last one is read back. Blocks are appended to a file that is emptied,
    /// untimed, when it has its size. With several writers, each is a thread that overwrites a part
    /// of the file of its own, as those of a database write its log, and makes each block durable
    /// by itself; all but the measured one run on any CPU of the run. Nothing is
    /// measured before each has written a block. The cost includes what the file system does for it: a
    /// journal's commit, which it shares with everything else that is written there. Whether the
    /// device tells the truth cannot be seen: a virtual disk may be in its host's memory.
    ///
    /// # Predicted from
    /// requests to the same device (file.read or os.page_fault, else by its kind): 1 or 2 for the
    /// data, up to 4 more for a journal; flushing the device's cache, by its kind: up to 5 ms for
    /// flash, 10 ms for a virtual disk, two turns of a rotational disk. Several writers: from all at
    /// once to one after the other
    ///
    /// # Sources
    /// - fsync(2), open(2) on O_DSYNC; Linux Documentation/block/writeback_cache_control.rst,
    ///   admin-guide/iostats.rst
    /// - T. Pillai et al., All File Systems Are Not Created Equal, OSDI 2014
    ///
    /// # Needs
    /// - a folder on a file system that is not in memory, with the file's size free (--set dir=), and a disk
    ///   whose counters show that blocks go there: not that of a loop device or of another machine
    pub(crate) struct Sync of "file.sync" {
        /// what makes it durable
        call: Call = words(),
        /// where in the file the block goes
        r#where: Where = words(),
        block: u64 = axes::block(&[4 << 10, 64 << 10, 1 << 20]),
        /// threads that write and make durable at the same time, each what it has written itself
        writers: u64 = count(1..=64, &[1, 4, 16, 64]),
        size: u64 = axes::size(&[16 << 20]),
        dir: Text = axes::dir(),
    }
}

/// What a round takes at least on a virtual disk that is fast, and more for each writer.
const ROUND_NS: f64 = 15e6;
const WRITER_NS: f64 = 0.2e6;
const FILL_NS_PER_BYTE: f64 = 1.2;

impl Measure for Sync {
    const METRICS: &'static [Metric] = metrics! {
        /// the write and the call that makes it durable, together; each is stamped
        latency: Nanoseconds Lower,
        /// the write alone; each is stamped; with dsync the write is everything
        write: Nanoseconds Lower,
        /// blocks made durable per second, of all writers together
        rate: Hertz Higher,
        /// CPU time of the thread for a block, the write and the call together (getrusage); not what kernel threads do
        /// for it; not with where=append
        cpu: Nanoseconds Lower,
        /// bytes that went to the device, divided by those written: the smaller of /proc/self/io
        /// and the disk's own counter; there is no latency where neither counts
        device_share: One Neither,
        /// flushes of the device's own cache per write, by the disk's counter for all processes
        /// (Linux 5.5): 0 where it reports that it has no cache, below 1 where several writers share one
        flushes: One Neither,
    };
    const AFTER: NameList = &["os.syscall", "cpu.memcpy", "os.page_fault", "file.read"];
    const CROSSINGS: &'static [NameList] = &[&["call", "where"]];
    const ROUNDS: u32 = 2;
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["size", "dir", "writers"];
    const ROLES: &'static [StartRole] = &[|launch| role::<Sync>(Syncing::start(launch))];

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let disk = target_file::temporary_name(facts);
        let label = format!("write 4 KiB and fsync, to {disk}");
        vec![Headline::new(label, Sync::default())]
    }

    fn disk_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    /// Each round opens the file, waits until each writer has written, and until each has ended; a file that is appended
    /// to is written anew.
    fn least_ns(point: &At<Self>) -> f64 {
        let filled = if point.r#where == Where::Append { point.size as f64 } else { 0.0 };
        2.0 * (ROUND_NS + WRITER_NS * point.writers as f64 + FILL_NS_PER_BYTE * filled)
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn processors(point: &At<Self>) -> usize {
        point.writers as usize
    }

    fn check_axes(point: &At<Self>) -> Result {
        if point.writers > 1 && point.r#where == Where::Append {
            unsupported!(
                "several writers have no common end of the file to append to (--set \
                 where=overwrite, or writers=1)"
            );
        }
        Ok(())
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let blocks = expect::Blocks { dir: &point.dir, block: point.block, jump: true };
        let request = expect::request(blocks, facts, measured)?;
        // A write of the data, and another one where its place in the file is written too.
        let mut cost = (request.clone() * (1.0, 2.0)).named("to write the data");
        // Then committing a journal or writing a log. A file's times change once per tick: not
        // every fsync finds a new one to write.
        let journal = match (point.r#where, point.call) {
            (Where::Append, _) => (1.0, 4.0),
            (Where::Overwrite, Call::Fsync) => (0.0, 4.0),
            (Where::Overwrite, Call::Fdatasync | Call::Dsync) => (0.0, 0.0),
        };
        cost += (request * journal).named("a journal");
        cost += flush(&point.dir, facts) + expect::bytes(blocks, facts)?;
        (cost * (1.0, point.writers as f64)).predict("latency")
    }
}

/// How long the device takes to flush its own cache, once or twice.
fn flush(dir: &str, facts: &Facts) -> Cost {
    match target_file::medium(dir, facts) {
        Medium::Rotational => Cost::new((2e6, 24e6), "until a disk has turned once or twice"),
        // By capacitors that keep the data, or by programming its cells.
        Medium::Flash => Cost::new((0.0, 5e6), "until flash has emptied its cache"),
        // Not at all, or by an fsync of the host on a disk of any kind.
        Medium::Virtual | Medium::Memory | Medium::File | Medium::Unknown => {
            Cost::new((0.0, 10e6), "until the host has emptied its cache")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::target_file::ALL;
    use crate::file::tests::{measure, measure_if_supported, value};
    use costof_model::facts::DiskKind;
    use costof_model::testing::facts_with_disk;

    #[test]
    fn what_lasts_has_gone_to_the_device() {
        for call in Call::ALL.iter().copied() {
            for r#where in Where::ALL.iter().copied() {
                let axes = Sync { call, r#where, size: 64 << 10, ..Sync::default() };
                if let Some(report) = measure_if_supported(&axes) {
                    let share = value(&report, "device_share");
                    assert!(share.is_none_or(|share| share >= ALL), "{axes:?}");
                }
            }
        }
    }

    #[test]
    fn several_writers_all_write_and_each_overwrites_its_own_part() {
        let axes = Sync { writers: 3, size: 96 << 10, ..Sync::default() };
        if let Some(report) = measure_if_supported(&axes) {
            let share = value(&report, "device_share");
            assert!(share.is_none_or(|share| share >= ALL), "{share:?}");
            assert!(value(&report, "rate") > Some(0.0));
        }
        let appending = Sync { r#where: Where::Append, ..axes };
        let refused = Sync::check_axes(&At::from(appending)).unwrap_err();
        assert!(refused.reason.contains("where=overwrite"), "{refused}");
    }

    #[test]
    fn a_disk_that_turns_takes_a_turn() {
        let point = At::from(Sync::default());
        let expect = |kind| Sync::predict(&point, &facts_with_disk(kind), &MeasuredRows::new(&[]));
        let turns = expect(DiskKind::Rotational).unwrap();
        assert!(turns.low >= 2e6, "{turns:?}");
        let flash = expect(DiskKind::Nvme).unwrap();
        assert!(flash.low < 1e5, "{flash:?}");
        assert!(flash.because.contains("journal"), "{flash:?}");
        assert_eq!(expect(DiskKind::Unknown), None);
    }

    #[test]
    fn nothing_lasts_in_memory() {
        let in_memory = Sync { dir: "/dev/shm".into(), ..Sync::default() };
        match measure(in_memory) {
            Err(failure) => assert!(failure.reason.contains("/dev/shm"), "{failure}"),
            Ok(_) => eprintln!("skipped: /dev/shm is on no tmpfs"),
        }
    }
}
