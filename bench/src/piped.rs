//! Children whose output is read line by line, while they run.

use crate::child::{self, Interrupt, KillOnDrop};
use crate::error::{Error, Result, failed};
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often an interrupt is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts a child whose output is read line by line. It shares the standard error of this process.
pub(crate) fn start_piped(command: &mut Command) -> Result<PipedChild> {
    let mut child = child::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let output = child.output().expect("standard output is a pipe");
    let (sender, lines) = mpsc::channel();
    // The thread ends when the child exits and the pipe closes.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(PipedChild { child, lines, shown: child::shown(command) })
}

/// A child whose output is read line by line. Dropping it ends and reaps the child.
pub(crate) struct PipedChild {
    child: KillOnDrop,
    lines: Receiver<String>,
    shown: String,
}

impl PipedChild {
    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the child prints.
    pub(crate) fn line(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<String> {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(POLL_INTERVAL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed(format!("`{}` ended without a word", self.shown)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.is_set() {
                return Err(Error::Interrupted);
            }
            if start.elapsed() > limit {
                return Err(failed(format!(
                    "`{}` printed nothing for {} s and was ended",
                    self.shown,
                    limit.as_secs_f64()
                )));
            }
        }
    }

    /// Waits for this time, then returns if the child is still running.
    pub(crate) fn wait_running(&mut self, time: Duration, interrupt: &Interrupt) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            if interrupt.is_set() {
                return Err(Error::Interrupted);
            }
            if let Some(status) = self.child.status()? {
                return Err(failed(format!("`{}` ended with {status}", self.shown)));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// The numbers in a line that a child printed; there have to be exactly `N`.
pub(crate) fn numbers<const N: usize>(line: &str) -> Result<[f64; N]> {
    let numbers: Option<Vec<f64>> = line.split(' ').map(|word| word.parse().ok()).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| failed(format!("it printed `{line}`, and not {N} numbers")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_heard_until_there_are_no_more() {
        let mut child = start_piped(&mut shell("echo one; echo two")).unwrap();
        assert_eq!(child.line(LONG, &Interrupt::never()).unwrap(), "one");
        assert_eq!(child.line(LONG, &Interrupt::never()).unwrap(), "two");
        let error = child.line(LONG, &Interrupt::never()).unwrap_err();
        assert!(error.to_string().contains("without a word"), "{error}");
        let mut silent = start_piped(&mut shell("exec sleep 600")).unwrap();
        let error = silent.line(POLL_INTERVAL, &Interrupt::never()).unwrap_err();
        assert!(error.to_string().contains("printed nothing"), "{error}");
    }

    #[test]
    fn numbers_are_as_many_as_there_have_to_be() {
        assert_eq!(numbers("1 2.5").unwrap(), [1.0, 2.5]);
        for other in ["1", "1 2 3", "1 x", ""] {
            assert!(numbers::<2>(other).is_err(), "{other}");
        }
    }
}
