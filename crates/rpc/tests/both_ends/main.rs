//! Our servers and our clients with each other, with ends that send what is wrong, and with other
//! people's.

mod bad_input;
mod echo;
mod python;

use costof_rpc::{Client, Kind, Stack};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const STACKS: [Stack; 4] = [Stack::Grpc, Stack::GrpcTls, Stack::GrpcGzip, Stack::Thrift];

/// Those without TLS, whose keys strangers do not have.
const PLAIN: [Stack; 3] = [Stack::Grpc, Stack::GrpcGzip, Stack::Thrift];

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

/// Serves whoever connects, until it is dropped.
struct Listening {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// At this address.
    fn at(stack: Stack, address: SocketAddr) -> (Self, SocketAddr) {
        let server = costof_rpc::server(stack).expect("there are descriptors");
        let listener = TcpListener::bind(address).expect("there is a port");
        listener.set_nonblocking(true).expect("it is a socket");
        let address = listener.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((stream, _)) => server.serve(stream.into()).expect("there is a thread"),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    // It has gone before it was accepted.
                    Err(_) => {}
                }
            }
        });
        (Self { stop, thread: Some(thread) }, address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the server has panicked");
        }
    }
}

/// A server on loopback, and where it listens.
fn listen(stack: Stack) -> (Listening, SocketAddr) {
    Listening::at(stack, loopback())
}

/// A client that has connected.
fn connect(stack: Stack, address: SocketAddr) -> Box<dyn Client> {
    let key = costof_rpc::key(stack).expect("it is built with TLS");
    let mut client = costof_rpc::client(stack, key).expect("there are descriptors");
    reconnect(&mut *client, address);
    client
}

/// Gives the client a new connection.
fn reconnect(client: &mut dyn Client, address: SocketAddr) {
    let stream = TcpStream::connect(address).expect("somebody listens");
    client.over(stream.into()).expect("it is connected");
}

/// Returns true `count` times.
fn times(count: usize) -> Box<dyn FnMut() -> bool + Send> {
    let mut left = 0..count;
    Box::new(move || left.next().is_some())
}
