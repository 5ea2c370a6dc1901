//! What is measured of an NFS server: calls that do nothing, and reads, several in flight where that is
//! asked for. A call is written once and sent with another number and offset each time; an answer is
//! looked at where it was received. Nothing is allocated, and of system calls there are one to send a
//! call and those that receive.
//!
//! Source: RFC 5531, sections 9 and 11; RFC 1813, section 3.3.6; RFC 4506.

use super::reply::{Malformed, Reply};
use super::server::{self, RemoteFile};
use costof_model::failure::Failure;
use nfs3_client::nfs3_types::nfs3::{self, NFS_PROGRAM, READ3args, nfsstat3};
use nfs3_client::nfs3_types::rpc::{
    RPC_VERSION_2, call_body, fragment_header, msg_body, opaque_auth, rpc_msg,
};
use nfs3_client::nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What an answer has beside the bytes of the file, at most: what was agreed on at the RPC's level (up
/// to 400 B of verifier) and the file's attributes.
const AROUND_MOST_BYTES: usize = 1024;
/// Up to this length, more than one answer may be received by one call, and what is left over is moved.
const SMALL_BYTES: usize = 16 << 10;
/// A file's attributes in an answer. Source: RFC 1813, section 2.5, `fattr3`.
const ATTRIBUTES_BYTES: usize = 84;

/// A connection to a server over which one file is read.
#[derive(Debug)]
pub(super) struct Calls {
    stream: TcpStream,
    limit: Duration,
    /// The calls, with the mark before them.
    null: Vec<u8>,
    read: Vec<u8>,
    block: usize,
    /// The number of the next call.
    number: u32,
    in_flight: Vec<Asked>,
    received: Vec<u8>,
    /// What of `received` was received and not yet looked at.
    left: Range<usize>,
}

/// A read that is in flight.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u32,
    offset: u64,
    began: u64,
}

/// A read that was answered, of so many bytes as were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// When it began, as it was told to [`Calls::ask`].
    pub(super) began: u64,
    /// Where it was read.
    pub(super) offset: u64,
}

/// Why there is no answer, or none that counts.
#[derive(Debug)]
pub(super) enum ReadError {
    /// What the connection says.
    Connection(io::Error),
    /// The answer is none.
    ProtocolError(&'static str),
    /// The server would not.
    Refused(nfsstat3),
    /// Other bytes were read than were asked for.
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

impl Calls {
    /// Calls over `stream` that read `block` bytes of `file` each, at most `depth` in flight; an answer
    /// may take `limit`.
    ///
    /// # Errors
    /// What setsockopt(2) says.
    pub(super) fn new(
        stream: TcpStream,
        file: &RemoteFile,
        (block, depth): (usize, usize),
        limit: Duration,
    ) -> io::Result<Calls> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let arguments = READ3args {
            file: file.handle.clone(),
            offset: 0,
            count: block as u32,
        };
        Ok(Calls {
            stream,
            limit,
            null: call(NFS_PROGRAM::NFSPROC3_NULL, &opaque_auth::default(), None),
            read: call(
                NFS_PROGRAM::NFSPROC3_READ,
                &file.credential,
                Some(&arguments),
            ),
            block,
            number: fastrand::u32(..),
            in_flight: Vec::with_capacity(depth),
            received: vec![0; 2 * (block + AROUND_MOST_BYTES) + SMALL_BYTES],
            left: 0..0,
        })
    }

    /// How many reads are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Measured: a call that does nothing, while nothing else is in flight.
    ///
    /// # Errors
    /// Why it was not answered.
    pub(super) fn null(&mut self) -> Result<(), ReadError> {
        debug_assert!(self.in_flight.is_empty());
        let number = self.next_number();
        put(&mut self.null, NUMBER_AT, &number.to_be_bytes());
        self.stream.write_all(&self.null)?;
        let mut answer = self.answer()?;
        if answer.word()? != number {
            return Err(OTHER_CALL);
        }
        answer.accepted()?;
        end(&answer, 0)
    }

    /// Measured: asks for a block at `offset`. `began` is kept for whoever asks.
    ///
    /// # Errors
    /// What the connection says.
    pub(super) fn ask(&mut self, offset: u64, began: u64) -> Result<(), ReadError> {
        let number = self.next_number();
        put(&mut self.read, NUMBER_AT, &number.to_be_bytes());
        let offset_at = self.read.len() - OFFSET_BEFORE_END;
        put(&mut self.read, offset_at, &offset.to_be_bytes());
        self.stream.write_all(&self.read)?;
        self.in_flight.push(Asked {
            number,
            offset,
            began,
        });
        Ok(())
    }

    /// Waits until some of an answer is there.
    ///
    /// # Errors
    /// What the connection says.
    pub(super) fn arriving(&mut self) -> Result<(), ReadError> {
        if self.left.is_empty() {
            self.stream.peek(&mut [0])?;
        }
        Ok(())
    }

    /// Measured: waits for the answer of one of the reads that are in flight, and looks that it has the
    /// bytes that were asked for.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn answered(&mut self) -> Result<Answered, ReadError> {
        Ok(self.answered_with()?.0)
    }

