//! Probes of files in folders of every kind: what will not do is told with the reason, and nothing is
//! left of them, however they end.

use crate::common::{Ended, Place, assert_contains, read, run, signal, spawn, wait_for};
use costof_model::failure::FailureKind;
use costof_model::rows::FailureRow;
use costof_model::run_file::Run;
use rustix::process::{Signal, geteuid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file that is read from memory.
const WARM: &str =
    "run file.read --quick --seed 1 --out run.jsonl --set size=1MiB --set cache=warm";
/// The same past the page cache.
const DIRECT: &str =
    "run file.read --quick --seed 1 --out run.jsonl --set size=1MiB --set cache=direct";

/// The arguments, for files in this folder.
fn in_folder<'a>(arguments: &'a str, dir: &'a str) -> Vec<&'a str> {
    arguments.split(' ').chain(["--set", dir]).collect()
}

/// Why the one point of a run has no number, which is not to be had here.
fn reason(place: &Place, ended: Ended) -> String {
    ended.expect_code(3);
    let run = read(&place.path("run.jsonl"));
    let failures: Vec<&FailureRow> = run.failures.iter().collect();
    assert_eq!(run.points.len(), 0, "{:?}", run.points);
    let failure = failures
        .first()
        .expect("a point without a number has a reason");
    assert_eq!(failure.kind, FailureKind::Unsupported, "{failure:?}");
    place.expect_nothing_runs();
    failure.reason.clone()
}

/// Why there is nothing to be read in this folder.
fn refused(arguments: &str, folder: &Path) -> String {
    let place = Place::new();
    let dir = format!("dir={}", folder.display());
    let ended = run(&mut place.costof(&in_folder(arguments, &dir)));
    reason(&place, ended)
}

#[test]
fn a_folder_that_will_not_do_is_told_with_the_reason() {
    let place = Place::new();
    let file = place.path("a file");
    fs::write(&file, "text").unwrap();
    for (folder, says) in [
        (place.path("no/such"), "No such file"),
        (file, "Not a directory"),
        (PathBuf::from("/proc"), "/proc"),
    ] {
        let reason = refused(WARM, &folder);
        assert_contains(&reason, says);
        assert_contains(&reason, "--set dir=");
    }
}

#[test]
fn a_folder_is_named_by_its_absolute_path() {
    let place = Place::new();
    for dir in ["dir=tmp", "dir=../tmp", "dir=nfs://host/export"] {
        let ended = run(&mut place.costof(&in_folder(WARM, dir)));
        ended.expect_wrong(&["axis dir", "absolute path"]);
    }
}

#[test]
fn an_anonymous_export_names_no_folder() {
    let place = Place::new();
    let folder = place.path("secret");
    fs::create_dir(&folder).unwrap();
    let dir = format!("dir={}", folder.display());
    let ended = run(&mut place.costof(&in_folder(WARM, &dir)));
    let exported = |options: &[&str]| {
        let words = [&["export"][..], options, &["run.jsonl"]].concat();
        run(&mut place.costof(&words)).expect_code(0).out
    };
    // A failure's reason would name it too.
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    assert!(exported(&[]).contains("secret"));
    assert!(!exported(&["--anonymous"]).contains("secret"));
}

#[test]
fn a_folder_that_is_not_ones_own_is_refused() {
    let place = Place::new();
    let folder = place.path("others");
    fs::create_dir(&folder).unwrap();
    let dir = format!("dir={}", folder.display());
    let mut costof = place.costof(&in_folder(WARM, &dir));
    if geteuid().is_root() {
        // Root may write anywhere, so somebody else tries, who may be in this place.
        let anybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path("."), anybody).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        costof.uid(65534).gid(65534);
    } else {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    }
    if Command::new(Place::program(&costof))
        .uid(if geteuid().is_root() {
            65534
        } else {
            geteuid().as_raw()
        })
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: nobody else may execute costof here");
        return;
    }
    let reason = reason(&place, run(&mut costof));
    assert_contains(&reason, "Permission denied");
}

/// costof with these arguments, for files in a folder at which this is mounted, in a mount namespace
/// that goes with it. `mount` names the folder `"$0"`.
fn mounted(place: &Place, mount: &str, arguments: &str) -> Result<Ended, String> {
    let folder = place.path("mounted");
    fs::create_dir(&folder).unwrap();
    let dir = format!("dir={}", folder.display());
    let costof = place.costof(&in_folder(arguments, &dir));
    let user = if geteuid().is_root() { "-m" } else { "-rm" };
    let script = format!("{mount} || exit 77; exec \"$@\"");
    let mut command = place.command(Path::new("unshare"), &[user, "sh", "-c", &script]);
    command
        .arg(&folder)
        .arg(costof.get_program())
        .args(costof.get_args());
    let ended = run(&mut command);
    if ended.code == Some(77) || ended.err.contains("unshare") {
        return Err(format!("skipped: cannot mount here: {}", ended.err.trim()));
    }
    Ok(ended)
}

#[test]
fn a_file_system_that_is_only_read_is_refused() {
    let place = Place::new();
    let mount = "mount -t tmpfs -o ro none \"$0\"";
    match mounted(&place, mount, WARM) {
        Ok(ended) => {
            let reason = reason(&place, ended);
            assert_contains(&reason, "Read-only file system");
        }
        Err(why) => eprintln!("{why}"),
    }
}

