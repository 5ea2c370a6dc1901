//! Two bills of one program: which counts changed, and what that explains of the change in time.

use super::{count, time};
use crate::document::{self, Part};
use crate::grid::Grid;
use costof_model::priced::{Priced, PricedItem};
use costof_model::timing::Estimate;
use serde::Serialize;

/// Items that change less than this share of all changes are left out.
const MATTERS: f64 = 0.02;
/// At most this many items are shown.
const ITEMS: usize = 10;

/// What changed from one bill to the other.
#[derive(Debug, PartialEq, Serialize)]
struct Difference {
    before: String,
    after: String,
    /// Why they cannot be compared as they stand.
    notes: Vec<String>,
    /// Of the CPU time in the kernel, in user code, and of the time from start to end.
    kernel_ns: Estimate,
    user_ns: Estimate,
    wall_ns: Estimate,
    /// What changed counts explain of the kernel's.
    explained_ns: Estimate,
    items: Vec<Changed>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Changed {
    name: String,
    before: f64,
    after: f64,
    change_ns: Estimate,
}

/// What changed, the answer first, in lines of at most this many columns.
pub fn diff(before: &Priced, after: &Priced, columns: usize) -> String {
    let difference = Difference::new(before, after);
    let mut parts = vec![Part::paragraph(difference.answer())];
    if !difference.items.is_empty() {
        parts.push(Part::Table(String::new(), difference.grid(columns)));
    }
    parts.push(Part::paragraph(difference.rest()));
    parts.extend(difference.notes.into_iter().map(Part::paragraph));
    document::text(&parts, columns)
}

/// The same as JSON.
pub fn diff_json(before: &Priced, after: &Priced) -> serde_json::Value {
    serde_json::to_value(Difference::new(before, after)).expect("numbers and names")
}

impl Difference {
    fn new(before: &Priced, after: &Priced) -> Difference {
        let both = [before, after];
        let mut keys: Vec<_> =
            both.iter().flat_map(|bill| &bill.items).map(|item| &item.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut items: Vec<Changed> =
            keys.into_iter().filter_map(|key| Changed::new(key, before, after)).collect();
        items.sort_by(|one, other| {
            other.change_ns.value.abs().total_cmp(&one.change_ns.value.abs())
        });
        let sum = items.iter().map(|item| item.change_ns).fold(Estimate::exact(0.0), add);
        let least = MATTERS * items.iter().map(|item| item.change_ns.value.abs()).sum::<f64>();
        items.retain(|item| item.change_ns.value.abs() > least);
        items.truncate(ITEMS);
        Difference {
            before: before.program.clone(),
            after: after.program.clone(),
            notes: notes(before, after),
            kernel_ns: minus(after.times.kernel_ns, before.times.kernel_ns),
            user_ns: minus(after.times.user_ns, before.times.user_ns),
            wall_ns: minus(after.times.wall_ns, before.times.wall_ns),
            explained_ns: sum,
            items,
        }
    }

    fn answer(&self) -> String {
        let kernel = match changed(self.kernel_ns) {
            Some(change) => format!("The kernel's time is {change}"),
            None => "The kernel's time did not change significantly".to_owned(),
        };
        let user = match changed(self.user_ns) {
            Some(change) => format!("user code is {change}"),
            None => "user code is as long".to_owned(),
        };
        let why = match self.items.first() {
            Some(item) => format!(
                ": {}, {} → {} times, explains {}",
                item.name,
                count(item.before),
                count(item.after),
                signed(item.change_ns.value)
            ),
            None => ", and no count changed that has a price".to_owned(),
        };
        format!("{kernel}, {user}{why}.")
    }

    fn rest(&self) -> String {
        let explained = shown(self.explained_ns);
        let kernel = shown(self.kernel_ns);
        let rest = minus(self.kernel_ns, self.explained_ns);
        let rest = match rest.low <= 0.0 && rest.high >= 0.0 {
            true => "nothing that is certain remains".to_owned(),
            false => format!("{} remain", signed(rest.value)),
        };
        format!("Counts explain {explained} of {kernel} in the kernel: {rest}.")
    }

    fn grid(&self, columns: usize) -> Grid {
        let mut grid = Grid::of_numbers(["before", "after", "time"]);
        for item in &self.items {
            let [before, after] = [item.before, item.after].map(count);
            grid.add([item.name.clone(), before, after, shown(item.change_ns)]);
        }
        grid.fit(columns, &[0, 0, 0, 0], 0);
        grid
    }
}

impl Changed {
    /// The change of an item; `None` if its count is the same.
    fn new(key: &(String, Option<u8>), before: &Priced, after: &Priced) -> Option<Changed> {
        let find = |bill: &Priced| -> Option<PricedItem> {
            bill.items.iter().find(|item| item.key == *key).cloned()
        };
        let (before, after) = (find(before), find(after));
        // One price for both, so that only counts differ.
        let known = after.as_ref().or(before.as_ref())?;
        let (name, price) = (known.name.clone(), known.each_ns);
        let [before, after] = [before, after].map(|item| item.map_or(0.0, |item| item.count));
        let more = after - before;
        let change_ns = match more < 0.0 {
            false => price.times(more),
            true => {
                let Estimate { value, low, high } = price.times(-more);
                Estimate { value: -value, low: -high, high: -low }
            }
        };
        (more.abs() >= 0.5).then_some(Changed { name, before, after, change_ns })
    }
}

/// What makes two bills unlike.
fn notes(before: &Priced, after: &Priced) -> Vec<String> {
    let mut notes = Vec::new();
    if !(before.times.is_divided && after.times.is_divided) {
        notes.push(
            "At least one was too short to divide between kernel and user code, so how each changed is less certain: `--budget 20s`."
                .to_owned(),
        );
    }
    if before.machine != after.machine {
        notes.push(format!(
            "They ran on two machines ({} and {}): the times differ by that too; the counts may be compared.",
            before.machine, after.machine
        ));
    }
    notes
}

/// A difference of two times that were measured by themselves.
fn minus(one: Estimate, other: Estimate) -> Estimate {
    let value = one.value - other.value;
    let down = (one.value - one.low).hypot(other.high - other.value);
    let up = (one.high - one.value).hypot(other.value - other.low);
    Estimate { value, low: value - down, high: value + up }
}

/// A sum of prices, which rows they share: all at their ends at once.
fn add(one: Estimate, other: Estimate) -> Estimate {
    Estimate {
        value: one.value + other.value,
        low: one.low + other.low,
        high: one.high + other.high,
    }
}

/// `12.3 ms longer`; `None` if it may be nothing.
fn changed(by: Estimate) -> Option<String> {
    let word = if by.value < 0.0 { "shorter" } else { "longer" };
    (by.low > 0.0 || by.high < 0.0).then(|| format!("{} {word}", time(by.value.abs())))
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", time(ns.abs()))
}

fn shown(estimate: Estimate) -> String {
    let Estimate { value, low, high } = estimate;
    format!("{} ({} to {})", signed(value), signed(low), signed(high))
}
