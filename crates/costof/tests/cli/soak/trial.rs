//! One command, and one fault.

mod check;

use super::case::{Case, STUDY, Scene};
use super::fault::{Fault, NOT_HERE};
use crate::common::{COSTOF, Place, READER, Running, network_namespace};
use crate::limits::ControlGroup;
use crate::namespaces::Namespaces;
use fastrand::Rng;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What takes longer hangs: a stopped worker may take 60 s to describe its machine, and builds run beside it.
const LIMIT: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(20);

/// A command in a place of its own, and its fault.
pub(super) struct Trial {
    // What runs is killed first, so that the others can go.
    place: Place,
    group: Option<ControlGroup>,
    namespaces: Option<Namespaces>,
    receiver: Option<Child>,
    case: &'static Case,
    fault: Fault,
    random: Rng,
    number: u64,
    /// What was done, and to what.
    pub(super) what: String,
    /// The whole lines of the run files so far.
    written: BTreeMap<PathBuf, Vec<u8>>,
    /// Whether processes of costof were killed, which then cannot remove what they have begun.
    has_killed: bool,
}

/// What a process of a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Controller,
    Receiver,
    Worker,
    /// What reads a worker's commands.
    Reader,
    /// What holds a link.
    Holder,
}

impl Trial {
    pub(super) fn new(
        case: &'static Case,
        fault: Fault,
        random: Rng,
        number: u64,
    ) -> Result<Trial, String> {
        let namespaces = match case.scene {
            Scene::Namespaces => Some(Namespaces::new(&format!("cs{number}x"))?),
            _ => None,
        };
        let place = Place::new();
        fs::create_dir(place.path("tmp")).unwrap();
        fs::create_dir(place.path("disk")).unwrap();
        fs::write(place.path("own.toml"), STUDY).unwrap();
        fs::write(place.path("base.jsonl"), base()).unwrap();
        fs::write(place.path("page.html"), OLD_PAGE).unwrap();
        if case.scene == Scene::Reads {
            write_hosts(&place.path("hosts"));
        }
        Ok(Trial {
            place,
            group: None,
            namespaces,
            receiver: None,
            case,
            fault,
            random,
            number,
            what: String::new(),
            written: BTreeMap::new(),
            has_killed: false,
        })
    }

    /// Runs the command to its end, with its fault, and returns what was found; or why it is not possible here.
    pub(super) fn run(&mut self) -> Result<Vec<String>, String> {
        let usual = usual_time(self.case)?;
        let command = self.command()?;
        let around = self.fault.around(command, &mut self.random, self.number)?;
        (self.group, self.what) = (around.group, around.what);
        let mut child = self.spawn(around.command, "");
        self.wait_for_the_moment(&mut child, usual);
        self.note_written();
        self.act();
        let code = self.ended(&mut child);
        if code == Some(Some(NOT_HERE)) {
            return Err("this machine gives no such file system".to_owned());
        }
        let mut found = Vec::new();
        match code {
            None => found.push(self.hangs(&mut child, "err")),
            Some(code) => found.extend(self.check_end(code)),
        }
        found.extend(self.end_receiver());
        found.extend(self.check_nothing_runs());
        found.extend(self.check_left());
        found.extend(self.check_runs());
        let err = self.text("err");
        let last = err.lines().rfind(|line| line.starts_with("costof: "));
        self.what += &format!(" → {code:?} {}", last.unwrap_or_default());
        Ok(found)
    }

