//! `os.page_fault`: what the first touch of a page costs.

use crate::expect::cost_ns;
use crate::literal::{cost, list, metric, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::{DiskKind, Facts};
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Better, Unit, display_bytes};
use costof_os::arena::{
    Arena, PageSize, available_bytes, base_page_bytes, huge_page_bytes, smaps_bytes,
};
use costof_os::scratch::{CONTENT, FileMap, Scratch, Sharing};
use costof_os::touch::{read_at, write_at};
use costof_os::usage;
use fastrand::Rng;
use std::cell::RefCell;
use std::io;

/// Pages of a batch, at most, and of the file. Always about as many, so that how much of the caches
/// they fill does not depend on how long a run may take.
const PAGES: usize = 1024;
/// The same for huge pages.
const HUGE_PAGES: usize = 16;
/// For faults that wait for a device.
const MAJOR_PAGES: usize = 64;
/// The pages of the file lie this far apart: the kernel maps what is in the page cache around a
/// fault too, 64 KiB by default (`fault_around_bytes`), and so it finds one page.
const FILE_STRIDE: usize = 64 << 10;

pub(crate) static PROBE: Probe = Probe {
    info: ProbeInfo {
        id: text("os.page_fault"),
        method: 1,
        question: text("What does the first touch of a page cost?"),
        axes: list![words(
            "kind",
            "what the kernel has to do for it",
            list![
                word(
                    "minor_anonymous",
                    "find an empty page for anonymous memory and clear it; the first touch writes"
                ),
                word(
                    "minor_file",
                    "map a page of a file that is in the page cache (MAP_SHARED); the first touch reads"
                ),
                word(
                    "copy_on_write",
                    "copy a page that is mapped already (MAP_PRIVATE); the first write after a read"
                ),
                word(
                    "huge",
                    "find a transparent huge page for anonymous memory and clear it"
                ),
                word(
                    "major",
                    "read a page of a file from its device, without reading ahead"
                ),
            ],
        )],
        crossings: list![],
        metrics: list![
            cost("one page fault; of `major`, in a row"),
            metric(
                "latency",
                Unit::Nanoseconds,
                Better::Lower,
                "of `major`: single faults, each after the file was evicted",
            ),
            metric(
                "faults",
                Unit::One,
                Better::Neither,
                "page faults an access, as getrusage counts them: major ones for `major`",
            ),
            metric(
                "mapped",
                Unit::Bytes,
                Better::Neither,
                "what one fault has mapped, by smaps",
            ),
            metric(
                "read_bytes",
                Unit::Bytes,
                Better::Neither,
                "of `major`: read from a device for one fault, by /proc/thread-self/io",
            ),
        ],
        how: text(
            "A fresh mapping is made for each batch, untimed, and one byte of each page is touched: \
             1,024 pages at most (16 huge ones, 64 from a device). The pages are those that the \
             batch before gave back, so they are in part in the caches, and in a virtual machine \
             the host has backed them already: the first use of memory since the machine started \
             costs more. In the cost are the kernel's accounting (memory control groups) and, of \
             512 anonymous or 32 file pages, one page table. File pages lie 64 KiB apart with holes \
             between, so that one fault maps one page. The file has no name and lies in the first \
             of these folders that is on no file system in memory: TMPDIR or else /tmp, the current \
             one, XDG_CACHE_HOME, HOME, /var/tmp. For `major` it is evicted (fsync, \
             POSIX_FADV_DONTNEED), mapped with MADV_RANDOM and read in random order; a cache of \
             the device or of the host may still serve it.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_pagefault"
            ),
            text(
                "CSE 221 System Measurement Project, 2014: 15.2 µs for two accesses to a mapped 40 GB file on a 7,200 rpm disk, which never reached the disk"
            ),
            text("Linux Documentation/admin-guide/mm/transhuge.rst; mm/memory.c, do_fault_around"),
        ],
        predicted_from: text(
            "the system call that os.syscall has measured, for entering the kernel and its handler; clearing or copying a page at 8 to 32 bytes a cycle; 50 to 400 ns to find one; huge pages cleared at 5 to 30 GB/s; a device by its kind",
        ),
        after: list![text("os.syscall"), text("cpu.frequency")],
        needs: list![
            text(
                "for files: a folder on a file system that is not in memory, with 4 MiB free; for major: one that lets files be evicted, and /proc/thread-self/io"
            ),
            text(
                "for huge: transparent huge pages not set to never, and 64 MiB of memory, not fragmented"
            ),
        ],
        roles: list![text("only")],
    },
    rounds: 2,
    blocks_by: &[],
    memory_bytes: |_| 64 << 20,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    predict,
    roles: &[|launch| Ok(Box::new(PageFault::start(launch)))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("page fault, anonymous memory", "minor_anonymous"),
        ("page fault, file in the page cache", "minor_file"),
        ("page fault, huge page", "huge"),
        ("page fault, from the device", "major"),
    ]
    .map(|(label, kind)| Headline::new(label, Axes::default().with("kind", kind)))
    .into()
}

