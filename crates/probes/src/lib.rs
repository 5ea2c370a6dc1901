//! The probes: one file each, and their table. A new probe is its file, its `mod` and its line in
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

/// The table that `list`, `run`, `explain`, the report and the tests use.
pub static TABLE: &[&Probe] = &[
    &harness::null::PROBE,
    &cpu::clock::PROBE,
    &cpu::frequency::PROBE,
    &cpu::loops::PROBE,
    &cpu::call::PROBE,
    &cpu::branch_miss::PROBE,
    &cpu::memcpy::PROBE,
    &cpu::snappy::PROBE,
    &cpu::transform::PROBE,
    &cpu::tls::PROBE,
    &cpu::vm_exit::PROBE,
    &cpu::hiccup::PROBE,
    &cpu::neighbour::PROBE,
    &sync::mutex::PROBE,
    &sync::core_to_core::PROBE,
    &sync::false_sharing::PROBE,
    &sync::task::PROBE,
    &os::syscall::PROBE,
    &os::io_uring::PROBE,
    &os::overhead::PROBE,
    &os::attached::PROBE,
    &os::quota::PROBE,
    &os::signal::PROBE,
    &os::timer::PROBE,
    &os::thread::PROBE,
    &os::process::PROBE,
    &os::context_switch::PROBE,
    &os::wait::PROBE,
    &os::page_fault::PROBE,
    &os::mmap::PROBE,
    &os::pin::PROBE,
    &memory::latency::PROBE,
    &memory::bandwidth::PROBE,
    &memory::malloc::PROBE,
    &memory::first_touch::PROBE,
    &node::core::PROBE,
    &node::bandwidth::PROBE,
    &node::latency::PROBE,
    &node::clock::PROBE,
    &ipc::latency::PROBE,
    &ipc::bandwidth::PROBE,
    &file::remote::null::PROBE,
    &file::remote::PROBE,
    &file::read::PROBE,
    &file::write::PROBE,
    &file::sync::PROBE,
    &file::metadata::PROBE,
    &file::contention::PROBE,
    &file::cache_size::PROBE,
    &net::rtt::PROBE,
    &net::bandwidth::PROBE,
    &net::ping::PROBE,
    &net::connect::PROBE,
    &net::stages::PROBE,
    &net::stream::PROBE,
    &copy::send::PROBE,
    &copy::receive::PROBE,
    &copy::forward::PROBE,
    &copy::parts::PROBE,
    &rudp::stages::PROBE,
    &rudp::loss::PROBE,
    &rpc::first_call::PROBE,
    &rpc::marshal::PROBE,
    &rpc::load::PROBE,
];
