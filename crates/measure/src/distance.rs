//! How far apart two CPUs are: the round-trip time of a cache line between them.
//!
//! A hypervisor moves virtual CPUs between the host's cores. The distance of two of them then
//! changes within seconds or hours, and with it the cost of whatever they exchange: a line took 80
//! or 350 ns, a blocking round trip through a pipe 21 or 27 µs. A guest has no other way to see
//! this.

use crate::clock::Clock;
use costof_os::ipc::token::{Between, Exchange, Leader, Over, Wait};
use costof_stats::median;

/// Round trips per timed stretch, and the number of stretches: about 0.1 ms together.
const ROUND_TRIPS: u64 = 20;
const STRETCHES: usize = 15;

/// Distances whose ratio is at most this count as the same. A neighbour on the core makes 80 ns 100
/// ns; the next greater distance is at least 1.4 times as far.
pub const ALIKE: f64 = 1.25;

/// Whether two distances count as the same.
pub fn is_alike(one: f64, other: f64) -> bool {
    one.max(other) <= ALIKE * one.min(other)
}

/// The time in nanoseconds that a word in memory takes from the CPU of the calling thread to
/// another and back, as `ipc.latency over=shared_memory` measures it. `None` if no process can run
/// there.
// METHOD 10
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
