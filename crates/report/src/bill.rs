//! A bill: the first line says where a program's time goes, then a bar, the classes, and how much of it the items explain.

mod diff;
mod notes;
mod prometheus;

pub use diff::{diff, diff_json};
pub use prometheus::prometheus;

use crate::compare::percent;
use crate::document::{self, Part};
use crate::grid::Grid;
use crate::page::html_file;
use crate::text::shortened;
use crate::timing::{duration, significant_decimals, time};
use costof_model::priced::{Class, Priced, PricedItem};
use costof_model::timing::Estimate;
use costof_model::unit::grouped;
use costof_model::{Unit, span};
use maud::{Markup, html};
use notes::{notes, saving, there};

/// Letters of the program's name in a sentence.
const NAME: usize = 60;
/// So many items are shown without `--all`.
const ITEMS: usize = 6;
/// So many calls without a price are named.
const UNPRICED: usize = 4;
/// How a bar draws user code.
const USER: char = '░';
/// The width of the bar in columns.
const BAR: usize = 60;
/// A part is called most of a whole from this share on.
const MOST: f64 = 0.5;
/// Prices explain a time if both intervals lie this close to each other, as a share.
const WIDE: f64 = 0.5;
/// Less than this share is not called a rest where it may be nothing.
const CLOSE: f64 = 0.1;

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
    parts.push(Part::List(
        "",
        helps.into_iter().chain(bill.elsewhere.iter().map(|it| there(bill, it))).collect(),
    ));
    parts.push(Part::Heading(2, "How it was made".to_owned()));
    parts.push(Part::List("quiet", notes(bill)));
    parts
}

/// All that the time consists of, and the whole.
fn time_parts(bill: &Priced) -> (Vec<Slice<'static>>, f64) {
    let part = |name, ns, letter, class| Slice { name, ns, letter, class };
    let kernel = bill.times.kernel_ns.value;
    let cpu = kernel + bill.times.user_ns.value;
    let itemised = bill.itemised_ns.value.min(if bill.is_divided() { kernel } else { cpu });
    let mut parts = vec![part("kernel, itemised", itemised, '█', "k")];
    match bill.is_divided() {
        true => {
            parts.push(part("kernel, not itemised", kernel - itemised, '▒', "n"));
            parts.push(part("user code", bill.times.user_ns.value, USER, "u"));
        }
        false => parts.push(part("kernel or user code, not itemised", cpu - itemised, '▒', "n")),
    }
    parts.push(part("waiting", bill.times.waiting_ns, '·', "w"));
    let whole = parts.iter().map(|part| part.ns).sum();
    (parts, whole)
}

/// `the dd spends …`: where most of the time goes.
fn answer(bill: &Priced) -> String {
    let (_, whole) = time_parts(bill);
    let share = |ns: f64| percent(ns / whole.max(f64::MIN_POSITIVE));
    let program = format!("`{}`", shortened(&bill.program, NAME));
    let (kernel, user, waiting) =
        (bill.times.kernel_ns.value, bill.times.user_ns.value, bill.times.waiting_ns);
    let of = format!("{}{}", if bill.per_second { "each second's " } else { "" }, time(whole));
    let busy = if bill.is_divided() { kernel.max(user) } else { kernel + user };
    if waiting >= busy {
        let all: f64 = bill.waits.iter().map(|wait| wait.waited_ns).sum();
        let what = match bill.waits.first() {
            Some(wait) => format!(", {} in {}", of_it(wait.waited_ns, all), wait.what),
            None => String::new(),
        };
        return format!("{program} waits for {} of {of}{what}.", share(waiting));
    }
    if bill.times.is_divided && !bill.is_divided() {
        return format!(
            "{program} runs for {} of {of}; its items take {} in the kernel, more than the {} that the kernel counts as its own.",
            share(kernel + user),
            duration(bill.itemised_ns),
            time(kernel)
        );
    }
    if !bill.times.is_divided {
        let more = if bill.per_second { "`--for 60s`" } else { "`--budget 20s`" };
        return format!(
            "{program} runs for {} of {of}, too short to divide between kernel and user code: {more}.",
            share(kernel + user)
        );
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
        Some(class) => format!(
            "{} on {}: {} times, {}",
            of_it(class.time_ns.value, kernel),
            class.class.name(),
            count(class.count),
            duration(class.time_ns)
        ),
        None => {
            let part = of_it(bill.not_itemised_ns(), kernel);
            format!("{part} where no item has a price{}", unpriced(bill))
        }
    };
    format!("{program} spends {} of {of} in the kernel, {on}.", share(kernel))
}

/// What the largest part of a whole is called.
fn of_it(part: f64, whole: f64) -> &'static str {
    if part >= MOST * whole { "most of it" } else { "first of all" }
}

