//! The control connection besides the messages: lines of bounded length, in bounded time.

use super::Address;
use crate::net::rendezvous::scoped;
use costof_os::net::socket::{self, is_passing};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a read waits before it checks whether to go on.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the peer may accept nothing.
const STALLED: Duration = Duration::from_secs(10);
/// Seconds after which a silent peer counts as lost, for example after a power failure.
const LOST_SECONDS: u32 = 30;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A control connection.
#[derive(Debug)]
pub(super) struct Control {
    /// The socket, also of TCP: std reads and writes all stream sockets alike.
    socket: UnixStream,
    /// The local address; loopback's for a Unix socket.
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    /// The number of the interface through which a link-local address is reached; else 0.
    pub(super) scope: u32,
    /// The peer, for people.
    pub(super) peer: String,
}

impl Control {
    /// Connects, unless `stop` is set before. Neither resolving a name nor connecting can be
    /// interrupted, so a thread does both; after a stop it may go on, without effect.
    ///
    /// # Errors
    /// `Interrupted` where `stop` is set; those of resolving and connecting.
    pub(super) fn connect(address: &Address, stop: &AtomicBool) -> io::Result<Control> {
        let (connected, connection) = mpsc::channel();
        let address = address.clone();
        Builder::new().spawn(move || connected.send(Control::connect_uninterrupted(&address)))?;
        loop {
            match connection.recv_timeout(POLL_INTERVAL) {
                Ok(connection) => return connection,
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Acquire) => {}
                Err(_) => return Err(ErrorKind::Interrupted.into()),
            }
        }
    }

    fn connect_uninterrupted(address: &Address) -> io::Result<Control> {
        match address {
            Address::Ip(host, port) => Control::tcp(connect_tcp(host, *port)?),
            Address::Unix(path) => Control::unix(UnixStream::connect(path)?),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Control> {
        stream.set_nodelay(true)?;
        socket::notice_loss_after(&stream, LOST_SECONDS)?;
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Control {
            local: local.ip().to_canonical(),
            remote: remote.ip().to_canonical(),
            scope: match local {
                SocketAddr::V4(_) => 0,
                SocketAddr::V6(local) => local.scope_id(),
            },
            peer: remote.to_string(),
            socket: OwnedFd::from(stream).into(),
        }
        .configured()
    }

    pub(super) fn unix(socket: UnixStream) -> io::Result<Control> {
        Control {
            local: Ipv4Addr::LOCALHOST.into(),
            remote: Ipv4Addr::LOCALHOST.into(),
            scope: 0,
            peer: "a process on this machine".to_owned(),
            socket,
        }
        .configured()
    }

    fn configured(self) -> io::Result<Control> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(POLL_INTERVAL))?;
        self.socket.set_write_timeout(Some(STALLED))?;
        Ok(self)
    }

    /// The address of the other end, with its interface and any port.
    pub(super) fn peer_address(&self) -> SocketAddr {
        scoped(self.remote, self.scope)
    }

    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.write(&line)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(bytes)
    }

    /// Ends it at once, even while another thread reads from it.
    pub(super) fn hang_up(&self) {
        // It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Ends sending, but lets the peer read what was sent: closing a socket with unread data would
    /// discard that.
    pub(super) fn end(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const MAX_READS: u32 = 64;
        let shut = self.socket.shutdown(Shutdown::Write);
        let until = Instant::now() + PATIENCE;
        let mut reads = 0;
        while shut.is_ok() && reads < MAX_READS && Instant::now() < until {
            match (&self.socket).read(&mut [0; 4096]) {
                Ok(0) => return,
                Err(error) if !is_passing(&error) => return,
                _ => reads += 1,
            }
        }
    }
}

/// Incoming lines.
#[derive(Debug)]
pub(super) struct Lines<'c> {
    control: &'c Control,
    unread: Vec<u8>,
}

impl Lines<'_> {
    pub(super) fn new(control: &Control) -> Lines<'_> {
        Lines { control, unread: Vec::new() }
    }

    /// The next line without its end, waiting as long as `wanted` says.
    ///
    /// # Errors
    /// `UnexpectedEof` where the peer has gone, `InvalidData` for a line longer than `most` bytes,
    /// `Interrupted` where it is no longer wanted.
    pub(super) fn next(&mut self, most: usize, wanted: impl Fn() -> bool) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let rest = &self.unread[searched..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=searched + end).collect();
                line.pop();
                return Ok(line);
            }
            searched = self.unread.len();
            if searched > most {
                return Err(ErrorKind::InvalidData.into());
            }
            if !wanted() {
                return Err(ErrorKind::Interrupted.into());
            }
            let mut some = [0; 4096];
            match (&self.control.socket).read(&mut some) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend_from_slice(&some[..length]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next line, as a message.
    ///
    /// # Errors
    /// Those of [`Lines::next`]; `InvalidData` for what is not such a message.
    pub(super) fn message<M: DeserializeOwned>(
        &mut self,
        most: usize,
        wanted: impl Fn() -> bool,
    ) -> io::Result<M> {
        let line = self.next(most, wanted)?;
        serde_json::from_slice(&line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
    if port == 0 {
        return Err(invalid(
            "nothing listens at port 0 (use the port that the receiver shows)".to_owned(),
        ));
    }
    let mut failed = invalid("this host has no address".to_owned());
    let addresses = (host, port).to_socket_addrs();
    for address in addresses.map_err(|error| invalid(error.to_string()))? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Where senders connect.
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

    /// The next sender's connection; `WouldBlock` where none waits.
    pub(super) fn accept(&self) -> io::Result<Control> {
        let control = match &self.socket {
            ListenerSocket::Tcp(listener) => Control::tcp(listener.accept()?.0),
            ListenerSocket::Unix(listener) => Control::unix(listener.accept()?.0),
        };
        // A sender that has already gone counts as one that never came.
        control.map_err(|_| ErrorKind::ConnectionAborted.into())
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
                return Err(io::Error::new(
                    error.kind(),
                    "another process listens there, or a file lies there (another path)",
                ));
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::interactive) fn pair() -> (Control, Control) {
        let (one, other) = UnixStream::pair().expect("there are sockets");
        let control = |socket| Control::unix(socket).expect("it is a socket");
        (control(one), control(other))
    }

    #[test]
    fn lines_come_one_by_one_however_they_were_written() {
        let (one, other) = pair();
        let mut lines = Lines::new(&other);
        one.write(b"a\n\nbc").expect("it is written");
        one.write(b"d\n").expect("it is written");
        for line in [&b"a"[..], b"", b"bcd"] {
            assert_eq!(lines.next(100, || true).expect("it comes"), line);
        }
        one.send(&7).expect("it is written");
        assert_eq!(lines.message::<u32>(100, || true).expect("a number"), 7);
    }

    #[test]
    fn what_is_too_long_not_wanted_or_gone_is_an_error() {
        let kind = |lines: &mut Lines<'_>, wanted| {
            let line = lines.next(100, || wanted);
            line.map_err(|error| error.kind())
        };
        let (one, other) = pair();
        let mut lines = Lines::new(&other);
        assert_eq!(kind(&mut lines, false), Err(ErrorKind::Interrupted));
        one.write(&[b'x'; 50]).expect("it is written");
        drop(one);
        assert_eq!(kind(&mut lines, true), Err(ErrorKind::UnexpectedEof));
        let (one, other) = pair();
        one.write(&[b'x'; 5000]).expect("it is written");
        assert_eq!(kind(&mut Lines::new(&other), true), Err(ErrorKind::InvalidData));
    }
}
