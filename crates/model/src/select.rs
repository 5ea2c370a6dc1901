//! Selects the rows of a run: by probe, by values on axes, by link and by grade.

use crate::noise::MEASURED;
use crate::{AxisValue, Facts, Grade, Point, PointRow, Run};
use std::collections::HashMap;
use std::ops::Deref;

/// Warnings that other threads took the CPU from a thread that was ready to run.
const CONTENTION: [&str; 4] = ["others", "run_queue_wait", "steal", "throttled"];

/// Rows of a run, in their order.
#[derive(Clone, Debug, Default)]
pub struct Select<'r>(Vec<&'r PointRow>);

/// Rows that differ only in some axes.
#[derive(Clone, Debug)]
pub struct Group<'r> {
    /// What they have in common: the point without those axes.
    pub common: Point,
    /// The rows.
    pub rows: Select<'r>,
}

/// A value that an axis must have.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// This number.
    Number(u64),
    /// This word.
    Word(&'a str),
}

impl Run {
    /// The rows of a probe that conclusions may use; see [`PointRow::is_sound`].
    pub fn select(&self, probe: &str) -> Select<'_> {
        self.select_all().filter(|row| row.point.probe == probe)
    }

    /// All rows of a probe, disturbed or not: for statements about the disturbance.
    pub fn select_any(&self, probe: &str) -> Select<'_> {
        let rows = self.points.iter();
        rows.filter(|row| row.point.probe == probe).collect()
    }

    /// All rows that conclusions may use.
    pub fn select_all(&self) -> Select<'_> {
        let rows = self.points.iter();
        rows.filter(|row| row.is_sound()).collect()
    }

    /// The facts of the machine of the last attempt.
    pub fn facts(&self) -> Option<&Facts> {
        let hosts = &self.attempts.last()?.hosts;
        hosts.get(MEASURED).or_else(|| hosts.values().next())
    }

    /// The name of that machine, or else that of the run.
    pub fn host_name(&self) -> String {
        let name = self.facts().and_then(|facts| facts.host_name.clone());
        name.unwrap_or_else(|| format!("run {}", self.run.id))
    }

    /// Whether that machine is known to be a virtual machine.
    pub fn is_virtual(&self) -> bool {
        self.facts().is_some_and(|facts| facts.virtualization.virtual_machine == Some(true))
    }
}

impl<'r> Select<'r> {
    /// The rows with this value on the axis.
    #[must_use]
    pub fn with_value<'a>(self, axis: &str, value: impl Into<Wanted<'a>>) -> Self {
        let value = value.into();
        self.filter(|row| row.is_at(axis, value))
    }

    /// The rows with all these words on their axes.
    #[must_use]
    pub fn words(self, words: &[(&str, &str)]) -> Self {
        self.filter(|row| words.iter().all(|(axis, word)| row.is_at(axis, *word)))
    }

    /// The rows over this link.
    #[must_use]
    pub fn over(self, link: &str) -> Self {
        self.filter(|row| row.point.link == link)
    }

    /// The rows for which the predicate holds.
    #[must_use]
    pub fn filter(mut self, holds: impl Fn(&PointRow) -> bool) -> Self {
        self.0.retain(|row| holds(row));
        self
    }

    /// The first row.
    pub fn one(&self) -> Option<&'r PointRow> {
        self.0.first().copied()
    }

    /// The rows with a number on the axis, in ascending order of that number.
    pub fn by_number(self, axis: &str) -> Vec<(u64, &'r PointRow)> {
        let numbered = |row: &'r PointRow| Some((row.number(axis)?, row));
        let mut rows: Vec<_> = self.0.into_iter().filter_map(numbered).collect();
        rows.sort_by_key(|(number, _)| *number);
        rows
    }

    /// Groups the rows that differ only in these axes, in the order of the first row of each group.
    pub fn group_by(self, axes: &[&str]) -> Vec<Group<'r>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut known: HashMap<Point, usize> = HashMap::new();
        for row in self.0 {
            let common = row.point.without(axes);
            let at = *known.entry(common).or_insert_with_key(|common| {
                groups.push(Group { common: common.clone(), rows: Select::default() });
                groups.len() - 1
            });
            groups[at].rows.0.push(row);
        }
        groups
    }

    /// Groups the rows by a key, in the order of the first row of each group.
    pub fn group_with<K: PartialEq>(
        self,
        key: impl Fn(&'r PointRow) -> Option<K>,
    ) -> Vec<(K, Select<'r>)> {
        let mut groups: Vec<(K, Select<'_>)> = Vec::new();
        for row in self.0 {
            let Some(key) = key(row) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, rows)) => rows.0.push(row),
                None => groups.push((key, Select(vec![row]))),
            }
        }
        groups
    }
}

