//! How far two CPUs lie apart: what a cache line takes there and back.
//!
//! A hypervisor moves virtual CPUs over the host's cores, so that the distance of two of them changes
//! within seconds or hours, and with it whatever they exchange: a line took 80 or 350 ns, a blocked
//! round trip through a pipe 21 or 27 µs. Nothing else that a guest sees says so.

use crate::clock::Clock;
use costof_os::ipc::token::{Between, Exchange, Leader, Over, Wait};
use costof_stats::median;

/// Round trips of a stretch that is timed, and stretches: about 0.1 ms together.
const ROUND_TRIPS: u64 = 20;
const STRETCHES: usize = 15;

/// Distances within so many times of each other are one: who shares a core makes 80 ns 100, and the next
/// distance is 1.4 times as far or more.
pub const ALIKE: f64 = 1.25;

/// Whether two distances are one.
pub fn is_alike(one: f64, other: f64) -> bool {
    one.max(other) <= ALIKE * one.min(other)
}

/// Nanoseconds that a word in memory takes from the CPU of the calling thread to another and back, as
/// `ipc.latency over=shared_memory` measures it; `None` where no process can run there.
pub fn round_trip_ns(clock: &dyn Clock, cpu: usize) -> Option<f64> {
    let mut leader = Leader::start(&Exchange {
        between: Between::Processes,
        over: Over::SharedMemory,
        wait: Wait::Spin,
        size: 1,
        cpu,
    })
    .ok()?;
    let mut stretch = || {
        let start = clock.start();
        leader.round_trips(ROUND_TRIPS).ok()?;
        Some(clock.ns(clock.end().saturating_sub(start)) / ROUND_TRIPS as f64)
    };
    stretch()?;
    let stretches: Option<Vec<f64>> = (0..STRETCHES).map(|_| stretch()).collect();
    median(&stretches?)
}
