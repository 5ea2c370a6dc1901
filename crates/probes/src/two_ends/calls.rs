//! The two ends of connections by which calls go: they find each other as all ends of probes do, and
//! give their sockets to the stack.

use crate::prelude::*;
use crate::two_ends::reports::CPU_OF_ALL;
use crate::two_ends::{Acceptor, Connector, Exchange};
use costof_exchange::rendezvous::{self, Flow};
use costof_exchange::transport::KEY;
use costof_exchange::transport::calls::RpcServer;
use costof_rpc::{Client, Socket, Stack};
use std::fmt::Display;

/// How long the role's own thread sleeps until it checks whether it is stopped. It shares a CPU with the
/// server's threads.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What keeps the CPU awake meanwhile, and the connections.
pub(crate) type Connected = (Awake, Vec<Socket>);

/// Serves calls until the client is done.
///
/// # Errors
/// Why no client connected, or the stack cannot serve.
pub(crate) fn serve_calls(
    exchange: &Exchange,
    _: &str,
    acceptor: &mut Acceptor,
    meter: &mut Meter<'_>,
) -> Result {
    // Its threads start on the CPU of this one.
    let server = start(stack(exchange))?;
    let accepted = acceptor.accept(meter, |listener, stop| {
        let flows = listener.accept(stop)?.into_iter();
        let answered = |flow: Flow| {
            flow.send_token()?;
            Ok(Socket::from(flow.into_socket()?))
        };
        flows.map(answered).collect::<io::Result<_>>()
    })?;
    let Some((_awake, sockets)) = accepted else {
        return Ok(());
    };
    meter.operation_allocates();
    server.serve(sockets).map_err(broken)?;
    meter.until_stopped(|| std::thread::sleep(POLL_INTERVAL));
    if let Some(ns) = server.cpu_ns() {
        meter.value(CPU_OF_ALL, ns);
    }
    Ok(())
}

/// The stack of an exchange of calls.
pub(crate) fn stack(exchange: &Exchange) -> Stack {
    exchange.over.stack().expect("only stacks of calls come here")
}

/// A server whose threads start where this one runs.
///
/// # Errors
/// If the threads cannot be started.
pub(crate) fn start(stack: Stack) -> Result<RpcServer> {
    RpcServer::start(stack).map_err(broken)
}

/// Connects to the end that is called, with as many connections as asked for.
///
/// # Errors
/// If it cannot be reached.
pub(crate) fn connect(
    exchange: &Exchange,
    connections: usize,
    connector: &mut Connector,
) -> Result<Connected> {
    connector.connect(|address, token| {
        let flows = rendezvous::connect(exchange.socket(), address, connections, token)?;
        let connected = |flow: Flow| Ok(Socket::from(flow.into_socket()?));
        flows.into_iter().map(connected).collect()
    })
}

/// A client of the end that is called, and what keeps the CPU awake.
///
/// # Errors
/// If that end cannot be reached.
pub(crate) fn client(
    exchange: &Exchange,
    connector: &mut Connector,
) -> Result<(Awake, Box<dyn Client>)> {
    let key = connector.offer(KEY);
    let (awake, mut sockets) = connect(exchange, 1, connector)?;
    let socket = sockets.pop().expect("one connection was asked for");
    let client = costof_rpc::client(stack(exchange), key.as_deref()).and_then(|mut client| {
        client.over(socket)?;
        Ok(client)
    });
    Ok((awake, client.map_err(broken)?))
}

/// A failure of a stack.
pub(crate) fn broken(error: impl Display) -> Failure {
    Failure::error(format!("the call failed: {error}"))
}
