//! A probe's file, the disk under it, and which share of the bytes that are read or written reaches
//! that disk.

use super::axes::{Pattern, TEMPORARY};
use crate::prelude::*;
use costof_measure::facts;
use costof_os::file::data::{Access, DataFile, STEP_BYTES, is_content};
use costof_os::file::order::Order;
use costof_os::file::reads::{Engine, Reader};
use costof_os::file::{cache, device, direct};
use std::path::Path;

/// At or above this share, all bytes came from the device, or went there.
pub(super) const ALL: f64 = 0.99;

/// File systems on several disks, or that share a disk in a way of their own, or whose disk is not known: the
/// counters of the first disk do not show everything, those of all disks do.
const ON_SEVERAL_DISKS: [&str; 3] = ["btrfs", "bcachefs", "overlay"];

/// The most blocks of a random order, so that their list stays small compared with the caches.
const MAX_RANDOM_BLOCKS: u64 = 1 << 18;

/// A latency is measured if it is this many times the cost of reading the clock.
const CLOCK_READS: f64 = 100.0;

/// A file that the launch has made, and what it lies on.
#[derive(Debug)]
pub(super) struct TargetFile {
    pub(super) data: DataFile,
    /// The folder, as the points name it.
    dir: String,
    /// `vda (virtual)`.
    pub(super) name: String,
    pub(super) medium: Medium,
    /// The disks whose counters show what they were told to do: that under the file system, all of the machine if
    /// that is not known, none if the file is on another machine.
    disks: Vec<String>,
}

impl TargetFile {
    /// An empty file in this folder.
    ///
    /// # Errors
    ///
    /// Why no file can be made there.
    pub(super) fn new(dir: &str) -> Result<TargetFile> {
        let folder = (dir != TEMPORARY).then(|| Path::new(dir));
        let data = DataFile::create(folder).map_err(|error| no_file(dir, &error))?;
        let facts = facts::storage();
        let canonical = data.folder().canonicalize();
        let canonical = canonical.unwrap_or_else(|_| data.folder().to_owned());
        let storage = facts.storage_of(&canonical.to_string_lossy());
        let several = storage.is_none_or(|storage| {
            ON_SEVERAL_DISKS.contains(&&*storage.file_system.kind) || storage.medium == Medium::File
        });
        let disk = storage.and_then(|storage| storage.disk);
        let medium = if data.is_in_memory() {
            Medium::Memory
        } else {
            storage.map_or(Medium::Unknown, |storage| storage.medium)
        };
        Ok(TargetFile {
            dir: dir.to_owned(),
            name: storage.map_or_else(|| "an unknown disk".to_owned(), |storage| storage.name()),
            medium,
            disks: match disk {
                _ if several => device::physical(),
                disk => disk.into_iter().map(|disk| disk.name.clone()).collect(),
            },
            data,
        })
    }

