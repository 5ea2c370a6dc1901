//! Reading a remote file block by block, and what goes on beside it.

use super::calls::{Answered, Calls, ReadError};
use super::mounted::{Mounted, MountedCalls};
use super::server::{self, LIMIT, RemoteFile};
use super::url::Url;
use costof_measure::clock::Clock;
use costof_measure::meter::Meter;
use costof_model::failure::Failure;
use costof_model::failure::OrFailure;
use costof_model::unit::display_bytes;
use costof_model::unsupported;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::net::handshake::Handshake;
use costof_os::net::reserved_port;
use fastrand::Rng;
use std::net::SocketAddr;

/// How a file is reached.
pub(super) enum Way {
    Nfs(Url),
    Mounted(Mounted),
}

/// A file that was found.
pub(super) enum Found {
    Nfs(String, RemoteFile),
    Mounted(Mounted),
}

/// A file that is being read in blocks.
pub(super) struct Reading {
    name: String,
    size_bytes: u64,
    block: usize,
    depth: usize,
    /// Where its server is, if that can be told.
    server: Option<SocketAddr>,
    by: By,
}

enum By {
    Calls(Calls),
    Mounted(MountedCalls),
}

/// Finds the file.
///
/// # Errors
/// What does not answer, or what it answers.
pub(super) fn find(way: Way) -> Result<Found, Failure> {
    match way {
        Way::Nfs(url) => Ok(Found::Nfs(url.to_string(), server::find(&url)?)),
        Way::Mounted(mounted) => Ok(Found::Mounted(mounted)),
    }
}

impl Found {
    fn size_bytes(&self) -> u64 {
        match self {
            Found::Nfs(_, file) => file.size_bytes,
            Found::Mounted(mounted) => mounted.size_bytes,
        }
    }

    /// Prepares for small calls alone.
    ///
    /// # Errors
    /// As for [`Found::open`].
    pub(super) fn for_calls(self) -> Result<Reading, Failure> {
        let block = self.size_bytes().min(512) as usize;
        self.open(block, 1)
    }

    /// Prepares to read it in such blocks, so many at a time.
    ///
    /// # Errors
    /// What the file or its server is too small for; what opening and connecting say.
    pub(super) fn open(self, block: usize, depth: usize) -> Result<Reading, Failure> {
        let size_bytes = self.size_bytes();
        if size_bytes < block as u64 {
            unsupported!(
                "the file has {} and a block {} (a smaller --set block=…, or a larger file)",
                display_bytes(size_bytes),
                display_bytes(block as u64)
            );
        }
        let reading = |name, server, by| Reading {
            name,
            size_bytes,
            block,
            depth,
            server,
            by,
        };
        match self {
            Found::Nfs(_, file) if file.read_most_bytes < block as u64 => {
                Err(Failure::unsupported(format!(
                    "the server reads at most {} by one call (a smaller --set block=…)",
                    display_bytes(file.read_most_bytes)
                )))
            }
            Found::Nfs(name, file) => {
                let connected = reserved_port::connect(&file.server, LIMIT)
                    .and_then(|stream| Calls::new(stream, &file, (block, depth), LIMIT));
                let calls = connected.map_err(|error| {
                    Failure::error(format!("reading {name}: {}", server::why(&error, LIMIT)))
                })?;
                Ok(reading(name, Some(file.server), By::Calls(calls)))
            }
            Found::Mounted(_) if depth > 1 => Err(Failure::unsupported(
                "a mounted path is read by one call at a time (--set depth=1, or an URL nfs://…)",
            )),
            Found::Mounted(mounted) => {
                let calls = mounted.open(block)?;
                Ok(reading(mounted.name, None, By::Mounted(calls)))
            }
        }
    }
}

impl Reading {
    fn null(&mut self) -> Result<(), Failure> {
        let answered = match &mut self.by {
            By::Calls(calls) => calls.null(),
            By::Mounted(calls) => calls.null().map_err(ReadError::Connection),
        };
        answered.map_err(|error| self.failed(&error))
    }

    #[inline]
    fn ask(&mut self, offset: u64, began: u64) -> Result<(), Failure> {
        let asked = match &mut self.by {
            By::Calls(calls) => calls.ask(offset, began),
            By::Mounted(calls) => {
                calls.ask(offset, began);
                Ok(())
            }
        };
        asked.map_err(|error| self.failed(&error))
    }

    #[inline]
    fn answered(&mut self) -> Result<Answered, Failure> {
        let answered = match &mut self.by {
            By::Calls(calls) => calls.answered(),
            By::Mounted(calls) => calls.answered(),
        };
        answered.map_err(|error| self.failed(&error))
    }

