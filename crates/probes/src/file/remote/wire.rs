//! A connection on which `nfs3_client` asks, one call at a time: it blocks, so that no runtime is
//! needed, ends in time, and takes no answer that is longer than an answer can be, nor one with a part that
//! says it is: unpacking would reserve that much memory.

use super::reply::{HANDLE_MOST_BYTES, Malformed, Reply};
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::nfs3_types::mount::{self, MOUNT_PROGRAM};
use nfs3_client::nfs3_types::nfs3::{self, NFS_PROGRAM};
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
    /// What was called last.
    called: Procedure,
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
            called: Procedure::default(),
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
        let invalid = |what| Err(io::Error::new(ErrorKind::InvalidData, what));
        if self.before_mark
            && let Ok(mark) = <[u8; 4]>::try_from(&*buffer)
        {
            let length = fragment_header::from(mark).fragment_length();
            if length > ANSWER_MOST_BYTES {
                return invalid(format!("invalid length of an answer: {length} B"));
            }
        }
        if !self.before_mark
            && let Some(what) = too_long(self.called, buffer)
        {
            return invalid(format!("the server sends {what}"));
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
        self.called = called(buffer).unwrap_or_default();
        self.stream
            .write_all(buffer)
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
                _ => error,
            })
    }
}

/// A program and the number of its procedure.
type Procedure = (u32, u32);

const MNT: Procedure = (mount::PROGRAM, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
const LOOKUP: Procedure = (nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_LOOKUP as u32);

/// What a call calls, behind the mark, its number, its kind and the version of RPC. Source: RFC 5531,
/// section 9.
fn called(call: &[u8]) -> Option<Procedure> {
    let word = |at: usize| {
        let bytes = call.get(4 * at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    };
    Some((word(4)?, word(6)?))
}

/// What in an answer says that it is longer than it can be, if anything does. What ends too early, or
/// rejects the call, is left to whoever unpacks it.
fn too_long(called: Procedure, answer: &[u8]) -> Option<&'static str> {
    match check(called, Reply::new(answer, 0..answer.len())) {
        Err(Malformed::Invalid(what)) => Some(what),
        Ok(()) | Err(Malformed::Short | Malformed::Rejected(_)) => None,
    }
}

/// Source: RFC 1813, section 3.3.3 and appendix I.
fn check(called: Procedure, mut answer: Reply<'_>) -> Result<(), Malformed> {
    let _xid = answer.word()?;
    answer.accepted()?;
    if ![MNT, LOOKUP].contains(&called) || answer.word()? != 0 {
        return Ok(());
    }
    answer.opaque(HANDLE_MOST_BYTES, "a handle that is too long")?;
    if called == MNT && answer.word()? as usize > answer.len() / 4 {
        return Err(Malformed::Invalid("a list that is longer than the answer"));
    }
    Ok(())
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
    use nfs3_client::nfs3_types::mount::dirpath;
    use nfs3_client::nfs3_types::nfs3::{LOOKUP3args, diropargs3, filename3, nfs_fh3};
    use nfs3_client::nfs3_types::xdr_codec::Opaque;
    use nfs3_client::{MountClient, Nfs3Client, PortmapperClient};
    use std::net::TcpListener;
    use std::thread;

    /// What comes of a call that is answered by these bytes, after which the server is silent or goes.
    fn answered(bytes: &[u8], goes: bool) -> String {
        answered_to(bytes, goes, |wire| {
            let error = at_once(PortmapperClient::new(wire).null()).unwrap_err();
            error.to_string()
        })
    }

    /// The same of this call.
    fn answered_to(bytes: &[u8], goes: bool, call: fn(Wire) -> String) -> String {
        let bytes = bytes.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut mark = [0; 4];
            stream.read_exact(&mut mark).unwrap();
            let mut call = vec![0; fragment_header::from(mark).fragment_length() as usize];
            stream.read_exact(&mut call).unwrap();
            stream.write_all(&bytes).unwrap();
            // Until the other end is gone.
            while !goes && stream.read(&mut call).is_ok_and(|read| read > 0) {}
        });
        let wire = Wire::new(stream, Duration::from_millis(100)).unwrap();
        let error = call(wire);
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

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_part_that_says_it_is_longer_than_it_can_be_takes_no_memory() {
        const HUGE: u32 = u32::MAX;
        let null: fn(Wire) -> String =
            |wire| format!("{:?}", at_once(PortmapperClient::new(wire).null()).err());
        let mnt: fn(Wire) -> String = |wire| {
            let folder = dirpath(Opaque::borrowed(b"/export"));
            format!("{:?}", at_once(MountClient::new(wire).mnt(folder)).err())
        };
        let lookup: fn(Wire) -> String = |wire| {
            let what = diropargs3 {
                dir: nfs_fh3 {
                    data: Opaque::borrowed(b"handle"),
                },
                name: filename3(Opaque::borrowed(b"file")),
            };
            let found = at_once(Nfs3Client::new(wire).lookup(&LOOKUP3args { what }));
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
            let mark = fragment_header::new(4 * answer.len() as u32, true);
            let answer = [&mark.into_xdr_buf()[..], &bytes(answer)].concat();
            let error = answered_to(&answer, false, call);
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
            // Of others, what comes first is no length.
            ((nfs3::PROGRAM, 19), &[1, 1, 0, 0, 0, 0, 0, u32::MAX]),
            (MNT, &[1, 1, 1, 1, u32::MAX]),
            (MNT, &[1]),
        ] {
            assert_eq!(too_long(called, &bytes(answer)), None, "{answer:?}");
        }
    }
}
