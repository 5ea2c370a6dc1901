//! The messages between controller and worker: JSON, one message per line.
//!
//! The worker speaks first ([`Answer::Hello`]); after that it answers each command once. The
//! controller drives every point, so one role works the same way as several. All roles prepare, in
//! the order in which the probe names them, and each receives what the earlier ones offer. Then all
//! run. When the last role, which leads, has answered, the controller stops the others.

pub use crate::instruments::{ClockInfo, ClockSource, CounterInfo};

use crate::{Data, Facts, Failure, LaunchPoint, Measured, Noise, Point, State, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The version of these messages, independent of the release.
pub const PROTOCOL: u32 = 1;

/// The longest line that either end accepts, in bytes.
pub const LINE_MAX_BYTES: usize = 64 << 20;

/// What a prepared role offers to the roles prepared after it: addresses, tokens.
pub type Offers = BTreeMap<Text, String>;

/// What the controller asks a worker to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Command {
    /// Describe yourself and your machine.
    Describe,
    /// Keep other controllers off the machine as long as this worker lives; answered by `Held` or
    /// `Busy`.
    Hold,
    /// Do nothing for a moment, and report what other processes use of the machine; answered by
    /// `Watched`.
    Watch,
    /// Look which CPUs are alone on their cores; answered by `Looked`. Only while no launch runs on the
    /// machine.
    Look(Look),
    /// Begin a launch of a block.
    Open(Box<Launch>),
    /// Set up the block's point at this position; answered by `Prepared`.
    Prepare {
        /// The position in the launch's points.
        point: usize,
        /// The offers of the roles prepared earlier.
        offers: Offers,
    },
    /// Measure the prepared point; answered by `Ran`.
    Run,
    /// Stop, while a role runs: to roles that do not lead, and to all in a launch by hand.
    Stop,
    /// End the launch; answered by `Closed`.
    Close,
}

/// One launch of one block, with everything that a worker needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The role that this worker plays.
    pub role: Text,
    /// The block's points, all of one probe.
    pub points: Vec<Point>,
    /// The CPUs of the role: it runs on the first, and its other threads and children run on the
    /// others. Empty: the kernel chooses.
    pub cpus: Vec<usize>,
    /// The CPUs of the other roles on the same machine: what runs there is part of the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partners: Vec<usize>,
    /// The seed of every random number in the role.
    pub seed: u64,
    /// How long each point is measured, in nanoseconds, all rounds together.
    pub point_time_ns: u64,
    /// How many interleaved rounds.
    pub rounds: u32,
    /// For how long a worker of this launch may go on without a new command, in nanoseconds: then the
    /// kernel ends it, even if its controller cannot run. 0: for ever.
    #[serde(default)]
    pub deadline_ns: u64,
    /// The clock to use, as it was calibrated for this run.
    pub clock: ClockInfo,
    /// How the roles connect to each other, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "meeting")]
    pub rendezvous: Option<Rendezvous>,
    /// What a user sends by hand (`costof send`). The one point is then sent for the point's time, or
    /// until another end of it or [`Command::Stop`] comes; few or no messages are no failure.
    pub by_hand: Option<ByHand>,
}

/// What a user sends by hand, besides the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByHand {
    /// Messages of each connection, if they end it.
    pub messages: Option<u64>,
    /// The conditions of reliable datagrams.
    pub conditions: Conditions,
}

/// Conditions of datagrams that are not axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// After how many nanoseconds the study's protocol retransmits; its default is a second.
    pub retry_ns: Option<u64>,
    /// The share of datagrams that the receiver loses.
    pub drop: f64,
}

/// How the roles of a launch connect, as one of them needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// The address of this role's own end of the link.
    pub address: IpAddr,
    /// The number of the interface of a link-local IPv6 address; 0 for any other address.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub scope: u32,
    /// How many bytes the queue of a socket for datagrams may hold (SO_RCVBUF), if the user has set
    /// that.
    pub receive_buffer: Option<u64>,
    /// The first and the last port on which it may listen; 0 and 0 for any.
    pub ports: (u16, u16),
    /// The token that each end sends first; connections without it are refused. The controller
    /// generates it at random for each launch: 32 hexadecimal digits.
    pub token: String,
    /// Whether another role is on another machine.
    #[serde(default)]
    pub apart: bool,
    /// The address to send to if nobody receives or answers: the link drops everything, and only
    /// the sender's half is measured.
    pub sink: Option<IpAddr>,
}

/// The name of a message, as its line has it.
fn name(message: &impl Serialize, tag: &str) -> String {
    let message = serde_json::to_value(message).unwrap_or_default();
    message[tag].as_str().unwrap_or("unnamed").to_owned()
}

impl Command {
    /// Its name, for display: `describe`.
    pub fn name(&self) -> String {
        name(self, "do")
    }
}

