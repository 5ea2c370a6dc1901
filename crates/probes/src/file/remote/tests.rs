//! What servers in tests receive and send.

use crate::prelude::*;
use nfs3_client::nfs3_types::rpc::fragment_header;
use std::io::Read;
use std::net::TcpStream;

/// The next call, without its record mark.
pub(super) fn receive_call(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut call = vec![0; fragment_header::from(mark).fragment_length() as usize];
    stream.read_exact(&mut call)?;
    Ok(call)
}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A reply, after its record mark.
pub(super) fn marked(reply: &[u8]) -> Vec<u8> {
    let mark = fragment_header::new(reply.len() as u32, true);
    [&mark.into_xdr_buf()[..], reply].concat()
}
