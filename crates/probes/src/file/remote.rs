//! `file.remote`: reading a file of another machine.

mod client;
mod expect;
mod mounted;
pub(crate) mod null;
mod reads;
mod reply;
mod server;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod url;

#[cfg(feature = "fuzzing")]
pub use server::fuzzing::nfs;

use crate::prelude::*;
use source::{Reader, Source};

words! {
    /// Which block comes next.
    pub(crate) enum Pattern {
        /// in random order
        Random = "random",
        /// in order, and from the beginning again
        Sequential = "sequential",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Remote>();

point! {
    /// How long does it take to read a file of another machine?
    ///
    /// A URL nfs://HOST[:PORT]/EXPORT/FILE is read by NFS version 3 over TCP from this process,
    /// without a mount. First the crate nfs3_client asks the portmapper, and makes the calls MOUNT
    /// and LOOKUP. A READ is then encoded once and sent with another offset each time, and its
    /// reply is read where it was received, so only the kernel copies a block. Each reply must have
    /// the call's xid and all bytes of the block. No memory of this machine holds the file: each
    /// block crosses the link. The server's memory may hold it, because the point reads before it
    /// measures, for up to half of its time: all of a file of a few MiB, and as much of a larger
    /// one as the time allows. A path on a mounted remote file system (nfs, cifs, sshfs and other
    /// FUSE, 9p, virtiofs, ceph …) is read by pread with O_DIRECT, past this machine's page cache,
    /// so the measurement includes its client in the kernel. Calls that do nothing alternate with
    /// the reads, four times in each launch. The kernels at both ends time the handshake: no
    /// process of the server takes part. `device_share` is unknown here: a server does not say
    /// whether its data came from its disk or its memory. If --set path=… holds a comma, write it
    /// as %2C in a URL.
    ///
    /// # Predicted from
    /// an NFS call that does nothing, and the rate of blocks with several in flight, limited by the
    /// link or the server (both file.remote_call); over a long link its few blocks waited for the
    /// round trip, so that rate is the least that the link lets through
    ///
    /// # Sources
    /// - RFC 1813: NFS Version 3 Protocol; RFC 5531: RPC; RFC 2224: NFS URLs
    /// - CSE 221 System Measurement Project, 2014: files of up to 3 MB over NFS and 100 Mb/s, near
    ///   the link's 12.5 MB/s
    /// - nfs(5), exports(5), open(2) on O_DIRECT; crate nfs3_client
    ///
    /// # Needs
    /// - --set path=…: nothing says which remote file may be read
    /// - an NFS server that exports the file to this machine; many ask for a port below 1024, which
    ///   root has
    pub(crate) struct Remote of "file.remote" {
        path: Text = path(),
        /// which block comes next
        pattern: Pattern = words(),
        /// bytes per call
        block: usize = bytes(512..=MAX_BLOCK_BYTES, &[4 << 10, 64 << 10, 1 << 20]),
        /// bytes of the file that are read, from its beginning; 0: all of it
        size: u64 = bytes(0..=1 << 40, &[0]),
        /// calls in flight at the same time, each for another block; 1 for a mounted path
        depth: usize = count(1..=64, &[1, 16]),
    }
}

impl Measure for Remote {
    const METRICS: &'static [Metric] = metrics! {
        /// from before a block is requested until it is complete; with several in flight, this
        /// includes waiting for the others
        latency: Nanoseconds Lower,
        /// bytes of the file that arrived
        throughput: BytesPerSecond Higher,
        /// an NFS call that does nothing, between the reads, one at a time: the median; for a
        /// mounted path, a request for the file's attributes
        null_call: Nanoseconds Lower,
        /// a TCP handshake with the server's kernel, as this machine's kernel timed it, while
        /// nothing else is in flight: the link's round trip, without a process of the server
        handshake: Nanoseconds Lower,
        /// the same while reads are in flight: where it takes longer, packets queue in the link
        handshake_loaded: Nanoseconds Lower,
        /// CPU time of the reading thread per KiB
        cpu: Nanoseconds Lower,
    };
    const AFTER: NameList = &["file.remote_call"];
    const CROSSINGS: &'static [NameList] = &[&["pattern", "block"], &["block", "depth"]];
    // The patterns and blocks are compared with each other.
    const ROUNDS: u32 = 2;
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["path"];
    const ROLES: &'static [StartRole] = &[|launch| {
        role::<Remote>(Reading { random: Rng::with_seed(launch.seed), ..Reading::default() })
    }];

    fn memory_bytes(point: &At<Self>) -> u64 {
        4 * point.block as u64
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        expect::read(point, measured)
    }
}

/// The largest block: most servers send no more per call.
const MAX_BLOCK_BYTES: u64 = 1 << 20;
/// The value that stands for no path.
const UNSET: &str = "unset";

/// The axis `path`.
fn path() -> AxisOf<Text> {
    place(&[(UNSET, "none: nothing is measured")], const { &[Text::Borrowed(url::SCHEME)] })
        .about("the file, which is only read")
}

/// The file that the path names.
///
/// # Errors
/// Where none is named, it is not found, or it is not remote.
fn find(path: &str) -> Result<Source> {
    if path == UNSET {
        unsupported!(
            "no remote file is named (--set path=nfs://HOST/EXPORT/FILE, or a path on a mounted \
             remote file system)"
        );
    }
    if url::is_url(path) {
        let url = url::Url::parse(path).map_err(Failure::error)?;
        Ok(Source::Nfs(url.to_string(), server::find(&url)?))
    } else {
        mounted::find(path).map(Source::Mounted)
    }
}

/// Reads one file, for all points of a launch.
#[derive(Default)]
struct Reading {
    random: Rng,
    /// Why the file cannot be read: a silent server is not waited for at each point.
    refused: Option<Failure>,
    reader: Option<Reader>,
}

impl RoleAt<Remote> for Reading {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Remote>, _: &Offers) -> Result<Offers> {
        self.reader = None;
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let source =
            find(&point.path).inspect_err(|failure| self.refused = Some(failure.clone()))?;
        let reader = source.open(point.block, point.depth)?;
        self.reader = Some(reader.only_first(point.size)?);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Remote>, meter: &mut Meter<'_>) -> Result {
        let mut reader = self.reader.take().expect("it is prepared");
        let random = match point.pattern {
            Pattern::Random => Some(self.random.fork()),
            Pattern::Sequential => None,
        };
        reads::measure(&mut reader, random, meter)
    }
}
