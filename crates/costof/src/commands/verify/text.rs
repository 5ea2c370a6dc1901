//! The output for comparisons: text for people, JSON for programs.

use costof_model::{CoreState, Unit};
use costof_peers::agreement::Placed;
use costof_peers::tool::Statistic;
use costof_peers::verify::{Outcome, Row, typical_difference};
use costof_report::text::{hanging, wrapped};
use serde_json::json;

/// With fewer comparisons, a typical difference means nothing.
const COMPARISONS: usize = 4;

/// The rows of one check, in lines of at most this many columns.
pub(super) fn of_check(rows: &[Row], columns: usize) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let indent = " ".repeat(13);
    let heading = format!("{} {}: {}", first.probe, first.axes, first.metric);
    let mut text = wrapped(columns, &heading, "");
    for row in rows {
        text.push_str(&hanging(columns, &format!("  {:<10} ", row.tool), &outcome(row)));
        if matches!(row.outcome, Outcome::Compared(..)) {
            let why = format!("why they may differ: {}", row.differs);
            text.push_str(&wrapped(columns, &why, &indent));
            if !row.core.is_empty() {
                text.push_str(&wrapped(columns, &core(row), &indent));
            }
        }
    }
    text.push('\n');
    text
}

/// The state of the core in the tool's rounds.
fn core(row: &Row) -> String {
    let count = |state| row.core.iter().filter(|one| **one == state).count();
    format!(
        "the core was alone before and after {} of {} rounds of {}, and shared in {}",
        count(CoreState::Alone),
        row.core.len(),
        row.tool,
        count(CoreState::Shared),
    )
}

fn outcome(row: &Row) -> String {
    let (agreement, unit) = match &row.outcome {
        Outcome::Compared(agreement, unit) => (agreement, *unit),
        Outcome::Absent(why) => return format!("not compared: {why}"),
        Outcome::Failed(why) => return format!("failed: {}", on_one_line(why)),
    };
    let interval = agreement.interval.map_or_else(
        || "no interval".to_owned(),
        |interval| Unit::One.display_range((interval.low, interval.high)),
    );
    let expected = Unit::One.display_range((row.expected.low, row.expected.high));
    let verdict = match agreement.placed(row.expected) {
        Some(Placed::Inside) => "as expected",
        Some(Placed::Outside) => "not as expected",
        Some(Placed::Across) => "inconclusive (try more --rounds)",
        None => "too few rounds to tell",
    };
    let statistic = match row.statistic {
        Statistic::Median => "medians",
        Statistic::Mean => "means",
    };
    let (own, other) = agreement.medians();
    let own_shown = unit.display(own);
    let other_shown = unit.display(other);
    format!(
        "{:.3} ({interval}), expected {expected}: {verdict}; costof {own_shown}, {} {other_shown} \
         ({statistic})",
        agreement.ratio, row.tool,
    )
}

/// The summary of all rows.
pub(super) fn summary(rows: &[Row], columns: usize) -> String {
    let placed = |row: &Row| match &row.outcome {
        Outcome::Compared(agreement, _) => Some(agreement.placed(row.expected)),
        _ => None,
    };
    let compared: Vec<Option<Placed>> = rows.iter().filter_map(placed).collect();
    let all = compared.len();
    if all == 0 {
        return String::new();
    }
    let count = |placed| compared.iter().filter(|one| **one == Some(placed)).count();
    let (inside, outside) = (count(Placed::Inside), count(Placed::Outside));
    let line = format!(
        "{all} compared: {inside} as expected, {outside} not as expected, {} inconclusive.",
        all - inside - outside,
    );
    let mut text = wrapped(columns, &line, "");
    if let Some(typical) = typical_difference(rows).filter(|_| all >= COMPARISONS) {
        text += &wrapped(
            columns,
            &format!(
                "Half of them differ by {:.1} % or more. Programs that measure the same thing differ by that much; intervals do not show it.",
                100.0 * typical
            ),
            "",
        );
    }
    text
}

