//! Measured: a user's program that answers each line with a line, or runs to its end, on the CPUs of this process and in
//! its process group.
//!
//! What it writes to standard error is read as it comes, and its end kept: nothing that it writes fills memory or blocks
//! it. To ask it allocates nothing. Dropping it kills it.
//!
//! Source: pipe(7), poll(2).

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// The longest answer, in bytes.
const ANSWER_MAX: usize = 64;
/// How much of standard error is kept, from its end.
const ERRORS_KEPT: usize = 512;
/// How long a program that has closed its output, or was killed, may take to end.
const END: Duration = Duration::from_secs(1);
/// How often it is checked whether a program has ended whose children keep its standard error open.
const POLL: Duration = Duration::from_millis(50);

/// A running program.
#[derive(Debug)]
pub struct LineProgram {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: Errors,
    answer: [u8; ANSWER_MAX],
}

/// Why a program gave no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// It has closed its output; how it ended, if it has.
    Ended(Option<ExitStatus>),
    /// It has not answered in time.
    Late,
    /// It wrote something else than one line of at most 63 bytes; what it begins with.
    NoLine(String),
    /// Another error.
    Error(io::Error),
}

/// Standard error, as far as it was read.
#[derive(Debug)]
struct Errors {
    pipe: Option<ChildStderr>,
    end: Vec<u8>,
}

impl LineProgram {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Those of fork(2) and execve(2).
    pub fn start(command: &mut Command) -> io::Result<LineProgram> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().expect("standard input is a pipe");
        let output = child.stdout.take().expect("standard output is a pipe");
        let errors = Errors::collect(&mut child);
        Ok(LineProgram { child, input, output, errors, answer: [0; ANSWER_MAX] })
    }

    /// Writes a line, which ends with a line feed, and reads the line with which the program answers, without its end.
    ///
    /// # Errors
    ///
    /// If there is no such answer. The program is then of no use any more.
    #[inline]
    pub fn ask(&mut self, line: &[u8], limit: Duration) -> Result<&[u8], NoAnswer> {
        match self.input.write_all(line) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(self.ended()),
            other => other.map_err(NoAnswer::Error)?,
        }
        let mut length = 0;
        loop {
            self.wait(limit)?;
            match self.output.read(&mut self.answer[length..]) {
                Ok(0) => return Err(self.ended()),
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(NoAnswer::Error(error)),
            }
            let answer = &self.answer[..length];
            match answer.iter().position(|byte| *byte == b'\n') {
                Some(end) if end + 1 == length => return Ok(&self.answer[..end]),
                None if length < ANSWER_MAX => {}
                _ => return Err(NoAnswer::NoLine(String::from_utf8_lossy(answer).into_owned())),
            }
        }
    }

    /// Waits for output, and keeps what comes on standard error meanwhile.
    fn wait(&mut self, limit: Duration) -> Result<(), NoAnswer> {
        let whole = limit;
        let limit =
            Timespec::try_from(limit).map_err(|error| NoAnswer::Error(io::Error::other(error)))?;
        let mut since = None;
        loop {
            let output = PollFd::new(&self.output, PollFlags::IN);
            let (ready, has_output, has_errors) = match &self.errors.pipe {
                Some(errors) => {
                    let mut both = [output, PollFd::new(errors, PollFlags::IN)];
                    let ready = retry_on_intr(|| poll(&mut both, Some(&limit)));
                    let [output, errors] = both.map(|each| !each.revents().is_empty());
                    (ready, output, errors)
                }
                None => {
                    let mut one = [output];
                    (retry_on_intr(|| poll(&mut one, Some(&limit))), true, false)
                }
            };
            if ready.map_err(|error| NoAnswer::Error(error.into()))? == 0 {
                return Err(NoAnswer::Late);
            }
            if has_errors {
                self.errors.read();
            }
            if has_output {
                return Ok(());
            }
            if since.get_or_insert_with(Instant::now).elapsed() > whole {
                return Err(NoAnswer::Late);
            }
        }
    }

    /// It has closed its output, or its input.
    fn ended(&mut self) -> NoAnswer {
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return NoAnswer::Ended(Some(status));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        NoAnswer::Ended(None)
    }

    /// The end of what it wrote to standard error so far.
    pub fn last_words(&mut self) -> String {
        self.errors.drain();
        self.errors.text()
    }
}

