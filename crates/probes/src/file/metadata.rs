//! `file.metadata`: what it costs to make, look up, rename and remove a file.

use super::axes;
use super::target_file::TargetFile;
use crate::prelude::*;
use costof_os::file::names::Names;

/// The most files in the folder: few enough that the file system's records of them stay in memory.
const FILES: u64 = 1024;
/// Files that are renamed: making and removing more would take longer than that.
const RENAMED_FILES: u64 = 128;
/// Files that are looked up, which is fast: of fewer, a batch can be too short for the clock (23 µs for
/// 64 of them, measured).
const LOOKED_UP_FILES: u64 = 256;

words! {
    /// What is done to each file.
    pub(crate) enum Call {
        /// openat(2) with O_CREAT and O_EXCL, and close(2): two system calls; the file is empty
        Create = "create",
        /// fstatat(2) of one that is there, and that the kernel remembers
        Stat = "stat",
        /// renameat(2) to another name in the same folder
        Rename = "rename",
        /// unlinkat(2) of one that is there, and empty
        Unlink = "unlink",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Metadata>();

point! {
    /// What does it cost to make, look up, rename and remove a file?
    ///
    /// Up to 1,024 empty files lie in a folder of their own. create starts each batch with none,
    /// unlink with as many as it removes, stat and rename with 128 that stay. Each answer is
    /// checked. Nothing is synced: the file system writes later, and a full journal may hold a
    /// batch up. The folder lies apart from those of other launches, because ext4 without a journal
    /// passes over inodes that were removed in the last minutes: next to those of other launches a
    /// file took up to 80 times as long. A child process removes the folder when the probe ends, also
    /// when it is killed.
    ///
    /// # Predicted from
    /// opening and closing an existing file (os.syscall): stat takes a fifth to two thirds of it, the
    /// others 2 to 9 times as much, for the file system's own records
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_fs
    /// - open(2), stat(2), rename(2), unlink(2); Linux Documentation/filesystems/path-lookup.rst
    ///
    /// # Needs
    /// - a folder in which files can be made (--set dir=)
    pub(crate) struct Metadata of "file.metadata" {
        /// what is done to each file
        call: Call = words(),
        dir: Text = axes::dir(),
    }
}

impl Measure for Metadata {
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = metrics! {
        /// one file
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall"];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: NameList = &["dir"];
    const ROLES: &'static [StartRole] = &[|_| role::<Metadata>(Namer::default())];

    headlines! {
        "make an empty file": {},
        "look a file up (stat)": { call: Call::Stat },
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let open = syscall::measured_cost(measured, syscall::Call::Open)?;
        let cost = match point.call {
            // A name to look up, and 144 bytes to copy.
            Call::Stat => open * (0.2, 0.65),
            // An inode to find, and a folder and a journal to record it in.
            Call::Create => open * (2.5, 9.0),
            Call::Rename | Call::Unlink => open * (2.0, 9.0),
        };
        cost.predict("cost")
    }
}

#[derive(Default)]
struct Namer {
    /// A folder's files, for all points of the launch.
    names: Option<Names>,
    folder: String,
}

impl Namer {
    fn refused(&self, error: &io::Error) -> Failure {
        Failure::unsupported(format!(
            "cannot make and remove files in {}: {error} (--set dir= names another folder)",
            self.folder
        ))
    }
}

impl RoleAt<Metadata> for Namer {
    fn prepare(&mut self, point: &At<Metadata>, _: &Offers) -> Result<Offers> {
        if self.names.is_none() {
            let target = TargetFile::new(&point.dir)?;
            self.folder = target.folder();
            let names = Names::new(target.data.folder(), FILES);
            self.names = Some(names.map_err(|error| self.refused(&error))?);
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Metadata>, meter: &mut Meter<'_>) -> Result {
        let call = point.call;
        let mut names = self.names.take().expect("a prepared point has files");
        let cell = RefCell::new(&mut names);
        let mut failed = FirstError::default();
        let most = match call {
            Call::Stat => LOOKED_UP_FILES,
            Call::Rename => RENAMED_FILES,
            Call::Create | Call::Unlink => FILES,
        };
        let measured = meter.used_up(
            "cost",
            most,
            |n| {
                let mut names = cell.borrow_mut();
                let provided = match call {
                    Call::Create => names.clear(),
                    // stat uses nothing up. It gets files of the batch before: just made ones would
                    // be colder at the first stat and, since Linux 6.13, the kernel has to mark
                    // them.
                    Call::Stat => names.provide(most),
                    Call::Rename => names.provide_to_rename(most),
                    Call::Unlink => names.provide(n),
                };
                provided.map_err(|error| self.refused(&error))
            },
            |n| {
                let mut names = cell.borrow_mut();
                failed.note(match call {
                    Call::Create => names.create(n),
                    Call::Stat => names.stat(n),
                    Call::Rename => names.rename(n),
                    Call::Unlink => names.unlink(n),
                });
            },
        );
        self.names = Some(names);
        measured?;
        let done = failed.into_result();
        done.map_err(|error| self.refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::run;

    #[test]
    fn every_call_is_carried_out_and_nothing_is_left() {
        let parent = std::env::temp_dir().join(format!("costof-metadata-{}", std::process::id()));
        std::fs::create_dir(&parent).unwrap();
        for call in Call::ALL.iter().copied() {
            let dir = parent.display().to_string().into();
            let point = At::from(Metadata { call, dir });
            let mut role = Namer::default();
            role.prepare(&point, &Offers::new()).unwrap();
            let report = run(&mut role, &point).unwrap();
            assert_eq!(report.allocations, 0, "{call:?}");
            drop(role);
            assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0, "{call:?}");
        }
        std::fs::remove_dir(&parent).unwrap();
    }
}
