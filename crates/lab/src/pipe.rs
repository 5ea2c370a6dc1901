//! Threads that end by themselves, and the messages that they pass between pipes and channels.

use costof_model::Failure;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long a killed process may take to end. One that waits inside the kernel, for a device or a lock, may never.
pub(crate) const KILLED_LIMIT: Duration = Duration::from_millis(500);

/// Waits for a child that was killed, but not for ever: one that cannot end is left to the kernel.
pub(crate) fn reap(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            ended => return ended.ok().flatten(),
        }
    }
}

/// Starts a thread that ends by itself.
///
/// # Errors
/// If the system refuses another thread: the limit of the user or of the cgroup is reached.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop).map_err(|error| {
        Failure::unsupported(format!(
            "cannot start a thread: {error} (ulimit -u and the cgroup's pids.max limit them)"
        ))
    })
}

/// Forwards the complete lines of a pipe, up to a maximum length, until there are no more or nobody
/// listens. Text after the last line is a message that its writer did not finish.
pub(crate) fn forward_lines(
    pipe: impl Read,
    limit_bytes: u64,
    mut hand_on: impl FnMut(Vec<u8>) -> bool,
) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        let read = (&mut pipe).take(limit_bytes).read_until(b'\n', &mut line);
        let is_whole = line.ends_with(b"\n") || line.len() as u64 == limit_bytes;
        if read.is_err() || !is_whole || !hand_on(line) {
            return;
        }
    }
}

/// A message as a line of JSON.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("it can be written as JSON");
    line.push(b'\n');
    line
}
