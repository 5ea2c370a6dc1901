//! Studies: what somebody published, compared with what a run gave.
//!
//! A study is one data file (`study/file.rs`); the figures in it are theirs and the only numbers that are
//! typed in. Each names the point and the metric of costof that asks the same (`study/figure.rs`), is compared
//! with a run (`study/reproduction.rs`), and shown as text, as Markdown and as a section of the run's page
//! (`study/shown.rs`).

mod figure;
mod file;
mod reproduction;
mod shown;
mod unit;

pub use file::{FILE_MAX_BYTES, Selection, Study};
pub use reproduction::{Reproduction, Why};

/// A study that comes with costof: its name, and its file.
pub const EMBEDDED: [(&str, &str); 5] = [
    (
        "copy-primitives",
        include_str!("../studies/copy-primitives.toml"),
    ),
    (
        "system-measurement",
        include_str!("../studies/system-measurement.toml"),
    ),
    (
        "latency-numbers",
        include_str!("../studies/latency-numbers.toml"),
    ),
    (
        "reliable-datagrams",
        include_str!("../studies/reliable-datagrams.toml"),
    ),
    ("rpc", include_str!("../studies/rpc.toml")),
];
