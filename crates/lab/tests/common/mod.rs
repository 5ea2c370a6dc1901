//! What tests over links share: each is also the process that holds its link, and those that use it.

#![allow(dead_code, reason = "not every test needs all of it")]

use costof_lab::host::WorkerCommand;
use costof_lab::link::{End, Made};
use costof_model::failure::FailureKind;
use costof_os::process;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Nobody interrupts a test.
pub(crate) static GOES_ON: AtomicBool = AtomicBool::new(false);

/// How long one may take that does not get on.
pub(crate) const HANGS: Duration = Duration::from_secs(3600);

/// Ends this process with the one that started it, and when it hangs.
pub(crate) fn end_what_hangs() {
    process::die_with_parent().unwrap();
    std::thread::spawn(|| {
        std::thread::sleep(HANGS);
        eprintln!("it does not get on");
        std::process::exit(1);
    });
}

/// The link, held by this program with that argument; or why there is none here.
pub(crate) fn made(hold: &str, link: &str) -> Option<Made> {
    let holder = WorkerCommand::own_executable(&[hold]).unwrap();
    match Made::make(&link.parse().unwrap(), None, &holder, &GOES_ON) {
        Ok(made) => Some(made),
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
            eprintln!("skipped: {failure}");
            None
        }
    }
}

/// A program at an end of a link.
pub(crate) fn command(end: &End, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    let namespace = end.namespace.as_ref().unwrap();
    namespace.start_in(&mut command).unwrap();
    command
}

/// This program at an end of a link, until it is dropped.
pub(crate) struct Part(Child, BufReader<ChildStdout>);

impl Part {
    /// It has begun when this returns: it prints a line then.
    pub(crate) fn start(end: &End, arguments: &[&str]) -> Part {
        let mut command = command(end, "/proc/self/exe", arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut part = Part(child, output);
        assert_eq!(part.line(), "begins");
        part
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What else it prints, up to its end, which must be a good one.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success());
        rest
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // One that has ended by itself is past both.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
