//! The destination of a message's fields: one allocation each.

use super::Shape;

/// Fields with equal shares of a message's bytes, and the rest in the last one.
pub(super) struct Fields {
    share: usize,
    fields: Vec<Box<[u8]>>,
}

impl Fields {
    pub(super) fn new(shape: Shape) -> Self {
        let share = shape.size / shape.fields;
        let last = shape.size - share * (shape.fields - 1);
        let fields = (1..=shape.fields).map(|number| {
            let len = if number == shape.fields { last } else { share };
            // Ones, since zeroes would not be backed by memory yet.
            vec![1; len].into_boxed_slice()
        });
        Self { share, fields: fields.collect() }
    }

    /// Copies bytes of a message, those from `at` on, into the fields in which they belong.
    #[inline]
    pub(super) fn deserialise(&mut self, at: usize, mut bytes: &[u8]) {
        let mut field = (at / self.share).min(self.fields.len() - 1);
        let mut within = at - field * self.share;
        while !bytes.is_empty() {
            let place = &mut self.fields[field][within..];
            let (now, later) = bytes.split_at(bytes.len().min(place.len()));
            place[..now.len()].copy_from_slice(now);
            bytes = later;
            (field, within) = (field + 1, 0);
        }
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut Box<[u8]>> {
        self.fields.iter_mut()
    }

    pub(super) fn concat(&self) -> Vec<u8> {
        self.fields.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_into_their_fields_however_they_are_cut() {
        let message: Vec<u8> = (0..100).collect();
        for fields in [1, 3, 8, 64] {
            for piece in [1, 7, 33, 100] {
                let mut into = Fields::new(Shape { size: 100, fields });
                for (number, bytes) in message.chunks(piece).enumerate() {
                    into.deserialise(number * piece, bytes);
                }
                assert_eq!(into.concat(), message, "{fields} fields, {piece} at once");
                assert_eq!(into.fields.len(), fields);
                assert_eq!(into.fields[0].len(), 100 / fields);
            }
        }
    }
}
