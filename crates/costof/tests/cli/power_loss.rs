//! Power loss: the writes of a real costof, as strace records them, cut at every one of them. Of what was not
//! synchronized by then, anything may have reached the disk: all, a part or nothing, whatever of the later writes has.
//!
//! The idea is ALICE's (Pillai et al., OSDI 2014). The disk is one that never shows what it held before: what is
//! missing in the middle of a file reads as zeros (ext4 with ordered data, XFS, btrfs).

use crate::common::{Place, expect_every_launch, may_trace, or_skip, run, within};
use costof_model::run_file::{self, RunFileError};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::iter::once;
use std::ops::Range;
use std::path::Path;

/// How many power failures are tried after each call.
const TRIED: usize = 25;
/// What of a write reaches the disk or does not, as a whole.
const SECTOR: usize = 512;

/// A call that changes what is on the disk, or waits for that, with the paths that it names.
#[derive(Debug)]
enum Call {
    Create(String),
    Write(String, Vec<u8>),
    Cut(String, usize),
    Sync(String),
    Rename(String, String),
}

/// What a disk holds: files by their paths.
type Disk = BTreeMap<String, Vec<u8>>;

/// A file, whatever its name is.
#[derive(Default)]
struct File {
    /// What reached the disk.
    bytes: Vec<u8>,
    /// Its length, as processes see it.
    length: usize,
}

impl File {
    /// This part of what was written at the file's end reaches the disk.
    fn reach(&mut self, start: usize, bytes: &[u8], part: Range<usize>) {
        let end = start + part.end;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[start + part.start..end].copy_from_slice(&bytes[part]);
    }
}

/// What of a write that is not synchronized reaches the disk; an empty part at the end: its length alone.
fn torn(start: usize, length: usize, random: &mut Rng) -> Vec<Range<usize>> {
    let mut parts = match random.u8(..4) {
        0 => Vec::new(),
        1 => once(0..length).collect(),
        2 => once(0..random.usize(..=length)).collect(),
        _ => {
            let sectors = (start / SECTOR)..=((start + length) / SECTOR);
            let sectors = sectors.filter(|_| random.bool()).map(|sector| {
                let first = (sector * SECTOR).saturating_sub(start);
                first..((sector + 1) * SECTOR - start).min(length)
            });
            sectors.collect()
        }
    };
    if random.bool() {
        parts.push(length..length);
    }
    parts
}

/// The disk when the power fails after these calls; without randomness, what processes see then.
fn disk_after(before: &Disk, calls: &[Call], random: Option<&mut Rng>) -> Disk {
    let mut files: Vec<File> = Vec::new();
    // Which file a path is, to processes and on the disk.
    let (mut seen, mut on_disk) = (BTreeMap::new(), BTreeMap::new());
    for (path, bytes) in before {
        seen.insert(path, files.len());
        on_disk.insert(path, files.len());
        let (bytes, length) = (bytes.clone(), bytes.len());
        files.push(File { bytes, length });
    }
    let may_lose = random.is_some();
    let mut unused = Rng::with_seed(0);
    let random = random.unwrap_or(&mut unused);
    for (at, call) in calls.iter().enumerate() {
        let is_safe = |path: &str| {
            let is_sync = |call: &Call| matches!(call, Call::Sync(synced) if synced == path);
            !may_lose || calls[at..].iter().any(is_sync)
        };
        match call {
            Call::Create(path) => {
                seen.insert(path, files.len());
                if is_safe(folder(path)) || random.bool() {
                    on_disk.insert(path, files.len());
                }
                files.push(File::default());
            }
            Call::Write(path, bytes) => {
                let file = &mut files[seen[path]];
                let start = file.length;
                file.length += bytes.len();
                let parts = if is_safe(path) {
                    once(0..bytes.len()).collect()
                } else {
                    torn(start, bytes.len(), random)
                };
                for part in parts {
                    file.reach(start, bytes, part);
                }
            }
            Call::Cut(path, length) => {
                let file = &mut files[seen[path]];
                file.length = *length;
                if is_safe(path) || random.bool() {
                    file.bytes.truncate(*length);
                }
            }
            Call::Rename(from, to) => {
                let file = seen.remove(from).expect("it was created");
                seen.insert(to, file);
                if is_safe(folder(to)) || random.bool() {
                    on_disk.remove(from);
                    on_disk.insert(to, file);
                }
            }
            Call::Sync(_) => {}
        }
    }
    let found = on_disk.into_iter();
    found.map(|(path, file)| (path.clone(), files[file].bytes.clone())).collect()
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').expect("paths are absolute").0
}

