//! Text from the rows of a run.
//!
//! This crate never measures: what it shows is in the rows.

pub mod by_hand;
pub mod compare;
pub mod doctor;
mod ladder;
pub mod names;
mod notes;
pub mod predictions;
pub mod run;
mod table;
pub mod text;
