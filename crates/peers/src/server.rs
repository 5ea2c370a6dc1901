//! The server of a tool that has one. It is started before its client, and ended by its own process id after
//! the client, even if the client failed. It also ends when this process ends for any reason.

use crate::child::{self, Interrupt, KillOnDrop};
use crate::error::{Error, OrCannot, Result, failed};
use crate::tool::put;
use procfs::net::{TcpState, UdpState};
use procfs::process::Process;
use serde::Deserialize;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often costof checks whether it listens.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a server waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// A running server; dropping it ends the server.
pub struct Server {
    child: KillOnDrop,
    /// The port on which it listens.
    pub port: u16,
}

impl Server {
    /// Starts `program` on one CPU, with a port of its own for `{port}` in its arguments. When this returns, it
    /// listens.
    ///
    /// # Errors
    /// The server cannot be started, exits at once, or does not listen in time.
    pub fn start(
        program: &Path,
        run: &str,
        transport: Transport,
        cpu: usize,
        interrupt: &Interrupt,
    ) -> Result<Server> {
        let port = free_port()?;
        let mut command = child::pinned(cpu, program)?;
        let words = [("port", port.to_string())];
        command.args(run.split_whitespace().map(|word| put(word, &words)));
        Self::listening(command, port, transport, interrupt)
    }

    /// Starts a command that listens on this port, if need be in another network namespace.
    ///
    /// # Errors
    /// The errors of [`Server::start`].
    pub fn listening(
        mut command: Command,
        port: u16,
        transport: Transport,
        interrupt: &Interrupt,
    ) -> Result<Server> {
        let child = child::start_silent(&mut command)?;
        let mut server = Server { child, port };
        let until = Instant::now() + START_LIMIT;
        while !listens(server.child.id(), port, transport) {
            if interrupt.is_set() {
                return Err(Error::Interrupted);
            }
            if let Some(status) = server.child.status()? {
                return Err(failed(format!("its server ended at once with {status}")));
            }
            if Instant::now() > until {
                return Err(failed(format!(
                    "its server does not listen on port {port} after {} s",
                    START_LIMIT.as_secs()
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(server)
    }
}

/// A port that is free for both transports at this moment.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .or_cannot("find a port to listen on")
}

/// Whether a socket in the process's network namespace listens on the port. The kernel's list says so; a
/// connection to the server would count as a client.
fn listens(process: u32, port: u16, transport: Transport) -> bool {
    let Ok(process) = Process::new(process.cast_signed()) else {
        return false;
    };
    match transport {
        Transport::Tcp => {
            let mut sockets = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
            sockets.any(|own| own.local_address.port() == port && own.state == TcpState::Listen)
        }
        Transport::Udp => {
            let mut sockets = [process.udp(), process.udp6()].into_iter().flatten().flatten();
            sockets.any(|own| own.local_address.port() == port && own.state == UdpState::Close)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn listeners_are_found_where_the_kernel_lists_them() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = std::process::id();
        let ports = [
            (listener.local_addr().unwrap().port(), Transport::Tcp),
            (socket.local_addr().unwrap().port(), Transport::Udp),
        ];
        assert!(ports.iter().all(|(port, transport)| listens(own, *port, *transport)));
        drop((listener, socket));
        assert!(!ports.iter().any(|(port, transport)| listens(own, *port, *transport)));
    }

    #[test]
    fn a_server_is_ended_with_its_value_and_one_that_fails_is_told() {
        let python = "-c s=__import__('socket').create_server(('127.0.0.1',{port}));__import__('time').sleep(600)";
        let interrupt = Interrupt::never();
        let start = |run: &str| {
            let cpu = costof_os::sched::affinity::allowed().unwrap()[0];
            Server::start(Path::new("python3"), run, Transport::Tcp, cpu, &interrupt)
        };
        match start(python) {
            Ok(server) => {
                let id = server.child.id();
                assert!(listens(std::process::id(), server.port, Transport::Tcp));
                drop(server);
                assert!(!Path::new(&format!("/proc/{id}")).exists());
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
        let error = start("-c raise(SystemExit(3))").map(drop).unwrap_err();
        assert!(error.to_string().contains("at once") || error.to_string().contains("no python3"));
    }
}
