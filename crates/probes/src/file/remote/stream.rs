//! A connection for `nfs3_client`, one call at a time. It blocks, so that no runtime is needed, and has a
//! timeout. It refuses a reply that is longer than a reply can be, or has a part that says it is: unpacking
//! would reserve that much memory.

use super::reply::{MAX_HANDLE_BYTES, Malformed, Reply};
use crate::prelude::*;
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::nfs3_types::mount::{self, MOUNT_PROGRAM};
use nfs3_client::nfs3_types::nfs3::{self, NFS_PROGRAM};
use nfs3_client::nfs3_types::rpc::fragment_header;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The longest reply to the calls made here, in bytes; the list of exports is not requested.
const MAX_REPLY_BYTES: u32 = 64 << 10;

/// The connection.
#[derive(Debug)]
pub(super) struct BlockingStream {
    stream: TcpStream,
    /// How long a reply may take.
    timeout: Duration,
    /// When the reply must be complete.
    deadline: Instant,
    /// Whether the next bytes are the mark before a reply, which gives its length.
    before_mark: bool,
    /// The xid of the last call.
    procedure: Procedure,
}

impl BlockingStream {
    /// Calls over `stream`; a reply may take `timeout`.
    pub(super) fn new(stream: TcpStream, timeout: Duration) -> io::Result<BlockingStream> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(BlockingStream {
            stream,
            timeout,
            deadline: Instant::now() + timeout,
            before_mark: true,
            procedure: Procedure::default(),
        })
    }
}

impl AsyncRead for BlockingStream {
    async fn async_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
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
        let invalid = |what| Err(io::Error::new(ErrorKind::InvalidData, what));
        if self.before_mark
            && let Ok(mark) = <[u8; 4]>::try_from(&*buffer)
        {
            let length = fragment_header::from(mark).fragment_length();
            if length > MAX_REPLY_BYTES {
                return invalid(format!("invalid length of an answer: {length} B"));
            }
        }
        if !self.before_mark
            && let Some(what) = too_long(self.procedure, buffer)
        {
            return invalid(format!("the server sends {what}"));
        }
        self.before_mark = false;
        Ok(())
    }
}

