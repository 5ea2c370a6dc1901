//! What programs of known composition do, counted by both means.
//!
//! Counting ends what a program leaves, so the tests of this file run one after another, and no other test is in this process.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stderr, reason = "a test says what it could not check")]

use costof_measure::bill::count::{count, count_process};
use costof_measure::command::{Output, Program};
use costof_model::Facts;
use costof_model::bill::{
    Count, Counts, End, FaultKind, FileKind, Item, Means, SizeClass, ThreadCounts,
};
use costof_os::process::bpf_statistics::Statistics;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const BY_EACH: [Means; 2] = [Means::Ebpf, Means::Ptrace];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn program(words: &[&str]) -> Program {
    let words = words.iter().map(OsString::from).collect();
    Program { words, input: None, output: Output::Null, folder: None }
}

/// Says what could not be checked, which may only be what this user may not do, or not in this container, or where tracefs or
/// the kernel's type information is missing.
fn checked_less(means: Means, error: &std::io::Error) {
    let needed = ["/sys/kernel/tracing/events/sched", "/sys/kernel/btf/vmlinux"];
    let is_missing = means == Means::Ebpf && !needed.iter().all(|path| Path::new(path).exists());
    let is_refused = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported);
    let is_expected = is_refused || is_missing;
    assert!(is_expected, "{}: {error}", costof_model::word(means));
    eprintln!("checked less: {}: {error}", costof_model::word(means));
}

/// What a program does; `None`, with the reason, where these means may not be used.
fn counted(words: &[&str], means: Means) -> Option<Counts> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match count(&program(words), Some(means), &Facts::default(), || true) {
        Ok(counts) => Some(counts.expect("it may go on")),
        Err(error) => {
            checked_less(means, &error);
            None
        }
    }
}

fn script(text: &str, means: Means) -> Option<Counts> {
    counted(&["sh", "-c", text], means)
}

/// How often each system call was made, and how many of these failed.
fn calls(counts: &Counts) -> BTreeMap<String, [u64; 2]> {
    let mut calls = BTreeMap::new();
    for count in counts.sum() {
        if let Item::Call { name, .. } = count.item {
            let sum: &mut [u64; 2] = calls.entry(name).or_default();
            sum[0] += count.count;
            sum[1] += count.errors;
        }
    }
    calls
}

fn call<'c>(counts: &'c [Count], called: &str, bytes: u64, of: FileKind) -> &'c Count {
    let item = Item::Call { name: called.to_owned(), size: SizeClass::new(bytes), of: Some(of) };
    find(counts, |count| count.item == item)
}

fn find(counts: &[Count], is_it: impl FnMut(&&Count) -> bool) -> &Count {
    counts.iter().find(is_it).unwrap_or_else(|| panic!("{counts:?}"))
}

#[test]
fn both_means_count_the_same_calls_with_their_sizes() {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=5000", "status=none"];
    let each = BY_EACH.map(|means| counted(&dd, means));
    for counts in each.iter().flatten() {
        let sum = counts.sum();
        for call in ["read", "write"].map(|name| call(&sum, name, 64, FileKind::Device)) {
            assert_eq!([call.count, call.bytes, call.errors], [5000, 320_000, 0]);
        }
        assert_eq!(counts.end, End::Exited(0));
        assert_eq!(calls(counts)["exit_group"], [1, 0]);
    }
    if let [Some(ebpf), Some(ptrace)] = &each {
        assert_eq!(calls(ebpf), calls(ptrace));
    }
}