    /// The file that is there, if it is in this folder; else a new one.
    ///
    /// # Errors
    ///
    /// Why no file can be made there.
    pub(super) fn reuse<'a>(
        target: &'a mut Option<TargetFile>,
        dir: &str,
    ) -> Result<&'a mut TargetFile> {
        let same = target.take().filter(|target| target.dir == dir);
        let found = same.map_or_else(|| TargetFile::new(dir), Ok)?;
        Ok(target.insert(found))
    }

    /// Refuses a file system in memory, and one in a file that this kernel may cache; `advice` is what to set
    /// instead.
    ///
    /// # Errors
    ///
    /// If it is one.
    pub(super) fn require_device(&self, advice: &str) -> Result {
        require_no_cached_file(self.data.folder())?;
        if self.medium == Medium::Memory {
            unsupported!(
                "{} lies on {}: its files are in memory alone, or are not written when they are synced ({advice}, or --set dir= for a \
                 folder on a disk)",
                self.folder(),
                self.name
            );
        }
        Ok(())
    }

    /// Refuses a file that cannot be read and written past the page cache in such blocks; `advice` is
    /// what to set instead.
    ///
    /// # Errors
    ///
    /// If the file system cannot, or a block is not a whole number of sectors.
    pub(super) fn require_direct(&self, block: u64, advice: &str) -> Result {
        let aligned = self.check("look at", direct::alignment(self.data.file()))?;
        let aligned = aligned.ok_or_else(|| self.not_direct("STATX_DIOALIGN says so", advice))?;
        let aligned = u64::from(aligned);
        if !block.is_multiple_of(aligned) {
            unsupported!(
                "direct reads and writes in {} are of whole {}, which {} is not",
                self.folder(),
                display_bytes(aligned),
                display_bytes(block)
            );
        }
        Ok(())
    }

    /// Why a file has no direct reads and writes, and what to set instead.
    pub(super) fn not_direct(&self, why: &str, advice: &str) -> Failure {
        Failure::unsupported(format!(
            "files in {} cannot be read and written past the page cache: {why} ({advice})",
            self.folder()
        ))
    }

    /// Its folder, as people read it.
    pub(super) fn folder(&self) -> String {
        self.data.folder().display().to_string()
    }

    /// Makes the file this long, all of it on its device.
    ///
    /// # Errors
    ///
    /// If that would fill the disk, or writing fails.
    pub(super) fn extend(&mut self, len: u64) -> Result {
        let most = self.data.most_bytes().unwrap_or(u64::MAX);
        if len > most && len > self.data.len() {
            unsupported!(
                "a file of {} would fill the disk under {}, of which it may have {} MiB (--set \
                 size= for a smaller one, --set dir= for another folder)",
                display_bytes(len),
                self.folder(),
                most >> 20
            );
        }
        let extended = self.data.extend(len);
        self.check("write", extended)
    }

    /// Reads the file's first `size` bytes, so that they are in the page cache as far as it has
    /// room.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub(super) fn read_into_cache(&self, size: u64) -> Result {
        // The file has whole steps, so none of it is left out.
        let order = Order::sequential(size.next_multiple_of(STEP_BYTES), STEP_BYTES);
        let read = self.data.open(Access::Cached).and_then(|file| {
            let mut all = Reader::new(Engine::Pread, file, order, false)?;
            all.read(all.blocks())
        });
        self.check("read", read)
    }

    /// Drops the file from the page cache, and checks that none of it stays there.
    ///
    /// # Errors
    ///
    /// If the file system keeps it.
    pub(super) fn evict(&self) -> Result {
        let left = cache::evict(self.data.file(), self.data.len());
        let left = self.check("evict", left)?;
        if left > 0 {
            unsupported!(
                "{} KiB of a file in {} stay in the page cache when it is evicted: {} keeps them \
                 (--set dir= for another folder)",
                left >> 10,
                self.folder(),
                self.name
            );
        }
        Ok(())
    }

    /// How many of the file's first `size` bytes are in the page cache, in whole pages.
    ///
    /// # Errors
    ///
    /// If the kernel does not report it.
    pub(super) fn cached(&self, size: u64) -> Result<u64> {
        self.check("look at", cache::cached_bytes(self.data.file(), size))
    }

    /// Refuses a file whose first `size` bytes are not all in the page cache.
    ///
    /// # Errors
    ///
    /// If they are not.
    pub(super) fn require_cached(&self, size: u64) -> Result {
        let cached = self.cached(size)?;
        if self.medium != Medium::Memory && cached == 0 {
            unsupported!(
                "the kernel finds no page in its cache of a file in {} that was just read: {} has a cache of its \
                 own (--set dir= for another folder)",
                self.folder(),
                self.name
            );
        }
        if self.medium != Medium::Memory && cached < size {
            unsupported!(
                "only {} MiB of {} stay in the page cache: memory, or the limit of a control \
                 group, is too small (--set size= for a smaller file)",
                cached >> 20,
                display_bytes(size)
            );
        }
        Ok(())
    }

    /// The result of a call that was to do `what` with the file; a failure names both. For measured
    /// paths: success costs nothing.
    ///
    /// # Errors
    ///
    /// If the call failed.
    #[inline]
    pub(super) fn check<T>(&self, what: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| self.failed(what, &error))
    }

    #[cold]
    fn failed(&self, what: &str, error: &io::Error) -> Failure {
        let folder = self.folder();
        Failure::unsupported(format!("cannot {what} a file in {folder}: {error}"))
    }

    /// The devices' counters after this process has read or written `bytes` of the file.
    pub(super) fn counters(&self, bytes: u64) -> Counters {
        let sum = |count: fn(&str) -> Option<u64>| -> Option<u64> {
            let counts = self.disks.iter().filter_map(|disk| count(disk));
            counts.reduce(|sum, count| sum + count)
        };
        Counters {
            bytes,
            process: usage::process_read_bytes().ok(),
            process_written: usage::process_written_bytes().ok(),
            flushes: sum(device::flushes),
            disk: sum(device::read_bytes),
            disk_written: sum(device::written_bytes),
        }
    }

    /// The share of the bytes that this process has read since then (now `bytes`) that came from a
    /// device: none where no counter shows it.
    pub(super) fn share_read(&self, since: &Counters, bytes: u64) -> Option<f64> {
        let now = self.counters(bytes);
        let by_process = grown(since.process, now.process);
        share(by_process, grown(since.disk, now.disk), bytes - since.bytes)
    }

    /// The same for the bytes that it has written.
    pub(super) fn share_written(&self, since: &Counters, bytes: u64) -> Option<f64> {
        let now = self.counters(bytes);
        let by_process = grown(since.process_written, now.process_written);
        let by_disk = grown(since.disk_written, now.disk_written);
        share(by_process, by_disk, bytes - since.bytes)
    }

    /// How often the disk was told to flush its cache since then, by any process.
    pub(super) fn flushes_since(&self, since: &Counters) -> Option<u64> {
        grown(since.flushes, self.counters(0).flushes)
    }
}

