//! The one link with names: two namespaces that people enter with `ip netns exec`. It exists until
//! it is taken down.
//!
//! Before anything is created, the link is recorded in /run/costof, so that the remains of a failed
//! attempt can be found and removed. Who creates, inspects or removes it holds a lock meanwhile.

use crate::host::WorkerCommand;
use crate::link::ends::{DEVICE, Ends, ip};
use crate::link::hold::{Held, introduce};
use crate::link::holder::{Holder, LINE_MAX_BYTES, NEVER, RELAY, Reply, Request};
use crate::pipe::line;
use costof_model::link::named;
use costof_model::{Link, LinkReport};
use costof_os::process;
use costof_os::process::namespace::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The namespace of the end that does not lead: 10.0.0.1.
pub const FAR_NAME: &str = named::OTHER;
/// The namespace of the leading end: 10.0.0.2.
pub const NEAR_NAME: &str = named::LEADING;

/// Where the existing link is recorded.
const FOLDER: &str = "/run/costof";
const RECORD: &str = named::RECORD;
/// A new record, before it gets its name.
const NEW_RECORD: &str = "/run/costof/link.json.new";
/// Locked by who creates, inspects or removes the link.
const LOCK: &str = "/run/costof/link.lock";
/// Where the emulating process accepts requests.
const SOCKET: &str = "/run/costof/link.socket";
/// How long connecting, sending or ending may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long an answer may take: longer than the relay may take, so that its error arrives.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
/// How often, in seconds, the emulating process checks that the record names it.
const RECORD_CHECK_SECONDS: i64 = 1;

/// The existing link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Up {
    /// The link, by its name.
    pub link: String,
    /// The seed of its losses.
    pub seed: u64,
    /// What emulates it, if anything does: `netem` or `relay`.
    pub emulated_by: Option<String>,
    /// The process that relays, if there is one.
    pub pid: Option<u32>,
}

/// What creates, inspects or removes the link, until this is dropped: one process at a time.
struct Lock {
    /// The kernel releases the lock when this closes.
    _file: File,
}

impl Lock {
    /// Waits for it. Its folder exists while a link or a lock does.
    fn take() -> Result<Lock, String> {
        loop {
            match Lock::try_take() {
                Ok(Some(lock)) => return Ok(lock),
                // The one that held it has removed it.
                Ok(None) => {}
                Err(error) => return Err(format!("cannot lock {LOCK}: {error}{ROOT}")),
            }
        }
    }