#[test]
fn calls_are_counted_by_what_they_read_and_write() {
    let text = "import socket, os, tempfile\n\
                a, b = socket.socketpair()\n\
                os.write(a.fileno(), b'x' * 99); os.read(b.fileno(), 99)\n\
                r, w = os.pipe()\n\
                os.write(w, b'x' * 999); os.read(r, 999)\n\
                f = tempfile.TemporaryFile()\n\
                os.pwrite(f.fileno(), b'x' * 9999, 0); os.read(f.fileno(), 9999)";
    for means in BY_EACH {
        let Some(counts) = counted(&["python3", "-c", text], means) else { continue };
        let sum = counts.sum();
        for (of, bytes) in [(FileKind::Socket, 99), (FileKind::Pipe, 999)] {
            for name in ["read", "write"] {
                assert_eq!(call(&sum, name, bytes, of).bytes, bytes, "{means:?}");
            }
        }
        assert_eq!(call(&sum, "pwrite64", 9999, FileKind::File).bytes, 9999, "{means:?}");
        // The interpreter reads files too.
        assert!(call(&sum, "read", 9999, FileKind::File).bytes >= 9999, "{means:?}");
    }
}

#[test]
fn as_many_calls_are_counted_as_perf_counts() {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=300000", "status=none"];
    let Some(counts) = counted(&dd, Means::Ebpf) else { return };
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter"]).args(dd).stdin(Stdio::null());
    let Ok(output) = perf.output() else { return eprintln!("checked less: there is no perf") };
    let output = String::from_utf8_lossy(&output.stderr);
    let Some(entries) = output.split(',').next().and_then(|count| count.parse::<u64>().ok()) else {
        return eprintln!("checked less: {output}");
    };
    let made: u64 = calls(&counts).values().map(|[count, _]| count).sum();
    assert!(made.abs_diff(entries) <= 25, "{made} {entries}");
}

#[test]
fn a_call_that_fails_counts_as_an_error() {
    let each = BY_EACH.map(|means| counted(&["cat", "/no/such/file"], means));
    for counts in each.iter().flatten() {
        let [_, errors] = calls(counts)["openat"];
        assert!(errors >= 1);
        assert_eq!(counts.end, End::Exited(1));
    }
    if let [Some(ebpf), Some(ptrace)] = &each {
        assert_eq!(calls(ebpf), calls(ptrace));
    }
}

#[test]
fn children_are_counted() {
    for means in BY_EACH {
        let text = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); /bin/true; done";
        let Some(counts) = script(text, means) else { continue };
        let children = counts.threads.iter().filter(|thread| thread.name == "true");
        assert_eq!(children.count(), 20);
        assert_eq!(calls(&counts)["execve"], [20, 0], "{means:?}");
        let first = counts.threads.iter().find(|thread| thread.name == "sh").unwrap();
        assert_eq!(first.process, first.thread);
    }
}

#[test]
fn threads_are_counted_apart() {
    let text = "import threading, os\n\
                def work(): [(os.getppid(), os.getpid()) for _ in range(777)]\n\
                threads = [threading.Thread(target=work) for _ in range(3)]\n\
                [thread.start() for thread in threads]\n\
                [thread.join() for thread in threads]";
    for means in BY_EACH {
        let Some(counts) = counted(&["python3", "-c", text], means) else { continue };
        if counts.end != End::Exited(0) {
            return eprintln!("checked less: python3: {:?}", counts.end);
        }
        let has_made = |items: &[Count], call: &str| {
            items.iter().any(|count| count.count == 777 && count.item == call_item(call))
        };
        let of_thread = |items: &[Count]| has_made(items, "getppid") && has_made(items, "getpid");
        let workers = counts.threads.iter().filter(|thread| of_thread(&thread.items));
        let workers: Vec<_> = workers.map(|thread| (thread.process, thread.thread)).collect();
        assert_eq!(workers.len(), 3, "{means:?}");
        assert!(
            workers.iter().all(|(process, thread)| process == &workers[0].0 && process != thread)
        );
    }
}

