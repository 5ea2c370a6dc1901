//! What stands below a bill's tables: what would help, other machines, and how the bill was made.

use super::{bytes, count, duration, percent, time};
use costof_model::priced::{Elsewhere, Priced, Saving};
use costof_model::timing::Estimate;
use costof_model::{counted, span};

/// Kinds of waiting that are shown.
const WAITS: usize = 3;
/// What is less than this share says nothing of interest.
const SLOWED: f64 = 0.05;

/// `io_uring, 32 calls a submission: 41 ms less (38–44) …`
pub(super) fn saving(saving: &Saving) -> String {
    let of = if saving.is_waiting { "waiting" } else { "CPU time" };
    format!(
        "{}: {} less {of}, of {}, if {}",
        saving.what,
        duration(saving.saves_ns),
        saving.of,
        saving.assumes
    )
}

/// `on m7g: the itemised 71 % of the kernel's time take 18 % less (15–21), of which …`
pub(super) fn there(bill: &Priced, there: &Elsewhere) -> String {
    let Estimate { value, low, high } = there.ratio;
    let change = |ratio: f64| format!("{:.0}", 100.0 * (ratio - 1.0).abs());
    let word = if value <= 1.0 { "less" } else { "more" };
    let range = match (low < 1.0) == (high < 1.0) {
        true => {
            let [one, other] = if value <= 1.0 { [high, low] } else { [low, high] };
            format!(" ({})", span(&change(one), "–", &change(other)))
        }
        false => " (may be the same)".to_owned(),
    };
    let whole: f64 = there.less_ns.iter().map(|(_, ns)| ns).sum();
    let parts = there.less_ns.iter().filter(|(_, ns)| ns.abs() >= 0.1 * whole.abs()).take(3);
    let parts: Vec<String> = parts
        .map(|(class, ns)| {
            let word = if *ns < 0.0 { "more" } else { "less" };
            format!("{} {} {word}", class.name(), time(ns.abs()))
        })
        .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let of = match bill.is_divided() {
        true => format!("what {} of the kernel's time go to", percent(there.share.min(1.0))),
        false => "what is itemised".to_owned(),
    };
    format!(
        "at the prices of {} ({}), {of} takes {} % {word}{range}{parts}",
        there.machine,
        there.from,
        change(value)
    )
}

pub(super) fn notes(bill: &Priced) -> Vec<String> {
    let of = if bill.per_second { "stretch" } else { "run" };
    let mut notes = vec![format!(
        "times: {} in which nothing was counted; counts: by {}, in turns with them",
        counted(bill.runs, of),
        bill.counted_by
    )];
    if bill.per_second {
        notes.push(
            "counting slows a process that is always busy, which then did less in the stretches that were counted".to_owned(),
        );
    }
    notes.extend(bill.way_back_ns.map(|each| {
        format!(
            "the way back from a system call, {}, is in the kernel's time, though the kernel counts it as user code",
            duration(each)
        )
    }));
    notes.extend(bill.counting_slowdown.filter(|slowdown| *slowdown > 1.0 + SLOWED).map(
        |slowdown| {
            format!(
                "counting took {} more CPU time in its own runs, and nothing of these times",
                percent(slowdown - 1.0)
            )
        },
    ));
    let waits = bill.waits.iter().take(WAITS);
    let waits: Vec<String> = waits
        .map(|wait| format!("{} {} ({} times)", wait.what, time(wait.waited_ns), count(wait.count)))
        .collect();
    if !waits.is_empty() {
        notes.push(format!(
            "waited in the counted runs, all threads together: {}",
            waits.join(", ")
        ));
    }
    for ((requests, moved), what) in bill.requests.into_iter().zip(["read", "written"]) {
        if requests > 0.0 {
            let requests = count(requests);
            notes.push(format!("requests to block devices: {requests}, {} {what}", bytes(moved)));
        }
    }
    notes.extend(bill.times.queue_ns.filter(|ns| *ns > SLOWED * bill.times.wall_ns.value).map(
        |ns| format!("besides, it was ready for {} while other programs had its CPU", time(ns)),
    ));
    notes.extend(bill.not_counted.iter().map(|what| format!("not counted: {what}")));
    for (start, what) in [
        ("predicted", "prices that are only predicted"),
        ("doubtful", "measured prices that no conclusion should rest on (grade D)"),
    ] {
        let these = bill.prices.iter().filter(|(_, from)| from.starts_with(start));
        let these: Vec<&str> = these.map(|(point, _)| &**point).collect();
        if !these.is_empty() {
            notes.push(format!("{what}: {}", these.join(", ")));
        }
    }
    notes.push(match bill.prices_of == bill.machine {
        true => format!("prices of {}", bill.machine),
        false => format!("prices of {}; it ran on {}", bill.prices_of, bill.machine),
    });
    notes
}
