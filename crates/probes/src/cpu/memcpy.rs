//! `cpu.memcpy`: what copying memory costs.

use crate::expect::{at_the_clock, cost_ns};
use crate::literal::{cost, list, text, word, words};
use crate::{arenas, sizes};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Unit, display_bytes};
use costof_os::arena::Arena;
use costof_os::copies::{self, Walk};
use costof_os::message::{FIELDS, Message};
use fastrand::Rng;
use std::sync::LazyLock;

const LINE_BYTES: u64 = 64;
/// Where the destination begins in its memory. Both memories begin at a huge page, and a load that
/// equals an unfinished store in its last 12 bits waits for it on some processors: copies of up to
/// 1 KiB from the same place would load just those.
const DESTINATION_AT: u64 = 1024 + LINE_BYTES;
/// What an allocator adds to a field, at most, and the message's own list of them.
const FIELD_OVERHEAD_BYTES: u64 = 48;

/// The sizes, the default first.
const SIZES: &[u64] = &[
    1 << 10,
    64,
    256,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("cpu.memcpy"),
        method: 1,
        question: text("What does copying memory cost, by how much and from where?"),
        axes: list![
            Axis {
                name: text("size"),
                about: text("the bytes that are copied at once"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 1 << 30,
                    usual: costof_model::List::Borrowed(SIZES),
                },
            },
            words(
                "source",
                "where the bytes are before; the destination is always the same, hence cached",
                list![
                    word(
                        "hot",
                        "always the same place, in the caches if it fits there"
                    ),
                    word(
                        "cold",
                        "each time another place of a working set, when all others have been copied since"
                    ),
                ],
            ),
            words(
                "align",
                "which of the two begins at a cache line; the other begins one byte behind one",
                list![
                    word("both", "source and destination"),
                    word("source", "the source alone"),
                    word("destination", "the destination alone"),
                    word("neither", "neither"),
                ],
            ),
            words(
                "shape",
                "what is copied",
                list![
                    word("one", "one piece"),
                    word(
                        "message",
                        "a message of 8 separately allocated fields, equal shares and the rest in the last, into one buffer: its serialisation"
                    ),
                ],
            ),
            Axis {
                name: text("working_set"),
                about: text("from how much memory cold sources come"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1 << 20,
                    high: 1 << 40,
                    usual: list![128 << 20],
                },
            },
        ],
        crossings: list![list![text("source"), text("shape")]],
        metrics: list![cost("one copy, or one message")],
        how: text(
            "The C library's memcpy, with a length that the compiler does not know. Copies do not \
             wait for each other, so the cost of short ones is what they add, not how long one \
             takes. A hot source is one buffer that is copied over and over. Cold sources are all \
             places of a working set in memory, in an order in which neighbours are far apart, so \
             that no cache and no prefetcher has them; with short ones, TLB misses of 4 KiB pages \
             are in the cost. A cold message's list of fields is cold too, and its fields were \
             allocated in turn with those of all others, so that they lie far apart. The \
             destination is one buffer, which begins 1,088 bytes further in its page than the hot \
             source does, so that of copies up to 1 KiB no load has the last 12 address bits of a \
             store just before it. Every source has other bytes, and the destination must hold those of the last.",
        ),
        sources: list![
            text(
                "ISO/IEC 9899:2018, 7.24.2.1 (memcpy); glibc sysdeps/x86_64/multiarch/memmove-vec-unaligned-erms.S"
            ),
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, bw_mem bcopy"
            ),
            text(
                "Network I/O primitives, three course reports, 2026: a message of 8 fields, of which one hot buffer is sent again and again"
            ),
        ],
        predicted_from: text(
            "usual bytes a cycle for the claimed cache that holds source and destination, at the core clock that cpu.frequency measured; for cold sources the latency that memory.latency measured in the cache that holds the working set; where none does, the read that memory.bandwidth and the latency that memory.latency measured for main memory",
        ),
        after: list![
            text("cpu.frequency"),
            text("memory.latency"),
            text("memory.bandwidth")
        ],
        needs: list![text(
            "for cold sources, as much free memory as the working set"
        )],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &["source", "shape", "working_set"],
    least_ns: |_| 0.0,
    memory_bytes,
    processors: |_| 1,
    headlines,
    more_points: |facts| Planned::anywhere(more_points(facts)),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Copying::start(launch)))],
    derive: the_only_report,
};