impl Answer {
    /// Its name, for display, and the reason if it is a failure: `held`.
    pub fn name(&self) -> String {
        match self {
            Answer::Failed(failure) => format!("failed ({})", failure.reason),
            answer => name(answer, "is"),
        }
    }
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
    /// Instead of a worker's first line: the machine has no costof of the controller's version. It reads the static
    /// build for itself, whose length it knows, and starts the worker from it.
    Absent {
        /// The machine, as `uname -m` names it: `x86_64`, `aarch64`.
        machine: String,
    },
    /// Itself and its machine.
    Description(Box<Description>),
    /// The machine is reserved for this worker until it ends.
    Held,
    /// Another process has reserved it.
    Busy {
        /// Which process, if it is known.
        holder: String,
    },
    /// What other processes used while the worker did nothing; `None` if the machine does not
    /// report it.
    Watched {
        /// How much.
        contention: Option<Contention>,
    },
    /// What a short look at each CPU showed, in the order of the looks.
    Looked {
        /// The CPUs that were looked at.
        cpus: Vec<CpuLook>,
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
    /// Not an answer: who sits at the other end of a launch by hand wants it to end.
    Enough,
    /// The command failed; the launch goes on.
    Failed(Failure),
    /// The launch has ended.
    Closed {
        /// The results of each point, in the order of the launch's points.
        points: Vec<Report>,
        /// What disturbed the launch.
        noise: Box<Noise>,
        /// The CPU time that the worker used during the launch, in nanoseconds.
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
    /// Its probes and the versions of their methods.
    pub probes: Vec<(Text, u32)>,
    /// The facts that the machine reports, and what a worker inherits there.
    pub facts: Box<Facts>,
    /// The clock chosen for this run.
    pub clock: ClockInfo,
    /// The available counters.
    pub counters: CounterInfo,
    /// The worker's place in the network.
    #[serde(default)]
    pub network: Network,
}

/// What other processes used of a machine while its worker did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// The share of all CPUs' time that other processes used.
    pub others: f64,
    /// The share of all CPUs' time that the hypervisor gave to others.
    pub steal: f64,
}

/// Which CPUs to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The CPUs, in the order of the looks.
    pub cpus: Vec<usize>,
    /// How many CPUs that are alone are enough to stop.
    pub enough: usize,
    /// The floor of their cores' gauge.
    pub floor: f64,
}

/// What a short look at a CPU showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuLook {
    /// The CPU.
    pub cpu: usize,
    /// The share of the gauge's readings that found its core alone, from 0 to 1.
    pub alone: f64,
    /// The share of its time since an earlier look in which the machine ran something there, from 0 to 1;
    /// `None` if the kernel does not report it, or too little time has passed.
    pub busy: Option<f64>,
    /// Its highest clock in kilohertz, if the kernel reports it (cpufreq's `cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
}

impl CpuLook {
    /// Whether its shares can be such.
    pub fn is_possible(&self) -> bool {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        is_share(self.alone) && self.busy.is_none_or(is_share)
    }
}

/// A worker's place in the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The inode number of its network namespace; workers on one machine with the same number share
    /// loopback.
    pub namespace: Option<u64>,
    /// The addresses at which other machines reach it, without loopback and link-local ones.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The address at which ssh reached it, if ssh started it.
    pub reached_at: Option<IpAddr>,
    /// The address from which ssh came.
    pub reached_from: Option<IpAddr>,
}

/// What one role measured at one point in one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether there is a number.
    pub state: State,
    /// What was measured, counters among it.
    pub metrics: Vec<Measured>,
    /// Allocations during the timed operations that are not part of these.
    #[serde(default)]
    pub allocations: u64,
}

impl Report {
    /// That of a point without a number.
    pub const FAILED: Report = Report { state: State::Failed, metrics: Vec::new(), allocations: 0 };

    /// The same as a part of a launch's row.
    pub fn of(self, point: Point) -> LaunchPoint {
        let Report { state, metrics, allocations } = self;
        LaunchPoint { point, state, metrics, allocations }
    }
}

/// The counts of datagrams that the two ends report.
pub const DATAGRAMS_SENT: &str = "datagrams_sent";
/// See [`DATAGRAMS_SENT`]. A duplicate counts twice.
pub const DATAGRAMS_ARRIVED: &str = "datagrams_arrived";
/// In a launch by hand, the messages that the sender has sent, and the bytes that have arrived at the
/// receiver; reported by a role that failed, too.
pub const BY_HAND: &str = "by_hand";

/// Why nobody can have measured what the roles of a point report, in a launch that lasted so long.
pub fn impossible(reports: &[Report], launch_ns: f64) -> Option<Failure> {
    let metrics = || {
        reports.iter().flat_map(|report| {
            let is_timed = report.state != State::BelowResolution;
            report.metrics.iter().map(move |metric| (metric, is_timed))
        })
    };
    let count = |name: &str| {
        metrics().find_map(|(metric, _)| match metric.data {
            Data::Value(value) if metric.name == name => Some(value),
            _ => None,
        })
    };
    let too_many = || {
        let (sent, arrived) = (count(DATAGRAMS_SENT)?, count(DATAGRAMS_ARRIVED)?);
        // A link may deliver all of them twice, and so may each further one on the path.
        let is_too_many = arrived > 16.0 * sent;
        is_too_many.then(|| format!("{arrived} datagrams arrived, but {sent} were sent"))
    };
    let found = metrics()
        .find_map(|(metric, is_timed)| metric.impossible(launch_ns, is_timed))
        .or_else(too_many)?;
    let reason = format!("the worker reports what nobody can have measured: {found}");
    Some(Failure::error(reason))
}
