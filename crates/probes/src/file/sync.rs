//! `file.sync`: what it costs to have what was written last.

use super::axes::{DIR, block_axis, size_axis};
use super::expect;
use super::place::{Place, all_by_the_device, temporary_name};
use crate::expect::latency_ns;
use crate::literal::{latency, list, metric, text, word, words};
use crate::sum::{Range, Sum};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::facts::{Facts, Medium};
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Better, Unit};
use costof_os::file::order::Order;
use costof_os::file::writes::{How, Sync, Writer};
use std::io;
use std::sync::LazyLock;

/// Writes before the first that counts.
const WARM_UP: u64 = 2;
/// Writes before the time is looked at again.
const AT_ONCE: u64 = 4;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("file.sync"),
        method: 1,
        question: text("What does it cost to write a block so that it lasts?"),
        axes: list![
            words(
                "call",
                "what makes it last",
                list![
                    word(
                        "fsync",
                        "fsync(2) after the write: data, and all that is known of the file"
                    ),
                    word(
                        "fdatasync",
                        "fdatasync(2) after the write: data, and what is needed to read it"
                    ),
                    word("dsync", "the write itself, to a file opened with O_DSYNC"),
                ],
            ),
            words(
                "where",
                "where in the file the block goes",
                list![
                    word(
                        "overwrite",
                        "over one that was written before: the file stays as long as it is"
                    ),
                    word(
                        "append",
                        "behind the last, as in a log: the file gets longer, which has to last too"
                    ),
                ],
            ),
            block_axis(list![4 << 10, 64 << 10, 1 << 20]),
            size_axis(list![16 << 20]),
            DIR,
        ],
        crossings: list![list![text("call"), text("where")]],
        metrics: list![
            latency("the write and the call that makes it last, together, each stamped"),
            metric(
                "write",
                Unit::Nanoseconds,
                Better::Lower,
                "the write alone, each stamped; with dsync it is all"
            ),
            metric(
                "device_share",
                Unit::One,
                Better::Neither,
                "bytes that went to the device for each that was written, by /proc/self/io and the \
                 disk's own counter, whichever says less; absent where nobody can tell",
            ),
            metric(
                "flushes",
                Unit::One,
                Better::Neither,
                "how often the device was told to empty its own cache, for each write, by the \
                 disk's counter for everybody (Linux 5.5): 0 where it says that it has none",
            ),
        ],
        how: text(
            "pwrite(2) of a block into the page cache of a file without a name (O_TMPFILE), and \
             the call, one after the other; nothing else of the file is dirty. Each write carries \
             its number, and the last one is read back. Appended blocks go to a file that is made \
             empty, untimed, when it has its size. What a file system does for it is in the cost: \
             a journal's commit, which whatever else writes there shares. Whether a device's word \
             is good cannot be seen: a virtual disk may have its host's memory behind it.",
        ),
        sources: list![
            text(
                "fsync(2), open(2) on O_DSYNC; Linux Documentation/block/writeback_cache_control.rst, admin-guide/iostats.rst"
            ),
            text("T. Pillai et al., All File Systems Are Not Created Equal, OSDI 2014"),
        ],
        predicted_from: text(
            "what file.read or os.page_fault has read from the same device, or times by its kind: 1 or 2 such requests for the data, up to 4 more for a journal; until the device has emptied its cache, by its kind: up to 5 ms of flash, 10 ms of a virtual disk, two turns of one that turns",
        ),
        after: list![
            text("os.syscall"),
            text("cpu.memcpy"),
            text("os.page_fault"),
            text("file.read")
        ],
        needs: list![text(
            "a folder on a file system that is not in memory, with the file's size free (--set dir=)"
        )],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &["size", "dir"],
    least_ns: |_| 0.0,
    memory_bytes: |point| point.axes.number("size"),
    processors: |_| 1,
    headlines: |facts| {
        let disk = temporary_name(facts).unwrap_or_else(|| "its disk".to_owned());
        let label = format!("write 4 KiB and fsync, to {disk}");
        vec![Headline::new(label, PROBE.info.defaults())]
    },
    more_points: |_| Planned::anywhere(Vec::new()),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Syncing::start(launch)))],
    derive: the_only_report,
};

struct Syncing {
    place: Option<Place>,
    writer: Option<Writer>,
    share: Option<f64>,
}

impl Syncing {
    fn start(_: &Launch) -> Syncing {
        Syncing {
            place: None,
            writer: None,
            share: None,
        }
    }
}

fn how(point: &Point) -> How {
    How {
        is_direct: false,
        sync: match point.axes.word("call") {
            "fdatasync" => Sync::Fdatasync,
            "dsync" => Sync::Dsync,
            _ => Sync::Fsync,
        },
    }
}