#[test]
fn a_disk_is_never_filled() {
    let place = Place::new();
    let mount = "mount -t tmpfs -o size=1m none \"$0\"";
    match mounted(&place, mount, WARM) {
        Ok(ended) => {
            let reason = reason(&place, ended);
            assert_contains(&reason, "would fill the disk");
        }
        Err(why) => eprintln!("{why}"),
    }
}

#[test]
fn a_file_system_without_direct_reads_says_so() {
    let place = Place::new();
    let image = place.path("image");
    let mount = format!(
        "truncate -s 64M '{0}' && mkfs.ext4 -q -F '{0}' && \
         mount -o loop,data=journal '{0}' \"$0\"",
        image.display()
    );
    match mounted(&place, &mount, DIRECT) {
        Ok(ended) => {
            let reason = reason(&place, ended);
            assert_contains(&reason, "past the page cache");
        }
        Err(why) => eprintln!("{why}"),
    }
}

#[test]
fn files_in_memory_are_told_from_those_on_a_disk() {
    let place = Place::new();
    let mount = "mount -t tmpfs none \"$0\"";
    match mounted(&place, mount, DIRECT) {
        Ok(ended) => {
            let reason = reason(&place, ended);
            assert_contains(&reason, "in memory alone");
        }
        Err(why) => eprintln!("{why}"),
    }
}

/// Starts a run for files in a folder of its own, kills its controller when `is_begun`, with its workers
/// or alone, and sees to it that nothing of it runs and the folder is empty.
fn killed(arguments: &str, is_begun: impl Fn(&Place, &Path) -> bool, with_workers: bool) {
    let place = Place::new();
    let folder = place.path("files");
    fs::create_dir(&folder).unwrap();
    let dir = format!("dir={}", folder.display());
    let controller = spawn(&mut place.costof(&in_folder(arguments, &dir)));
    wait_for("the files", || {
        is_begun(&place, &folder) || place.running().is_empty()
    });
    // What workers started themselves has another parent.
    let mut workers = place.running();
    workers.retain(|process| parent(process.pid) == Some(controller.id()));
    signal(&controller, Signal::KILL);
    for worker in workers.iter().filter(|_| with_workers) {
        let _ = rustix::process::kill_process(worker.pid, Signal::KILL);
    }
    crate::common::ended(controller);
    place.expect_nothing_runs();
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Who started a process, unless it has ended.
fn parent(pid: rustix::process::Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

const METADATA: &str = "run file.metadata --full --seed 1 --out run.jsonl";
const CONTENTION: &str =
    "run file.contention --full --seed 1 --out run.jsonl --set size=1MiB --set contenders=3";

#[test]
fn nothing_is_left_of_named_files_when_the_controller_is_killed() {
    let has_files = |_: &Place, folder: &Path| fs::read_dir(folder).unwrap().count() > 0;
    killed(METADATA, has_files, false);
}

#[test]
fn contenders_end_when_all_others_are_killed() {
    // A controller, a worker that holds the machine, one that measures, the readers of their
    // commands, and its three.
    let has_contenders = |place: &Place, _: &Path| place.running().len() >= 8;
    killed(CONTENTION, has_contenders, true);
}

/// The workers' own folders and limits, where this process may make a control group.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Group> {
        let name = format!("costof-test-{}", std::process::id());
        for (root, file) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let group = Group(Path::new(root).join(&name));
            if fs::create_dir(&group.0).is_err() {
                continue;
            }
            if fs::write(group.0.join(file), limit.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_limit_of_a_control_group_is_found() {
    const LIMIT_MIB: u64 = 320;
    let place = Place::new();
    let Some(group) = Group::new(LIMIT_MIB << 20) else {
        eprintln!("skipped: no control group with a memory limit can be made here");
        return;
    };
    let sizes: Vec<String> = [100, 150, 200, 240, 265, 285, 305, 320, 340, 360, 380, 400]
        .iter()
        .map(|size| format!("{size}MiB"))
        .collect();
    let sizes = format!("size={}", sizes.join(","));
    let arguments = [
        "run",
        "file.cache_size",
        "--quick",
        "--seed",
        "1",
        "--out",
        "run.jsonl",
    ];
    let costof = place.costof(&[&arguments[..], &["--set", &sizes]].concat());
    let script = format!(
        "echo $$ > '{}/cgroup.procs' && exec \"$@\"",
        group.0.display()
    );
    let mut command = place.command(Path::new("sh"), &["-c", &script, "sh"]);
    command.arg(costof.get_program()).args(costof.get_args());
    let ended = run(&mut command);
    if ended.code == Some(3) {
        eprintln!("skipped: {}", ended.out);
        return;
    }
    let ended = ended.expect_code(0);
    place.expect_nothing_runs();
    let found = found_mib(&ended.out);
    let share = found / LIMIT_MIB as f64;
    assert!((0.9..=1.1).contains(&share), "{found} MiB: {}", ended.out);
    assert_contains(&ended.out, "the control group's memory limit");
    let run: Run = read(&place.path("run.jsonl"));
    let share = |mib: u64| {
        let mut rows = run.points.iter();
        let row = rows
            .find(|row| row.axes().number("size") == mib << 20)
            .unwrap();
        row.estimate("device_share").map(|estimate| estimate.median)
    };
    assert!(share(100).is_none_or(|share| share < 0.01));
    assert!(share(400).is_none_or(|share| share > 0.9));
}

/// The size that a finding names.
fn found_mib(out: &str) -> f64 {
    let (_, after) = out
        .split_once("comes from memory up to about ")
        .unwrap_or_else(|| panic!("there is no such finding in: {out}"));
    after.split(' ').next().unwrap().parse().unwrap()
}