/// A row as one line of JSON.
pub(super) fn as_json(row: &Row) -> String {
    let mut json = json!({
        "tool": row.tool,
        "probe": row.probe,
        "axes": row.axes,
        "metric": row.metric,
        "statistic": match row.statistic {
            Statistic::Median => "median",
            Statistic::Mean => "mean",
        },
        "expected": [row.expected.low, row.expected.high],
        "differs": row.differs,
        "core": row.core,
    });
    match &row.outcome {
        Outcome::Compared(agreement, unit) => {
            json["state"] = "compared".into();
            json["unit"] = json!(unit);
            json["costof"] = json!(agreement.one);
            json["other"] = json!(agreement.other);
            json["ratio"] = json!(agreement.ratio);
            json["ci95"] = json!(agreement.interval.map(|interval| [interval.low, interval.high]));
            json["placed"] = json!(agreement.placed(row.expected).map(|placed| match placed {
                Placed::Inside => "inside",
                Placed::Outside => "outside",
                Placed::Across => "across",
            }));
        }
        Outcome::Absent(why) => {
            json["state"] = "absent".into();
            json["reason"] = json!(why);
        }
        Outcome::Failed(why) => {
            json["state"] = "failed".into();
            json["reason"] = json!(why);
        }
    }
    format!("{json}\n")
}

/// A program's output on one line, without characters that control a terminal.
fn on_one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(shown).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::golden;
    use costof_peers::agreement::{Agreement, Band};
    use costof_report::text::COLUMNS;
    use serde_json::Value;

    fn row(outcome: Outcome) -> Row {
        Row {
            probe: "os.syscall",
            axes: "call=getppid".to_owned(),
            metric: "cost",
            tool: "perf",
            statistic: Statistic::Mean,
            expected: Band::new(0.9, 1.1),
            differs: "perf counts otherwise",
            core: Vec::new(),
            outcome,
            by_median: None,
        }
    }

    fn compared(ratio: f64) -> Row {
        let own = vec![100.0 * ratio; 6];
        let agreement = Agreement::new(own, vec![100.0; 6]).unwrap();
        row(Outcome::Compared(agreement, Unit::Nanoseconds))
    }

    #[test]
    fn a_check_says_what_was_found_and_why_it_may_differ() {
        let absent = row(Outcome::Absent("there is no perf here".to_owned()));
        let text = of_check(&[compared(1.02), compared(1.2), absent], usize::MAX);
        golden("costof/verify", "a check", &text);
    }

    #[test]
    fn what_a_tool_printed_moves_no_cursor() {
        let text = of_check(&[row(Outcome::Failed("it said\n\x1b[2Jno".to_owned()))], COLUMNS);
        assert!(text.contains("failed: it said [2Jno\n"), "{text:?}");
    }

    #[test]
    fn all_together_say_what_no_interval_shows() {
        let some = [1.0, 1.05, 1.05, 0.5].map(compared);
        golden("costof/verify", "all together", &summary(&some, COLUMNS));
        let text = summary(&some[..3], COLUMNS);
        assert!(text.starts_with("3 compared") && !text.contains("Half of them"), "{text}");
        assert_eq!(summary(&[], COLUMNS), "");
    }

    #[test]
    fn json_has_a_row_on_a_line_with_all_of_its_numbers() {
        let line: Value = serde_json::from_str(&as_json(&compared(1.2))).unwrap();
        assert_eq!(line["state"], "compared");
        assert_eq!(line["placed"], "outside");
        assert_eq!(line["other"].as_array().unwrap().len(), 6);
        assert_eq!(line["unit"], "ns");
        let failed = as_json(&row(Outcome::Failed("a\nb".to_owned())));
        assert_eq!(failed.matches('\n').count(), 1);
        let failed: Value = serde_json::from_str(&failed).unwrap();
        assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("a\nb")));
    }
}