fn cold(facts: &Facts, size: u64) -> Axes {
    let axes = PROBE.info.defaults().with("source", "cold");
    axes.with("size", size)
        .with("working_set", sizes::beyond(facts))
}

fn headlines(facts: &Facts) -> Vec<Headline> {
    let default = PROBE.info.defaults();
    let message = default.clone().with("shape", "message");
    vec![
        Headline::new("memcpy: 1 KiB, cached", default.with("size", 1 << 10)),
        Headline::new("memcpy: 64 KiB, source not cached", cold(facts, 64 << 10)),
        Headline::new(
            "serialisation: 8 fields, 4 KiB together",
            message.with("size", 4 << 10),
        ),
    ]
}

/// Each size from a working set that is beyond this machine's caches.
fn more_points(facts: &Facts) -> Vec<Axes> {
    SIZES.iter().map(|size| cold(facts, *size)).collect()
}

/// How far sources are apart in the working set: whole cache lines, and one
/// more where they begin behind one.
fn apart(point: &Point) -> u64 {
    point.axes.number("size").next_multiple_of(LINE_BYTES) + LINE_BYTES
}

/// From how many places is copied.
fn places(point: &Point) -> u64 {
    let bytes = match point.axes.word("shape") {
        "message" => point.axes.number("size"),
        _ => apart(point),
    };
    match point.axes.word("source") {
        "cold" => point.axes.number("working_set") / bytes,
        _ => 1,
    }
}

fn memory_bytes(point: &Point) -> u64 {
    let size = point.axes.number("size");
    let place = match point.axes.word("shape") {
        "message" => size + FIELDS as u64 * FIELD_OVERHEAD_BYTES,
        _ => apart(point),
    };
    DESTINATION_AT + size + places(point).saturating_mul(place)
}

/// Where the source and the destination begin: one byte behind a cache line, or at one.
fn offsets(point: &Point) -> (usize, usize) {
    let to = DESTINATION_AT as usize;
    match point.axes.word("align") {
        "source" => (0, to + 1),
        "destination" => (1, to),
        "neither" => (1, to + 1),
        _ => (0, to),
    }
}

struct Copying {
    random: Rng,
    prepared: Option<Prepared>,
}

/// What the copies of a point are made of.
struct Prepared {
    sources: Sources,
    walk: Walk,
    destination: Arena,
}

enum Sources {
    Pieces(Arena),
    Messages(Vec<Message>),
}

impl Copying {
    fn start(launch: &Launch) -> Copying {
        Copying {
            random: Rng::with_seed(launch.seed),
            prepared: None,
        }
    }
}

