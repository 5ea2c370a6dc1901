//! What `costof time` prints: the answer first, then a table, then what a reader should know.

mod hyperfine;

pub use hyperfine::export;

use crate::grid::{Align, Grid};
use crate::style::Style;
use crate::text::{printable, shortened};
use costof_model::timing::{
    Estimate, Judgement, TimeComparison, TimeMetric, TimedCommand, TimedRun, Timing,
};
use costof_model::unit::{Unit, span};
use costof_stats::median;

/// The most letters of a name in a table.
const MAX_NAME: usize = 40;
/// The start of a shell or process is mentioned if it is at least this share of a command's wall time.
const START_COUNTS: f64 = 0.02;

/// The whole text.
pub fn text(timing: &Timing, style: Style) -> String {
    let mut text = style.prose(&answer(timing).join("\n"));
    text += &format!("\n{}\n", table(timing).text());
    for command in &timing.commands {
        text += &style.prose(&details(command));
    }
    let notes: Vec<String> = timing.commands.iter().flat_map(notes).collect();
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
        .map(|note| format!("- {}\n", escaped(&note)))
        .collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{answer}\n\n{}{gap}{lines}", table(timing).markdown())
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
            None => format!(
                "{} cannot be compared with {}: {} is not known of all runs",
                quoted(other),
                quoted(first),
                metric_name(&timing.metric)
            ),
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

/// A command as a sentence names it.
fn quoted(command: &TimedCommand) -> String {
    match &*command.name {
        name if name.contains(' ') => format!("`{name}`"),
        name => name.to_owned(),
    }
}

/// A command as a table and a list name it.
fn short(command: &TimedCommand) -> String {
    shortened(&printable(&command.name), MAX_NAME)
}

fn single(command: &TimedCommand) -> String {
    let wall = command.wall_ns.map(duration);
    let wall = wall.unwrap_or_else(|| "an unknown time (too few runs)".to_owned());
    let name = quoted(command);
    match (command.alone_ns, command.cpu_ns) {
        (Some(alone), _) => format!(
            "{name} takes {} of CPU time with the core to itself, and {wall} of wall time.",
            duration(alone)
        ),
        (None, Some(cpu)) => format!(
            "{name} takes {} of CPU time as it ran, and {wall} of wall time.",
            duration(cpu)
        ),
        (None, None) => format!("{name} takes {wall} of wall time."),
    }
}

/// `B takes 3.0 % (2.4–3.7) more CPU time than A.`
fn sentence(first: &str, other: &str, metric: &TimeMetric, comparison: &TimeComparison) -> String {
    let Estimate { value, low, high } = comparison.ratio;
    let what = metric_name(metric);
    if low <= 1.0 && 1.0 <= high {
        return format!(
            "No difference in {what} shown between {other} and {first}: {} ({} to {}). A change by {} would have been.",
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
        Judgement::Within => format!("At most {threshold} worse: passed."),
        Judgement::Worse => format!("More than {threshold} worse: failed."),
        Judgement::Undecided => {
            format!(
                "Whether it is more than {threshold} worse cannot be told: run longer (--budget 60s)."
            )
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

fn signed(ratio: f64) -> String {
    let sign = if ratio < 1.0 { "−" } else { "+" };
    format!("{sign}{}", percent(ratio - 1.0))
}

/// `2.31 ms (2.21–2.37)`, with up to three more digits if the ends would look alike.
fn duration(estimate: Estimate) -> String {
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
fn significant_decimals(value: f64) -> usize {
    let before = match value.abs() {
        0.0 => 0,
        size => size.log10().floor() as i32,
    };
    (2 - before).clamp(0, 9) as usize
}

fn table(timing: &Timing) -> Grid {
    let mut names: Vec<String> = vec!["CPU time, core alone".to_owned()];
    names.extend(["CPU time as it ran", "wall time as it ran"].map(str::to_owned));
    let mut own: Vec<&String> =
        (timing.commands.iter()).flat_map(|command| command.own.keys()).collect();
    own.sort();
    own.dedup();
    names.extend(own.iter().map(|name| (*name).clone()));
    let is_compared = timing.commands.len() > 1;
    if is_compared {
        names.push(match &timing.metric {
            TimeMetric::Alone => "ratio of CPU time, same state of the core".to_owned(),
            metric => format!("ratio of {}", metric_name(metric)),
        });
    }
    let columns = names.iter().map(|name| (&**name, Align::Right));
    let mut grid = Grid::new([("", Align::Left)].into_iter().chain(columns));
    for (position, command) in timing.commands.iter().enumerate() {
        let times = [command.alone_ns, command.cpu_ns, command.wall_ns];
        let mut cells = vec![short(command)];
        cells.extend(times.map(|time| time.map_or_else(|| "unknown".to_owned(), duration)));
        cells.extend(own.iter().map(|name| {
            let value = command.own.get(*name);
            value.map_or_else(String::new, |own| {
                let [value, low, high] = [own.value, own.low, own.high].map(|number| {
                    let digits = significant_decimals(number) + 1;
                    format!("{number:.digits$}")
                });
                format!("{value} ({})", span(&low, "–", &high))
            })
        }));
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

/// What a command used, by the medians of its runs.
fn details(command: &TimedCommand) -> String {
    let runs = &command.runs;
    let middle = |value: &dyn Fn(&TimedRun) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(value).collect();
        median(&values?)
    };
    let of = |value: fn(&TimedRun) -> u64| middle(&|run| Some(value(run) as f64)).unwrap_or(0.0);
    let count = |value| format!("{:.0}", of(value));
    let time = |ns: f64| match ns {
        0.0 => "0".to_owned(),
        ns => Unit::Nanoseconds.display(ns),
    };
    let mut parts = vec![
        format!("user {}", time(of(|run| run.user_ns))),
        format!("system {}", time(of(|run| run.system_ns))),
        format!("peak memory {:.1} MiB", of(|run| run.max_rss_bytes) / f64::from(1 << 20)),
        format!(
            "{} page faults ({} from disk)",
            count(|run| run.minor_faults + run.major_faults),
            count(|run| run.major_faults)
        ),
        format!(
            "{} context switches ({} involuntary)",
            count(|run| run.voluntary_switches + run.involuntary_switches),
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
        parts.push(format!("gauge {:.2} % (taken off)", 100.0 * gauge));
    }
    let plural = if runs.len() == 1 { "" } else { "s" };
    let name = short(command);
    format!("{name}: {} run{plural}; {}", runs.len(), parts.join(", "))
}

fn notes(command: &TimedCommand) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &command.alone_unknown {
        notes.push(format!("CPU time with the core alone is unknown: {why}"));
    }
    if let Some(slowdown) = command.slowdown {
        notes.push(format!("on a shared core it takes {slowdown:.2} times as long"));
    }
    let wall = command.wall_ns.map_or(f64::INFINITY, |wall| wall.value);
    if let Some(start) = command.start_ns.filter(|start| *start >= START_COUNTS * wall) {
        let what = match &command.shell {
            Some(shell) => format!("the shell ({shell})"),
            None => "a process that does nothing".to_owned(),
        };
        let time = Unit::Nanoseconds.display(start);
        notes.push(format!("contains the start: {what} takes {time} of wall time"));
    }
    notes.extend(command.notes.iter().cloned());
    notes.into_iter().map(|note| format!("{}: {note}", short(command))).collect()
}

#[cfg(test)]
mod tests;
