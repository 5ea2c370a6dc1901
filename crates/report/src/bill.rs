//! A bill: the first line says where a program's time goes, then a bar, the classes, and how much of it the items explain.

mod diff;
mod prometheus;

pub use diff::{diff, diff_json};
pub use prometheus::prometheus;

use crate::compare::percent;
use crate::document::{self, Part};
use crate::grid::{Align, Grid};
use crate::page::html_file;
use crate::text::shortened;
use crate::timing::{duration, significant_decimals, time};
use costof_model::priced::{Class, Elsewhere, Priced, PricedItem, Saving};
use costof_model::timing::Estimate;
use costof_model::unit::grouped;
use costof_model::{Unit, counted, span};
use maud::{Markup, html};

/// Letters of the program's name in a sentence.
const NAME: usize = 60;
/// So many items are shown without `--all`.
const ITEMS: usize = 6;
/// So many calls without a price are named.
const UNPRICED: usize = 4;
/// The width of the bar in columns.
const BAR: usize = 60;
/// A part is called most of a whole from this share on.
const MOST: f64 = 0.5;
/// Less than this share is not called a rest where it may be nothing.
const CLOSE: f64 = 0.1;
/// Kinds of waiting that are shown.
const WAITS: usize = 3;
/// The size in bytes from which on reads and writes have the price of a file.
const SMALL: f64 = 4096.0;
/// What is less than this share says nothing of interest.
const SLOWED: f64 = 0.05;

/// A part of the time: its name, how long, and how a bar draws it.
struct Slice<'p> {
    name: &'p str,
    ns: f64,
    letter: char,
    class: &'static str,
}

/// The bill on a terminal, in lines of at most this many columns.
pub fn text(bill: &Priced, is_all: bool, columns: usize) -> String {
    document::text(&parts(bill, is_all, columns), columns)
}

/// The bill on a page of its own.
pub fn page(bill: &Priced) -> String {
    let title = format!("What {} pays", shortened(&bill.program, NAME));
    let content = html! {
        main {
            h1 { (title) }
            (document::page(&parts(bill, true, usize::MAX), 1))
        }
    };
    html_file("", &title, &content)
}

fn parts(bill: &Priced, is_all: bool, columns: usize) -> Vec<Part> {
    let mut parts = vec![
        Part::paragraph(answer(bill)),
        Part::Terminal(vec![Part::paragraph(bar(bill))]),
        Part::Drawing(drawn(bill)),
        Part::Table("Where the time goes".to_owned(), classes(bill, columns)),
        Part::paragraph(check(bill)),
    ];
    if !bill.items.is_empty() {
        let title = if is_all { "Items" } else { "Largest items" };
        parts.push(Part::Heading(2, title.to_owned()));
        parts.push(Part::Table(title.to_owned(), items(bill, is_all, columns)));
    }
    parts.push(Part::Heading(2, "What would help".to_owned()));
    let helps: Vec<String> = match &bill.savings[..] {
        [] => vec!["Nothing that costof has a price for would save 2 % of the time.".to_owned()],
        some => some.iter().map(saving).collect(),
    };
    parts.push(Part::List("", helps.into_iter().chain(bill.elsewhere.iter().map(there)).collect()));
    parts.push(Part::Heading(2, "How it was made".to_owned()));
    parts.push(Part::List("quiet", notes(bill)));
    parts
}

/// All that the time consists of, and the whole.
fn time_parts(bill: &Priced) -> (Vec<Slice<'static>>, f64) {
    let part = |name, ns, letter, class| Slice { name, ns, letter, class };
    let kernel = bill.kernel_ns.value;
    let itemised = bill.itemised_ns.value.min(kernel);
    let parts = vec![
        part("kernel, itemised", itemised, '█', "k"),
        part("kernel, not itemised", kernel - itemised, '▒', "n"),
        part("user code", bill.user_ns.value, '░', "u"),
        part("waiting", bill.waiting_ns, '·', "w"),
    ];
    let whole = parts.iter().map(|part| part.ns).sum();
    (parts, whole)
}

