//! A server: one thread, which does all its work.

use super::client::chunk;
use super::runtime;
use super::stream::{Stream, tokio_stream};
use super::wire::echo_server::{Echo, EchoServer};
use super::wire::{Chunk, DoubleMessage, IntMessage, StringMessage, Structure, Summary, Wanted};
use crate::address::{Listener, ListenerSocket};
use crate::server::{ACCEPT_RETRY_DELAY, MAX_CONNECTIONS, TOKEN_TIMEOUT};
use crate::{Options, Socket};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

#[derive(Debug)]
pub(crate) struct Server {
    sockets: UnboundedSender<Socket>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Removes its path when it is dropped.
    _listener: Option<Listener>,
}

impl Server {
    /// # Errors
    /// What the system says of one more thread, its descriptors, or the listener.
    pub(crate) fn start(listener: Option<Listener>, options: &Options) -> io::Result<Self> {
        let runtime = runtime()?;
        let accepts = {
            let _within = runtime.enter();
            listener.as_ref().map(TokioListener::new).transpose()?
        };
        let (sockets, given) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let options = options.clone();
        let named = thread::Builder::new().name("grpc".into());
        let thread = named.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(accepts, given, &options) => {}
                    // Or its sender has gone.
                    _ = stopped => {}
                }
            });
            // All connections end with it.
        })?;
        Ok(Self {
            sockets,
            stop: Some(stop),
            thread: Some(thread),
            _listener: listener,
        })
    }

    pub(crate) fn serve(&self, socket: Socket) -> io::Result<()> {
        let ended = |_| io::Error::other("the server has ended");
        self.sockets.send(socket).map_err(ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic there was a bug, and has been reported on standard error.
            let _ = thread.join();
        }
    }
}

/// A listener as the runtime knows it.
enum TokioListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl TokioListener {
    /// Within the runtime.
    fn new(listener: &Listener) -> io::Result<Self> {
        Ok(match &listener.socket {
            ListenerSocket::Tcp(socket) => {
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                Self::Tcp(TcpListener::from_std(socket)?)
            }
            ListenerSocket::Unix(socket) => {
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                Self::Unix(UnixListener::from_std(socket)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        let socket: Socket = match self {
            Self::Tcp(listener) => listener.accept().await?.0.into_std()?.into(),
            Self::Unix(listener) => listener.accept().await?.0.into_std()?.into(),
        };
        tokio_stream(socket)
    }
}

/// Serves the clients that sent the token, and the connections that are given, until it is dropped.
async fn serve(
    listener: Option<TokioListener>,
    given: UnboundedReceiver<Socket>,
    options: &Options,
) {
    let (admitted, incoming) = unbounded_channel();
    if let Some(listener) = listener {
        tokio::spawn(admit(listener, options.token.clone(), admitted.clone()));
    }
    // It stays open where nobody listens, too.
    let _open = admitted;
    let given = UnboundedReceiverStream::new(given).map(|socket| {
        Ok(Stream {
            io: tokio_stream(socket)?,
            _permit: None,
        })
    });
    let incoming = UnboundedReceiverStream::new(incoming).map(io::Result::Ok);
    let echo = EchoServer::new(Service {
        max_chunk: options.message_most,
    })
    .max_decoding_message_size(options.message_most)
    .max_encoding_message_size(options.message_most);
    // It goes on whatever a connection does, and reports nothing else.
    let _ = tonic::transport::Server::builder()
        .max_frame_size(super::MAX_FRAME)
        .serve_with_incoming(echo, given.merge(incoming))
        .await;
}

/// Admits the clients that send the token.
async fn admit(listener: TokioListener, token: Vec<u8>, admitted: UnboundedSender<Stream>) {
    let token = Arc::new(token);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(mut io) = listener.accept().await else {
            // No descriptors, perhaps: there may be some soon.
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (token, admitted) = (Arc::clone(&token), admitted.clone());
        let greet = async move {
            let mut received = vec![0; token.len()];
            if io.read_exact(&mut received).await.is_ok() && received == *token {
                let _permit = Some(place);
                // It fails where the server has ended.
                let _ = admitted.send(Stream { io, _permit });
            }
        };
        tokio::spawn(timeout(TOKEN_TIMEOUT, greet));
    }
}

struct Service {
    max_chunk: usize,
}

/// One method that gives back what it is given.
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

    type DownloadStream = tokio_stream::Iter<Chunks>;

    async fn download(
        &self,
        request: Request<Wanted>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let Wanted { chunks, size } = request.into_inner();
        let size = usize::try_from(size).ok();
        let size = size.filter(|size| *size <= self.max_chunk).ok_or_else(|| {
            Status::out_of_range(format!(
                "chunks are {} B at most, as messages are",
                self.max_chunk
            ))
        })?;
        let chunk = chunk(size);
        let chunks = Chunks {
            left: chunks,
            chunk,
        };
        Ok(Response::new(tokio_stream::iter(chunks)))
    }

    type ExchangeStream = Streaming<Chunk>;

    async fn exchange(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        echo!(request)
    }
}

/// The same chunk again and again.
struct Chunks {
    left: u64,
    chunk: Chunk,
}

impl Iterator for Chunks {
    type Item = Result<Chunk, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(Ok(self.chunk.clone()))
    }
}
