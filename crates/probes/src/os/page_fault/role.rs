//! Touching pages for the first time.

use super::{Kind, PageFault};
use crate::file::target_file::require_no_cached_file;
use crate::prelude::*;
use costof_os::file::scratch::Scratch;
use costof_os::memory::arena::huge_page_bytes;
use costof_os::memory::page_faults::{PageFaults, Pages};
use std::rc::Rc;

/// Pages that are touched for each batch, and of the file. Half of them are always touched before
/// the timed ones, so that those are not the pages that the caches have had last.
const PAGES: usize = 1024;
/// The same for huge pages, of the usual 2 MiB: 128 MiB, so that half of them are more than most
/// last-level caches hold.
const HUGE_BYTES: usize = 128 << 20;
/// Longer than half of a batch takes, so that batches are always half and all of what may be timed:
/// how much of the caches they fill does not depend on how long a run may take.
const BATCH_NS: f64 = 20e6;
/// For faults that wait for a device.
const MAJOR_PAGES: usize = 128;
/// So that it takes several reads of a fast device, since the first one after the file was evicted
/// takes longer.
const MAJOR_BATCH_NS: f64 = 2.5e6;
/// The pages of the file lie this far apart: the kernel maps what is in the page cache around a
/// fault too, 64 KiB by default (`fault_around_bytes`), and so it finds one page.
const FILE_STRIDE: usize = 64 << 10;
/// Touches of a file without holes.
const AROUND: usize = 256;

#[derive(Default)]
pub(super) struct Toucher {
    random: Rng,
    /// Made once, for all points that need it.
    file: Option<Rc<Scratch>>,
    /// The point's batches.
    faults: Option<PageFaults>,
}

impl Toucher {
    pub(super) fn start(launch: &Launch) -> Toucher {
        Toucher { random: Rng::with_seed(launch.seed), ..Toucher::default() }
    }

    fn file(&mut self) -> Result<Rc<Scratch>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Rc::new(write_file(PAGES, file_stride())?),
        };
        Ok(Rc::clone(self.file.insert(file)))
    }
}

impl RoleAt<PageFault> for Toucher {
    fn prepare(&mut self, point: &At<PageFault>, _: &Offers) -> Result<Offers> {
        let (pages, count) = match point.kind {
            Kind::MinorAnonymous => (Pages::Anonymous(PageSize::Base), PAGES),
            Kind::MinorFile => (Pages::Cached(self.file()?), PAGES),
            // It is as long as `PAGES` single ones are in all.
            Kind::MinorAround => {
                let pages = AROUND * file_stride() / base_page_bytes();
                (Pages::Cached(Rc::new(write_file(pages, base_page_bytes())?)), AROUND)
            }
            Kind::CopyOnWrite => (Pages::CopyOnWrite(self.file()?), PAGES),
            Kind::Huge => (Pages::Anonymous(PageSize::Huge), huge_pages()?),
            Kind::Major => (Pages::Evicted(self.file()?), PAGES),
        };
        let stride = match pages {
            Pages::Anonymous(_) => pages.page_bytes(),
            _ => file_stride(),
        };
        let shuffle = |order: &mut [usize]| self.random.shuffle(order);
        let faults = PageFaults::new(pages, stride, count, shuffle).map_err(refused)?;
        self.faults = Some(faults);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<PageFault>, meter: &mut Meter<'_>) -> Result {
        let faults = self.faults.as_mut().expect("a prepared point has faults");
        let is_major = point.kind == Kind::Major;
        let (most, batch_ns) = if is_major {
            (MAJOR_PAGES, MAJOR_BATCH_NS)
        } else {
            ((faults.pages() / 2).max(2), BATCH_NS)
        };
        meter.batches_last(batch_ns);
        // Preparing and touching take turns.
        let faults = RefCell::new(faults);
        if point.kind == Kind::MinorAround {
            meter.used_up(
                "unmap",
                most as u64,
                |n| faults.borrow_mut().prepare_unmap(n as usize).map_err(refused),
                |_| faults.borrow_mut().unmap(),
            )?;
        }
        meter.used_up(
            "cost",
            most as u64,
            |n| faults.borrow_mut().prepare(n as usize).map_err(refused),
            |n| faults.borrow_mut().touch(n as usize),
        )?;
        if is_major {
            meter.single_used_up(
                "latency",
                || faults.borrow_mut().prepare(1).map_err(refused),
                || faults.borrow_mut().touch(1),
            )?;
        }
        Ok(())
    }

