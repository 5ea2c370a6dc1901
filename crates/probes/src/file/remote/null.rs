//! `file.remote_call`: a call to a file server that does nothing.

use super::reads;
use super::{find, path};
use crate::prelude::*;

pub(crate) static PROBE: Probe = Probe::new::<RemoteCall>();

point! {
    /// How long does a file server take for a call that does nothing?
    ///
    /// NFS version 3 has a procedure that does nothing, NULL. It is called over TCP, one call at a
    /// time, on the server of the file that a URL nfs://HOST[:PORT]/EXPORT/FILE names. For a path
    /// on a mounted remote file system, the server is asked for the file's attributes instead
    /// (statx(2) with AT_STATX_FORCE_SYNC); the kernel's client does not answer that from memory,
    /// but the process of a FUSE file system may. The handshake shows the time of the link and of
    /// both kernels; the rest is the server's process, and waking it. Then the file is read in
    /// order in blocks of up to 64 KiB, four in flight (of a mounted path one), for 50 ms, after
    /// warming up for up to as long. Over a long link the round trip limits that, not the link:
    /// reads with more in flight are then faster.
    ///
    /// # Predicted from
    /// where the server is on this machine, a TCP round trip on loopback (net.rtt); nothing is
    /// known about another machine's network
    ///
    /// # Sources
    /// - RFC 1813, section 3.3.0: NULL, to allow server response testing and timing
    /// - RFC 5531; statx(2)
    ///
    /// # Needs
    /// - --set path=…: nothing says which server may be asked
    pub(crate) struct RemoteCall of "file.remote_call" {
        path: Text = path(),
    }
}

impl Measure for RemoteCall {
    const METRICS: &'static [Metric] = metrics! {
        /// from before the call is sent until its answer has arrived
        latency: Nanoseconds Lower,
        /// a TCP handshake with the server's kernel, as this machine's kernel timed it, while
        /// nothing else is in flight: the link's round trip, without a process of the server
        handshake: Nanoseconds Lower,
        /// bytes of the file per second with several calls in flight, limited by the link, its
        /// round trip, or the server
        rate: BytesPerSecond Higher,
    };
    const AFTER: NameList = &["net.rtt"];
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["path"];
    const ROLES: &'static [StartRole] = &[|_| role::<RemoteCall>(Caller)];

    fn least_ns(_: &At<Self>) -> f64 {
        3.0 * reads::RATE_NS
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        super::expect::null_call(&point.path, measured)
    }
}

struct Caller;

impl RoleAt<RemoteCall> for Caller {
    const BLOCKS: bool = true;

    fn run(&mut self, point: &At<RemoteCall>, meter: &mut Meter<'_>) -> Result {
        let mut reader = find(&point.path)?.open_for_calls()?;
        reads::handshakes(&reader, meter)?;
        reads::calls_alone(&mut reader, meter)?;
        let mut reader = find(&point.path)?.open_for_rate()?;
        reads::rate(&mut reader, meter)
    }
}
