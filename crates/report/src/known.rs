//! The numbers that an engineer uses most, from the clock to a remote procedure call. `costof run --quick`
//! measures them in seconds, and a page begins with the first of them.

use crate::tables::TABLES;
use costof_model::PointRow;

/// Each probe with the label of a headline, from `tables.toml`.
pub fn rows() -> &'static [(&'static str, &'static str)] {
    &TABLES.rows
}

/// The page's first screen shows this many.
const FIRST: usize = 12;

/// The probes whose labels end with the disk's name or with what is sent.
const PREFIXES: [&str; 3] = ["net.bandwidth", "file.read", "file.sync"];

/// Probes whose headlines are of interest to those who ask for their layer: `costof run rudp`, `rpc` or `copy` has
/// them, and the table of the machine does not.
const OF_LAYERS: [&str; 5] =
    ["rudp.stages", "rudp.loss", "rpc.first_call", "rpc.load", "copy.parts"];
/// What names such headlines of other probes.
const OF_LAYERS_BY_LABEL: [&str; 3] =
    ["reliable datagram", "counter in memory", "procedure call: 4 structures"];

/// Whether the table of a machine has the headline with this label.
pub fn is_of_machine(probe: &str, label: &str) -> bool {
    !OF_LAYERS.contains(&probe) && !OF_LAYERS_BY_LABEL.iter().any(|name| label.contains(name))
}

/// Whether the headline with this label is one of these numbers.
pub fn has(probe: &str, label: &str) -> bool {
    position(rows(), probe, label).is_some()
}

/// Whether a page begins with this row.
pub(crate) fn is_first(row: &PointRow) -> bool {
    first(row).is_some()
}

/// The position of this row among those with which a page begins.
fn first(row: &PointRow) -> Option<usize> {
    let label = row.label.as_ref().filter(|_| row.headline)?;
    position(&rows()[..FIRST], &row.point.probe, label)
}

/// The best-known numbers first and the rest as they were, in the table of a machine, which has most of them.
pub(crate) fn in_order(rows: &mut [&PointRow]) {
    if rows.iter().filter(|row| is_first(row)).count() > FIRST / 2 {
        rows.sort_by_key(|row| first(row).unwrap_or(FIRST));
    }
}

fn position(rows: &[(&str, &str)], probe: &str, label: &str) -> Option<usize> {
    let is_it = |row: &str| label == row || PREFIXES.contains(&probe) && label.starts_with(row);
    rows.iter().position(|(own, row)| *own == probe && is_it(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::row;

    #[test]
    fn the_table_of_a_machine_begins_with_what_everybody_knows() {
        let labelled = |(probe, label): (&'static str, &'static str)| {
            let row = row(probe, Default::default(), 1.0);
            PointRow { label: Some(label.into()), headline: true, ..row }
        };
        let mut all: Vec<PointRow> = super::rows().iter().copied().map(labelled).collect();
        all.reverse();
        let labels =
            |rows: &[&PointRow]| rows.iter().map(|row| row.label.clone()).collect::<Vec<_>>();
        let mut rows: Vec<&PointRow> = all.iter().collect();
        in_order(&mut rows);
        let expected: Vec<_> =
            super::rows()[..FIRST].iter().map(|(_, label)| Some((*label).into())).collect();
        assert_eq!(labels(&rows)[..FIRST], expected);
        // The rest stays as it was.
        assert_eq!(
            labels(&rows)[FIRST..],
            labels(&all.iter().collect::<Vec<_>>())[..super::rows().len() - FIRST]
        );
        let mut few: Vec<&PointRow> = all[super::rows().len() - 2..].iter().collect();
        in_order(&mut few);
        assert_eq!(
            labels(&few),
            labels(&all[super::rows().len() - 2..].iter().collect::<Vec<_>>())
        );
    }

    #[test]
    fn what_belongs_to_a_layer_is_not_in_the_table_of_a_machine() {
        assert!(!is_of_machine("rudp.loss", "rudp: ten messages"));
        for (probe, label) in [
            ("net.rtt", "round trip: reliable datagram on loopback"),
            ("cpu.loop", "loop iteration: counter in memory"),
        ] {
            assert!(!is_of_machine(probe, label), "{label}");
        }
        assert!(rows().iter().all(|(probe, label)| is_of_machine(probe, label)));
    }
}
