//! Merges small consecutive writes into one system call.
//!
//! hyper flushes a request's headers before the task that sends its message has run: two writes,
//! two packets, and a server that is woken twice. Here a flush first lets the other tasks of the
//! thread run, once, and then sends everything. grpc-go does the same: `loopyWriter.run` in its
//! `internal/transport/controlbuf.go` yields once if little is to be written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Larger writes are not copied to be merged.
const MAX_GATHERED: usize = 4096;

/// A connection whose small writes are merged.
#[derive(Debug)]
pub(super) struct Gathering<S> {
    stream: S,
    held: Vec<u8>,
    /// Whether the other tasks have had their turn.
    has_yielded: bool,
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, held: Vec::with_capacity(MAX_GATHERED), has_yielded: false }
    }

    /// Sends the held bytes.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if self.held.len() + bytes <= MAX_GATHERED {
            parts.iter().for_each(|part| self.held.extend(&**part));
            return Poll::Ready(Ok(bytes));
        }
        ready!(self.poll_held(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.held.is_empty() && !self.has_yielded {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_held(cx))?;
        self.has_yielded = false;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_held(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Takes this many bytes at once, and records each call.
    struct Recorder {
        most: usize,
        calls: Vec<Vec<u8>>,
    }

    impl AsyncWrite for Recorder {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.most);
            self.calls.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// The system's calls for these writes. A flush follows each without being awaited, and a last
    /// one is awaited.
    fn calls(most: usize, writes: &[&[u8]]) -> Vec<Vec<u8>> {
        let calls = Vec::new();
        let mut gathering = Gathering::new(Recorder { most, calls });
        crate::grpc::runtime().unwrap().block_on(async {
            for bytes in writes {
                let mut left = *bytes;
                while !left.is_empty() {
                    let write = poll_fn(|cx| Pin::new(&mut gathering).poll_write(cx, left));
                    let written = write.await.unwrap();
                    left = &left[written..];
                }
                if gathering.has_yielded {
                    continue;
                }
                let flush = |cx: &mut Context<'_>| {
                    Poll::Ready(Pin::new(&mut gathering).poll_flush(cx).is_pending())
                };
                assert!(poll_fn(flush).await, "the others have had no turn");
            }
            poll_fn(|cx| Pin::new(&mut gathering).poll_flush(cx)).await.unwrap();
        });
        assert!(gathering.held.is_empty());
        gathering.stream.calls
    }

    #[test]
    fn small_writes_are_one_call() {
        assert_eq!(calls(100, &[b"headers", b"message"]), [b"headersmessage"]);
    }

    #[test]
    fn what_the_system_does_not_take_at_once_follows_in_order() {
        let calls = calls(4, &[b"headers", b"message"]);
        assert_eq!(calls.concat(), b"headersmessage");
        assert_eq!(calls[0], b"head");
    }

    #[test]
    fn a_long_write_follows_what_is_held_and_is_not_copied() {
        let long = [7; MAX_GATHERED];
        let calls = calls(usize::MAX, &[b"headers", &long]);
        assert_eq!(calls, [&b"headers"[..], &long]);
    }
}
