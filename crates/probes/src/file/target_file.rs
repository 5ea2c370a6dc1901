//! Where a probe's file lies: what is under its folder, and how much of what is read or written
//! reaches that.

use super::axes::TEMPORARY;
use costof_measure::facts;
use costof_measure::meter::Meter;
use costof_model::facts::{Facts, Medium};
use costof_model::failure::Failure;
use costof_model::unit::display_bytes;
use costof_model::unsupported;
use costof_os::file::data::{Access, DataFile, STEP_BYTES, is_content};
use costof_os::file::order::Order;
use costof_os::file::reads::{Engine, Reader};
use costof_os::file::{cache, device, direct};
use costof_os::sched::usage;
use fastrand::Rng;
use std::io;
use std::path::Path;

/// A share of bytes at which a device had part in all of them.
pub(super) const ALL: f64 = 0.99;

/// File systems on several disks, or that share one with others in a way of their own: what the
/// first disk counts is not all.
const ON_SEVERAL_DISKS: [&str; 4] = ["btrfs", "zfs", "bcachefs", "overlay"];

/// Blocks of a random order, at most: the list of them stays small beside the caches.
const RANDOM_MOST: u64 = 1 << 18;

/// A file that the launch has made, and what it lies on.
#[derive(Debug)]
pub(super) struct TargetFile {
    pub(super) data: DataFile,
    /// As its points name it.
    dir: String,
    /// `vda (virtual)`.
    pub(super) name: String,
    pub(super) medium: Medium,
    /// The disk whose counters tell what the file system has it do.
    disk: Option<String>,
}

