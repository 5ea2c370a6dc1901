//! The probes: one file each, and their table. A new probe is its file, its `mod` and its word in
//! the table here.
//!
//! This crate never prints.

mod arenas;
mod copy {
    //! Copies on the path of a message, and what avoiding them gains.

    pub(crate) mod by_size;
    pub(crate) mod forward;
    pub(crate) mod parts;
    pub(crate) mod pieces;
    pub(crate) mod receive;
    pub(crate) mod send;
}
mod cpu {
    //! The CPU.

    pub(crate) mod branch_miss;
    pub(crate) mod call;
    pub(crate) mod clock;
    pub(crate) mod frequency;
    pub(crate) mod hiccup;
    pub(crate) mod loops;
    pub(crate) mod memcpy;
    pub(crate) mod neighbour;
    pub(crate) mod snappy;
    pub(crate) mod tls;
    pub(crate) mod transform;
    pub(crate) mod vm_exit;
}
mod derived;
mod ends;
mod english;
mod expect;
mod file {
    //! Files: cached, cold, direct, contended, remote.

    pub(crate) mod axes;
    pub(crate) mod cache_size;
    pub(crate) mod contention;
    pub(crate) mod expect;
    pub(crate) mod metadata;
    pub(crate) mod read;
    pub(crate) mod remote;
    pub(crate) use remote::null as remote_call;
    pub(crate) mod sync;
    pub(crate) mod target_file;
    #[cfg(test)]
    pub(crate) mod tests;
    pub(crate) mod write;
}
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    //! What the targets in `fuzz/` reach of what is not public.

    pub use crate::file::remote::nfs;
}
mod harness {
    //! costof itself.

    pub(crate) mod null;
}
pub mod interactive;
mod ipc {
    //! Between processes.

    pub(crate) mod bandwidth;
    pub(crate) mod latency;
}
mod memory {
    //! Caches and memory.

    pub(crate) mod bandwidth;
    pub(crate) mod first_touch;
    pub(crate) mod latency;
    pub(crate) mod malloc;
}
mod net;
mod node {
    //! The whole machine: all CPUs at work, and each memory node.

    pub(crate) mod bandwidth;
    pub(crate) mod clock;
    pub(crate) mod core;
    pub(crate) mod latency;
    mod memory_node;
}
mod os {
    //! The kernel.

    pub(crate) mod attached;
    pub(crate) mod context_switch;
    pub(crate) mod io_uring;
    pub(crate) mod mitigations;
    pub(crate) mod mmap;
    pub(crate) mod overhead;
    pub(crate) mod page_fault;
    pub(crate) mod pin;
    pub(crate) mod process;
    pub(crate) mod quota;
    pub(crate) mod signal;
    pub(crate) mod syscall;
    pub(crate) mod thread;
    pub(crate) mod timer;
    pub(crate) mod wait;
}
mod prelude;
mod rpc;
mod rudp;
mod setup;
mod sizes;
mod sync {
    //! Threads that share memory.

    pub(crate) mod core_to_core;
    pub(crate) mod false_sharing;
    pub(crate) mod mutex;
    mod neighbourhood;
    pub(crate) mod task;
}
#[cfg(test)]
#[path = "tests/testing.rs"]
mod testing;
mod threads;
mod two_ends;
mod wake;

use crate::prelude::*;
use costof_os::memory::allocator::Counting;

/// Counts allocations, so that a worker can show that a timed batch makes none. It is part of what calls
/// cost, so it is in a crate that is optimised.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The table, by layer, in this order.
macro_rules! table {
    ($($layer:ident: $($probe:ident)+;)+) => { &[$($(&$layer::$probe::PROBE,)+)+] };
}

/// The table that `list`, `run`, `explain`, the report and the tests use.
pub static TABLE: &[&Probe] = table! {
    harness: null;
    cpu: clock frequency loops call branch_miss memcpy snappy transform tls vm_exit hiccup
        neighbour;
    sync: mutex core_to_core false_sharing task;
    os: syscall io_uring overhead attached quota signal timer thread process context_switch wait
        page_fault mmap pin;
    memory: latency bandwidth malloc first_touch;
    node: core bandwidth latency clock;
    ipc: latency bandwidth;
    file: remote_call remote read write sync metadata contention cache_size;
    net: rtt bandwidth ping connect stages stream;
    copy: send receive forward parts;
    rudp: stages loss;
    rpc: first_call marshal load;
};
