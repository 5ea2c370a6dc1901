//! What a connection counts.

use std::time::Duration;

/// Counts since the connection began, and how it stands.
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
    /// Those of them that were lost while the round trip showed a queue: loss that this
    /// connection, or others on the path, caused.
    pub packets_lost_in_queue: u64,
    /// Packets that arrived, and that a queue on their way had marked because it fills (ECN CE).
    pub packets_marked: u64,
    /// Whether packets are sent as ECN-capable; not where the path was seen
    /// to clear or to make up marks, or the caller sets or reads none.
    pub is_marking: bool,
    /// Packets declared lost that arrived after all.
    pub packets_spuriously_lost: u64,
    /// Probe timeouts (RFC 9002 section 6.2).
    pub probe_timeouts: u64,
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// The shortest round trip; zero before the first.
    pub round_trip_least: Duration,
    /// Bytes that may be in flight; `u64::MAX` where only messages are counted.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Bytes that leave in a second at most; `None` where they are not spread.
    pub pacing_bytes_per_second: Option<f64>,
    /// Bytes of messages that wait to be sent or acknowledged.
    pub queued_bytes: u64,
    /// Messages begun in flight.
    pub queued_messages: u64,
    /// Bytes of messages received, whole or in part, and not taken yet.
    pub held_bytes: u64,
    /// Packets remembered because something may still be learnt of them.
    pub packets_remembered: usize,
    /// Ranges of packet numbers remembered to acknowledge them.
    pub ranges_remembered: usize,
}
