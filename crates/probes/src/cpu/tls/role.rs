//! Two ends of TLS in one thread.

use super::{Step, Tls};
use crate::prelude::*;
use costof_rpc::tls;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, HandshakeKind, ServerConfig,
    ServerConnection, SideData,
};
use std::io::{Read, Write};
use std::sync::Arc;

pub(super) struct Connections {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// A connection, and what travels between its ends.
struct Connection {
    client: ClientConnection,
    server: ServerConnection,
    bytes: Vec<u8>,
}

impl Setup<Tls> for Connections {
    fn set_up(point: &At<Tls>, _: &Launch) -> Result<Connections> {
        Tls::check_axes(point)?;
        let make = || {
            let (mut server, key) = tls::server()?;
            let mut client = tls::client(&key)?;
            if point.step == Step::Handshake {
                client.resumption = Resumption::disabled();
                server.send_tls13_tickets = 0;
            }
            Ok(Connections { client: client.into(), server: server.into() })
        };
        make().map_err(failed)
    }

    fn measure(&mut self, point: &At<Tls>, meter: &mut Meter<'_>) -> Result {
        // A library of TLS allocates its buffers.
        meter.operation_allocates();
        let mut connection = self.connect().map_err(failed)?;
        let kind = match point.step {
            Step::Message => {
                let sent = vec![7; point.size];
                let mut received = vec![0; point.size];
                repeat_fallible(meter, "cost", |n| {
                    (0..n).try_for_each(|_| connection.send(&sent, &mut received))
                })
                .map_err(failed)?;
                ensure!(sent == received, "a message came back different");
                return Ok(());
            }
            Step::Handshake => HandshakeKind::Full,
            Step::Resumed => HandshakeKind::Resumed,
        };
        let mut all_were = true;
        repeat_fallible(meter, "cost", |n| {
            for _ in 0..n {
                all_were &= self.connect()?.client.handshake_kind() == Some(kind);
            }
            Ok(())
        })
        .map_err(failed)?;
        ensure!(all_were, "a connection was not made as asked ({kind:?})");
        Ok(())
    }
}

impl Connections {
    fn connect(&self) -> io::Result<Connection> {
        let name = ServerName::try_from("costof").expect("it is a name");
        let client = ClientConnection::new(Arc::clone(&self.client), name);
        let mut connection = Connection {
            client: client.map_err(io::Error::other)?,
            server: ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?,
            bytes: Vec::with_capacity(20 << 10),
        };
        while connection.client.is_handshaking() || connection.server.is_handshaking() {
            connection.client_sends()?;
            connection.server_sends()?;
        }
        connection.server_sends()?;
        Ok(connection)
    }
}

impl Connection {
    fn client_sends(&mut self) -> io::Result<()> {
        flush(&mut self.client, &mut self.server, &mut self.bytes)
    }

    fn server_sends(&mut self) -> io::Result<()> {
        flush(&mut self.server, &mut self.client, &mut self.bytes)
    }

    fn send(&mut self, message: &[u8], received: &mut [u8]) -> io::Result<()> {
        self.client.writer().write_all(message)?;
        self.client_sends()?;
        self.server.reader().read_exact(received)
    }
}

/// Passes on what one end has to send to the other.
fn flush<From: SideData, To: SideData>(
    from: &mut ConnectionCommon<From>,
    to: &mut ConnectionCommon<To>,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    bytes.clear();
    while from.wants_write() {
        from.write_tls(bytes)?;
    }
    let mut left = &bytes[..];
    while !left.is_empty() {
        to.read_tls(&mut left)?;
        to.process_new_packets().map_err(io::Error::other)?;
    }
    Ok(())
}

fn failed(error: io::Error) -> Failure {
    Failure::error(format!("TLS failed: {error}"))
}
