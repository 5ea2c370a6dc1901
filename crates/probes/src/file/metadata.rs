//! `file.metadata`: what it costs to make, look up, rename and remove a file.

use super::axes::DIR;
use super::place::Place;
use crate::expect::cost_ns;
use crate::literal::{cost, list, text, word, words};
use crate::os::syscall;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_os::file::names::Names;
use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;

/// Files in the folder, at most: what a file system keeps of them stays in memory.
const FILES: u64 = 1024;
/// Files that stat asks of, and that are renamed: to make more takes longer than that, and what is made has
/// to be removed.
const STAYING_FILES: u64 = 128;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("file.metadata"),
        method: 3,
        question: text("What does it cost to make, look up, rename and remove a file?"),
        axes: list![
            words(
                "call",
                "what is done to each file",
                list![
                    word(
                        "create",
                        "openat(2) with O_CREAT and O_EXCL, and close(2): two system calls; the file is empty"
                    ),
                    word(
                        "stat",
                        "fstatat(2) of one that is there, and that the kernel remembers"
                    ),
                    word("rename", "renameat(2) to another name in the same folder"),
                    word("unlink", "unlinkat(2) of one that is there, and empty"),
                ],
            ),
            DIR,
        ],
        crossings: list![],
        metrics: list![cost("one file")],
        how: text(
            "Up to 1,024 empty files in a folder of their own; create starts each batch without any, \
             unlink with as many as it removes, stat and rename with 128 that stay. Each answer is \
             checked. Nothing is synced: the file system writes later, and the room in its journal \
             may hold a batch up. The folder lies apart from those of other launches, since ext4 \
             without a journal passes over inodes that were removed within the last minutes: next \
             to those of other launches a file took up to 80 times as long (method 2). By method 1 \
             stat met files just made. A child process removes the folder when the probe ends, also \
             when it is killed.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_fs"
            ),
            text(
                "open(2), stat(2), rename(2), unlink(2); Linux Documentation/filesystems/path-lookup.rst"
            ),
        ],
        predicted_from: text(
            "the system calls that os.syscall has measured: a read of a byte for stat, an open and close of a file that is there for the others, with 1 to 30 times as much for what a file system notes",
        ),
        after: list![text("os.syscall")],
        needs: list![text("a folder in which files can be made (--set dir=)")],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &["dir"],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines: |_| {
        vec![
            Headline::new("make an empty file", PROBE.info.defaults()),
            Headline::new(
                "look a file up (stat)",
                Axes::with(PROBE.info.defaults(), "call", "stat"),
            ),
        ]
    },
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Metadata::start(launch)))],
    derive: the_only_report,
};

struct Metadata {
    /// A folder's files, for all points of the launch.
    names: Option<Names>,
    folder: String,
    failed: Option<io::Error>,
}

impl Metadata {
    fn start(_: &Launch) -> Metadata {
        Metadata {
            names: None,
            folder: String::new(),
            failed: None,
        }
    }

    fn refused(&self, error: &io::Error) -> Failure {
        Failure::unsupported(format!(
            "cannot make and remove files in {}: {error} (--set dir= names another folder)",
            self.folder
        ))
    }
}

impl Role for Metadata {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.failed = None;
        if self.names.is_none() {
            let place = Place::of(point)?;
            self.folder = place.folder();
            let names = Names::new(place.data.folder(), FILES);
            self.names = Some(names.map_err(|error| self.refused(&error))?);
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let call = point.axes.word("call");
        let mut names = self.names.take().expect("a prepared point has files");
        let cell = RefCell::new(&mut names);
        let mut failed = None;
        let most = match call {
            "stat" | "rename" => STAYING_FILES,
            _ => FILES,
        };
        let measured = meter.used_up(
            "cost",
            most,
            |n| {
                let mut names = cell.borrow_mut();
                let provided = match call {
                    "create" => names.clear(),
                    // It uses nothing up: files of the batch before, not ones just made, which a
                    // first stat finds colder and, since Linux 6.13, has to mark.
                    "stat" => names.provide(most),
                    "rename" => names.provide_to_rename(most),
                    _ => names.provide(n),
                };
                provided.map_err(|error| self.refused(&error))
            },
            |n| {
                let mut names = cell.borrow_mut();
                let done = match call {
                    "create" => names.create(n),
                    "stat" => names.stat(n),
                    "rename" => names.rename(n),
                    _ => names.unlink(n),
                };
                if let Err(error) = done {
                    failed.get_or_insert(error);
                }
            },
        );
        self.failed = failed;
        self.names = Some(names);
        measured
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        match self.failed.take() {
            Some(error) => Err(self.refused(&error)),
            None => Ok(()),
        }
    }
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let read_ns = syscall::one_thread_ns(known, "read")?;
    let open_ns = syscall::one_thread_ns(known, "open")?;
    let (low, high, because) = match point.axes.word("call") {
        "stat" => (
            read_ns,
            6.0 * read_ns,
            format!(
                "a name to look up and 144 bytes to copy: 1 to 6 system calls of {read_ns:.0} ns"
            ),
        ),
        "create" => (
            2.0 * open_ns,
            30.0 * open_ns,
            format!(
                "an open and close of {open_ns:.0} ns, 2 to 30 of them with an inode to find and a \
                 folder and a journal to note it in"
            ),
        ),
        _ => (
            open_ns,
            30.0 * open_ns,
            format!(
                "1 to 30 opens and closes of {open_ns:.0} ns, with a folder and a journal to note \
                 it in"
            ),
        ),
    };
    cost_ns(low, high, because)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tried::{launch, run};
    use crate::literal::point;
    use costof_model::axis::AxisValue;

    #[test]
    fn every_call_is_carried_out_and_nothing_is_left() {
        let parent = std::env::temp_dir().join(format!("costof-metadata-{}", std::process::id()));
        std::fs::create_dir(&parent).unwrap();
        for call in ["create", "stat", "rename", "unlink"] {
            let mut axes = PROBE.info.defaults().with("call", call);
            let folder = AxisValue::Word(parent.display().to_string().into());
            axes.0.insert("dir".into(), folder);
            let point = point(&PROBE, axes);
            let mut role = Metadata::start(&launch(vec![point.clone()]));
            role.prepare(&point, &Offers::new()).unwrap();
            let report = run(&PROBE, &mut role, &point).unwrap();
            assert_eq!(report.allocations, 0, "{call}");
            drop(role);
            assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0, "{call}");
        }
        std::fs::remove_dir(&parent).unwrap();
    }
}
