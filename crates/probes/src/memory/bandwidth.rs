//! `memory.bandwidth`: how many bytes a second are read, written or copied in order.

use crate::literal::{cost, list, metric, text, word, words};
use crate::memory::sizes;
use costof_measure::crew::{Crew, Job};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_measure::statistics::quantile::median;
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::{Data, Measured};
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::streams::{GRAIN_BYTES, Instructions, Kernel, Operation, Stream};
use std::sync::{Arc, Mutex, PoisonError};

/// Larger sizes are streamed in blocks of at most this many bytes, so that a
/// batch need not go through all of the memory.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// How much a kernel streams in each trial, in each thread, at least.
const TRIAL_BYTES: u64 = 4 << 20;
/// How often each kernel is tried.
const TRIALS: usize = 3;

pub(crate) static PROBE: Probe = Probe {
    info: ProbeInfo {
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
            Axis {
                name: text("threads"),
                about: text(
                    "how many do it at the same time, each on a processor and in memory of its own"
                ),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 1,
                    high: 1024,
                    usual: list![1, 2],
                },
            },
            words(
                "pages",
                "the pages under it",
                list![
                    word("4KiB", "the smallest pages, as in most programs"),
                    word(
                        "2MiB",
                        "transparent huge pages, which prefetchers need not stop at so often"
                    ),
                ],
            ),
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
                Unit::One,
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
             that may be used is tried three times for at least 4 MiB, and the fastest is measured: \
             vector_bytes and nontemporal say which kind it was, the axis kernel chooses one. All \
             that is read is added up, and the sum checked; what is written or copied is checked \
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
            "the cache sizes that the processor claims and usual bytes a cycle for each level at the core clock that cpu.frequency measured; for main memory the lines that a core keeps in flight and the latency that memory.latency measured, at most what the memory modules can by the firmware's word",
        ),
        after: list![text("cpu.frequency"), text("memory.latency")],
        needs: list![text(
            "as much free memory as the size, for each thread, and twice that for a copy; for 2MiB, transparent huge pages not set to never"
        )],
        roles: list![text("only")],
    },
    rounds: 1,
    blocks_by: &["pages", "threads"],
    memory_bytes: |point| arena_bytes(point).saturating_mul(point.axes.number("threads")),
    processors: |point| point.axes.number("threads") as usize,
    headlines,
    more_points,
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
        Headline::new("read 1 MiB sequentially, cached", axes("read", 1 << 20)),
        Headline::new("main memory read", axes("read", beyond)),
        Headline::new("main memory write", axes("write", beyond)),
        Headline::new("main memory copy", axes("copy", beyond)),
    ]
}

/// Each cache that the processor claims, more threads up to its processors, and
/// the kernels of writing and copying that it has.
fn more_points(facts: &Facts) -> Vec<Axes> {
    let caches = (1..=3).filter_map(|level| Some(axes("read", sizes::inside(facts, level)?)));
    let default = PROBE.info.defaults();
    let processors = facts.usable_cpus().len() as u64;
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
    ]
    .into_iter()
    .chain([("copy", "nontemporal")])
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

struct Streaming {
    cpus: Vec<usize>,
    /// What the largest point of the block that fits needs in each thread.
    largest: u64,
    /// One for each thread.
    streams: Vec<Arc<Mutex<Stream>>>,
}

impl Streaming {
    fn start(launch: &Launch) -> Streaming {
        let fitting = |point: &&Point| {
            sizes::fits(arena_bytes(point).saturating_mul(point.axes.number("threads")))
        };
        Streaming {
            cpus: launch.cpus.clone(),
            // Those that do not fit are refused one by one.
            largest: launch
                .points
                .iter()
                .filter(fitting)
                .map(arena_bytes)
                .max()
                .unwrap_or(0),
            streams: Vec::new(),
        }
    }