    /// That each access was one fault which brought one page, and where it came from.
    fn finish(&mut self, point: &At<PageFault>, meter: &mut Meter<'_>) -> Result {
        let mut faults = self.faults.take().expect("a measured point has had faults");
        let counted = faults.end().map_err(refused)?;
        let touches = counted.touches as f64;
        let each = counted.faults as f64 / touches;
        let mapped = faults.mapped_bytes().or_unsupported("cannot see what was mapped")?;
        meter.value("faults", each);
        meter.value("mapped", mapped);
        let page = match point.kind {
            Kind::Huge => huge_page_bytes().unwrap_or(0),
            Kind::MinorAround if mapped <= base_page_bytes() as f64 => unsupported!(
                "this kernel maps only a page of {} at a fault (fault_around_bytes)",
                display_bytes(mapped as u64)
            ),
            Kind::MinorAround => mapped as usize,
            Kind::MinorAnonymous | Kind::MinorFile | Kind::CopyOnWrite | Kind::Major => {
                base_page_bytes()
            }
        } as f64;
        if let (Kind::Major, Some(folder)) = (point.kind, faults.folder()) {
            require_no_cached_file(folder)?;
            let read = counted.read_bytes as f64 / touches;
            meter.value("read_bytes", read);
            if each < 0.99 || read < 0.99 * page {
                unsupported!(
                    "an evicted page of a file in {} had {each:.2} major faults and {read:.0} \
                     bytes read from a device: its file system keeps files in memory, or another \
                     machine serves it (TMPDIR names a folder on a disk)",
                    folder.display()
                );
            }
        }
        if point.kind == Kind::Huge && mapped < page {
            return Err(arenas::not_huge(mapped as u64, page as u64));
        }
        // What records a batch may fault once too.
        let most = 1.01 + counted.batches as f64 / touches;
        ensure!(
            (0.99..=most).contains(&each) && mapped == page,
            "an access was {each:.3} page faults of this kind and mapped {} where one of {} was \
             meant",
            display_bytes(mapped as u64),
            display_bytes(page as u64)
        );
        ensure!(faults.read_the_content(), "the file's content was not read");
        Ok(())
    }
}

fn file_stride() -> usize {
    FILE_STRIDE.max(base_page_bytes())
}

fn write_file(pages: usize, stride: usize) -> Result<Scratch> {
    Scratch::write(pages, stride).map_err(|error| {
        Failure::unsupported(format!(
            "{error} (TMPDIR names a folder on a disk with {} free)",
            display_bytes((pages * base_page_bytes()) as u64)
        ))
    })
}

/// As many as are touched for a batch where memory allows.
pub(super) fn most_huge_pages(page_bytes: usize) -> usize {
    (HUGE_BYTES / page_bytes).max(2)
}

/// As many as fit with room to spare, of which a batch needs two.
fn huge_pages() -> Result<usize> {
    let page_bytes = huge_page_bytes().ok_or_else(|| {
        Failure::unsupported(
            "this kernel reports no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE, and /sys)",
        )
    })?;
    (2..=most_huge_pages(page_bytes))
        .rev()
        .find(|pages| arenas::fits(2 * (pages * page_bytes) as u64))
        .ok_or_else(|| arenas::does_not_fit(4 * page_bytes as u64))
}

fn refused(error: io::Error) -> Failure {
    Failure::unsupported(format!("cannot cause page faults of this kind: {error}"))
}
