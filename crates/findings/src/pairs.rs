//! Operations on rows that many finders share: pair rows that differ in only one axis, take the first and the
//! last row of a sweep, and compare intervals.

use costof_model::select::Wanted;
use costof_model::{PointRow, Run, Select};

/// A row, and the row that it is compared with.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'r> {
    /// The number that both have on one axis, such as the size.
    pub(crate) number: u64,
    pub(crate) row: &'r PointRow,
    pub(crate) other: &'r PointRow,
}

/// For each number on the axis `by`, in ascending order: the row with the first value on `axis`, and the
/// first row with the other value. Numbers that lack one of them are left out.
pub(crate) fn pairs<'r, 'w>(
    rows: &Select<'r>,
    by: &str,
    axis: &str,
    (value, other): (impl Into<Wanted<'w>>, impl Into<Wanted<'w>>),
) -> Vec<Pair<'r>> {
    let others = rows.clone().with_value(axis, other).by_number(by);
    let rows = rows.clone().with_value(axis, value).by_number(by).into_iter();
    let pairs = rows.filter_map(|(number, row)| {
        // The rows with this number; if there are several, the first counts.
        let at = others.partition_point(|(known, _)| *known < number);
        let (_, other) = *others.get(at).filter(|(known, _)| *known == number)?;
        Some(Pair { number, row, other })
    });
    pairs.collect()
}

/// The rows of these pairs.
pub(crate) fn rows<'r>(pairs: &[Pair<'r>]) -> Vec<&'r PointRow> {
    let rows = pairs.iter().flat_map(|pair| [pair.row, pair.other]);
    rows.collect()
}

/// The first and the last item; one item if there is only one.
pub(crate) fn ends<T>(mut all: Vec<T>) -> Vec<T> {
    if all.len() > 2 {
        all.drain(1..all.len() - 1);
    }
    all
}

/// The row that differs from this one only in these words, disturbed or not: for comparisons of what took turns.
pub(crate) fn any_same_but<'r>(
    run: &'r Run,
    row: &PointRow,
    words: &[(&'static str, &'static str)],
) -> Option<&'r PointRow> {
    let mut point = row.point.clone();
    for (axis, word) in words {
        point.axes = point.axes.with(axis, *word);
    }
    run.points.iter().find(|other| other.point == point)
}

/// How much more one row is than another, at least and at most; none if their intervals overlap.
pub(crate) fn surely_more(
    (low, high): (f64, f64),
    (other_low, other_high): (f64, f64),
) -> Option<(f64, f64)> {
    (low > other_high).then_some((low - other_high, high - other_low))
}

/// The size of a page of the machine; 4 KiB if it is unknown.
pub(crate) fn page_bytes(run: &Run) -> u64 {
    let page = run.facts().and_then(|facts| facts.memory.page_bytes);
    page.filter(|bytes| *bytes > 0).unwrap_or(4096)
}

/// The row with the largest number; if there are several, the last.
pub(crate) fn greatest<'r>(
    rows: impl IntoIterator<Item = &'r PointRow>,
    number: impl Fn(&PointRow) -> f64,
) -> Option<&'r PointRow> {
    let rows = rows.into_iter();
    rows.max_by(|one, other| number(one).total_cmp(&number(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::run;

    /// As a file that somebody broke may say.
    #[test]
    fn a_page_of_no_bytes_is_an_unknown_page() {
        let mut run = run(&[]);
        for (bytes, page) in [(Some(65_536), 65_536), (Some(0), 4096), (None, 4096)] {
            let facts = run.attempts[0].hosts.values_mut().next();
            facts.unwrap().memory.page_bytes = bytes;
            assert_eq!(page_bytes(&run), page);
        }
    }
}
