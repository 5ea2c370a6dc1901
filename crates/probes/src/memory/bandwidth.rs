//! `memory.bandwidth`: bytes per second that are read, written or copied in order.

mod predict;
pub(crate) mod team;

use crate::prelude::*;
use costof_os::memory::streams::{GRAIN_BYTES, Kernel, Operation, Stream};
use team::Team;

/// Larger sizes are streamed in blocks of at most this size, so that a batch need not cover all of
/// the memory.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Limits on what a kernel streams in each trial, in each thread. The maximum is as much as most
/// last-level caches hold: until those have to write back what the previous kernel left in them,
/// cached stores look cheaper than they are.
const TRIAL_BYTES: (u64, u64) = (4 << 20, 32 << 20);

words! {
    /// What is done to memory.
    pub(crate) enum Op => Operation {
        /// every byte is loaded
        Read = "read",
        /// every byte is stored, through the caches
        Write = "write",
        /// every byte is stored, bypassing the caches, so that no line is read first
        WriteNontemporal = "write_nontemporal",
        /// every byte of one area is stored into another, and counted once
        Copy = "copy",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Bandwidth>();

point! {
    /// How many bytes per second can be read, written or copied in order, by the amount of memory
    /// in use?
    ///
    /// Loops in assembly, of several widths and with 4 or 8 vectors an iteration, go through memory
    /// in ascending order and start again at its beginning. Larger sizes are processed block by
    /// block, so that a byte is reused only after all others. In each launch, every permitted
    /// kernel is tried five times, each time through the size (at least 4 MiB, at most 32 MiB)
    /// after an untimed pass; the one with the fastest median is measured. vector_bytes and
    /// nontemporal report its kind. All bytes that are read are
    /// added up, and the sum is checked; what is written or copied is checked afterwards. No
    /// written byte is zero, because some machines move lines of zeroes three times as fast.
    /// The number counts the program's bytes. More crosses the bus: a written line is first read
    /// and later written back (write-allocate), so a write moves twice, and a copy three times as
    /// much, unless its stores are non-temporal or it is a large rep, which many CPUs treat alike.
    /// Threads start each batch together, and the last one ends it. A size is used up to its last
    /// whole KiB. 1 MiB that is read again comes from a cache; for 1 MiB from memory, take the cost
    /// of the largest size.
    ///
    /// # Predicted from
    /// the cache sizes that the CPU reports and usual bytes per cycle of each level
    /// (cpu.frequency); for main memory the lines that a core keeps in flight and the latency on 2
    /// MiB pages, or on 4 KiB pages less up to a third for TLB misses, or a fifth to a half for nested ones
    /// in a virtual machine (memory.latency); at most the bandwidth of the memory modules by the firmware
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   bw_mem
    /// - J. McCalpin, Memory Bandwidth and Machine Balance in Current High Performance Computers,
    ///   IEEE TCCA Newsletter 1995 (STREAM)
    /// - Intel 64 and IA-32 Architectures Optimization Reference Manual, 3.7.6 (ERMSB)
    /// - CSE 221 System Measurement Project, 2014: read 15.0, write 5.6 GB/s of 21.3 GB/s (256 MB)
    /// - CS 739 mini-project 1: read 1 MB sequentially from memory 97 µs
    ///
    /// # Needs
    /// - free memory of the size for each thread, twice that for a copy; for 2MiB, transparent huge
    ///   pages not set to never
    pub(crate) struct Bandwidth of "memory.bandwidth" {
        /// what is done to memory
        op: Op = words(),
        /// the memory that each thread streams through repeatedly; a copy has two areas of this
        /// size
        size: u64 = bytes(4 << 10..=1 << 40, &[128 << 20, 16 << 10, 256 << 10, 4 << 20]),
        threads: u64 = threads::axis(
            "threads at the same time, each with its own CPU and memory",
            &[1, 2],
        ),
        pages: Pages = Pages::axis(),
    }
}

impl Measure for Bandwidth {
    const METRICS: &'static [Metric] = metrics! {
        /// bytes read, written or copied, all threads together; a copied byte counts once (as
        /// lmbench and mbw count; STREAM counts it twice)
        throughput: BytesPerSecond Higher,
        /// each thread streaming one block: the whole size, or about 1 MiB of a larger one
        cost: Nanoseconds Lower,
        /// bytes per instruction of the kernel; 1 for rep
        vector_bytes: Bytes Neither,
        /// 1 where the kernel's stores are non-temporal, otherwise 0
        nontemporal: One Neither,
    };
    const AFTER: NameList = &["cpu.frequency", "memory.latency"];
    const CROSSINGS: &'static [NameList] = &[&["op", "size"]];
    const BLOCKS_BY: NameList = &["pages", "threads", "size"];
    const ROLES: &'static [StartRole] = &[|launch| role::<Bandwidth>(Streaming::start(launch))];

    fn aliases() -> Vec<Alias> {
        vec![Alias::new("memory.bandwidth(kernel=best)", "memory.bandwidth")]
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        memory_bytes(point)
    }

    fn processors(point: &At<Self>) -> usize {
        point.threads as usize
    }

    fn relations() -> Vec<Relation> {
        vec![
            Relation::because("a copy reads every byte too")
                .these("op", Op::Copy.word())
                .those("op", Op::Read.word()),
        ]
    }

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let beyond = sizes::beyond(facts);
        [
            ("memory bandwidth: read of 1 MiB, cached", Op::Read, 1 << 20),
            ("memory bandwidth: read", Op::Read, beyond),
            ("memory bandwidth: write", Op::Write, beyond),
            ("memory bandwidth: copy", Op::Copy, beyond),
        ]
        .map(|(label, op, size)| Headline::new(label, stream(op, size)))
        .into()
    }

    /// Each cache that the CPU reports, and more threads up to its CPUs.
    fn more_points(facts: &Facts) -> Vec<Planned> {
        let caches =
            (1..=3).filter_map(|level| Some(stream(Op::Read, sizes::inside(facts, level)?)));
        let processors = threads::processors(facts);
        let doubled = (1..).map(|power| 1 << power);
        let threads = doubled
            .take_while(|threads| *threads < processors)
            .chain([processors])
            .filter(|threads| *threads > 1)
            .flat_map(|threads| {
                [Op::Read, Op::Copy].map(|op| Bandwidth { op, threads, ..Bandwidth::default() })
            });
        Planned::all(caches.chain(threads))
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point, facts, measured)
    }

    /// Adds the throughput: the bytes of all threads in the median time of a block.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let (block_bytes, _) = blocks(point);
        derived::with_throughput(reports, block_bytes.saturating_mul(point.threads))
    }
}

