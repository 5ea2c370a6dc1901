//! Sets of CPUs and memory nodes, as the kernel writes them.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of CPUs or memory nodes, written as the kernel writes it: `0-3,8`. It takes no more memory than its text:
/// a file may come from anybody.
/// Source: cpuset(7), "List format".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(Vec<(u32, u32)>);

/// The highest number in a list; a larger one is a mistake.
const CPU_LIMIT: u32 = 1 << 16;

impl CpuSet {
    /// Reads the kernel's list format, without strides (`0-6:2/3`). `None` if it is not a list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= CPU_LIMIT {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Self::from_ranges(ranges))
    }

    /// The ranges in ascending order, those that overlap or adjoin as one.
    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let is_joined = next.0 <= before.1.saturating_add(1);
            if is_joined {
                before.1 = before.1.max(next.1);
            }
            is_joined
        });
        Self(ranges)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let lengths = self.0.iter().map(|(first, last)| (last - first) as usize + 1);
        lengths.sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, cpu: u32) -> bool {
        let compare = |(first, last): &(u32, u32)| match cpu {
            cpu if cpu < *first => Ordering::Greater,
            cpu if cpu > *last => Ordering::Less,
            _ => Ordering::Equal,
        };
        self.0.binary_search_by(compare).is_ok()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|(first, _)| *first)
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        *self = Self::from_ranges([&self.0[..], &other.0].concat());
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self::from_ranges(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (first, last) in &self.0 {
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not a list of CPUs such as 0-3,8"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sets_read_and_write_the_kernels_list_format() {
        let set = CpuSet::parse("0-3,8,10-11\n").unwrap();
        assert_eq!(set.len(), 7);
        assert!(set.contains(10) && !set.contains(9));
        assert_eq!(set.to_string(), "0-3,8,10-11");
        let mut joined = CpuSet::from_iter([12, 2, 9, 5, 4]);
        assert_eq!(joined.to_string(), "2,4-5,9,12");
        joined.extend(&set);
        assert_eq!(joined, CpuSet::parse("10-12,3-5,8-9,0-4").unwrap());
        assert_eq!(joined.to_string(), "0-5,8-12");
        assert!([0, 5, 8, 12].iter().all(|cpu| joined.contains(*cpu)) && !joined.contains(7));
        assert_eq!(joined.iter().count(), joined.len());
        assert_eq!(CpuSet::parse(""), Some(CpuSet::default()));
        for wrong in ["a", "3-1", "-", "0-4294967295", "1-2-3", "(null)"] {
            assert_eq!(CpuSet::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn large_sets_take_no_more_than_their_text() {
        let sets: Vec<CpuSet> = (0..100_000).map(|_| CpuSet::parse("0-65535").unwrap()).collect();
        assert!(sets.iter().all(|set| set.len() == 65_536));
    }
}
