//! What a container does to its processes: limits, met by real ones.

use crate::common::{Ended, Place, read, run, wait_for};
use costof_model::noise::Grade;
use costof_model::rows::{FailureRow, PointRow};
use costof_model::run_file::Run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group of this test's own.
struct ControlGroup {
    folder: PathBuf,
    members: PathBuf,
}

/// A limit, as cgroup v1 and v2 write it: a file and its content.
struct Limit<'a> {
    controller: &'a str,
    v1: (&'a str, &'a str),
    v2: (&'a str, &'a str),
}

impl ControlGroup {
    /// A group with this limit, or why there can be none here.
    fn new(name: &str, limit: &Limit<'_>) -> Result<ControlGroup, String> {
        let name = format!("costof-test-{name}-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join(limit.controller);
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (parent, members, (file, content)) = if v1.join("tasks").exists() {
            (v1, "tasks", limit.v1)
        } else if controllers
            .split_whitespace()
            .any(|own| own == limit.controller)
        {
            // Best effort: where it is refused, the limit's file is missing below.
            let asked = format!("+{}", limit.controller);
            let _ = fs::write(root.join("cgroup.subtree_control"), asked);
            (root.to_owned(), "cgroup.procs", limit.v2)
        } else {
            return Err(format!("no cgroup controller {}", limit.controller));
        };
        let folder = parent.join(name);
        let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        fs::create_dir(&folder).map_err(|error| failed("make a cgroup", error))?;
        let group = ControlGroup {
            members: folder.join(members),
            folder,
        };
        fs::write(group.folder.join(file), content)
            .map_err(|error| failed("limit a cgroup", error))?;
        Ok(group)
    }

    /// costof in this group.
    fn costof(&self, place: &Place, words: &str) -> Ended {
        let enter = format!("echo $$ > {} && exec \"$@\"", self.members.display());
        costof_by(&enter, place, words)
    }
}

/// costof, started by a shell script that ends with `exec "$@"`.
fn costof_by(script: &str, place: &Place, words: &str) -> Ended {
    let costof = place.costof(words);
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(costof.get_program())
        .args(costof.get_args())
        .current_dir(costof.get_current_dir().unwrap());
    for (name, value) in costof.get_envs() {
        command.env(name, value.unwrap());
    }
    run(&mut command)
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_for("the cgroup to be empty", || {
            fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
        });
    }
}

#[test]
fn in_a_container_with_half_a_processor_the_rest_goes_on_and_the_quota_is_named() {
    let limit = Limit {
        controller: "cpu",
        v1: ("cpu.cfs_quota_us", "50000"),
        v2: ("cpu.max", "50000 100000"),
    };
    let group = match ControlGroup::new("quota", &limit) {
        Ok(group) => group,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let place = Place::new();
    let probes = ["cpu.loop", "os.syscall", "sync.mutex", "os.process"];
    let words = format!("run {} --quick --out run.jsonl", probes.join(" "));
    group.costof(&place, &words).expect_code(0);
    let run = read(&place.path("run.jsonl"));
    for probe in probes {
        let of_it = |row: &&PointRow| row.point.probe == probe;
        assert!(run.points.iter().any(|row| of_it(&row)), "{probe}");
    }
    let held_back: Vec<_> = run
        .points
        .iter()
        .flat_map(|row| &row.warnings)
        .filter(|warning| warning.kind == "throttled")
        .collect();
    assert!(
        held_back.iter().any(|warning| warning.grade >= Grade::C),
        "{held_back:?}"
    );
    assert!(held_back[0].advice.contains("cpu.max"));
}

/// The start of a Python program that replaces itself by its arguments, in a
/// process whose kernel lacks something. Ends with this code where it cannot.
const CANNOT_BE_TAKEN_AWAY: i32 = 77;
const PYTHON: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def take_away(*arguments):
    if libc.prctl(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments)) != 0:
        print('prctl', arguments[0], os.strerror(ctypes.get_errno()), file=sys.stderr)
        sys.exit(77)