impl Role for Copying {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        // What an earlier point has used is given back first.
        self.prepared = None;
        let size = point.axes.number("size");
        let places = places(point);
        if places == 0 {
            return Err(Failure::unsupported(format!(
                "{} do not fit into a working set of {} (--set working_set=… makes it larger)",
                display_bytes(size),
                display_bytes(point.axes.number("working_set"))
            )));
        }
        let needed = memory_bytes(point);
        if !arenas::fits(needed) {
            return Err(arenas::does_not_fit(needed));
        }
        let sources = if point.axes.word("shape") == "message" {
            if point.axes.word("align") != "both" {
                return Err(Failure::unsupported(
                    "a message's fields begin where the allocator puts them (leave align out)",
                ));
            }
            let random = &mut self.random;
            let shuffle = &mut |order: &mut [usize]| random.shuffle(order);
            let mut messages = Message::many(places as usize, size as usize, shuffle);
            for message in &mut messages {
                message.fill(&mut |field| random.fill(field));
            }
            Sources::Messages(messages)
        } else {
            let mut arena = arenas::in_memory(places * apart(point), "4KiB")?;
            let all = 0..arena.len();
            arena.number_words(all);
            Sources::Pieces(arena)
        };
        self.prepared = Some(Prepared {
            sources,
            walk: Walk::new(places as usize),
            destination: arenas::in_memory(DESTINATION_AT + size + 1, "4KiB")?,
        });
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Prepared {
            sources,
            walk,
            destination,
        } = self.prepared.as_mut().expect("a point is prepared");
        let size = point.axes.number("size") as usize;
        let (from, to) = offsets(point);
        let to = &mut destination.as_mut_slice()[to..][..size];
        match sources {
            Sources::Pieces(arena) => {
                let from = &arena.as_slice()[from..];
                let apart = apart(point) as usize;
                meter.repeatable("cost", |n| copies::copy(from, apart, walk, to, n));
            }
            Sources::Messages(messages) => {
                meter.repeatable("cost", |n| copies::serialise(messages, walk, to, n));
            }
        }
        Ok(())
    }

    fn finish(&mut self, point: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let prepared = self.prepared.as_ref().expect("a point is measured");
        let size = point.axes.number("size") as usize;
        let (from, to) = offsets(point);
        let copied = &prepared.destination.as_slice()[to..][..size];
        let place = prepared.walk.at();
        let same = match &prepared.sources {
            Sources::Pieces(arena) => {
                let place = from + place * apart(point) as usize;
                copied == &arena.as_slice()[place..][..size]
            }
            Sources::Messages(messages) => copied == messages[place].fields().concat(),
        };
        if !same {
            return Err(Failure::error("the copy is not what was copied"));
        }
        Ok(())
    }
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let hz = known.primary("cpu.frequency", &[])?;
    let size = point.axes.number("size");
    let pieces = match point.axes.word("shape") {
        "message" => FIELDS as f64,
        _ => 1.0,
    };
    let bytes = size as f64;
    let beyond = sizes::beyond(facts).to_string();
    let memory = |op| {
        let axes = [("op", op), ("size", &*beyond), ("threads", "1")];
        known.primary("memory.bandwidth", &axes)
    };
    let Some(level) = level_of(2 * size, facts) else {
        // Neither source nor destination stays in a cache.
        let copy = memory("copy")?;
        let copy_ns = bytes / copy * 1e9;
        return cost_ns(
            0.7 * copy_ns,
            2.0 * copy_ns,
            format!(
                "main memory: 0.7 to 2 times the {} that copying as much takes at the {} that \
                 memory.bandwidth measured",
                Unit::Nanoseconds.display(copy_ns),
                Unit::BytesPerSecond.display(copy)
            ),
        );
    };
    let (fast, slow, level) = RATES[level as usize - 1];
    // One that begins behind a cache line touches two with every other vector.
    let aligned = point.axes.word("align") == "both";
    let slow = if aligned { slow } else { slow / 2.0 };
    let ns = 1e9 / hz;
    let calls = (5.0 * pieces * ns, 25.0 * pieces * ns);
    let called = format!(
        "{pieces} {} of 5 to 25 cycles {}",
        if pieces > 1.0 { "calls" } else { "call" },
        at_the_clock(hz)
    );
    if point.axes.word("source") == "hot" {
        return cost_ns(
            calls.0 + bytes / fast * ns,
            calls.1 + bytes / slow * ns,
            format!("{called}, and {slow} to {fast} bytes a cycle from {level}"),
        );
    }
    let latency = |size: u64| {
        let size = size.to_string();
        let axes = [("size", &*size), ("pattern", "random"), ("stride", "64")];
        known.primary("memory.latency", &axes)
    };
    // A working set that a cache holds comes from there, however cold it is called.
    if let Some(level) = level_of(memory_bytes(point), facts) {
        let (fast, slow, words) = RATES[level as usize - 1];
        let slow = if aligned { slow } else { slow / 2.0 };
        let latency_ns = latency(sizes::inside(facts, level)?)?;
        return cost_ns(
            calls.0 + bytes / fast * ns,
            calls.1 + bytes / slow * ns + pieces * latency_ns,
            format!(
                "{called}; the working set fits into {words}: {slow} to {fast} bytes a cycle, and \
                 {pieces} times none to all of the {} that memory.latency measured there",
                Unit::Nanoseconds.display(latency_ns)
            ),
        );
    }
    let read = memory("read")?;
    let latency_ns = latency(sizes::beyond(facts))?;
    let read_ns = bytes / read * 1e9;
    cost_ns(
        calls.0 + read_ns + pieces * latency_ns / 10.0,
        calls.1 + 2.0 * read_ns + pieces * latency_ns,
        format!(
            "{called}, once or twice the {} that reading as much takes at the {} that \
             memory.bandwidth measured, and {pieces} times a tenth to all of the {} that \
             memory.latency measured, as copies overlap",
            Unit::Nanoseconds.display(read_ns),
            Unit::BytesPerSecond.display(read),
            Unit::Nanoseconds.display(latency_ns)
        ),
    )
}

