//! What reading a block should take.

use crate::copy::pieces::memcpy_ns;
use crate::expect::cost_ns;
use crate::file::axes::TEMPORARY;
use crate::file::place::medium;
use crate::sum::{Range, Sum};
use costof_model::facts::{Facts, Medium};
use costof_model::point::Point;
use costof_model::prediction::{Known, Prediction};
use costof_model::unit::Unit;

const PAGE_BYTES: f64 = 4096.0;
/// To find a page of the page cache and to take it, of a large folio and of one alone.
const FIND_PAGE_NS: Range = Range(20.0, 150.0);
/// To find room for a page that is read into the page cache, and to enter it there.
const ADD_PAGE_NS: Range = Range(100.0, 800.0);
/// What a request of io_uring costs beside a system call: a request to be made, a completion to be
/// seen, work to be run.
const REQUEST_CALLS: Range = Range(0.5, 4.0);
/// How much slower a system call is than its fast case that does more than the smallest one.
const CALLS: Range = Range(0.8, 2.5);
/// Whatever else asks a device for a page, by what a fault that reads one takes.
const OF_A_FAULT: Range = Range(0.5, 1.4);

pub(super) fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let mut sum = Sum::new();
    let block = point.axes.number("block") as f64;
    match point.axes.word("cache") {
        "warm" => warm(&mut sum, point, known)?,
        cache => {
            let is_random = point.axes.word("pattern") != "sequential";
            let (first, rest) = device(point, facts, known)?;
            let depth = point.axes.number("depth") as f64;
            // Reads ahead of a sequential reader wait for the device instead of it.
            let waits = match (cache, is_random) {
                ("cold", false) => Range(0.0, 1.0),
                _ => Range(1.0 / depth, 1.0),
            };
            sum.add(first.range * waits, first.name);
            sum.add(rest.range, rest.name);
            if cache == "cold" {
                let pages = (block / PAGE_BYTES).max(1.0);
                sum.add(ADD_PAGE_NS * pages, "to add pages to the page cache");
                sum.add(copy(known, block)?, "to copy the block");
            }
        }
    }
    let Range(low, high) = sum.total();
    cost_ns(low, high, sum.in_words())
}

fn warm(sum: &mut Sum, point: &Point, known: &Known<'_>) -> Option<()> {
    let block = point.axes.number("block") as f64;
    let call_ns = known.primary("os.syscall", &[("call", "read")])?;
    let a_call = format!("of a system call of {}", Unit::Nanoseconds.display(call_ns));
    match point.axes.word("engine") {
        "mmap" => {}
        "io_uring" => {
            sum.add(
                (CALLS + REQUEST_CALLS) * call_ns,
                format!("{a_call}, and a request"),
            );
        }
        _ => sum.add(CALLS * call_ns, a_call),
    }
    if point.axes.word("engine") != "mmap" {
        let pages = (block / PAGE_BYTES).max(1.0);
        sum.add(FIND_PAGE_NS * pages, "to find pages");
    }
    sum.add(copy(known, block)?, "to copy the block");
    Some(())
}

/// From a cached source, or from one that is in memory, with a TLB miss or a few.
fn copy(known: &Known<'_>, block: f64) -> Option<Range> {
    let hot = memcpy_ns(known, block, "hot")?;
    let cold = memcpy_ns(known, block, "cold").unwrap_or(4.0 * hot);
    Some(Range(hot.min(cold), 2.0 * cold.max(hot) + 100.0))
}

struct Term {
    range: Range,
    name: String,
}

/// What the device takes to begin, and for the bytes.
fn device(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<(Term, Term)> {
    let block = point.axes.number("block") as f64;
    let medium = medium(point, facts);
    let is_random = point.axes.word("pattern") != "sequential";
    // Microseconds to begin, and bytes a nanosecond.
    let (begin, rate, name) = match medium {
        Medium::Rotational if is_random => (
            Range(3e6, 20e6),
            (0.3, 0.08),
            "for a seek and half a turn of a disk",
        ),
        Medium::Rotational => (Range(20e3, 500e3), (0.3, 0.08), "for a request to a disk"),
        Medium::Flash => (Range(8e3, 200e3), (8.0, 0.3), "for a request to flash"),
        Medium::Virtual => (
            Range(15e3, 400e3),
            (8.0, 0.3),
            "for a request to a virtual disk",
        ),
        Medium::Memory | Medium::Unknown => return None,
    };
    // The same device, where both files lie in the temporary folder, has answered already.
    let is_same = point.axes.word("dir") == TEMPORARY;
    let fault = known.primary("os.page_fault", &[("kind", "major")]);
    let first = match fault.filter(|_| is_same) {
        Some(ns) => Term {
            range: OF_A_FAULT * ns,
            name: format!(
                "for a request, by a page fault that read 4 KiB in {}",
                Unit::Nanoseconds.display(ns)
            ),
        },
        None => Term {
            range: begin,
            name: name.to_owned(),
        },
    };
    let more = (block - PAGE_BYTES).max(0.0);
    let rest = Term {
        range: Range(more / rate.0, more / rate.1),
        name: format!("for the bytes at {} to {} GB/s", rate.1, rate.0),
    };
    Some((first, rest))
}
