//! Child processes. Each has a time limit. costof ends a child by its process id if it takes longer, or if
//! the user interrupts.

use crate::error::{Error, Result, failed};
use crate::packages;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often costof checks for an interrupt: rarely, since checking takes a CPU.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often costof checks whether a child that has closed its outputs has exited.
const LAST_POLL_INTERVAL: Duration = Duration::from_micros(100);
/// How long a killed child may take to end.
const KILLED_LIMIT: Duration = Duration::from_millis(500);
/// How long costof waits for the end of stderr after the child has exited.
const STDERR_LIMIT: Duration = Duration::from_secs(5);
/// At most this many characters of a child's stderr are shown.
const STDERR_CHARS: usize = 600;

/// Whether Ctrl-C or a termination signal came.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// An interrupt that has come once this flag is set.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(flag)
    }

    /// An interrupt that never comes.
    pub fn never() -> Interrupt {
        Interrupt(Arc::new(AtomicBool::new(false)))
    }

    /// Whether it has come.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The result of a child process.
#[derive(Debug)]
pub struct Finished {
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// The time from before its start until its exit.
    pub wall: Duration,
}

/// Runs a command until it exits.
///
/// # Errors
/// The child cannot be started, takes longer than `limit`, or fails.
pub fn finish(command: &mut Command, limit: Duration, interrupt: &Interrupt) -> Result<Finished> {
    finish_watched(command, limit, interrupt, POLL_INTERVAL, &mut |_| {})
}

