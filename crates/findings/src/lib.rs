//! placeholder

pub mod doctor;
