//! A place of its own for every test, and costof in it.

use costof_model::names::Names;
use costof_model::rows::{FailureRow, PointRow, State};
use costof_model::run_file::{self, Run};
use costof_probes::TABLE;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No command takes this long, even on a machine that is twenty times overloaded: one that does has hung.
const HANGS: Duration = Duration::from_secs(3600);
/// How often something is looked for.
const POLL: Duration = Duration::from_millis(5);

/// The name of the process that reads a worker's commands.
pub(crate) const READER: &str = "costof commands";

/// A folder that is home, history and memory to the costofs started in it.
pub(crate) struct Place(TempDir);

/// A process.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: Pid,
    /// In ticks of the kernel's clock since the machine was started.
    pub(crate) started: u64,
    /// Its command line; of a worker's reader of commands, which has the worker's, [`READER`].
    pub(crate) command: String,
}

impl Running {
    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn network_namespace(&self) -> Option<String> {
        network_namespace(&self.id().to_string())
    }
}

/// A test that fails leaves nothing running either.
impl Drop for Place {
    fn drop(&mut self) {
        for process in self.running() {
            let _ = kill_process(process.pid, Signal::KILL);
        }
    }
}

/// The real costof.
pub(crate) const COSTOF: &str = env!("CARGO_BIN_EXE_costof");

/// The costof of `tests/programs/misbehaving.rs`.
pub(crate) fn misbehaving() -> String {
    let program = Path::new(COSTOF).with_file_name("examples/misbehaving");
    assert!(
        program.exists(),
        "{} is not built: `cargo test -p costof` builds it, `--test cli` alone does not",
        program.display()
    );
    program.display().to_string()
}

/// The words of a command line, between blanks; single quotes keep the blanks within.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Says why something is not tried here.
#[expect(clippy::print_stderr, reason = "a test that cannot run here says why")]
pub(crate) fn skipped(why: impl Display) {
    eprintln!("skipped: {why}");
}

/// The value, or the end of a test that cannot run here, which says why.
macro_rules! or_skip {
    ($tried:expr) => {
        match $tried {
            Ok(value) => value,
            Err(why) => return $crate::common::skipped(why),
        }
    };
}
pub(crate) use or_skip;

/// A text has this part.
#[track_caller]
pub(crate) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is missing in: {text}");
}

