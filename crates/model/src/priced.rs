//! A bill: what a program did, what each of it costs on a machine, and how much of the program's time that explains.
//!
//! Times are nanoseconds of one run, or of one second of a process that was looked at while it ran.

use crate::timing::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The way into the kernel and back, of each system call.
    Entry,
    /// Page faults.
    Faults,
    /// Switching to another thread, and waking one.
    Switches,
    /// Bytes between the program and the kernel.
    Copies,
    /// Finding, opening, reading and writing files, without the copy.
    Files,
    /// Sockets and what is behind them.
    Network,
    /// Making data durable.
    Durable,
    /// Mapping and unmapping memory.
    Memory,
    /// Starting and ending processes and threads.
    Processes,
    /// Signals and their handlers.
    Signals,
}

impl Class {
    /// What a table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Entry => "entering the kernel",
            Class::Faults => "page faults",
            Class::Switches => "switches and wake-ups",
            Class::Copies => "copies",
            Class::Files => "file system",
            Class::Network => "network",
            Class::Durable => "durable writes",
            Class::Memory => "memory mappings",
            Class::Processes => "processes",
            Class::Signals => "signals",
        }
    }
}

/// Times of one run or second of a program, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From start to end.
    pub wall_ns: Estimate,
    /// CPU time outside the kernel, of all processes and threads.
    pub user_ns: Estimate,
    /// CPU time in the kernel, likewise.
    pub kernel_ns: Estimate,
    /// Whether the CPU time is long enough to be divided; otherwise the two may each be all of it or nothing.
    pub is_divided: bool,
    /// The median of the time in which no thread ran or was ready to. Of several threads, it contains how long they were
    /// ready while others had the CPUs, and is 0 if they used more than one CPU.
    pub waiting_ns: f64,
    /// The median of the time in which it was ready and others had its CPU; only known of one thread.
    pub queue_ns: Option<f64>,
}

/// A bill at the prices of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Priced {
    /// The program, as it was started.
    pub program: String,
    /// The class of the machine that it ran on.
    pub machine: String,
    /// Whether times and counts are those of one second, not of one run.
    pub per_second: bool,
    /// How many runs, or stretches of time, nothing was counted in.
    pub runs: usize,
    /// What it took where nothing was counted.
    #[serde(flatten)]
    pub times: Times,
    /// The way back from a system call, which the kernel counts as user code; these times have it in the kernel's. Absent if it is not
    /// known, or they are not divided.
    pub way_back_ns: Option<Estimate>,
    /// Times as much CPU time as that was used where it was counted; absent if that is not known.
    pub counting_slowdown: Option<f64>,
    /// By which means it was counted.
    pub counted_by: String,
    /// What could not be counted, and why.
    pub not_counted: Vec<String>,
    /// The items, the longest time first.
    pub items: Vec<PricedItem>,
    /// The sum of the items.
    pub itemised_ns: Estimate,
    /// The same by class, the longest time first.
    pub classes: Vec<ClassTime>,
    /// What it waited for, the longest first, where that was counted.
    pub waits: Vec<Wait>,
    /// Reads and writes that its threads sent to block devices, each with their bytes.
    #[serde(default)]
    pub requests: [(f64, f64); 2],
    /// What would take less, the largest saving first.
    pub savings: Vec<Saving>,
    /// The same items at the prices of other machines.
    pub elsewhere: Vec<Elsewhere>,
    /// The class of the machine whose prices these are.
    pub prices_of: String,
    /// Where the prices come from: each point, with its grade and run, or that it is predicted.
    pub prices: BTreeMap<String, String>,
}

/// An item of a bill: things of one kind, and about one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PricedItem {
    /// Such as `read of 64 B from a file`.
    pub name: String,
    /// What it is of, such as `read`, and the power of two of its size: what it has in common with an item of another bill.
    pub key: (String, Option<u8>),
    /// What it is apart from entering the kernel and copies; absent where only the entry has a price, or nothing.
    pub class: Option<Class>,
    /// How often; the mean of the counted runs.
    pub count: f64,
    /// How many of them failed.
    pub errors: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// What one costs.
    pub each_ns: Estimate,
    /// What all cost.
    pub time_ns: Estimate,
}

/// The time of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassTime {
    /// Which.
    pub class: Class,
    /// How often.
    pub count: f64,
    /// Bytes that were moved.
    pub bytes: f64,
    /// How long.
    pub time_ns: Estimate,
}

/// A kind of waiting, as far as it was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// In what: a system call, or `page faults`.
    pub what: String,
    /// How often.
    pub count: f64,
    /// How long, summed over threads, in a counted run.
    pub waited_ns: f64,
}

/// A way to do the same for less, by measured prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// What to do.
    pub what: String,
    /// What it replaces.
    pub of: String,
    /// What has to hold.
    pub assumes: String,
    /// How much less time.
    pub saves_ns: Estimate,
    /// Whether that is waiting, not CPU time.
    pub is_waiting: bool,
}

/// The items of a bill at the prices of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Its class.
    pub machine: String,
    /// The file that its prices are from.
    pub from: String,
    /// Those items that have prices of both machines: there, as a share of here.
    pub ratio: Estimate,
    /// Their time here, as a share of the kernel's time.
    pub share: f64,
    /// How many nanoseconds less each class takes there; negative where it takes more.
    pub less_ns: Vec<(Class, f64)>,
}

impl Priced {
    /// The itemised share of the kernel's time; `None` if that is zero. It may be more than 1: the sum is a prediction.
    pub fn itemised_share(&self) -> Option<Estimate> {
        let kernel = self.times.kernel_ns.value;
        (kernel > 0.0).then(|| self.itemised_ns.times(kernel.recip()))
    }

    /// Whether the CPU time is divided into the kernel's and user code in a way that its items do not rule out.
    pub fn is_divided(&self) -> bool {
        self.times.is_divided && self.itemised_ns.low <= self.times.kernel_ns.high
    }

    /// The kernel's time that no item explains; 0 if they explain more.
    pub fn not_itemised_ns(&self) -> f64 {
        (self.times.kernel_ns.value - self.itemised_ns.value).max(0.0)
    }
}
