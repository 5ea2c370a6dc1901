//! A worker as the controller sees it: a process that answers, or fails within a time limit. When
//! it is dropped, nothing is left of it.

mod life;
mod stderr;

use crate::call;
use crate::host::{Host, WorkerCommand};
use crate::link::End;
use crate::pipe;
use costof_model::protocol::{Answer, Command, Description, LINE_MAX_BYTES, PROTOCOL};
use costof_model::{Failure, FailureKind, harmless};
use life::Life;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};
use stderr::Stderr;

/// How long a worker may take at least to describe its machine, or to look at it: on a busy machine, a limit for
/// short measurements may be too short for that.
pub const IDLE_MIN: Duration = Duration::from_secs(10);
/// How often the controller checks whether it was interrupted.
const POLL: Duration = Duration::from_millis(100);
/// How many characters of any text in an answer are kept. The longest text, a kernel's command
/// line, has 2048 on both architectures.
const TEXT_MAX_CHARS: usize = 2048;
/// How long a machine may take to receive a copy of costof.
const COPY_LIMIT: Duration = Duration::from_secs(600);
/// How long a killed worker may take to free its memory and files.
const FREED_LIMIT: Duration = Duration::from_secs(10);
/// How long a worker that ended may take to close its outputs and be reaped.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running worker. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    host: Host,
    life: Life,
    /// Whether it has introduced itself.
    is_known: bool,
    /// What it has to do then, for an error.
    asked: &'static str,
    /// Whether the user has interrupted a wait for its answer.
    is_interrupted: bool,
    /// Its exit status, once known.
    status: Option<ExitStatus>,
    commands: Option<Sender<Vec<u8>>>,
    /// The lines, as they arrive.
    answers: Receiver<Vec<u8>>,
    /// One that came while another worker was waited for.
    early: Option<Vec<u8>>,
    /// Whether who sits at its end of a launch by hand wants it to end.
    pub(crate) has_enough: bool,
    stderr: Stderr,
    copied_bytes: Option<usize>,
    oom_kills_before: Option<u64>,
}

/// Where a worker runs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The host.
    pub host: &'a Host,
    /// The end of the link, if there is one.
    pub end: Option<&'a End>,
}

impl Place<'static> {
    /// A process on this machine, without a link.
    pub const LOCAL: Place<'static> = Place { host: &Host::Local, end: None };
}

/// Why a worker gave no answer, or a launch has no results.
#[derive(Debug)]
pub enum Lost {
    /// The worker is gone, or was killed because of an invalid answer or a timeout. Of a launch: while
    /// this point, by position, was measured; `None` before the first or after the last point, which
    /// affects all of them.
    Failed(Option<usize>, Failure),
    /// The controller was interrupted.
    Interrupted,
}

impl Lost {
    /// The same, while this point was measured.
    pub(crate) fn at(self, point: Option<usize>) -> Lost {
        match self {
            Lost::Failed(_, failure) => Lost::Failed(point, failure),
            Lost::Interrupted => Lost::Interrupted,
        }
    }

    /// As a failure, of whatever kind it is.
    pub fn failure(self) -> Failure {
        match self {
            Lost::Failed(_, failure) => failure,
            Lost::Interrupted => Failure::error("interrupted"),
        }
    }
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Lost {
        Lost::Failed(None, failure)
    }
}

