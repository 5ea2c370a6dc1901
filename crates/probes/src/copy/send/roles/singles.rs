//! Single messages before the stream: when a message's bytes may be changed, and what sending
//! evicts from the caches.

use super::duration::BYTES_PER_NS;
use super::failed;
use crate::copy::send::axes::{CopySend, Pattern};
use crate::prelude::*;
use crate::two_ends::path;
use costof_exchange::pattern::flow::Sender;
use costof_measure::facts;
use costof_model::facts::CacheKind;
use costof_os::memory::cache_pollution::Victim;
use std::thread::sleep;

/// The pause before each single message.
const IDLE: Duration = Duration::from_micros(500);
/// Repetitions, of which the median counts. Large messages take long, and are repeated less.
const REUSES: u64 = 9;
const REUSES_OF_LARGE: u64 = 3;
const LARGE_BYTES: u64 = 1 << 20;

fn reuses(point: &At<CopySend>) -> u64 {
    if point.size > LARGE_BYTES { REUSES_OF_LARGE } else { REUSES }
}

/// The cache levels whose pollution is measured, with their metrics.
const LEVELS: [(u32, &str); 3] = [(1, "pollution_l1"), (2, "pollution_l2"), (3, "pollution_l3")];

/// Bytes sent between two readings of an array that fills a cache.
const POLLUTING_BYTES: u64 = 1 << 20;
const POLLUTING_MAX: u64 = 16;
/// Repetitions per cache, of which the median counts. Over a slow link there is one.
const POLLUTIONS: u64 = 5;
const SLOW_NS: f64 = 1e6;

/// Messages that make up [`POLLUTING_BYTES`].
fn polluting(point: &At<CopySend>) -> u64 {
    (POLLUTING_BYTES / point.size).clamp(1, POLLUTING_MAX)
}

fn pollutions(point: &At<CopySend>) -> u64 {
    if path::delays_ns(&point.link) > SLOW_NS { 1 } else { POLLUTIONS }
}

pub(super) type Victims = Vec<(&'static str, Victim)>;

/// An array of three quarters of each of the CPU's caches; none where the CPU reports no such
/// cache, or the cache does not hold the array.
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

/// How many single messages a first connection has before its stream. The receiver computes it too,
/// so it does not depend on which caches the sender can measure.
pub(super) fn count(point: &At<CopySend>) -> u64 {
    reuses(point) + LEVELS.len() as u64 * pollutions(point) * polluting(point)
}

/// What else the single messages of a stream take: pauses, a connection, and reading arrays of three caches fifteen times.
const BESIDES_NS: f64 = 45e6;

/// How long a stream's single messages take, once a launch.
pub(in crate::copy::send) fn least_ns(point: &At<CopySend>) -> f64 {
    match point.pattern {
        Pattern::Stream => BESIDES_NS + (count(point) * point.size) as f64 / BYTES_PER_NS,
        Pattern::Echo | Pattern::Trigger => 0.0,
    }
}

/// Sends [`count`] single messages through one flow, while nothing else is in flight. They precede
/// all others, because the receiver would count a pause after the stream as part of the stream.
pub(super) fn measure(
    point: &At<CopySend>,
    flow: &mut Sender,
    victims: &[(&'static str, Victim)],
    meter: &mut Meter<'_>,
) -> Result {
    let idle = IDLE + 2 * flow.round_trip();
    for _ in 0..reuses(point) {
        // Messages sent before have left the socket.
        sleep(idle);
        let ns = flow.reusable_after_ns().map_err(|error| failed(point, &error))?;
        meter.value("reusable", ns as f64);
    }
    let messages = polluting(point);
    for (metric, victim) in victims {
        for _ in 0..pollutions(point) {
            sleep(idle);
            let ns = flow
                .pollution_ns(victim, messages as u32)
                .map_err(|error| failed(point, &error))?;
            meter.value(metric, ns);
        }
    }
    while flow.counts().messages < count(point) {
        let sent = flow.reusable_after_ns();
        sent.map_err(|error| failed(point, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;
    use costof_exchange::pattern::flow::{self, Content};
    use costof_exchange::rendezvous::Listener;
    use costof_measure::meter::Record;
    use costof_model::testing::launch_message;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn as_many_are_sent_as_the_receiver_expects_where_no_cache_can_be_measured() {
        const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
        let point = At::from(CopySend { size: 64, working_set: 4096, ..CopySend::default() });
        let transport = point.socket();
        let address = std::net::IpAddr::from(Ipv4Addr::LOCALHOST);
        let listener = Listener::open(transport, (address, 0), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let stop: &'static AtomicBool = Box::leak(Box::default());
        let content = Content::Fields(point.shape());
        let (mut flows, _receivers) = thread::scope(|scope| {
            let accepted = scope.spawn(|| flow::accept(&listener, transport, content, stop));
            let messages = messages(&point, &mut Rng::with_seed(1)).unwrap();
            let primitive = point.full_primitive().unwrap();
            let flows = flow::call(transport, &address, None, TOKEN, primitive, messages);
            (flows.unwrap(), accepted.join().unwrap().unwrap())
        });
        let launch = launch_message(Vec::new());
        let clock = costof_measure::clock::open(&launch.clock).unwrap();
        let mut record = Record::default();
        let mut meter = Meter::new(&*clock, 1e6, stop, None, "cost", &mut record);
        measure(&point, &mut flows[0], &Vec::new(), &mut meter).unwrap();
        assert_eq!(flows[0].counts().messages, count(&point));
    }
}