impl TargetFile {
    /// An empty file in this folder.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn of(dir: &str) -> Result<TargetFile, Failure> {
        let folder = (dir != TEMPORARY).then(|| Path::new(dir));
        let data = DataFile::create(folder).map_err(|error| no_file(dir, &error))?;
        let facts = facts::storage();
        let canonical = data.folder().canonicalize();
        let canonical = canonical.unwrap_or_else(|_| data.folder().to_owned());
        let storage = facts.storage_of(&canonical.to_string_lossy());
        let disk = storage.and_then(|storage| {
            let several = ON_SEVERAL_DISKS.contains(&&*storage.file_system.kind);
            storage.disk.filter(|_| !several)
        });
        let medium = if data.is_in_memory() {
            Medium::Memory
        } else {
            storage.map_or(Medium::Unknown, |storage| storage.medium)
        };
        Ok(TargetFile {
            dir: dir.to_owned(),
            name: storage.map_or_else(|| "an unknown disk".to_owned(), |storage| storage.name()),
            medium,
            disk: disk.map(|disk| disk.name.clone()),
            data,
        })
    }

    /// The one that is there, where it is in this folder; else a new one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn again<'a>(
        place: &'a mut Option<TargetFile>,
        dir: &str,
    ) -> Result<&'a mut TargetFile, Failure> {
        let same = place.take().filter(|place| place.dir == dir);
        let found = same.map_or_else(|| TargetFile::of(dir), Ok)?;
        Ok(place.insert(found))
    }

    /// Refuses a file system in memory; `else_how` is what may be asked of it.
    ///
    /// # Errors
    ///
    /// Where it is one.
    pub(super) fn must_have_a_device(&self, else_how: &str) -> Result<(), Failure> {
        if self.medium != Medium::Memory {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "{} lies on {}: its files are in memory alone ({else_how}, or --set dir= for a folder \
             on a disk)",
            self.folder(),
            self.name
        )))
    }

    /// Refuses what cannot be read and written past the page cache in such blocks;
    /// `advice` is what to set instead.
    ///
    /// # Errors
    ///
    /// Where the file system does not, or the blocks are no whole sectors.
    pub(super) fn must_be_direct(&self, block: u64, advice: &str) -> Result<(), Failure> {
        let aligned = direct::alignment(self.data.file());
        let aligned = aligned.map_err(|error| self.failed("look at", &error))?;
        let aligned = aligned.ok_or_else(|| self.no_direct("STATX_DIOALIGN says so", advice))?;
        if block.is_multiple_of(u64::from(aligned)) {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "direct reads and writes in {} are of whole {}, which {} is not",
            self.folder(),
            display_bytes(u64::from(aligned)),
            display_bytes(block)
        )))
    }

    /// Why a file has none that go past the page cache, and what to set instead.
    pub(super) fn no_direct(&self, why: &str, advice: &str) -> Failure {
        Failure::unsupported(format!(
            "files in {} cannot be read and written past the page cache: {why} ({advice})",
            self.folder()
        ))
    }

    /// Its folder, as people read it.
    pub(super) fn folder(&self) -> String {
        self.data.folder().display().to_string()
    }

    /// Makes the file so long, all of it on its device.
    ///
    /// # Errors
    ///
    /// Where that would fill the disk, or writing says no.
    pub(super) fn extend(&mut self, len: u64) -> Result<(), Failure> {
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
        self.data
            .extend(len)
            .map_err(|error| self.failed("write", &error))
    }

    /// Reads the file's first `size` bytes, so that they are in the page cache where it has room.
    ///
    /// # Errors
    ///
    /// Where reading says no.
    pub(super) fn read_into_cache(&self, size: u64) -> Result<(), Failure> {
        let failed = |error: io::Error| self.failed("read", &error);
        let file = self.data.open(Access::Cached).map_err(failed)?;
        // The file has whole steps, so none of it is left out.
        let order = Order::sequential(size.next_multiple_of(STEP_BYTES), STEP_BYTES);
        let mut all = Reader::new(Engine::Pread, file, order, false).map_err(failed)?;
        all.read(all.blocks()).map_err(failed)
    }

    /// How many of the file's first `size` bytes are in the page cache, in whole pages.
    ///
    /// # Errors
    ///
    /// Where the kernel does not tell.
    pub(super) fn cached(&self, size: u64) -> Result<u64, Failure> {
        let cached = cache::cached_bytes(self.data.file(), size);
        cached.map_err(|error| self.failed("look at", &error))
    }

    /// Refuses a file whose first `size` bytes are not all in the page cache.
    ///
    /// # Errors
    ///
    /// Where they are not.
    pub(super) fn must_be_cached(&self, size: u64) -> Result<(), Failure> {
        let cached = self.cached(size)?;
        if self.medium == Medium::Memory || cached >= size {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "only {} MiB of {} stay in the page cache: memory, or the limit of a control group, \
             is too small (--set size= for a smaller file)",
            cached >> 20,
            display_bytes(size)
        )))
    }

    /// Why a point has no number for whose file a call has failed.
    pub(super) fn failed(&self, what: &str, error: &io::Error) -> Failure {
        Failure::unsupported(format!(
            "cannot {what} a file in {}: {error}",
            self.folder()
        ))
    }

    /// What is read from devices, and written to them, from now on.
    pub(super) fn counters(&self) -> Counters {
        let disk = self.disk.as_deref();
        Counters {
            process: usage::process_read_bytes().ok(),
            process_written: usage::process_written_bytes().ok(),
            flushes: disk.and_then(device::flushes),
            disk: disk.and_then(device::read_bytes),
            disk_written: disk.and_then(device::written_bytes),
        }
    }

    /// Which share of so many bytes that this process has read since then came from a device: none
    /// where nobody can tell.
    pub(super) fn share_read(&self, since: &Counters, bytes: u64) -> Option<f64> {
        let now = self.counters();
        let by_process = grown([since.process, now.process])?;
        share(by_process, grown([since.disk, now.disk]), bytes)
    }

    /// How often the disk was told to empty its cache since then, by whomever.
    pub(super) fn flushes_since(&self, since: &Counters) -> Option<u64> {
        grown([since.flushes, self.counters().flushes])
    }

    /// The same of what it has written.
    pub(super) fn share_written(&self, since: &Counters, bytes: u64) -> Option<f64> {
        let now = self.counters();
        let by_process = grown([since.process_written, now.process_written])?;
        share(
            by_process,
            grown([since.disk_written, now.disk_written]),
            bytes,
        )
    }
}

/// What devices have done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// For this process, as the kernel accounts it.
    process: Option<u64>,
    process_written: Option<u64>,
    /// The disk under the file, for everybody.
    disk: Option<u64>,
    disk_written: Option<u64>,
    flushes: Option<u64>,
}

/// What both agree on: what the process has caused, and not more than the disk has done. Where no
/// disk is known, nothing for the process may be something that is not accounted.
fn share(by_process: u64, by_disk: Option<u64>, bytes: u64) -> Option<f64> {
    let came = match by_disk {
        Some(by_disk) => by_process.min(by_disk),
        None if by_process > 0 => by_process,
        None => return None,
    };
    (bytes > 0).then(|| came as f64 / bytes as f64)
}

/// By how much a counter has grown, from then until now.
fn grown([then, now]: [Option<u64>; 2]) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