struct PageFault {
    random: Rng,
    /// Made once, for all points that need it.
    scratch: Option<Scratch>,
    /// The point's batches, between `run` and `finish`.
    faults: Option<Faults>,
}

impl PageFault {
    fn start(launch: &Launch) -> PageFault {
        PageFault {
            random: Rng::with_seed(launch.seed),
            scratch: None,
            faults: None,
        }
    }
}

impl Role for PageFault {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let kind = Kind::of(point)?;
        if kind == Kind::Major {
            device_read_bytes()?;
        }
        if !kind.is_of_a_file() {
            return Ok(Offers::new());
        }
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => write_scratch()?,
        };
        if kind != Kind::Major {
            load(&scratch, &Faults::new(kind, &mut self.random)?.offsets)?;
        }
        self.scratch = Some(scratch);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let kind = Kind::of(point)?;
        let scratch = self.scratch.as_ref();
        // Preparing and touching take turns.
        let faults = RefCell::new(Faults::new(kind, &mut self.random)?);
        let most = faults.borrow().offsets.len().min(kind.most_pages());
        meter.used_up(
            "cost",
            most as u64,
            |n| faults.borrow_mut().prepare(n as usize, scratch),
            |n| faults.borrow_mut().touch(n as usize),
        )?;
        let mut faults = faults.into_inner();
        if kind == Kind::Major {
            faults.latencies(scratch, meter)?;
        }
        self.faults = Some(faults);
        Ok(())
    }

    fn finish(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let faults = self.faults.take().expect("a measured point has had faults");
        faults.check(self.scratch.as_ref(), meter)
    }
}

fn write_scratch() -> Result<Scratch, Failure> {
    Scratch::write(PAGES, FILE_STRIDE.max(base_page_bytes())).map_err(|error| {
        Failure::unsupported(format!(
            "{error} (TMPDIR names a folder on a disk with {} free)",
            display_bytes((PAGES * base_page_bytes()) as u64)
        ))
    })
}

/// Brings pages into the page cache, from which a major fault may have evicted them, and none of
/// the holes between.
fn load(scratch: &Scratch, offsets: &[usize]) -> Result<(), Failure> {
    let map = scratch
        .map(Sharing::ReadShared)
        .map_err(|error| Failure::unsupported(format!("cannot map a file: {error}")))?;
    read_at(map.as_slice(), offsets);
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Anonymous,
    File,
    CopyOnWrite,
    Huge,
    Major,
}

impl Kind {
    fn of(point: &Point) -> Result<Kind, Failure> {
        Ok(match point.axes.word("kind") {
            "minor_anonymous" => Kind::Anonymous,
            "minor_file" => Kind::File,
            "copy_on_write" => Kind::CopyOnWrite,
            "huge" => Kind::Huge,
            "major" => Kind::Major,
            other => return Err(Failure::error(format!("no page fault is called {other}"))),
        })
    }

