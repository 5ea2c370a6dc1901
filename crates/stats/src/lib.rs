//! Describes sets of numbers: quantiles, intervals, differences, modes, drift, changepoints
//! and outliers, and sequential tests.
//!
//! Pure functions from slices of finite `f64` to numbers. Nothing here reads a clock, asks the OS
//! or samples a random number, and nothing panics unless documented. If a slice is too short, the
//! answer is `None`.

pub mod changepoints;
mod difference;
mod distribution;
pub mod drift;
mod interval;
mod modes;
pub mod outliers;
mod quantile;
pub mod sequential;
pub mod shared_core;
pub mod shift;

pub use difference::{Difference, t_quantile, trimmed_mean};
pub use distribution::Distribution;
pub use interval::{
    CONFIDENCE, Interval, IntervalRule, ORDER_FROM, difference_interval, median_interval,
    next_value_interval, pooled_interval, ratio_interval, refuted_doubling,
};
pub use modes::{Mode, launch_modes, modes};
pub use quantile::{mean, median, quantile, standard_deviation};
