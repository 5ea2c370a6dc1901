//! What every probe needs.

pub(crate) use crate::expect::{self, cost_cycles, cost_ns};
pub(crate) use crate::os::syscall;
pub(crate) use crate::setup::{FirstError, Setup, alone, repeat_fallible};
pub(crate) use crate::{arenas, derived, sizes, threads};
pub(crate) use costof_measure::meter::Meter;
pub(crate) use costof_measure::metrics;
pub(crate) use costof_measure::probe::{
    Budget, Measure, Metric, NameList, Probe, RoleAt, StartRole, leading, only, role,
};
pub(crate) use costof_model::alias::Alias;
pub(crate) use costof_model::cost::{Cost, Range};
pub(crate) use costof_model::facts::Facts;
pub(crate) use costof_model::failure::{Failure, OrFailure};
pub(crate) use costof_model::point::{Headline, Planned};
pub(crate) use costof_model::prediction::{MeasuredRows, Prediction};
pub(crate) use costof_model::protocol::{Launch, Offers, Report};
pub(crate) use costof_model::relation::Relation;
pub(crate) use costof_model::typed::{
    At, AxisOf, TypedPoint, Words, bytes, count, names_without, nanoseconds, place, processor,
    words, words_of,
};
pub(crate) use costof_model::unit::{Unit, display_bytes};
pub(crate) use costof_model::{Text, ensure, fail, headlines, point, unsupported, words};
pub(crate) use fastrand::Rng;
