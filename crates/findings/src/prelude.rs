//! What finders need.

pub(crate) use crate::naming::place;
pub(crate) use crate::pairs::{Pair, ends, greatest, pairs, surely_more};
pub(crate) use crate::text::{
    bytes, list, maybe, ns, percent, range, rate, size, span, times, when, whole,
};
pub(crate) use crate::{Finding, Interval, Kind};
pub(crate) use costof_model::{
    Better, Facts, Group, Link, Point, PointRow, Probed, Run, Select, counted,
};
