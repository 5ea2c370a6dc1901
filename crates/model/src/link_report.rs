//! What a link really did during a launch, as counted and timed by whatever emulates the link.

use crate::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a link did to packets from the beginning of a launch to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Which emulator: `relay` of costof, or in runs of earlier releases `netem` of the kernel.
    pub by: Text,
    /// How long the launch lasted, in nanoseconds.
    pub duration_ns: f64,
    /// From the leading role.
    pub up: Traffic,
    /// To the leading role.
    pub down: Traffic,
    /// The resources that the relay used, if there was one.
    pub relay: Option<RelayReport>,
    /// Why a number of [`Traffic`] is absent although packets passed, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<Text, Text>,
}

/// What happened to packets in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The requested delay of each packet, in nanoseconds.
    pub asked_delay_ns: f64,
    /// How long packets were counted in this direction, in nanoseconds: the duration of the launch.
    #[serde(default)]
    pub counted_ns: f64,
    /// Packets that passed, duplicates among them.
    pub packets: u64,
    /// Their bytes, including the IP header.
    pub bytes: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: Option<u64>,
    /// Packets that overtook others.
    pub reordered: Option<u64>,
    /// Packets that found the queue in front of the rate full.
    pub queue_drops: Option<u64>,
    /// Packets lost because the emulator could not keep up, which the user did not ask for.
    pub overruns: u64,
    /// The delay of packets from when the relay had read them, including their time in the queue,
    /// in nanoseconds. The way to the relay, and from it, is not included.
    pub delay_ns: Option<Spread>,
    /// How much later packets left than the link decided, in nanoseconds.
    pub lateness_ns: Option<Spread>,
}

/// The distribution of values.
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

/// The resources that costof's relay used to emulate a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayReport {
    /// Its CPU time, in nanoseconds, including the time in which the kernel receives packets.
    pub cpu_ns: f64,
    /// Whether it was allowed to run before all other threads (`SCHED_FIFO`).
    pub real_time: bool,
    /// The CPUs on which it was seen.
    pub cpus: Vec<usize>,
}
