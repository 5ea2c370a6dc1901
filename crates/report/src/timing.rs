//! What `costof time` prints: the answer first, then a table, then what a reader should know.

mod hyperfine;

pub use hyperfine::export;

use crate::check::{Case, Finding, Rules, Suite};
use crate::grid::Grid;
use crate::style::Style;
use crate::text::printable;
use costof_model::timing::{Estimate, Judgement, TimeComparison, TimeMetric, Timing};
use costof_model::{TimedCommand, TimedRun, Unit, counted, span};
use costof_stats::median;
use std::collections::BTreeSet;

/// The most letters of a name in a table.
const MAX_NAME: usize = 40;
/// The start-up of a shell or process is mentioned if it is at least this share of a command's wall time.
const START_COUNTS: f64 = 0.02;

/// More memory than costof itself has.
const COSTOF_MEBIBYTES: f64 = 16.0;

/// The whole text.
pub fn text(timing: &Timing, style: Style) -> String {
    let mut text = style.prose(&answer(timing).join("\n"));
    text += &format!("\n{}\n", table(timing).text());
    for command in &timing.commands {
        text += &style.prose(&details(command));
    }
    let notes: Vec<String> =
        timing.commands.iter().flat_map(notes).chain(machine(timing)).chain(why(timing)).collect();
    if !notes.is_empty() {
        text += &format!("\n{}", style.prose(&notes.join("\n")));
    }
    text
}

/// The same as Markdown.
pub fn markdown(timing: &Timing) -> String {
    let answer = answer(timing).join("  \n");
    let escaped = crate::grid::escaped;
    let lines: String = timing
        .commands
        .iter()
        .flat_map(notes)
        .chain(machine(timing))
        .map(|note| format!("- {}\n", escaped(&note)))
        .collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{answer}\n\n{}{gap}{lines}", table(timing).markdown())
}

/// What a comparison holds for: on another class of machines, it may come out otherwise.
fn machine(timing: &Timing) -> Option<String> {
    (timing.commands.len() > 1).then(|| format!("compared on {}", timing.machine))
}

/// Where the reason is looked for if a command is worse.
fn why(timing: &Timing) -> Option<String> {
    let mut compared = timing.comparisons.iter().flatten();
    let is_worse = compared.any(|it| it.judgement == Some(Judgement::Worse));
    is_worse.then(|| {
        "what it does more often: `costof bill --diff 'BEFORE' 'AFTER'` counts system calls, faults and switches of both"
            .to_owned()
    })
}

/// One sentence for one command, and one for each that is compared with the first.
fn answer(timing: &Timing) -> Vec<String> {
    let Some((first, others)) = timing.commands.split_first() else {
        return Vec::new();
    };
    if others.is_empty() {
        return vec![single(first)];
    }
    let compared = others.iter().zip(&timing.comparisons);
    compared
        .map(|(other, comparison)| match comparison {
            None => {
                let why = other.not_compared.as_deref().unwrap_or("its values are not known");
                format!("{} cannot be compared with {}: {why}.", quoted(other), quoted(first))
            }
            Some(comparison) => {
                let sentence = sentence(&quoted(first), &quoted(other), &timing.metric, comparison);
                match timing.threshold.zip(comparison.judgement) {
                    Some((threshold, judgement)) => {
                        format!("{sentence} {}", verdict(judgement, threshold))
                    }
                    None => sentence,
                }
            }
        })
        .collect()
}

/// Whether each command is at most as much worse than the first as the threshold allows.
pub fn check(timing: &Timing, rules: &Rules) -> Suite {
    let others = timing.commands.iter().skip(1);
    let cases =
        others.zip(&timing.comparisons).zip(answer(timing)).map(|((other, comparison), why)| {
            Case {
                name: one_line(other),
                probe: None,
                finding: match comparison.as_ref().and_then(|comparison| comparison.judgement) {
                    Some(Judgement::Within) => Finding::Pass,
                    Some(Judgement::Worse) => Finding::Fail(why),
                    Some(Judgement::Undecided) | None => Finding::Undecided(why),
                },
            }
        });
    Suite::new("time", "command", cases.collect(), rules)
}

/// A command as a sentence names it.
fn quoted(command: &TimedCommand) -> String {
    match one_line(command) {
        name if name.contains(' ') => format!("`{name}`"),
        name => name,
    }
}

