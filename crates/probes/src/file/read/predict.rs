//! What reading a block should take.

use crate::expect::cost_ns;
use crate::file::expect;
use crate::sum::{Range, Sum};
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::prediction::{Known, Prediction};

/// To find room for a page that is read into the page cache, and to enter it there.
const ADD_PAGE_NS: Range = Range(50.0, 800.0);
/// What a request of io_uring costs beside a system call, in such calls: a request to be made, a
/// completion to be seen, work to be run.
const REQUEST_CALLS: Range = Range(0.5, 4.0);

pub(super) fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let mut sum = Sum::new();
    match point.axes.word("cache") {
        "warm" => warm(&mut sum, point, known)?,
        cache => from_the_device(&mut sum, cache, point, facts, known)?,
    }
    let Range(low, high) = sum.total();
    cost_ns(low, high, sum.in_words())
}

fn warm(sum: &mut Sum, point: &Point, known: &Known<'_>) -> Option<()> {
    let block = point.axes.number("block") as f64;
    let engine = point.axes.word("engine");
    if engine != "mmap" {
        let call_ns = expect::call(sum, known)?;
        if engine == "io_uring" {
            sum.add(REQUEST_CALLS * call_ns, "for a request of io_uring");
        }
        sum.add(expect::FIND_PAGE_NS * expect::pages(block), "to find pages");
    }
    sum.add(expect::copy(known, block)?, "to copy the block");
    Some(())
}

fn from_the_device(
    sum: &mut Sum,
    cache: &str,
    point: &Point,
    facts: &Facts,
    known: &Known<'_>,
) -> Option<()> {
    let block = point.axes.number("block") as f64;
    let depth = point.axes.number("depth") as f64;
    let is_sequential = point.axes.word("pattern") == "sequential";
    let request = expect::request(point, facts, known)?;
    // Several wait at once, for a device that may answer several at once; and the kernel waits
    // ahead of who reads in order.
    let waits = match (cache, is_sequential) {
        ("cold", true) => Range(0.0, 0.5),
        _ => Range(1.0 / depth, 1.0),
    };
    sum.add(request.range * waits, request.name);
    let bytes = match (cache, is_sequential) {
        // All of a block that is read ahead comes in a large request.
        ("cold", true) => Range(block / 8.0, block / 0.3),
        _ => expect::bytes(point, facts)?.range,
    };
    sum.add(bytes, "for the bytes, at the device's rate");
    if cache == "cold" {
        sum.add(
            ADD_PAGE_NS * expect::pages(block),
            "to add pages to the page cache",
        );
        sum.add(expect::copy(known, block)?, "to copy the block");
    }
    Some(())
}
