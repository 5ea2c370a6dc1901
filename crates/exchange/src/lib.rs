//! How two ends exchange bytes: how they connect, transports, and patterns of messages over them.
//! This crate knows no probe and has no `unsafe`.

pub mod connections;
pub mod datagrams;
pub mod delivery;
pub mod open_loop;
pub mod ping_pong;
pub mod receive;
pub mod rendezvous;
pub mod rpc_server;
mod silence;
pub mod stream;
pub mod transfer;
pub mod transport;
