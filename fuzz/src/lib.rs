//! Fuzz targets: each takes any bytes, gives them to what reads the text or messages of others, and
//! asserts what must hold: no panic, what is written is read again as the same, errors name what is
//! wrong, no text rules a terminal, no page has an element of another.
//!
//! libFuzzer runs them (`fuzz/run`, CONTRIBUTING.md); `tests/short.rs` runs them over the kept inputs
//! in `corpus/`, and over changes of these, with a stable compiler.

mod edits;
mod markup;
mod same;
mod targets;

use targets::{expressions, many, page, protocol, reference, run, study};

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Asserts what must hold for these bytes.
    pub run: fn(&[u8]),
    /// How many changed inputs the short form tries.
    pub rounds: usize,
}

const fn target(name: &'static str, rounds: usize, run: fn(&[u8])) -> Target {
    Target { name, run, rounds }
}

/// All of them.
pub static TARGETS: [Target; 21] = [
    target("link", 5000, expressions::link),
    target("axis", 2000, expressions::axis),
    target("host", 5000, expressions::host),
    target("quantity", 5000, expressions::quantity),
    target("estimate", 2000, expressions::estimate),
    target("run_file", 100, run::bytes),
    target("run_values", 50, run::values),
    target("many_values", 20, many::values),
    target("reference", 500, reference::bytes),
    target("reference_values", 200, reference::values),
    target("page", 30, page::hostile),
    target("study", 200, study::bytes),
    target("study_values", 30, study::values),
    target("worker_answers", 100, protocol::answers),
    target("worker_commands", 2000, protocol::commands),
    target("send_receiver", 500, protocol::caller),
    target("nfs", 1000, costof_probes::fuzzing::nfs),
    target("link_packets", 2000, costof_lab::fuzzing::channel),
    target("facts", 200, targets::facts),
    target("rudp_datagrams", 5000, rudp::fuzzing::codec),
    target("rudp_peers", 500, targets::rudp_peers),
];
