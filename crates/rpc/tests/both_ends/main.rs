//! Our servers and our clients with each other, with ends that send what is wrong, and with other
//! people's.

mod bad_input;
mod echo;
mod python;

use costof_rpc::{Client, InFlight, Kind, Options, Protocol, RpcError, Server, Stack, Transport};
use std::net::{SocketAddr, TcpStream};

const STACKS: [Stack; 5] = [
    Stack::Grpc,
    Stack::Thrift(Transport::Framed, Protocol::Binary),
    Stack::Thrift(Transport::Framed, Protocol::Compact),
    Stack::Thrift(Transport::Buffered, Protocol::Binary),
    Stack::Thrift(Transport::Buffered, Protocol::Compact),
];

/// The payloads of the study.
const STUDY: [Kind; 6] = [
    Kind::Int,
    Kind::Double,
    Kind::Structure,
    Kind::String(512),
    Kind::String(1024),
    Kind::String(2048),
];

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// A server on loopback, and where it listens.
fn listen(stack: Stack, options: &Options) -> (Server, SocketAddr) {
    let server = Server::listen(stack, loopback(), options).expect("there is a port");
    let address = server.address().expect("it listens");
    (server, address)
}

/// A client that has connected.
fn connect(stack: Stack, address: SocketAddr, options: &Options) -> Client {
    let mut client = Client::new(stack, options).expect("there are descriptors");
    client.connect(address).expect("somebody listens");
    client
}

/// Calls in flight over `connections` connections.
fn in_flight(
    stack: Stack,
    address: SocketAddr,
    connections: usize,
    options: &Options,
) -> Result<InFlight, RpcError> {
    let connect = |_| TcpStream::connect(address).expect("somebody listens").into();
    InFlight::over(stack, (0..connections).map(connect).collect(), options)
}

/// Returns true `count` times.
fn times(count: usize) -> impl FnMut() -> bool + Send + 'static {
    let mut left = 0..count;
    move || left.next().is_some()
}
