//! `file.remote`: reading a file of another machine.

mod calls;
mod expect;
mod mounted;
pub(crate) mod null;
mod reads;
mod server;
mod url;
mod wire;

use super::axes::SEQUENTIAL;
use crate::literal::{latency, list, metric, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::{Axis, Domain};
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Better, Unit};
use fastrand::Rng;
use reads::{Reading, Way};
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("file.remote"),
        method: 1,
        question: text("How long does it take to read a file of another machine?"),
        axes: list![
            PATH,
            PATTERN,
            Axis {
                name: text("block"),
                about: text("bytes that one call reads"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 512,
                    high: BLOCK_MOST_BYTES,
                    usual: list![4 << 10, 64 << 10, 1 << 20],
                },
            },
            Axis {
                name: text("depth"),
                about: text(
                    "calls under way at a time, each for a block of its own; of a mounted path 1"
                ),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 1,
                    high: 64,
                    usual: list![1, 16],
                },
            },
        ],
        crossings: list![
            list![text("pattern"), text("block")],
            list![text("block"), text("depth")],
        ],
        metrics: list![
            latency(
                "from before a block is asked for until it is there; with several under way, also what it waits for the others"
            ),
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes of the file that arrived",
            ),
            metric(
                "null_call",
                Unit::Nanoseconds,
                Better::Lower,
                "an NFS call that does nothing, between the reads, one at a time: the median; of a mounted path, asking the server for the file's attributes",
            ),
            HANDSHAKE,
            metric(
                "handshake_loaded",
                Unit::Nanoseconds,
                Better::Lower,
                "the same while the reads are under way: where it takes longer, packets wait in the link",
            ),
            metric(
                "cpu",
                Unit::Nanoseconds,
                Better::Lower,
                "processor time of the reading thread for a KiB that it reads",
            ),
        ],
        how: text(
            "An URL nfs://HOST[:PORT]/EXPORT/FILE is read by NFS version 3 over TCP from this process, \
             without a mount: the portmapper, MOUNT and LOOKUP are asked by the crate nfs3_client, \
             before; a READ is then written once and sent with another offset each time, and its \
             answer looked at where it was received, so that no block is copied but by the kernel. \
             Each answer must have the call's number and all bytes of the block. No memory of this \
             machine holds the file: each block crosses the link. The server's may: what is read is \
             read before, for up to half of the point's time, so that a file of some MiB comes from \
             the server's memory, and of a large one what fits the time. A path on a mounted file \
             system that is remote (nfs, cifs, sshfs and other FUSE, 9p, virtiofs, ceph …) is read \
             by pread with O_DIRECT, past this machine's page cache, so its client in the kernel is \
             measured too. Calls that do nothing take turns with the reads, four times in each launch. The \
             handshake is timed by the kernels at both ends: no process of the server has part in \
             it. `device_share` is unknown here: a server does not say whether its disk or its memory gave \
             what it sends. Where --set path=… holds a comma, it is written %2C in an URL.",
        ),
        sources: list![
            text("RFC 1813: NFS Version 3 Protocol; RFC 5531: RPC; RFC 2224: NFS URLs"),
            text(
                "CSE 221 System Measurement Project, 2014: files of up to 3 MB over NFS and 100 Mb/s, near the link's 12.5 MB/s"
            ),
            text("nfs(5), exports(5), open(2) on O_DIRECT; crate nfs3_client"),
        ],
        predicted_from: text(
            "an NFS call that does nothing, as file.remote_call has measured it; the rate of the machine's fastest network device, where its driver tells; copies at both ends",
        ),
        after: list![text("file.remote_call")],
        needs: list![
            text("--set path=…: nothing says which remote file may be read"),
            text(
                "an NFS server that exports the file to this machine; many ask for a port below 1024, which root has",
            ),
        ],
        roles: list![text("only")],
    }),
    // The patterns and blocks are held against each other.
    rounds: 2,
    blocks_by: &["path"],
    least_ns: |_| 0.0,
    memory_bytes: |point| 4 * block(point) as u64,
    processors: |_| 1,
    headlines: |_| Vec::new(),
    more_points: |_| Vec::new(),
    budget: None,
    predict: expect::read,
    roles: &[|launch| Ok(Box::new(Reader::start(launch)))],
    derive: the_only_report,
};

/// The largest block: what most servers give by one call at most.
const BLOCK_MOST_BYTES: u64 = 1 << 20;
/// The word for no path at all.
const UNSET: &str = "unset";

/// The axis `path`.
const PATH: Axis = Axis {
    name: text("path"),
    about: text("the file, which is only read"),
    domain: Domain::Place {
        words: list![word(UNSET, "none: nothing is measured")],
        schemes: list![text(url::SCHEME)],
    },
};

/// The axis `pattern`.
const PATTERN: Axis = words(
    "pattern",
    "which block comes next",
    list![word("random", "any"), SEQUENTIAL,],
);

/// The metric `handshake`.
const HANDSHAKE: MetricInfo = metric(
    "handshake",
    Unit::Nanoseconds,
    Better::Lower,
    "a TCP handshake with the server's kernel, as this one timed it, while nothing else is under way: the link's round trip, without a process of the server",
);

fn block(point: &Point) -> usize {
    point.axes.number("block") as usize
}

fn depth(point: &Point) -> usize {
    point.axes.number("depth") as usize
}

fn path(point: &Point) -> &str {
    point.axes.word("path")
}

/// How the file of a point is reached.
///
/// # Errors
/// Where none is named, or what is named cannot be one.
fn way(point: &Point) -> Result<Way, Failure> {
    match path(point) {
        UNSET => Err(Failure::unsupported(
            "no remote file is named (--set path=nfs://HOST/EXPORT/FILE, or a path on a mounted \
             remote file system)",
        )),
        text if url::is_url(text) => url::Url::parse(text).map(Way::Nfs).map_err(Failure::error),
        text => mounted::remote(text).map(Way::Mounted),
    }
}

/// Reads one file, by however many points.
struct Reader {
    random: Rng,
    /// Why the file cannot be read: a server that is silent is not waited for at each point.
    refused: Option<Failure>,
    reading: Option<Reading>,
}

impl Reader {
    fn start(launch: &Launch) -> Reader {
        Reader {
            random: Rng::with_seed(launch.seed),
            refused: None,
            reading: None,
        }
    }
}

impl Role for Reader {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.reading = None;
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let way = way(point).inspect_err(|failure| self.refused = Some(failure.clone()))?;
        let file = reads::find(way).inspect_err(|failure| self.refused = Some(failure.clone()))?;
        self.reading = Some(file.open(block(point), depth(point))?);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut reading = self.reading.take().expect("it is prepared");
        let random = point.axes.word("pattern") == "random";
        let drawn = random.then(|| self.random.fork());
        reads::measure(&mut reading, drawn, meter)
    }
}
