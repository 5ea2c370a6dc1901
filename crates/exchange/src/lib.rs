//! How two ends exchange bytes: how they connect, streams of messages, transports, and patterns of messages over them.
//! This crate knows no probe and has no `unsafe`.

mod content;
pub mod pattern;
pub mod progress;
pub mod rendezvous;
pub mod stream;
pub mod transport;
