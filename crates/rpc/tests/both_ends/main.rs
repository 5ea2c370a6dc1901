//! Our servers and our clients with each other, with ends that send what is wrong, and with other
//! people's.

mod bad_input;
mod echo;
mod python;

use costof_rpc::{Address, Client, Options, Server, Stack};
use std::net::SocketAddr;

fn loopback() -> Address {
    Address::Tcp(([127, 0, 0, 1], 0).into())
}

/// A server on loopback, and where it listens.
fn listen(stack: Stack, options: &Options) -> (Server, SocketAddr) {
    let server = Server::listen(stack, &loopback(), options).expect("there is a port");
    match server.address() {
        Some(&Address::Tcp(address)) => (server, address),
        other => panic!("{other:?}"),
    }
}

/// A client that has connected.
fn connect(stack: Stack, address: &Address, options: &Options) -> Client {
    let mut client = Client::new(stack, options).expect("there are descriptors");
    client.connect(address).expect("somebody listens");
    client
}

/// Returns true so many times.
fn times(count: usize) -> impl FnMut() -> bool + Send + 'static {
    let mut left = 0..count;
    move || left.next().is_some()
}
