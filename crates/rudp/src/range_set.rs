//! A set of numbers that is stored as ranges: received packet numbers, received bytes of a message,
//! complete messages.

use std::ops::Range;

/// Numbers, as ranges that neither overlap nor touch, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    pub(crate) const fn new() -> RangeSet {
        RangeSet(Vec::new())
    }

    /// The number of ranges, which determines the cost.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> + ExactSizeIterator {
        self.0.iter()
    }

    pub(crate) fn last(&self) -> Option<&Range<u64>> {
        self.0.last()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.contains_range(&(number..number + 1))
    }

    /// Whether all of these are in the set.
    pub(crate) fn contains_range(&self, these: &Range<u64>) -> bool {
        if these.is_empty() {
            return true;
        }
        let at = self.first_that_ends_after(these.start);
        let found = self.0.get(at);
        found.is_some_and(|range| range.start <= these.start && these.end <= range.end)
    }

    /// The first range that contains this number or a higher one. Most look-ups are near the end,
    /// so the search begins there.
    fn first_that_ends_after(&self, number: u64) -> usize {
        let last = self.0.len().saturating_sub(1);
        match self.0.last() {
            Some(range) if range.end <= number => last + 1,
            Some(range) if range.start <= number => last,
            _ => self.0.partition_point(|range| range.end <= number),
        }
    }

    /// Adds these numbers. Returns how many of them are new.
    pub(crate) fn insert(&mut self, these: Range<u64>) -> u64 {
        if these.is_empty() {
            return 0;
        }
        // Most ranges follow the one inserted last.
        if let Some(last) = self.0.last_mut()
            && last.end == these.start
        {
            last.end = these.end;
            return these.end - these.start;
        }
        // Merges those that overlap or touch.
        let first = match these.start.checked_sub(1) {
            Some(before) => self.first_that_ends_after(before),
            None => 0,
        };
        let mut all = these.clone();
        let mut known = 0;
        let mut end = first;
        while let Some(range) = self.0.get(end).filter(|range| range.start <= these.end) {
            let both = range.start.max(these.start)..range.end.min(these.end);
            known += both.end.saturating_sub(both.start);
            all = all.start.min(range.start)..all.end.max(range.end);
            end += 1;
        }
        match end - first {
            0 => self.0.insert(first, all),
            1 => self.0[first] = all,
            _ => {
                self.0[first] = all;
                self.0.drain(first + 1..end);
            }
        }
        these.end - these.start - known
    }

    /// Removes the numbers below this one.
    pub(crate) fn remove_below(&mut self, number: u64) {
        if self.0.first().is_some_and(|first| first.end <= number) {
            let below = self.0.partition_point(|range| range.end <= number);
            self.0.drain(..below);
        }
        if let Some(first) = self.0.first_mut() {
            first.start = first.start.max(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_numbers_holds(
            inserts in prop::collection::vec((0..200_u64, 0..12_u64), 0..60),
            below in 0..200_u64,
        ) {
            let mut ranges = RangeSet::new();
            let mut set = BTreeSet::new();
            for (start, count) in inserts {
                let new = (start..start + count).filter(|number| set.insert(*number)).count();
                prop_assert_eq!(ranges.insert(start..start + count), new as u64);
            }
            ranges.remove_below(below);
            set.retain(|number| *number >= below);
            let all: Vec<u64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(all, set.iter().copied().collect::<Vec<_>>());
            for pair in ranges.0.windows(2) {
                prop_assert!(pair[0].end < pair[1].start, "they touch");
            }
            for number in 0..220 {
                prop_assert_eq!(ranges.contains(number), set.contains(&number));
                let both = set.contains(&number) && set.contains(&(number + 1));
                prop_assert_eq!(ranges.contains_range(&(number..number + 2)), both);
            }
            prop_assert_eq!(ranges.is_empty(), set.is_empty());
        }
    }
}
