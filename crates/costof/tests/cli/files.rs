//! Probes of files in folders of every kind: what will not do is told with the reason, and nothing is
//! left of them, however they end.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, ended, or_skip, run, signal, skipped,
    spawn, status_of, wait_for, within,
};
use crate::limits::{ControlGroup, Limit};
use costof_model::failure::FailureKind;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use rustix::process::{Signal, geteuid, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Reads of a small file of this kind in this folder.
fn reading(cache: &str, folder: &Path) -> String {
    format!(
        "run --only file.read --quick --seed 1 --out run.jsonl --set size=1MiB --set cache={cache} \
         --set 'dir={}'",
        folder.display()
    )
}

/// The one point of a run has no number, as it is not to be had here for a reason that names all of these.
#[track_caller]
fn expect_unsupported(place: &Place, ended: Ended, named: &[&str]) {
    ended.expect_code(3);
    let run = place.run_file();
    assert_eq!(run.points.len(), 0, "{:?}", run.points);
    let failure = &run.failures[0];
    assert_eq!(failure.kind, FailureKind::Unsupported, "{failure:?}");
    assert_contains_all(&failure.reason, named);
    place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_folder_that_will_not_do_is_told_with_the_reason() {
    for (folder, says) in
        [("no/such", "No such file"), ("a file", "Not a directory"), ("/proc", "/proc")]
    {
        let place = Place::new();
        fs::write(place.path("a file"), "text").unwrap();
        let ended = place.run(&reading("warm", &place.path(folder)));
        expect_unsupported(&place, ended, &[says, "--set dir="]);
    }
}

#[test]
fn an_anonymous_export_names_no_folder() {
    let place = Place::new();
    let folder = place.path("secret");
    fs::create_dir(&folder).unwrap();
    let ended = place.run(&reading("warm", &folder));
    // A failure's reason would name it too.
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    for (options, is_named) in [("", true), ("--anonymous", false)] {
        let exported = place.run(&format!("export run.jsonl {options}")).expect_code(0).out;
        assert_eq!(exported.contains("secret"), is_named, "{options}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_folder_that_is_not_ones_own_is_refused() {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    let folder = place.path("others");
    fs::create_dir(&folder).unwrap();
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut costof = place.costof(&reading("warm", &folder));
    let mut tried = place.costof("--version");
    if geteuid().is_root() {
        // Root may write anywhere, so somebody else tries, who may be in this place.
        allow(&place.path("."), 0o777);
        allow(&folder, 0o700);
        for command in [&mut costof, &mut tried] {
            command.uid(NOBODY).gid(NOBODY);
        }
    } else {
        allow(&folder, 0o500);
    }
    if tried.output().is_err() {
        return skipped("nobody else may execute costof here");
    }
    expect_unsupported(&place, run(&mut costof), &["Permission denied"]);
}

/// Reads of this kind in a folder at which this is mounted, in a mount namespace that goes with it, are
/// refused with a reason that names this. `mount` names the folder `"$0"`.
#[track_caller]
fn expect_refused_where_mounted(place: &Place, mount: &str, cache: &str, named: &str) {
    let folder = place.path("mounted");
    fs::create_dir(&folder).unwrap();
    match run_where_mounted(place, mount, &folder, &reading(cache, &folder)) {
        Ok(ended) => expect_unsupported(place, ended, &[named]),
        Err(why) => skipped(why),
    }
}

/// costof with these arguments, where this is mounted at the folder, `"$0"`, in a mount namespace that goes with
/// it; or why nothing can be mounted here.
fn run_where_mounted(
    place: &Place,
    mount: &str,
    folder: &Path,
    line: &str,
) -> Result<Ended, String> {
    let user = if geteuid().is_root() { "-m" } else { "-rm" };
    let script = format!("{mount} || exit 77; exec \"$@\"");
    let folder = folder.display().to_string();
    let outer = ["unshare", user, "--propagation", "private", "sh", "-c", &script, &folder];
    let ended = run(&mut within(&outer, &place.costof(line)));
    if ended.code == Some(77) || ended.err.contains("unshare") {
        return Err(format!("cannot mount here: {}", ended.err.trim()));
    }
    Ok(ended)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_system_that_will_not_do_is_told_with_the_reason() {
    for (mount, cache, named) in [
        ("tmpfs -o ro", "warm", "Read-only file system"),
        // A disk is never filled.
        ("tmpfs -o size=1m", "warm", "would fill the disk"),
        // Files in memory are told from those on a disk.
        ("tmpfs", "direct", "in memory alone"),
    ] {
        let mount = format!("mount -t {mount} none \"$0\"");
        expect_refused_where_mounted(&Place::new(), &mount, cache, named);
    }
}

/// Makes a file system in a file, and mounts it with these options.
fn mount_image(options: &str) -> String {
    format!("truncate -s 64M image && mkfs.ext4 -q -F image && mount -o loop{options} image \"$0\"")
}

/// The same, past this kernel's cache of the file. The loop device goes with its mount.
fn mount_image_directly(options: &str) -> String {
    format!(
        "truncate -s 64M image && mkfs.ext4 -q -F image && \
         device=$(losetup --direct-io=on --find --show image) && \
         {{ mount {options} $device \"$0\"; status=$?; losetup -d $device; [ $status = 0 ]; }}"
    )
}

/// Mounts an overlay whose upper layer is in this folder.
fn mount_overlay(on: &str) -> String {
    format!(
        "mkdir {on}/lower {on}/upper {on}/work && mount -t overlay -o \
         lowerdir={on}/lower,upperdir={on}/upper,workdir={on}/work overlay \"$0\""
    )
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_system_without_direct_reads_says_so() {
    let mount = mount_image_directly("-o data=journal");
    expect_refused_where_mounted(&Place::new(), &mount, "direct", "past the page cache");
}

/// By `warm`, `cold`, `direct`, and `durable` for file.sync.
type ByKind<T> = BTreeMap<String, T>;

/// What is measured of reads that are warm, cold and direct, and of durable writes, where this is mounted: the
/// shares of the device by what they are of, and the reasons of the others.
fn measured_where_mounted(mount: &str) -> Result<(ByKind<f64>, ByKind<String>), String> {
    let place = Place::new();
    let folder = place.path("mounted");
    fs::create_dir(&folder).unwrap();
    let line = format!(
        "run file.read file.sync --only --quick --launches 3 --seed 1 --out run.jsonl \
         --set cache=warm,cold,direct --set size=1MiB --set 'dir={}'",
        folder.display()
    );
    let ended = run_where_mounted(&place, mount, &folder, &line)?;
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    let run = place.run_file();
    let what = |point: &Point| {
        let cache = point.axes.0.get("cache");
        cache.map_or("durable".to_owned(), ToString::to_string)
    };
    let shares = run.points.iter().map(|row| {
        let share = row.median("device_share").unwrap_or(f64::NAN);
        (what(&row.point), share)
    });
    let absent = run.failures.iter().filter(|row| row.launch.is_none());
    let reasons = absent.map(|row| (what(&row.point), row.reason.clone()));
    Ok((shares.collect(), reasons.collect()))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_overlay_on_a_disk_has_all_its_numbers_and_each_shows_where_bytes_came_from() {
    let (shares, reasons) = or_skip!(measured_where_mounted(&mount_overlay(".")));
    if shares.is_empty() || reasons.values().any(|why| why.contains("in memory")) {
        return skipped(format_args!("this folder is on no disk: {reasons:?}"));
    }
    assert!(shares["warm"] <= 0.01, "{shares:?}");
    for of_the_device in ["cold", "direct", "durable"] {
        assert!(shares[of_the_device] >= 0.99, "{shares:?} {reasons:?}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_in_memory_or_in_a_cached_file_has_warm_numbers_alone() {
    let in_memory = format!("mkdir t && mount -t tmpfs none t && {}", mount_overlay("t"));
    let in_a_file = mount_image("");
    for (mount, says) in [(in_memory, "in memory alone"), (in_a_file, "may have cached")] {
        let (shares, reasons) = or_skip!(measured_where_mounted(&mount));
        assert_eq!(shares.keys().collect::<Vec<_>>(), ["warm"], "{reasons:?}");
        for of_the_device in ["cold", "direct", "durable"] {
            assert_contains(&reasons[of_the_device], says);
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_loop_device_past_the_cache_is_read_from_the_disk() {
    let (shares, reasons) = or_skip!(measured_where_mounted(&mount_image_directly("")));
    if reasons.values().any(|why| why.contains("may have cached")) {
        return skipped("this file system has no direct reads for a loop device");
    }
    for of_the_device in ["cold", "direct"] {
        assert!(shares[of_the_device] >= 0.99, "{shares:?} {reasons:?}");
    }
}

/// Starts a run for files in a folder of its own, kills its controller when `is_begun`, with its workers
/// or alone, and sees to it that nothing of it runs and the folder is empty.
fn killed(line: &str, is_begun: impl Fn(&Place, &Path) -> bool, with_workers: bool) {
    let place = Place::new();
    let folder = place.path("files");
    fs::create_dir(&folder).unwrap();
    let line =
        format!("run --only {line} --full --seed 1 --out run.jsonl --set dir={}", folder.display());
    let controller = spawn(&mut place.costof(&line));
    wait_for("the files", || is_begun(&place, &folder) || place.running().is_empty());
    // What workers started themselves has another parent.
    let mut workers = place.running();
    workers.retain(|process| status_of(process.id(), "PPid") == Some(controller.id()));
    signal(&controller, Signal::KILL);
    for worker in workers.iter().filter(|_| with_workers) {
        let _ = kill_process(worker.pid, Signal::KILL);
    }
    ended(controller);
    place.expect_nothing_runs();
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn nothing_is_left_of_named_files_when_the_controller_is_killed() {
    let has_files = |_: &Place, folder: &Path| fs::read_dir(folder).unwrap().count() > 0;
    killed("file.metadata", has_files, false);
}

#[test]
fn contenders_end_when_all_others_are_killed() {
    // A controller, a worker that holds the machine, one that measures, the readers of their
    // commands, and its three.
    let has_contenders = |place: &Place, _: &Path| place.running().len() >= 8;
    let line = "file.contention --set size=1MiB --set contenders=3";
    killed(line, has_contenders, true);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_limit_of_a_control_group_is_found() {
    const LIMIT_MIB: u64 = 320;
    const SIZES: [u64; 12] = [100, 150, 200, 240, 265, 285, 305, 320, 340, 360, 380, 400];
    let bytes = (LIMIT_MIB << 20).to_string();
    let group = or_skip!(ControlGroup::new(
        "memory",
        &Limit {
            controller: "memory",
            v1: ("memory.limit_in_bytes", &bytes),
            v2: ("memory.max", &bytes),
        }
    ));
    let place = Place::new();
    let sizes = SIZES.map(|mib| format!("{mib}MiB")).join(",");
    let line = "run --only file.cache_size --quick --seed 1 --out run.jsonl --set";
    let ended = group.run(&place, &format!("{line} size={sizes}"));
    if ended.code == Some(3) {
        return skipped(ended.out);
    }
    let out = ended.expect_code(0).out;
    place.expect_nothing_runs();
    let run = place.run_file();
    // On a busy machine nothing is concluded.
    if run.points.iter().all(PointRow::is_sound) {
        let (_, found) = out
            .split_once("from memory up to about ")
            .unwrap_or_else(|| panic!("there is no such finding in: {out}"));
        let found: f64 = found.split(' ').next().unwrap().parse().unwrap();
        let share = found / LIMIT_MIB as f64;
        assert!((0.9..=1.1).contains(&share), "{found} MiB: {out}");
        assert_contains(&out, "control group's memory");
    }
    let share = |mib: u64| {
        let mut rows = run.points.iter();
        let row = rows.find(|row| row.axes().number("size") == mib << 20);
        let estimate = row.unwrap().estimate("device_share");
        estimate.map(|estimate| estimate.median)
    };
    assert!(share(100).is_none_or(|share| share < 0.01));
    assert!(share(400).is_none_or(|share| share > 0.9));
}
