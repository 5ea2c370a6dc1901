//! How two ends exchange bytes: how they connect, transports, and patterns of messages over them.
//! This crate knows no probe and has no `unsafe`.

mod content;
pub mod pattern;
pub mod progress;
pub mod rendezvous;
pub mod transport;
