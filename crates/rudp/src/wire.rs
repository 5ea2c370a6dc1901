//! The encoding of numbers: big-endian, or as variable-length integers (RFC 9000 section 16).

/// The largest number that a variable-length integer holds.
pub(crate) const VARINT_MAX: u64 = (1 << 62) - 1;

/// How many bytes the number takes.
pub(crate) const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the number, which is at most [`VARINT_MAX`].
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= VARINT_MAX, "{value} is no variable-length integer");
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends numbers of 64 bits.
#[inline]
pub(crate) fn put_u64s(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Reads a datagram from start to end. Missing data reads as `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (these, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(these)
    }

    /// Skips this byte if it comes next. Returns whether it did.
    #[inline]
    pub(crate) fn skip(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (these, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*these)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        match first >> 6 {
            0 => {
                self.0 = &self.0[1..];
                Some(first.into())
            }
            1 => Some(u64::from(self.u16()? & 0x3fff)),
            2 => Some(u64::from(self.u32()? & 0x3fff_ffff)),
            _ => Some(self.u64()? & VARINT_MAX),
        }
    }

    #[inline]
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_read_back(value in 0..=VARINT_MAX, shift in 0..62_u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(Reader(&out[..out.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_1() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(Reader(bytes).varint(), Some(value));
        }
    }
}
