//! The four variants of Thrift, each a type of its own, as in a program that uses only one.

use super::line::{AHEAD, Incoming, Line, Outgoing};
use crate::Protocol;
use ::thrift::TConfiguration;
use ::thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TInputProtocol,
};
use ::thrift::transport::{
    TBufferedReadTransport, TBufferedWriteTransport, TFramedReadTransport, TFramedWriteTransport,
    TReadTransport, TWriteTransport,
};
use std::io::BufReader;
use std::sync::Arc;

pub(super) fn framed(
    line: &Arc<Line>,
) -> (TFramedReadTransport<BufReader<Incoming>>, TFramedWriteTransport<Outgoing>) {
    // A frame's length and the frame are two reads; the buffered reader merges them into one call.
    let incoming = BufReader::with_capacity(AHEAD, Incoming(Arc::clone(line)));
    (
        TFramedReadTransport::new(incoming),
        TFramedWriteTransport::new(Outgoing::new(Arc::clone(line))),
    )
}

pub(super) fn buffered(
    line: &Arc<Line>,
) -> (TBufferedReadTransport<Incoming>, TBufferedWriteTransport<Outgoing>) {
    let outgoing = Outgoing::new(Arc::clone(line));
    (
        TBufferedReadTransport::with_capacity(AHEAD, Incoming(Arc::clone(line))),
        TBufferedWriteTransport::with_capacity(AHEAD, outgoing),
    )
}

pub(super) fn binary<R: TReadTransport, W: TWriteTransport>(
    (incoming, outgoing): (R, W),
    limits: TConfiguration,
) -> (TBinaryInputProtocol<R>, TBinaryOutputProtocol<W>) {
    (
        TBinaryInputProtocol::with_config(incoming, true, limits),
        TBinaryOutputProtocol::new(outgoing, true),
    )
}

pub(super) fn compact<R: TReadTransport, W: TWriteTransport>(
    (incoming, outgoing): (R, W),
    limits: TConfiguration,
) -> (TCompactInputProtocol<R>, TCompactOutputProtocol<W>) {
    (TCompactInputProtocol::with_config(incoming, limits), TCompactOutputProtocol::new(outgoing))
}

/// Creates the protocols of a connection, and runs an expression on them.
macro_rules! protocols {
    ($transport:expr, $protocol:expr, $line:expr, $limits:expr, ($i:ident, $o:ident) => $do:expr) => {{
        use $crate::thrift::protocols::{binary, buffered, compact, framed};
        use $crate::{Protocol, Transport};
        macro_rules! with {
            ($protocols:expr) => {{
                let ($i, $o) = $protocols;
                $do
            }};
        }
        match ($transport, $protocol) {
            (Transport::Framed, Protocol::Binary) => with!(binary(framed($line), $limits)),
            (Transport::Framed, Protocol::Compact) => with!(compact(framed($line), $limits)),
            (Transport::Buffered, Protocol::Binary) => with!(binary(buffered($line), $limits)),
            (Transport::Buffered, Protocol::Compact) => with!(compact(buffered($line), $limits)),
        }
    }};
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
