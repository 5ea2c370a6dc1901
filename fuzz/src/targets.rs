//! The targets.

pub(crate) mod expressions;
pub(crate) mod many;
pub(crate) mod page;
pub(crate) mod protocol;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod study;

#[path = "../../crates/rudp/tests/fuzz/script.rs"]
mod script;

use crate::same::is_same;
use costof_findings::doctor::diagnose;
use costof_model::facts::{Facts, Probed};

/// Two endpoints of rudp, each of which may get any datagram at any time.
pub(crate) fn rudp_peers(bytes: &[u8]) {
    script::run(bytes);
}

/// The files of a machine have any contents: what is read of them is written and read again, and judged.
pub(crate) fn facts(bytes: &[u8]) {
    let facts = costof_measure::fuzzing::facts(bytes);
    let written = serde_json::json!(facts);
    let read: Facts =
        serde_json::from_value(written.clone()).expect("facts are read as they are written");
    assert!(is_same(&serde_json::json!(read), &written), "{written}");
    diagnose(&facts, &Probed::default());
}