#[test]
fn a_thread_that_executes_a_program_is_counted_on() {
    let text = "import threading, os\n\
                dd = 'dd if=/dev/zero of=/dev/null bs=64 count=500 status=none'.split()\n\
                thread = threading.Thread(target=lambda: os.execvp('dd', dd))\n\
                thread.start()\n\
                thread.join()";
    for means in BY_EACH {
        let Some(counts) = counted(&["python3", "-c", text], means) else { continue };
        if counts.end != End::Exited(0) {
            return eprintln!("checked less: python3: {:?}", counts.end);
        }
        let is_dd = |thread: &&ThreadCounts| thread.name == "dd" && thread.process == thread.thread;
        let first = counts.threads.iter().find(is_dd).unwrap();
        for item in [call_item("execve"), call_item("exit_group")] {
            assert!(find(&first.items, |count| count.item == item).count >= 1);
        }
        // The interpreter may write too.
        assert!(call(&first.items, "write", 64, FileKind::Device).count >= 500, "{means:?}");
    }
}

fn call_item(name: &str) -> Item {
    Item::Call { name: name.to_owned(), size: None, of: None }
}

#[test]
fn a_thousand_children_are_counted() {
    for means in BY_EACH {
        let text = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); ( exit 3 ); done";
        let Some(counts) = script(text, means) else { continue };
        assert_eq!(calls(&counts)["exit_group"], [1001, 0]);
        assert_eq!(counts.threads.len(), 1001);
        let lost = counts.not_counted.iter().find(|what| what.contains("too many"));
        assert_eq!(lost, None);
    }
}

#[test]
fn signals_and_how_it_ended_are_counted() {
    for means in BY_EACH {
        let text = "trap : USR1; kill -USR1 $$; kill -USR1 $$; kill -KILL $$";
        let Some(counts) = script(text, means) else { continue };
        let usr1 = find(&counts.sum(), |count| count.item == Item::Signal { number: 10 }).count;
        assert_eq!((usr1, counts.end), (2, End::Killed(9)));
        assert_eq!(calls(&counts)["rt_sigreturn"], [2, 0]);
    }
}

#[test]
fn signals_without_a_handler_are_not_counted() {
    for means in BY_EACH {
        // The first is ignored, and the second ends it.
        let Some(counts) = script("kill -URG $$; kill -TERM $$", means) else { continue };
        let mut signals = counts.sum();
        signals.retain(|count| matches!(count.item, Item::Signal { .. }));
        assert_eq!(signals, [], "{means:?}");
        assert_eq!(counts.end, End::Killed(15));
    }
}

#[test]
fn ebpf_counts_waits_wake_ups_and_faults() {
    let sleeps = Item::Wait { call: Some("clock_nanosleep".to_owned()) };
    // While another test's counter is preempted as it reads its maps, the kernel runs no such program on that CPU.
    let mut counts = None;
    for _ in 0..3 {
        let Some(tried) = script("sleep 0.3; :", Means::Ebpf) else { return };
        let is_whole = tried.sum().iter().any(|count| count.item == sleeps);
        counts = Some(tried);
        if is_whole {
            break;
        }
    }
    let counts = counts.unwrap();
    let sum = counts.sum();
    assert!(find(&sum, |count| count.item == sleeps).waited_ns > 0);
    let child = Item::Wait { call: Some("wait4".to_owned()) };
    assert!(find(&sum, |count| count.item == child).waited_ns > 0);
    find(&sum, |count| matches!(count.item, Item::WakeUp { by_itself: false, .. }));
    let is_own = |item: &Item| matches!(item, Item::WakeUp { by_itself: true, .. });
    find(&sum, |count| is_own(&count.item) && count.waited_ns > 0);
    if !counts.not_counted.is_empty() {
        return eprintln!("checked less: {:?}", counts.not_counted);
    }
    let is_first = |count: &&Count| {
        matches!(count.item, Item::Fault { kind: FaultKind::FirstWrite, in_kernel: false })
    };
    assert!(find(&sum, is_first).count >= 1);
    assert_eq!(counts.whole, [], "a counted run has faults of costof's own");
}