/// How many bytes are copied in a cycle, at most and at least, in each cache level.
const RATES: [(f64, f64, &str); 3] = [
    (64.0, 16.0, "the L1 cache"),
    (32.0, 8.0, "the L2 cache"),
    (20.0, 4.0, "the claimed L3 cache"),
];

/// The first cache level into which so many bytes fit; none where none is so large.
fn level_of(bytes: u64, facts: &Facts) -> Option<u32> {
    (1..=3).find(|level| sizes::fit_into_level(bytes, facts, *level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;

    fn point(axes: Axes) -> Point {
        literal::point(&PROBE, axes)
    }

    #[test]
    fn cold_sources_fill_the_working_set_and_no_more() {
        let axes = PROBE.info.defaults().with("working_set", 1 << 20);
        assert_eq!(places(&point(axes.clone().with("size", 4096))), 1);
        let cold = axes.with("source", "cold");
        let piece = point(cold.clone().with("size", 4095).with("align", "source"));
        let (from, _) = offsets(&piece);
        let end = (places(&piece) - 1) * apart(&piece) + from as u64 + 4095;
        assert!(end <= 1 << 20 && end + apart(&piece) > 1 << 20);
        let message = point(cold.clone().with("size", 4096).with("shape", "message"));
        assert_eq!(places(&message), 256);
        assert_eq!(places(&point(cold.with("size", 2 << 20))), 0);
    }

    #[test]
    fn cold_sources_come_from_the_cache_that_holds_the_working_set() {
        use crate::literal::measured;
        use crate::{cpu::frequency, memory::bandwidth, memory::latency};
        use costof_model::facts::{Cache, CacheKind};
        let cache = |level, size_bytes| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes,
            ..Cache::default()
        };
        let mut facts = Facts::default();
        facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
        let load = |size, ns| {
            let axes = latency::PROBE.info.defaults().with("size", size);
            measured(&latency::PROBE, axes, ns)
        };
        let read = bandwidth::PROBE.info.defaults().with("op", "read");
        let known = [
            measured(&frequency::PROBE, frequency::PROBE.info.defaults(), 1e9),
            load(sizes::inside(&facts, 3).unwrap(), 12.0),
            load(128 << 20, 100.0),
            measured(&bandwidth::PROBE, read.with("size", 128 << 20), 1e9),
        ];
        let predicted = |working_set| {
            let axes = PROBE
                .info
                .defaults()
                .with("source", "cold")
                .with("size", 1000);
            let point = point(axes.with("working_set", working_set));
            let prediction = predict(&point, &facts, &Known(&known)).unwrap();
            (prediction.low.round(), prediction.high.round())
        };
        // A call of 5 to 25 cycles, and 20 to 4 bytes a cycle of 1 ns.
        assert_eq!(predicted(8 << 20), (5.0 + 50.0, 25.0 + 250.0 + 12.0));
        assert_eq!(
            predicted(128 << 20),
            (5.0 + 1000.0 + 10.0, 25.0 + 2000.0 + 100.0)
        );
    }
}
