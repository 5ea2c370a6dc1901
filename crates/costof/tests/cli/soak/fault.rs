//! The kinds of faults, and how the ones that last from the start are made.

use super::case::{Case, Scene};
use crate::common::{may_trace, within, within_script};
use crate::limits::{ControlGroup, Limit};
use fastrand::Rng;
use std::fs;
use std::process::Command;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A signal to any process.
    Signal,
    /// Any process is stopped for a while.
    Stop,
    /// Any process is stopped for ever; what a user waits for is killed then.
    StopForEver,
    /// All of another machine is stopped for ever.
    SilentPeer,
    /// A file system with little room: writes are short, then fail.
    FullDisk,
    /// A call on files fails, once or from then on.
    FailingDisk,
    /// Another call fails.
    FailingCall,
    /// Memory runs out in a control group.
    Memory,
    /// `pids.max`.
    Processes,
    /// `RLIMIT_NOFILE`.
    Descriptors,
    /// The clock is set, to and fro.
    Clock,
    /// A process may use one CPU only, from some moment on.
    Affinity,
    /// A cable or device is down for a while or for ever, or it or its namespace is removed.
    Network,
}

pub(super) const FAULTS: [Fault; 13] = [
    Fault::Signal,
    Fault::Stop,
    Fault::StopForEver,
    Fault::SilentPeer,
    Fault::FullDisk,
    Fault::FailingDisk,
    Fault::FailingCall,
    Fault::Memory,
    Fault::Processes,
    Fault::Descriptors,
    Fault::Clock,
    Fault::Affinity,
    Fault::Network,
];

impl Fault {
    /// Whether a command can meet it.
    pub(super) fn fits(self, case: &Case) -> bool {
        let is_alone = !matches!(case.scene, Scene::Receiver | Scene::NamedLink);
        match self {
            Fault::Signal | Fault::Stop | Fault::StopForEver => true,
            Fault::Processes | Fault::Descriptors => true,
            Fault::SilentPeer => case.scene == Scene::Remote || case.name == "run across a cable",
            Fault::FullDisk => matches!(case.scene, Scene::Reads | Scene::Plain | Scene::Remote),
            Fault::FailingDisk | Fault::FailingCall | Fault::Clock => is_alone,
            Fault::Memory | Fault::Affinity => case.measures(),
            Fault::Network => matches!(case.scene, Scene::Link | Scene::Namespaces),
        }
    }

    /// The command with this fault around it, if it lasts from the start, and what it is in words; or why it is not
    /// possible here.
    pub(super) fn around(
        self,
        command: Command,
        random: &mut Rng,
        number: u64,
    ) -> Result<Around, String> {
        let plain = |command, what: String| Ok(Around { command, group: None, what });
        match self {
            Fault::FullDisk => {
                // The run of the reading commands has to fit.
                let kib = 128 + 4 * random.u32(0..60);
                let script = format!(
                    "mount -t tmpfs -o size={kib}k none disk && cp own.toml base.jsonl page.html disk \
                     && ln -s ../hosts disk && cd disk || exit {NOT_HERE}; XDG_STATE_HOME=$PWD/state TMPDIR=$PWD \"$@\"; code=$?; \
                     cp -a . ../kept; exit $code"
                );
                let command = within(&["unshare", "--mount", "sh", "-c", &script, "sh"], &command);
                plain(command, format!("{kib} KiB"))
            }
            Fault::FailingDisk => {
                fails(DISK, &["ENOSPC", "EIO", "EROFS", "EDQUOT"], command, random)
            }
            Fault::FailingCall => {
                fails(OTHER, &["EAGAIN", "EMFILE", "ENOMEM", "EPERM"], command, random)
            }
            Fault::Memory => {
                let bytes = random.u64(4..80) << 20;
                let name = format!("soak-{number}");
                let group = ControlGroup::new(
                    &name,
                    &Limit {
                        controller: "memory",
                        v1: ("memory.limit_in_bytes", &bytes.to_string()),
                        v2: ("memory.max", &bytes.to_string()),
                    },
                )?;
                let command = group.enter(&command);
                let what = format!("{} MiB", bytes >> 20);
                Ok(Around { command, group: Some(group), what })
            }
            Fault::Processes => {
                let max = random.u32(2..30).to_string();
                let name = format!("soak-{number}");
                let group = ControlGroup::new(
                    &name,
                    &Limit { controller: "pids", v1: ("pids.max", &max), v2: ("pids.max", &max) },
                )?;
                let command = group.enter(&command);
                Ok(Around { command, group: Some(group), what: max })
            }
            Fault::Descriptors => {
                let max = random.u32(4..40);
                let script = format!("ulimit -n {max}; exec \"$@\"");
                plain(within_script(&script, &command), max.to_string())
            }
            Fault::Clock => {
                let mut command = command;
                let folder = command.get_current_dir().expect("it has one").to_owned();
                command
                    .env("LD_PRELOAD", faketime()?)
                    .env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"))
                    .env("FAKETIME_NO_CACHE", "1")
                    // It cannot be set.
                    .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                fs::write(folder.join("clock"), "+0").map_err(|error| error.to_string())?;
                plain(command, String::new())
            }
            _ => plain(command, String::new()),
        }
    }
}

/// A command with a fault around it.
pub(super) struct Around {
    pub(super) command: Command,
    pub(super) group: Option<ControlGroup>,
    pub(super) what: String,
}

/// The exit code of a command that this machine does not allow.
pub(super) const NOT_HERE: i32 = 99;

/// Calls on files, and others, that fail.
const DISK: &[&str] = &[
    "write",
    "fdatasync",
    "fsync",
    "openat",
    "ftruncate",
    "rename",
    "mkdir",
    "flock",
    "read",
    "unlink",
];
const OTHER: &[&str] =
    &["clone3", "vfork", "pipe2", "socket", "sched_setaffinity", "sched_getaffinity", "connect"];

/// The command, in whose main thread strace lets a call fail.
fn fails(
    calls: &[&str],
    errors: &[&str],
    command: Command,
    random: &mut Rng,
) -> Result<Around, String> {
    may_trace()?;
    let call = calls[random.usize(..calls.len())];
    let error = errors[random.usize(..errors.len())];
    // The first files that are opened and read are libraries.
    let least = if matches!(call, "openat" | "read") { 20 } else { 1 };
    let most = if calls == DISK { 80 } else { 20 };
    let number = least + if random.bool() { random.u32(0..4) } else { random.u32(0..most) };
    let on = if random.bool() { "+" } else { "" };
    let inject = format!("inject={call}:error={error}:when={number}{on}");
    let traced = format!("trace={call}");
    let outer = ["strace", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &inject];
    Ok(Around {
        command: within(&outer, &command),
        group: None,
        what: format!("{call} {number}{on} gives {error}"),
    })
}

/// The library that tells processes another time.
fn faketime() -> Result<String, String> {
    let folders = fs::read_dir("/usr/lib").map_err(|error| error.to_string())?;
    let mut libraries =
        folders.flatten().map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let library = libraries
        .find(|library| library.exists())
        .ok_or("no libfaketime (apt-get install faketime)")?;
    Ok(library.display().to_string())
}
