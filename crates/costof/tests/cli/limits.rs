//! What a container does to its processes: limits, met by real ones.

use crate::common::{
    Ended, Place, assert_contains, is_installed, or_skip, run, skipped, wait_for, within,
    within_script,
};
use costof_model::noise::Grade;
use costof_model::rows::FailureRow;
use costof_model::run_file::Run;
use costof_os::sched::affinity;
use rustix::process::geteuid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group of this test's own.
pub(crate) struct ControlGroup {
    folder: PathBuf,
    members: PathBuf,
}

/// A limit, as cgroup v1 and v2 write it: a file and its content.
pub(crate) struct Limit<'a> {
    pub(crate) controller: &'a str,
    pub(crate) v1: (&'a str, &'a str),
    pub(crate) v2: (&'a str, &'a str),
}

impl ControlGroup {
    /// A group with this limit, or why there can be none here.
    pub(crate) fn new(name: &str, limit: &Limit<'_>) -> Result<ControlGroup, String> {
        let name = format!("costof-test-{name}-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join(limit.controller);
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (parent, members, (file, content)) = if v1.join("tasks").exists() {
            (v1, "tasks", limit.v1)
        } else if controllers.split_whitespace().any(|own| own == limit.controller) {
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
        let group = ControlGroup { members: folder.join(members), folder };
        fs::write(group.folder.join(file), content)
            .map_err(|error| failed("limit a cgroup", error))?;
        Ok(group)
    }

    /// Writes to one of its files.
    pub(crate) fn write(&self, file: &str, content: &str) {
        fs::write(self.folder.join(file), content).unwrap();
    }

    /// The command in this group.
    pub(crate) fn enter(&self, command: &Command) -> Command {
        let enter = format!("echo $$ > {} && exec \"$@\"", self.members.display());
        within_script(&enter, command)
    }

    /// costof in this group.
    pub(crate) fn run(&self, place: &Place, line: &str) -> Ended {
        run(&mut self.enter(&place.costof(line)))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_for("the cgroup to be empty", || {
            fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
        });
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn in_a_container_with_half_a_processor_the_rest_goes_on_and_the_quota_is_named() {
    let limit = Limit {
        controller: "cpu",
        v1: ("cpu.cfs_quota_us", "50000"),
        v2: ("cpu.max", "50000 100000"),
    };
    let group = or_skip!(ControlGroup::new("quota", &limit));
    let place = Place::new();
    let probes = ["cpu.loop", "os.syscall", "sync.mutex", "os.process"];
    let line = format!("run --only {} --quick --out run.jsonl", probes.join(" "));
    group.run(&place, &line).expect_code(0);
    let run = place.run_file();
    for probe in probes {
        let mut rows = run.points.iter();
        let mut failures = run.failures.iter();
        // A busy machine may leave it without a number.
        let is_refused = |row: &FailureRow| {
            row.point.probe == probe && row.reason.contains("twice the work took")
        };
        let is_there = rows.any(|row| row.point.probe == probe) || failures.any(is_refused);
        assert!(is_there, "{probe}: {:?}", run.failures);
    }
    // Where others leave it less than half a processor, the quota is never reached.
    let mut warnings: Vec<_> = run.points.iter().flat_map(|row| &row.warnings).collect();
    warnings.retain(|warning| ["throttled", "run_queue_wait"].contains(&&*warning.kind));
    let is_bad = warnings.iter().any(|warning| warning.grade >= Grade::C);
    assert!(is_bad, "{warnings:?}");
    let throttled = warnings.iter().find(|warning| warning.kind == "throttled");
    if let Some(throttled) = throttled {
        assert_contains(&throttled.advice, "cpu.max");
    }
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
class Instruction(ctypes.Structure):
    _fields_ = [('code', ctypes.c_ushort), ('jt', ctypes.c_ubyte), ('jf', ctypes.c_ubyte),
                ('k', ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.POINTER(Instruction))]
def filter_calls(instructions):
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    take_away(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = Program(len(instructions), (Instruction * len(instructions))(*instructions))
    take_away(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))
";

/// What an older kernel, or a container's filter, answers instead of doing it.
struct Refusal {
    call: u32,
    /// Only if this argument, and the bits of the mask, have this value.
    argument: Option<(u32, u32, u32)>,
    errno: u32,
}

impl Refusal {
    const fn of(call: u32, errno: u32) -> Refusal {
        Refusal { call, argument: None, errno }
    }

    const fn if_argument(self, position: u32, mask: u32, value: u32) -> Refusal {
        Refusal { argument: Some((position, mask, value)), ..self }
    }

    /// The steps of a seccomp filter: load the number; compare; load the argument; mask; compare; refuse.
    fn steps(&self) -> String {
        let Refusal { call, errno, .. } = self;
        let refuse = format!("(0x06, 0, 0, 0x00050000 | {errno}), ");
        let Some((position, mask, value)) = self.argument else {
            return format!("(0x20, 0, 0, 0), (0x15, 0, 1, {call}), {refuse}");
        };
        let argument = 16 + 8 * position;
        format!(
            "(0x20, 0, 0, 0), (0x15, 0, 4, {call}), (0x20, 0, 0, {argument}), \
             (0x54, 0, 0, {mask}), (0x15, 0, 1, {value}), {refuse}"
        )
    }
}

/// A Python program that puts a process below these refusals.
fn refusing(refusals: &[Refusal]) -> String {
    let steps: String = refusals.iter().map(Refusal::steps).collect();
    format!("filter_calls([{steps}(0x06, 0, 0, 0x7fff0000)])")
}

/// The number of a call on x86-64 and on aarch64; from 424 on they are the same.
const fn number(x86_64: u32, aarch64: u32) -> u32 {
    if cfg!(target_arch = "x86_64") { x86_64 } else { aarch64 }
}

const SETSOCKOPT: u32 = number(54, 208);
const GETSOCKOPT: u32 = number(55, 209);
const IO_URING_SETUP: u32 = 425;
const IO_URING_REGISTER: u32 = 427;
const CLONE3: u32 = 435;
const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSYS: u32 = 38;
const ENOPROTOOPT: u32 = 92;
/// The low half of an argument.
const ALL: u32 = u32::MAX;

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_needs_a_facility_that_the_kernel_lacks_is_absent_and_the_rest_goes_on() {
    let no_socket_option =
        |option| Refusal::of(SETSOCKOPT, ENOPROTOOPT).if_argument(2, ALL, option);
    let no_registration = |what| Refusal::of(IO_URING_REGISTER, EINVAL).if_argument(1, ALL, what);
    let reads = "file.read --set engine=pread,io_uring --set size=1MiB --set cache=warm";
    let receives = "copy.receive --set how=recv,multishot --set size=4KiB";
    let sends = "copy.send --set primitive=copy_and_send,io_uring_send --set size=4KiB";
    for (refusal, words, why) in [
        (Refusal::of(CLONE3, ENOSYS), "os.process --set how=fork,clone3", "Linux 5.3"),
        (Refusal::of(IO_URING_SETUP, ENOSYS), reads, "not implemented"),
        (Refusal::of(IO_URING_SETUP, EPERM), receives, "seccomp"),
        // Their numbers: IORING_REGISTER_PROBE, IORING_REGISTER_PBUF_RING.
        (no_registration(8), reads, "IORING_OP_READ (Linux 5.6)"),
        (no_registration(8), sends, "IORING_OP_SENDMSG"),
        (no_registration(22), receives, "Linux 5.19"),
        // SO_ZEROCOPY, TCP_ZEROCOPY_RECEIVE, and UDP_SEGMENT, which the receiver asks for first.
        (
            no_socket_option(60),
            "copy.send --set primitive=copy_and_send,msg_zerocopy --set size=4KiB",
            "SO_ZEROCOPY",
        ),
        (
            Refusal::of(GETSOCKOPT, ENOPROTOOPT).if_argument(2, ALL, 35),
            "copy.receive --set how=recv,zero_copy --set size=64KiB",
            "Linux 4.18",
        ),
        (
            no_socket_option(103),
            "copy.send --set over=udp,udp_gso --set primitive=copy_and_send --set size=32KiB",
            "UDP_SEGMENT",
        ),
    ] {
        let words = format!("run --only {words} --quick --launches 3 --out run.jsonl");
        let run = or_skip!(run_without(&refusing(&[refusal]), &words));
        expect_one_measured_and_one_absent(&run, why);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_has_another_way_is_measured_on_an_old_kernel_too() {
    // close_range (5.9), cachestat (6.5), fsopen (5.2), MADV_POPULATE_WRITE (5.14), MFD_EXEC (6.3); what
    // containers forbid: perf_event_open, inotify_init1.
    let old = [
        Refusal::of(436, ENOSYS),
        Refusal::of(451, ENOSYS),
        Refusal::of(430, ENOSYS),
        Refusal::of(number(28, 233), EINVAL).if_argument(2, ALL, 23),
        Refusal::of(number(319, 279), EINVAL).if_argument(1, 0x10, 0x10),
        Refusal::of(number(298, 241), EPERM),
        Refusal::of(number(294, 26), ENOSYS),
    ];
    let old = refusing(&old);
    for words in [
        "file.read --set engine=pread --set size=1MiB --set cache=cold",
        "memory.latency --set size=4MiB --set pages=4KiB",
        "os.process --set how=posix_spawn --set exec=yes",
        "cpu.neighbour",
    ] {
        let words = format!("run --only {words} --quick --launches 3 --out run.jsonl");
        let run = or_skip!(run_without(&old, &words));
        assert_eq!((run.points.len(), absent(&run)), (1, vec![]), "{words}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn on_a_kernel_without_huge_pages_their_points_are_absent_and_the_rest_goes_on() {
    let disable = "
PR_SET_THP_DISABLE = 41
take_away(PR_SET_THP_DISABLE, 1, 0, 0, 0)
";
    let faults = "os.page_fault --set kind=minor_anonymous,huge";
    let latency = "memory.latency --set size=4MiB --set pages=4KiB,2MiB";
    for (probe, axis, huge) in [(faults, "kind", "huge"), (latency, "pages", "2MiB")] {
        let words = format!("run --only {probe} --quick --out run.jsonl");
        let run = or_skip!(run_without(disable, &words));
        expect_one_measured_and_one_absent(&run, "PR_SET_THP_DISABLE");
        assert_eq!(absent(&run)[0].point.axes.word(axis), huge);
    }
}

/// What costof measured in a process from which a Python program has taken
/// something away, or why none can.
#[track_caller]
fn run_without(take_away: &str, words: &str) -> Result<Run, String> {
    if !is_installed("python3") {
        return Err("no python3".to_owned());
    }
    let place = Place::new();
    let ended = run(&mut without(take_away, &place.costof(words)));
    if ended.code == Some(CANNOT_BE_TAKEN_AWAY) {
        return Err(ended.err);
    }
    ended.expect_code(0);
    Ok(place.run_file())
}

/// The command in a process from which a Python program has taken something away.
pub(crate) fn without(take_away: &str, command: &Command) -> Command {
    let program = format!("{PYTHON}{take_away}\nos.execvp(sys.argv[1], sys.argv[1:])");
    within_script(&format!("exec python3 -c \"{program}\" \"$@\""), command)
}

#[test]
fn more_threads_than_the_limit_allows_are_absent_and_the_rest_goes_on() {
    let limit = Limit { controller: "pids", v1: ("pids.max", "24"), v2: ("pids.max", "24") };
    let group = or_skip!(ControlGroup::new("threads", &limit));
    let place = Place::new();
    let line = "run --only sync.mutex --set threads=1,64 --quick --out run.jsonl";
    group.run(&place, line).expect_code(0);
    expect_one_measured_and_one_absent(&place.run_file(), "pids.max");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn no_limit_of_threads_makes_costof_panic_or_wait_for_ever() {
    for max in ["2", "3", "4", "5", "6", "7", "8", "9", "10", "12", "14"] {
        let limit = Limit { controller: "pids", v1: ("pids.max", max), v2: ("pids.max", max) };
        let group = or_skip!(ControlGroup::new(&format!("panic-{max}"), &limit));
        for hosts in ["", "--on local --on netns:none"] {
            let line = format!("run --only null --quick --out run.jsonl {hosts}");
            let ended = group.run(&Place::new(), &line);
            let is_well = matches!(ended.code, Some(0 | 2 | 3)) && !ended.err.contains("panicked");
            assert!(is_well, "pids.max {max}: {ended:?}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_too_much_for_this_machine_or_run_is_absent_and_the_rest_goes_on() {
    let cpu = affinity::allowed().unwrap()[0];
    // On a single CPU, what needs two is left out.
    let mutexes = format!("sync.mutex --set threads=1,2 --cpu {cpu}");
    for (words, what) in [
        ("memory.bandwidth --set size=16KiB,1TiB", "1TiB"),
        ("memory.latency --set size=16KiB,1TiB", "1TiB"),
        ("os.process --set resident=0,1TiB", "1TiB"),
        (&mutexes, "--cpu"),
    ] {
        expect_one_measured_and_one_absent(&Place::new().measured(words), what);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_line_goes_between_the_processors_of_the_run_and_no_others() {
    let allowed = affinity::allowed().unwrap();
    let [.., other, last] = *allowed else {
        return skipped("this process may use one CPU only");
    };
    let place = Place::new();
    let measured = |cpus: &str, file: &str| {
        let line = format!("run --only null sync.core_to_core --quick --cpu {cpus} --out {file}");
        place.run(&line).expect_code(0);
        place.read(file)
    };
    let alone = measured(&last.to_string(), "alone.jsonl");
    expect_one_measured_and_one_absent(&alone, &format!("this run's ({last})"));

    let both = measured(&format!("{last},{other}"), "both.jsonl");
    assert_eq!(both.failures, []);
    let points: Vec<String> = both.points.iter().map(|row| row.point.to_string()).collect();
    assert_eq!(points.len(), 2, "{points:?}");
    assert_contains(&points.concat(), &format!("from={other} to={last}"));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_plan_has_no_more_threads_than_suit_the_processors_of_the_run() {
    let allowed = affinity::allowed().unwrap();
    for count in [1, 2].into_iter().filter(|count| *count <= allowed.len()) {
        let cpus: Vec<String> = allowed[..count].iter().map(ToString::to_string).collect();
        let line = format!("run sync.mutex --dry-run --cpu {}", cpus.join(","));
        let planned = Place::new().run(&line).expect_code(0).out;
        assert_eq!(planned.contains("threads=4"), count > 1, "{planned}");
    }
}

/// A process may be allowed to use CPUs that are offline, as in virtual machines that could have more.
#[test]
fn an_offline_processor_is_not_chosen() {
    let allowed = affinity::allowed().unwrap();
    if !geteuid().is_root() || allowed.len() < 2 {
        return skipped("only root can change what /sys shows, and there must be two CPUs");
    }
    let script = format!(
        "echo {} > online && mount --bind online /sys/devices/system/cpu/online && exec \"$@\"",
        allowed[0]
    );
    let private = ["unshare", "--mount", "--propagation", "private"];
    let outer = [&private[..], &["sh", "-c", &script, "sh"]].concat();
    let place = Place::new();
    let line = "run --only null --quick --out run.jsonl";
    run(&mut within(&outer, &place.costof(line))).expect_code(0);
    let placement = place.run_file().run.plan.placement;
    assert_eq!(placement.0.get("only"), Some(&vec![allowed[0]]));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_memlock_that_is_too_small_is_named() {
    let place = Place::new();
    let words =
        "run --only os.pin --set how=io_uring,vmsplice --set size=1MiB --quick --out run.jsonl";
    // Root may lock as much as it likes, unless it has lost that.
    let script = "ulimit -l 64 && case $(id -u) in \
                  0) exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\";; \
                  *) exec \"$@\";; esac";
    let ended = run(&mut within_script(script, &place.costof(words)));
    ended.expect_code(0);
    let run = place.run_file();
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
    assert_contains(&absent[0].reason, what);
    assert!(run.end.is_some());
}