#[test]
fn whom_else_a_program_wakes_is_counted() {
    let fifo = std::env::temp_dir().join(format!("costof-fifo-{}", std::process::id()));
    Command::new("mkfifo").arg(&fifo).status().unwrap();
    let reads = fifo.clone();
    let reader = std::thread::spawn(move || fs::read(reads).unwrap().len());
    let of = format!("of={}", fifo.display());
    let counts = counted(&["dd", "if=/dev/zero", &of, "bs=64K", "count=256"], Means::Ebpf);
    if counts.is_none() {
        drop(fs::OpenOptions::new().write(true).open(&fifo));
    }
    let read = reader.join().unwrap();
    fs::remove_file(&fifo).unwrap();
    let Some(counts) = counts else { return };
    assert_eq!(read, 256 << 16);
    let is_other = |count: &Count| matches!(count.item, Item::WakeUp { by_itself: true, .. });
    let woken: u64 = counts.sum().into_iter().filter(is_other).map(|count| count.count).sum();
    // dd has no other thread. On one CPU, the reader is woken seldom, since it is ready most of the time.
    assert!(woken >= 1, "{woken}");
}

#[test]
fn ptrace_says_what_it_cannot_count() {
    let Some(counts) = counted(&["true"], Means::Ptrace) else { return };
    assert!(counts.not_counted[0].starts_with("page faults by kind, waits"), "{counts:?}");
    let others = counts.sum();
    assert!(
        others.iter().all(|count| matches!(count.item, Item::Call { .. } | Item::Signal { .. }))
    );
}

#[test]
fn without_a_wish_the_best_means_count() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = match count(&program(&["true"]), None, &Facts::default(), || true) {
        Ok(counts) => counts.unwrap(),
        Err(error) => return checked_less(Means::Ptrace, &error),
    };
    assert!(calls(&counts)["exit_group"] == [1, 0] && counts.wall_ns > 0);
    let missing =
        count(&program(&["/no/such/program"]), None, &Facts::default(), || true).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

/// The processes whose command line contains a word.
fn running(word: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(word)).collect()
}

/// Ends what asks, the third time that it does.
fn asked_thrice() -> impl FnMut() -> bool {
    let mut asked = 0;
    move || {
        asked += 1;
        asked < 3
    }
}

#[test]
fn a_program_that_never_ends_is_ended_with_all_that_it_started() {
    for means in BY_EACH {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let may_go_on = asked_thrice();
        let text = "trap '' TERM; sleep 98765 & setsid sleep 98765 & while :; do sleep 0.01; done";
        match count(&program(&["sh", "-c", text]), Some(means), &Facts::default(), may_go_on) {
            Ok(counts) => assert_eq!(counts, None),
            Err(error) => checked_less(means, &error),
        }
        assert_eq!(running("98765"), Vec::<String>::new());
    }
}

#[test]
fn a_busy_program_is_ended_too() {
    for means in BY_EACH {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let may_go_on = asked_thrice();
        let text = "dd='dd if=/dev/zero of=/dev/null bs=1 count=20000'; for i in 1 2 3 4; do $dd & done; wait";
        let ptrace = means == Means::Ptrace;
        match count(&program(&["sh", "-c", text]), Some(means), &Facts::default(), may_go_on) {
            // Counted by eBPF, it may end before.
            Ok(counts) => assert!(!ptrace || counts.is_none(), "it was not asked"),
            Err(error) => checked_less(means, &error),
        }
    }
}

/// A process of another thread's, which is killed on drop.
struct Other(Child);

