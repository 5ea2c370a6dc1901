//! `file.read` beside fio: the same size of file in the same folder, block, engine and depth, on the
//! same processor. fio reads a file of the bench's own that has no name, made for each round as costof
//! makes its own for each launch, written and synced in the same way.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, words};
use crate::error::{Result, failed};
use crate::verdict::Verdict;
use costof_os::file::data::DataFile;
use serde_json::Value;
use std::cell::RefCell;
use std::os::fd::AsRawFd;

/// The file, and for how long fio reads it.
const SIZE: &str = "64MiB";
const SIZE_BYTES: u64 = 64 << 20;
const FIO_SECONDS: u32 = 1;

/// What fio is asked for beside the pattern: its reads are as the axes of `file.read` say.
struct Read {
    axes: &'static str,
    metric: &'static str,
    fio: &'static str,
    number: fn(&str) -> Option<f64>,
}

const READS: [Read; 4] = [
    Read {
        axes: "cache=direct pattern=random block=4KiB engine=pread depth=1",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=1",
        number: median_latency,
    },
    Read {
        axes: "cache=direct pattern=random block=4KiB engine=io_uring depth=1",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=io_uring --iodepth=1 --direct=1",
        number: median_latency,
    },
    Read {
        axes: "cache=direct pattern=sequential block=1MiB engine=pread depth=1",
        metric: "throughput",
        fio: "--rw=read --bs=1m --ioengine=psync --direct=1",
        number: throughput,
    },
    Read {
        axes: "cache=warm pattern=random block=4KiB engine=pread depth=1",
        metric: "cost",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=0 --invalidate=0",
        number: median_latency,
    },
];

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let file = RefCell::new(file()?);
    let contests = READS.iter().map(|read| {
        let peer = Peer {
            name: "fio",
            says: match read.metric {
                // All that was read in its time.
                "throughput" => Says::Mean,
                _ => Says::Median,
            },
            program: Program::Installed("fio"),
            arguments: Box::new(|| {
                // Where it cannot be made again, the last one is read once more.
                if let Ok(new) = self::file() {
                    file.replace(new);
                }
                fio(read.fio, &file.borrow())
            }),
            read: read.number,
        };
        let mut axes = words(read.axes);
        axes.push(format!("size={SIZE}"));
        let contest = match read.metric {
            "throughput" => Contest::throughput("file.read", axes, vec![peer]),
            metric => Contest::time("file.read", metric, axes, vec![peer]),
        };
        // A device that has just been written to answers unevenly for a while, as fio's second
        // hardly shows and the few milliseconds of a quick launch would.
        Contest {
            full: true,
            ..contest
        }
    });
    let contests = contests.collect();
    contest::hold(bench, "file.read beside fio", contests)
}

/// In the folder that costof takes, which is the first that will do for either.
fn file() -> Result<DataFile> {
    let no_file = |error| failed(format!("cannot make a file for fio to read: {error}"));
    let mut file = DataFile::create(None).map_err(no_file)?;
    file.extend(SIZE_BYTES).map_err(no_file)?;
    Ok(file)
}

/// fio's arguments for this file, by the descriptor that the bench has of it.
fn fio(read: &str, file: &DataFile) -> Vec<String> {
    words(&format!(
        "--name=read --filename=/proc/{}/fd/{} --allow_file_create=0 --size={SIZE_BYTES} {read} \
         --randrepeat=0 --time_based --runtime={FIO_SECONDS} --thread --lat_percentiles=1 \
         --clat_percentiles=0 --percentile_list=50 --output-format=json",
        std::process::id(),
        file.file().as_raw_fd()
    ))
}

/// What fio says of its reads.
fn reads(output: &str) -> Option<Value> {
    // Notes may stand before it.
    let json = &output[output.find('{')?..];
    let mut all: Value = serde_json::from_str(json).ok()?;
    Some(all.pointer_mut("/jobs/0/read")?.take())
}

/// The median of whole reads, from before they were submitted, in nanoseconds.
fn median_latency(output: &str) -> Option<f64> {
    reads(output)?
        .pointer("/lat_ns/percentile/50.000000")?
        .as_f64()
}

/// Bytes a second.
fn throughput(output: &str) -> Option<f64> {
    reads(output)?.pointer("/bw_bytes")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fios_output_is_read() {
        let output = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
            {"fio version": "fio-3.33", "jobs": [{"jobname": "read", "read": {
                "bw_bytes": 44016655, "iops": 10746.25,
                "lat_ns": {"mean": 89822.3, "percentile": {"50.000000": 59648}}}}]}"#;
        assert_eq!(median_latency(output), Some(59648.0));
        assert_eq!(throughput(output), Some(44_016_655.0));
        for output in ["", "{}", r#"{"jobs": []}"#, "fio: failed"] {
            assert_eq!(median_latency(output), None, "{output}");
        }
    }
}