    /// The command of the case, and what is around it.
    fn command(&mut self) -> Result<Command, String> {
        if self.case.scene == Scene::NamedLink {
            let script = "mount -t tmpfs none /run || exit 99; \
                          for i in 1 2; do timeout --preserve-status 1 \"$1\" link delay=1ms,jitter=0.1ms; code=$?; done; \
                          find /run -type f ! -name costof-link.lock | sed 's/^/LEFT /'; exit $code";
            let mut command = self.place.command("unshare --mount sh -c");
            command.args([script, "sh", COSTOF]);
            return Ok(command);
        }
        let receiver = match self.case.scene {
            Scene::Receiver => self.start_receiver()?,
            _ => String::new(),
        };
        let far = self.namespaces.as_ref().map_or("", |namespaces| &namespaces.far);
        let mut command = self.place.costof(&self.case.line(&receiver, far));
        command.env("TMPDIR", self.place.path("tmp"));
        Ok(match &self.namespaces {
            Some(namespaces) => namespaces.at_the_near_end(&command),
            None => command,
        })
    }

    fn start_receiver(&mut self) -> Result<String, String> {
        let command = self.place.costof("send --listen 127.0.0.1:0 --open");
        self.receiver = Some(self.spawn(command, "receiver-"));
        let began = Instant::now();
        loop {
            let heard = self.text("receiver-err");
            if heard.contains("senders: ") {
                let (_, address) = heard.split_once("listening at ").unwrap();
                return Ok(address.split(' ').next().unwrap().to_owned());
            }
            if began.elapsed() > LIMIT {
                return Err(format!("the receiver does not listen: {heard}"));
            }
            sleep(POLL);
        }
    }

    /// Starts a command whose output goes to files, of which what is written can be read whenever it hangs.
    fn spawn(&self, mut command: Command, prefix: &str) -> Child {
        let file = |name: &str| File::create(self.place.path(&format!("{prefix}{name}"))).unwrap();
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        command.spawn().unwrap()
    }

    fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.place.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Where the command's files are.
    fn folder(&self) -> PathBuf {
        let kept = self.place.path("kept");
        if kept.exists() { kept } else { self.place.path("") }
    }

    /// A random moment of the command: of those that measure mostly after something was written, since much of the
    /// time goes by before.
    fn wait_for_the_moment(&mut self, child: &mut Child, usual: Duration) {
        let delay = usual.mul_f64(0.8 * self.random.f64());
        if !self.case.measures() || self.random.u8(..3) == 0 {
            return sleep(delay);
        }
        while child.try_wait().unwrap().is_none() {
            self.note_written();
            if !self.written.is_empty() {
                return sleep(delay / 2);
            }
            sleep(POLL);
        }
    }

    /// Notes what the run files hold, which has to stay.
    fn note_written(&mut self) {
        for path in run_files(&self.folder()) {
            let mut bytes = fs::read(&path).unwrap_or_default();
            let end = bytes.iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(end.map_or(0, |end| end + 1));
            let before = self.written.entry(path).or_default();
            if bytes.len() > before.len() {
                *before = bytes;
            }
        }
    }

    /// The processes of costof that run now.
    fn parts(&self) -> Vec<(Part, Running)> {
        let part = |process: &Running| {
            let mut words = process.command.split(' ');
            match (words.next()?, words.next()) {
                _ if process.command == READER => Some(Part::Reader),
                ("sh" | "unshare" | "strace" | "ip" | "cat", _) => None,
                (_, Some("worker")) => Some(Part::Worker),
                (_, Some("hold")) => Some(Part::Holder),
                (COSTOF, Some("send")) if process.command.contains("--listen") => {
                    Some(Part::Receiver)
                }
                (COSTOF, _) => Some(Part::Controller),
                _ => None,
            }
        };
        let running = self.place.running().into_iter();
        running.filter_map(|process| Some((part(&process)?, process))).collect()
    }

    /// Any process, each part as often as any other.
    fn victim(&mut self) -> Option<(Part, Running)> {
        let mut parts = self.parts();
        let kinds: BTreeSet<Part> = parts.iter().map(|(part, _)| *part).collect();
        let kind = self.random.choice(kinds)?;
        parts.retain(|(part, _)| *part == kind);
        self.random.choice(parts)
    }