/// `the dd spends …`: where most of the time goes.
fn answer(bill: &Priced) -> String {
    let (_, whole) = time_parts(bill);
    let share = |ns: f64| percent(ns / whole.max(f64::MIN_POSITIVE));
    let program = format!("`{}`", shortened(&bill.program, NAME));
    let (kernel, user, waiting) = (bill.kernel_ns.value, bill.user_ns.value, bill.waiting_ns);
    let of = format!("{}{}", if bill.per_second { "each second's " } else { "" }, time(whole));
    if waiting >= kernel.max(user) {
        let what = match bill.waits.first() {
            Some(wait) => format!(", most of it in {}", wait.what),
            None => String::new(),
        };
        return format!("{program} waits for {} of {of}{what}.", share(waiting));
    }
    if user > kernel {
        let kernel = share(kernel);
        return format!(
            "{program} spends {} of {of} in its own code; the kernel takes {kernel}.",
            share(user)
        );
    }
    let first = bill.classes.first();
    let on = match first.filter(|class| class.time_ns.value >= bill.not_itemised_ns()) {
        Some(class) => {
            let most = if class.time_ns.value >= MOST * kernel {
                "most of it on"
            } else {
                "first of all on"
            };
            format!(
                "{most} {}: {} times, {}",
                class.class.name(),
                count(class.count),
                duration(class.time_ns)
            )
        }
        None => format!("most of it where no item has a price{}", unpriced(bill)),
    };
    format!("{program} spends {} of {of} in the kernel, {on}.", share(kernel))
}

/// The bar, and what its letters mean.
fn bar(bill: &Priced) -> String {
    let (parts, whole) = time_parts(bill);
    let columns = |ns: f64| (ns / whole.max(f64::MIN_POSITIVE) * BAR as f64).round() as usize;
    let bar: String =
        parts.iter().map(|part| part.letter.to_string().repeat(columns(part.ns))).collect();
    let legend = parts.iter().filter(|part| part.ns > 0.0);
    let legend: Vec<String> = legend
        .map(|part| format!("{} {} {}", part.letter, part.name, percent(part.ns / whole)))
        .collect();
    format!("{bar}\n{}", legend.join("  "))
}

/// The same on a page: a bar whose parts are as wide as they are long, the kernel's classes each by itself.
fn drawn(bill: &Priced) -> Markup {
    let (parts, whole) = time_parts(bill);
    let itemised = bill.itemised_ns.value;
    // More than the kernel's time does not fit the bar.
    let fits = (bill.kernel_ns.value / itemised.max(f64::MIN_POSITIVE)).min(1.0);
    let classes =
        bill.classes.iter().map(|class| (class.class.name(), class.time_ns.value * fits, "k"));
    let others = parts.iter().skip(1).map(|part| (part.name, part.ns, part.class));
    let all: Vec<_> = classes.chain(others).filter(|(_, ns, _)| *ns > 0.0).collect();
    let width = |ns: f64| format!("width:{:.2}%", 100.0 * ns / whole);
    html! {
        div.bill role="img" aria-label=(format!("Where the time of {} goes", bill.program)) {
            @for (name, ns, class) in &all {
                span.(class) style=(width(*ns)) title=(format!("{name}: {}", time(*ns))) { (name) }
            }
        }
    }
}

fn classes(bill: &Priced, columns: usize) -> Grid {
    let (parts, whole) = time_parts(bill);
    let mut grid = Grid::new([
        ("", Align::Left),
        ("count", Align::Right),
        ("each", Align::Right),
        ("time (95 % interval)", Align::Right),
        ("share", Align::Right),
    ]);
    let share = |ns: f64| percent(ns / whole);
    for class in &bill.classes {
        let (often, each) = match class.class {
            Class::Copies => (bytes(class.bytes), rate(class.bytes, class.time_ns.value)),
            _ => (count(class.count), time(class.time_ns.value / class.count)),
        };
        let took = duration(class.time_ns);
        grid.add([class.class.name().to_owned(), often, each, took, share(class.time_ns.value)]);
    }
    let others = [
        ("kernel, not itemised", Some(parts[1].ns), None),
        ("user code", None, Some(bill.user_ns)),
        ("waiting", Some(parts[3].ns), None),
    ];
    for (name, ns, estimate) in others {
        let ns = ns.or(estimate.map(|it| it.value)).unwrap_or(0.0);
        if ns > 0.0 {
            let shown = estimate.map_or_else(|| time(ns), duration);
            grid.add([name.to_owned(), String::new(), String::new(), shown, share(ns)]);
        }
    }
    grid.fit(columns, &[0, 0, 60, 0, 0], 0);
    grid
}

