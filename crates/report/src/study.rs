//! Studies: published figures compared with the results of a run.
//!
//! A study is one data file (`study/file.rs`). Its figures are the published ones, and no other numbers are
//! typed in. Each figure names the point and the metric of costof that measure the same (`study/figure.rs`).
//! `study/reproduction.rs` compares the study with a run, and `study/shown.rs` shows the comparison as text,
//! as Markdown and as a section of the run's page. `study/plot.rs` says which rows each of its plots has, and
//! `study/layout.rs` writes its points as one CSV file in its own layout.

mod class;
mod figure;
mod file;
mod guess;
mod layout;
mod plot;
mod reproduction;
mod result;
mod sheet;
mod shown;
pub(crate) mod unit;
mod wide;

pub use class::Class;
pub(crate) use file::Style;
pub use file::{FILE_MAX_BYTES, Selection, Study};
pub use guess::Blank;
pub(crate) use plot::Drawn;
pub use reproduction::{Answer, Reproduction};
pub use result::{Why, absent};

/// The studies that come with costof: their names and files.
pub const EMBEDDED: [(&str, &str); 6] = [
    ("copy-primitives", include_str!("../studies/copy-primitives.toml")),
    ("system-measurement", include_str!("../studies/system-measurement.toml")),
    ("latency-numbers", include_str!("../studies/latency-numbers.toml")),
    ("reliable-datagrams", include_str!("../studies/reliable-datagrams.toml")),
    ("rpc", include_str!("../studies/rpc.toml")),
    ("napkin", include_str!("../studies/napkin.toml")),
];