/// Counters of devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// Bytes of the file that this process has read or written.
    bytes: u64,
    /// The kernel's accounting of this process.
    process: Option<u64>,
    process_written: Option<u64>,
    /// The counters of the disk under the file, which count all processes.
    disk: Option<u64>,
    disk_written: Option<u64>,
    flushes: Option<u64>,
}

impl Counters {
    /// Bytes of the file that this process had read or written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The smaller of both: bytes that the process has caused, and no more than the disks have moved.
/// Where no disk is known, a process with none may be one that is not accounted; what disks have moved may be
/// others' bytes.
fn share(by_process: Option<u64>, by_disk: Option<u64>, bytes: u64) -> Option<f64> {
    let moved = match (by_process, by_disk) {
        (Some(by_process), Some(by_disk)) => by_process.min(by_disk),
        (Some(moved @ 1..), None) => moved,
        (None, Some(0)) => 0,
        _ => return None,
    };
    (bytes > 0).then(|| moved as f64 / bytes as f64)
}

/// By how much a counter has grown.
fn grown(then: Option<u64>, now: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

/// Reports the device's share of the bytes.
///
/// # Errors
///
/// If the share is below [`ALL`], with `reason` of the share, or not known.
pub(super) fn require_all_by_device(
    share: Option<f64>,
    meter: &mut Meter<'_>,
    reason: impl FnOnce(f64) -> String,
) -> Result {
    let share = share.ok_or_else(unknown_share)?;
    meter.value("device_share", share);
    if share < ALL {
        return Err(Failure::unsupported(reason(share)));
    }
    Ok(())
}

/// Why there is no number of a device where nothing shows that it was used.
pub(super) fn unknown_share() -> Failure {
    Failure::unsupported(
        "nothing shows whether its bytes passed a device: the kernel accounts none to the process, and the disk \
         is not known (--set dir= for another folder; file.remote reads files of other machines)",
    )
}

/// Refuses a folder in a file that is served as a disk, unless that is read and written past this kernel's cache.
///
/// # Errors
///
/// If this kernel may cache it.
pub(crate) fn require_no_cached_file(folder: &Path) -> Result {
    let canonical = folder.canonicalize();
    let canonical = canonical.as_deref().unwrap_or(folder).to_string_lossy();
    let facts = facts::storage();
    let storage = facts.storage_of(&canonical);
    let storage = storage.filter(|storage| storage.medium == Medium::File);
    let Some(disk) = storage.and_then(|storage| storage.disk) else {
        return Ok(());
    };
    let lowest = [&disk.name].into_iter().chain(&disk.parts);
    if lowest.filter_map(|name| device::is_direct_loop(name)).all(|direct| !direct) {
        unsupported!(
            "{} lies on {}, a file that this kernel may have cached (--set dir= for a folder on a disk; losetup \
             --direct-io=on passes its cache)",
            folder.display(),
            disk.name
        );
    }
    Ok(())
}

/// Whether one operation takes so long that reading the clock before and after it hardly counts.
pub(super) fn may_stamp(meter: &Meter<'_>) -> bool {
    let each_ns = meter.cost_ns("cost").unwrap_or(0.0);
    each_ns >= CLOCK_READS * meter.clock().read_ns()
}

/// How many operations fit into a quarter of the point's time.
pub(super) fn quarter_of_time(meter: &Meter<'_>) -> u64 {
    (meter.time_ns() / 4.0 / meter.cost_ns("cost").unwrap_or(1.0)) as u64
}

/// Reports the CPU time of this thread per KiB, where an operation moves `bytes`.
///
/// # Errors
///
/// Those of the operation.
pub(super) fn report_cpu<E>(
    meter: &mut Meter<'_>,
    bytes: u64,
    operation: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let before = now_ns(ClockId::ThreadCpu);
    operation()?;
    let cpu_ns = now_ns(ClockId::ThreadCpu) - before;
    meter.value("cpu", cpu_ns as f64 / bytes as f64 * 1024.0);
    Ok(())
}

/// Checks that the last block that was read is the one in the file.
///
/// # Errors
///
/// If it differs.
pub(super) fn verify_last(reader: &Reader) -> Result {
    let (offset, bytes) = reader.last();
    ensure!(is_content(bytes, offset), "the block at {offset} differs from what was written");
    Ok(())
}

/// Refuses a file that has too few blocks for an order.
///
/// # Errors
///
/// If it has fewer than four.
pub(super) fn require_blocks(size: u64, block: u64) -> Result {
    if size < 4 * block {
        unsupported!(
            "a file of {} has fewer than four blocks of {} (--set size= for a larger one)",
            display_bytes(size),
            display_bytes(block)
        );
    }
    Ok(())
}

/// The blocks of a file in the order of a point: at random, or one after the other.
pub(super) fn order(pattern: Pattern, size: u64, block: u64, random: &mut Rng) -> Order {
    if pattern.jumps() {
        random_order(size, block, block, random)
    } else {
        Order::sequential(size, block)
    }
}

/// Blocks of a file in random order, one in each `apart` bytes.
pub(super) fn random_order(size: u64, block: u64, apart: u64, random: &mut Rng) -> Order {
    let chosen = sample(size / apart, random).into_iter();
    Order::from_offsets(chosen.map(|number| number * apart).collect(), block)
}

/// As many of the first numbers as an order has, in random order, none twice.
fn sample(numbers: u64, random: &mut Rng) -> Vec<u64> {
    let mut chosen: Vec<u64> = if numbers <= 4 * MAX_RANDOM_BLOCKS {
        (0..numbers).collect()
    } else {
        // One of each part: there are too many to shuffle all.
        (0..MAX_RANDOM_BLOCKS)
            .map(|part| {
                part * numbers / MAX_RANDOM_BLOCKS..(part + 1) * numbers / MAX_RANDOM_BLOCKS
            })
            .map(|part| random.u64(part))
            .collect()
    };
    random.shuffle(&mut chosen);
    chosen.truncate(MAX_RANDOM_BLOCKS as usize);
    chosen
}

/// Why no file can be made in a folder, and what to do about it.
fn no_file(dir: &str, error: &io::Error) -> Failure {
    Failure::unsupported(match dir {
        TEMPORARY => format!("{error} (--set dir=/FOLDER names one)"),
        dir => format!("cannot make a file in {dir}: {error} (--set dir= names another folder)"),
    })
}

/// The disk under the default folder, as headlines name it: `vda (virtual)`.
pub(super) fn temporary_name(facts: &Facts) -> String {
    let folder = facts.temporary_folder.as_deref();
    let storage = folder.and_then(|folder| facts.storage_of(folder));
    storage.map_or_else(|| "its disk".to_owned(), |storage| storage.name())
}

/// The disk under a folder, by the facts.
pub(super) fn medium(dir: &str, facts: &Facts) -> Medium {
    let folder = match dir {
        TEMPORARY => facts.temporary_folder.as_deref(),
        dir => Some(dir),
    };
    let storage = folder.and_then(|folder| facts.storage_of(folder));
    storage.map_or(Medium::Unknown, |storage| storage.medium)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_process_and_disk_agree_on() {
        assert_eq!(share(Some(4096), Some(8192), 4096), Some(1.0));
        assert_eq!(share(Some(4096), Some(0), 4096), Some(0.0));
        assert_eq!(share(Some(0), Some(8192), 4096), Some(0.0));
        assert_eq!(share(Some(2048), None, 4096), Some(0.5));
        // Where a process is not accounted, its disk's counter is left.
        assert_eq!(share(None, Some(2048), 4096), None);
        assert_eq!(share(None, Some(0), 4096), Some(0.0));
        // A network file system may account nothing.
        assert_eq!(share(Some(0), None, 4096), None);
        assert_eq!(share(None, None, 4096), None);
        assert_eq!(share(Some(0), Some(0), 0), None);
    }

    #[test]
    fn no_number_is_sampled_twice_however_many_there_are() {
        let mut random = Rng::with_seed(1);
        let most = 4 * MAX_RANDOM_BLOCKS;
        for numbers in [64, MAX_RANDOM_BLOCKS, most, most + 1, most + 77, 1 << 32] {
            let mut chosen = sample(numbers, &mut random);
            assert_eq!(chosen.len() as u64, numbers.min(MAX_RANDOM_BLOCKS), "{numbers}");
            assert!(!chosen.is_sorted(), "{numbers}");
            chosen.sort_unstable();
            assert!(chosen.windows(2).all(|two| two[0] < two[1]), "{numbers}");
            assert!(chosen.last() < Some(&numbers), "{numbers}");
        }
    }

    #[test]
    fn the_default_folder_has_a_name_where_facts_tell() {
        assert_eq!(temporary_name(&Facts::default()), "its disk");
        let facts = facts::gather();
        if facts.temporary_folder.is_none() {
            eprintln!("skipped: no folder on a disk to write to");
            return;
        }
        assert_ne!(temporary_name(&facts), "its disk");
    }
}
