//! What a link really did during a launch, as whatever made it counted and timed.

use crate::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a link did to packets from the beginning of a launch to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// What made the link: `netem`, the kernel's; `relay`, costof's own.
    pub by: Text,
    /// How long the launch lasted, in nanoseconds.
    pub duration_ns: f64,
    /// From the leading role.
    pub up: Traffic,
    /// To the leading role.
    pub down: Traffic,
    /// What the relay took, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayReport>,
    /// Why a number of [`Traffic`] is absent though packets have passed, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<Text, Text>,
}

/// What happened to packets in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// For how long each was to be held up, in nanoseconds.
    pub asked_delay_ns: f64,
    /// How long packets were counted in this direction, in nanoseconds: as long as
    /// the launch, but for what it takes to ask netem at one end and then at the
    /// other.
    #[serde(default)]
    pub counted_ns: f64,
    /// Packets that passed, duplicates among them.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Packets lost on purpose; with netem, where it is asked for losses, those
    /// that its queue dropped are among them.
    pub lost: u64,
    /// Packets that went twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicated: Option<u64>,
    /// Packets that overtook others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// Packets for which there was no room in the queue before the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_drops: Option<u64>,
    /// Packets lost because what makes the link could not keep up: nobody
    /// asked for that.
    pub overruns: u64,
    /// How long packets were held up, from when the relay had read them, with
    /// their time in the queue, in nanoseconds. What they took to reach the relay,
    /// and from it, is not part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<Spread>,
    /// By how much they left later than the link decided, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ns: Option<Spread>,
}

/// How values are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

/// What costof's relay took to make a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Its CPU time, in nanoseconds; what the kernel does to receive a packet
    /// is part of it.
    pub cpu_ns: f64,
    /// Whether it was allowed to run before everything else (`SCHED_FIFO`).
    pub real_time: bool,
    /// The processors on which it was seen.
    pub cpus: Vec<usize>,
}