/// A command's name on one line.
fn one_line(command: &TimedCommand) -> String {
    let lines = command.name.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// A command as a table and a list name it: of a long name, the start and the end.
fn short(command: &TimedCommand) -> String {
    let name: Vec<char> = printable(&one_line(command)).chars().collect();
    if name.len() <= MAX_NAME {
        return name.into_iter().collect();
    }
    let end = MAX_NAME / 2;
    let (start, end) = (&name[..MAX_NAME - end - 1], &name[name.len() - end..]);
    start.iter().chain(&['…']).chain(end).collect()
}

fn single(command: &TimedCommand) -> String {
    let (name, runs) = (quoted(command), command.runs.len());
    let few = match command.wall_ns {
        Some(_) => String::new(),
        None => format!(" ({}: no interval)", counted(runs, "run")),
    };
    let cpu = match command.alone_ns {
        Some(alone) => format!("{} of CPU time with the core to itself", duration(alone)),
        None => format!("{} of CPU time as it ran", cpu_time(command)),
    };
    format!("{name} takes {cpu}, and {} of wall time{few}.", wall_time(command))
}

/// The wall time as it ran. Of too few runs for an interval, the median.
fn wall_time(command: &TimedCommand) -> String {
    command.wall_ns.map_or_else(|| median_time(command, |run| run.wall_ns), duration)
}

/// The CPU time as it ran, likewise.
fn cpu_time(command: &TimedCommand) -> String {
    command.cpu_ns.map_or_else(|| median_time(command, TimedRun::cpu_ns), duration)
}

fn median_time(command: &TimedCommand, value: fn(&TimedRun) -> u64) -> String {
    let values: Vec<f64> = command.runs.iter().map(|run| value(run) as f64).collect();
    median(&values).map_or_else(|| "unknown".to_owned(), time)
}

/// A number that a command prints itself, likewise; empty if not all runs printed it.
fn own_number(command: &TimedCommand, name: &str) -> String {
    let with_digits = |number: f64| format!("{number:.*}", significant_decimals(number) + 1);
    if let Some(own) = command.own.get(name) {
        let [value, low, high] = [own.value, own.low, own.high].map(with_digits);
        return format!("{value} ({})", span(&low, "–", &high));
    }
    let values: Option<Vec<f64>> =
        command.runs.iter().map(|run| Some(run.own.get(name)?.value)).collect();
    values.and_then(|values| median(&values)).map_or_else(String::new, with_digits)
}

pub(crate) fn time(ns: f64) -> String {
    match ns {
        0.0 => "0".to_owned(),
        ns => Unit::Nanoseconds.display(ns),
    }
}

/// `B takes 3.0 % (2.4–3.7) more CPU time than A.`
fn sentence(first: &str, other: &str, metric: &TimeMetric, comparison: &TimeComparison) -> String {
    let Estimate { value, low, high } = comparison.ratio;
    let what = metric_name(metric);
    if low <= 1.0 && 1.0 <= high {
        return format!(
            "No significant difference in {what} between {first} and {other}: {} % ({} to {}). Smallest detectable change: {}.",
            signed(value),
            signed(low),
            signed(high),
            percent(comparison.visible)
        );
    }
    let takes = match metric {
        TimeMetric::Own(_) => "has",
        _ => "takes",
    };
    if value >= 2.0 {
        return format!(
            "{other} {takes} {value:.2} times ({low:.2}–{high:.2}) the {what} of {first}."
        );
    }
    let (word, [value, low, high]) = match value > 1.0 {
        true => ("more", [value - 1.0, low - 1.0, high - 1.0]),
        false => ("less", [1.0 - value, 1.0 - high, 1.0 - low]),
    };
    let range = span(&number(low), "–", &number(high));
    format!("{other} {takes} {} ({range}) {word} {what} than {first}.", percent(value))
}

fn verdict(judgement: Judgement, threshold: f64) -> String {
    let threshold = percent(threshold);
    match judgement {
        Judgement::Within => format!("PASS: at most {threshold} worse."),
        Judgement::Worse => format!("FAIL: more than {threshold} worse."),
        Judgement::Undecided => {
            format!("INCONCLUSIVE against {threshold}: run longer (--budget 60s).")
        }
    }
}

fn metric_name(metric: &TimeMetric) -> &str {
    match metric {
        TimeMetric::Alone | TimeMetric::Cpu => "CPU time",
        TimeMetric::Wall => "wall time",
        TimeMetric::Own(name) => name,
    }
}

/// A share in percent, without the sign.
fn number(share: f64) -> String {
    let percent = 100.0 * share.abs();
    match percent {
        ..0.095 => format!("{percent:.2}"),
        ..9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", number(share))
}

/// The change in percent that a ratio is, with its sign.
fn signed(ratio: f64) -> String {
    let sign = if ratio < 1.0 { "−" } else { "+" };
    format!("{sign}{}", number(ratio - 1.0))
}

/// `2.31 ms (2.21–2.37)`, with up to three more digits if the ends would look alike.
pub(crate) fn duration(estimate: Estimate) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let unit = units.into_iter().find(|(step, _)| estimate.value >= *step);
    let (step, symbol) = unit.unwrap_or((1.0, "ns"));
    let digits = significant_decimals(estimate.value / step);
    let shown = |digits: usize| {
        [estimate.value, estimate.low, estimate.high].map(|ns| format!("{:.digits$}", ns / step))
    };
    let mut all = (digits..=digits + 3).map(shown);
    let fit = all.find(|[_, low, high]| low != high);
    let [value, low, high] = fit.unwrap_or_else(|| shown(digits));
    format!("{value} {symbol} ({})", span(&low, "–", &high))
}

/// The decimal places of a number with three significant digits.
pub(crate) fn significant_decimals(value: f64) -> usize {
    let before = match value.abs() {
        0.0 => 0,
        size => size.log10().floor() as i32,
    };
    (2 - before).clamp(0, 9) as usize
}

fn table(timing: &Timing) -> Grid {
    let mut names: Vec<String> = vec!["CPU time, core alone".to_owned()];
    names.extend(["CPU time as it ran", "wall time as it ran"].map(str::to_owned));
    let runs = timing.commands.iter().flat_map(|command| &command.runs);
    let own: BTreeSet<&String> = runs.flat_map(|run| run.own.keys()).collect();
    names.extend(own.iter().map(|name| (*name).clone()));
    let is_compared = timing.commands.len() > 1;
    if is_compared {
        names.push(match &timing.metric {
            TimeMetric::Alone => "CPU time ratio (equal sharing)".to_owned(),
            metric => format!("{} ratio", metric_name(metric)),
        });
    }
    let mut grid = Grid::of_numbers(names.iter().map(|name| &**name));
    for (position, command) in timing.commands.iter().enumerate() {
        let alone = command.alone_ns.map_or_else(|| "unknown".to_owned(), duration);
        let mut cells = vec![short(command), alone, cpu_time(command), wall_time(command)];
        cells.extend(own.iter().map(|name| own_number(command, name)));
        if is_compared {
            cells.push(match position {
                0 => "1".to_owned(),
                _ => match &timing.comparisons[position - 1] {
                    None => "unknown".to_owned(),
                    Some(TimeComparison { ratio, .. }) => {
                        format!("{:.3} ({:.3}–{:.3})", ratio.value, ratio.low, ratio.high)
                    }
                },
            });
        }
        grid.add(cells);
    }
    grid
}

/// What a command used, by the medians of its runs; the kernel divides CPU time by its ticks, so of user and system time the
/// means.
fn details(command: &TimedCommand) -> String {
    let runs = &command.runs;
    let middle = |value: &dyn Fn(&TimedRun) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(value).collect();
        median(&values?)
    };
    let of = |value: fn(&TimedRun) -> u64| middle(&|run| Some(value(run) as f64)).unwrap_or(0.0);
    let count = |value| format!("{:.0}", of(value));
    let mean = |value: fn(&TimedRun) -> u64| {
        time(runs.iter().map(value).sum::<u64>() as f64 / runs.len().max(1) as f64)
    };
    let mut parts = vec![
        format!("user {}", mean(|run| run.user_ns)),
        format!("system {}", mean(|run| run.system_ns)),
        peak(runs, of(|run| run.max_rss_bytes) / f64::from(1 << 20)),
        format!(
            "{} ({} from disk)",
            counted(count(|run| run.minor_faults + run.major_faults), "page fault"),
            count(|run| run.major_faults)
        ),
        format!(
            "{} ({} involuntary)",
            counted(
                count(|run| run.voluntary_switches + run.involuntary_switches),
                "context switch"
            ),
            count(|run| run.involuntary_switches)
        ),
    ];
    if let Some(waited) = middle(&|run| Some(run.run_queue_ns? as f64)) {
        parts.push(format!("waited {} for a CPU", time(waited)));
    }
    if let (Some(cycles), Some(instructions)) =
        (middle(&|run| Some(run.cycles? as f64)), middle(&|run| Some(run.instructions? as f64)))
    {
        parts.push(format!(
            "{instructions:.3e} instructions, {:.2} a cycle",
            instructions / cycles.max(1.0)
        ));
    }
    if let Some(shared) = middle(&|run| Some(run.core?.shared_time())) {
        parts.push(format!("core shared {:.0} % of the time", 100.0 * shared));
    }
    let gauge = of(|run| run.gauge_ns) / of(|run| run.wall_ns * run.cpus.len() as u64).max(1.0);
    if gauge > 0.0 {
        parts.push(format!("sampling overhead {:.1} % of wall time (subtracted)", 100.0 * gauge));
    }
    let name = short(command);
    format!("{name}: {}; {}", counted(runs.len(), "run"), parts.join(", "))
}

/// The peak memory. Where it may be costof's own, it is a bound.
fn peak(runs: &[TimedRun], mebibytes: f64) -> String {
    let is_own = mebibytes > COSTOF_MEBIBYTES || runs.iter().all(|run| run.is_own_peak);
    format!("peak memory {}{mebibytes:.1} MiB", if is_own { "" } else { "at most " })
}

fn notes(command: &TimedCommand) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &command.alone_unknown {
        notes.push(format!("CPU time with the core alone is unknown: {why}"));
    }
    let wall = command.wall_ns.map_or(f64::INFINITY, |wall| wall.value);
    if let Some(start) = command.start_ns.filter(|start| start.value >= START_COUNTS * wall) {
        let (what, how) = match &command.shell {
            Some(shell) => ("shell", format!("{shell} -c :")),
            None => ("process", "true".to_owned()),
        };
        notes.push(format!(
            "wall time includes {what} start-up: {} (`{how}`, in the same turns)",
            duration(start)
        ));
    }
    notes.extend(command.notes.iter().cloned());
    notes.into_iter().map(|note| format!("{}: {note}", short(command))).collect()
}

#[cfg(test)]
mod tests;
