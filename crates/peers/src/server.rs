//! The server of a tool that has one. It is started before its client, and ended by its own process id after
//! the client, even if the client failed. It also ends when this process ends for any reason.

use crate::child::{self, Interrupt, KillOnDrop};
use crate::error::{Error, OrCannot, Result, failed};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The placeholder for the port in the arguments of a server and its client.
pub const PORT: &str = "PORT";

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often costof checks whether it listens.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a server waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Connections.
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
    /// Starts `program` on one CPU. When this returns, it listens on a port of its own.
    ///
    /// # Errors
    /// The server cannot be started, exits at once, or does not listen in time.
    pub fn start(
        program: &Path,
        arguments: &[String],
        transport: Transport,
        cpu: usize,
        interrupt: &Interrupt,
    ) -> Result<Server> {
        let port = free_port()?;
        let mut command = child::pinned(cpu, program)?;
        command.args(with_port(arguments, port));
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

/// The arguments with this port in place of [`PORT`].
pub fn with_port(arguments: &[String], port: u16) -> Vec<String> {
    let put = |argument: &String| match argument.as_str() {
        PORT => port.to_string(),
        other => other.to_owned(),
    };
    arguments.iter().map(put).collect()
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
    let files = match transport {
        Transport::Tcp => ["tcp", "tcp6"],
        Transport::Udp => ["udp", "udp6"],
    };
    files
        .iter()
        .filter_map(|file| fs::read_to_string(format!("/proc/{process}/net/{file}")).ok())
        .any(|sockets| is_listed(&sockets, port, transport))
}

/// Searches lines such as `0: 0100007F:14B5 00000000:0000 0A …`: a number, both addresses, the state. Source:
/// proc(5).
fn is_listed(sockets: &str, port: u16, transport: Transport) -> bool {
    // The state: listening, or for UDP not connected.
    let wanted = match transport {
        Transport::Tcp => "0A",
        Transport::Udp => "07",
    };
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit_once(':'));
        let here = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        here && words.nth(1) == Some(wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::words;
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
        let connected = "0: 0100007F:14B5 0100007F:0016 01 00000000:00000000\n";
        assert!(!is_listed(connected, 0x14b5, Transport::Tcp));
        assert!(!is_listed("  sl  local_address rem_address   st\n", 0, Transport::Udp));
    }

    #[test]
    fn a_server_is_ended_with_its_value_and_one_that_fails_is_told() {
        let python = "import socket,time\ns=socket.create_server(('127.0.0.1',int(__import__('sys').argv[1])))\ntime.sleep(600)";
        let arguments = ["-c", python, PORT].map(str::to_owned);
        let interrupt = Interrupt::never();
        let start = |arguments: &[String]| {
            let cpu = costof_os::sched::affinity::allowed().unwrap()[0];
            Server::start(Path::new("python3"), arguments, Transport::Tcp, cpu, &interrupt)
        };
        match start(&arguments) {
            Ok(server) => {
                let id = server.child.id();
                assert!(listens(std::process::id(), server.port, Transport::Tcp));
                drop(server);
                assert!(!Path::new(&format!("/proc/{id}")).exists());
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
        let error = start(&words("-c raise(SystemExit(3))")).map(drop).unwrap_err();
        assert!(error.to_string().contains("at once") || error.to_string().contains("no python3"));
    }

    #[test]
    fn the_port_is_put_where_it_belongs() {
        assert_eq!(with_port(&words("-p PORT -x"), 7), ["-p", "7", "-x"]);
    }
}
