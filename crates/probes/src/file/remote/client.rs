//! The client of an NFS server that is measured: calls that do nothing, and reads, several in flight
//! where the point asks for that. A call is written once and sent with another xid and offset each time; a
//! reply is read where it was received. Nothing is allocated, and the only system calls are one to send a
//! call and those that receive.
//!
//! Source: RFC 5531, sections 9 and 11; RFC 1813, section 3.3.6; RFC 4506.

use super::reply::{Malformed, Reply};
use super::server::{self, NfsFile};
use crate::prelude::*;
use nfs3_client::nfs3_types::nfs3::{self, NFS_PROGRAM, READ3args, nfsstat3};
use nfs3_client::nfs3_types::rpc::{
    RPC_VERSION_2, call_body, fragment_header, msg_body, opaque_auth, rpc_msg,
};
use nfs3_client::nfs3_types::xdr_codec::{Pack, Unpack, Void};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

/// The most bytes of a reply besides the file's: the headers of RPC (up to 400 B of verifier) and
/// the file's attributes.
const MAX_AROUND_BYTES: usize = 1024;
/// Up to this length, one call may receive several replies, and the rest is moved.
const SMALL_BYTES: usize = 16 << 10;
/// A file's attributes in a reply. Source: RFC 1813, section 2.5, `fattr3`.
const ATTRIBUTES_BYTES: usize = 84;
/// Where a call's xid is, after the record mark.
const XID_AT: usize = 4;
/// Where the offset of a read is: it and the count are last.
const OFFSET_BEFORE_END: usize = 12;
const UNKNOWN_XID: ReadError = ReadError::ProtocolError("an answer to a call that was not made");

/// A connection to a server over which one file is read.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    timeout: Duration,
    /// The calls, each after its record mark.
    null: Vec<u8>,
    read: Vec<u8>,
    block: usize,
    last_xid: u32,
    in_flight: Vec<InFlight>,
    received: Vec<u8>,
    /// The part of `received` that was received and not yet read.
    unread: Range<usize>,
}

/// A read that is in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    xid: u32,
    read: Completed,
}

/// A complete read, of as many bytes as were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed {
    /// When it began, as the caller of [`Client::request`] said.
    pub(super) began: u64,
    /// Its offset in the file.
    pub(super) offset: u64,
}

/// Why a read or a call has failed.
#[derive(Debug)]
pub(super) enum ReadError {
    Connection(io::Error),
    /// The error that the server sent instead of a reply.
    ProtocolError(&'static str),
    /// The server refused.
    Refused(nfsstat3),
    /// The number of bytes differs from the requested one.
    Count {
        offset: u64,
        count: u32,
        block: usize,
    },
}

impl From<Malformed> for ReadError {
    fn from(malformed: Malformed) -> ReadError {
        ReadError::ProtocolError(match malformed {
            Malformed::Short => "an answer that ends too early",
            Malformed::Rejected(what) | Malformed::Invalid(what) => what,
        })
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Connection(error)
    }
}

impl Client {
    /// Reads `block` bytes of `file` at a time over `stream`, with at most `depth` reads in flight. A reply
    /// may take `timeout`.
    ///
    /// # Errors
    /// If setsockopt(2) fails.
    pub(super) fn new(
        stream: TcpStream,
        file: &NfsFile,
        (block, depth): (usize, usize),
        timeout: Duration,
    ) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let arguments = READ3args { file: file.handle.clone(), offset: 0, count: block as u32 };
        let null = call(NFS_PROGRAM::NFSPROC3_NULL, &opaque_auth::default(), &Void);
        let read = call(NFS_PROGRAM::NFSPROC3_READ, &file.credential, &arguments);
        Ok(Client {
            stream,
            timeout,
            null,
            read,
            block,
            last_xid: fastrand::u32(..),
            in_flight: Vec::with_capacity(depth),
            received: vec![0; 2 * (block + MAX_AROUND_BYTES) + SMALL_BYTES],
            unread: 0..0,
        })
    }