impl AsyncWrite for BlockingStream {
    async fn async_write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    async fn async_write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.deadline = Instant::now() + self.timeout;
        self.before_mark = true;
        self.procedure = procedure_of(buffer).unwrap_or_default();
        self.stream.write_all(buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

/// A program and the number of its procedure.
type Procedure = (u32, u32);

const MNT: Procedure = (mount::PROGRAM, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
const LOOKUP: Procedure = (nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_LOOKUP as u32);

/// The procedure of a call: after the mark, the xid, the kind of the message and the version of
/// RPC. Source: RFC 5531, section 9.
fn procedure_of(call: &[u8]) -> Option<Procedure> {
    let word = |at: usize| {
        let bytes = call.get(4 * at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    };
    Some((word(4)?, word(6)?))
}

/// Which part of a reply claims to be longer than possible, if any. A reply that ends too early, or
/// rejects the call, is left to the code that unpacks it.
fn too_long(procedure: Procedure, reply: &[u8]) -> Option<&'static str> {
    match check(procedure, Reply(reply)) {
        Err(Malformed::Invalid(what)) => Some(what),
        Ok(()) | Err(Malformed::Short | Malformed::Rejected(_)) => None,
    }
}

/// Source: RFC 1813, section 3.3.3 and appendix I.
fn check(procedure: Procedure, mut reply: Reply<'_>) -> Result<(), Malformed> {
    let _xid = reply.word()?;
    reply.accepted()?;
    if ![MNT, LOOKUP].contains(&procedure) || reply.word()? != 0 {
        return Ok(());
    }
    reply.skip_opaque(MAX_HANDLE_BYTES, "a handle that is too long")?;
    if procedure == MNT && reply.word()? as usize > reply.0.len() / 4 {
        return Err(Malformed::Invalid("a list that is longer than the answer"));
    }
    Ok(())
}

/// The result of a call over a [`BlockingStream`], which always completes before it returns.
pub(super) fn block_on<F: Future>(call: F) -> F::Output {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the stream blocks instead"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{marked, receive_call, words};
    use super::*;
    use nfs3_client::nfs3_types::mount::dirpath;
    use nfs3_client::nfs3_types::nfs3::{LOOKUP3args, diropargs3, filename3, nfs_fh3};
    use nfs3_client::nfs3_types::xdr_codec::Opaque;
    use nfs3_client::{MountClient, Nfs3Client, PortmapperClient};
    use std::net::TcpListener;
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    /// The result of a call that gets these bytes as its answer, after which the server is silent
    /// or goes.
    fn answered(limit: Duration, bytes: &[u8], goes: bool) -> String {
        answered_to(limit, bytes, goes, |stream| {
            let error = block_on(PortmapperClient::new(stream).null()).unwrap_err();
            error.to_string()
        })
    }

    /// The same for this call.
    fn answered_to(
        limit: Duration,
        bytes: &[u8],
        goes: bool,
        call: fn(BlockingStream) -> String,
    ) -> String {
        let bytes = bytes.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = receive_call(&mut stream).unwrap();
            stream.write_all(&bytes).unwrap();
            // Until the other end has gone.
            while !goes && stream.read(&mut call).is_ok_and(|read| read > 0) {}
        });
        let stream = BlockingStream::new(stream, limit).unwrap();
        let error = call(stream);
        server.join().unwrap();
        error
    }

    #[test]
    fn an_answer_that_cannot_be_one_is_not_waited_for_and_takes_no_memory() {
        let huge = answered(LONG, b"\xff\xff\xff\xffx", false);
        assert!(huge.contains("2147483647 B"), "{huge}");
        let silent = answered(Duration::from_millis(100), b"\x80\0\0\x18half", false);
        assert!(silent.contains("timed out"), "{silent}");
        let gone = answered(LONG, b"\x80\0", true);
        assert!(gone.contains("end of file"), "{gone}");
    }

    #[test]
    fn a_part_that_says_it_is_longer_than_it_can_be_takes_no_memory() {
        const HUGE: u32 = u32::MAX;
        let null: fn(BlockingStream) -> String =
            |stream| format!("{:?}", block_on(PortmapperClient::new(stream).null()).err());
        let mnt: fn(BlockingStream) -> String = |stream| {
            let folder = dirpath(Opaque::borrowed(b"/export"));
            format!("{:?}", block_on(MountClient::new(stream).mnt(folder)).err())
        };
        let lookup: fn(BlockingStream) -> String = |stream| {
            let what = diropargs3 {
                dir: nfs_fh3 { data: Opaque::borrowed(b"handle") },
                name: filename3(Opaque::borrowed(b"file")),
            };
            let found = block_on(Nfs3Client::new(stream).lookup(&LOOKUP3args { what }));
            format!("{:?}", found.err())
        };
        for (call, answer, why) in [
            (null, &[1, 1, 0, 0, HUGE][..], "a verifier"),
            (null, &[1, 1, 0, 0, 401], "a verifier"),
            (null, &[1, 0, 2, 3, 4, 5, 0, HUGE], "a call where"),
            (mnt, &[1, 1, 0, 0, HUGE], "a verifier"),
            (mnt, &[1, 1, 0, 0, 0, 0, 0, HUGE], "a handle"),
            (mnt, &[1, 1, 0, 0, 0, 0, 0, 4, 7, HUGE, 1], "a list"),
            (lookup, &[1, 1, 0, 0, 4, 7, 0, 0, HUGE], "a handle"),
            (lookup, &[1, 1, 0, 0, 0, 0, 0, 65], "a handle"),
        ] {
            let error = answered_to(LONG, &marked(&words(answer)), false, call);
            assert!(error.contains("InvalidData"), "{error}");
            assert!(error.contains(why), "{error} is not: {why}");
        }
    }

    #[test]
    fn lengths_that_can_be_are_taken() {
        for (called, answer) in [
            (MNT, &[1, 1, 0, 0, 4, 7, 0, 0, 4, 7, 2, 1, 0][..]),
            (MNT, &[1, 1, 0, 0, 0, 0, 13]),
            (LOOKUP, &[1, 1, 0, 0, 0, 0, 0, 4, 7, 0, 0]),
            // Other replies do not begin with a length.
            ((nfs3::PROGRAM, 19), &[1, 1, 0, 0, 0, 0, 0, u32::MAX]),
            (MNT, &[1, 1, 1, 1, u32::MAX]),
            (MNT, &[1]),
        ] {
            assert_eq!(too_long(called, &words(answer)), None, "{answer:?}");
        }
    }
}