    fn is_of_a_file(self) -> bool {
        matches!(self, Kind::File | Kind::CopyOnWrite | Kind::Major)
    }

    fn most_pages(self) -> usize {
        match self {
            Kind::Huge => HUGE_PAGES,
            Kind::Major => MAJOR_PAGES,
            _ => PAGES,
        }
    }

    /// What smaps calls the pages that a fault of this kind brings.
    fn in_smaps(self) -> &'static str {
        match self {
            Kind::Anonymous | Kind::CopyOnWrite => "Anonymous",
            Kind::Huge => "AnonHugePages",
            Kind::File | Kind::Major => "Rss",
        }
    }
}

/// The batches of a point, one after the other, and what was counted in them.
struct Faults {
    kind: Kind,
    page_bytes: usize,
    /// Where the pages are, in the order in which they are touched.
    offsets: Vec<usize>,
    /// From which of them on the next batch touches; further on each time for `major`, so that not
    /// the same pages are read from the device over and over.
    from: usize,
    memory: Option<Memory>,
    /// The pages that the last batch has touched.
    touched: usize,
    /// The first bytes of the last batch, where it read them.
    sum: u64,
    /// When the last batch was prepared.
    before: Counts,
    counted: Counts,
    operations: u64,
    batches: u64,
}

enum Memory {
    Anonymous(Arena),
    File(FileMap),
}

#[derive(Clone, Copy, Default)]
struct Counts {
    faults: u64,
    read_bytes: u64,
}

impl Faults {
    fn new(kind: Kind, random: &mut Rng) -> Result<Faults, Failure> {
        let page_bytes = match kind {
            Kind::Huge => huge_page_bytes()
                .ok_or_else(|| Failure::unsupported("this kernel has no transparent huge pages"))?,
            _ => base_page_bytes(),
        };
        let stride = if kind.is_of_a_file() {
            FILE_STRIDE.max(page_bytes)
        } else {
            page_bytes
        };
        let pages = match kind {
            Kind::Huge => huge_pages(page_bytes)?,
            _ => PAGES,
        };
        let mut offsets: Vec<usize> = (0..pages).map(|number| number * stride).collect();
        if kind == Kind::Major {
            random.shuffle(&mut offsets);
        }
        Ok(Faults {
            kind,
            page_bytes,
            offsets,
            from: 0,
            memory: None,
            touched: 0,
            sum: 0,
            before: Counts::default(),
            counted: Counts::default(),
            operations: 0,
            batches: 0,
        })
    }

    /// Maps memory of which no page is there.
    fn prepare(&mut self, pages: usize, scratch: Option<&Scratch>) -> Result<(), Failure> {
        self.count()?;
        self.memory = None;
        if self.kind == Kind::Major {
            self.from += self.touched;
            if self.from + pages > self.offsets.len() {
                self.from = 0;
            }
        }
        self.touched = 0;
        let file = || scratch.expect("a prepared point has its file");
        let mapped = match self.kind {
            Kind::Anonymous => {
                Arena::map(pages * self.page_bytes, PageSize::Base).map(Memory::Anonymous)
            }
            Kind::Huge => {
                Arena::map(pages * self.page_bytes, PageSize::Huge).map(Memory::Anonymous)
            }
            Kind::File => file().map(Sharing::ReadShared).map(Memory::File),
            Kind::Major => {
                let file = file();
                file.evict()
                    .and_then(|()| file.map(Sharing::ReadShared))
                    .map(Memory::File)
            }
            Kind::CopyOnWrite => file().map(Sharing::WritePrivate).map(|map| {
                read_at(map.as_slice(), &self.offsets[..pages]);
                Memory::File(map)
            }),
        };
        self.memory =
            Some(mapped.map_err(|error| {
                Failure::unsupported(format!("cannot map {pages} pages: {error}"))
            })?);
        self.before = self.counts()?;
        Ok(())
    }

