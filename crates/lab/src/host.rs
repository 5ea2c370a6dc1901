//! Where a worker can be started.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A host: where a worker can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// This machine, by a child process of the controller's own executable.
    Local,
}

/// How a worker is started on the controller's machine.
#[derive(Debug)]
pub struct WorkerCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Kept open, so that the same executable runs even when its file is replaced.
    executable: Option<File>,
}

impl WorkerCommand {
    /// Any program whose standard input and output reach a worker.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> WorkerCommand {
        WorkerCommand {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            executable: None,
        }
    }

    /// The controller's own executable with these arguments, opened once, so
    /// that a build that replaces its file in mid-run changes nothing.
    ///
    /// # Errors
    /// Where the executable cannot be opened.
    pub fn own_executable(arguments: &[&str]) -> io::Result<WorkerCommand> {
        let executable = File::open("/proc/self/exe")?;
        let program = format!("/proc/self/fd/{}", executable.as_raw_fd());
        Ok(WorkerCommand {
            executable: Some(executable),
            ..WorkerCommand::new(program, arguments)
        })
    }

    /// What is started, for a person to read.
    pub(crate) fn shown(&self) -> String {
        match &self.executable {
            Some(_) => std::env::current_exe().map_or_else(
                |_| "costof's own executable".to_owned(),
                |path| path.display().to_string(),
            ),
            None => self.program.display().to_string(),
        }
    }

    /// The command that starts a worker on `host`: its input and output are
    /// pipes, and it leads a process group of its own, so that Ctrl-C reaches
    /// the controller alone.
    pub(crate) fn on(&self, host: &Host) -> Command {
        let mut command = match host {
            Host::Local => Command::new(&self.program),
        };
        command
            .args(&self.arguments)
            // Of a panic the message is kept; a backtrace would push it out.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_executable_is_named_by_its_path() {
        let shown = WorkerCommand::own_executable(&[]).unwrap().shown();
        assert_eq!(
            shown,
            std::env::current_exe().unwrap().display().to_string()
        );
        assert_eq!(
            WorkerCommand::new("/some/costof", &[]).shown(),
            "/some/costof"
        );
    }
}
