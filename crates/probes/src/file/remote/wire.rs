//! A connection on which `nfs3_client` asks, one call at a time: it blocks, so that no runtime is
//! needed, ends in time, and takes no answer that is longer than an answer can be.

use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::nfs3_types::rpc::fragment_header;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The longest answer to what is asked here, in bytes: the list of what is exported is not.
const ANSWER_MOST_BYTES: u32 = 64 << 10;

/// The connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    /// How long an answer may take.
    limit: Duration,
    /// When the answer must be there.
    until: Instant,
    /// Whether the mark before an answer has not come yet, which says how long it is.
    before_mark: bool,
}

impl Wire {
    /// Asks over `stream`; an answer may take `limit`.
    pub(super) fn new(stream: TcpStream, limit: Duration) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Wire {
            stream,
            limit,
            until: Instant::now() + limit,
            before_mark: true,
        })
    }
}

impl AsyncRead for Wire {
    async fn async_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        match self.stream.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            read => read,
        }
    }

    async fn async_read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.async_read(&mut buffer[filled..]).await {
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.before_mark
            && let Ok(mark) = <[u8; 4]>::try_from(&*buffer)
        {
            let length = fragment_header::from(mark).fragment_length();
            if length > ANSWER_MOST_BYTES {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("an answer of {length} B, which is no NFS server's"),
                ));
            }
        }
        self.before_mark = false;
        Ok(())
    }
}

impl AsyncWrite for Wire {
    async fn async_write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    async fn async_write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.until = Instant::now() + self.limit;
        self.before_mark = true;
        self.stream
            .write_all(buffer)
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
                _ => error,
            })
    }
}

/// What comes of a call over a [`Wire`], which never waits for anything but by blocking.
pub(super) fn at_once<F: Future>(call: F) -> F::Output {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a wire blocks where another would wait"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs3_client::PortmapperClient;
    use std::net::TcpListener;
    use std::thread;

    /// What comes of a call that is answered by these bytes, after which the server is silent or goes.
    fn answered(bytes: &'static [u8], goes: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; 44];
            stream.read_exact(&mut call).unwrap();
            stream.write_all(bytes).unwrap();
            // Until the other end is gone.
            while !goes && stream.read(&mut call).is_ok_and(|read| read > 0) {}
        });
        let wire = Wire::new(stream, Duration::from_millis(100)).unwrap();
        let mut client = PortmapperClient::new(wire);
        let error = at_once(client.null()).unwrap_err().to_string();
        drop(client);
        server.join().unwrap();
        error
    }

    #[test]
    fn an_answer_that_cannot_be_one_is_not_waited_for_and_takes_no_memory() {
        let huge = answered(b"\xff\xff\xff\xffx", false);
        assert!(huge.contains("2147483647 B"), "{huge}");
        let silent = answered(b"\x80\0\0\x18half", false);
        assert!(silent.contains("timed out"), "{silent}");
        let gone = answered(b"\x80\0", true);
        assert!(gone.contains("end of file"), "{gone}");
    }
}
