//! What controller and worker say to each other: JSON, one message a line.
//!
//! The worker speaks first ([`Answer::Hello`]); after that it answers each
//! command once. The controller drives every point, so that one role and
//! several are the same: all roles prepare, in the order in which the probe
//! names them and each knowing what the earlier ones offer; all run; when the
//! last one, which leads, has answered, the controller stops the others.

pub use crate::instruments::{ClockInfo, ClockSource, CounterInfo};

use crate::Text;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::metric::Measured;
use crate::noise::Noise;
use crate::point::Point;
use crate::rows::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The version of these messages, independent of the release.
pub const PROTOCOL: u32 = 1;

/// The longest line that either end accepts, in bytes.
pub const LINE_MAX_BYTES: usize = 64 << 20;

/// What a prepared role offers to those prepared after it: addresses, tokens.
pub type Offers = BTreeMap<Text, String>;

/// What the controller asks of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Command {
    /// Describe yourself and your machine.
    Describe,
    /// Keep other controllers off the machine for as long as you live; answered
    /// by `Held` or `Busy`.
    Hold,
    /// Do nothing for a moment, and see what others use of the machine; answered by `Watched`.
    Watch,
    /// Begin a launch of a block.
    Open(Box<Launch>),
    /// Set up the block's point at this position; answered by `Prepared`.
    Prepare {
        /// The position in the launch's points.
        point: usize,
        /// What the roles prepared earlier offer.
        offers: Offers,
    },
    /// Measure the prepared point; answered by `Ran`.
    Run,
    /// Stop serving; only to roles that do not lead, while they run.
    Stop,
    /// End the launch; answered by `Closed`.
    Close,
}

/// One launch of one block, as a worker needs to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The role that this worker plays.
    pub role: Text,
    /// The block's points, all of one probe.
    pub points: Vec<Point>,
    /// The processors of the role: it runs on the first, and its further
    /// threads and children on the others. Empty: wherever the kernel puts it.
    pub cpus: Vec<usize>,
    /// The processors of the other roles on the same machine: what runs there
    /// is part of what is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partners: Vec<usize>,
    /// Draws whatever the role draws.
    pub seed: u64,
    /// How long each point is measured, in nanoseconds, all rounds together.
    pub point_time_ns: u64,
    /// In how many interleaved rounds.
    pub rounds: u32,
    /// The clock to use, as it was calibrated for this run.
    pub clock: ClockInfo,
    /// How the roles find each other, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "meeting")]
    pub rendezvous: Option<Rendezvous>,
}

/// How the roles of a launch find each other, as one of them needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// The address of this role's own end of the link.
    pub address: IpAddr,
    /// The first and the last port that it may listen on; 0 and 0: any.
    pub ports: (u16, u16),
    /// The token that each end sends first, so that strangers are refused: drawn by
    /// the controller for this launch, 32 hexadecimal digits.
    pub token: String,
    /// Whether another role is on another machine.
    #[serde(default)]
    pub apart: bool,
    /// Where to send to, where nobody receives or answers: the link drops all that
    /// is sent, and only the sender's half is there to be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<IpAddr>,
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    /// The first line of a worker.
    Hello {
        /// The version of these messages that it speaks.
        protocol: u32,
        /// Its release.
        costof: String,
    },
    /// Itself and its machine.
    Description(Box<Description>),
    /// The machine is this worker's until it ends.
    Held,
    /// It is another's.
    Busy {
        /// Whose, as far as that is known.
        holder: String,
    },
    /// What others used while the worker did nothing; none where the machine does not report it.
    Watched {
        /// How much.
        contention: Option<Contention>,
    },
    /// The launch has begun.
    Opened,
    /// The point is set up.
    Prepared {
        /// What later roles need to know.
        offers: Offers,
    },
    /// The point was measured.
    Ran,
    /// The command could not be carried out; the launch goes on.
    Failed(Failure),
    /// The launch has ended.
    Closed {
        /// What each point gave, in the order of the launch's points.
        points: Vec<Report>,
        /// What disturbed the launch.
        noise: Box<Noise>,
        /// The processor time that the worker used meanwhile, in nanoseconds.
        #[serde(default)]
        cpu_ns: f64,
    },
}

/// A worker and its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The worker's release.
    pub costof: String,
    /// A hash of its executable.
    pub build: String,
    /// Whether it was built without optimisation, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unoptimised: Option<bool>,
    /// Its probes and the versions of their methods.
    pub probes: Vec<(Text, u32)>,
    /// What the machine says of itself, and what a worker inherits there.
    pub facts: Box<Facts>,
    /// The clock chosen for this run.
    pub clock: ClockInfo,
    /// The counters that can be had.
    pub counters: CounterInfo,
    /// Where the worker is in the network.
    #[serde(default)]
    pub network: Network,
}

/// What others used of a machine while its worker did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// The share of all CPUs' time that other processes used.
    pub others: f64,
    /// The share of all CPUs' time that the hypervisor gave to others.
    pub steal: f64,
}

/// Where a worker is in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its network namespace, as the kernel numbers it; workers on one machine
    /// with the same number share loopback.
    #[serde(default)]
    pub namespace: Option<u64>,
    /// The addresses by which others reach it: neither loopback nor link-local
    /// ones.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The address by which ssh reached it, where it was ssh that did.
    #[serde(default)]
    pub reached_at: Option<IpAddr>,
    /// The address from which ssh came.
    #[serde(default)]
    pub reached_from: Option<IpAddr>,
}

/// What one role measured at one point in one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether there is a number.
    pub state: State,
    /// What was measured, counters among it.
    pub metrics: Vec<Measured>,
    /// Allocations inside what was timed, which are none of its own.
    #[serde(default)]
    pub allocations: u64,
}