    /// How many reads are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Measured: a call that does nothing, while nothing else is in flight.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn null(&mut self) -> Result<(), ReadError> {
        debug_assert!(self.in_flight.is_empty());
        let xid = self.next_xid();
        put(&mut self.null, XID_AT, &xid.to_be_bytes());
        self.stream.write_all(&self.null)?;
        let reply = self.receive_reply()?;
        let mut reply = Reply(&self.received[reply]);
        if reply.word()? != xid {
            return Err(UNKNOWN_XID);
        }
        reply.accepted()?;
        Ok(reply.end()?)
    }

    /// Measured: sends the request for a block at `offset`. The complete read returns `began`.
    ///
    /// # Errors
    /// If sending fails.
    pub(super) fn request(&mut self, offset: u64, began: u64) -> Result<(), ReadError> {
        let xid = self.next_xid();
        put(&mut self.read, XID_AT, &xid.to_be_bytes());
        let offset_at = self.read.len() - OFFSET_BEFORE_END;
        put(&mut self.read, offset_at, &offset.to_be_bytes());
        self.stream.write_all(&self.read)?;
        let read = Completed { began, offset };
        self.in_flight.push(InFlight { xid, read });
        Ok(())
    }

    /// Waits until some of a reply has arrived.
    ///
    /// # Errors
    /// If receiving fails.
    pub(super) fn wait_for_reply(&mut self) -> Result<(), ReadError> {
        if self.unread.is_empty() {
            self.stream.peek(&mut [0])?;
        }
        Ok(())
    }

    /// Measured: waits for the reply to one of the reads that are in flight, and checks that it has the
    /// bytes that were asked for.
    ///
    /// # Errors
    /// If the read fails.
    pub(super) fn complete(&mut self) -> Result<Completed, ReadError> {
        Ok(self.complete_with_data()?.0)
    }

    /// The same, with the bytes.
    ///
    /// # Errors
    /// If the read fails.
    fn complete_with_data(&mut self) -> Result<(Completed, &[u8]), ReadError> {
        let block = self.block;
        let reply = self.receive_reply()?;
        let mut reply = Reply(&self.received[reply]);
        let xid = reply.word()?;
        reply.accepted()?;
        let status = reply.word()?;
        if reply.word()? != 0 {
            reply.bytes(ATTRIBUTES_BYTES)?;
        }
        if status != nfsstat3::NFS3_OK as u32 {
            let (status, _) = nfsstat3::unpack(&mut &status.to_be_bytes()[..])
                .map_err(|_| ReadError::ProtocolError("a status that NFS does not have"))?;
            return Err(ReadError::Refused(status));
        }
        let (count, _end_of_file, length) = (reply.word()?, reply.word()?, reply.word()?);
        let data = reply.padded(length)?;
        reply.end()?;
        let position = self.in_flight.iter().position(|read| read.xid == xid);
        let InFlight { read, .. } = self.in_flight.swap_remove(position.ok_or(UNKNOWN_XID)?);
        if count != length || count as usize != block {
            return Err(ReadError::Count { offset: read.offset, count: count.min(length), block });
        }
        Ok((read, data))
    }

    fn next_xid(&mut self) -> u32 {
        self.last_xid = self.last_xid.wrapping_add(1);
        self.last_xid
    }

    /// Receives the next complete reply; returns where it is in `received`.
    fn receive_reply(&mut self) -> Result<Range<usize>, ReadError> {
        let longest = self.block + MAX_AROUND_BYTES;
        let mut deadline = None;
        loop {
            let have = self.unread.len();
            let missing = match self.received[self.unread.clone()].first_chunk::<4>() {
                None => 4 + self.block - have,
                Some(mark) => {
                    let mark = fragment_header::from(*mark);
                    let length = mark.fragment_length() as usize;
                    if !mark.eof() {
                        return Err(ReadError::ProtocolError("an answer in fragments"));
                    }
                    if length > longest {
                        return Err(ReadError::ProtocolError(
                            "an answer longer than what was asked for",
                        ));
                    }
                    if have >= 4 + length {
                        let start = self.unread.start + 4;
                        self.unread.start = start + length;
                        return Ok(start..start + length);
                    }
                    4 + length - have
                }
            };
            self.receive(missing, &mut deadline)?;
        }
    }

    /// Receives some of the `missing` bytes; where replies are small, perhaps also bytes of the
    /// next one.
    fn receive(&mut self, missing: usize, deadline: &mut Option<Instant>) -> Result<(), ReadError> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.received.len() - self.unread.end < missing.max(SMALL_BYTES) {
            self.received.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        // The clock is read only where a reply arrives in pieces.
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(io::Error::from(ErrorKind::TimedOut).into());
        }
        let room = &mut self.received[self.unread.end..];
        let most = if self.block > SMALL_BYTES { missing } else { room.len() };
        match self.stream.read(&mut room[..most]) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                self.unread.end += count;
                if count < missing && deadline.is_none() {
                    *deadline = Some(Instant::now() + self.timeout);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn put(call: &mut [u8], at: usize, bytes: &[u8]) {
    call[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A call, after its record mark.
fn call(
    procedure: NFS_PROGRAM,
    credential: &opaque_auth<'static>,
    arguments: &impl Pack,
) -> Vec<u8> {
    const NO_ERROR: &str = "a vector takes all that is written to it";
    let message = rpc_msg {
        xid: 0,
        body: msg_body::CALL(call_body {
            rpcvers: RPC_VERSION_2,
            prog: nfs3::PROGRAM,
            vers: nfs3::VERSION,
            proc: procedure as u32,
            cred: credential.borrow(),
            verf: opaque_auth::default(),
        }),
    };
    let mut call = vec![0; 4];
    message.pack(&mut call).expect(NO_ERROR);
    arguments.pack(&mut call).expect(NO_ERROR);
    let mark = fragment_header::new((call.len() - 4) as u32, true);
    put(&mut call, 0, &mark.into_xdr_buf());
    call
}

impl ReadError {
    /// As the failure of a point, for the file of this name.
    pub(super) fn failure(&self, file: &str, timeout: Duration) -> Failure {
        Failure::error(match self {
            ReadError::Connection(error) => {
                format!("reading {file}: {}", server::connection_error(error, timeout))
            }
            ReadError::ProtocolError(what) => format!("reading {file}: the server sends {what}"),
            ReadError::Refused(nfsstat3::NFS3ERR_STALE) => {
                format!("{file} was removed while it was read (NFS3ERR_STALE)")
            }
            ReadError::Refused(nfsstat3::NFS3ERR_ACCES) => format!(
                "{file} may not be read by this user (NFS3ERR_ACCES; a server treats root as \
                 nobody unless its export says otherwise)"
            ),
            ReadError::Refused(status) => format!("reading {file}: the server answers {status}"),
            ReadError::Count { offset, count, block } => format!(
                "{file} gave {count} of the {block} bytes at {offset}: it has become shorter while \
                 it was read, or the server gives less than it is asked for (a smaller --set \
                 block=… shows which)"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{marked, receive_call, words};
    use super::*;
    use nfs3_client::nfs3_types::nfs3::nfs_fh3;
    use nfs3_client::nfs3_types::xdr_codec::Opaque;
    use std::net::TcpListener;
    use std::thread;

    const BLOCK: usize = 4096;
    const OK: u32 = nfsstat3::NFS3_OK as u32;

    /// A call as the server receives it.
    struct Request {
        xid: u32,
        offset: u64,
    }

    /// Makes a reply.
    type MakeReply = Box<dyn Fn(&Request) -> Vec<u8> + Send>;

    /// What a server sends; afterwards it waits until the client has gone.
    type Sent = Vec<Vec<u8>>;

    /// The client of a server that receives this many calls at a time and sends what `answer` makes
    /// of them.
    fn client(
        depth: usize,
        timeout: Duration,
        answer: impl Fn(&[Request]) -> Sent + Send + 'static,
    ) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            loop {
                let requests: Option<Vec<Request>> =
                    (0..depth).map(|_| receive_request(&mut stream)).collect();
                let Some(requests) = requests else { return };
                for piece in answer(&requests) {
                    if piece.is_empty() {
                        return;
                    }
                    // Each piece arrives separately.
                    thread::sleep(Duration::from_millis(2));
                    if stream.write_all(&piece).is_err() {
                        return;
                    }
                }
            }
        });
        let file = NfsFile {
            server,
            handle: nfs_fh3 { data: Opaque::borrowed(b"handle") },
            credential: opaque_auth::default(),
            size_bytes: 1 << 20,
            max_read_bytes: 1 << 20,
        };
        let stream = TcpStream::connect(server).unwrap();
        Client::new(stream, &file, (BLOCK, depth), timeout).unwrap()
    }

    fn receive_request(stream: &mut TcpStream) -> Option<Request> {
        let call = receive_call(stream).ok()?;
        let offset = &call[call.len() - OFFSET_BEFORE_END..];
        Some(Request {
            xid: u32::from_be_bytes(*call.first_chunk().unwrap()),
            offset: u64::from_be_bytes(*offset.first_chunk().unwrap()),
        })
    }

    /// The part before the results: the call is accepted, with a verifier of 4 B.
    fn accepted(xid: u32) -> Vec<u8> {
        words(&[xid, 1, 0, 0, 4, 7, 0])
    }

    /// A block whose bytes depend on their offsets, with or without the file's attributes.
    fn read(request: &Request, attributes: bool) -> Vec<u8> {
        let mut answer = accepted(request.xid);
        answer.extend(words(&[OK, u32::from(attributes)]));
        if attributes {
            answer.extend([9; ATTRIBUTES_BYTES]);
        }
        answer.extend(words(&[BLOCK as u32, 0, BLOCK as u32]));
        answer.extend(content(request.offset));
        marked(&answer)
    }

    fn content(offset: u64) -> Vec<u8> {
        (offset..offset + BLOCK as u64).map(|at| (at / 7) as u8).collect()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn blocks_are_those_that_were_asked_for_in_whatever_order_and_pieces_they_come() {
        let mut client = client(4, LONG, |requests| {
            let answers = requests.iter().rev().enumerate();
            let all: Vec<u8> =
                answers.flat_map(|(position, request)| read(request, position % 2 == 0)).collect();
            // Cut in the middle of a mark, in the middle of a block, and far from either.
            let cuts = [0, 2, 3000, BLOCK + 150, all.len()];
            cuts.windows(2).map(|cut| all[cut[0]..cut[1]].to_vec()).collect()
        });
        for round in 0..3 {
            let offsets = [0, 1, 2, 3].map(|at| (4 * round + at) * BLOCK as u64);
            for offset in offsets {
                client.request(offset, offset + 1).unwrap();
            }
            assert_eq!(client.in_flight(), 4);
            for offset in offsets.into_iter().rev() {
                let (completed, data) = client.complete_with_data().unwrap();
                assert_eq!(completed, Completed { began: offset + 1, offset });
                assert!(data == content(offset), "the block at {offset}");
            }
            assert_eq!(client.in_flight(), 0);
        }
    }

    #[test]
    fn a_call_that_does_nothing_is_answered_by_nothing() {
        let mut client = client(1, LONG, |requests| vec![marked(&accepted(requests[0].xid))]);
        for _ in 0..3 {
            client.null().unwrap();
        }
    }

    /// Why a read with this answer fails.
    fn failure(timeout: Duration, answer: impl Fn(&Request) -> Sent + Send + 'static) -> String {
        let mut client = client(1, timeout, move |requests| answer(&requests[0]));
        client.request(8192, 0).unwrap();
        let error = client.complete().unwrap_err();
        error.failure("nfs://h/e/f", timeout).reason
    }

    #[test]
    fn an_answer_that_is_none_is_a_failure_that_says_what_it_is() {
        let refused = |status| -> MakeReply {
            Box::new(move |request| marked(&[accepted(request.xid), words(&[status, 0])].concat()))
        };
        // Counts and lengths that contradict each other or the request.
        let counted = |count: u32, length: u32, bytes: usize| -> MakeReply {
            Box::new(move |request| {
                let head = words(&[OK, 0, count, 1, length]);
                marked(&[accepted(request.xid), head, vec![0; bytes]].concat())
            })
        };
        // These words after the xid.
        let headed = |head: &'static [u32]| -> MakeReply {
            Box::new(move |request| marked(&[words(&[request.xid]), words(head)].concat()))
        };
        let raw = |bytes: &[u8]| -> MakeReply {
            let bytes = bytes.to_vec();
            Box::new(move |_| bytes.clone())
        };
        let other_xid: MakeReply = Box::new(|request| {
            let xid = request.xid ^ 1;
            read(&Request { xid, offset: 0 }, true)
        });
        let cases = [
            ("removed while", refused(70)),
            ("may not be read", refused(13)),
            ("answers NFS3ERR_IO", refused(5)),
            ("NFS does not have", refused(77)),
            ("100 of the 4096 bytes at 8192", counted(100, 100, 100)),
            ("gave 0 of the 4096 bytes", counted(0, 0, 0)),
            ("gave 8 of the 4096 bytes", counted(BLOCK as u32, 8, 8)),
            ("ends too early", counted(BLOCK as u32, u32::MAX, 8)),
            ("another length", counted(4, 4, 8)),
            ("a call where", headed(&[0])),
            ("does not accept", headed(&[1, 1, 1, 1])),
            ("cannot carry", headed(&[1, 0, 0, 0, 3])),
            ("too long", headed(&[1, 0, 0, u32::MAX])),
            ("not made", other_xid),
            ("in fragments", raw(&[0, 0, 0, 8, 0, 0])),
            ("longer than", raw(&[0xff, 0xff, 0xff, 0xff, 0, 0])),
            ("ends too early", raw(&marked(&[]))),
        ];
        for (why, answer) in cases {
            let failure = failure(LONG, move |request| vec![answer(request)]);
            assert!(failure.contains(why), "{failure} is not: {why}");
            assert!(failure.contains("nfs://h/e/f"), "{failure}");
        }
    }

    #[test]
    fn a_server_that_goes_or_is_silent_is_told_from_one_that_answers() {
        let half = |request: &Request| read(request, true)[..1000].to_vec();
        let gone = failure(LONG, move |request| vec![half(request), Vec::new()]);
        assert!(gone.contains("ended the connection"), "{gone}");
        let timeout = Duration::from_millis(200);
        let silent = failure(timeout, move |request| vec![half(request)]);
        assert!(silent.contains("no answer within 0.2 s"), "{silent}");
        // A server that sends a byte now and then counts as silent.
        let slow = failure(timeout, |_| {
            let mut pieces = vec![marked(&[0; BLOCK])[..4].to_vec()];
            pieces.extend(std::iter::repeat_n(vec![0], BLOCK));
            pieces
        });
        assert!(slow.contains("no answer within 0.2 s"), "{slow}");
    }
}
