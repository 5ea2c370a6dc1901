//! A message of eight separately allocated fields, as programs have one before they send it.
//!
//! Whoever serialises it copies the fields one behind the other into one buffer; whoever does not
//! hands the kernel eight places.

/// How many fields a message has.
pub const FIELDS: usize = 8;

/// A message: eight fields with equal shares of its bytes, and the rest in the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    fields: [Box<[u8]>; FIELDS],
}

impl Message {
    /// A message of `bytes` bytes in all, each field an allocation of its own that `fill` fills.
    pub fn new(bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> Self {
        let share = bytes / FIELDS;
        let fields = std::array::from_fn(|field| {
            let len = match field {
                last if last == FIELDS - 1 => bytes - share * last,
                _ => share,
            };
            let mut bytes = vec![0; len].into_boxed_slice();
            fill(&mut bytes);
            bytes
        });
        Self { fields }
    }

    /// The fields, in their order.
    pub fn fields(&self) -> &[Box<[u8]>; FIELDS] {
        &self.fields
    }

    /// Copies the fields one behind the other to the front of `buffer`: eight calls of the C
    /// library's memcpy, since no length is known before.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the message.
    #[inline]
    pub fn serialise(&self, buffer: &mut [u8]) {
        let mut rest = buffer;
        for field in &self.fields {
            let (place, behind) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_and_the_rest_is_in_the_last() {
        for (bytes, share, last) in [(0, 0, 0), (7, 0, 7), (64, 8, 8), (4099, 512, 515)] {
            let message = Message::new(bytes, &mut |_| {});
            let lens = message.fields().each_ref().map(|field| field.len());
            assert_eq!(lens[..FIELDS - 1], [share; FIELDS - 1]);
            assert_eq!(lens[FIELDS - 1], last);
        }
    }

    #[test]
    fn a_serialised_message_is_its_fields_in_order() {
        let mut next = 0_u8;
        let message = Message::new(83, &mut |field| {
            for byte in field {
                *byte = next;
                next += 1;
            }
        });
        let mut buffer = [200; 90];
        message.serialise(&mut buffer);
        assert!(buffer[..83].iter().copied().eq(0..83));
        assert_eq!(buffer[83..], [200; 7]);
    }
}
