//! Whether a point's axes go together, what its file has to lie on, and where its bytes have to come
//! from.

use super::{Cache, Engine, NOT_DIRECT, Pattern, Read};
use crate::file::target_file::{ALL, TargetFile, require_blocks};
use crate::prelude::*;

/// At or below this share, no bytes came from the device.
pub(super) const NONE: f64 = 0.01;

/// Whether the axes fit together.
pub(super) fn check_axes(point: &At<Read>) -> Result {
    if point.depth > 1 && point.engine != Engine::IoUring {
        unsupported!("only io_uring has several reads in flight (--set engine=io_uring)");
    }
    if point.engine == Engine::Mmap && point.cache == Cache::Direct {
        unsupported!(
            "a mapping is of the page cache, which direct reads bypass (--set cache=cold)"
        );
    }
    require_blocks(point.size, point.block)
}

/// Whether the point can be measured on what the file lies on, before anything is written there.
pub(super) fn check_target(point: &At<Read>, target: &TargetFile) -> Result {
    if point.pattern == Pattern::Seek {
        if target.medium != Medium::Rotational {
            unsupported!(
                "skipped: {} is on {}, which is not a rotational disk (--set dir= names a folder on one)",
                target.folder(),
                target.name
            );
        }
        if point.cache == Cache::Warm {
            unsupported!("nothing seeks in the page cache (--set cache=direct)");
        }
    }
    match point.cache {
        Cache::Warm => Ok(()),
        Cache::Cold => target.require_device("--set cache=warm"),
        Cache::Direct => {
            target.require_device("--set cache=warm")?;
            target.require_direct(point.block, NOT_DIRECT)
        }
    }
}

/// Whether the bytes came from the right place, by the share that came from the device.
pub(super) fn check_share(point: &At<Read>, target: &TargetFile, share: f64) -> Result {
    let (source, is_right) = match point.cache {
        Cache::Warm => ("memory", share <= NONE),
        Cache::Cold | Cache::Direct => ("the device", share >= ALL),
    };
    if !is_right {
        unsupported!(
            "for each byte read from a file in {}, {share:.2} came from the device, where all \
             should have come from {source}",
            target.folder()
        );
    }
    Ok(())
}
