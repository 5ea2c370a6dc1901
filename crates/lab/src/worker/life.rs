//! What a worker lives by: a process that this one has started, or a connection to a costof that listens.

use super::{Lost, Place};
use crate::call::Connection;
use crate::host::{Host, WorkerCommand};
use crate::pipe;
use costof_model::Failure;
use costof_os::process::{kill_group, terminate_group};
use std::io::{self, ErrorKind, Read, Write};
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Life {
    child: Option<Child>,
    /// Who listens there ends the worker together with the connection.
    pub(super) connection: Option<Connection>,
}

/// Where a worker reads and writes.
pub(super) struct Streams {
    pub(super) input: Box<dyn Write + Send>,
    pub(super) output: Box<dyn Read + Send>,
    pub(super) errors: Option<ChildStderr>,
}

impl Life {
    pub(super) fn start(
        place: &Place<'_>,
        command: &WorkerCommand,
        interrupted: &AtomicBool,
    ) -> Result<(Life, Streams), Lost> {
        let cannot = |error: io::Error| cannot_start(place.host, command, &error);
        if let Host::Call(address) = place.host {
            let connection = Connection::call(address, command.token(), interrupted)?;
            let streams = Streams {
                input: Box::new(connection.socket.try_clone().map_err(cannot)?),
                output: Box::new(connection.socket.try_clone().map_err(cannot)?),
                errors: None,
            };
            return Ok((Life { child: None, connection: Some(connection) }, streams));
        }
        let start = || {
            let mut starting = command.on(place.host)?;
            if let Some(namespace) = place.end.and_then(|end| end.namespace.as_ref()) {
                namespace.start_in(&mut starting)?;
            }
            starting.spawn()
        };
        let mut child = start().map_err(cannot)?;
        let streams = Streams {
            input: Box::new(child.stdin.take().expect("standard input is a pipe")),
            output: Box::new(child.stdout.take().expect("standard output is a pipe")),
            errors: child.stderr.take(),
        };
        Ok((Life { child: Some(child), connection: None }, streams))
    }

    /// The exit status of a process that has ended.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Asks the process group to end.
    pub(super) fn terminate_group(&self) {
        let _ = self.child.as_ref().map(|child| terminate_group(child.id()));
    }

    /// Ends the process group at once. It may have ended with the worker, which is fine.
    pub(super) fn kill_group(&self) {
        let _ = self.child.as_ref().map(|child| kill_group(child.id()));
    }

    /// Ends it, and waits for a process as long as this.
    pub(super) fn kill(&mut self, limit: Duration) -> Option<ExitStatus> {
        if let Some(connection) = &self.connection {
            connection.hang_up();
        }
        let child = self.child.as_mut()?;
        let _ = child.kill();
        pipe::reap(child, limit)
    }
}

fn cannot_start(host: &Host, command: &WorkerCommand, error: &io::Error) -> Failure {
    let way_out = match (host, error.kind()) {
        (Host::Namespace(_), ErrorKind::PermissionDenied) => {
            " (only root may enter a named network namespace)"
        }
        (Host::Ssh(_), ErrorKind::NotFound) => {
            " (there is no ssh here; Debian: apt-get install openssh-client)"
        }
        _ => "",
    };
    let shown = command.shown(host);
    Failure::error(format!("cannot start a worker by {shown}: {error}{way_out}"))
}
