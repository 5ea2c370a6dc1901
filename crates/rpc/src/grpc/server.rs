//! A server on a single thread.

use super::wire::echo_server::{Echo, EchoServer};
use super::wire::{Chunk, DoubleMessage, IntMessage, StringMessage, Structure, Summary};
use super::{MAX_FRAME, runtime, security, tokio_stream};
use crate::{MAX_MESSAGE_BYTES, Socket, Stack};
use futures_util::StreamExt;
use futures_util::future::select;
use std::io;
use std::pin::pin;
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::{Request, Response, Status, Streaming};

/// The most connections that are made at the same time; a slow one holds nobody up.
const MAX_HANDSHAKES: usize = 64;

#[derive(Debug)]
pub(crate) struct Server {
    /// The thread ends when this is dropped.
    running: Option<oneshot::Sender<()>>,
    sockets: UnboundedSender<Socket>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// # Errors
    /// The system's, for one more thread or its descriptors.
    pub(crate) fn start(stack: Stack) -> io::Result<Self> {
        let runtime = runtime()?;
        let (sockets, connections) = unbounded_channel();
        let named = thread::Builder::new().name("grpc".into());
        let (running, ended) = oneshot::channel();
        // All connections end with the runtime, also those that are being made.
        let thread = named.spawn(move || {
            runtime.block_on(select(pin!(serve(stack, connections)), ended));
        })?;
        Ok(Self { running: Some(running), sockets, thread: Some(thread) })
    }
}

impl crate::Server for Server {
    fn serve(&self, socket: Socket) -> io::Result<()> {
        let ended = || io::Error::other("the server has ended");
        self.sockets.send(socket).map_err(|_| ended())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.take();
        if let Some(thread) = self.thread.take() {
            // A panic there was a bug, and was reported on standard error.
            let _ = thread.join();
        }
    }
}

/// Serves connections until no more can come.
async fn serve(stack: Stack, connections: UnboundedReceiver<Socket>) {
    let connections = UnboundedReceiverStream::new(connections).map(tokio_stream);
    let mut echo = EchoServer::new(Service).max_decoding_message_size(MAX_MESSAGE_BYTES);
    if stack == Stack::GrpcGzip {
        echo = echo.send_compressed(Gzip).accept_compressed(Gzip);
    }
    let server = tonic::transport::Server::builder().max_frame_size(MAX_FRAME);
    // Errors of connections do not end it.
    let _ = match stack {
        Stack::GrpcTls => {
            let encrypted = connections.map(security::accept).buffer_unordered(MAX_HANDSHAKES);
            server.serve_with_incoming(echo, encrypted).await
        }
        _ => server.serve_with_incoming(echo, connections).await,
    };
}

struct Service;

/// A method that returns its argument.
macro_rules! echo {
    ($request:ident) => {
        Ok(Response::new($request.into_inner()))
    };
}

#[tonic::async_trait]
impl Echo for Service {
    async fn echo_int(&self, request: Request<IntMessage>) -> Result<Response<IntMessage>, Status> {
        echo!(request)
    }

    async fn echo_double(
        &self,
        request: Request<DoubleMessage>,
    ) -> Result<Response<DoubleMessage>, Status> {
        echo!(request)
    }

    async fn echo_string(
        &self,
        request: Request<StringMessage>,
    ) -> Result<Response<StringMessage>, Status> {
        echo!(request)
    }

    async fn echo_structure(
        &self,
        request: Request<Structure>,
    ) -> Result<Response<Structure>, Status> {
        echo!(request)
    }

    async fn upload(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Summary>, Status> {
        let (mut chunks, mut summary) = (request.into_inner(), Summary::default());
        while let Some(chunk) = chunks.message().await? {
            summary.chunks += 1;
            summary.bytes += chunk.data.len() as u64;
        }
        Ok(Response::new(summary))
    }
}
