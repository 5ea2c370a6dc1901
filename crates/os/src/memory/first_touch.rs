//! Measured: bringing fresh memory in, by a write to each small page or by one call, on pages of a size between 4 KiB and 2 MiB;
//! page faults are served by the kernel, or by a thread of this process.
//!
//! Source: Linux Documentation/admin-guide/mm/transhuge.rst, multi-size THP (Linux 6.8); madvise(2) on
//! `MADV_POPULATE_WRITE` (Linux 5.14).

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::memory::arena::{Arena, PageSize, base_page_bytes, huge_page_bytes};
use crate::memory::touch::write_pages;
use crate::memory::userfault::FaultServer;
use crate::sched::usage;
use crate::system_call::unsupported;

/// Fresh memory for one batch after another. The kernel's counts show on which pages it came.
///
/// A batch gets the pages that the last one gave back, and of fewer of them more are still in the caches. So each batch brings all
/// arenas in, and its own are the last.
#[derive(Debug)]
pub struct FirstTouches {
    page_bytes: usize,
    populates: bool,
    server: Option<FaultServer>,
    /// What is brought in before the batch.
    earlier: Vec<Arena>,
    arenas: Vec<Arena>,
    before: u64,
    faults: u64,
    touched_bytes: u64,
}

/// The bytes of one arena on pages of this size, the same on every machine: 2 MiB, or a page less, so that no page of 2 MiB fits.
pub const fn arena_bytes(page_bytes: usize) -> usize {
    const MOST: usize = 2 << 20;
    if page_bytes >= MOST { MOST } else { MOST - page_bytes }
}

impl FirstTouches {
    /// Memory on pages of this size, which a call brings in (`populates`) or a write to each small page, whose faults a server
    /// answers if there is one. What is brought in before a batch is the kernel's all the same.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the kernel does not give out pages of this size, with the setting that says so.
    pub fn new(
        page_bytes: usize,
        populates: bool,
        server: Option<FaultServer>,
    ) -> io::Result<FirstTouches> {
        let is_given = |file: PathBuf| {
            let read = fs::read_to_string(&file).map_err(|_| {
                unsupported(format!("this kernel has no such pages: no {}", file.display()))
            })?;
            match read.contains("[never]") {
                true => Err(unsupported(format!("{} is set to never", file.display()))),
                false => Ok(read),
            }
        };
        if page_bytes != base_page_bytes() {
            let all = PathBuf::from("/sys/kernel/mm/transparent_hugepage");
            let own = all.join(format!("hugepages-{}kB/enabled", page_bytes >> 10));
            // Before Linux 6.8 there is one size, and one setting.
            let is_only = huge_page_bytes() == Some(page_bytes) && !own.exists();
            if is_only || is_given(own)?.contains("[inherit]") {
                is_given(all.join("enabled"))?;
            }
        }
        let [earlier, arenas] = [Vec::new(), Vec::new()];
        let (before, faults, touched_bytes) = (0, 0, 0);
        let fresh = FirstTouches {
            page_bytes,
            populates,
            server,
            earlier,
            arenas,
            before,
            faults,
            touched_bytes,
        };
        Ok(fresh)
    }

    /// Gives back what there is, maps `all` arenas, and brings in all but the last `own`.
    ///
    /// # Errors
    ///
    /// Those of mmap(2), madvise(2) and [`FaultServer::register`].
    ///
    /// # Panics
    ///
    /// If `own` is more than `all`.
    pub fn prepare(&mut self, own: usize, all: usize) -> io::Result<()> {
        self.count();
        self.arenas.clear();
        self.earlier.clear();
        let pages = match self.page_bytes == base_page_bytes() {
            true => PageSize::Base,
            false => PageSize::Huge,
        };
        let bytes = arena_bytes(self.page_bytes);
        let map = |count| (0..count).map(|_| Arena::map_exactly(bytes, pages)).collect();
        let earlier: io::Result<_> = map(all - own);
        self.earlier = earlier?;
        bring_in(&mut self.earlier, self.populates)?;
        self.arenas = map(own)?;
        if let Some(server) = &self.server {
            self.arenas.iter().try_for_each(|arena| server.register(arena))?;
        }
        self.before = usage::thread().minor_faults;
        Ok(())
    }

    /// Brings all of it in: the measured operation.
    ///
    /// # Errors
    ///
    /// Those of madvise(2).
    pub fn touch(&mut self) -> io::Result<()> {
        bring_in(&mut self.arenas, self.populates)
    }

    fn count(&mut self) {
        if !self.arenas.is_empty() {
            self.faults += usage::thread().minor_faults - self.before;
            self.touched_bytes += self.arenas.iter().map(|arena| arena.len() as u64).sum::<u64>();
        }
    }

    /// How many bytes one page fault has brought, over all batches; infinite if there was none. With a server, one that it has
    /// answered.
    ///
    /// # Errors
    ///
    /// Those of [`FaultServer::end`].
    pub fn end(&mut self) -> io::Result<f64> {
        self.count();
        self.arenas.clear();
        if let Some(server) = &mut self.server {
            self.faults = server.end()?;
        }
        Ok(self.touched_bytes as f64 / self.faults as f64)
    }
}

fn bring_in(arenas: &mut [Arena], populates: bool) -> io::Result<()> {
    for arena in arenas {
        if populates {
            arena.populate()?;
        } else {
            // Each small page, so that a larger one that did not come shows as several faults.
            let pages = arena.len() / base_page_bytes();
            write_pages(arena.as_mut_slice(), base_page_bytes(), 0..pages);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_to_each_small_page_is_a_fault() {
        let page = base_page_bytes();
        let mut touches = FirstTouches::new(page, false, None).unwrap();
        for arenas in [1, 2] {
            touches.prepare(arenas, 3).unwrap();
            touches.touch().unwrap();
        }
        let each = touches.end().unwrap();
        assert!((0.9 * page as f64..=page as f64).contains(&each), "{each}");
    }

    #[test]
    fn pages_that_no_kernel_has_are_refused() {
        let error = FirstTouches::new(12 << 10, false, None).unwrap_err();
        assert!(error.to_string().contains("hugepages-12kB"), "{error}");
        assert_eq!(arena_bytes(64 << 10) % (64 << 10), 0);
    }
}
