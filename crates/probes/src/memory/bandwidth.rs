//! `memory.bandwidth`: how many bytes a second are read, written or copied in order.

mod kernels;
mod predict;
mod team;

use crate::literal::{cost, list, metric, text, word, words};
use crate::{arenas, derived, sizes, threads};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::streams::{GRAIN_BYTES, Operation, Stream};
use kernels::kernels;
use predict::predict;
use std::sync::LazyLock;
use team::Team;

/// Larger sizes are streamed in blocks of at most this many bytes, so that a
/// batch need not go through all of the memory.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// How much a kernel streams in each trial, in each thread: its size, and not less or
/// more than this. Of a size that is beyond the caches it is as much as most last
/// levels hold, since until those have to write back what the kernel before left in
/// them, stores through a cache look cheaper than they are.
const TRIAL_BYTES: (u64, u64) = (4 << 20, 32 << 20);

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("memory.bandwidth"),
        method: 1,
        question: text(
            "How many bytes a second are read, written or copied in order, by how much memory is in use?",
        ),
        axes: list![
            words(
                "op",
                "what is done to memory",
                list![
                    word("read", "every byte is loaded"),
                    word("write", "every byte is stored, through the caches"),
                    word(
                        "write_nontemporal",
                        "every byte is stored past the caches, so that no line is read first"
                    ),
                    word(
                        "copy",
                        "every byte of one area is stored into a second one, each byte counted once"
                    ),
                ],
            ),
            Axis {
                name: text("size"),
                about: text(
                    "the memory that each thread goes through over and over; a copy has two areas of this size"
                ),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 4 << 10,
                    high: 1 << 40,
                    usual: list![128 << 20, 16 << 10, 256 << 10, 4 << 20],
                },
            },
            threads::axis(
                "how many do it at the same time, each on a processor and in memory of its own",
                list![1, 2],
            ),
            arenas::PAGES,
            words(
                "kernel",
                "the instructions that do it",
                list![
                    word("best", "whichever is fastest here, found by a short trial"),
                    word("sse2", "16-byte vectors (x86-64)"),
                    word("avx2", "32-byte vectors (x86-64)"),
                    word("avx512", "64-byte vectors (x86-64)"),
                    word("rep", "rep stosb and rep movsb (x86-64 with ERMS)"),
                    word("nontemporal", "a copy whose stores are non-temporal"),
                    word("neon", "16-byte vectors in pairs (aarch64)"),
                ],
            ),
        ],
        crossings: list![list![text("op"), text("size")]],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes read, written or copied, all threads together; a copied byte counts once (as lmbench and mbw count; STREAM counts it twice)",
            ),
            cost(
                "each thread streaming one block: the whole size, or of more than 1 MiB about 1 MiB"
            ),
            metric(
                "vector_bytes",
                Unit::Bytes,
                Better::Neither,
                "bytes that an instruction of the kernel moves; 1 for rep",
            ),
            metric(
                "nontemporal",
                Unit::One,
                Better::Neither,
                "1 where the kernel's stores are non-temporal, else 0",
            ),
        ],
        how: text(
            "Loops in assembly, of several widths and with 4 or 8 vectors an iteration, go through \
             memory in ascending order and again from its start; larger sizes go on from block to \
             block, so that a byte comes again only after all others. In each launch every kernel \
             that may be used is tried five times, each time through the size (4 MiB at least, \
             32 MiB at most) after as much untimed, and the one that is fastest in the median is \
             measured: vector_bytes and nontemporal say which kind it was, the axis kernel \
             chooses one. All that is read is added up, and the sum checked; what is written or copied is checked \
             afterwards. No byte that is written is zero: some machines move lines of zeroes three \
             times as fast. Counted is what the program moves. More crosses the bus: a written line \
             is first read and later written back (write-allocate), so a write moves twice, a copy \
             three times what is counted, unless its stores are non-temporal, or it is a large rep, \
             which many processors treat alike. Threads start each batch together, and the last \
             one ends it. A size is used up to its last whole KiB. 1 MiB that is read again comes \
             from a cache; 1 MiB from memory is the cost of the largest size.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, bw_mem"
            ),
            text(
                "J. McCalpin, Memory Bandwidth and Machine Balance in Current High Performance Computers, IEEE TCCA Newsletter 1995 (STREAM)"
            ),
            text("Intel 64 and IA-32 Architectures Optimization Reference Manual, 3.7.6 (ERMSB)"),
            text(
                "CSE 221 System Measurement Project, 2014: read 15.0, write 5.6 GB/s of 21.3 GB/s (256 MB)"
            ),
            text("CS 739 mini-project 1: read 1 MB sequentially from memory 97 µs"),
        ],
        predicted_from: text(
            "the cache sizes that the processor claims and usual bytes a cycle for each level at the core clock that cpu.frequency measured; for main memory the lines that a core keeps in flight and the latency that memory.latency measured on 2 MiB pages, or on 4 KiB pages less up to a third of it, which may be TLB misses; at most what the memory modules can by the firmware's word",
        ),
        after: list![text("cpu.frequency"), text("memory.latency")],
        needs: list![text(
            "as much free memory as the size, for each thread, and twice that for a copy; for 2MiB, transparent huge pages not set to never"
        )],
        roles: list![text("only")],
    }),
    rounds: 1,
    blocks_by: &["pages", "threads", "size"],
    least_ns: |_| 0.0,
    memory_bytes: |point| arena_bytes(point).saturating_mul(point.axes.number("threads")),
    processors: |point| point.axes.number("threads") as usize,
    headlines,
    more_points: |facts| Planned::anywhere(more_points(facts)),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Streaming::start(launch)))],
    derive,
};