    /// Sends a signal to a process, if its number is still its own.
    fn send(&self, process: &Running, signal: Signal) -> bool {
        let Ok(descriptor) = pidfd_open(process.pid, PidfdFlags::empty()) else {
            return false;
        };
        let is_it = |other: &Running| (other.pid, other.started) == (process.pid, process.started);
        self.place.running().iter().any(is_it) && pidfd_send_signal(descriptor, signal).is_ok()
    }

    /// Does what the fault does at its moment.
    fn act(&mut self) {
        match self.fault {
            Fault::Signal => {
                let signals = [
                    Signal::INT,
                    Signal::TERM,
                    Signal::HUP,
                    Signal::QUIT,
                    Signal::PIPE,
                    Signal::USR1,
                    Signal::KILL,
                ];
                let signal = signals[self.random.usize(..signals.len())];
                self.signal(signal);
                self.has_killed =
                    !matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::PIPE);
            }
            Fault::Stop => {
                if let Some(victim) = self.signal(Signal::STOP) {
                    sleep(Duration::from_millis(self.random.u64(..2500)));
                    self.send(&victim.1, Signal::CONT);
                }
            }
            Fault::StopForEver => {
                let victim = self.signal(Signal::STOP);
                if let Some((Part::Controller, process)) = victim {
                    sleep(Duration::from_millis(self.random.u64(..1500)));
                    self.send(&process, Signal::KILL);
                    self.has_killed = true;
                }
            }
            Fault::SilentPeer => {
                let there = self.parts();
                // The controller starts those of its own machine from its own executable.
                let is_there = |part: &Part, process: &Running| {
                    *part == Part::Worker && !process.command.starts_with("/proc/self/fd/")
                };
                let there = there.iter().filter(|(part, process)| is_there(part, process));
                let stopped = there.filter(|(_, process)| self.send(process, Signal::STOP)).count();
                self.what = format!("{stopped} stopped");
            }
            Fault::Clock => {
                let steps = ["-30y", "-1d", "-5", "+5", "+1d", "+30y"];
                let step = steps[self.random.usize(..steps.len())];
                fs::write(self.place.path("clock"), step).unwrap();
                step.clone_into(&mut self.what);
            }
            Fault::Affinity => self.shrink_affinity(),
            Fault::Network => self.disturb_network(),
            _ => {}
        }
    }

    fn signal(&mut self, signal: Signal) -> Option<(Part, Running)> {
        let victim = self.victim();
        self.what = match &victim {
            Some((part, process)) if self.send(process, signal) => {
                format!("{signal:?} to the {part:?}")
            }
            _ => format!("{signal:?} to nobody"),
        };
        victim
    }

    fn shrink_affinity(&mut self) {
        let cpus = costof_os::sched::affinity::allowed().unwrap();
        let cpu = cpus[self.random.usize(..cpus.len())];
        let Some((part, process)) = self.victim() else {
            return;
        };
        self.what = format!("the {part:?} on CPU {cpu}");
        tool(&format!("taskset --all-tasks --cpu-list --pid {cpu} {}", process.id()));
    }

    fn disturb_network(&mut self) {
        let how = ["removed", "down", "down for a while", "without a name"];
        self.what = how[self.random.usize(..how.len())].to_owned();
        let (enter, device) = match &self.namespaces {
            Some(Namespaces { near, .. }) => (format!("ip netns exec {near}"), "cable"),
            None => {
                let own = network_namespace("self");
                let mut inside = self.place.running();
                inside.retain(|process| process.network_namespace() != own);
                let Some(process) = self.random.choice(inside) else {
                    return self.what.push_str(" too late");
                };
                (format!("nsenter --net --target {}", process.id()), "costof")
            }
        };
        let link = |what: &str| tool(&format!("{enter} ip link {what}"));
        match (&*self.what, &self.namespaces) {
            ("without a name", Some(Namespaces { far, .. })) => {
                tool(&format!("ip netns delete {far}"));
            }
            ("removed" | "without a name", _) => link(&format!("delete {device}")),
            _ => link(&format!("set {device} down")),
        }
        if self.what == "down for a while" {
            sleep(Duration::from_millis(self.random.u64(..2000)));
            link(&format!("set {device} up"));
        }
    }

    /// The exit code, `None` in it after a signal; `None` if it hangs.
    fn ended(&mut self, child: &mut Child) -> Option<Option<i32>> {
        wait(child, || self.note_written())
    }

    /// What hangs, and what it has written; it is killed for that.
    fn hangs(&self, child: &mut Child, written: &str) -> String {
        let hangs = format!("hangs: {:?}: {}", self.place.running(), self.text(written));
        self.kill_all();
        child.kill().unwrap();
        child.wait().unwrap();
        hangs
    }

    fn kill_all(&self) {
        for process in self.place.running() {
            self.send(&process, Signal::KILL);
        }
    }

    /// Interrupts the receiver, which has to end for that.
    fn end_receiver(&mut self) -> Option<String> {
        let mut receiver = self.receiver.take()?;
        if self.what.contains("Receiver") {
            // Stopped, or hit by a signal.
            receiver.kill().unwrap();
            return receiver.wait().err().map(|error| error.to_string());
        }
        let _ = rustix::process::kill_process(Pid::from_child(&receiver), Signal::INT);
        let Some(code) = self.ended(&mut receiver) else {
            return Some(self.hangs(&mut receiver, "receiver-err"));
        };
        let heard = self.text("receiver-err");
        let is_well = code == Some(130) && !heard.contains("panicked");
        (!is_well).then(|| format!("the receiver: {code:?}: {heard}"))
    }
}

