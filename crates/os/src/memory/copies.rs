//! Measured: the C library's memcpy, from the same source each time, or each time from another one.
//!
//! The compiler does not know the lengths, so each copy is a call; the machine code was checked.
//! The figure of one copy includes the call, a few instructions to find the next source, and those
//! of the loop. Copies do not wait for each other, so a core works on several short ones at once.

use std::arch::asm;
use std::hint::black_box;
use std::ptr;

use crate::memory::message::Message;

/// Visits places in an order in which neighbours are far apart in time and in space, each once per lap.
#[derive(Debug)]
pub struct Walk {
    places: usize,
    step: usize,
    at: usize,
}

impl Walk {
    /// A walk through this many places, at the first of them.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn new(places: usize) -> Self {
        assert!(places > 0, "a walk has a place to stand on");
        Self { places, step: step_through(places), at: 0 }
    }

    /// The current place: the one last copied from.
    pub fn place(&self) -> usize {
        self.at
    }

    #[inline(always)]
    fn advance(&mut self) -> usize {
        let next = self.at + self.step;
        self.at = if next >= self.places { next - self.places } else { next };
        self.at
    }
}

/// The step with which a walk visits each of this many places once per lap: about the golden section of them,
/// which spreads the visits most evenly. Less than the number of places.
pub(crate) fn step_through(places: usize) -> usize {
    let golden = (places as f64 * 0.618_033_988_75) as usize;
    // Without a common divisor, a lap visits every place.
    let step = (golden.max(1)..)
        .find(|step| common_divisor(*step, places) == 1)
        .expect("one more than a multiple has no common divisor");
    step % places
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Copies `to.len()` bytes `n` times into `to`, each time from the next place of the walk. Places
/// begin `apart` bytes from each other, the first one at `from`'s start.
///
/// # Panics
///
/// If a place reaches beyond `from`.
pub fn copy(from: &[u8], apart: usize, walk: &mut Walk, to: &mut [u8], n: u64) {
    let bytes = black_box(to.len());
    let last = (walk.places - 1).checked_mul(apart);
    let end = last.and_then(|last| last.checked_add(to.len()));
    assert!(end.is_some_and(|end| end <= from.len()), "a place reaches beyond the source");
    for _ in 0..n {
        let place = walk.advance() * apart;
        // SAFETY: `bytes` bytes from the place lie inside `from`, as those from the last one do;
        // `to` holds as many, and a mutable borrow overlaps nothing.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr().add(place), to.as_mut_ptr(), bytes) };
        looked_at(to);
    }
}

/// Serialises `n` messages into `to`, each time the next of the walk.
///
/// # Panics
///
/// If the walk has more places than there are messages, or `to` is shorter than one.
pub fn serialise(messages: &[Message], walk: &mut Walk, to: &mut [u8], n: u64) {
    assert!(walk.places <= messages.len(), "the walk has more places than there are messages");
    for _ in 0..n {
        messages[walk.advance()].serialise(to);
        looked_at(to);
    }
}

/// For the compiler, the copy may be read and changed here. So it must make each copy, and none in
/// advance.
#[inline(always)]
fn looked_at(copy: &mut [u8]) {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {} */", in(reg) copy.as_mut_ptr(), options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_visits_every_place_once() {
        for places in [1, 2, 3, 4, 7, 128, 1000, 4096] {
            let mut walk = Walk::new(places);
            let mut visited = vec![false; places];
            for _ in 0..places {
                let place = walk.advance();
                assert!(!std::mem::replace(&mut visited[place], true), "{places}");
            }
            assert_eq!(walk.place(), 0);
        }
    }

    #[test]
    fn what_is_copied_is_what_stands_at_the_place() {
        let from: Vec<u8> = (0..200).collect();
        for places in [1, 5, 10] {
            let mut walk = Walk::new(places);
            for n in 1..20 {
                let mut to = [0; 17];
                copy(&from, 19, &mut walk, &mut to, n);
                assert_eq!(to, from[walk.place() * 19..][..17]);
            }
        }
    }

    #[test]
    fn the_message_serialised_last_is_in_the_buffer() {
        let messages: Vec<Message> = (0..10)
            .map(|number| {
                let mut message = Message::many(1, 100, &mut |_| {}).remove(0);
                message.fill(&mut |field| field.fill(number));
                message
            })
            .collect();
        let mut walk = Walk::new(messages.len());
        for n in 1..12 {
            let mut to = [200; 100];
            serialise(&messages, &mut walk, &mut to, n);
            assert_eq!(to, [walk.place() as u8; 100]);
        }
    }

    #[test]
    #[should_panic(expected = "beyond the source")]
    fn a_place_outside_the_source_is_refused() {
        copy(&[0; 100], 50, &mut Walk::new(2), &mut [0; 51], 1);
    }
}
