//! How two ends exchange bytes: how they find each other, transports, and patterns of messages over
//! them. Knows no probe and has no `unsafe`.

pub mod connections;
pub mod conversation;
pub mod delivery;
pub mod receive;
pub mod rendezvous;
pub mod stream;
pub mod timestamping;
pub mod transfer;