    fn try_take() -> io::Result<Option<Lock>> {
        fs::create_dir_all(FOLDER)?;
        let mut options = File::options();
        let file = match options.write(true).create(true).mode(0o600).open(LOCK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        file.lock()?;
        let is_named = identity(Path::new(LOCK)) == Some(identity_of(&file.metadata()?));
        Ok(is_named.then_some(Lock { _file: file }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next one locks another file.
        if !Path::new(RECORD).exists() {
            let _ = fs::remove_file(LOCK);
            let _ = fs::remove_dir(FOLDER);
        }
    }
}

/// Creates the link. If the same one exists already, returns that one and `true`.
///
/// # Errors
/// If another link exists, or the link cannot be created; nothing is then left of it.
pub fn up(link: &Link, seed: u64, holder: &WorkerCommand) -> Result<(Up, bool), String> {
    let _lock = Lock::take()?;
    let begun = Up { link: link.to_string(), seed, emulated_by: None, pid: None };
    match recorded() {
        Some(up) if is_whole(&up) && (&up.link, up.seed) == (&begun.link, seed) => {
            return Ok((up, true));
        }
        Some(up) if is_whole(&up) => {
            return Err(format!(
                "the link {} is up, with seed {}: take it down first (costof link down)",
                up.link, up.seed
            ));
        }
        Some(_) => drop(remove()?),
        None => {
            let names = [NEAR_NAME, FAR_NAME];
            if let Some(name) = names.into_iter().find(|name| path(name).exists()) {
                return Err(format!(
                    "there is a network namespace {name} that belongs to no complete link (costof link down removes it)"
                ));
            }
        }
    }
    record(&begun)?;
    let made = make(link, seed, holder, begun);
    if made.is_err() {
        // The reason why it was not created is the error to report.
        let _ = remove();
    }
    Ok((made?, false))
}

fn make(link: &Link, seed: u64, holder: &WorkerCommand, begun: Up) -> Result<Up, String> {
    for name in [FAR_NAME, NEAR_NAME] {
        netns("add", name)?;
    }
    let (mut holder, _, _) =
        Holder::start(link, holder, &["--named"], &NEVER).map_err(|failure| failure.reason)?;
    let mut up = Up { emulated_by: holder.emulated_by.clone(), ..begun };
    if let Reply::Refused { reason } = holder.ask(Request::Begin { seed }, &NEVER)? {
        return Err(reason);
    }
    // A cable and netem persist without a process.
    let is_relayed = up.emulated_by.as_deref() == Some(RELAY);
    up.pid = is_relayed.then(|| holder.pid());
    record(&up)?;
    if is_relayed {
        holder.stay(&NEVER)?;
    }
    Ok(up)
}

/// The existing link, and what it has done since its start, if that is counted.
///
/// # Errors
/// If only root may look at it, only parts of a link are left, or its relay has failed.
pub fn status() -> Result<Option<(Up, Option<LinkReport>)>, String> {
    let exists = Path::new(FOLDER).exists() && rustix::process::geteuid().is_root();
    let _lock = exists.then(Lock::take).transpose()?;
    let is_left = [NEAR_NAME, FAR_NAME].iter().any(|name| path(name).exists());
    match recorded() {
        // Without root, the link cannot be inspected, so it is not called broken.
        up if (up.is_some() || is_left) && !rustix::process::geteuid().is_root() => {
            let link = up.map_or_else(|| "a link".to_owned(), |up| format!("the link {}", up.link));
            Err(format!(
                "{link} seems to be up; only root may inspect it (sudo costof link status)"
            ))
        }
        Some(up) if is_whole(&up) => {
            let report = up.pid.map_or(Ok(None), |pid| {
                report().map_err(|reason| {
                    format!(
                        "the link {} is up, but its relay (process {pid}) does not report: {reason} (costof link down removes the link)",
                        up.link
                    )
                })
            });
            Ok(Some((up.clone(), report?)))
        }
        None if !is_left => Ok(None),
        _ => Err(format!(
            "a link is incomplete ({RECORD}, {NEAR_NAME}, {FAR_NAME}): costof link down removes it"
        )),
    }
}

/// Removes the link, and whatever is left of one. Returns whether there was anything.
///
/// # Errors
/// If something remains.
pub fn down() -> Result<bool, String> {
    let all = [FOLDER.into(), path(NEAR_NAME), path(FAR_NAME)];
    if !all.iter().any(|path| path.exists()) {
        return Ok(false);
    }
    let _lock = Lock::take()?;
    remove()
}

/// What [`down`] does, with the lock.
fn remove() -> Result<bool, String> {
    let up = recorded();
    if let Some(pid) = up.as_ref().and_then(|up| up.pid) {
        end(pid)?;
    }
    let mut was_there = up.is_some();
    for name in [FAR_NAME, NEAR_NAME] {
        if path(name).exists() {
            was_there = true;
            // Processes may still be in the namespace, which then lasts as long as they do. With
            // the relay, there is no such device.
            if let Ok(namespace) = Namespace::open_named(name) {
                let _ = ip(&namespace, &[&format!("link delete {DEVICE}")]);
            }
            netns("delete", name)?;
        }
    }
    for file in [SOCKET, NEW_RECORD, RECORD] {
        removed(file, fs::remove_file(file))?;
    }
    Ok(was_there)
}

fn removed(path: &str, outcome: io::Result<()>) -> Result<(), String> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {path}: {error}{ROOT}"))
        }
        _ => Ok(()),
    }
}

const ROOT: &str = " (costof link needs root: its namespaces have names, which are mounts)";

/// The named namespaces; the calling thread is in the far one afterwards.
fn ends() -> Result<Ends, String> {
    let named = |name| Namespace::open_named(name).map_err(|error| format!("{name}: {error}"));
    let ends = Ends { near: named(NEAR_NAME)?, far: named(FAR_NAME)?, user: false };
    ends.far.enter().map_err(|error| format!("cannot enter {FAR_NAME}: {error}"))?;
    Ok(ends)
}

/// Does what [`hold`](super::hold()) does, between the existing named namespaces. Once it is asked
/// to stay, it continues until it is killed.
///
/// # Errors
/// If it cannot answer.
pub fn hold_named(link: &Link) -> io::Result<()> {
    // So that this process does not block the unmounting of a folder.
    std::env::set_current_dir("/")?;
    let held = ends().and_then(|ends| Held::make(link, ends));
    if let Some(mut held) = introduce(held)?
        && held.serve(io::stdin().lock(), io::stdout().lock())?
    {
        serve(&mut held)?;
    }
    Ok(())
}