    /// Every thread's stream, each worked on where it will be measured.
    fn each(
        &self,
        work: impl Fn(&mut Stream) -> Result<(), Failure> + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        let failed = Arc::new(Mutex::new(None));
        let failing = Arc::clone(&failed);
        let mut crew = self.crew(move |stream, _| {
            if let Err(failure) = work(stream) {
                *failing.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
        })?;
        crew.run(1);
        let failure = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    /// A crew of which each member works on its own stream.
    fn crew(
        &self,
        work: impl Fn(&mut Stream, u64) + Clone + Send + 'static,
    ) -> Result<Crew, Failure> {
        let jobs = self.streams.iter().map(|stream| {
            let (stream, work) = (Arc::clone(stream), work.clone());
            // Only between batches does anybody else hold it, so nobody waits here.
            let job = move |n| {
                let mut stream = stream.try_lock().expect("a stream is its thread's alone");
                work(&mut stream, n);
            };
            Box::new(job) as Job
        });
        Crew::start(jobs.collect(), &self.cpus)
    }

    /// Lets every thread use this kernel from now on.
    fn take(&self, kernel: &'static Kernel) {
        for stream in &self.streams {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.take(kernel);
        }
    }
}

impl Role for Streaming {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let threads = point.axes.number("threads");
        let processors = match self.cpus.len() as u64 {
            // The kernel places them.
            0 => std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            some => some,
        };
        if threads > processors {
            return Err(Failure::unsupported(format!(
                "{threads} threads at the same time need as many processors, and there are \
                 {processors} (--cpu chooses them)"
            )));
        }
        let needed = arena_bytes(point);
        if needed > self.largest {
            return Err(sizes::does_not_fit(needed.saturating_mul(threads)));
        }
        let pages = point.axes.word("pages");
        let enough = |stream: &Arc<Mutex<Stream>>| {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.arena().len() as u64 >= needed
        };
        if self.streams.len() as u64 != threads || !self.streams.iter().all(enough) {
            self.streams.clear();
            for _ in 0..threads {
                // Where the largest is refused (ulimit -v), a smaller point may still fit.
                let arena = sizes::map(self.largest, pages).or_else(|_| sizes::map(needed, pages));
                self.streams.push(Arc::new(Mutex::new(Stream::new(arena?))));
            }
            let pages = pages.to_owned();
            self.each(move |stream| {
                stream
                    .populate()
                    .map_err(|error| sizes::failed("touch", needed, &pages, &error))?;
                sizes::check_pages(stream.arena(), &pages)
            })?;
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let operation = operation(point);
        let kernels = kernels(operation, point.axes.word("kernel"))?;
        let (block_bytes, blocks) = blocks(point);
        self.each(move |stream| {
            stream
                .aim(operation, block_bytes as usize, blocks as usize)
                .map_err(|error| Failure::error(error.to_string()))
        })?;
        let mut crew = self.crew(Stream::run)?;
        let best = self.fastest(
            &kernels,
            &mut crew,
            TRIAL_BYTES.div_ceil(block_bytes),
            meter,
        );
        self.take(best);
        meter.repeatable("cost", |n| crew.run(n));
        meter.value("vector_bytes", f64::from(best.vector_bytes));
        meter.value("nontemporal", f64::from(u8::from(best.nontemporal)));
        Ok(())
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        self.each(|stream| stream.check().map_err(Failure::error))
    }
}

impl Streaming {
    /// The kernel that streams `n` blocks in the least time.
    fn fastest(
        &self,
        kernels: &[&'static Kernel],
        crew: &mut Crew,
        n: u64,
        meter: &Meter<'_>,
    ) -> &'static Kernel {
        let clock = meter.clock();
        let mut best = (u64::MAX, kernels[0]);
        for _ in 0..TRIALS {
            for kernel in kernels {
                self.take(kernel);
                // The first time the caches still hold what the kernel before left there.
                crew.run(n);
                let start = clock.start();
                crew.run(n);
                let ticks = clock.end().saturating_sub(start);
                if ticks < best.0 {
                    best = (ticks, kernel);
                }
            }
        }
        best.1
    }
}

/// The kernels that a word of the axis names, of those that can run here.
fn kernels(operation: Operation, word: &str) -> Result<Vec<&'static Kernel>, Failure> {
    let named = |kernel: &&Kernel| match word {
        "best" => true,
        "nontemporal" => operation == Operation::Copy && kernel.nontemporal,
        // A copy past the caches has a word of its own.
        _ => {
            instructions(word) == Some(kernel.instructions)
                && !(operation == Operation::Copy && kernel.nontemporal)
        }
    };
    let kernels: Vec<&Kernel> = Kernel::all(operation).filter(named).collect();
    if !kernels.is_empty() {
        return Ok(kernels);
    }
    let absent = instructions(word).is_some_and(|instructions| !instructions.available());
    Err(Failure::unsupported(if absent {
        format!("this processor does not have {word}")
    } else {
        format!("there is no {word} kernel for this op (--set op=… chooses another)")
    }))
}

fn instructions(word: &str) -> Option<Instructions> {
    Some(match word {
        "sse2" => Instructions::Sse2,
        "avx2" => Instructions::Avx2,
        "avx512" => Instructions::Avx512,
        "rep" => Instructions::Rep,
        "neon" => Instructions::Neon,
        _ => return None,
    })
}

/// Adds the throughput: what all threads move in the median time of a block.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let [mut report] = <[Report; 1]>::try_from(reports).expect("one role");
    let cost = report.metrics.iter().find(|metric| metric.name == "cost");
    if let Some(ns) = cost.and_then(|cost| median(&cost.data.costs())) {
        let (block_bytes, _) = blocks(point);
        let bytes = block_bytes.saturating_mul(point.axes.number("threads"));
        report.metrics.push(Measured {
            name: "throughput".into(),
            data: Data::Value(bytes as f64 / ns * 1e9),
            disturbed: Vec::new(),
        });
    }
    report
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let bytes = arena_bytes(point) as f64;
    let inside = |level| {
        let claimed = facts.claimed_cache(level);
        claimed.is_some_and(|cache| bytes <= 0.75 * cache.size_bytes as f64)
    };
    // Bytes a cycle: loads of 16 to 64 bytes, two of them a cycle, and one store.
    match point.axes.word("op") {
        "write_nontemporal" => main_memory(point, facts, known),
        "read" if inside(1) => cached(point, known, "L1", (32.0, 128.0)),
        _ if inside(1) => cached(point, known, "L1", (16.0, 64.0)),
        "read" if inside(2) => cached(point, known, "L2", (16.0, 64.0)),
        _ if inside(2) => cached(point, known, "L2", (8.0, 32.0)),
        "read" if inside(3) => cached(point, known, "claimed L3", (8.0, 32.0)),
        _ if inside(3) => cached(point, known, "claimed L3", (4.0, 20.0)),
        _ => main_memory(point, facts, known),
    }
}

