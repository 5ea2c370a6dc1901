//! The socket at which callers connect.

use crate::address::Address;
use crate::call::Connection;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Where callers connect.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ListenerSocket,
    /// The address, with the port that the kernel chose where any was asked for.
    pub(super) address: Address,
    /// The device and number of a Unix socket's file.
    file: Option<(u64, u64)>,
}

/// Which file has this name now.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let data = fs::symlink_metadata(path).ok()?;
    Some((data.dev(), data.ino()))
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(super) fn open(address: &Address) -> io::Result<Listener> {
        let (socket, address, file) = match address {
            Address::Ip(host, port) => {
                let listener = TcpListener::bind((&**host, *port))
                    .map_err(|error| with_the_way_out(error, *port))?;
                listener.set_nonblocking(true)?;
                let port = listener.local_addr()?.port();
                let address = Address::Ip(host.clone(), port);
                (ListenerSocket::Tcp(listener), address, None)
            }
            Address::Unix(path) => {
                let listener = listen_at(path)?;
                listener.set_nonblocking(true)?;
                let socket = ListenerSocket::Unix(listener);
                (socket, address.clone(), file_at(path))
            }
        };
        Ok(Listener { socket, address, file })
    }

    /// The next caller's connection; `WouldBlock` where none waits.
    pub(super) fn accept(&self) -> io::Result<Connection> {
        let connection = match &self.socket {
            ListenerSocket::Tcp(listener) => Connection::tcp(listener.accept()?.0),
            ListenerSocket::Unix(listener) => Connection::unix(listener.accept()?.0),
        };
        // A caller that has already gone counts as one that never came.
        connection.map_err(|_| ErrorKind::ConnectionAborted.into())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address
            // Somebody may have removed it, and listen there now.
            && file_at(path) == self.file
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn with_the_way_out(error: io::Error, port: u16) -> io::Error {
    let why = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "another process listens there (`ss -ltnp 'sport = :{port}'` shows which; another port, or \
             0 for any)"
        ),
        ErrorKind::AddrNotAvailable => {
            "this machine, or network namespace, has no such address (`ip addr` lists them)"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            "ports below 1024 need root (choose another port)".to_owned()
        }
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

/// Listens at a path, where a process that was killed may have left its socket.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let is_left = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            && UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            // Of several that find the same one, only one may remove it: the others could remove its own.
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let folder = File::open(folder.unwrap_or(Path::new(".")))?;
            if folder.try_lock().is_err() || !is_left(path) {
                let reason = "another process listens there, or a file lies there (another path)";
                return Err(io::Error::new(error.kind(), reason));
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}
