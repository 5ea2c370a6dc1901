//! What probes need.

pub(crate) use crate::arenas::Pages;
pub(crate) use crate::ends::Cpus;
pub(crate) use crate::expect::{self, cost_cycles, cost_ns, cycles, measured_cost};
pub(crate) use crate::os::{context_switch, syscall};
pub(crate) use crate::setup::{FirstError, Setup, alone, repeat_fallible};
pub(crate) use crate::sync::core_to_core;
pub(crate) use crate::wake::{self, Awake, Wake};
pub(crate) use crate::{arenas, derived, ends, sizes, threads};
pub(crate) use costof_measure::crew::{Crew, Job};
pub(crate) use costof_measure::meter::Meter;
pub(crate) use costof_measure::metrics;
pub(crate) use costof_measure::probe::{
    Budget, Measure, Metric, NameList, Probe, RoleAt, StartRole, leading, only, role,
};
pub(crate) use costof_model::cost::Range;
pub(crate) use costof_model::facts::Medium;
pub(crate) use costof_model::typed::{
    bytes, count, names_without, nanoseconds, place, processor, words, words_of,
};
pub(crate) use costof_model::{
    Alias, At, AxisOf, Cost, Facts, Failure, Headline, Launch, Link, MeasuredRows, Offers,
    OrFailure, Planned, Prediction, Relation, Rendezvous, Report, Text, TypedPoint, Unit, Words,
    display_bytes, ensure, fail, headlines, point, unsupported, words,
};
pub(crate) use costof_os::cpu::clock::{ClockId, now_ns};
pub(crate) use costof_os::memory::arena::{Arena, PageSize, base_page_bytes};
pub(crate) use costof_os::net::socket::DATAGRAM_MAX_BYTES;
pub(crate) use costof_os::sched::{affinity, usage};
pub(crate) use costof_stats::median;
pub(crate) use fastrand::Rng;
pub(crate) use std::cell::RefCell;
pub(crate) use std::hint::black_box;
pub(crate) use std::io::{self, ErrorKind};
pub(crate) use std::time::{Duration, Instant};

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;