fn axes(op: &'static str, size: u64) -> Axes {
    let axes = PROBE.info.defaults();
    axes.with("op", op).with("size", size)
}

fn headlines(facts: &Facts) -> Vec<Headline> {
    let beyond = sizes::beyond(facts);
    vec![
        Headline::new(
            "memory bandwidth: read of 1 MiB, cached",
            axes("read", 1 << 20),
        ),
        Headline::new("memory bandwidth: read", axes("read", beyond)),
        Headline::new("memory bandwidth: write", axes("write", beyond)),
        Headline::new("memory bandwidth: copy", axes("copy", beyond)),
    ]
}

/// Each cache that the processor claims, more threads up to its processors, and
/// the kernels of writing and copying that it has.
fn more_points(facts: &Facts) -> Vec<Axes> {
    let caches = (1..=3).filter_map(|level| Some(axes("read", sizes::inside(facts, level)?)));
    let default = PROBE.info.defaults();
    let processors = threads::processors(facts);
    let doubled = (1..).map(|power| 1 << power);
    let threads = doubled
        .take_while(|threads| *threads < processors)
        .chain([processors])
        .filter(|threads| *threads > 1)
        .flat_map(|threads| {
            ["read", "copy"].map(|op| default.clone().with("op", op).with("threads", threads))
        });
    let kernels = [
        ("write", "avx2"),
        ("write", "rep"),
        ("copy", "avx2"),
        ("copy", "rep"),
        ("copy", "nontemporal"),
    ]
    .into_iter()
    .filter(|_| facts.architecture.as_deref() == Some("x86_64"))
    .map(|(op, kernel)| default.clone().with("op", op).with("kernel", kernel));
    caches.chain(threads).chain(kernels).collect()
}

fn operation(point: &Point) -> Operation {
    match point.axes.word("op") {
        "write" => Operation::Write,
        "write_nontemporal" => Operation::WriteNontemporal,
        "copy" => Operation::Copy,
        _ => Operation::Read,
    }
}

/// What one thread needs.
fn arena_bytes(point: &Point) -> u64 {
    Stream::arena_bytes(operation(point), point.axes.number("size"))
}

