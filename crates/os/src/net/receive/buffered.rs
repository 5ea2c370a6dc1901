//! `recv` into one buffer, from which each field is copied: two copies.
//!
//! Source: recv(2).

use super::fields::Fields;
use super::stream::Stream;
use super::{Counts, Shape, Way};
use std::io;

pub(super) struct Buffered {
    stream: Stream,
    buffer: Vec<u8>,
    fields: Fields,
}

impl Buffered {
    pub(super) fn new(stream: Stream, shape: Shape) -> Self {
        Self { stream, buffer: vec![1; shape.size], fields: Fields::new(shape) }
    }
}

impl Way for Buffered {
    #[inline]
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.stream.fill(&mut self.buffer, &mut counts.calls)?;
        self.fields.deserialise(0, &self.buffer);
        Ok(())
    }

    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>> {
        self.receive(counts)?;
        Ok(self.fields.concat())
    }
}
