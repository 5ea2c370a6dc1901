//! What is measured of an NFS server: calls that do nothing, and reads, several under way where that is
//! asked for. A call is written once and sent with another number and offset each time; an answer is
//! looked at where it was received. Nothing is allocated, and of system calls there are one to send a
//! call and those that receive.
//!
//! Source: RFC 5531, sections 9 and 11; RFC 1813, section 3.3.6; RFC 4506.

use super::server::RemoteFile;
use costof_model::failure::Failure;
use nfs3_client::nfs3_types::nfs3::{self, NFS_PROGRAM, READ3args, nfs_fh3, nfsstat3};
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
/// The longest verifier. Source: RFC 5531, section 8.2.
const VERIFIER_MOST_BYTES: usize = 400;

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
    under_way: Vec<Asked>,
    received: Vec<u8>,
    /// What of `received` was received and not yet looked at.
    left: Range<usize>,
}

/// A read that is under way.
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
pub(super) enum Trouble {
    /// What the connection says.
    Connection(io::Error),
    /// The answer is none.
    Nonsense(&'static str),
    /// The server would not.
    Refused(nfsstat3),
    /// Other bytes were read than were asked for.
    Count {
        offset: u64,
        count: u32,
        block: usize,
    },
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Connection(error)
    }
}

impl Calls {
    /// Calls over `stream` that read `block` bytes of `file` each, at most `depth` under way; an answer
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
            file: nfs_fh3 {
                data: Opaque::borrowed(&[]),
            },
            offset: 0,
            count: block as u32,
        };
        let arguments = READ3args {
            file: file.handle.clone(),
            ..arguments
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
            under_way: Vec::with_capacity(depth),
            received: vec![0; 2 * (block + AROUND_MOST_BYTES) + SMALL_BYTES],
            left: 0..0,
        })
    }

    /// How many reads are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Measured: a call that does nothing, while nothing else is under way.
    ///
    /// # Errors
    /// Why it was not answered.
    pub(super) fn null(&mut self) -> Result<(), Trouble> {
        debug_assert!(self.under_way.is_empty());
        let number = self.next_number();
        put(&mut self.null, NUMBER_AT, &number.to_be_bytes());
        self.stream.write_all(&self.null)?;
        let mut answer = self.answer()?;
        if answer.number()? != number {
            return Err(OTHER_CALL);
        }
        answer.accepted()?;
        answer.end(0)
    }

    /// Measured: asks for a block at `offset`. `began` is kept for whoever asks.
    ///
    /// # Errors
    /// What the connection says.
    pub(super) fn ask(&mut self, offset: u64, began: u64) -> Result<(), Trouble> {
        let number = self.next_number();
        put(&mut self.read, NUMBER_AT, &number.to_be_bytes());
        let offset_at = self.read.len() - OFFSET_BEFORE_END;
        put(&mut self.read, offset_at, &offset.to_be_bytes());
        self.stream.write_all(&self.read)?;
        self.under_way.push(Asked {
            number,
            offset,
            began,
        });
        Ok(())
    }

    /// Measured: waits for the answer of one of the reads that are under way, and looks that it has the
    /// bytes that were asked for.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn answered(&mut self) -> Result<Answered, Trouble> {
        Ok(self.answered_with()?.0)
    }

    /// The same, and the bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn answered_with(&mut self) -> Result<(Answered, &[u8]), Trouble> {
        let block = self.block;
        let mut answer = self.answer()?;
        let number = answer.number()?;
        answer.accepted()?;
        let status = answer.word()?;
        if answer.word()? != 0 {
            answer.skip(ATTRIBUTES_BYTES)?;
        }
        let offset_of = |asked: &[Asked]| asked.iter().position(|asked| asked.number == number);
        if status != nfsstat3::NFS3_OK as u32 {
            let (status, _) = nfsstat3::unpack(&mut &status.to_be_bytes()[..])
                .map_err(|_| Trouble::Nonsense("a status that NFS does not have"))?;
            return Err(Trouble::Refused(status));
        }
        let (count, _end_of_file, length) = (answer.word()?, answer.word()?, answer.word()?);
        let data = answer.bytes(length as usize)?;
        answer.end(padding(length as usize))?;
        let at = offset_of(&self.under_way).ok_or(OTHER_CALL)?;
        let Asked { offset, began, .. } = self.under_way.swap_remove(at);
        if count != length || count as usize != block {
            return Err(Trouble::Count {
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
    fn answer(&mut self) -> Result<Answer<'_>, Trouble> {
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
                        return Err(Trouble::Nonsense("an answer in fragments"));
                    }
                    if length > longest {
                        return Err(Trouble::Nonsense(
                            "an answer longer than what was asked for",
                        ));
                    }
                    if have >= 4 + length {
                        let answer = self.left.start + 4..self.left.start + 4 + length;
                        self.left.start = answer.end;
                        return Ok(Answer {
                            all: &self.received,
                            left: answer,
                        });
                    }
                    4 + length - have
                }
            };
            self.receive(missing, &mut until)?;
        }
    }

    /// Receives some of the `missing` bytes; where answers are small, also of the next.
    fn receive(&mut self, missing: usize, until: &mut Option<Instant>) -> Result<(), Trouble> {
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
        let most = match self.block > SMALL_BYTES {
            true => missing,
            false => room.len(),
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
const OTHER_CALL: Trouble = Trouble::Nonsense("an answer to a call that was not made");

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

/// What fills up to a multiple of four.
const fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

/// An answer, or what is left of it.
struct Answer<'r> {
    all: &'r [u8],
    left: Range<usize>,
}

impl Answer<'_> {
    fn bytes(&mut self, count: usize) -> Result<Range<usize>, Trouble> {
        if count > self.left.len() {
            return Err(Trouble::Nonsense("an answer that ends too early"));
        }
        let taken = self.left.start..self.left.start + count;
        self.left.start = taken.end;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), Trouble> {
        self.bytes(count).map(drop)
    }

    fn word(&mut self) -> Result<u32, Trouble> {
        let bytes = self.bytes(4)?;
        let word = self.all[bytes].first_chunk().expect("four bytes");
        Ok(u32::from_be_bytes(*word))
    }

    fn number(&mut self) -> Result<u32, Trouble> {
        self.word()
    }

    /// Reads on to the results of a call that was accepted and carried out.
    fn accepted(&mut self) -> Result<(), Trouble> {
        const REPLY: u32 = 1;
        const ACCEPTED: u32 = 0;
        const SUCCESS: u32 = 0;
        if self.word()? != REPLY {
            return Err(Trouble::Nonsense("a call where an answer should be"));
        }
        if self.word()? != ACCEPTED {
            return Err(Trouble::Nonsense("that it does not accept the call"));
        }
        let (_flavour, length) = (self.word()?, self.word()? as usize);
        if length > VERIFIER_MOST_BYTES {
            return Err(Trouble::Nonsense("a verifier that is too long"));
        }
        self.skip(length + padding(length))?;
        match self.word()? {
            SUCCESS => Ok(()),
            _ => Err(Trouble::Nonsense("that it cannot carry the call out")),
        }
    }

    /// Nothing but so many bytes of padding must be left.
    fn end(&mut self, padding: usize) -> Result<(), Trouble> {
        match self.left.len() == padding {
            true => Ok(()),
            false => Err(Trouble::Nonsense(
                "an answer of another length than it says",
            )),
        }
    }
}

impl Trouble {
    /// As the failure of a point, of the file of this name.
    pub(super) fn failure(&self, file: &str, limit: Duration) -> Failure {
        Failure::error(match self {
            Trouble::Connection(error) => {
                format!("reading {file}: {}", super::server::why(error, limit))
            }
            Trouble::Nonsense(what) => format!("reading {file}: the server sends {what}"),
            Trouble::Refused(nfsstat3::NFS3ERR_STALE) => {
                format!("{file} was removed while it was read (NFS3ERR_STALE)")
            }
            Trouble::Refused(nfsstat3::NFS3ERR_ACCES) => format!(
                "{file} may not be read by this user (NFS3ERR_ACCES; a server takes root for \
                 nobody unless its export says otherwise)"
            ),
            Trouble::Refused(status) => format!("reading {file}: the server answers {status}"),
            Trouble::Count {
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