";

#[test]
fn on_a_kernel_without_clone3_its_points_are_absent_and_the_rest_goes_on() {
    // A filter that answers ENOSYS to call number 435, which has that number on
    // every architecture: load the number; compare; refuse; allow.
    let filter = "
class Instruction(ctypes.Structure):
    _fields_ = [('code', ctypes.c_ushort), ('jt', ctypes.c_ubyte), ('jf', ctypes.c_ubyte),
                ('k', ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.POINTER(Instruction))]
instructions = (Instruction * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 435),
                                 (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000))
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
take_away(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
take_away(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(4, instructions)))
";
    let words = "run os.process --set how=fork,clone3 --quick --out run.jsonl";
    let run = match run_without(filter, words) {
        Ok(run) => run,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    expect_one_measured_and_one_absent(&run, "Linux 5.3");
    assert_eq!(absent(&run)[0].point.axes.word("how"), "clone3");
}

#[test]
fn on_a_kernel_without_huge_pages_their_points_are_absent_and_the_rest_goes_on() {
    let disable = "
PR_SET_THP_DISABLE = 41
take_away(PR_SET_THP_DISABLE, 1, 0, 0, 0)
";
    for (probe, axis, huge) in [
        (
            "os.page_fault --set kind=minor_anonymous,huge",
            "kind",
            "huge",
        ),
        (
            "memory.latency --set size=4MiB --set pages=4KiB,2MiB",
            "pages",
            "2MiB",
        ),
    ] {
        let words = format!("run {probe} --quick --out run.jsonl");
        let run = match run_without(disable, &words) {
            Ok(run) => run,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        expect_one_measured_and_one_absent(&run, "PR_SET_THP_DISABLE");
        assert_eq!(absent(&run)[0].point.axes.word(axis), huge);
    }
}

/// What costof measured in a process from which a Python program has taken
/// something away, or why none can.
#[track_caller]
fn run_without(take_away: &str, words: &str) -> Result<Run, String> {
    if Command::new("python3").arg("--version").output().is_err() {
        return Err("no python3".to_owned());
    }
    let place = Place::new();
    let program = format!("{PYTHON}{take_away}\nos.execvp(sys.argv[1], sys.argv[1:])");
    let python = format!("exec python3 -c \"{program}\" \"$@\"");
    let ended = costof_by(&python, &place, words);
    if ended.code == Some(CANNOT_BE_TAKEN_AWAY) {
        return Err(ended.err);
    }
    ended.expect_code(0);
    Ok(read(&place.path("run.jsonl")))
}

#[test]
fn more_threads_than_the_limit_allows_are_absent_and_the_rest_goes_on() {
    let limit = Limit {
        controller: "pids",
        v1: ("pids.max", "24"),
        v2: ("pids.max", "24"),
    };
    let group = match ControlGroup::new("threads", &limit) {
        Ok(group) => group,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let place = Place::new();
    let words = "run sync.mutex --set threads=1,64 --quick --out run.jsonl";
    group.costof(&place, words).expect_code(0);
    let run = read(&place.path("run.jsonl"));
    expect_one_measured_and_one_absent(&run, "pids.max");
}

#[test]
fn a_size_that_memory_cannot_hold_is_absent_and_the_rest_goes_on() {
    for probe in ["memory.bandwidth", "memory.latency"] {
        let place = Place::new();
        let words = ["run", probe, "--set", "size=16KiB,1TiB", "--quick"];
        run(place.costof(&words).args(["--out", "run.jsonl"])).expect_code(0);
        let run = read(&place.path("run.jsonl"));
        expect_one_measured_and_one_absent(&run, "1TiB");
    }
    let place = Place::new();
    let words = "run os.process --set resident=0,1TiB --quick --out run.jsonl";
    let words: Vec<&str> = words.split(' ').collect();
    run(&mut place.costof(&words)).expect_code(0);
    expect_one_measured_and_one_absent(&read(&place.path("run.jsonl")), "1TiB");
}

#[test]
fn a_single_processor_leaves_out_what_needs_two_and_says_so() {
    let cpu = costof_os::sched::affinity::allowed().unwrap()[0].to_string();
    let place = Place::new();
    let words = "run sync.mutex --set threads=1,2 --quick --out run.jsonl --cpu";
    let words: Vec<&str> = words.split(' ').chain([&*cpu]).collect();
    run(&mut place.costof(&words)).expect_code(0);
    expect_one_measured_and_one_absent(&read(&place.path("run.jsonl")), "--cpu");
}

#[test]
fn a_line_goes_between_the_processors_of_the_run_and_no_others() {
    let allowed = costof_os::sched::affinity::allowed().unwrap();
    let [.., other, last] = *allowed else {
        eprintln!("skipped: this process may use one processor only");
        return;
    };
    let place = Place::new();
    let measured = |cpus: &str, file: &str| {
        let words = "run null sync.core_to_core --quick --cpu";
        let words: Vec<&str> = words.split(' ').chain([cpus, "--out", file]).collect();
        run(&mut place.costof(&words)).expect_code(0);
        read(&place.path(file))
    };
    let alone = measured(&last.to_string(), "alone.jsonl");
    expect_one_measured_and_one_absent(&alone, &format!("this run's ({last})"));

    let both = measured(&format!("{last},{other}"), "both.jsonl");
    assert_eq!(both.failures, []);
    let points: Vec<String> = both
        .points
        .iter()
        .map(|row| row.point.to_string())
        .collect();
    let pair = format!("from={other} to={last}");
    assert_eq!(points.len(), 2, "{points:?}");
    assert!(
        points.iter().any(|point| point.contains(&pair)),
        "{points:?}"
    );
}

#[test]
fn a_plan_has_no_more_threads_than_suit_the_processors_of_the_run() {
    let allowed = costof_os::sched::affinity::allowed().unwrap();
    let place = Place::new();
    let planned = |cpus: &[usize]| {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let words = ["run", "sync.mutex", "--dry-run", "--cpu", &cpus.join(",")];
        run(&mut place.costof(&words)).expect_code(0).out
    };
    assert!(!planned(&allowed[..1]).contains("threads=4"));
    if allowed.len() > 1 {
        assert!(planned(&allowed[..2]).contains("threads=4"));
    }
}

#[test]
fn a_memlock_that_is_too_small_is_named() {
    let place = Place::new();
    let words = "run os.pin --set how=io_uring,vmsplice --set size=1MiB --quick --out run.jsonl";
    // Root may lock as much as it likes, unless it has lost that.
    let script = "ulimit -l 64 && case $(id -u) in \
                  0) exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\";; \
                  *) exec \"$@\";; esac";
    costof_by(script, &place, words).expect_code(0);
    let run = read(&place.path("run.jsonl"));
    let absent = absent(&run);
    let [pinned] = absent.as_slice() else {
        panic!("{absent:?}");
    };
    let names_it = |what| pinned.reason.contains(what);
    // Where a container forbids io_uring, that is the reason.
    assert!(names_it("memlock") || names_it("io_uring is"), "{pinned:?}");
    assert!(!run.points.is_empty());
}

/// The points that have no number.
fn absent(run: &Run) -> Vec<&FailureRow> {
    let failures = run.failures.iter();
    failures.filter(|row| row.launch.is_none()).collect()
}

/// Of two points the first has a number, and the other is absent for a reason
/// that names `what`.
#[track_caller]
fn expect_one_measured_and_one_absent(run: &Run, what: &str) {
    let points: Vec<_> = run.run.plan.points().collect();
    assert_eq!(points.len(), 2);
    let absent = absent(run);
    assert_eq!(run.points.len(), 1, "{absent:?}");
    assert_eq!(absent.len(), 1);
    assert!(absent[0].reason.contains(what), "{}", absent[0].reason);
    assert!(run.end.is_some());
}
