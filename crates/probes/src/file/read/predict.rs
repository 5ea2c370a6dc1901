//! What reading a block should take.

use super::{Cache, Engine, Pattern, Read};
use crate::file::expect;
use crate::prelude::*;
use crate::sum::{Range, Sum};

/// To find room for a page that is read into the page cache, and to enter it there.
const ADD_PAGE_NS: Range = Range(50.0, 800.0);
/// What a request of io_uring costs beside a system call, in such calls: a request to be made, a
/// completion to be seen, work to be run.
const REQUEST_CALLS: Range = Range(0.5, 4.0);

pub(super) fn predict(point: &Read, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let mut sum = Sum::new();
    match point.cache {
        Cache::Warm => warm(&mut sum, point, known)?,
        Cache::Cold | Cache::Direct => from_the_device(&mut sum, point, facts, known)?,
    }
    let Range(low, high) = sum.total();
    cost_ns(low, high, sum.in_words())
}

fn warm(sum: &mut Sum, point: &Read, known: &Known<'_>) -> Option<()> {
    let block = point.block as f64;
    if point.engine != Engine::Mmap {
        let call_ns = expect::call(sum, known)?;
        if point.engine == Engine::IoUring {
            sum.add(REQUEST_CALLS * call_ns, "for a request of io_uring");
        }
        sum.add(expect::FIND_PAGE_NS * expect::pages(block), "to find pages");
    }
    sum.add(expect::copy(known, block)?, "to copy the block");
    Some(())
}

fn from_the_device(sum: &mut Sum, point: &Read, facts: &Facts, known: &Known<'_>) -> Option<()> {
    let block = point.block as f64;
    let depth = point.depth as f64;
    let blocks = expect::Blocks {
        dir: &point.dir,
        block: point.block,
        jump: point.pattern.jumps(),
        by_read: true,
    };
    // The kernel reads ahead.
    let is_ahead = point.cache == Cache::Cold && point.pattern == Pattern::Sequential;
    let request = expect::request(&blocks, facts, known)?;
    // Several wait at once, for a device that may answer several at once; and the kernel waits
    // ahead of who reads in order.
    let waits = if is_ahead {
        Range(0.0, 0.5)
    } else {
        Range(1.0 / depth, 1.0)
    };
    sum.add(request.range * waits, request.name);
    let bytes = if is_ahead {
        // All of a block that is read ahead comes in a large request.
        Range(block / 8.0, block / 0.3)
    } else {
        expect::bytes(&blocks, facts)?.range
    };
    sum.add(bytes, "for the bytes, at the device's rate");
    if point.cache == Cache::Cold {
        sum.add(
            ADD_PAGE_NS * expect::pages(block),
            "to add pages to the page cache",
        );
        sum.add(expect::copy(known, block)?, "to copy the block");
    }
    Some(())
}
