//! A server: one thread, which does all its work.

use super::client::chunk;
use super::runtime;
use super::stream::Stream;
use super::wire::echo_server::{Echo, EchoServer};
use super::wire::{Chunk, DoubleMessage, IntMessage, StringMessage, Structure, Summary, Wanted};
use crate::address::{Listener, Listens};
use crate::server::{CONNECTIONS_MOST, GREETING, REST};
use crate::{Options, Socket};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UnixListener};
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
}

impl Server {
    /// # Errors
    /// What the system says of one more thread, its descriptors, or the listener.
    pub(crate) fn start(listener: Option<Listener>, options: &Options) -> io::Result<Self> {
        let runtime = runtime()?;
        let listener = match listener {
            Some(listener) => {
                let _within = runtime.enter();
                Some(Accepts::new(listener)?)
            }
            None => None,
        };
        let (sockets, given) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let options = options.clone();
        let named = thread::Builder::new().name("grpc".into());
        let thread = named.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, given, &options) => {}
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
        })
    }

    pub(crate) fn serve(&self, socket: Socket) -> io::Result<()> {
        socket.set_nodelay()?;
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

/// The listener as the runtime knows it.
struct Accepts {
    by: AcceptsBy,
    /// Takes its path away when it goes.
    _listener: Listener,
}

enum AcceptsBy {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepts {
    /// Within the runtime.
    fn new(listener: Listener) -> io::Result<Self> {
        let by = match &listener.listens {
            Listens::Tcp(listener) => {
                let listener = listener.try_clone()?;
                listener.set_nonblocking(true)?;
                AcceptsBy::Tcp(TcpListener::from_std(listener)?)
            }
            Listens::Unix(listener) => {
                let listener = listener.try_clone()?;
                listener.set_nonblocking(true)?;
                AcceptsBy::Unix(UnixListener::from_std(listener)?)
            }
        };
        Ok(Self {
            by,
            _listener: listener,
        })
    }

    async fn accept(&self) -> io::Result<Stream> {
        match &self.by {
            AcceptsBy::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            AcceptsBy::Unix(listener) => Ok(listener.accept().await?.0.into()),
        }
    }
}

/// Serves who is let in, and the connections that are given, until it is dropped.
async fn serve(listener: Option<Accepts>, given: UnboundedReceiver<Socket>, options: &Options) {
    let (admitted, incoming) = unbounded_channel();
    if let Some(listener) = listener {
        tokio::spawn(admit(listener, options.token.clone(), admitted.clone()));
    }
    // It stays open where nobody listens, too.
    let _open = admitted;
    let given = UnboundedReceiverStream::new(given).map(Stream::new);
    let incoming = UnboundedReceiverStream::new(incoming).map(io::Result::Ok);
    let echo = EchoServer::new(Service {
        chunk_most: options.message_most,
    })
    .max_decoding_message_size(options.message_most)
    .max_encoding_message_size(options.message_most);
    // It goes on whatever a connection does, and has nothing else to say.
    let _ = tonic::transport::Server::builder()
        .max_frame_size(super::FRAME_MOST)
        .serve_with_incoming(echo, given.merge(incoming))
        .await;
}

/// Lets in who says the token.
async fn admit(listener: Accepts, token: Vec<u8>, admitted: UnboundedSender<Stream>) {
    let token = Arc::new(token);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MOST));
    loop {
        let Ok(mut stream) = listener.accept().await else {
            // No descriptors, perhaps: there may be some soon.
            sleep(REST).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (token, admitted) = (Arc::clone(&token), admitted.clone());
        let greet = async move {
            let mut said = vec![0; token.len()];
            if stream.read_exact(&mut said).await.is_ok() && said == *token {
                // It fails where the server has ended.
                let _ = admitted.send(stream.in_place(place));
            }
        };
        tokio::spawn(timeout(GREETING, greet));
    }
}

struct Service {
    chunk_most: usize,
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
        let size = size
            .filter(|size| *size <= self.chunk_most)
            .ok_or_else(|| {
                Status::out_of_range(format!(
                    "chunks are {} B at most, as messages are",
                    self.chunk_most
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
