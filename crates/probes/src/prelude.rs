//! What every probe needs.

pub(crate) use crate::arenas::Pages;
pub(crate) use crate::ends::Cpus;
pub(crate) use crate::expect::{self, cost_cycles, cost_ns, cycles};
pub(crate) use crate::os::syscall;
pub(crate) use crate::setup::{FirstError, Setup, alone, repeat_fallible};
pub(crate) use crate::wake::{self, Wake};
pub(crate) use crate::{arenas, derived, sizes, threads};
pub(crate) use costof_measure::meter::Meter;
pub(crate) use costof_measure::metrics;
pub(crate) use costof_measure::probe::{
    Budget, Measure, Metric, NameList, Probe, RoleAt, StartRole, leading, only, role,
};
pub(crate) use costof_model::cost::Range;
pub(crate) use costof_model::typed::{
    bytes, count, names_without, nanoseconds, place, processor, words, words_of,
};
pub(crate) use costof_model::{
    Alias, At, AxisOf, Cost, Facts, Failure, Headline, Launch, Link, MeasuredRows, Offers,
    OrFailure, Planned, Prediction, Relation, Report, Text, TypedPoint, Unit, Words, display_bytes,
    ensure, fail, headlines, point, unsupported, words,
};
pub(crate) use fastrand::Rng;
pub(crate) use std::io;
pub(crate) use std::time::{Duration, Instant};

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;
