//! How two ends exchange bytes: how they connect, transports, and patterns of messages over them.
//! This crate knows no probe and has no `unsafe`.

pub mod connections;
mod content;
pub mod delivery;
pub mod open_loop;
pub mod ping_pong;
pub mod progress;
pub mod receive;
pub mod rendezvous;
pub mod rpc_server;
pub mod stream;
pub mod transport;