impl<'r> Deref for Select<'r> {
    type Target = [&'r PointRow];

    fn deref(&self) -> &[&'r PointRow] {
        &self.0
    }
}

impl<'r> IntoIterator for Select<'r> {
    type Item = &'r PointRow;
    type IntoIter = std::vec::IntoIter<&'r PointRow>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'r> FromIterator<&'r PointRow> for Select<'r> {
    fn from_iter<I: IntoIterator<Item = &'r PointRow>>(rows: I) -> Self {
        Select(rows.into_iter().collect())
    }
}

impl PointRow {
    /// The word on an axis.
    pub fn word(&self, axis: &str) -> Option<&str> {
        self.point.axes.find_word(axis)
    }

    /// The number on an axis.
    pub fn number(&self, axis: &str) -> Option<u64> {
        self.point.axes.find_number(axis)
    }

    /// Whether an axis has this value.
    pub fn is_at<'a>(&self, axis: &str, value: impl Into<Wanted<'a>>) -> bool {
        match (value.into(), self.point.axes.0.get(axis)) {
            (Wanted::Number(wanted), Some(AxisValue::Number(number))) => wanted == *number,
            (Wanted::Word(wanted), Some(AxisValue::Word(word))) => wanted == word,
            _ => false,
        }
    }

    /// The 95 % interval of a metric, if it is usable.
    pub fn interval(&self, metric: &str) -> Option<(f64, f64)> {
        self.estimate(metric)?.usable_interval()
    }

    /// Whether its threads could certainly run whenever they were ready.
    pub fn has_its_cpus(&self) -> bool {
        let mut warnings = self.warnings.iter();
        !warnings.any(|warning| CONTENTION.contains(&&*warning.kind) && warning.grade > Grade::B)
    }
}

impl Point {
    /// The same point without these axes.
    #[must_use]
    pub fn without(&self, axes: &[&str]) -> Point {
        let mut point = self.clone();
        point.axes.0.retain(|name, _| !axes.contains(&&**name));
        point
    }
}

impl<'a> From<&'a str> for Wanted<'a> {
    fn from(word: &'a str) -> Self {
        Wanted::Word(word)
    }
}

impl From<u64> for Wanted<'_> {
    fn from(number: u64) -> Self {
        Wanted::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axes;
    use crate::testing::{RowExt, row, run};

    #[test]
    fn sound_rows_are_selected_by_probe_axes_and_link() {
        let at = |how, size| Axes::default().with("how", how).with("size", size);
        let mut run = run(&[]);
        run.points = vec![
            row("p", at("fork", 8), 1.0),
            row("p", at("fork", 4), 2.0).over("veth"),
            row("p", at("spawn", 4), 3.0),
            row("p", at("spawn", 4), 3.0).warned("steal", Grade::D),
            row("q", at("fork", 4), 4.0),
        ];
        let forks = run.select("p").with_value("how", "fork");
        assert_eq!(forks.len(), 2);
        let sizes: Vec<u64> = forks.by_number("size").iter().map(|(n, _)| *n).collect();
        assert_eq!(sizes, [4, 8]);
        let over = |link| run.select("p").over(link).one().and_then(|row| row.median("cost"));
        assert_eq!((over("veth"), over("lan")), (Some(2.0), None));
        assert_eq!(run.select("p").with_value("size", 4).len(), 2);
        assert_eq!(run.select("p").words(&[("how", "spawn")]).len(), 1);
        let groups = run.select("p").group_by(&["size"]);
        let sizes: Vec<usize> = groups.iter().map(|group| group.rows.len()).collect();
        assert_eq!(sizes, [1, 1, 1]);
        let groups = run.select_all().group_by(&["size", "how"]);
        assert_eq!(groups.len(), 3);
        assert!(groups[0].common.axes.0.is_empty());
    }
}
