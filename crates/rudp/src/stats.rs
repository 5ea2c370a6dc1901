//! The counters of a connection.

use std::time::Duration;

/// Counters since the connection began, and its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Packets sent, acknowledgements among them.
    pub packets_sent: u64,
    /// Bytes sent as UDP payload.
    pub bytes_sent: u64,
    /// Packets received, without those below.
    pub packets_received: u64,
    /// Packets received a second time.
    pub packets_duplicate: u64,
    /// Packets that were damaged, forged, or against the rules: they changed nothing.
    pub packets_rejected: u64,
    /// Packets sent that were declared lost.
    pub packets_lost: u64,
    /// Lost packets whose loss was detected while the round trip showed a queue: this connection,
    /// or others on the path, caused the loss.
    pub packets_lost_in_queue: u64,
    /// Packets declared lost that arrived after all.
    pub packets_spuriously_lost: u64,
    /// Probe timeouts (RFC 9002 section 6.2).
    pub probe_timeouts: u64,
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// The shortest round trip; zero before the first.
    pub round_trip_least: Duration,
    /// Bytes that may be in flight; `u64::MAX` if only messages are limited.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Bytes that leave in a second at most; `None` without pacing.
    pub pacing_bytes_per_second: Option<f64>,
    /// Bytes of messages that wait to be sent or acknowledged. A message counts whole until all of
    /// it is acknowledged, so under loss most of these bytes may have been sent already.
    pub queued_bytes: u64,
    /// Bytes of messages that were never sent.
    pub unsent_bytes: u64,
    /// Messages that wait to be sent or acknowledged.
    pub queued_messages: u64,
    /// Bytes of messages received, whole or in part, and not taken yet.
    pub held_bytes: u64,
    /// Packets that are remembered because they still matter.
    pub packets_remembered: usize,
    /// Ranges of packet numbers remembered to acknowledge them.
    pub ranges_remembered: usize,
}