/// The bar, and what its letters mean.
fn bar(bill: &Priced) -> String {
    let (parts, whole) = time_parts(bill);
    // A file that is shown may have any numbers.
    let share = |ns: f64| (ns / whole.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let bar: String = parts
        .iter()
        .map(|part| part.letter.to_string().repeat((share(part.ns) * BAR as f64).round() as usize))
        .collect();
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
    let fits = parts[0].ns / itemised.max(f64::MIN_POSITIVE);
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
    let mut grid = Grid::of_numbers(["count", "each", "time (95 % interval)", "share"]);
    let share = |ns: f64| percent(ns / whole);
    for class in &bill.classes {
        let (often, each) = match class.class {
            Class::Copies => (bytes(class.bytes), rate(class.bytes, class.time_ns.value)),
            _ => (count(class.count), time(class.time_ns.value / class.count)),
        };
        let took = duration(class.time_ns);
        grid.add([class.class.name().to_owned(), often, each, took, share(class.time_ns.value)]);
    }
    for part in parts.iter().skip(1).filter(|part| part.ns > 0.0) {
        let shown = match part.letter {
            USER => duration(bill.times.user_ns),
            _ => time(part.ns),
        };
        grid.add([part.name.to_owned(), String::new(), String::new(), shown, share(part.ns)]);
    }
    grid.fit(columns, &[0, 0, 60, 0, 0], 0);
    grid
}

/// `itemised: 71 % (66–76) of 183 ms of kernel time; not itemised: 53 ms, …`
fn check(bill: &Priced) -> String {
    let kernel = duration(bill.times.kernel_ns);
    if !bill.times.is_divided {
        return format!(
            "Itemised: {}; how much of the CPU time the kernel took is not known{}.",
            duration(bill.itemised_ns),
            unpriced(bill)
        );
    }
    let Some(share) = bill.itemised_share() else {
        return "The kernel's time is too short to be measured.".to_owned();
    };
    let shown = |share: f64| format!("{:.0}", 100.0 * share);
    let range = span(&shown(share.low), "–", &shown(share.high));
    let itemised =
        format!("Itemised: {} % ({range}) of {kernel} of kernel time", shown(share.value));
    // The items' interval, and that of the kernel's time.
    let Estimate { low, high, .. } = bill.times.kernel_ns;
    let items = bill.itemised_ns;
    let is_known = items.high <= (1.0 + WIDE) * low && items.low >= (1.0 - WIDE) * high;
    match bill.not_itemised_ns() {
        _ if items.low > high => format!(
            "{itemised}: more than there was, so a price is too high here, the counted runs did more, or, in a virtual machine, its \
             host did part of the work, which the kernel counts as user code."
        ),
        _ if share.value > 1.0 + CLOSE => format!(
            "{itemised}: more than there was, but both are so uncertain that they may be equal."
        ),
        rest if items.high >= low && rest < CLOSE * bill.times.kernel_ns.value => match is_known {
            true => format!("{itemised}: the prices explain it."),
            false => {
                format!("{itemised}: they agree, but are so uncertain that it says little.")
            }
        },
        rest if items.high >= low => format!(
            "{itemised}; not itemised: {}, but the kernel's time is so uncertain that it may be nothing{}.",
            time(rest),
            unpriced(bill)
        ),
        rest => format!("{itemised}; not itemised: {}{}.", time(rest), unpriced(bill)),
    }
}

/// The most frequent items without a price of their own: calls, which have that of their entry, and others.
fn unpriced(bill: &Priced) -> String {
    let mut items: Vec<&PricedItem> =
        bill.items.iter().filter(|item| item.class.is_none()).collect();
    items.sort_by(|one, other| other.count.total_cmp(&one.count));
    let named = |what: &str, has_entry: bool| {
        let items = items.iter().filter(|item| (item.each_ns.value > 0.0) == has_entry);
        let names = items.take(UNPRICED).map(|it| format!("{} ({})", it.name, count(it.count)));
        let names: Vec<String> = names.collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("; {what}: {}", names.join(", ")),
        }
    };
    named("only their entry has a price", true) + &named("without a price", false)
}

fn items(bill: &Priced, is_all: bool, columns: usize) -> Grid {
    let mut grid = Grid::of_numbers(["count", "failed", "each", "time (95 % interval)"]);
    for item in bill.items.iter().take(if is_all { usize::MAX } else { ITEMS }) {
        let failed = if item.errors > 0.0 { count(item.errors) } else { String::new() };
        let (each, took) = (time(item.each_ns.value), duration(item.time_ns));
        let (each, took) = match (item.class, item.each_ns.value > 0.0) {
            (None, true) => (format!("at least {each}"), took),
            (None, false) => ("no price".to_owned(), String::new()),
            (Some(_), _) => (each, took),
        };
        grid.add([item.name.clone(), count(item.count), failed, each, took]);
    }
    grid.fit(columns, &[0, 0, 80, 0, 0], 0);
    grid
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