impl Role for Syncing {
    /// It waits for the device.
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.writer = None;
        self.share = None;
        super::place::has_blocks(point)?;
        let (size, block) = (point.axes.number("size"), point.axes.number("block"));
        let place = match point.axes.word("where") {
            // What was emptied is as long as its length says no more.
            "append" => self.place.insert(Place::of(point)?),
            _ => Place::again(&mut self.place, point)?,
        };
        place.must_have_a_device("nothing lasts there")?;
        place.extend(size)?;
        let failed = |error: io::Error| place.failed("write", &error);
        let order = Order::sequential(size, block);
        let mut writer = Writer::new(&place.data, how(point), order).map_err(failed)?;
        if point.axes.word("where") == "append" {
            writer.empty().map_err(failed)?;
        }
        writer.write(WARM_UP).map_err(failed)?;
        self.writer = Some(writer);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a prepared point has a file");
        let writer = self.writer.as_mut().expect("a prepared point has a writer");
        let failed = |error: io::Error| place.failed("write and sync", &error);
        let (size, block) = (point.axes.number("size"), point.axes.number("block"));
        let appends = point.axes.word("where") == "append";
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

    fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a measured point has a file");
        let writer = self.writer.take().expect("a measured point has a writer");
        let is_written = writer.is_written(&place.data);
        if !is_written.map_err(|error| place.failed("read", &error))? {
            return Err(Failure::error(
                "the last block does not stand as it was written",
            ));
        }
        let share = self.share;
        if point.axes.word("where") == "append" {
            // Shorter than it is known to be.
            self.place = None;
        }
        all_by_the_device(share, meter, |share| {
            format!(
                "for each byte that {} was to make last, {share:.2} went to the device: the file \
                 system, or who mounted it, does not do what is asked (--set dir= for another \
                 folder)",
                point.axes.word("call")
            )
        })
    }
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    /// A write of the data, and one more where its place in the file is noted too.
    const DATA: Range = Range(1.0, 2.0);
    /// To commit a journal, or write a log, behind that.
    const JOURNAL: Range = Range(1.0, 4.0);
    let request = expect::request(point, facts, known)?;
    let mut sum = Sum::new();
    sum.add(
        DATA * request.range,
        format!("to write the data, {}", request.name),
    );
    if point.axes.word("where") == "append" || point.axes.word("call") == "fsync" {
        // Times of files are kept by the tick: not every fsync finds one that has changed.
        let least = match point.axes.word("where") {
            "append" => JOURNAL.0,
            _ => 0.0,
        };
        sum.add(Range(least, JOURNAL.1) * request.range, "for a journal");
    }
    let (flush, name) = flush(point, facts);
    sum.add(flush, name);
    let rest = expect::bytes(point, facts)?;
    sum.add(rest.range, rest.name);
    let Range(low, high) = sum.total();
    latency_ns(low, high, sum.in_words())
}

/// What it takes until the device has emptied its own cache, once or twice.
fn flush(point: &Point, facts: &Facts) -> (Range, &'static str) {
    match super::place::medium(point, facts) {
        Medium::Rotational => (Range(2e6, 24e6), "until a disk has turned once or twice"),
        // Of capacitors that keep it, or of cells that must be programmed.
        Medium::Flash => (Range(0.0, 5e6), "until flash has emptied its cache"),
        // Nothing, or an fsync of the host's on a disk of whatever kind.
        _ => (Range(0.0, 10e6), "until the host has emptied its cache"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tried::{measure, value};
    use costof_model::failure::FailureKind;

    #[test]
    fn what_lasts_has_gone_to_the_device() {
        for call in ["fsync", "fdatasync", "dsync"] {
            for place in ["overwrite", "append"] {
                let axes = PROBE.info.defaults().with("call", call);
                let axes = axes.with("where", place).with("size", 64 << 10);
                match measure(&PROBE, axes.clone()) {
                    Ok(report) => {
                        let share = value(&report, "device_share");
                        assert!(
                            share.is_none_or(|share| share >= crate::file::place::ALL),
                            "{axes}"
                        );
                    }
                    Err(failure) => {
                        assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
                        eprintln!("checked less: {axes}: {failure}");
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
        let point = crate::literal::point(&PROBE, PROBE.info.defaults());
        let expect = |kind| predict(&point, &facts(kind), &Known(&[]));
        let turns = expect(DiskKind::Rotational).unwrap();
        assert!(turns.low >= 2e6, "{turns:?}");
        let flash = expect(DiskKind::Nvme).unwrap();
        assert!(flash.low < 1e5, "{flash:?}");
        assert!(flash.because.contains("journal"), "{flash:?}");
        assert_eq!(expect(DiskKind::Unknown), None);
    }

    #[test]
    fn nothing_lasts_in_memory() {
        let mut axes = PROBE.info.defaults();
        let folder = costof_model::axis::AxisValue::Word("/dev/shm".into());
        axes.0.insert("dir".into(), folder);
        match measure(&PROBE, axes) {
            Err(failure) => assert!(failure.reason.contains("/dev/shm"), "{failure}"),
            Ok(_) => eprintln!("skipped: /dev/shm is on no tmpfs"),
        }
    }
}
