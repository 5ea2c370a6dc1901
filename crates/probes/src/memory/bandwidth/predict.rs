//! What bandwidth memory and caches should have.

use super::arena_bytes;
use crate::expect::{at_the_clock, throughput};
use crate::sizes;
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::prediction::{Known, Prediction};
use costof_model::unit::Unit;

pub(super) fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let inside = |level| sizes::fit_into_level(arena_bytes(point), facts, level);
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
            "fits into the {level} cache: {low} to {high} bytes a cycle{}, {}",
            if threads > 1.0 { " and thread" } else { "" },
            at_the_clock(hz)
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
