//! A drawing of a call on one scale with the costs beneath it.

use costof_findings::ladder::ladders;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

/// How many columns a factor of ten takes.
const DECADE: f64 = 6.0;

/// A drawing for each link, for the payload that was asked for first.
pub(crate) fn drawn(run: &Run) -> String {
    let mut links = Vec::new();
    let mut text = String::new();
    for ladder in ladders(run) {
        if !links.contains(&ladder.link) {
            text += &draw(&ladder.payload, &ladder.rungs);
            links.push(ladder.link);
        }
    }
    text
}

fn draw(of: &str, rungs: &[(String, f64)]) -> String {
    let columns = |name: &str| name.chars().count();
    let names = rungs.iter().map(|(name, _)| columns(name));
    let width = names.max().unwrap_or(0);
    let lines = rungs.iter().map(|(name, ns)| {
        let space = " ".repeat(width - columns(name));
        format!("  {name}{space} {:>8} {}\n", Unit::Nanoseconds.display(*ns), bar(*ns))
    });
    format!(
        "A call with {}; {DECADE} more columns mean ten times as long\n{}",
        of,
        lines.collect::<String>()
    )
}

/// A bar that starts at 1 ns.
fn bar(ns: f64) -> String {
    let columns = (ns.max(1.0).log10() * DECADE).round();
    "█".repeat(columns as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_long_is_six_columns_more() {
        let columns = |ns| bar(ns).chars().count();
        assert_eq!([0.2, 1.0, 10.0, 1000.0, 1e6].map(columns), [0, 0, 6, 18, 36]);
    }

    #[test]
    fn rungs_stand_in_columns() {
        let rungs =
            [("memcpy of 64B", 10.0), ("TCP", 9000.0)].map(|(name, ns)| (name.to_owned(), ns));
        assert_eq!(
            draw("string64 over loopback", &rungs),
            "A call with string64 over loopback; 6 more columns mean ten times as long\n\
             \x20 memcpy of 64B  10.0 ns ██████\n\
             \x20 TCP            9.00 µs ████████████████████████\n"
        );
    }
}
