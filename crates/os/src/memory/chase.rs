//! Measured: loads that each wait for the previous one, along one cycle of pointers through memory.
//!
//! An element is one word with the address of the next element. Elements are a fixed number of
//! bytes apart, and one lap visits each exactly once. The order of the visits determines what is
//! measured: a random order defeats prefetchers (and misses the TLB), a page-local order avoids TLB
//! misses, and an ascending order lets the prefetcher work.
//!
//! Source: S. Sattolo, "An algorithm to generate a random cyclic permutation", Information
//! Processing Letters 22 (1986); L. McVoy and C. Staelin, "lmbench" (USENIX 1996), `lat_mem_rd`.

use std::io;
use std::marker::PhantomData;

use crate::memory::arena::Arena;
use crate::system_call::invalid;
use costof_gauge::asm_loop;

/// A ring of pointers in an arena, which it borrows: nothing else can write to it.
#[derive(Debug)]
pub struct Ring<'arena> {
    /// The element at which the next walk starts.
    at: *const u8,
    elements: usize,
    arena: PhantomData<&'arena mut Arena>,
}

// SAFETY: a ring is a mutable borrow of an arena, which may be sent.
unsafe impl Send for Ring<'_> {}

/// Loads in one iteration of [`Ring::walk`].
const UNROLLED: u64 = 32;

impl<'arena> Ring<'arena> {
    /// Lays one random cycle through the elements of the arena's first `bytes` bytes, each cycle equally
    /// likely. `below(n)` samples a number from 0 to n − 1. Needs no memory of its own.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `bytes` exceeds the arena or holds no element, or if the stride is not a
    /// multiple of the size of a pointer.
    ///
    /// # Panics
    ///
    /// If `below(n)` answers n or more.
    pub fn lay_random(
        arena: &'arena mut Arena,
        bytes: usize,
        stride_bytes: usize,
        below: &mut dyn FnMut(u64) -> u64,
    ) -> io::Result<Self> {
        let grid = Grid::new(arena, bytes, stride_bytes)?;
        // Sattolo's shuffle, from the inside out: each new element is put behind a random one of
        // those before it, so that the cycle grows in place, without an array of its own.
        grid.link(0, 0);
        for new in 1..grid.elements {
            let earlier = draw(below, new);
            grid.link_to_successor_of(new, earlier);
            grid.link(earlier, new);
        }
        Ok(grid.ring(0, grid.elements))
    }

    /// Lays a ring through the elements of the arena's first `bytes` bytes in ascending order, the
    /// last followed by the first.
    ///
    /// # Errors
    ///
    /// `InvalidInput` as for [`Ring::lay_random`].
    pub fn lay_strided(
        arena: &'arena mut Arena,
        bytes: usize,
        stride_bytes: usize,
    ) -> io::Result<Self> {
        let grid = Grid::new(arena, bytes, stride_bytes)?;
        for element in 0..grid.elements {
            grid.link(element, (element + 1) % grid.elements);
        }
        Ok(grid.ring(0, grid.elements))
    }

    /// Lays a ring that hops from one quarter of the arena's first `bytes` bytes to the next, and goes
    /// through each in ascending order. Up to three elements at the end are left out.
    ///
    /// # Errors
    ///
    /// `InvalidInput` as for [`Ring::lay_random`], and if there are fewer than four elements.
    pub fn lay_quarters(
        arena: &'arena mut Arena,
        bytes: usize,
        stride_bytes: usize,
    ) -> io::Result<Self> {
        let grid = Grid::new(arena, bytes, stride_bytes)?;
        let in_quarter = grid.elements / 4;
        if in_quarter == 0 {
            return Err(invalid("four quarters have four elements or more"));
        }
        let elements = 4 * in_quarter;
        let visited = |visit: usize| visit % 4 * in_quarter + visit / 4;
        for visit in 0..elements {
            grid.link(visited(visit), visited((visit + 1) % elements));
        }
        Ok(grid.ring(0, elements))
    }

    /// Elements in one lap.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Makes `n` loads, each from the address that the one before loaded, and stays where they end: the next
    /// walk continues from there. There are 32 loads per iteration; the loop's own subtraction and branch run
    /// in parallel.
    pub fn walk(&mut self, n: u64) {
        if n >= UNROLLED {
            // SAFETY: every word of the ring holds the address of another word of the ring, inside
            // the borrowed arena: the constructors link only elements of the grid, and all of
            // those that a walk can reach. The loop ends when its count reaches zero.
            unsafe {
                asm_loop!(
                    n / UNROLLED,
                    x86_64 { ".rept 32", "mov {at}, [{at}]", ".endr" },
                    aarch64 { ".rept 32", "ldr {at}, [{at}]", ".endr" },
                    at = inout(reg) self.at,
                    options(readonly, nostack),
                );
            }
        }
        for _ in 0..n % UNROLLED {
            self.step();
        }
    }

    /// Whether a lap from here visits as many different elements as there are and ends where it began. Takes
    /// as long as a lap: for tests, and for checking a result.
    pub fn lap_is_complete(&self) -> bool {
        let mut probe = Ring { at: self.at, elements: self.elements, arena: PhantomData };
        // Every element has one successor: a walk that is back for the first time after as many
        // steps as there are elements has visited each once.
        (1..=self.elements).all(|steps| {
            probe.step();
            (probe.at == self.at) == (steps == self.elements)
        })
    }

    #[inline]
    fn step(&mut self) {
        // SAFETY: `at` is an element of the ring, which holds the address of the next.
        self.at = unsafe { self.at.cast::<*const u8>().read_volatile() };
    }
}

