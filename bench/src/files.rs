//! `file.read` beside fio: the same size of file in the same folder, block, engine and depth, on the
//! same processor. fio reads a file of the bench's own that has no name, made for each round as costof
//! makes its own for each launch, written and synced in the same way.
//!
//! Large blocks go into huge pages on both sides: a device is told of each stretch of memory that lies
//! together, and how pages of 4 KiB lie is another in every process. fio alone then differs twofold
//! from start to start.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::{Result, failed};
use crate::verdict::Verdict;
use costof_peers::tool::words;
use costof_peers::tools::fio::{self, Wanted};
use std::fs;

/// The file, and for how long fio reads it: about as long as costof, since the device answers some
/// seconds faster than others.
const SIZE: &str = "64MiB";
const SIZE_BYTES: u64 = 64 << 20;
const FIO_SECONDS: u32 = 4;
/// Rounds where the device decides.
const DEVICE_ROUNDS: usize = 31;
/// Huge pages that fio's memory may take.
const HUGE_PAGES: u64 = 4;
const HUGE_PAGES_FILE: &str = "/proc/sys/vm/nr_hugepages";

/// What fio is asked for: its reads are as the axes of `file.read` say.
struct Read {
    axes: &'static str,
    metric: &'static str,
    fio: &'static str,
    wanted: Wanted,
}

impl Read {
    fn takes_huge_pages(&self) -> bool {
        self.fio.contains("mmaphuge")
    }
}

const READS: [Read; 4] = [
    Read {
        axes: "cache=direct pattern=random block=4KiB engine=pread depth=1",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=1",
        wanted: Wanted::Latency,
    },
    Read {
        axes: "cache=direct pattern=random block=4KiB engine=io_uring depth=1",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=io_uring --iodepth=1 --direct=1",
        wanted: Wanted::Latency,
    },
    Read {
        axes: "cache=direct pattern=sequential block=1MiB engine=pread depth=1 pages=2MiB",
        metric: "throughput",
        fio: "--rw=read --bs=1m --ioengine=psync --direct=1 --iomem=mmaphuge",
        wanted: Wanted::Throughput,
    },
    Read {
        axes: "cache=warm pattern=random block=4KiB engine=pread depth=1",
        metric: "cost",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=0 --invalidate=0",
        wanted: Wanted::Latency,
    },
];

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let huge_pages = HugePages::reserve();
    let (with, without): (Vec<&Read>, Vec<&Read>) =
        READS.iter().partition(|read| read.takes_huge_pages());
    let reads = match &huge_pages {
        Ok(_) => [without, with].concat(),
        Err(_) => without,
    };
    let contests = reads.into_iter().map(|read| {
        let peer = fio::read(fio::Read {
            options: read.fio,
            bytes: SIZE_BYTES,
            seconds: FIO_SECONDS,
            wanted: read.wanted,
        });
        let mut axes = words(read.axes);
        axes.push(format!("size={SIZE}"));
        let contest = match read.wanted {
            Wanted::Throughput => Contest::throughput("file.read", axes, vec![peer]),
            Wanted::Latency => Contest::time("file.read", read.metric, axes, vec![peer]),
        };
        // A device that has just been written to answers unevenly for a while, as fio's seconds
        // hardly show and the few milliseconds of a quick launch would.
        Contest {
            full: true,
            rounds: match read.metric {
                "latency" | "throughput" => DEVICE_ROUNDS,
                _ => contest.rounds,
            },
            ..contest
        }
    });
    let contests = contests.collect();
    let mut verdicts = contest::hold(bench, "file.read beside fio", contests)?;
    if let Err(error) = huge_pages {
        println!("{error}: what is read into them is left out");
        verdicts.push(Verdict::CannotBeTold(error.to_string()));
    }
    Ok(verdicts)
}

/// Huge pages that programs may ask for by name, as fio does; as many as before when it is dropped.
struct HugePages {
    before: u64,
}

impl HugePages {
    fn reserve() -> Result<HugePages> {
        let no_pages = |error: &dyn std::fmt::Display| {
            failed(format!(
                "cannot reserve huge pages for fio, by {HUGE_PAGES_FILE} as root: {error}"
            ))
        };
        let before = fs::read_to_string(HUGE_PAGES_FILE).map_err(|error| no_pages(&error))?;
        let before: u64 = before.trim().parse().map_err(|error| no_pages(&error))?;
        let more = (before + HUGE_PAGES).to_string();
        fs::write(HUGE_PAGES_FILE, more).map_err(|error| no_pages(&error))?;
        Ok(HugePages { before })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Err(error) = fs::write(HUGE_PAGES_FILE, self.before.to_string()) {
            eprintln!(
                "{HUGE_PAGES_FILE} stays as it is, and was {}: {error}",
                self.before
            );
        }
    }
}