/// Says which share of bytes the device had part in, where that is known.
///
/// # Errors
///
/// Where that is not all of them: what `refused` says.
pub(super) fn all_by_the_device(
    share: Option<f64>,
    meter: &mut Meter<'_>,
    refused: impl FnOnce(f64) -> String,
) -> Result<(), Failure> {
    let Some(share) = share else {
        return Ok(());
    };
    meter.value("device_share", share);
    if share >= ALL {
        return Ok(());
    }
    Err(Failure::unsupported(refused(share)))
}

/// Whether the last block that was read is what stands there in the file.
///
/// # Errors
///
/// Where it is not.
pub(super) fn is_there(reader: &Reader) -> Result<(), Failure> {
    let (offset, bytes) = reader.last();
    if is_content(bytes, offset) {
        return Ok(());
    }
    Err(Failure::error(format!(
        "the block at {offset} was not read as it was written"
    )))
}

/// Whether the file has blocks enough for an order.
///
/// # Errors
///
/// Where it has not.
pub(super) fn has_blocks(size: u64, block: u64) -> Result<(), Failure> {
    if size >= 4 * block {
        return Ok(());
    }
    Err(Failure::unsupported(format!(
        "a file of {} has fewer than four blocks of {} (--set size= for a larger one)",
        display_bytes(size),
        display_bytes(block)
    )))
}

/// Blocks of a file at random, one alone in each `apart` bytes.
pub(super) fn random_order(size: u64, block: u64, apart: u64, random: &mut Rng) -> Order {
    let chosen = some_of(size / apart, random).into_iter();
    Order::from_offsets(chosen.map(|place| place * apart).collect(), block)
}

/// As many of these places as an order has, at random, none twice.
fn some_of(places: u64, random: &mut Rng) -> Vec<u64> {
    let mut chosen: Vec<u64> = if places <= 4 * RANDOM_MOST {
        (0..places).collect()
    } else {
        // One of each part: of so many all cannot be shuffled.
        (0..RANDOM_MOST)
            .map(|part| part * places / RANDOM_MOST..(part + 1) * places / RANDOM_MOST)
            .map(|part| random.u64(part))
            .collect()
    };
    random.shuffle(&mut chosen);
    chosen.truncate(RANDOM_MOST as usize);
    chosen
}

/// What a folder without a number is told of, and what to do about it.
fn no_file(dir: &str, error: &io::Error) -> Failure {
    Failure::unsupported(match dir {
        TEMPORARY => format!("{error} (--set dir=/FOLDER names one)"),
        dir => format!("cannot make a file in {dir}: {error} (--set dir= names another folder)"),
    })
}

/// What the default folder lies on, as the facts tell: `vda (virtual)`.
pub(super) fn temporary_name(facts: &Facts) -> Option<String> {
    let storage = facts.storage_of(facts.temporary_folder.as_deref()?)?;
    Some(storage.name())
}

/// What a folder lies on, as the facts tell.
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
        assert_eq!(share(4096, Some(8192), 4096), Some(1.0));
        assert_eq!(share(4096, Some(0), 4096), Some(0.0));
        assert_eq!(share(0, Some(8192), 4096), Some(0.0));
        assert_eq!(share(2048, None, 4096), Some(0.5));
        // A network's file system may account nothing.
        assert_eq!(share(0, None, 4096), None);
        assert_eq!(share(0, Some(0), 0), None);
    }

    #[test]
    fn no_place_comes_twice_however_many_there_are() {
        let mut random = Rng::with_seed(1);
        let most = 4 * RANDOM_MOST;
        for places in [64, RANDOM_MOST, most, most + 1, most + 77, 1 << 32] {
            let mut chosen = some_of(places, &mut random);
            assert_eq!(chosen.len() as u64, places.min(RANDOM_MOST), "{places}");
            assert!(!chosen.is_sorted(), "{places}");
            chosen.sort_unstable();
            assert!(chosen.windows(2).all(|two| two[0] < two[1]), "{places}");
            assert!(chosen.last() < Some(&places), "{places}");
        }
    }

    #[test]
    fn the_default_folder_has_a_name_where_facts_tell() {
        assert_eq!(temporary_name(&Facts::default()), None);
        let facts = facts::gather();
        if facts.temporary_folder.is_none() {
            eprintln!("skipped: no folder on a disk to write to");
            return;
        }
        assert!(temporary_name(&facts).is_some());
    }
}