/// From a cache, of which each thread has one, or a share that is as good.
fn cached(
    point: &Point,
    known: &Known<'_>,
    level: &str,
    (low, high): (f64, f64),
) -> Option<Prediction> {
    let hz = known.primary("cpu.frequency", &[])?;
    let threads = point.axes.number("threads") as f64;
    throughput(
        low * hz * threads,
        high * hz * threads,
        format!(
            "fits into the {level} cache: {low} to {high} bytes a cycle{}, at the {} that \
             cpu.frequency measured",
            if threads > 1.0 { " and thread" } else { "" },
            Unit::Hertz.display(hz)
        ),
    )
}

/// From or to main memory: what one core has under way, and what the modules can.
fn main_memory(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (part, why) = match point.axes.word("op") {
        "write" => (1.0, "; a line is read first, or a rep avoids it"),
        "write_nontemporal" => (1.5, "; and half as many again, as no line is read first"),
        "copy" => (0.5, "; a copy reads and writes"),
        _ => (1.0, ""),
    };
    let latency_ns = known.primary(
        "memory.latency",
        &[
            ("size", &sizes::beyond(facts).to_string()),
            ("pattern", "random"),
            ("stride", "64"),
        ],
    );
    let (low, high, because) = match latency_ns {
        Some(ns) => (
            16.0 * 64.0 / ns * 1e9,
            64.0 * 64.0 / ns * 1e9,
            format!(
                "a core and its prefetchers have 16 to 64 lines of 64 B under way, each for the \
                 {} that memory.latency measured{why}",
                Unit::Nanoseconds.display(ns)
            ),
        ),
        None => (
            8e9,
            60e9,
            format!("a core moves 8 to 60 GB/s from main memory{why}"),
        ),
    };
    let threads = point.axes.number("threads") as f64;
    let (low, high) = (part * low, part * high * threads);
    match modules(facts) {
        Some(limit) => throughput(
            low.min(0.3 * limit),
            high.min(limit),
            format!(
                "{because}; at most the {} of the memory modules",
                Unit::BytesPerSecond.display(limit)
            ),
        ),
        None => throughput(low, high, because),
    }
}

