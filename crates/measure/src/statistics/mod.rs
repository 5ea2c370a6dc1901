//! What a set of numbers says: quantiles, intervals, modes, drift and ratios.
//!
//! Pure functions from slices of finite `f64` to numbers. Nothing here reads a clock, asks the OS
//! or draws a random number, and nothing panics: where a slice is too short, the answer is `None`.

mod binomial;
pub mod distribution;
pub mod drift;
pub mod interval;
pub mod modes;
pub mod paired;
pub mod quantile;
pub mod ratio;
mod student_t;
pub mod trimmed;
pub mod welch;