/// What the calls before the last synchronization of a file made of it: a power failure takes nothing of that.
fn kept<'c>(path: &str, calls: &'c [Call]) -> &'c [Call] {
    let is_sync = |call: &Call| matches!(call, Call::Sync(synced) if synced == path);
    &calls[..calls.iter().rposition(is_sync).map_or(0, |last| last + 1)]
}

/// Each state of the disk that a power failure may leave, with the calls before it.
fn power_failures(before: &Disk, calls: &[Call], mut check: impl FnMut(&Disk, &[Call])) {
    for made in 0..=calls.len() {
        let calls = &calls[..made];
        for seed in 0..TRIED {
            let mut random = Rng::with_seed((made * TRIED + seed) as u64);
            check(&disk_after(before, calls, Some(&mut random)), calls);
        }
    }
}

/// What a command of the misbehaving costof does to files of a place, as its main thread calls for it.
fn traced(place: &Place, line: &str) -> Vec<Call> {
    let trace = place.path("trace");
    let strace = "strace -qq -y -xx -s 100000000 -e trace=openat,write,ftruncate,fsync,fdatasync,rename,renameat --output";
    let mut outer: Vec<&str> = strace.split(' ').collect();
    let file = trace.display().to_string();
    outer.push(&file);
    run(&mut within(&outer, &place.misbehaving(line))).expect_code(0);
    let here = place.path("").canonicalize().unwrap();
    let calls = fs::read_to_string(&trace).unwrap();
    let calls = calls.lines().filter_map(call);
    // The history's index is another test's.
    let is_meant = |path: &Path| path.starts_with(&here) && !path.starts_with(here.join("state"));
    calls.filter(|call| is_meant(call.path().as_ref())).collect()
}

impl Call {
    fn path(&self) -> &str {
        match self {
            Call::Create(path) | Call::Write(path, _) | Call::Cut(path, _) => path,
            Call::Sync(path) | Call::Rename(path, _) => path,
        }
    }
}

/// The call in a line of a trace, if it succeeded and matters.
fn call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") ")?;
    let result = result.trim_start().strip_prefix("= ")?;
    let opened = |text: &str| text.split(['<', '>']).nth(1).map(text_of);
    let texts: Vec<Vec<u8>> = arguments.split('"').skip(1).step_by(2).map(bytes_of).collect();
    let path = opened(arguments);
    match name {
        "openat" if arguments.contains("O_EXCL") => Some(Call::Create(opened(result)?)),
        "write" => {
            let written = result.parse().ok()?;
            Some(Call::Write(path?, texts.first()?[..written].to_vec()))
        }
        "ftruncate" if result == "0" => {
            let (_, length) = arguments.rsplit_once(", ")?;
            Some(Call::Cut(path?, length.parse().ok()?))
        }
        "fsync" | "fdatasync" if result == "0" => Some(Call::Sync(path?)),
        "rename" | "renameat" if result == "0" => {
            let text = |at: usize| String::from_utf8(texts[at].clone()).unwrap();
            Some(Call::Rename(text(0), text(1)))
        }
        _ => None,
    }
}

/// The bytes that strace writes as `\x41\x42`.
fn bytes_of(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

fn text_of(text: &str) -> String {
    String::from_utf8(bytes_of(text)).unwrap()
}

/// The whole lines of a file.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    &bytes[..end.map_or(0, |end| end + 1)]
}

