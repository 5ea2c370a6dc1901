//! What is measured of a remote file: reads, block by block, and handshakes and calls that do nothing
//! between them.

use super::server::TIMEOUT;
use super::source::Reader;
use crate::prelude::*;
use costof_measure::clock::Clock;
use costof_os::memory::allocator::allocations;
use costof_os::net::handshake::Handshake;

/// Which block is read next.
struct Blocks {
    count: u64,
    bytes: u64,
    next: u64,
    random: Option<Rng>,
}

impl Blocks {
    /// In order, or at random.
    fn new(reader: &Reader, random: Option<Rng>) -> Blocks {
        Blocks {
            count: reader.size_bytes / reader.block as u64,
            bytes: reader.block as u64,
            next: 0,
            random,
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let block = match &mut self.random {
            Some(random) => random.u64(..self.count),
            None => {
                let block = self.next;
                let next = block + 1;
                self.next = if next == self.count { 0 } else { next };
                block
            }
        };
        block * self.bytes
    }
}

/// How often reads and calls that do nothing alternate.
const TURNS: u32 = 4;
/// The share of the time that such calls get.
const CALLS_SHARE: f64 = 0.2;
/// The fewest reads in a turn.
const MIN_READS: u64 = 4;
/// Handshakes while nothing else is in flight, and after the reads of a turn.
const HANDSHAKES: u32 = 4;
/// The shortest turn over a slow link, in nanoseconds.
const MIN_SLOW_TURN_NS: f64 = 50e6;
/// How many reads must fit into a point's time for it to be cut into turns.
const READS_PER_POINT: f64 = 40.0;

/// Measures a point: handshakes, then alternately calls that do nothing and reads of blocks, in
/// order or at `random`.
///
/// # Errors
/// If the server does not answer, or answers wrongly.
pub(super) fn measure(reader: &mut Reader, random: Option<Rng>, meter: &mut Meter<'_>) -> Result {
    let each_ns = warm_up(reader, meter)?;
    handshakes(reader, meter)?;
    // Over a slow link, one turn takes long enough, and must outlast a link's burst.
    let (turns, least_ns) = if each_ns * READS_PER_POINT * f64::from(TURNS) < meter.time_ns() {
        (TURNS, 0.0)
    } else {
        (1, MIN_SLOW_TURN_NS)
    };
    let mut meter = meter.lasting(least_ns);
    let mut blocks = Blocks::new(reader, random);
    let mut sum = Stretch::default();
    for _ in 0..turns {
        let mut turn = meter.share(turns);
        // Reads of the turn before; those in flight after the last turn are not waited for.
        while reader.in_flight() > 0 {
            reader.complete()?;
        }
        calls(reader, &mut turn)?;
        sum.add(&reads(reader, &mut blocks, &mut turn)?);
        handshakes_loaded(reader, &mut blocks, &mut turn)?;
    }
    let bytes = sum.blocks as f64 * reader.block as f64;
    meter.value("throughput", bytes / sum.ns * 1e9);
    meter.value("cpu", sum.cpu_ns / (bytes / 1024.0));
    Ok(())
}

/// Reads before those that count, one at a time, for up to half of the time; returns the time of
/// each. Each block is read once, in any case: reads at random would leave out a third.
fn warm_up(reader: &mut Reader, meter: &Meter<'_>) -> Result<f64> {
    let mut blocks = Blocks::new(reader, None);
    let clock = meter.clock();
    let (start, mut done, mut ns) = (clock.start(), 0_u64, 0.0);
    while done < blocks.count && (done == 0 || ns < meter.time_ns() / 2.0) {
        reader.request(blocks.next(), 0)?;
        reader.complete()?;
        done += 1;
        ns = clock.ns(clock.end().saturating_sub(start));
    }
    Ok(ns / done as f64)
}

/// The link's round trip, as the kernels time it, while nothing else is in flight. Nothing where
/// the server's address is unknown, or it accepts no more connections.
///
/// # Errors
/// If the connection's state cannot be read.
pub(super) fn handshakes(reader: &Reader, meter: &mut Meter<'_>) -> Result {
    for _ in 0..HANDSHAKES {
        let Some(handshake) = reader.begin_handshake() else {
            break;
        };
        if handshake.wait(TIMEOUT).is_err() {
            break;
        }
        over(&handshake, "handshake", meter)?;
    }
    Ok(())
}

/// Records a handshake if it is complete; returns whether it is.
fn over(handshake: &Handshake, metric: &'static str, meter: &mut Meter<'_>) -> Result<bool> {
    let took_ns = handshake.round_trip_ns().or_fail("TCP_INFO")?;
    if let Some(ns) = took_ns {
        meter.value(metric, ns as f64);
    }
    Ok(took_ns.is_some())
}

/// Calls that do nothing, one at a time, for their share of the time.
///
/// # Errors
/// If the server does not answer, or answers wrongly.
pub(super) fn calls(reader: &mut Reader, meter: &mut Meter<'_>) -> Result {
    calls_for(reader, meter, "null_call", CALLS_SHARE)
}

/// The same for the whole time, where such calls are the metric.
///
/// # Errors
/// If the server does not answer, or answers wrongly.
pub(super) fn calls_alone(reader: &mut Reader, meter: &mut Meter<'_>) -> Result {
    for _ in 0..MIN_READS {
        reader.null()?;
    }
    calls_for(reader, meter, "latency", 1.0)
}

/// How long blocks are read to see how fast they arrive.
pub(super) const RATE_NS: f64 = 50e6;

/// The rate of blocks in order, with as many in flight as the reader keeps.
///
/// # Errors
/// If the server does not answer, or answers wrongly.
pub(super) fn rate(reader: &mut Reader, meter: &mut Meter<'_>) -> Result {
    let mut meter = meter.lasting(RATE_NS);
    warm_up(reader, &meter)?;
    let mut blocks = Blocks::new(reader, None);
    keep_in_flight(reader, &mut blocks, meter.clock())?;
    let clock = meter.clock();
    let (start, mut done, mut ns) = (clock.start(), 0, 0.0);
    while done < MIN_READS || ns < RATE_NS {
        reader.complete()?;
        reader.request(blocks.next(), 0)?;
        done += 1;
        ns = clock.ns(clock.end().saturating_sub(start));
    }
    meter.value("rate", (done * reader.block as u64) as f64 / ns * 1e9);
    Ok(())
}

fn calls_for(
    reader: &mut Reader,
    meter: &mut Meter<'_>,
    metric: &'static str,
    share: f64,
) -> Result {
    let clock = meter.clock();
    let (start, mut done, mut ns) = (clock.start(), 0, 0.0);
    while done < MIN_READS || ns < share * meter.time_ns() {
        meter.time(metric, || reader.null())?;
        done += 1;
        ns = clock.ns(clock.end().saturating_sub(start));
    }
    Ok(())
}

/// A sequence of reads.
#[derive(Clone, Copy, Default)]
struct Stretch {
    blocks: u64,
    ns: f64,
    cpu_ns: f64,
}

impl Stretch {
    fn add(&mut self, other: &Stretch) {
        self.blocks += other.blocks;
        self.ns += other.ns;
        self.cpu_ns += other.cpu_ns;
    }
}

/// Reads for the rest of the time, with as many in flight as the point asks for. Counting begins
/// when the first of them are complete: each later one finds as many before it.
fn reads(reader: &mut Reader, blocks: &mut Blocks, meter: &mut Meter<'_>) -> Result<Stretch> {
    let clock = meter.clock();
    let allocated = allocations();
    let start = clock.start();
    let end_ns = (1.0 - CALLS_SHARE) * meter.time_ns();
    keep_in_flight(reader, blocks, clock)?;
    for _ in 0..reader.depth {
        reader.complete()?;
        reader.request(blocks.next(), clock.start())?;
    }
    let first_ns = clock.ns(clock.end().saturating_sub(start));
    let first_cpu_ns = now_ns(ClockId::ThreadCpu);
    // Recording a latency may allocate, which no read does.
    let mut recording = 0;
    let mut stretch = Stretch::default();
    while stretch.ns < end_ns - first_ns || stretch.blocks < MIN_READS {
        let completed = reader.complete()?;
        let now = clock.end();
        let before = allocations();
        meter.latency("latency", clock.ns(now.saturating_sub(completed.began)));
        recording += allocations() - before;
        stretch.blocks += 1;
        stretch.ns = clock.ns(now.saturating_sub(start)) - first_ns;
        reader.request(blocks.next(), clock.start())?;
    }
    stretch.cpu_ns = now_ns(ClockId::ThreadCpu).saturating_sub(first_cpu_ns) as f64;
    meter.allocated(allocations() - allocated - recording);
    Ok(stretch)
}

fn keep_in_flight(reader: &mut Reader, blocks: &mut Blocks, clock: &dyn Clock) -> Result {
    while reader.in_flight() < reader.depth {
        reader.request(blocks.next(), clock.start())?;
    }
    Ok(())
}

/// Handshakes while reads of the file go on, which are not counted: each handshake delays a read.
///
/// # Errors
/// If the server does not answer, or answers wrongly.
fn handshakes_loaded(reader: &mut Reader, blocks: &mut Blocks, meter: &mut Meter<'_>) -> Result {
    for _ in 0..HANDSHAKES {
        keep_in_flight(reader, blocks, meter.clock())?;
        let Some(handshake) = reader.begin_handshake_loaded()? else {
            break;
        };
        // Where packets queue in the link, the handshake waits behind them.
        for _ in 0..reader.depth + 1 {
            reader.complete()?;
            keep_in_flight(reader, blocks, meter.clock())?;
            if over(&handshake, "handshake_loaded", meter)? {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_each_once_or_as_the_seed_draws_them() {
        let offsets = |random| {
            let (count, bytes, next) = (5, 4, 0);
            let mut blocks = Blocks { count, bytes, next, random };
            [(); 12].map(|()| blocks.next())
        };
        assert_eq!(offsets(None)[..6], [0, 4, 8, 12, 16, 0]);
        let random = |seed| offsets(Some(Rng::with_seed(seed)));
        assert_eq!(random(1), random(1));
        assert_ne!(random(1), random(2));
        assert!(random(1).iter().all(|offset| [0, 4, 8, 12, 16].contains(offset)));
    }
}