impl Drop for LineProgram {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a child, and waits for its end; one that cannot end is left to the kernel.
fn end(child: &mut Child) {
    let _ = child.kill();
    let deadline = Instant::now() + END;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a command to its end, without input, and without its output: how it ended, and the end of what it wrote to
/// standard error. `None` instead if it was killed because it took longer than `limit`.
///
/// # Errors
///
/// Those of fork(2), execve(2) and poll(2).
pub fn run_to_end(
    command: &mut Command,
    limit: Duration,
) -> io::Result<(Option<ExitStatus>, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut errors = Errors::collect(&mut child);
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            errors.drain();
            return Ok((Some(status), errors.text()));
        }
        if Instant::now() > deadline {
            end(&mut child);
            return Ok((None, errors.text()));
        }
        match &errors.pipe {
            Some(_) if errors.has_more(POLL) => errors.read(),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

impl Errors {
    fn collect(child: &mut Child) -> Errors {
        let pipe = child.stderr.take();
        Errors { pipe, end: Vec::with_capacity(2 * ERRORS_KEPT) }
    }

    fn has_more(&self, within: Duration) -> bool {
        let within = Timespec::try_from(within).unwrap_or_default();
        self.pipe.as_ref().is_some_and(|pipe| {
            let mut pipe = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
            retry_on_intr(|| poll(&mut pipe, Some(&within))).is_ok_and(|ready| ready > 0)
        })
    }

    /// Reads what is there.
    fn read(&mut self) {
        let mut part = [0; ERRORS_KEPT];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut part)) {
            Some(Ok(length @ 1..)) => {
                self.end.extend_from_slice(&part[..length]);
                let over = self.end.len().saturating_sub(ERRORS_KEPT);
                self.end.drain(..over);
            }
            Some(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            _ => self.pipe = None,
        }
    }

    /// Reads what a pipe holds at most, so that a writer of gigabytes is left after that.
    fn drain(&mut self) {
        for _ in 0..256 {
            if !self.has_more(Duration::ZERO) {
                break;
            }
            self.read();
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.end).trim().to_owned()
    }
}

/// How a process ended, in words: `ended with exit code 3`.
pub fn how_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> LineProgram {
        LineProgram::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    fn asked_within(limit: Duration, script: &str) -> Result<String, NoAnswer> {
        let mut program = shell(script);
        let answer = program.ask(b"12\n", limit)?;
        Ok(String::from_utf8_lossy(answer).into_owned())
    }

    fn asked(script: &str) -> Result<String, NoAnswer> {
        asked_within(Duration::from_secs(20), script)
    }

    #[test]
    fn a_program_answers_or_it_is_known_why_not() {
        assert_eq!(asked("cat").unwrap(), "12");
        assert_eq!(asked("head -c 300000 /dev/zero >&2; exec cat").unwrap(), "12");
        assert_eq!(asked("exec 2>&-; read n; printf 1; sleep 0.05; echo 2").unwrap(), "12");
        let late = asked_within(Duration::from_millis(300), "exec sleep 9");
        assert!(matches!(late, Err(NoAnswer::Late)));
        assert!(matches!(asked("exec >&-; exec sleep 9"), Err(NoAnswer::Ended(None))));
        let Err(NoAnswer::Ended(Some(status))) = asked("exit 3") else { panic!("it ended") };
        assert_eq!(how_ended(status), "ended with exit code 3");
        for script in ["yes", "yes | tr -d '\\n'", "read n; printf '12\\nmore\\n'"] {
            assert!(matches!(asked(script), Err(NoAnswer::NoLine(_))), "{script}");
        }
    }

    #[test]
    fn the_last_words_are_kept() {
        let mut program = shell("echo why >&2; exit 1");
        assert!(program.ask(b"1\n", Duration::from_secs(5)).is_err());
        assert_eq!(program.last_words(), "why");
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 10000000 /dev/zero; seq 100000 >&2; sleep 3 & exit 4"]);
        let (status, words) = run_to_end(&mut command, Duration::from_secs(20)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(4));
        assert!(words.ends_with("100000") && words.len() <= ERRORS_KEPT, "{words}");
        let hanging = run_to_end(Command::new("sleep").arg("9"), Duration::from_millis(50));
        assert_eq!(hanging.unwrap().0, None);
    }
}
