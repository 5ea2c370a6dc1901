//! `file.remote_call`: a call to a file server that does nothing.

use super::reads;
use super::{HANDSHAKE, PATH, way};
use crate::literal::{latency, list, text};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("file.remote_call"),
        method: 1,
        question: text("How long does a file server take for a call that does nothing?"),
        axes: list![PATH],
        crossings: list![],
        metrics: list![
            latency("from before the call is sent until its answer is there"),
            HANDSHAKE,
        ],
        how: text(
            "NFS version 3 has a procedure that does nothing, NULL: it is called over TCP, one call \
             at a time, of the server that an URL nfs://HOST[:PORT]/EXPORT/FILE names, where that \
             file is. Of a path on a mounted remote file system, the server is asked for the file's \
             attributes instead (statx(2) with AT_STATX_FORCE_SYNC), which the kernel's client does \
             not answer from memory (the process of a FUSE file system may). The handshake beside it is what the link and both kernels take; \
             what is more, the server's process takes, and being woken.",
        ),
        sources: list![
            text("RFC 1813, section 3.3.0: NULL, to allow server response testing and timing"),
            text("RFC 5531; statx(2)"),
        ],
        predicted_from: text(
            "where the server is on this machine, the round trip by TCP that net.rtt has measured on loopback; of another machine's network nothing is known",
        ),
        after: list![text("net.rtt")],
        needs: list![text("--set path=…: nothing says which server may be asked")],
        roles: list![text("only")],
    }),
    rounds: 1,
    blocks_by: &["path"],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines: |_| Vec::new(),
    more_points: |_| Vec::new(),
    budget: None,
    predict: super::expect::null_call,
    roles: &[|_| Ok(Box::new(Caller))],
    derive: the_only_report,
};

struct Caller;

impl Role for Caller {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut reading = reads::find(way(point)?)?.for_calls()?;
        reads::handshakes(&reading, meter)?;
        reads::calls_alone(&mut reading, meter)
    }
}
