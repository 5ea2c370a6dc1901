//! The text of `costof place`: in one line how the host lies among the machines of its class, then the rows that lie outside.

use crate::document::{self, Part};
use crate::fleet::signed;
use crate::grid::{Align, Grid};
use crate::text::shortened;
use costof_model::counted;
use costof_model::placed::{Placed, PlacedRow};

/// Of too few machines, so many rows are shown.
const DIFFERENT: usize = 4;
/// The longest name of a row or a fact that is shown whole.
const NAME: usize = 100;
/// A terminal of so many columns has room for the interval.
const WIDE: usize = 100;

/// Where a host lies, in lines of at most this many columns: with the rows that lie outside or, of too few machines,
/// those that differ most; or with all.
pub fn text(placed: &Placed, is_all: bool, columns: usize) -> String {
    let is_decided = is_decided(placed);
    let is_shown =
        |(at, row): &(usize, &PlacedRow)| is_all || row.outside || (!is_decided && *at < DIFFERENT);
    let rows: Vec<_> = placed.rows.iter().enumerate().filter(is_shown).collect();
    let mut parts = vec![Part::paragraph(answer(placed))];
    if !rows.is_empty() {
        let rows = rows.into_iter().map(|(_, row)| row);
        parts.push(Part::Table(String::new(), table(rows, columns)));
    }
    let left_out = format!(
        "{} not placed: without a number of grade A to C and its interval, or unknown to these machines.",
        counted(placed.not_placed, "row")
    );
    let last = [
        (placed.not_placed > 0).then_some(&*left_out),
        is_decided.then_some("Of rows called outside, at most 5 % are not, in the long run."),
        (!is_all).then_some("--all shows each row and its position."),
    ];
    parts.push(Part::paragraph(last.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    document::text(&parts, columns)
}

/// Whether there are enough machines to say what is usual.
fn is_decided(placed: &Placed) -> bool {
    placed.rows.iter().any(|row| row.p.is_some())
}

fn answer(placed: &Placed) -> String {
    let outside = placed.rows.iter().filter(|row| row.outside).count();
    let (rows, machines) = (counted(placed.rows.len(), "row"), class(placed));
    match outside {
        _ if !is_decided(placed) => {
            format!("Too few machines to say what is usual: {machines}. Most different of {rows}:")
        }
        0 => format!("Like {machines}, in all {rows}"),
        some => format!("Like {machines}, but for {some} of {rows}:"),
    }
}

/// The machines of the class and what they have in common: `the 12 machines with this CPU, kernel 6.18, hypervisor KVM`.
fn class(placed: &Placed) -> String {
    let facts = placed.class.iter().map(|(what, value)| match &**what {
        "processor" => format!("this CPU ({value})"),
        _ => format!("{what} {value}"),
    });
    let facts: Vec<String> = facts.map(|fact| shortened(&fact, NAME)).collect();
    format!("the {} with {}", counted(placed.machines, "machine"), facts.join(", "))
}

/// `11 of 12 (9 to 12)`: how many machines are better.
fn position(row: &PlacedRow) -> String {
    let count = |share: f64| format!("{:.0}", share * row.machines as f64);
    let (low, high) = row.position_ci95;
    let (low, high) = (count(low), count(high));
    let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
    format!("{} of {}{range}", count(row.position), row.machines)
}

fn table<'p>(rows: impl Iterator<Item = &'p PlacedRow>, columns: usize) -> Grid {
    let mut grid = Grid::new([
        ("row", Align::Left),
        ("here", Align::Right),
        ("95 % interval", Align::Right),
        ("others", Align::Right),
        ("change", Align::Right),
        ("worse than", Align::Right),
    ]);
    for row in rows {
        let [here, usual] = [row.here, row.usual].map(|value| row.of.unit.display(value));
        let interval = row.of.unit.display_interval(row.here_ci95);
        let name = shortened(&row.of.name(), NAME);
        grid.add([name, here, interval, usual, signed(row.worse), position(row)]);
    }
    grid.fit(columns, &[0, 0, WIDE, 0, 0, 0], 0);
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::MetricOfPoint;
    use costof_model::testing::sized_row;

    fn row(size: u64, worse: f64, p: Option<f64>) -> PlacedRow {
        let row = sized_row("memory.x", size, 100.0 * (1.0 + worse));
        PlacedRow {
            of: MetricOfPoint::new(&row, &row.metrics[0]),
            here: 100.0 * (1.0 + worse),
            here_ci95: (90.0, 130.0),
            usual: 100.0,
            worse,
            machines: 12,
            position: 0.9,
            position_ci95: (0.75, 1.0),
            p,
            outside: p.is_some_and(|p| p < 0.01),
        }
    }

    #[test]
    fn the_first_line_answers_and_the_rows_outside_follow() {
        let fact = |what: &str, value: &str| (what.to_owned(), value.to_owned());
        let mut placed = Placed {
            class: vec![fact("processor", "a CPU"), fact("kernel", "6.18")],
            machines: 12,
            rows: vec![row(1, 0.2, Some(0.001)), row(2, 0.01, Some(0.5))],
            not_placed: 3,
        };
        let shown = text(&placed, false, 200);
        let first = shown.lines().next().unwrap();
        assert_eq!(
            first,
            "Like the 12 machines with this CPU (a CPU), kernel 6.18, but for 1 of 2 rows:"
        );
        for part in ["120 ns", "100 ns", "20 % worse", "11 of 12 (9 to 12)"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(shown.contains("size=1") && !shown.contains("size=2"), "{shown}");
        assert!(shown.contains("3 rows not placed"), "{shown}");
        assert!(text(&placed, true, 200).contains("size=2"));
        placed.rows[0].outside = false;
        assert!(
            text(&placed, false, 200).starts_with(
                "Like the 12 machines with this CPU (a CPU), kernel 6.18, in all 2 rows"
            )
        );
        // Few machines.
        for row in &mut placed.rows {
            row.p = None;
        }
        let shown = text(&placed, false, 200);
        assert!(shown.starts_with("Too few machines"), "{shown}");
        assert!(shown.contains("size=1") && shown.contains("size=2"), "{shown}");
        assert!(!shown.contains("long run"), "{shown}");
    }
}