impl Other {
    fn start(text: &str) -> Self {
        let mut command = Command::new("sh");
        Self(command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap().trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_is_counted_for_a_while_and_let_go() {
    for means in BY_EACH {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // A child in the middle of a call, and one that forks all the time.
        let other = Other::start("sleep 3 & while :; do /bin/true; kill -0 $$; done");
        std::thread::sleep(Duration::from_millis(50));
        let process = other.0.id();
        let counts = match count_process(
            process,
            Duration::from_millis(300),
            Some(means),
            &Facts::default(),
            || true,
        ) {
            Ok(counts) => counts,
            Err(error) => {
                checked_less(means, &error);
                continue;
            }
        };
        assert_eq!(counts.end, End::Running);
        assert!(counts.threads.iter().any(|thread| thread.process.cast_unsigned() == process));
        assert!(calls(&counts).contains_key("execve"), "{:?}", calls(&counts));
        assert_eq!(other.status("TracerPid:"), "0");
        assert!(!other.status("State:").starts_with(['t', 'T']), "{}", other.status("State:"));
    }
}

/// Whether this becomes true within half a minute.
fn comes_true(mut is_true: impl FnMut() -> bool) -> bool {
    (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_true()
    })
}

/// The numbers of the eBPF programs that a process holds.
fn programs_of(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let numbers = texts.filter_map(|text| {
        let number = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        number.trim().parse().ok()
    });
    numbers.collect()
}

/// The numbers of the eBPF programs that trace on this machine.
fn loaded_programs() -> Vec<u32> {
    let programs = Statistics::start().and_then(|statistics| statistics.tracing());
    programs.unwrap_or_default().into_iter().map(|program| program.id).collect()
}

#[test]
fn nothing_stays_attached_when_the_counter_is_killed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for means in BY_EACH {
        let other = Other::start("while :; do sleep 0.01; done");
        let mut counter = Command::new(std::env::current_exe().unwrap());
        counter
            .args(["--ignored", "--nocapture", "--exact", "child_counts"])
            .env("MEANS", costof_model::word(means));
        counter.env("PROCESS", other.0.id().to_string()).stdin(Stdio::null());
        let mut counter = counter.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let number = counter.id();
        let is_attached = || match means {
            Means::Ebpf => !programs_of(number).is_empty(),
            Means::Ptrace => other.status("TracerPid:") != "0",
        };
        if !comes_true(|| is_attached() || counter.try_wait().unwrap().is_some()) || !is_attached()
        {
            let _ = counter.kill();
            let output = counter.wait_with_output().unwrap();
            let output = String::from_utf8_lossy(&output.stderr);
            assert!(output.contains("checked less: "), "{}: {output}", costof_model::word(means));
            eprintln!("{output}");
            continue;
        }
        let programs = programs_of(number);
        counter.kill().unwrap();
        counter.wait().unwrap();
        let is_left = || loaded_programs().iter().any(|program| programs.contains(program));
        assert!(comes_true(|| !is_left()), "{programs:?}");
        assert!(comes_true(|| other.status("TracerPid:") == "0"));
        assert!(!other.status("State:").starts_with(['t', 'T']), "{}", other.status("State:"));
    }
}

#[test]
#[ignore = "the child of another test"]
fn child_counts() {
    // Started with all that takes long, it is nobody's child.
    let [Ok(means), Ok(process)] = ["MEANS", "PROCESS"].map(std::env::var) else { return };
    let means = BY_EACH.into_iter().find(|each| costof_model::word(each) == means);
    let process = process.parse().unwrap();
    if let Err(error) =
        count_process(process, Duration::from_secs(600), means, &Facts::default(), || true)
    {
        checked_less(means.unwrap(), &error);
    }
}

#[test]
fn a_process_that_ends_meanwhile_is_counted_until_then() {
    for means in BY_EACH {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let other = Other::start("sleep 0.3; exit 0");
        let process = other.0.id();
        match count_process(
            process,
            Duration::from_secs(600),
            Some(means),
            &Facts::default(),
            || true,
        ) {
            Ok(counts) => assert_ne!(counts.end, End::Running),
            Err(error) => checked_less(means, &error),
        }
    }
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    for means in BY_EACH {
        let error =
            count_process(u32::MAX, Duration::from_secs(1), Some(means), &Facts::default(), || {
                true
            });
        assert!(error.is_err());
    }
}

#[test]
fn a_program_that_drops_its_privileges_is_counted() {
    for means in BY_EACH {
        let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true"];
        let Some(counts) = counted(&words, means) else { continue };
        if counts.end != End::Exited(0) {
            return eprintln!("checked less: setpriv: {:?}", counts.end);
        }
        assert!(calls(&counts)["setresuid"][0] >= 1);
        assert_eq!(counts.threads.last().unwrap().name, "true");
    }
}