/// `itemised: 71 % (66–76) of 183 ms of kernel time; not itemised: 53 ms, …`
fn check(bill: &Priced) -> String {
    let kernel = duration(bill.kernel_ns);
    let Some(share) = bill.itemised_share() else {
        return "The kernel's time is too short to be measured.".to_owned();
    };
    let shown = |share: f64| format!("{:.0}", 100.0 * share);
    let range = span(&shown(share.low), "–", &shown(share.high));
    let itemised =
        format!("Itemised: {} % ({range}) of {kernel} of kernel time", shown(share.value));
    // The items' interval, and that of the kernel's time.
    let Estimate { low, high, .. } = bill.kernel_ns;
    match bill.not_itemised_ns() {
        _ if bill.itemised_ns.low > high => format!(
            "{itemised}: more than there was, so a price is too high here, or the counted runs did more."
        ),
        _ if share.value > 1.0 + CLOSE => format!(
            "{itemised}: more than there was, but both are so uncertain that they may be equal."
        ),
        rest if bill.itemised_ns.high >= low && rest < CLOSE * bill.kernel_ns.value => {
            format!("{itemised}: the prices explain it.")
        }
        rest if bill.itemised_ns.high >= low => format!(
            "{itemised}; not itemised: {}, but the kernel's time is so uncertain that it may be nothing{}.",
            time(rest),
            unpriced(bill)
        ),
        rest => format!("{itemised}; not itemised: {}{}.", time(rest), unpriced(bill)),
    }
}

/// The most frequent calls without a price of their own.
fn unpriced(bill: &Priced) -> String {
    let mut calls: Vec<&PricedItem> =
        bill.items.iter().filter(|item| item.class.is_none()).collect();
    calls.sort_by(|one, other| other.count.total_cmp(&one.count));
    let names =
        calls.iter().take(UNPRICED).map(|item| format!("{} ({})", item.name, count(item.count)));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; only their entry has a price: {}", names.join(", ")),
    }
}

fn items(bill: &Priced, is_all: bool, columns: usize) -> Grid {
    let mut grid = Grid::new([
        ("", Align::Left),
        ("count", Align::Right),
        ("failed", Align::Right),
        ("each", Align::Right),
        ("time (95 % interval)", Align::Right),
    ]);
    for item in bill.items.iter().take(if is_all { usize::MAX } else { ITEMS }) {
        let least = if item.class.is_none() { "at least " } else { "" };
        let failed = if item.errors > 0.0 { count(item.errors) } else { String::new() };
        let each = format!("{least}{}", time(item.each_ns.value));
        grid.add([item.name.clone(), count(item.count), failed, each, duration(item.time_ns)]);
    }
    grid.fit(columns, &[0, 0, 80, 0, 0], 0);
    grid
}

/// `io_uring, 32 calls a submission: 41 ms less (38–44) …`
fn saving(saving: &Saving) -> String {
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
fn there(there: &Elsewhere) -> String {
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
    format!(
        "at the prices of {} ({}), what {} of the kernel's time go to takes {} % {word}{range}{parts}",
        there.machine,
        there.from,
        percent(there.share.min(1.0)),
        change(value)
    )
}

fn notes(bill: &Priced) -> Vec<String> {
    let of = if bill.per_second { "stretch" } else { "run" };
    let mut notes = vec![format!(
        "times: {} in which nothing was counted; counts: by {}, in turns with them",
        counted(bill.runs, of),
        bill.counted_by
    )];
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
    notes.extend(bill.queue_ns.filter(|ns| *ns > SLOWED * bill.wall_ns.value).map(|ns| {
        format!("besides, it was ready for {} while other programs had its CPU", time(ns))
    }));
    notes.extend(bill.not_counted.iter().map(|what| format!("not counted: {what}")));
    let predicted: Vec<&str> = bill
        .prices
        .iter()
        .filter(|(_, from)| from.starts_with("predicted"))
        .map(|(point, _)| &**point)
        .collect();
    if !predicted.is_empty() {
        notes.push(format!("prices that are only predicted: {}", predicted.join(", ")));
    }
    let is_small = |item: &PricedItem| {
        let is_of = |call: &str| item.name.starts_with(&format!("{call} of"));
        (is_of("read") || is_of("write")) && item.bytes < SMALL * item.count
    };
    let small: f64 = bill.items.iter().filter(|it| is_small(it)).map(|it| it.time_ns.value).sum();
    if small > SLOWED * bill.kernel_ns.value {
        notes.push(
            "reads and writes below 4 KiB have the price of a device that does nothing; a file, pipe or socket takes longer"
                .to_owned(),
        );
    }
    notes.push(format!("prices of {}", bill.machine));
    notes
}

/// A count: whole, or of a mean that is small, with a digit.
fn count(count: f64) -> String {
    match count {
        count if count < 10.0 && count.fract() > 0.05 => format!("{count:.1}"),
        count => grouped(&format!("{count:.0}")),
    }
}

/// A number of bytes with three digits.
fn bytes(bytes: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(power, _)| bytes >= f64::from(1 << power));
    let (power, unit) = unit.unwrap_or((0, "B"));
    let value = bytes / f64::from(1 << power);
    format!("{value:.digits$} {unit}", digits = significant_decimals(value).min(2))
}

fn rate(bytes: f64, ns: f64) -> String {
    Unit::BytesPerSecond.display(1e9 * bytes / ns.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests;
