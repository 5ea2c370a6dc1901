//! The data of results: probes as plain data, points, metrics, estimates, facts, predictions, the
//! rows of the run file, and the messages between controller and worker.
//!
//! This crate never reads a clock, asks the operating system or prints.

pub mod alias;
pub mod alone;
pub mod axis;
pub mod bill;
pub mod comparison;
pub mod cost;
mod emulated;
pub mod encoding;
mod expected;
pub mod expression;
pub mod facts;
pub mod failure;
mod few;
pub mod fitness;
pub mod fleet;
pub mod harmless;
pub mod history;
pub mod id;
mod instruments;
pub mod link;
pub mod link_end;
pub mod link_report;
pub mod metric;
pub mod names;
pub mod nearest;
pub mod node_set;
pub mod noise;
pub mod placed;
pub mod plan;
pub mod plural;
pub mod point;
pub mod prediction;
pub mod priced;
pub mod probe_info;
pub mod protocol;
pub mod qualified;
pub mod reference;
pub mod relation;
pub mod rows;
pub mod run_file;
pub mod select;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timing;
pub mod typed;
pub mod unit;

// The nouns that most files need.
pub use alias::Alias;
pub use axis::{Axes, Axis, AxisValue, Domain};
pub use comparison::{Compared, Comparison};
pub use cost::Cost;
pub use facts::{CpuSet, Facts, Probed};
pub use failure::{Failure, FailureKind, OrFailure};
pub use few::Few;
pub use link::Link;
pub use link_end::LinkEnd;
pub use link_report::LinkReport;
pub use metric::{CoreState, Data, Estimate, Measured, MetricInfo, Selection};
pub use names::Names;
pub use noise::{Grade, Noise, Placement, Warning};
pub use plan::Settings;
pub use plural::counted;
pub use point::{Headline, Planned, Point};
pub use prediction::{MeasuredRows, Prediction};
pub use probe_info::ProbeInfo;
pub use protocol::{ClockInfo, Launch, Offers, Rendezvous, Report};
pub use reference::Reference;
pub use relation::Relation;
pub use rows::{
    Block, Earlier, EndRow, FailureRow, Hosts, LaunchPoint, LaunchRow, MetricOfPoint, Plan,
    PointRow, RunRow, State,
};
pub use run_file::Run;
pub use select::{Group, Select};
pub use timing::{TimedCommand, TimedRun};
pub use typed::{At, AxisOf, TypedPoint, Words};
pub use unit::{Better, Unit, display_bytes, span};

use serde::de::{Deserialize, Deserializer, Error};
use std::borrow::Cow;

/// Text that is part of the program or was read from a file.
pub type Text = Cow<'static, str>;
/// A list that is part of the program or was read from a file.
pub type List<T> = Cow<'static, [T]>;

/// Whether a field says nothing, so that it is left out of a file.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a list whose first item is relied on.
fn read_some<'de, D: Deserializer<'de>, T: Deserialize<'de> + Clone>(
    deserializer: D,
) -> Result<List<T>, D::Error> {
    match Vec::deserialize(deserializer)? {
        none if none.is_empty() => Err(D::Error::custom("a list without items")),
        items => Ok(Cow::Owned(items)),
    }
}

/// A value of an enum without fields, as files have it.
pub fn word(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("unnamed").to_owned()
}