    fn in_flight(&self) -> usize {
        match &self.by {
            By::Calls(calls) => calls.in_flight(),
            By::Mounted(calls) => calls.in_flight(),
        }
    }

    /// A handshake with the server that is begun; none where the server is not known.
    fn begin_handshake(&self) -> Option<Handshake> {
        let handshake = Handshake::begin(self.server.as_ref()?).ok()?;
        handshake.reset_on_close().ok()?;
        Some(handshake)
    }

    /// The same while an answer is on its way: some of it is there, and the rest of it, or the next, is
    /// in the link.
    fn begin_handshake_loaded(&mut self) -> Result<Option<Handshake>, Failure> {
        if let By::Calls(calls) = &mut self.by {
            let arriving = calls.arriving();
            arriving.map_err(|error| self.failed(&error))?;
        }
        Ok(self.begin_handshake())
    }

    #[cold]
    fn failed(&self, error: &ReadError) -> Failure {
        error.failure(&self.name, LIMIT)
    }
}

/// Which block is read next.
struct Blocks {
    count: u64,
    bytes: u64,
    next: u64,
    random: Option<Rng>,
}

impl Blocks {
    /// One behind the other, or at random.
    fn new(reading: &Reading, random: Option<Rng>) -> Blocks {
        Blocks {
            count: reading.size_bytes / reading.block as u64,
            bytes: reading.block as u64,
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

/// How often reads and calls that do nothing take turns.
const TURNS: u32 = 4;
/// The share of the time that such calls get.
const CALLS_SHARE: f64 = 0.2;
/// Reads in a turn at least.
const READS_LEAST: u64 = 4;
/// Handshakes with nothing else in flight, and after the reads of a turn.
const HANDSHAKES: u32 = 4;
/// How long a turn lasts at least over a slow link, in nanoseconds.
const SLOW_LEAST_NS: f64 = 50e6;
/// How many reads must fit into a point's time, so that it is cut into turns.
const READS_PER_POINT: f64 = 40.0;

/// Measures a point: handshakes, then calls that do nothing and reads in turns, of blocks one behind the
/// other or as they are `random`.
///
/// # Errors
/// What the server does not answer, or answers.
pub(super) fn measure(
    reading: &mut Reading,
    random: Option<Rng>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let each_ns = warm_up(reading, meter)?;
    handshakes(reading, meter)?;
    // Over a slow link, one turn takes long enough, and must outlast what a link lets through at once.
    let (turns, least_ns) = if each_ns * READS_PER_POINT * f64::from(TURNS) < meter.time_ns() {
        (TURNS, 0.0)
    } else {
        (1, SLOW_LEAST_NS)
    };
    let mut meter = meter.lasting(least_ns);
    let mut blocks = Blocks::new(reading, random);
    let mut sum = Stretch::default();
    for _ in 0..turns {
        let mut turn = meter.share(turns);
        // Those of the turn before; what is in flight after the last is not waited for.
        while reading.in_flight() > 0 {
            reading.answered()?;
        }
        calls(reading, &mut turn)?;
        sum.add(&reads(reading, &mut blocks, &mut turn)?);
        handshakes_loaded(reading, &mut blocks, &mut turn)?;
    }
    let bytes = sum.blocks as f64 * reading.block as f64;
    meter.value("throughput", bytes / sum.ns * 1e9);
    meter.value("cpu", sum.cpu_ns / (bytes / 1024.0));
    Ok(())
}

/// Reads before those that count, one at a time, for up to half of the time; how long each took. Each
/// block is read once, whatever order comes later: of blocks at random, a third would be left out.
fn warm_up(reading: &mut Reading, meter: &Meter<'_>) -> Result<f64, Failure> {
    let mut blocks = Blocks::new(reading, None);
    let clock = meter.clock();
    let (start, mut done, mut ns) = (clock.start(), 0_u64, 0.0);
    while done < blocks.count && (done == 0 || ns < meter.time_ns() / 2.0) {
        reading.ask(blocks.next(), 0)?;
        reading.answered()?;
        done += 1;
        ns = clock.ns(clock.end().saturating_sub(start));
    }
    Ok(ns / done as f64)
}

/// The link's round trip, as the kernels time it, while nothing else is in flight. Nothing where the
/// server's address is not known, or it takes no more connections.
///
/// # Errors
/// What reading the connection's state says.
pub(super) fn handshakes(reading: &Reading, meter: &mut Meter<'_>) -> Result<(), Failure> {
    for _ in 0..HANDSHAKES {
        let Some(handshake) = reading.begin_handshake() else {
            break;
        };
        if handshake.wait(LIMIT).is_err() {
            break;
        }
        over(&handshake, "handshake", meter)?;
    }
    Ok(())
}

/// Records a handshake, if it is over; whether it is.
fn over(
    handshake: &Handshake,
    metric: &'static str,
    meter: &mut Meter<'_>,
) -> Result<bool, Failure> {
    let took_ns = handshake.round_trip_ns();
    let took_ns = took_ns.or_fail("TCP_INFO")?;
    if let Some(ns) = took_ns {
        meter.value(metric, ns as f64);
    }
    Ok(took_ns.is_some())
}

/// Calls that do nothing, one at a time, for their share of the time.
///
/// # Errors
/// What the server does not answer, or answers.
pub(super) fn calls(reading: &mut Reading, meter: &mut Meter<'_>) -> Result<(), Failure> {
    calls_for(reading, meter, "null_call", CALLS_SHARE)
}

/// The same for all of the time, as the answer to what such a call takes.
///
/// # Errors
/// What the server does not answer, or answers.
pub(super) fn calls_alone(reading: &mut Reading, meter: &mut Meter<'_>) -> Result<(), Failure> {
    for _ in 0..READS_LEAST {
        reading.null()?;
    }
    calls_for(reading, meter, "latency", 1.0)
}

fn calls_for(
    reading: &mut Reading,
    meter: &mut Meter<'_>,
    metric: &'static str,
    share: f64,
) -> Result<(), Failure> {
    let clock = meter.clock();
    let (start, mut done, mut ns) = (clock.start(), 0, 0.0);
    while done < READS_LEAST || ns < share * meter.time_ns() {
        meter.time(metric, || reading.null())?;
        done += 1;
        ns = clock.ns(clock.end().saturating_sub(start));
    }
    Ok(())
}

/// A stretch of reads.
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

/// Reads for what is left of the time, as many in flight as the point asks for. What counts begins with
/// the last of the answers to the first of them: each that is asked for later finds as many before it.
fn reads(
    reading: &mut Reading,
    blocks: &mut Blocks,
    meter: &mut Meter<'_>,
) -> Result<Stretch, Failure> {
    let clock = meter.clock();
    let allocated = allocations();
    let start = clock.start();
    let end_ns = (1.0 - CALLS_SHARE) * meter.time_ns();
    keep_in_flight(reading, blocks, clock)?;
    for _ in 0..reading.depth {
        reading.answered()?;
        reading.ask(blocks.next(), clock.start())?;
    }
    let first_ns = clock.ns(clock.end().saturating_sub(start));
    let first_cpu_ns = now_ns(ClockId::ThreadCpu);
    // What noting a latency allocates is no read's.
    let mut noted = 0;
    let mut stretch = Stretch::default();
    while stretch.ns < end_ns - first_ns || stretch.blocks < READS_LEAST {
        let answered = reading.answered()?;
        let now = clock.end();
        let before = allocations();
        meter.latency("latency", clock.ns(now.saturating_sub(answered.began)));
        noted += allocations() - before;
        stretch.blocks += 1;
        stretch.ns = clock.ns(now.saturating_sub(start)) - first_ns;
        reading.ask(blocks.next(), clock.start())?;
    }
    stretch.cpu_ns = now_ns(ClockId::ThreadCpu).saturating_sub(first_cpu_ns) as f64;
    meter.allocated(allocations() - allocated - noted);
    Ok(stretch)
}

fn keep_in_flight(
    reading: &mut Reading,
    blocks: &mut Blocks,
    clock: &dyn Clock,
) -> Result<(), Failure> {
    while reading.in_flight() < reading.depth {
        reading.ask(blocks.next(), clock.start())?;
    }
    Ok(())
}

/// Handshakes while the file goes on to be read, which is not counted: each holds up a read.
///
/// # Errors
/// What the server does not answer, or answers.
fn handshakes_loaded(
    reading: &mut Reading,
    blocks: &mut Blocks,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    for _ in 0..HANDSHAKES {
        keep_in_flight(reading, blocks, meter.clock())?;
        let Some(handshake) = reading.begin_handshake_loaded()? else {
            break;
        };
        // Where packets wait in the link, those that were before it come first.
        for _ in 0..reading.depth + 1 {
            reading.answered()?;
            keep_in_flight(reading, blocks, meter.clock())?;
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
            let mut blocks = Blocks {
                count,
                bytes,
                next,
                random,
            };
            [(); 12].map(|()| blocks.next())
        };
        assert_eq!(offsets(None)[..6], [0, 4, 8, 12, 16, 0]);
        let random = |seed| offsets(Some(Rng::with_seed(seed)));
        assert_eq!(random(1), random(1));
        assert_ne!(random(1), random(2));
        assert!(
            random(1)
                .iter()
                .all(|offset| [0, 4, 8, 12, 16].contains(offset))
        );
    }
}