    /// The operation.
    fn touch(&mut self, pages: usize) {
        let offsets = &self.offsets[self.from..self.from + pages];
        match self.memory.as_mut().expect("a batch is prepared") {
            Memory::Anonymous(arena) => write_at(arena.as_mut_slice(), offsets),
            Memory::File(map) if self.kind == Kind::CopyOnWrite => {
                write_at(map.as_mut_slice(), offsets);
            }
            Memory::File(map) => self.sum = read_at(map.as_slice(), offsets),
        }
        self.touched = pages;
    }

    /// Single faults, each one timed, as long as half a point takes.
    fn latencies(
        &mut self,
        scratch: Option<&Scratch>,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let (clock, end_ns) = (meter.clock(), meter.time_ns() / 2.0);
        let mut failed = None;
        meter.open_loop("latency", |since_ns| {
            if since_ns > end_ns {
                return None;
            }
            failed = self.prepare(1, scratch).err();
            if failed.is_some() {
                return None;
            }
            let start = clock.start();
            self.touch(1);
            Some(clock.ns(clock.end().saturating_sub(start)))
        });
        failed.map_or(Ok(()), Err)
    }

    /// Adds what the last batch has counted.
    fn count(&mut self) -> Result<(), Failure> {
        if self.touched > 0 {
            let now = self.counts()?;
            self.counted.faults += now.faults - self.before.faults;
            self.counted.read_bytes += now.read_bytes - self.before.read_bytes;
            self.operations += self.touched as u64;
            self.batches += 1;
        }
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let usage = usage::thread();
        Ok(match self.kind {
            Kind::Major => Counts {
                faults: usage.major_faults,
                read_bytes: device_read_bytes()?,
            },
            _ => Counts {
                faults: usage.minor_faults,
                read_bytes: 0,
            },
        })
    }

    /// That each access was one fault which brought one page, and where it came from.
    fn check(mut self, scratch: Option<&Scratch>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.count()?;
        let each = |count: u64| count as f64 / self.operations as f64;
        let faults = each(self.counted.faults);
        let page = self.page_bytes as f64;
        let mapped = self
            .mapped_bytes()
            .map_err(|error| Failure::unsupported(format!("cannot see what was mapped: {error}")))?
            as f64
            / self.touched as f64;
        meter.value("faults", faults);
        meter.value("mapped", mapped);
        let read = each(self.counted.read_bytes);
        if self.kind == Kind::Major {
            meter.value("read_bytes", read);
            if faults < 0.99 || read < 0.99 * page {
                let folder = scratch.expect("a measured point has its file").folder();
                return Err(Failure::unsupported(format!(
                    "an evicted page of a file in {} had {faults:.2} major faults and {read:.0} \
                     bytes read from a device: its file system keeps files in memory, or another \
                     machine serves it (TMPDIR names a folder on a disk)",
                    folder.display()
                )));
            }
        }
        if self.kind == Kind::Huge && mapped < page {
            return Err(Failure::unsupported(format!(
                "a fault brought {} of huge pages: memory is fragmented or limited, or \
                 transparent huge pages are off (/sys/kernel/mm/transparent_hugepage/enabled, \
                 PR_SET_THP_DISABLE)",
                display_bytes(mapped as u64)
            )));
        }
        // What records a batch may fault once too.
        let most = 1.01 + self.batches as f64 / self.operations as f64;
        if !(0.99..=most).contains(&faults) || mapped != page {
            return Err(Failure::error(format!(
                "an access was {faults:.3} page faults of this kind and mapped {} where one of {} \
                 was meant",
                display_bytes(mapped as u64),
                display_bytes(page as u64)
            )));
        }
        let read_it = matches!(self.kind, Kind::File | Kind::Major);
        if read_it && self.sum != self.touched as u64 * u64::from(CONTENT) {
            return Err(Failure::error("the file's content was not read"));
        }
        Ok(())
    }