/// Like [`finish`], and calls `poll` with the child's process id at regular intervals.
pub fn finish_watched(
    command: &mut Command,
    limit: Duration,
    interrupt: &Interrupt,
    every: Duration,
    poll: &mut dyn FnMut(u32),
) -> Result<Finished> {
    let shown = shown(command);
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = self::start(command)?;
    let output = read_apart(child.0.stdout.take())?;
    let stderr = read_apart(child.0.stderr.take())?;
    let may_go_on = || -> Result<()> {
        if interrupt.is_set() {
            return Err(Error::Interrupted);
        }
        if start.elapsed() < limit {
            return Ok(());
        }
        Err(failed(format!("`{shown}` took longer than {} s and was ended", limit.as_secs_f64())))
    };
    let output = loop {
        match output.recv_timeout(every) {
            Ok(bytes) => break bytes,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        may_go_on()?;
        poll(child.0.id());
    };
    let status = loop {
        let ended = child.0.try_wait();
        if let Some(status) = ended.map_err(|error| failed(format!("`{shown}`: {error}")))? {
            break status;
        }
        may_go_on()?;
        std::thread::sleep(LAST_POLL_INTERVAL);
    };
    let wall = start.elapsed();
    // A process that the child started may keep the pipe open; otherwise the end of the pipe comes at once.
    let patience = if status.success() && !output.is_empty() {
        POLL_INTERVAL
    } else {
        // Then standard error is all that the child printed.
        STDERR_LIMIT
    };
    let stderr = stderr.recv_timeout(patience).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    if !status.success() {
        // A terminal interrupts the child too, which may be why it failed.
        may_go_on()?;
        return Err(failed(format!("`{shown}` ended with {status}: {}", end_of(&stderr))));
    }
    Ok(Finished { output: String::from_utf8_lossy(&output).into_owned(), stderr, wall })
}

/// Runs `program` on one CPU. The kernel kills it when this process ends for any reason. The child process
/// becomes the program itself, so that ending the child ends the program.
///
/// # Errors
/// The program is not installed.
pub fn pinned(cpu: usize, program: &Path) -> Result<Command> {
    // Otherwise taskset would start and then fail with an error message of its own.
    let Some(found) = packages::find(program) else {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        return Err(failed(cannot_start(&Command::new(program), &missing)));
    };
    let mut command = until_death("taskset");
    command.args(["--cpu-list", &cpu.to_string()]).arg(found);
    Ok(command)
}

/// Runs `program`. The kernel kills it when this process ends for any reason.
pub fn until_death(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// Starts a child and discards its output.
///
/// # Errors
/// It cannot be started.
pub fn start_silent(command: &mut Command) -> Result<KillOnDrop> {
    start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Starts a child.
///
/// # Errors
/// It cannot be started.
pub fn start(command: &mut Command) -> Result<KillOnDrop> {
    let started = command.spawn();
    started.map(KillOnDrop).map_err(|error| failed(cannot_start(command, &error)))
}

/// A child that is ended and reaped when this is dropped.
pub struct KillOnDrop(Child);

impl KillOnDrop {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The child's standard output, if it is a pipe that nobody has taken.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// The exit status, if the child has exited by itself.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.0.try_wait();
        status.map_err(|error| failed(format!("process {}: {error}", self.id())))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // For a child that has exited, both do nothing. One that waits inside the kernel may never end.
        let _ = self.0.kill();
        let deadline = Instant::now() + KILLED_LIMIT;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reads until the end in a separate thread, so that no pipe fills up.
fn read_apart(pipe: Option<impl Read + Send + 'static>) -> Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    start_thread(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Bytes that were read before an error count.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody receives the bytes if the child was ended.
        let _ = sender.send(bytes);
    })?;
    Ok(receiver)
}

fn start_thread(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().spawn(work);
    started.map(drop).map_err(|error| failed(format!("cannot start a thread: {error}")))
}

/// The words of a command.
pub fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn cannot_start(command: &Command, error: &io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => packages::missing(&program),
        _ => format!("cannot start {program}: {error}"),
    }
}

fn end_of(text: &str) -> String {
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(STDERR_CHARS);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Interrupt {
        Interrupt::never()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_child_says_is_kept() {
        let finished = finish(&mut shell("echo one; echo two"), LONG, &never()).unwrap();
        assert_eq!(finished.output, "one\ntwo\n");
    }

    #[test]
    fn a_child_that_fails_is_named_with_its_stderr() {
        let error = finish(&mut shell("echo no >&2; exit 3"), LONG, &never()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c") && text.contains('3') && text.ends_with("no"));
    }

    /// As where the one who reads gets no processor for a while.
    #[test]
    fn a_stderr_that_comes_late_is_heard() {
        let late = "(sleep 0.5; echo late >&2) >&- &";
        let error = finish(&mut shell(&format!("{late} exit 3")), LONG, &never()).unwrap_err();
        assert!(error.to_string().ends_with("late"), "{error}");
        let finished = finish(&mut shell(late), LONG, &never()).unwrap();
        assert_eq!(finished.stderr, "late\n");
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended() {
        for script in ["exec sleep 600", "exec sleep 600 >&- 2>&-"] {
            let limit = Duration::from_millis(20);
            let error = finish(&mut shell(script), limit, &never()).unwrap_err();
            assert!(error.to_string().contains("was ended"), "{script}: {error}");
        }
    }

    #[test]
    fn an_interrupt_ends_the_child() {
        let interrupt = never();
        let mut id = None;
        let ended = finish_watched(
            &mut shell("exec sleep 600"),
            LONG,
            &interrupt,
            Duration::from_millis(1),
            &mut |child| {
                id = Some(child);
                interrupt.0.store(true, Ordering::Relaxed);
            },
        );
        assert!(matches!(ended, Err(Error::Interrupted)));
        let status = format!("/proc/{}/status", id.expect("the child was seen"));
        assert!(!std::path::Path::new(&status).exists());
    }

    #[test]
    fn a_missing_program_comes_with_the_way_out() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        assert!(cannot_start(&Command::new("perf"), &error).contains("linux-perf"));
        let error = pinned(0, Path::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("no-such-program"));
        assert!(pinned(0, Path::new("sh")).is_ok() && pinned(0, Path::new("/bin/sh")).is_ok());
        let mut missing = Command::new("/nowhere/at/all");
        let error = finish(&mut missing, LONG, &never()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"));
    }
}