const OLD_PAGE: &str = "the page before\n";

/// The exit code of a child, `None` in it after a signal; `None` if it hangs.
fn wait(child: &mut Child, mut meanwhile: impl FnMut()) -> Option<Option<i32>> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code());
        }
        meanwhile();
        sleep(POLL);
    }
    None
}

/// Runs a tool, which may find nothing to do any more.
fn tool(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let _ = Command::new(words[0]).args(&words[1..]).output();
}

/// A finished run, made once, for the commands that read one.
fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let place = Place::new();
        place.run("run --only null cpu.loop --quick --seed 1 --out run.jsonl").expect_code(0);
        fs::read(place.path("run.jsonl")).unwrap()
    })
}

/// Runs of 24 hosts, for the commands that read many.
fn write_hosts(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let run = str::from_utf8(base()).unwrap();
    for host in 0..24 {
        let run = run.replace("\"host_name\":\"", &format!("\"host_name\":\"{host}-"));
        fs::write(folder.join(format!("{host:02}.jsonl")), run).unwrap();
    }
}

/// How long a case takes without a fault, which it must survive. On a busy machine a worker may be too late, so the
/// next trial of the case tries again.
fn usual_time(case: &'static Case) -> Result<Duration, String> {
    if let Some(time) = case.usual.get() {
        return Ok(*time);
    }
    let number = fastrand::u64(1 << 40..);
    let mut trial = Trial::new(case, Fault::Signal, Rng::with_seed(0), number)?;
    let command = trial.command()?;
    let began = Instant::now();
    let mut child = trial.spawn(command, "");
    let code = trial.ended(&mut child);
    let time = began.elapsed();
    let receiver = trial.end_receiver();
    match code {
        Some(Some(0 | 1)) if receiver.is_none() => Ok(*case.usual.get_or_init(|| time)),
        code => Err(format!("without a fault: {code:?}: {}{receiver:?}", trial.text("err"))),
    }
}

/// The run files of a folder that a command may have written.
fn run_files(folder: &Path) -> Vec<PathBuf> {
    let is_run = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "jsonl")
            && !path.ends_with("base.jsonl")
            && !["tmp", "hosts"].iter().any(|inputs| path.starts_with(folder.join(inputs)))
    };
    files(folder).into_iter().filter(is_run).collect()
}

/// All files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}
