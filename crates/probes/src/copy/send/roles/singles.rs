//! What single messages show, before those that follow each other: when a message's bytes could be
//! changed, and what sending evicts from the caches.

use super::failed;
use crate::copy::send::axes::CopySend;
use crate::net::path;
use crate::prelude::*;
use costof_exchange::delivery::Sender;
use costof_measure::facts;
use costof_model::facts::CacheKind;
use costof_os::memory::cache_pollution::Victim;
use std::thread::sleep;
use std::time::Duration;

/// How long nothing is sent before each of them.
const IDLE: Duration = Duration::from_micros(500);
/// How often it is measured when a message's bytes could be changed: the median counts. Large ones take
/// long, and are sent less often.
const REUSES: u64 = 9;
const REUSES_OF_LARGE: u64 = 3;
const LARGE_BYTES: u64 = 1 << 20;

fn reuses(point: &At<CopySend>) -> u64 {
    if point.size > LARGE_BYTES {
        REUSES_OF_LARGE
    } else {
        REUSES
    }
}

/// The caches whose pollution is measured, and its metrics.
const LEVELS: [(u32, &str); 3] = [
    (1, "pollution_l1"),
    (2, "pollution_l2"),
    (3, "pollution_l3"),
];

/// How much is sent between two readings of an array that has filled a cache.
const POLLUTING_BYTES: u64 = 1 << 20;
const POLLUTING_MOST: u64 = 16;
/// How often that is done for each cache: the median counts. Over a slow link once.
const POLLUTIONS: u64 = 5;
const SLOW_NS: f64 = 1e6;

/// How many messages that is.
fn polluting(point: &At<CopySend>) -> u64 {
    (POLLUTING_BYTES / point.size).clamp(1, POLLUTING_MOST)
}

fn pollutions(point: &At<CopySend>) -> u64 {
    if path::delays_ns(&point.link) > SLOW_NS {
        1
    } else {
        POLLUTIONS
    }
}

/// An array for each level of caches, and its metric.
pub(super) type Victims = Vec<(&'static str, Victim)>;

/// An array of three quarters of each cache that the CPU claims; none where it claims none, or does not
/// hold it.
pub(super) fn victims(cpu: usize) -> Victims {
    let caches = facts::caches_of(cpu as u32);
    let of_level = |(level, metric)| {
        let mut caches = caches.iter();
        let data =
            caches.find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?;
        let victim = Victim::new(data.size_bytes as usize / 4 * 3).ok()?;
        victim.is_held().then_some((metric, victim))
    };
    LEVELS.into_iter().filter_map(of_level).collect()
}

/// How many single messages the first connection has before its stream, at most.
pub(super) fn messages_at_most(point: &At<CopySend>) -> u64 {
    reuses(point) + LEVELS.len() as u64 * pollutions(point) * polluting(point)
}

/// Sends single messages through one flow, while nothing else is in flight. They come before all
/// others: the receiver would count pauses behind a stream as a part of it.
pub(super) fn measure(
    point: &At<CopySend>,
    flow: &mut Sender,
    victims: &[(&'static str, Victim)],
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let idle = IDLE + 2 * flow.round_trip();
    for _ in 0..reuses(point) {
        // Messages sent before leave the socket.
        sleep(idle);
        let ns = flow.reusable_after_ns();
        let ns = ns.map_err(|error| failed(point, &error))?;
        meter.value("reusable", ns as f64);
    }
    let messages = polluting(point);
    for (metric, victim) in victims {
        for _ in 0..pollutions(point) {
            sleep(idle);
            let ns = flow.pollution_ns(victim, messages as u32);
            let ns = ns.map_err(|error| failed(point, &error))?;
            meter.value(metric, ns);
        }
    }
    Ok(())
}