impl Worker {
    /// Starts a worker and lets it describe itself and its machine, as [`start`](Worker::start) does.
    ///
    /// # Errors
    /// The errors of `start`, and if it does not describe itself.
    pub fn describe(
        place: &Place<'_>,
        command: &WorkerCommand,
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(Worker, Description), Lost> {
        let mut worker = Worker::start(place, command, limit, interrupted)?;
        match worker.ask(&Command::Describe, limit.max(IDLE_MIN), interrupted)? {
            Answer::Description(description) => Ok((worker, *description)),
            other => Err(worker.misfit(&other, "describe itself")),
        }
    }

    /// Starts a worker and reads its first line. Call this from a thread that outlives the worker:
    /// the kernel kills the worker when that thread ends.
    ///
    /// # Errors
    /// If it cannot be started, is not a worker, or speaks another protocol version.
    pub fn start(
        place: &Place<'_>,
        command: &WorkerCommand,
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Worker, Lost> {
        let oom_kills_before = oom_kills();
        let (life, streams) = Life::start(place, command, interrupted)?;
        let (commands, lines) = mpsc::channel();
        // Room for one answer and one more: a worker that sends more than it was asked for must
        // wait, and does not fill memory here.
        let (sender, answers) = mpsc::sync_channel(1);
        let (stderr, keep) = Stderr::keep(streams.errors);
        let mut worker = Worker {
            host: place.host.clone(),
            life,
            is_known: false,
            asked: "answer",
            is_interrupted: false,
            status: None,
            commands: Some(commands),
            answers,
            early: None,
            has_enough: false,
            stderr,
            copied_bytes: None,
            oom_kills_before,
        };
        // All three threads end with the worker, which closes what they read and write.
        let read_answers = move || {
            let limit = LINE_MAX_BYTES as u64;
            pipe::forward_lines(streams.output, limit, |line| sender.send(line).is_ok());
        };
        pipe::spawn("commands", move || write_commands(streams.input, &lines))
            .and_then(|()| pipe::spawn("answers", read_answers))
            .and_then(|()| pipe::spawn("stderr", keep))?;
        let first = match worker.answer(limit, interrupted)? {
            Answer::Absent { machine } => {
                worker.copy(&machine, command)?;
                worker.answer(limit.max(COPY_LIMIT), interrupted)?
            }
            first => first,
        };
        match first {
            Answer::Hello { protocol, .. } if protocol == PROTOCOL => {
                worker.is_known = true;
                Ok(worker)
            }
            Answer::Hello { protocol, costof } => Err(Failure::error(format!(
                "{} (costof {costof}) speaks protocol {protocol} and this controller (costof {}) \
                 protocol {PROTOCOL}: use the same release at both ends",
                worker.name(),
                env!("CARGO_PKG_VERSION"),
            ))
            .into()),
            Answer::Failed(failure) if matches!(place.host, Host::Call(_)) => {
                worker.end();
                Err(call::refused(place.host, &failure).into())
            }
            other => Err(worker.misfit(&other, "introduce itself")),
        }
    }

    /// Sends the static build of costof to a machine that has none.
    fn copy(&mut self, machine: &str, command: &WorkerCommand) -> Result<(), Lost> {
        let copies = command.copies().ok();
        let build = copies.and_then(|copies| copies.of(machine));
        let (Some(build), Host::Ssh(_), Some(commands)) = (build, &self.host, &self.commands)
        else {
            return Err(self.protocol_error("with a request for a costof that was not offered"));
        };
        self.copied_bytes = Some(build.len());
        let _ = commands.send(build.to_vec());
        Ok(())
    }

    /// How long the copy of costof is that the machine got for this worker.
    pub fn copied_bytes(&self) -> Option<usize> {
        self.copied_bytes
    }

    /// Sends a command to the worker. Never waits, and never fails: a worker that does not listen
    /// does not answer either, and that failure says more than a broken pipe.
    pub fn send(&mut self, command: &Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(pipe::line(command));
        }
    }

    /// The worker's answer, within `limit`.
    ///
    /// # Errors
    /// If there is no answer; the worker is then killed.
    pub fn answer(&mut self, limit: Duration, interrupted: &AtomicBool) -> Result<Answer, Lost> {
        let deadline = Instant::now() + limit;
        loop {
            let had_ended = self.status.is_some() && !matches!(self.host, Host::Exec(_));
            if interrupted.load(Ordering::Relaxed) {
                self.is_interrupted = true;
                return Err(Lost::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(answer) = self.poll(left.min(POLL))? {
                return Ok(answer);
            }
            // Also kills what the worker left in its process group. What left the group may keep its output open.
            match self.ended() {
                None if left.is_zero() => return Err(self.too_late(limit)),
                Some(_) if left.is_zero() || had_ended => return Err(self.gone()),
                _ => {}
            }
        }
    }

    /// The worker's answer, if it comes within this time.
    ///
    /// # Errors
    /// If there can be no answer; the worker is then killed.
    pub(crate) fn poll(&mut self, within: Duration) -> Result<Option<Answer>, Lost> {
        if !self.is_heard(within) {
            return Ok(None);
        }
        let Some(line) = self.early.take() else {
            return Err(self.gone());
        };
        match parse(&line).map_err(|rubbish| self.rubbish(&rubbish))? {
            Answer::Enough => {
                self.has_enough = true;
                Ok(None)
            }
            answer => Ok(Some(answer)),
        }
    }

    /// Whether something comes from the worker within this time, or it is gone. What came is kept.
    pub(crate) fn is_heard(&mut self, within: Duration) -> bool {
        if self.early.is_none() {
            match self.answers.recv_timeout(within) {
                Ok(line) => self.early = Some(line),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        true
    }

    /// The address at which it was called; loopback's without a port for a Unix socket.
    pub fn called(&self) -> Option<SocketAddr> {
        self.life.connection.as_ref().map(|connection| connection.remote)
    }

    /// The address from which it was called.
    pub fn called_from(&self) -> Option<SocketAddr> {
        self.life.connection.as_ref().map(|connection| connection.local)
    }

    /// Whether a worker that has no command left to answer has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self.answers.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// If there is no answer; the worker is then killed.
    pub fn ask(
        &mut self,
        command: &Command,
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Answer, Lost> {
        self.asked = match command {
            Command::Describe => "describe its machine",
            _ => "answer",
        };
        self.send(command);
        self.answer(limit, interrupted)
    }

    /// The failure of a worker whose reply was unexpected.
    pub(crate) fn protocol_error(&mut self, what: &str) -> Lost {
        self.end();
        Failure::error(format!("{} answered {what}", self.name())).into()
    }

    /// The failure of a worker that answered something else than what it should do.
    pub fn misfit(&mut self, answer: &Answer, wanted: &str) -> Lost {
        let name: String = answer.name().chars().take(200).collect();
        self.protocol_error(&format!("`{name}` where it should {wanted}"))
    }

    /// The failure of a worker whose line is not a message. Text before its introduction may come
    /// from another program in between.
    fn rubbish(&mut self, line: &str) -> Lost {
        if self.is_known {
            return self.protocol_error(&format!("with a malformed message: `{line}`"));
        }
        self.end();
        Failure::error(format!(
            "the first line from {} is `{line}`, which is not a message of the protocol: what starts the worker (a wrapper, a shell's start-up files) must print nothing to standard output",
            self.name()
        ))
        .into()
    }

    /// The worker's name, for display.
    fn name(&self) -> String {
        match &self.host {
            Host::Local => "the worker".to_owned(),
            host => format!("the worker on {host}"),
        }
    }

    /// The failure of a worker that did not answer.
    fn too_late(&mut self, limit: Duration) -> Lost {
        self.end();
        self.failed(
            FailureKind::TimedOut,
            format!(
                "{} did not {} within {} s and was ended (--timeout gives it longer)",
                self.name(),
                if self.is_known { self.asked } else { "introduce itself" },
                limit.as_secs_f64()
            ),
        )
    }

    /// The failure of a worker that closed its output.
    fn gone(&mut self) -> Lost {
        let status = self.reap();
        let how = match status {
            Some(status) => self.describe_end(status),
            None if self.life.connection.is_some() => "closed the connection".to_owned(),
            None => "closed its output without ending".to_owned(),
        };
        let code = status.and_then(|status| status.code()).filter(|_| !self.is_known);
        let way_out = code.and_then(|code| self.host.way_out(code));
        let way_out = way_out.map_or_else(String::new, |way_out| format!(" ({way_out})"));
        self.failed(FailureKind::Crashed, format!("{} {how}{way_out}", self.name()))
    }

    /// This failure, with the worker's last words.
    fn failed(&self, kind: FailureKind, mut reason: String) -> Lost {
        let words = self.last_words();
        if !words.is_empty() {
            reason += &format!("; it last said: {words}");
        }
        Failure { kind, reason }.into()
    }

    fn describe_end(&self, status: ExitStatus) -> String {
        let oom = matches!((self.oom_kills_before, oom_kills()), (Some(a), Some(b)) if b > a);
        match (status.signal(), status.code()) {
            (Some(9), _) if oom => "was killed because memory ran out (SIGKILL)".to_owned(),
            (Some(9), _) => "was killed (SIGKILL)".to_owned(),
            (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
            (None, Some(255)) if self.is_known && matches!(self.host, Host::Ssh(_)) => {
                "is gone: ssh lost the connection".to_owned()
            }
            // As a shell reports it, and the worker's guard on the other machine.
            (None, Some(code @ 129..=192)) if !self.host.is_here() => {
                format!("was killed there by {}", signal_name(code - 128))
            }
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        }
    }

    /// Waits for a worker that closed its output, and kills it if it does not end.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.commands = None;
        if self.life.connection.is_some() || !self.ends_soon() {
            self.end();
            return None;
        }
        self.status
    }

    /// Whether it ends within the limit.
    fn ends_soon(&mut self) -> bool {
        let deadline = Instant::now() + END_LIMIT;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.status.is_some()
    }

    /// The worker's exit status, if it has ended. Its process group is then killed at once: the
    /// number may soon be another process's. With a command of the user, only the input and output
    /// count; the worker may outlive the command, and ends when these close.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.life.status();
            if self.status.is_some() && !matches!(self.host, Host::Exec(_)) {
                self.life.kill_group();
            }
        }
        self.status
    }

    /// Kills the worker and everything that it started in its process group. A command of the user gets time to end
    /// by itself: it may hold what outlives it when it is killed, such as a scheduler's allocation.
    fn end(&mut self) {
        self.commands = None;
        if matches!(self.host, Host::Exec(_)) && !self.ends_soon() {
            self.life.terminate_group();
            self.ends_soon();
        }
        if self.ended().is_none() {
            self.life.kill_group();
            // The next launch must not measure how this one's memory and files are freed.
            let limit = match self.is_interrupted {
                true => pipe::KILLED_LIMIT,
                false => FREED_LIMIT,
            };
            self.status = self.life.kill(limit);
        }
    }

    /// The last lines of the worker's standard error, on one line.
    fn last_words(&self) -> String {
        let kept = self.stderr.kept();
        let text = String::from_utf8_lossy(&kept);
        let is_news = |line: &&str| !line.is_empty() && !line.starts_with("note: run with");
        let lines: Vec<&str> = text.lines().map(str::trim).filter(is_news).collect();
        harmless::beginning(&lines[lines.len().saturating_sub(3)..].join(" / "), 400)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes the commands in its own thread, so that a worker that does not read blocks nobody.
fn write_commands(mut input: impl Write, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        if input.write_all(&line).is_err() {
            return;
        }
    }
}

/// Parses the answer in a line; an error contains the line, for display. Text in it may come from
/// an untrusted source and goes to terminals and files: it is sanitized here, and nowhere else.
fn parse(line: &[u8]) -> Result<Answer, String> {
    let read = serde_json::from_slice(line).and_then(|mut value| {
        if let Some(number) = harmless::absurd_number(&value) {
            let reason =
                format!("the worker reports the number {number:e}, which nothing can have");
            return Ok(Answer::Failed(Failure::error(reason)));
        }
        harmless::change_texts(&mut value, |text| harmless::beginning(text, TEXT_MAX_CHARS));
        serde_json::from_value(value)
    });
    read.map_err(|_| harmless::beginning(String::from_utf8_lossy(line).trim_end(), 100))
}

/// How many processes the kernel has killed since boot because memory ran out (`oom_kill` of
/// /proc/vmstat, Linux 4.13).
fn oom_kills() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let line = text.lines().find(|line| line.starts_with("oom_kill "))?;
    line.split(' ').nth(1)?.parse().ok()
}

/// The name of a signal, with what it means where few know.
fn signal_name(signal: i32) -> String {
    let meaning = match signal {
        4 => ", an instruction that this CPU does not have",
        14 => {
            ", the deadline that it set itself (something kept the controller from running, or stopped it)"
        }
        31 => ", a system call that a filter forbids",
        _ => "",
    };
    // `signal: 11 (SIGSEGV) (core dumped)`
    let shown = ExitStatus::from_raw(signal).to_string();
    let name = shown.split(['(', ')']).nth(1).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("signal {signal}"), |name| format!("{name}{meaning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_answer_is_short_and_moves_no_cursor() {
        let long = "x".repeat(TEXT_MAX_CHARS + 1);
        let nasty = r"\u001b[2J\u009b2J\n\u007f\u0000";
        let clean = |line: String| format!("{:?}", parse(line.as_bytes()).unwrap());
        for line in [
            format!(r#"{{"is":"hello","protocol":1,"costof":"{nasty}{long}"}}"#),
            format!(r#"{{"is":"busy","holder":"{nasty}{long}"}}"#),
            format!(r#"{{"is":"prepared","offers":{{"{nasty}{long}":"{nasty}{long}"}}}}"#),
            format!(r#"{{"is":"failed","kind":"error","reason":"{nasty}{long}"}}"#),
        ] {
            let answer = clean(line);
            assert!(
                answer.contains("\u{fffd}[2J\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}xxx"),
                "{answer}"
            );
            assert!(answer.contains("x…") && !answer.contains(&long), "{answer}");
            // Debug would write a control character so.
            assert!(!answer.contains('\\'), "{answer}");
        }
        let rubbish = parse(format!("\x1b[2J{long}\n").as_bytes()).unwrap_err();
        assert!(rubbish.starts_with("\u{fffd}[2Jxxx") && rubbish.chars().count() == 101);
    }

    #[test]
    fn what_is_harmless_stays_as_it_is() {
        for answer in [
            Answer::Failed(Failure::error("0.1 µs “quoted” \\ x")),
            Answer::Closed { points: Vec::new(), noise: Box::default(), cpu_ns: 0.1 + 0.2 },
        ] {
            let line = serde_json::to_vec(&answer).unwrap();
            assert_eq!(parse(&line).unwrap(), answer);
        }
    }
}
