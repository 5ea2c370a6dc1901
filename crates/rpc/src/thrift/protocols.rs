//! Thrift's two protocols, each a type of its own, as in a program that uses only one.

use super::line::{AHEAD, Incoming, Line, Outgoing};
use crate::Protocol;
use ::thrift::TConfiguration;
use ::thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TInputProtocol,
};
use ::thrift::transport::{TFramedReadTransport, TFramedWriteTransport};
use std::io::BufReader;
use std::sync::Arc;

type Reads = TFramedReadTransport<BufReader<Incoming>>;
type Writes = TFramedWriteTransport<Outgoing>;

fn framed(line: &Arc<Line>) -> (Reads, Writes) {
    // A frame's length and the frame are two reads; the buffered reader merges them into one call.
    let incoming = BufReader::with_capacity(AHEAD, Incoming(Arc::clone(line)));
    (
        TFramedReadTransport::new(incoming),
        TFramedWriteTransport::new(Outgoing::new(Arc::clone(line))),
    )
}

pub(super) fn binary(
    line: &Arc<Line>,
    limits: TConfiguration,
) -> (TBinaryInputProtocol<Reads>, TBinaryOutputProtocol<Writes>) {
    let (incoming, outgoing) = framed(line);
    (
        TBinaryInputProtocol::with_config(incoming, true, limits),
        TBinaryOutputProtocol::new(outgoing, true),
    )
}

pub(super) fn compact(
    line: &Arc<Line>,
    limits: TConfiguration,
) -> (TCompactInputProtocol<Reads>, TCompactOutputProtocol<Writes>) {
    let (incoming, outgoing) = framed(line);
    (TCompactInputProtocol::with_config(incoming, limits), TCompactOutputProtocol::new(outgoing))
}

/// Creates the protocols of a connection, and runs an expression on them.
macro_rules! protocols {
    ($protocol:expr, $line:expr, $limits:expr, ($i:ident, $o:ident) => $do:expr) => {
        match $protocol {
            $crate::Protocol::Binary => {
                let ($i, $o) = $crate::thrift::protocols::binary($line, $limits);
                $do
            }
            $crate::Protocol::Compact => {
                let ($i, $o) = $crate::thrift::protocols::compact($line, $limits);
                $do
            }
        }
    };
}
pub(super) use protocols;

/// Reads a message in memory.
#[inline]
pub(super) fn read<T>(
    protocol: Protocol,
    bytes: &[u8],
    limits: TConfiguration,
    read: impl FnOnce(&mut dyn TInputProtocol) -> ::thrift::Result<T>,
) -> ::thrift::Result<T> {
    match protocol {
        Protocol::Binary => read(&mut TBinaryInputProtocol::with_config(bytes, true, limits)),
        Protocol::Compact => read(&mut TCompactInputProtocol::with_config(bytes, limits)),
    }
}
