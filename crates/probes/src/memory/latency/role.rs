//! Lays out and follows a chain of pointers.

use super::{Latency, Pattern};
use crate::prelude::*;
use costof_os::memory::chase::Ring;

/// The most loads before anything is timed: at 64 bytes each they cover 128 MiB, more than
/// last-level caches hold.
const WARM_LOADS_MAX: u64 = 2 << 20;
/// A lap in ascending order of more than this is timed in parts: one of so much takes 30 to 40 ms, at any stride
/// (Sapphire Rapids, 7 ns a load at 64 bytes and 75 ns at 512).
const LAP_MAX_BYTES: u64 = 256 << 20;

pub(super) struct Chase {
    /// The largest size of the block: one arena serves all.
    largest: u64,
    arena: Option<Arena>,
    random: Rng,
}

impl Chase {
    pub(super) fn start(launch: &Launch) -> Chase {
        let points = launch.points.iter();
        let sizes = points.filter_map(|point| Some(Latency::read(&point.axes)?.size));
        Chase {
            // Sizes that do not fit are refused one by one.
            largest: sizes.filter(|size| arenas::fits(*size)).max().unwrap_or(0),
            arena: None,
            random: Rng::with_seed(launch.seed),
        }
    }
}

impl RoleAt<Latency> for Chase {
    fn prepare(&mut self, point: &At<Latency>, _: &Offers) -> Result<Offers> {
        let size = point.size;
        if size > self.largest {
            return Err(arenas::does_not_fit(size));
        }
        let fits = |arena: &Arena| arena.len() as u64 >= size;
        if !self.arena.as_ref().is_some_and(fits) {
            self.arena = None;
            let pages = point.pages;
            // If the largest is refused (ulimit -v), a smaller point may still fit.
            let arena = arenas::in_memory(self.largest, pages)
                .or_else(|_| arenas::in_memory(size, pages))?;
            self.arena = Some(arena);
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Latency>, meter: &mut Meter<'_>) -> Result {
        let arena = self.arena.as_mut().expect("a prepared point has its arena");
        let size = point.size as usize;
        let stride = point.stride as usize;
        let random = &mut self.random;
        let mut below = |bound: u64| random.u64(..bound);
        let laid = match point.pattern {
            Pattern::Random => Ring::lay_random(arena, size, stride, &mut below),
            Pattern::Strided => Ring::lay_strided(arena, size, stride),
            Pattern::Quarters => Ring::lay_quarters(arena, size, stride),
        };
        let mut ring = laid.or_unsupported(format!(
            "cannot lay elements every {stride} bytes in {}",
            display_bytes(size as u64)
        ))?;
        warm(&mut ring)?;
        // Where a cache holds some parts of a lap in ascending order, only whole laps are the same work.
        let is_ascending = matches!(point.pattern, Pattern::Strided | Pattern::Quarters);
        if is_ascending && point.size <= LAP_MAX_BYTES {
            meter.batches_are_multiples_of(ring.elements() as u64);
        }
        meter.repeatable("cost", |n| ring.walk(n));
        Ok(())
    }

    fn finish(&mut self, _: &At<Latency>, meter: &mut Meter<'_>) -> Result {
        let arena = self.arena.as_ref().expect("a measured point has its arena");
        if let Ok(huge) = arena.huge_bytes() {
            meter.value("huge_share", huge as f64 / arena.len() as f64);
        }
        Ok(())
    }
}

/// Walks a chain before it is timed. A lap warms the caches and is the check. In a large ring, a part of a lap evicts
/// what laying it out left in the caches.
///
/// # Errors
/// If a lap does not visit each element once.
pub(crate) fn warm(ring: &mut Ring<'_>) -> Result {
    if ring.elements() as u64 > WARM_LOADS_MAX {
        ring.walk(WARM_LOADS_MAX);
    } else {
        ensure!(
            ring.lap_is_complete(),
            "a lap of the pointer chase does not visit every element once"
        );
    }
    Ok(())
}
