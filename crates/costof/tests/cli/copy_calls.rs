//! The system calls of the loops that `copy.send` measures, as strace sees them: those that each
//! way of sending names, and the clock of processor time beside them.

use crate::common::{COSTOF, Place, may_trace, skipped};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The calls of a loop, each once.
type Calls = BTreeSet<String>;

/// Between sending or receiving, this alone is asked for now and then.
const CLOCK: &str = "clock_gettime CLOCK_THREAD_CPUTIME_ID";
/// What a thread asks for at once before and after its loop.
const USAGE: &str = "getrusage RUSAGE_THREAD";
/// What it asks for in its loop where the clock is no page that it reads.
const TIME: &str = "clock_gettime CLOCK_MONOTONIC_RAW";

/// Each way of sending with what it calls. Two that call the same are told apart by their number.
const WAYS: [(&str, &[&str]); 10] = [
    ("copy_and_send", &["sendto"]),
    ("sendmsg", &["sendmsg"]),
    ("msg_zerocopy", &["sendmsg MSG_ZEROCOPY", "recvmsg MSG_ERRQUEUE"]),
    ("msg_zerocopy_body", &["sendmsg MSG_MORE", "sendmsg MSG_ZEROCOPY", "recvmsg MSG_ERRQUEUE"]),
    ("send_each", &["sendto"]),
    ("io_uring_send", &["io_uring_enter"]),
    ("io_uring_send_zc", &["io_uring_enter"]),
    ("sendfile_memfd", &["sendfile"]),
    ("sendfile_file", &["sendfile"]),
    ("splice", &["splice", "vmsplice"]),
];

