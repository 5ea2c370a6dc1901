//! What reading a block should cost.

use super::{Cache, Engine, Pattern, Read};
use crate::file::expect;
use crate::prelude::*;

/// Finding room for a page that is read into the page cache, and entering it there.
const ADD_PAGE_NS: Range = Range(50.0, 800.0);
/// A request of io_uring beyond a system call, in such calls: making the request, seeing its
/// completion, running its work.
const REQUEST_CALLS: Range = Range(0.5, 4.0);

pub(super) fn predict(
    point: &Read,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let cost = match point.cache {
        Cache::Warm => warm(point, measured),
        Cache::Cold | Cache::Direct => from_the_device(point, facts, measured),
    };
    cost?.predict("cost")
}

fn warm(point: &Read, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let block = point.block as f64;
    match point.engine {
        Engine::Mmap => expect::copy(measured, block),
        Engine::Pread => expect::cached(measured, block),
        Engine::IoUring => {
            let request = syscall::measured_cost(measured, syscall::Call::Read)? * REQUEST_CALLS;
            Some(expect::cached(measured, block)? + request.named("a request of io_uring"))
        }
    }
}

fn from_the_device(point: &Read, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let block = point.block as f64;
    let blocks =
        expect::Blocks { dir: &point.dir, block: point.block, jump: point.pattern.jumps() };
    let request = expect::read_request(blocks, facts, measured)?;
    let mut cost = if point.cache == Cache::Cold && point.pattern == Pattern::Sequential {
        // The kernel reads ahead: it waits before the reader does, and a block comes in a large
        // request.
        request * (0.0, 0.5) + Cost::bytes(block, (0.3, 8.0), "read ahead")
    } else {
        // Several wait at once, and the device may answer several at once.
        request * (1.0 / point.depth as f64, 1.0) + expect::bytes(blocks, facts)?
    };
    if point.cache == Cache::Cold {
        let added = ADD_PAGE_NS * expect::pages(block);
        cost += Cost::new(added, "to add pages to the page cache");
        cost += expect::copy(measured, block)?;
    }
    Some(cost)
}