/// A text has all of these parts.
#[track_caller]
pub(crate) fn assert_contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert_contains(text, part);
    }
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code; `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    /// A path in this place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The real costof, with these arguments.
    pub(crate) fn costof(&self, line: &str) -> Command {
        self.command(&format!("{COSTOF} {line}"))
    }

    /// The costof of `tests/programs/misbehaving.rs`, with these arguments.
    pub(crate) fn misbehaving(&self, line: &str) -> Command {
        self.command(&format!("{} {line}", misbehaving()))
    }

    /// A program in this place, with its arguments.
    pub(crate) fn command(&self, line: &str) -> Command {
        let words = words(line);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("COSTOF_TEST_FOLDER", self.0.path())
            // Whose turn it is on this machine is told there: tests take none.
            .env("COSTOF_LOCK_FOLDER", self.0.path())
            // Tests run on a busy machine, most of the time, and are not told each time.
            .env("COSTOF_NO_PREFLIGHT", "1")
            // As a developer may have it.
            .env("RUST_BACKTRACE", "1");
        command
    }

    /// The real costof, run to its end.
    pub(crate) fn run(&self, line: &str) -> Ended {
        run(&mut self.costof(line))
    }

    /// The misbehaving costof, run to its end.
    pub(crate) fn run_misbehaving(&self, line: &str) -> Ended {
        run(&mut self.misbehaving(line))
    }

    /// `costof run` of these words in little time, into `run.jsonl`, after which nothing runs any more: the
    /// run, and how the command ended.
    #[track_caller]
    pub(crate) fn quick(&self, words: &str) -> (Run, Ended) {
        let ended =
            self.run(&format!("run {words} --only --quick --seed 1 --notes --out run.jsonl"));
        self.expect_nothing_runs();
        (self.run_file(), ended)
    }

    /// What these words give, which must be something.
    #[track_caller]
    pub(crate) fn measured(&self, words: &str) -> Run {
        let (run, ended) = self.quick(words);
        ended.expect_code(0);
        run
    }

    /// A command that makes a probe hang, once it does.
    pub(crate) fn hanging(&self, command: &mut Command) -> Child {
        let child = spawn(command);
        wait_for("the probe to hang", || self.path("hanging").exists());
        child
    }

    /// The run in a file of this place.
    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> Run {
        read(&self.path(name))
    }

    /// The run in `run.jsonl`.
    #[track_caller]
    pub(crate) fn run_file(&self) -> Run {
        self.read("run.jsonl")
    }

    /// What runs of all that was started in this place, told by the
    /// environment that even a process which left its group keeps.
    pub(crate) fn running(&self) -> Vec<Running> {
        let mine = format!("COSTOF_TEST_FOLDER={}", self.0.path().display());
        let words = |process: &Path, file: &str| -> Vec<String> {
            // Of a zombie, and of others' processes, there is nothing to read.
            let text = fs::read(process.join(file)).unwrap_or_default();
            let words = text.split(|byte| *byte == 0);
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .map(|entry| entry.path())
            .filter(|process| words(process, "environ").contains(&mine))
            .filter_map(|process| {
                let name = process.file_name()?.to_str()?;
                Some(Running {
                    pid: Pid::from_raw(name.parse().ok()?)?,
                    started: started(&process)?,
                    command: match fs::read_to_string(process.join("comm")) {
                        Ok(name) if name.trim_end() == READER => READER.to_owned(),
                        _ => words(&process, "cmdline").join(" "),
                    },
                })
            })
            .collect()
    }

    /// Waits until nothing runs any more of what was started here.
    pub(crate) fn expect_nothing_runs(&self) {
        wait_for("everything to end", || self.running().is_empty());
    }
}

/// When a process was started, which its number does not say: numbers begin again. Source:
/// proc_pid_stat(5), the twenty-second field; the second one may hold spaces.
fn started(process: &Path) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    after.split(' ').nth(22 - 3)?.parse().ok()
}

/// Waits for what must come, however long it takes on a busy machine.
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < HANGS, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}

/// The command as the last words of another one, in the same folder and environment.
pub(crate) fn within(outer: &[&str], command: &Command) -> Command {
    let mut within = Command::new(outer[0]);
    within
        .args(&outer[1..])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        within.env(name, value.unwrap());
    }
    within
}

/// The command, started by a shell script that ends with `exec "$@"`.
pub(crate) fn within_script(script: &str, command: &Command) -> Command {
    within(&["sh", "-c", script, "sh"], command)
}

/// Whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").output();
    tried.is_ok_and(|output| output.status.success())
}

/// Whether strace may look at processes here, or why not.
pub(crate) fn may_trace() -> Result<(), String> {
    let tried = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let tried = tried.map_err(|error| format!("strace (apt-get install strace): {error}"))?;
    if tried.status.success() {
        return Ok(());
    }
    let says = String::from_utf8_lossy(&tried.stderr);
    Err(format!("strace may not look here: {says}"))
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    ended(spawn(command))
}

/// Starts a command whose output is kept.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until it has ended.
pub(crate) fn ended(mut child: Child) -> Ended {
    let out = kept(child.stdout.take().unwrap());
    let err = kept(child.stderr.take().unwrap());
    let mut status = None;
    wait_for("costof to end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    Ended { code: status.unwrap().code(), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn kept(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

/// Sends a signal to a child alone.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Interrupts a child, which must end for that.
#[track_caller]
pub(crate) fn interrupt(child: Child) -> Ended {
    signal(&child, Signal::INT);
    ended(child).expect_code(130)
}

impl Ended {
    /// This exit code, or what it wrote instead.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// An error of the command or an input, which names all of these.
    #[track_caller]
    pub(crate) fn expect_wrong(self, named: &[&str]) -> Ended {
        let ended = self.expect_code(2);
        assert_contains_all(&ended.err, named);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        ended
    }
}

/// The run in a file, by present names, as costof reads it.
#[track_caller]
pub(crate) fn read(path: &Path) -> Run {
    let mut run = run_file::read(BufReader::new(File::open(path).unwrap())).unwrap();
    Names::new(TABLE.iter().map(|probe| &*probe.info)).apply(&mut run);
    run
}

/// The point of a probe with one point.
#[track_caller]
pub(crate) fn point<'a>(run: &'a Run, probe: &str) -> &'a PointRow {
    let mut points = run.points.iter().filter(|row| row.point.probe == probe);
    match (points.next(), points.next()) {
        (Some(point), None) => point,
        other => panic!("not one point of {probe}: {other:?}"),
    }
}

/// How many launches a probe's block was to have: a busy machine has time for fewer.
pub(crate) fn planned_launches(run: &Run, probe: &str) -> usize {
    let has_probe = |block: usize| run.run.plan.blocks[block].points[0].probe == probe;
    let launches = run.launches.iter();
    let planned = launches.filter(|row| has_probe(row.block)).map(|row| row.of);
    planned.max().unwrap().max(3) as usize
}

/// How many launches gave a probe a number. Its row may leave out some, whose core was shared.
pub(crate) fn launches_of(run: &Run, probe: &str) -> usize {
    let points = run.launches.iter().flat_map(|launch| &launch.points);
    points.filter(|given| given.point.probe == probe && given.state == State::Ok).count()
}

/// All launches of a block, and maybe others while its core was not alone.
#[track_caller]
pub(crate) fn expect_launches(count: usize, planned: usize) {
    let most = planned + MORE_MAX as usize;
    assert!((planned..=most).contains(&count), "{count} of {planned}");
}

/// All planned launches gave the probe a number.
#[track_caller]
pub(crate) fn expect_all_launches(run: &Run, probe: &str) {
    expect_launches(launches_of(run, probe), planned_launches(run, probe));
}

/// The median of a metric.
#[track_caller]
pub(crate) fn median(row: &PointRow, metric: &str) -> f64 {
    let estimate = row.estimate(metric).unwrap_or_else(|| panic!("{metric} is missing in {row:?}"));
    estimate.median
}

/// All of these metrics, above zero.
#[track_caller]
pub(crate) fn expect_metrics(row: &PointRow, metrics: &[&str]) {
    for metric in metrics {
        assert!(median(row, metric) > 0.0, "{metric} {row:?}");
    }
}

/// Whatever failed did so for one of these reasons, which are this machine's and are said, or was starved.
/// Single launches that were starved are no matter.
#[track_caller]
pub(crate) fn expect_failed_by(run: &Run, reasons: &[&str]) {
    let failures = run.failures.iter();
    for failure in failures.filter(|row| row.launch.is_none() || !was_starved(row)) {
        let mut reasons = reasons.iter();
        let is_known = reasons.any(|why| failure.reason.contains(why));
        assert!(is_known || was_starved(failure), "{failure:?}");
        skipped(format_args!("{}: {}", failure.point, failure.reason));
    }
}

/// Whether launches of a row were starved: what is left may lack the metrics that need more.
pub(crate) fn is_starved(run: &Run, row: &PointRow) -> bool {
    let mut failures = run.failures.iter();
    failures.any(|failure| failure.point == row.point && was_starved(failure))
}

/// The network namespace of a process, by its name in /proc.
pub(crate) fn network_namespace(process: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/{process}/ns/net")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// A value in a process's status (proc_pid_status(5)).
pub(crate) fn status_of(process: i32, name: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

/// At most this many launches of a block follow the planned ones.
pub(crate) const MORE_MAX: u32 = 20;

/// Every launch and every point that was planned, once, and the end.
#[track_caller]
pub(crate) fn expect_complete(run: &Run) {
    expect_every_launch(run);
    for point in run.run.plan.points() {
        let rows = run.points.iter().filter(|row| row.point == *point);
        assert_eq!(rows.count(), 1, "rows of {point}");
    }
}

/// Every launch that was planned, once, and the end.
#[track_caller]
pub(crate) fn expect_every_launch(run: &Run) {
    for block in 0..run.run.plan.blocks.len() {
        let rows = run.launches.iter().filter(|row| row.block == block);
        // Three come before it is decided how many there are to be.
        let planned = rows.clone().map(|row| row.of).max().unwrap().max(3);
        let mut launches: Vec<u32> = rows.map(|row| row.launch).collect();
        launches.sort_unstable();
        // More where launches disagree or the core is not alone, as beside builds.
        let count = launches.len() as u32;
        assert!((planned..=planned + MORE_MAX).contains(&count), "{launches:?} of {planned}");
        let all: Vec<u32> = (0..count).collect();
        assert_eq!(launches, all, "of block {block}");
    }
    let end = run.end.as_ref().expect("the run has an end");
    assert_eq!(end.points, run.points.len() as u64);
    assert_eq!(end.failures, run.failures.len() as u64);
}

/// Whether too little went over for a rate, since an end had no processor while other tests used both: a
/// launch says so, and its point has what it has from the others; or no number, where all launches say so.
pub(crate) fn was_starved(row: &FailureRow) -> bool {
    row.reason.starts_with("too little ") || row.reason == "no call was answered"
}