/// One thread streaming through `size` bytes with the fastest kernel.
pub(crate) fn stream(op: Op, size: u64) -> Bandwidth {
    Bandwidth { op, size, ..Bandwidth::default() }
}

fn arena_bytes(point: &Bandwidth) -> u64 {
    Stream::arena_bytes(point.op.into(), point.size)
}

fn memory_bytes(point: &Bandwidth) -> u64 {
    arena_bytes(point).saturating_mul(point.threads)
}

/// The size and number of blocks.
fn blocks(point: &Bandwidth) -> (u64, u64) {
    let size = point.size;
    let blocks = size.div_ceil(BLOCK_BYTES_MAX);
    let grain = GRAIN_BYTES as u64;
    (size / blocks / grain * grain, blocks)
}

fn trial_bytes(point: &Bandwidth) -> u64 {
    point.size.clamp(TRIAL_BYTES.0, TRIAL_BYTES.1)
}

struct Streaming {
    cpus: Vec<usize>,
    /// Bytes per thread of the largest point of the block that fits.
    largest: u64,
    team: Option<Team>,
}

impl Streaming {
    fn start(launch: &Launch) -> Streaming {
        let points = launch.points.iter().filter_map(|point| Bandwidth::read(&point.axes));
        // Points that do not fit are refused one by one.
        let fitting = points.filter(|point| arenas::fits(memory_bytes(point)));
        let largest = fitting.map(|point| arena_bytes(&point)).max();
        Streaming { cpus: launch.cpus.clone(), largest: largest.unwrap_or(0), team: None }
    }
}

impl RoleAt<Bandwidth> for Streaming {
    fn prepare(&mut self, point: &At<Bandwidth>, _: &Offers) -> Result<Offers> {
        let threads = point.threads;
        threads::have_one_each(threads as usize, &self.cpus)?;
        let needed = arena_bytes(point);
        if needed > self.largest {
            return Err(arenas::does_not_fit(needed.saturating_mul(threads)));
        }
        let enough = |team: &Team| team.is_enough(threads, needed);
        if !self.team.as_ref().is_some_and(enough) {
            self.team = None;
            let team = Team::start(threads, &self.cpus, self.largest, needed, point.pages, None)?;
            self.team = Some(team);
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Bandwidth>, meter: &mut Meter<'_>) -> Result {
        let team = self.team.as_ref().expect("a prepared point has its threads");
        let operation: Operation = point.op.into();
        let kernels: Vec<&Kernel> = Kernel::all(operation).collect();
        let (block_bytes, blocks) = blocks(point);
        team.each(move |stream| {
            stream
                .aim(operation, block_bytes as usize, blocks as usize)
                .map_err(|error| Failure::error(error.to_string()))
        })?;
        let mut crew = team.crew(Stream::run)?;
        let trial = trial_bytes(point).div_ceil(block_bytes);
        let best = team.fastest(&kernels, &mut crew, trial, meter);
        team.take(best);
        meter.crew("cost", &mut crew);
        meter.value("vector_bytes", f64::from(best.vector_bytes));
        meter.value("nontemporal", f64::from(u8::from(best.nontemporal)));
        Ok(())
    }

    fn finish(&mut self, _: &At<Bandwidth>, _: &mut Meter<'_>) -> Result {
        let team = self.team.as_ref().expect("a measured point has its threads");
        team.each(|stream| stream.check().map_err(Failure::error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;
    use costof_model::metric::{Data, Measured};

    #[test]
    fn large_sizes_are_streamed_in_blocks() {
        let blocks = |size| blocks(&stream(Op::Read, size));
        assert_eq!(blocks(5000), (4096, 1));
        assert_eq!(blocks(1 << 20), (1 << 20, 1));
        assert_eq!(blocks(3 << 19), (3 << 18, 2));
        assert_eq!(blocks(128 << 20), (1 << 20, 128));
    }

    #[test]
    fn kernels_are_tried_beyond_the_caches_where_the_size_is() {
        let bytes = |size| trial_bytes(&stream(Op::Write, size));
        assert_eq!(bytes(4 << 10), 4 << 20);
        assert_eq!(bytes(16 << 20), 16 << 20);
        assert_eq!(bytes(1 << 30), 32 << 20);
    }

    #[test]
    fn the_throughput_is_that_of_all_threads() {
        let cost = Data::Samples(vec![(1, 100.0), (2, 256.0), (1, 128.0)]);
        let report = report(vec![Measured::new("cost".into(), cost)]);
        let point = Bandwidth { threads: 2, ..stream(Op::Read, 4096) };
        let report = Bandwidth::derive(&point.into(), vec![report]);
        let throughput = &report.metrics[1];
        assert_eq!(throughput.name, "throughput");
        assert_eq!(throughput.data, Data::Value(64e9));
    }
}
