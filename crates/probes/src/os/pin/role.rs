//! A buffer that is pinned and unpinned.

use super::{How, Pin, pages};
use crate::prelude::*;
use costof_os::ipc::vmsplice::Lender;
use costof_os::memory::registered_buffer::Ring;

pub(super) struct Pinning {
    arena: Arena,
    pinner: Pinner,
}

/// What pins.
enum Pinner {
    IoUring(Ring),
    Vmsplice(Lender),
}

impl Pinner {
    fn open(point: &At<Pin>) -> Result<Pinner> {
        let size = point.size;
        match point.how {
            How::IoUring => Ring::open().map(Pinner::IoUring).or_unsupported_hint(
                "io_uring_setup",
                "kernel.io_uring_disabled, a container's seccomp filter or CONFIG_IO_URING",
            ),
            How::Vmsplice => Lender::open((size as usize).div_ceil(base_page_bytes()))
                .map(Pinner::Vmsplice)
                .or_unsupported_hint(
                    format!("cannot have a pipe that holds {}", display_bytes(size)),
                    "fs.pipe-max-size, fs.pipe-user-pages-soft",
                ),
        }
    }

    /// Pins and unpins the memory `n` times.
    fn pin(&self, memory: &mut [u8], n: u64) -> io::Result<()> {
        match self {
            Pinner::IoUring(ring) => ring.register_unregister(memory, n),
            Pinner::Vmsplice(lender) => lender.lend_and_discard(memory, n),
        }
    }
}

impl Setup<Pin> for Pinning {
    fn set_up(point: &At<Pin>, _: &Launch) -> Result<Pinning> {
        let size = point.size;
        pages(size, base_page_bytes())?;
        let pinner = Pinner::open(point)?;
        arenas::ensure_fits(size)?;
        let mut arena = arenas::in_memory(size, point.pages)?;
        // A few small pages among them would cost more than all the others.
        arenas::check(&arena, point.pages, 1.0)?;
        // So that a limit is known before anything is timed.
        let pinned = pinner.pin(&mut arena.as_mut_slice()[..size as usize], 1);
        pinned.map_err(|error| {
            let size = display_bytes(size);
            Failure::unsupported(match pinner {
                Pinner::IoUring(_) => format!(
                    "cannot register {size}: {error} (locked memory is limited, per user and in \
                     whole pages: memlock, ulimit -l)"
                ),
                Pinner::Vmsplice(_) => format!("cannot lend {size} to a pipe: {error}"),
            })
        })?;
        Ok(Pinning { arena, pinner })
    }

    fn measure(&mut self, point: &At<Pin>, meter: &mut Meter<'_>) -> Result {
        let size = point.size as usize;
        for (metric, bytes) in [("one_page", base_page_bytes()), ("whole_buffer", size)] {
            let memory = &mut self.arena.as_mut_slice()[..bytes];
            let pin = |n| self.pinner.pin(memory, n);
            repeat_fallible(meter, metric, pin).or_fail("pinning failed")?;
        }
        Ok(())
    }

    fn check(self, point: &At<Pin>, meter: &mut Meter<'_>) -> Result {
        let Pinning { mut arena, pinner } = self;
        let memory = &mut arena.as_mut_slice()[..point.size as usize];
        let unseen =
            |error| Failure::unsupported(format!("cannot see that pages are pinned: {error}"));
        match pinner {
            Pinner::IoUring(ring) => {
                let pinned = ring.pinned_bytes(memory).map_err(unseen)?;
                meter.value("pinned", pinned as f64);
                let wanted = memory.len() as u64;
                ensure!(
                    pinned >= wanted,
                    "of {} only {} were pinned",
                    display_bytes(wanted),
                    display_bytes(pinned)
                );
            }
            Pinner::Vmsplice(mut lender) => {
                let is_lent = lender.is_not_copied(memory).map_err(unseen)?;
                ensure!(is_lent, "vmsplice copied what it was lent");
            }
        }
        Ok(())
    }
}
