//! A message of eight separately allocated fields, as programs have one before they send it.
//!
//! To serialise it, a sender copies the fields one after the other into one buffer. Without that,
//! it passes eight addresses to the kernel.

/// How many fields a message has.
pub const FIELDS: usize = 8;

/// A message: eight fields with equal shares of its bytes, and the rest in the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    fields: [Box<[u8]>; FIELDS],
}

impl Message {
    /// `count` messages of `bytes` zeroes each, every field an allocation of its own.
    ///
    /// All first fields are allocated, then all second ones, each time for the messages in an order that
    /// `shuffle` makes. So neither the fields of one message nor those of neighbouring messages are adjacent,
    /// as fields that are allocated in a row would be.
    pub fn many(count: usize, bytes: usize, shuffle: &mut dyn FnMut(&mut [usize])) -> Vec<Self> {
        let mut messages = vec![Self::default(); count];
        let mut order: Vec<usize> = (0..count).collect();
        let share = bytes / FIELDS;
        for field in 0..FIELDS {
            let len = match field {
                last if last == FIELDS - 1 => bytes - share * last,
                _ => share,
            };
            shuffle(&mut order);
            for &message in &order {
                messages[message].fields[field] = vec![0; len].into_boxed_slice();
            }
        }
        messages
    }

    /// Lets `fill` fill the fields, in their order.
    pub fn fill(&mut self, fill: &mut dyn FnMut(&mut [u8])) {
        for field in &mut self.fields {
            fill(field);
        }
    }

    /// The fields, in their order.
    pub fn fields(&self) -> &[Box<[u8]>; FIELDS] {
        &self.fields
    }

    /// Copies the fields one after the other to the front of `buffer`: eight calls of the C library's memcpy,
    /// since the compiler knows no length.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the message.
    #[inline]
    pub fn serialise(&self, buffer: &mut [u8]) {
        concatenate(self.fields.iter().map(|field| &**field), buffer);
    }
}

/// Copies fields one after the other to the front of `buffer`.
#[inline(always)]
pub(crate) fn concatenate<'f>(fields: impl Iterator<Item = &'f [u8]>, buffer: &mut [u8]) {
    let mut rest = buffer;
    for field in fields {
        let (place, behind) = rest.split_at_mut(field.len());
        place.copy_from_slice(field);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_and_the_rest_is_in_the_last() {
        for (bytes, share, last) in [(0, 0, 0), (7, 0, 7), (64, 8, 8), (4099, 512, 515)] {
            let message = Message::many(1, bytes, &mut |_| {}).remove(0);
            let lens = message.fields().each_ref().map(|field| field.len());
            assert_eq!(lens[..FIELDS - 1], [share; FIELDS - 1]);
            assert_eq!(lens[FIELDS - 1], last);
        }
    }

    #[test]
    fn the_fields_of_one_of_many_messages_lie_far_apart() {
        const LEN: usize = 1000;
        // In place of a shuffle: another order for each field.
        let mut turn = |order: &mut [usize]| order.rotate_left(13);
        let messages = Message::many(100, FIELDS * LEN, &mut turn);
        for message in &messages {
            for pair in message.fields().windows(2) {
                let apart = pair[0].as_ptr().addr().abs_diff(pair[1].as_ptr().addr());
                assert!(apart > 10 * LEN, "{apart}");
            }
        }
    }

    #[test]
    fn a_serialised_message_is_its_fields_in_order() {
        let mut next = 0_u8;
        let mut message = Message::many(1, 83, &mut |_| {}).remove(0);
        message.fill(&mut |field| {
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