/// The blocks of a size: how large and how many.
fn blocks(point: &Point) -> (u64, u64) {
    let size = point.axes.number("size");
    let blocks = size.div_ceil(BLOCK_BYTES_MAX);
    let grain = GRAIN_BYTES as u64;
    (size / blocks / grain * grain, blocks)
}

/// How much a kernel streams in each trial, in each thread.
fn trial_bytes(point: &Point) -> u64 {
    point
        .axes
        .number("size")
        .clamp(TRIAL_BYTES.0, TRIAL_BYTES.1)
}

struct Streaming {
    cpus: Vec<usize>,
    /// What the largest point of the block that fits needs in each thread.
    largest: u64,
    team: Option<Team>,
}

impl Streaming {
    fn start(launch: &Launch) -> Streaming {
        let fitting = |point: &&Point| {
            arenas::fits(arena_bytes(point).saturating_mul(point.axes.number("threads")))
        };
        // Those that do not fit are refused one by one.
        let largest = launch.points.iter().filter(fitting).map(arena_bytes).max();
        Streaming {
            cpus: launch.cpus.clone(),
            largest: largest.unwrap_or(0),
            team: None,
        }
    }
}

impl Role for Streaming {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let threads = point.axes.number("threads");
        threads::have_one_each(threads as usize, &self.cpus)?;
        let needed = arena_bytes(point);
        if needed > self.largest {
            return Err(arenas::does_not_fit(needed.saturating_mul(threads)));
        }
        let enough = |team: &Team| team.is_enough(threads, needed);
        if !self.team.as_ref().is_some_and(enough) {
            self.team = None;
            let pages = point.axes.word("pages");
            let team = Team::start(threads, &self.cpus, self.largest, needed, pages)?;
            self.team = Some(team);
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let team = self
            .team
            .as_ref()
            .expect("a prepared point has its threads");
        let operation = operation(point);
        let kernels = kernels(operation, point.axes.word("kernel"))?;
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

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let team = self
            .team
            .as_ref()
            .expect("a measured point has its threads");
        team.each(|stream| stream.check().map_err(Failure::error))
    }
}

/// Adds the throughput: what all threads move in the median time of a block.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = the_only_report(point, reports);
    let (block_bytes, _) = blocks(point);
    derived::add_throughput(
        &mut report,
        block_bytes.saturating_mul(point.axes.number("threads")),
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::point;
    use costof_model::metric::{Data, Measured};
    use costof_model::rows::State;

    #[test]
    fn large_sizes_are_streamed_in_blocks() {
        let blocks = |size| blocks(&point(&PROBE, axes("read", size)));
        assert_eq!(blocks(5000), (4096, 1));
        assert_eq!(blocks(1 << 20), (1 << 20, 1));
        assert_eq!(blocks(3 << 19), (3 << 18, 2));
        assert_eq!(blocks(128 << 20), (1 << 20, 128));
    }

    #[test]
    fn kernels_are_tried_beyond_the_caches_where_the_size_is() {
        let bytes = |size| trial_bytes(&point(&PROBE, axes("write", size)));
        assert_eq!(bytes(4 << 10), 4 << 20);
        assert_eq!(bytes(16 << 20), 16 << 20);
        assert_eq!(bytes(1 << 30), 32 << 20);
    }

    #[test]
    fn the_throughput_is_that_of_all_threads() {
        let report = Report {
            state: State::Ok,
            allocations: 0,
            metrics: vec![Measured::new(
                "cost".into(),
                Data::Samples(vec![(1, 100.0), (2, 256.0), (1, 128.0)]),
            )],
        };
        let point = point(&PROBE, axes("read", 4096).with("threads", 2));
        let report = derive(&point, vec![report]);
        let throughput = &report.metrics[1];
        assert_eq!(throughput.name, "throughput");
        assert_eq!(throughput.data, Data::Value(64e9));
    }
}