#[test]
#[ignore = "long; ./check --all runs it"]
fn each_way_of_sending_calls_what_it_names_and_nothing_else() {
    let ways: Vec<_> = WAYS.iter().map(|(name, _)| *name).collect();
    expect_calls(&format!("primitive={}", ways.join(",")), &WAYS, &[]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn so_does_one_that_knows_the_messages_before() {
    let is_registered = |way: &&(&str, &[&str])| way.0.starts_with("io_uring_");
    let ways: Vec<_> = WAYS.iter().filter(is_registered).copied().collect();
    let settings = "primitive=io_uring_send,io_uring_send_zc --set buffers=registered";
    expect_calls(settings, &ways, &[]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn one_that_allocates_may_ask_for_memory_and_one_that_is_answered_receives() {
    let settings = "primitive=copy_and_send --set allocate=per_message";
    expect_calls(settings, &WAYS[..1], &["brk", "mmap", "munmap"]);
    let way: (_, &[_]) = ("sendmsg", &["recvfrom", "sendmsg"]);
    expect_calls("primitive=sendmsg --set pattern=echo", &[way], &[]);
}

/// Every loop of a run calls nothing but what one of these ways calls, and what may be. A short loop may
/// call less of it, where it ends before its first completion or what it sends is sent later; all loops of a
/// way together call all of it. Each way has a loop.
fn expect_calls(settings: &str, ways: &[(&str, &[&str])], may: &[&str]) {
    let place = Place::new();
    let Some(loops) = traced(&place, settings) else {
        return;
    };
    let loops: Vec<Calls> = loops
        .into_iter()
        .map(|mut calls| {
            calls.retain(|call| ![CLOCK, TIME].contains(&&**call) && !may.contains(&&**call));
            if calls.iter().any(|call| call.contains(" MSG_")) {
                // Where there is no room for one more without, it is sent with a copy.
                calls.remove("sendmsg");
            }
            calls
        })
        .collect();
    let run = place.run_file();
    let is_here = |primitive: &str| {
        let mut rows = run.points.iter();
        rows.any(|row| row.axes().find_word("primitive") == Some(primitive))
    };
    let mut here: BTreeMap<Calls, usize> = BTreeMap::new();
    for (primitive, calls) in ways {
        if is_here(primitive) {
            let calls = calls.iter().map(|call| (*call).to_owned()).collect();
            *here.entry(calls).or_default() += 1;
        } else {
            let why = run.failures.iter().map(|failure| &*failure.reason);
            skipped(format_args!("{primitive}: {:?}", why.collect::<Vec<_>>()));
        }
    }
    assert!(!here.is_empty());
    for calls in &loops {
        let is_known = here.keys().any(|way| calls.is_subset(way));
        assert!(is_known, "{calls:?} is none of {here:?}");
    }
    for (way, count) in &here {
        let own = loops.iter().filter(|calls| calls.is_subset(way));
        assert!(own.clone().count() >= *count, "{way:?}: {loops:?}");
        let together: Calls = own.flatten().cloned().collect();
        assert_eq!(together, *way);
    }
}

/// What each loop of a run calls whose workers strace looks at; none where it may not.
fn traced(place: &Place, settings: &str) -> Option<Vec<Calls>> {
    if let Err(why) = may_trace() {
        skipped(why);
        return None;
    }
    // A file for each thread, without what is sent.
    let host = format!(
        "exec:exec strace --follow-forks --output-separately -s 0 --output {} {COSTOF} worker",
        place.path("calls").display(),
    );
    let line = format!(
        "run --only copy.send --set size=16KiB --set {settings} --quick --seed 1 --out run.jsonl --on '{host}'"
    );
    place.run(&line).expect_code(0);
    place.expect_nothing_runs();
    let files = fs::read_dir(place.path(".")).unwrap().flatten();
    let traces = files.filter(|file| file.file_name().to_string_lossy().starts_with("calls."));
    let loops = traces.flat_map(|file| loops(&fs::read_to_string(file.path()).unwrap()));
    Some(loops.collect())
}

/// The loops of a thread: from where it asks for what it has used, and the processor time of its
/// first mark, until it asks again.
fn loops(trace: &str) -> Vec<Calls> {
    let calls: Vec<String> = trace.lines().filter_map(call).collect();
    let parts = calls.split(|call| call == USAGE).skip(1);
    parts
        .filter(|calls| calls.first().is_some_and(|first| first == CLOCK))
        .map(|calls| calls.iter().cloned().collect())
        .collect()
}

/// A call's name, with what tells it from others of that name; none of a line that is no call.
fn call(line: &str) -> Option<String> {
    let (name, arguments) = line.split_once('(')?;
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let flag = match name {
        "sendmsg" | "recvmsg" => {
            let flags = ["MSG_ZEROCOPY", "MSG_ERRQUEUE", "MSG_MORE"];
            flags.into_iter().find(|flag| arguments.contains(flag))
        }
        "clock_gettime" | "getrusage" => arguments.split(',').next(),
        _ => None,
    };
    let flag = flag.map(|word| format!(" {word}"));
    is_name.then(|| format!("{name}{}", flag.unwrap_or_default()))
}

#[test]
fn loops_are_found_in_a_trace() {
    let trace = "\
sendto(4, \"\"..., 16, 0, NULL, 0) = 16
getrusage(RUSAGE_THREAD, {ru_utime={tv_sec=0, tv_usec=0}, ...}) = 0
read(3, \"\"..., 8) = 8
getrusage(RUSAGE_THREAD, {ru_utime={tv_sec=0, tv_usec=0}, ...}) = 0
clock_gettime(CLOCK_THREAD_CPUTIME_ID, {tv_sec=0, tv_nsec=1}) = 0
sendmsg(4, {msg_name=NULL, msg_namelen=0}, MSG_NOSIGNAL|MSG_ZEROCOPY) = 4096
--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
recvmsg(4, {msg_namelen=0}, MSG_ERRQUEUE) = 0
getrusage(RUSAGE_THREAD, {ru_utime={tv_sec=0, tv_usec=0}, ...}) = 0
futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1
+++ exited with 0 +++
";
    let expected = [CLOCK, "recvmsg MSG_ERRQUEUE", "sendmsg MSG_ZEROCOPY"];
    assert_eq!(loops(trace), [expected.map(str::to_owned).into()]);
    assert_eq!(loops(""), Vec::<Calls>::new());
}
