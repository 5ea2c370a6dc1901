//! A server: one thread for each connection.

use super::line::open;
use super::wire::{EchoSyncHandler, EchoSyncProcessor, Structure, Summary};
use crate::Socket;
use ::thrift::OrderedFloat;
use ::thrift::server::TProcessor;
use std::cell::Cell;
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

#[derive(Debug, Default)]
pub(crate) struct Server {
    connections: Mutex<Vec<Connection>>,
}

/// A connection, and the thread that closes it at the end: shut down alone, it would leave a client waiting that sends more than is
/// read.
#[derive(Debug)]
struct Connection {
    socket: Weak<Socket>,
    thread: JoinHandle<()>,
}

impl crate::Server for Server {
    /// Serves a connection, on a thread of its own.
    fn serve(&self, socket: Socket) -> io::Result<()> {
        let (mut input, mut output) = open(&socket)?;
        let served = Arc::new(socket);
        let socket = Arc::downgrade(&served);
        let named = thread::Builder::new().name("thrift".into());
        let thread = named.spawn(move || {
            let processor = EchoSyncProcessor::new(Handler::default());
            while processor.process(&mut input, &mut output).is_ok() {}
            close(&served);
        })?;
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.thread.is_finished());
        connections.push(Connection { socket, thread });
        Ok(())
    }
}

fn close(socket: &Socket) {
    // Fails if the other end has closed the connection already.
    let _ = socket.0.shutdown(Shutdown::Both);
}

impl Drop for Server {
    fn drop(&mut self) {
        let connections = self.connections.get_mut().unwrap_or_else(PoisonError::into_inner);
        connections.iter().filter_map(|it| it.socket.upgrade()).for_each(|socket| close(&socket));
        for connection in connections.drain(..) {
            // A panic there was a bug, and was reported on standard error.
            let _ = connection.thread.join();
        }
    }
}

/// The methods. Each connection has its own handler, with the count of its stream.
#[derive(Debug, Default)]
struct Handler {
    chunks: Cell<i64>,
    bytes: Cell<i64>,
}

impl EchoSyncHandler for Handler {
    fn handle_echo_int(&self, value: i32) -> ::thrift::Result<i32> {
        Ok(value)
    }

    fn handle_echo_double(&self, value: OrderedFloat<f64>) -> ::thrift::Result<OrderedFloat<f64>> {
        Ok(value)
    }

    fn handle_echo_string(&self, value: String) -> ::thrift::Result<String> {
        Ok(value)
    }

    fn handle_echo_structure(&self, value: Structure) -> ::thrift::Result<Structure> {
        Ok(value)
    }

    fn handle_chunk(&self, data: Vec<u8>) -> ::thrift::Result<()> {
        self.chunks.set(self.chunks.get() + 1);
        self.bytes.set(self.bytes.get() + data.len() as i64);
        Ok(())
    }

    fn handle_finish(&self) -> ::thrift::Result<Summary> {
        Ok(Summary::new(self.chunks.take(), self.bytes.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server as _;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_connection_that_was_refused_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = Server::default();
        server.serve(Socket(listener.accept().unwrap().0)).unwrap();
        client.write_all(&[0xff; 64]).unwrap();
        // It says why, or nothing.
        let _ = client.read_to_end(&mut Vec::new());
        let is_open = || server.connections.lock().unwrap()[0].socket.upgrade().is_some();
        while is_open() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