    fn mapped_bytes(&self) -> io::Result<u64> {
        let memory = match self.memory.as_ref().expect("a batch was measured") {
            Memory::Anonymous(arena) => arena.as_slice(),
            Memory::File(map) => map.as_slice(),
        };
        smaps_bytes(memory, &[self.kind.in_smaps()])
    }
}

fn device_read_bytes() -> Result<u64, Failure> {
    usage::device_read_bytes().map_err(|error| {
        Failure::unsupported(format!(
            "cannot show that a page came from a device: {error} (the kernel needs \
             CONFIG_TASK_IO_ACCOUNTING)"
        ))
    })
}

/// As many as fit with room to spare, of which a batch needs two.
fn huge_pages(page_bytes: usize) -> Result<usize, Failure> {
    let available = available_bytes().unwrap_or(u64::MAX);
    let fit = (available / 2 / page_bytes as u64).min(HUGE_PAGES as u64);
    if fit < 2 {
        return Err(Failure::unsupported(format!(
            "huge pages of {} need more than the {} MiB of memory that are available here",
            display_bytes(page_bytes as u64),
            available >> 20
        )));
    }
    Ok(fit as usize)
}

/// Entering the kernel by an exception and its handler: so many system calls.
const HANDLER_CALLS: (f64, f64) = (1.0, 4.0);
/// Bytes a cycle when a page is cleared or copied: fast, and slow.
const BYTES_PER_CYCLE: (f64, f64) = (32.0, 8.0);

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    match Kind::of(point).ok()? {
        Kind::Huge => cost_ns(
            (2 << 20) as f64 / 30.0,
            (2 << 20) as f64 / 5.0,
            "2 MiB, the usual size, cleared at 5 to 30 GB/s, as main memory takes it",
        ),
        Kind::Major => from_the_device(facts),
        Kind::File => minor(known, "find and map it", (50.0, 300.0), 0.0, "clear"),
        Kind::Anonymous => minor(known, "find an empty one", (50.0, 400.0), 4096.0, "clear"),
        Kind::CopyOnWrite => minor(known, "find an empty one", (50.0, 400.0), 4096.0, "copy"),
    }
}

/// An exception and its handler, a page to find, and to fill.
fn minor(
    known: &Known<'_>,
    finding: &str,
    finding_ns: (f64, f64),
    bytes: f64,
    filling: &str,
) -> Option<Prediction> {
    let call_ns = known.primary("os.syscall", &[("call", "getppid")])?;
    let ns_per_cycle = 1e9 / known.primary("cpu.frequency", &[])?;
    let fill_ns = |bytes_per_cycle: f64| bytes / bytes_per_cycle * ns_per_cycle;
    let (fast, slow) = (fill_ns(BYTES_PER_CYCLE.0), fill_ns(BYTES_PER_CYCLE.1));
    let filled = if bytes > 0.0 {
        format!("; {fast:.0} to {slow:.0} ns to {filling} 4 KiB")
    } else {
        String::new()
    };
    cost_ns(
        HANDLER_CALLS.0 * call_ns + finding_ns.0 + fast,
        HANDLER_CALLS.1 * call_ns + finding_ns.1 + slow,
        format!(
            "an exception and its handler like {} to {} system calls of {call_ns:.0} ns; {:.0} to \
             {:.0} ns to {finding}{filled}",
            HANDLER_CALLS.0, HANDLER_CALLS.1, finding_ns.0, finding_ns.1
        ),
    )
}

/// By the kinds of the disks under the file systems; none where they differ.
fn from_the_device(facts: &Facts) -> Option<Prediction> {
    let rotational: Vec<bool> = facts
        .disks
        .iter()
        .filter(|disk| !matches!(disk.kind, DiskKind::Memory | DiskKind::Loop))
        .map(|disk| disk.kind == DiskKind::Rotational)
        .collect();
    match (rotational.contains(&true), rotational.contains(&false)) {
        (true, false) => cost_ns(4e6, 15e6, "a seek and half a turn of a disk"),
        (false, true) => cost_ns(20e3, 200e3, "a read of flash or of a virtual disk"),
        _ => None,
    }
}