/// The elements of an arena, checked to lie inside it, before they are linked.
struct Grid<'arena> {
    start: *mut u8,
    stride_bytes: usize,
    elements: usize,
    arena: PhantomData<&'arena mut Arena>,
}

impl<'arena> Grid<'arena> {
    fn new(arena: &'arena mut Arena, bytes: usize, stride_bytes: usize) -> io::Result<Self> {
        if stride_bytes == 0 || !stride_bytes.is_multiple_of(size_of::<*const u8>()) {
            return Err(invalid("a stride is not a multiple of a pointer's size"));
        }
        if bytes > arena.len() {
            return Err(invalid("a ring exceeds its arena"));
        }
        let elements = bytes / stride_bytes;
        if elements == 0 {
            return Err(invalid("a ring of no elements"));
        }
        Ok(Self { start: arena.start(), stride_bytes, elements, arena: PhantomData })
    }

    #[inline]
    fn element(&self, index: usize) -> *mut *const u8 {
        assert!(index < self.elements, "element {index} is outside the grid");
        // SAFETY: `index × stride` plus a pointer lies inside the arena, as `new` has checked.
        // Elements are aligned: the arena is, and the stride is a multiple of a pointer's size.
        unsafe { self.start.add(index * self.stride_bytes).cast() }
    }

    /// Makes `to` follow `from`.
    #[inline]
    fn link(&self, from: usize, to: usize) {
        let to = self.element(to).cast_const().cast();
        // SAFETY: `element` returns an aligned word of the arena, which is borrowed mutably.
        unsafe { self.element(from).write(to) };
    }

    /// Makes what follows `other` follow `from` too.
    #[inline]
    fn link_to_successor_of(&self, from: usize, other: usize) {
        // SAFETY: as in `link`; what is read is stored, not followed.
        unsafe { self.element(from).write(self.element(other).read()) };
    }

    fn ring(&self, first: usize, elements: usize) -> Ring<'arena> {
        Ring { at: self.element(first).cast_const().cast(), elements, arena: PhantomData }
    }
}

#[inline]
fn draw(below: &mut dyn FnMut(u64) -> u64, limit: usize) -> usize {
    let drawn = below(limit as u64) as usize;
    assert!(drawn < limit, "below({limit}) answered {drawn}");
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::PageSize;

    /// A small generator for tests (Knuth's MMIX constants).
    fn generator() -> impl FnMut(u64) -> u64 {
        let mut state = 1_u64;
        move |limit| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        }
    }

    /// Where in the arena the next walk starts.
    fn offset(ring: &Ring<'_>, arena_address: usize) -> usize {
        ring.at.addr() - arena_address
    }

    fn arena(bytes: usize) -> Arena {
        Arena::map(bytes, PageSize::Base).unwrap()
    }

    fn laid<'a>(arena: &'a mut Arena, order: &[usize]) -> Ring<'a> {
        let grid = Grid::new(arena, 4096, 64).unwrap();
        let next = order.iter().cycle().skip(1);
        order.iter().zip(next).for_each(|(from, to)| grid.link(*from, *to));
        grid.ring(order[0], order.len())
    }

    #[test]
    fn a_lap_visits_every_element_once() {
        let mut arena = arena(1 << 20);
        let mut below = generator();
        for (bytes, stride) in [(8, 8), (128, 64), (4096, 64), (1 << 20, 64), (1 << 20, 4104)] {
            let elements = bytes / stride;
            let ring = Ring::lay_random(&mut arena, bytes, stride, &mut below).unwrap();
            assert!(ring.lap_is_complete() && ring.elements() == elements);
            let ring = Ring::lay_strided(&mut arena, bytes, stride).unwrap();
            assert!(ring.lap_is_complete() && ring.elements() == elements);
            if let Ok(ring) = Ring::lay_quarters(&mut arena, bytes, stride) {
                assert!(ring.lap_is_complete() && ring.elements() == elements / 4 * 4);
            }
        }
    }

    #[test]
    fn a_walk_follows_the_order_given() {
        let mut arena = arena(4096);
        let address = arena.address();
        let order = [3, 0, 2, 1, 5];
        let mut ring = laid(&mut arena, &order);
        assert!(ring.lap_is_complete());
        for lap in 0..3 {
            for &element in &order {
                assert_eq!(offset(&ring, address), element * 64, "lap {lap}");
                ring.walk(1);
            }
        }
        ring.walk(5 * 1_000 + 3);
        assert_eq!(offset(&ring, address), 64);
    }

    #[test]
    fn quarters_take_turns() {
        let mut arena = arena(4096);
        let address = arena.address();
        let mut ring = Ring::lay_quarters(&mut arena, 9 * 64, 64).unwrap();
        let visited = [(); 9].map(|()| {
            let at = offset(&ring, address) / 64;
            ring.walk(1);
            at
        });
        assert_eq!(visited, [0, 2, 4, 6, 1, 3, 5, 7, 0]);
    }

    #[test]
    fn doubles_make_a_lap_incomplete() {
        let mut arena = arena(4096);
        assert!(!laid(&mut arena, &[0, 1, 0, 2]).lap_is_complete());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut arena = arena(4096);
        let mut below = generator();
        assert!(Ring::lay_strided(&mut arena, 4096, usize::MAX & !7).is_err());
        assert!(Ring::lay_random(&mut arena, 4097, 64, &mut below).is_err());
        assert!(Ring::lay_random(&mut arena, 4096, 0, &mut below).is_err());
        assert!(Ring::lay_random(&mut arena, 4096, 12, &mut below).is_err());
        assert!(Ring::lay_strided(&mut arena, 63, 64).is_err());
        assert!(Ring::lay_quarters(&mut arena, 255, 64).is_err());
    }
}