/// What the memory modules can by the firmware's word: transfers a second, by
/// their width, on every channel.
fn modules(facts: &Facts) -> Option<f64> {
    let memory = &facts.memory;
    let per_channel = memory.dimms.iter().filter_map(|dimm| {
        let transfers = dimm
            .configured_transfers_per_s
            .or(dimm.speed_transfers_per_s)?;
        Some(transfers as f64 * f64::from(dimm.width_bits.unwrap_or(64)) / 8.0)
    });
    let slowest = per_channel.min_by(f64::total_cmp)?;
    Some(slowest * f64::from(memory.channel_count?))
}

fn throughput(low: f64, high: f64, because: String) -> Option<Prediction> {
    Some(Prediction {
        metric: "throughput".into(),
        low,
        high,
        because,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::rows::State;

    fn point(axes: Axes) -> Point {
        Point {
            probe: PROBE.info.id.clone(),
            axes,
            link: "none".into(),
        }
    }

    #[test]
    fn large_sizes_are_streamed_in_blocks() {
        let blocks = |size| blocks(&point(axes("read", size)));
        assert_eq!(blocks(5000), (4096, 1));
        assert_eq!(blocks(1 << 20), (1 << 20, 1));
        assert_eq!(blocks(3 << 19), (3 << 18, 2));
        assert_eq!(blocks(128 << 20), (1 << 20, 128));
    }

    #[test]
    fn the_throughput_is_that_of_all_threads() {
        let report = Report {
            state: State::Ok,
            metrics: vec![Measured {
                name: "cost".into(),
                data: Data::Samples(vec![(1, 100.0), (2, 256.0), (1, 128.0)]),
                disturbed: Vec::new(),
            }],
        };
        let point = point(axes("read", 4096).with("threads", 2));
        let report = derive(&point, vec![report]);
        let throughput = &report.metrics[1];
        assert_eq!(throughput.name, "throughput");
        assert_eq!(throughput.data, Data::Value(64e9));
    }

    #[test]
    fn a_kernel_is_what_its_word_says_or_absent_with_the_reason() {
        let best = kernels(Operation::Copy, "best").expect("every processor copies");
        assert!(best.iter().any(|kernel| kernel.nontemporal));
        let past = kernels(Operation::Copy, "nontemporal").expect("every processor has it");
        assert!(past.iter().all(|kernel| kernel.nontemporal));
        let refused = |operation, word| kernels(operation, word).expect_err("no such kernel");
        assert!(
            refused(Operation::Read, "nontemporal")
                .reason
                .contains("nontemporal")
        );
        let foreign = if cfg!(target_arch = "x86_64") {
            "neon"
        } else {
            "sse2"
        };
        let reason = refused(Operation::Read, foreign).reason;
        assert!(reason.contains("this processor does not have"), "{reason}");
    }
}