    /// The same, and the bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn answered_with(&mut self) -> Result<(Answered, &[u8]), ReadError> {
        let block = self.block;
        let mut answer = self.answer()?;
        let number = answer.word()?;
        answer.accepted()?;
        let status = answer.word()?;
        if answer.word()? != 0 {
            answer.bytes(ATTRIBUTES_BYTES)?;
        }
        if status != nfsstat3::NFS3_OK as u32 {
            let (status, _) = nfsstat3::unpack(&mut &status.to_be_bytes()[..])
                .map_err(|_| ReadError::ProtocolError("a status that NFS does not have"))?;
            return Err(ReadError::Refused(status));
        }
        let (count, _end_of_file, length) = (answer.word()?, answer.word()?, answer.word()?);
        let data = answer.bytes(length as usize)?;
        end(
            &answer,
            length.next_multiple_of(4) as usize - length as usize,
        )?;
        let mut asked = self.in_flight.iter();
        let at = asked
            .position(|asked| asked.number == number)
            .ok_or(OTHER_CALL)?;
        let Asked { offset, began, .. } = self.in_flight.swap_remove(at);
        if count != length || count as usize != block {
            return Err(ReadError::Count {
                offset,
                count: count.min(length),
                block,
            });
        }
        Ok((Answered { began, offset }, &self.received[data]))
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// The next answer, all of it.
    fn answer(&mut self) -> Result<Reply<'_>, ReadError> {
        let longest = self.block + AROUND_MOST_BYTES;
        let mut until = None;
        loop {
            let have = self.left.len();
            let missing = match self.received[self.left.clone()].first_chunk::<4>() {
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
                        let answer = self.left.start + 4..self.left.start + 4 + length;
                        self.left.start = answer.end;
                        return Ok(Reply::new(&self.received, answer));
                    }
                    4 + length - have
                }
            };
            self.receive(missing, &mut until)?;
        }
    }

    /// Receives some of the `missing` bytes; where answers are small, also of the next.
    fn receive(&mut self, missing: usize, until: &mut Option<Instant>) -> Result<(), ReadError> {
        if self.left.is_empty() {
            self.left = 0..0;
        } else if self.received.len() - self.left.end < missing.max(SMALL_BYTES) {
            self.received.copy_within(self.left.clone(), 0);
            self.left = 0..self.left.len();
        }
        // The clock is read only where an answer comes in pieces.
        if let Some(until) = *until
            && Instant::now() > until
        {
            return Err(io::Error::from(ErrorKind::TimedOut).into());
        }
        let room = &mut self.received[self.left.end..];
        let most = if self.block > SMALL_BYTES {
            missing
        } else {
            room.len()
        };
        match self.stream.read(&mut room[..most]) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                self.left.end += count;
                if count < missing && until.is_none() {
                    *until = Some(Instant::now() + self.limit);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Where a call's number stands, behind the mark.
const NUMBER_AT: usize = 4;
/// Where the offset of a read stands: it and the count are the end.
const OFFSET_BEFORE_END: usize = 12;
const OTHER_CALL: ReadError = ReadError::ProtocolError("an answer to a call that was not made");

/// Nothing but so many bytes of padding must be left.
fn end(reply: &Reply<'_>, padding: usize) -> Result<(), ReadError> {
    if reply.len() == padding {
        return Ok(());
    }
    Err(ReadError::ProtocolError(
        "an answer of another length than it says",
    ))
}

fn put(call: &mut [u8], at: usize, bytes: &[u8]) {
    call[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A call, with the mark before it.
fn call(
    procedure: NFS_PROGRAM,
    credential: &opaque_auth<'_>,
    arguments: Option<&READ3args>,
) -> Vec<u8> {
    let message = rpc_msg {
        xid: 0,
        body: msg_body::CALL(call_body {
            rpcvers: RPC_VERSION_2,
            prog: nfs3::PROGRAM,
            vers: nfs3::VERSION,
            proc: procedure as u32,
            cred: opaque_auth {
                flavor: credential.flavor,
                body: Opaque::borrowed(&credential.body),
            },
            verf: opaque_auth::default(),
        }),
    };
    const HELD: &str = "a vector takes all that is written to it";
    let mut call = vec![0; 4];
    message.pack(&mut call).expect(HELD);
    if let Some(arguments) = arguments {
        arguments.pack(&mut call).expect(HELD);
    }
    let mark = fragment_header::new((call.len() - 4) as u32, true);
    put(&mut call, 0, &mark.into_xdr_buf());
    call
}

impl ReadError {
    /// As the failure of a point, of the file of this name.
    pub(super) fn failure(&self, file: &str, limit: Duration) -> Failure {
        Failure::error(match self {
            ReadError::Connection(error) => {
                format!("reading {file}: {}", server::why(error, limit))
            }
            ReadError::ProtocolError(what) => format!("reading {file}: the server sends {what}"),
            ReadError::Refused(nfsstat3::NFS3ERR_STALE) => {
                format!("{file} was removed while it was read (NFS3ERR_STALE)")
            }
            ReadError::Refused(nfsstat3::NFS3ERR_ACCES) => format!(
                "{file} may not be read by this user (NFS3ERR_ACCES; a server takes root for \
                 nobody unless its export says otherwise)"
            ),
            ReadError::Refused(status) => format!("reading {file}: the server answers {status}"),
            ReadError::Count {
                offset,
                count,
                block,
            } => format!(
                "{file} gave {count} of the {block} bytes at {offset}: it has become shorter while \
                 it was read, or the server gives less than it is asked for (a smaller --set \
                 block=… shows which)"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs3_client::nfs3_types::nfs3::nfs_fh3;
    use std::net::TcpListener;
    use std::thread;

    const BLOCK: usize = 4096;
    const OK: u32 = nfsstat3::NFS3_OK as u32;

    /// A call as a server sees it.
    struct Asked {
        number: u32,
        offset: u64,
    }

    /// What makes an answer.
    type Made = Box<dyn Fn(&Asked) -> Vec<u8> + Send>;

    /// What a server sends; after the last, it waits for as long as the other end is there.
    type Sent = Vec<Vec<u8>>;

    /// Calls to a server that hears so many at a time and sends what `answer` makes of them.
    fn calls(
        depth: usize,
        limit: Duration,
        answer: impl Fn(&[Asked]) -> Sent + Send + 'static,
    ) -> Calls {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            loop {
                let asked: Option<Vec<Asked>> = (0..depth).map(|_| hear(&mut stream)).collect();
                let Some(asked) = asked else { return };
                for piece in answer(&asked) {
                    if piece.is_empty() {
                        return;
                    }
                    // Pieces arrive as such.
                    thread::sleep(Duration::from_millis(2));
                    if stream.write_all(&piece).is_err() {
                        return;
                    }
                }
            }
        });
        let file = RemoteFile {
            server,
            handle: nfs_fh3 {
                data: Opaque::borrowed(b"handle"),
            },
            credential: opaque_auth::default(),
            size_bytes: 1 << 20,
            read_most_bytes: 1 << 20,
        };
        let stream = TcpStream::connect(server).unwrap();
        Calls::new(stream, &file, (BLOCK, depth), limit).unwrap()
    }

    fn hear(stream: &mut TcpStream) -> Option<Asked> {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).ok()?;
        let mut call = vec![0; fragment_header::from(mark).fragment_length() as usize];
        stream.read_exact(&mut call).ok()?;
        let offset = &call[call.len() - OFFSET_BEFORE_END..];
        Some(Asked {
            number: u32::from_be_bytes(*call.first_chunk().unwrap()),
            offset: u64::from_be_bytes(*offset.first_chunk().unwrap()),
        })
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn marked(answer: &[u8]) -> Vec<u8> {
        let mark = fragment_header::new(answer.len() as u32, true);
        [&mark.into_xdr_buf()[..], answer].concat()
    }

    /// What stands before the results: the call is accepted, and a verifier of 4 B is sent.
    fn accepted(number: u32) -> Vec<u8> {
        words(&[number, 1, 0, 0, 4, 7, 0])
    }

    /// A block of which each byte is drawn from its offset, with or without the file's attributes.
    fn read(asked: &Asked, attributes: bool) -> Vec<u8> {
        let mut answer = accepted(asked.number);
        answer.extend(words(&[OK, u32::from(attributes)]));
        if attributes {
            answer.extend([9; ATTRIBUTES_BYTES]);
        }
        answer.extend(words(&[BLOCK as u32, 0, BLOCK as u32]));
        answer.extend(content(asked.offset));
        marked(&answer)
    }

    fn content(offset: u64) -> Vec<u8> {
        (offset..offset + BLOCK as u64)
            .map(|at| (at / 7) as u8)
            .collect()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn blocks_are_those_that_were_asked_for_in_whatever_order_and_pieces_they_come() {
        let mut calls = calls(4, LONG, |asked| {
            let answers = asked.iter().rev().enumerate();
            let all = answers.flat_map(|(position, asked)| read(asked, position % 2 == 0));
            let all: Vec<u8> = all.collect();
            // Cut in the middle of a mark, of a block, and nowhere near either.
            let cuts = [0, 2, 3000, BLOCK + 150, all.len()];
            cuts.windows(2)
                .map(|cut| all[cut[0]..cut[1]].to_vec())
                .collect()
        });
        for round in 0..3 {
            let offsets = [0, 1, 2, 3].map(|at| (4 * round + at) * BLOCK as u64);
            for offset in offsets {
                calls.ask(offset, offset + 1).unwrap();
            }
            assert_eq!(calls.in_flight(), 4);
            for offset in offsets.into_iter().rev() {
                let (answered, data) = calls.answered_with().unwrap();
                assert_eq!(
                    answered,
                    Answered {
                        began: offset + 1,
                        offset
                    }
                );
                assert!(data == content(offset), "the block at {offset}");
            }
            assert_eq!(calls.in_flight(), 0);
        }
    }

    #[test]
    fn a_call_that_does_nothing_is_answered_by_nothing() {
        let mut calls = calls(1, LONG, |asked| vec![marked(&accepted(asked[0].number))]);
        for _ in 0..3 {
            calls.null().unwrap();
        }
    }

    /// What comes of a read that is answered so.
    fn failure(limit: Duration, answer: impl Fn(&Asked) -> Sent + Send + 'static) -> String {
        let mut calls = calls(1, limit, move |asked| answer(&asked[0]));
        calls.ask(8192, 0).unwrap();
        let error = calls.answered().unwrap_err();
        error.failure("nfs://h/e/f", limit).reason
    }

    #[test]
    fn an_answer_that_is_none_is_a_failure_that_says_what_it_is() {
        let refused = |status| -> Made {
            Box::new(move |asked| marked(&[accepted(asked.number), words(&[status, 0])].concat()))
        };
        // Counts and lengths that do not fit each other or what was asked for.
        let counted = |count: u32, length: u32, bytes: usize| -> Made {
            Box::new(move |asked| {
                let head = words(&[OK, 0, count, 1, length]);
                marked(&[accepted(asked.number), head, vec![0; bytes]].concat())
            })
        };
        let plain = |bytes: fn(&Asked) -> Vec<u8>| -> Made { Box::new(bytes) };
        let cases = [
            ("removed while", refused(70)),
            ("may not be read by this user", refused(13)),
            ("answers NFS3ERR_IO", refused(5)),
            ("a status that NFS does not have", refused(77)),
            ("gave 100 of the 4096 bytes at 8192", counted(100, 100, 100)),
            ("gave 0 of the 4096 bytes", counted(0, 0, 0)),
            ("gave 8 of the 4096 bytes", counted(BLOCK as u32, 8, 8)),
            ("ends too early", counted(BLOCK as u32, u32::MAX, 8)),
            ("another length than it says", counted(4, 4, 8)),
            (
                "a call that was not made",
                plain(|asked| {
                    read(
                        &super::tests::Asked {
                            number: asked.number ^ 1,
                            offset: 0,
                        },
                        true,
                    )
                }),
            ),
            (
                "a call where an answer",
                plain(|asked| marked(&words(&[asked.number, 0]))),
            ),
            (
                "does not accept",
                plain(|asked| marked(&words(&[asked.number, 1, 1, 1, 1]))),
            ),
            (
                "cannot carry the call out",
                plain(|asked| marked(&words(&[asked.number, 1, 0, 0, 0, 3]))),
            ),
            (
                "a verifier that is too long",
                plain(|asked| marked(&words(&[asked.number, 1, 0, 0, u32::MAX]))),
            ),
            ("in fragments", plain(|_| vec![0, 0, 0, 8, 0, 0])),
            (
                "longer than what was asked for",
                plain(|_| vec![0xff, 0xff, 0xff, 0xff, 0, 0]),
            ),
            ("ends too early", plain(|_| marked(&[]))),
        ];
        for (why, answer) in cases {
            let failure = failure(LONG, move |asked| vec![answer(asked)]);
            assert!(failure.contains(why), "{failure} is not: {why}");
            assert!(failure.contains("nfs://h/e/f"), "{failure}");
        }
    }

    #[test]
    fn a_server_that_goes_or_is_silent_is_told_from_one_that_answers() {
        let half = |asked: &Asked| read(asked, true)[..1000].to_vec();
        let gone = failure(LONG, move |asked| vec![half(asked), Vec::new()]);
        assert!(gone.contains("ended the connection"), "{gone}");
        let limit = Duration::from_millis(200);
        let silent = failure(limit, move |asked| vec![half(asked)]);
        assert!(silent.contains("no answer within 200ms"), "{silent}");
        // One that says a byte now and then is as good as silent.
        let slow = failure(limit, |_| {
            let mut pieces = vec![marked(&[0; BLOCK])[..4].to_vec()];
            pieces.extend(std::iter::repeat_n(vec![0], BLOCK));
            pieces
        });
        assert!(slow.contains("no answer within 200ms"), "{slow}");
    }
}