/// What power failures leave of `run.jsonl`, when these calls are made from there on: it reads at least up to where
/// it was synchronized last. Returns some of the files, with what must stay of them.
fn read_up_to_the_last_sync(place: &Place, before: &Disk, calls: &[Call]) -> Vec<[Vec<u8>; 2]> {
    let here = place.path("").canonicalize().unwrap();
    let path = here.join("run.jsonl").display().to_string();
    let mut some = Vec::new();
    power_failures(before, calls, |disk, calls| {
        let synced = disk_after(before, kept(&path, calls), None);
        let synced = synced.get(&path).map_or(&[][..], |bytes| whole_lines(bytes));
        let Some(file) = disk.get(&path) else {
            let is_named = !kept(folder(&path), calls).is_empty() || !before.is_empty();
            return assert!(!is_named, "no file after {} calls", calls.len());
        };
        assert!(file.starts_with(synced), "after {} calls", calls.len());
        match run_file::read(&file[..]) {
            Ok(run) => assert!(run.whole_bytes >= synced.len() as u64),
            Err(RunFileError::Empty | RunFileError::Unfinished) => {
                return assert_eq!(synced, b"");
            }
            Err(error) => panic!("after {} calls: {error}", calls.len()),
        }
        if some.len() < calls.len() {
            some.push([file.clone(), synced.to_vec()]);
        }
    });
    some
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_reads_up_to_its_last_sync_and_goes_on_from_there() {
    or_skip!(may_trace());
    let place = Place::new();
    let file = place.path("run.jsonl");
    let line = "run test.good test.slow --quick --launches 3 --seed 1 --out run.jsonl";
    let calls = traced(&place, line);
    let whole = fs::read(&file).unwrap();
    let mut found = read_up_to_the_last_sync(&place, &Disk::new(), &calls);
    // And a run that goes on after one, with a torn line.
    let torn = &whole[..whole.len() * 2 / 3];
    fs::write(&file, torn).unwrap();
    let calls = traced(&place, "run --resume run.jsonl");
    let path = file.canonicalize().unwrap().display().to_string();
    found.extend(read_up_to_the_last_sync(&place, &Disk::from([(path, torn.to_vec())]), &calls));
    // All read; some go on for real. How many there are depends on how often it had time to synchronize.
    assert!(found.len() > 12, "{} files", found.len());
    Rng::with_seed(1).shuffle(&mut found);
    for [bytes, synced] in &found[..6] {
        fs::write(&file, bytes).unwrap();
        place.run_misbehaving("run --resume run.jsonl").expect_code(0);
        assert!(fs::read(&file).unwrap().starts_with(synced));
        let run = place.run_file();
        expect_every_launch(&run);
        for point in run.run.plan.points() {
            // On a busy machine it may have no number, but the reason.
            let failed = run.failures.iter().filter(|row| row.launch.is_none());
            let known = run.points.iter().map(|row| &row.point);
            let known = known.chain(failed.map(|row| &row.point));
            assert_eq!(known.filter(|known| *known == point).count(), 1, "{point}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_report_is_the_old_one_or_the_new_one() {
    or_skip!(may_trace());
    let place = Place::new();
    let report = "report run.jsonl --html page.html --csv values/";
    place.run_misbehaving("run test.good --quick --out run.jsonl").expect_code(0);
    place.run_misbehaving(report).expect_code(0);
    let here = place.path("").canonicalize().unwrap();
    let mut before = Disk::new();
    // Older, and longer.
    let path = here.join("page.html");
    fs::write(&path, fs::read(&path).unwrap().repeat(2)).unwrap();
    before.insert(path.display().to_string(), fs::read(&path).unwrap());
    fs::remove_dir_all(place.path("values")).unwrap();
    let calls = traced(&place, report);
    let after = disk_after(&before, &calls, None);
    assert!(after.len() > 2, "{:?}", after.keys());
    power_failures(&before, &calls, |disk, made| {
        for (path, new) in &after {
            let old = before.get(path);
            let found = disk.get(path);
            let is_new = found == Some(new);
            assert!(is_new || found == old, "{path} after {} calls", made.len());
            // Who reads that it is written can rely on that.
            assert!(is_new || made.len() < calls.len(), "{path} is lost");
        }
    });
}
