//! Turns the rows of a run into text, pages and plots.
//!
//! This crate never measures: everything that it shows is in the rows.

pub mod bill;
pub mod check;
mod choose;
mod colour;
pub mod compare;
mod conclusion;
pub mod csv;
pub mod doctor;
mod document;
pub mod export;
pub mod fleet;
pub mod grid;
pub mod history;
pub mod interactive;
pub mod known;
pub mod markdown;
pub mod mechanism;
pub mod names;
mod notes;
pub mod page;
pub mod place;
mod plot;
pub mod plots;
pub mod predictions;
mod published;
pub mod qualify;
mod rows;
pub mod run;
pub mod study;
pub mod style;
mod table;
mod tables;
pub mod text;
pub mod timing;
pub mod toml_text;