/// Answers requests for reports until this process is killed, or no record names it: nobody could take it down.
fn serve(held: &mut Held) -> io::Result<()> {
    // One that ended without a record left it, and who takes links up holds the lock.
    let _ = fs::remove_file(SOCKET);
    let listener = UnixListener::bind(SOCKET)?;
    listener.set_nonblocking(true)?;
    while recorded().is_some_and(|up| up.pid == Some(std::process::id())) {
        let limit = Timespec { tv_sec: RECORD_CHECK_SECONDS, tv_nsec: 0 };
        let mut asked = [PollFd::new(&listener, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut asked, Some(&limit)))? == 0 {
            continue;
        }
        let asker = match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            accepted => accepted?.0,
        };
        asker.set_nonblocking(false)?;
        asker.set_read_timeout(Some(LIMIT))?;
        // A client that disconnects does not matter.
        let _ = held.serve(&asker, &asker);
    }
    Ok(())
}

/// The report of the emulating process.
fn report() -> Result<Option<LinkReport>, String> {
    match asked(Request::Report).map_err(|error| error.to_string())? {
        Reply::Report { link } => Ok(link.map(|link| *link)),
        Reply::Refused { reason } => Err(reason),
        _ => Err("it sent a malformed reply".to_owned()),
    }
}

/// Its reply to a request.
fn asked(ask: Request) -> io::Result<Reply> {
    let holder = connect(Instant::now() + LIMIT)?;
    holder.set_read_timeout(Some(REPORT_LIMIT))?;
    (&holder).write_all(&line(&ask))?;
    let mut answer = String::new();
    BufReader::new(holder.take(LINE_MAX_BYTES)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Connects to the emulating process, which begins to listen only after the link is up; its socket has a name
/// before that.
fn connect(until: Instant) -> io::Result<UnixStream> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    loop {
        match UnixStream::connect(SOCKET) {
            Err(error)
                if matches!(error.kind(), NotFound | ConnectionRefused)
                    && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected,
        }
    }
}

fn recorded() -> Option<Up> {
    serde_json::from_str(&fs::read_to_string(RECORD).ok()?).ok()
}

fn record(up: &Up) -> Result<(), String> {
    let text = serde_json::to_vec(up).expect("it can be written as JSON");
    // At no moment is there half a record.
    let written = fs::write(NEW_RECORD, text).and_then(|()| fs::rename(NEW_RECORD, RECORD));
    written.map_err(|error| format!("cannot write {RECORD}: {error}{ROOT}"))
}

/// Whether every part of this link exists.
fn is_whole(up: &Up) -> bool {
    let named = [NEAR_NAME, FAR_NAME].iter().all(|name| path(name).exists());
    let is_emulated = up.link.parse::<Link>().is_ok_and(|link| link != Link::Veth);
    // A relay reports on its devices itself.
    let has_device = || {
        Namespace::open_named(NEAR_NAME)
            .is_ok_and(|near| ip(&near, &[&format!("link show {DEVICE}")]).is_ok())
    };
    let emulates = match (up.pid, &up.emulated_by) {
        (Some(pid), _) => is_ours(pid),
        (None, Some(by)) => by == "netem" && has_device(),
        (None, None) => !is_emulated && has_device(),
    };
    named && emulates
}

fn path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// The device and number of the file that a path names now; `None` if there is none.
fn identity(path: &Path) -> Option<(u64, u64)> {
    Some(identity_of(&fs::metadata(path).ok()?))
}

fn identity_of(data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

/// Whether this process is in one of the two namespaces. Another process that was given its number
/// since is not.
fn is_ours(pid: u32) -> bool {
    let own = identity(Path::new(&format!("/proc/{pid}/ns/net")));
    own.is_some() && [FAR_NAME, NEAR_NAME].iter().any(|name| identity(&path(name)) == own)
}

fn end(pid: u32) -> Result<(), String> {
    let began = Instant::now();
    while is_ours(pid) {
        process::kill_group(pid)
            .map_err(|error| format!("cannot end the relay, process {pid}: {error}{ROOT}"))?;
        if began.elapsed() > LIMIT {
            return Err(format!("the relay, process {pid}, does not end"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn netns(what: &str, name: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(["netns", what, name]).stdin(Stdio::null()).output().map_err(
            |error| format!("cannot run ip: {error} (Debian: apt-get install iproute2)"),
        )?;
    if output.status.success() {
        return Ok(());
    }
    let says = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip netns {what} {name}`: {}{ROOT}", says.trim()))
}
