//! The process that holds a link, as the controller sees it, and the messages between the two:
//! JSON, one message per line.

use crate::host::{Host, WorkerCommand};
use crate::pipe::{self, line};
use costof_model::{Failure, FailureKind, Link, LinkReport};
use costof_os::process;
use costof_os::process::namespace::Namespace;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long creating a link may take.
const MAKE_LIMIT: Duration = Duration::from_secs(20);
/// How long the holder may take for any other answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How often a wait checks whether the controller was interrupted.
const POLL: Duration = Duration::from_millis(50);
/// The longest line that either accepts, in bytes.
pub(crate) const LINE_MAX_BYTES: u64 = 64 << 10;

const MALFORMED: &str = "its holder sent a malformed reply";

/// A request to the holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// A launch begins: use this seed, count from zero.
    Begin {
        /// The seed of the losses.
        seed: u64,
    },
    /// Relay on these CPUs.
    RelayOn {
        /// Their numbers.
        cpus: Vec<usize>,
    },
    /// Report what has happened since.
    Report,
}

/// A reply of the holder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The first reply: the link exists.
    Link {
        /// Its namespaces, as the holder's own descriptors.
        near: i32,
        far: i32,
        /// Whether they belong to a user namespace of the holder.
        user: bool,
    },
    /// The request was executed.
    Done,
    /// What has happened; `None` if nothing emulates the link.
    Report { link: Option<Box<LinkReport>> },
    /// The request failed, and why.
    Refused { reason: String },
}

/// The process that holds a link. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Holder {
    child: Child,
    asks: ChildStdin,
    says: Receiver<Vec<u8>>,
}

impl Holder {
    /// Starts a holder, and returns its namespaces. Call this from a thread that outlives the
    /// holder: the kernel kills the holder when that thread ends.
    pub(crate) fn start(
        link: &Link,
        command: &WorkerCommand,
        interrupted: &AtomicBool,
    ) -> Result<(Holder, Namespace, Namespace), Failure> {
        let refused =
            |reason: String| Failure::unsupported(format!("cannot make the link {link}: {reason}"));
        // The next launch may have more luck.
        let lost = |reason: String| Failure { kind: FailureKind::Crashed, ..refused(reason) };
        let mut command = command.on(&Host::Local).map_err(|error| refused(error.to_string()))?;
        command.arg(link.to_string()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|error| lost(format!("its holder does not start: {error}")))?;
        let pid = child.id();
        let asks = child.stdin.take().expect("standard input is a pipe");
        let output = child.stdout.take().expect("standard output is a pipe");
        let (sender, says) = mpsc::channel();
        let mut holder = Holder { child, asks, says };
        // Ends with the holder, which closes what it reads.
        pipe::spawn("link", move || {
            pipe::forward_lines(output, LINE_MAX_BYTES, |line| sender.send(line).is_ok());
        })?;
        match holder.hear(MAKE_LIMIT, interrupted) {
            Ok(Reply::Link { near, far, user }) => {
                let of = |descriptor: i32| {
                    let user = user.then(|| PathBuf::from(format!("/proc/{pid}/ns/user")));
                    let network = format!("/proc/{pid}/fd/{descriptor}");
                    Namespace::open(user.as_deref(), Path::new(&network))
                };
                let ends = of(near).and_then(|near| Ok((near, of(far)?)));
                let (near, far) = ends
                    .map_err(|error| lost(format!("its namespaces cannot be opened: {error}")))?;
                Ok((holder, near, far))
            }
            Ok(Reply::Refused { reason }) => Err(refused(reason)),
            Ok(_) => Err(refused(MALFORMED.to_owned())),
            Err(reason) => Err(lost(reason)),
        }
    }

    /// Sends a request and returns the reply.
    ///
    /// # Errors
    /// If there is none in time, or the controller is interrupted meanwhile.
    pub(crate) fn ask(&mut self, ask: Request, interrupted: &AtomicBool) -> Result<Reply, String> {
        match self.asks.write_all(&line(&ask)) {
            Ok(()) => self.hear(ANSWER_LIMIT, interrupted),
            Err(_) => Err("its holder has ended".to_owned()),
        }
    }

    fn hear(&mut self, limit: Duration, interrupted: &AtomicBool) -> Result<Reply, String> {
        let deadline = Instant::now() + limit;
        let line = loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err("costof was interrupted".to_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.says.recv_timeout(left.min(POLL)) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => return Err("its holder ended, or took too long".to_owned()),
            }
        };
        serde_json::from_slice(&line).map_err(|_| MALFORMED.to_owned())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It leads a group, which also contains the programs that it has just started (ip, tc).
        // An error means that they have already ended, which is fine.
        let _ = process::kill_group(self.child.id());
        let _ = self.child.kill();
        let _ = pipe::reap(&mut self.child, pipe::KILLED_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_holder_once_the_controller_is_interrupted() {
        // It never answers. The limit for that is twenty seconds.
        let silent =
            WorkerCommand::own_executable(&["--ignored", "--exact", "--list", "--nocapture"]);
        let link = "veth".parse().unwrap();
        let interrupted = AtomicBool::new(true);
        let started = Holder::start(&link, &silent.unwrap(), &interrupted);
        let failure = started.map(drop).unwrap_err();
        assert!(failure.reason.contains("interrupted"), "{failure}");
    }

    #[test]
    fn every_message_is_read_back() {
        let relay_on = Request::RelayOn { cpus: vec![0, 3] };
        for ask in [Request::Begin { seed: u64::MAX }, relay_on, Request::Report] {
            let read: Request = serde_json::from_slice(&line(&ask)).unwrap();
            assert_eq!(read, ask);
        }
        let report = || Some(Box::new(LinkReport::default()));
        for say in [Reply::Done, Reply::Report { link: report() }, Reply::Report { link: None }] {
            let text = line(&say);
            let read: Reply = serde_json::from_slice(&text).unwrap();
            assert_eq!(line(&read), text);
        }
    }
}
