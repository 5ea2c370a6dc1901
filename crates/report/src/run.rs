//! A run as text: the machine, the latency table, the notes below it, and what matters.

use crate::names::points_counted;
use crate::style::Style;
use crate::text::paragraph;
use crate::{colour, conclusion, notes, predictions, table};
use costof_model::noise::{MEASURED, PEER};
use costof_model::{Facts, Run};

/// The points of a run as a table, with its notes below.
pub fn text(run: &Run, style: Style) -> String {
    text_with(run, style, &[])
}

/// The same with further metrics: these, or those that a run of one probe is about if there are none.
pub fn text_with(run: &Run, style: Style, metrics: &[String]) -> String {
    let mut text = style.prose(&machine(run));
    text.push_str(&table::points(run, style, metrics));
    text.push_str(&paragraph(&style.prose(&below(run, style))));
    if style.notes {
        text.push_str(&all_notes(run, style));
    } else {
        text.push_str(&paragraph(&style.prose(&counted(run))));
    }
    text
}

/// The notes on the table as a whole.
fn below(run: &Run, style: Style) -> String {
    let cycles = style.columns() >= table::CYCLES_FROM_WIDTH;
    let cycles = notes::estimated_cycles(run).filter(|_| cycles);
    let lines = [notes::summary(run), cycles.unwrap_or_default().to_owned()];
    let lines = lines.iter().filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

fn all_notes(run: &Run, style: Style) -> String {
    [
        notes::distributions(run),
        predictions::missed(run),
        notes::instruments(run),
        notes::links(run),
        without_number(run),
        notes::findings(run),
        notes::doubts(run),
    ]
    .map(|text| paragraph(&style.prose(&text)))
    .concat()
}

/// A line for each kind of note: the note itself if there is one, else their number. Reasons are printed if
/// there is nothing else to show.
fn counted(run: &Run) -> String {
    let absent = notes::absent(run);
    if run.points.is_empty() {
        return absent;
    }
    let folded = |text: String, what: &str| match text.lines().count() {
        0 | 1 => text,
        count => format!("{count} {what}\n"),
    };
    let missed = match predictions::missed(run).lines().count() {
        0 => String::new(),
        1 => "1 prediction missed\n".to_owned(),
        count => format!("{count} predictions missed\n"),
    };
    [
        missed,
        folded(
            notes::distributions(run),
            "rows with several modes, preempted batches or a shared core",
        ),
        folded(notes::links(run), "links"),
        match absent.lines().count() {
            0 | 1 => absent,
            reasons => {
                let points = points_counted(notes::absent_points(run));
                format!("{points} without a number, for {reasons} reasons\n")
            }
        },
        folded(notes::lost_launches(run), "lost launches"),
    ]
    .concat()
}

/// The results that matter: at most five lines, unless all notes have named them already; then how far the
/// numbers can be trusted. They come last, where a terminal shows them.
pub fn conclusion(run: &Run, style: Style) -> String {
    let lines = if style.notes { Vec::new() } else { conclusion::lines(run) };
    let lines = lines.iter().map(|line| style.cut(&format!("- {line}")));
    let verdict = style.prose(&notes::verdict(run));
    let verdict = match style.colour && !verdict.is_empty() {
        true => colour::painted(verdict.trim_end(), colour::BOLD) + "\n",
        false => verdict,
    };
    paragraph(&(lines.collect::<String>() + &verdict))
}

/// The points without a number, and why; empty if every point has one.
pub fn absent(run: &Run) -> String {
    paragraph(&without_number(run))
}

/// Points and launches without a number, and why.
pub(crate) fn without_number(run: &Run) -> String {
    notes::absent(run) + &notes::lost_launches(run)
}

/// A line that identifies the machine, and one for the other peer's machine.
pub(crate) fn machine(run: &Run) -> String {
    let Some(attempt) = run.attempts.last() else {
        return String::new();
    };
    let Some(facts) = attempt.hosts.get(MEASURED) else {
        return String::new();
    };
    let hosts = &run.run.plan.hosts;
    let peer = match (attempt.hosts.get(PEER), &hosts.to) {
        (Some(facts), _) => format!("the other end: {}\n", described(facts)),
        (None, Some(to)) => {
            let address = hosts.peer_address.map(|address| address.to_string());
            let resolved = address.filter(|address| address != to);
            let resolved = resolved.map_or_else(String::new, |address| format!(" ({address})"));
            format!("the other end: {to}{resolved}\n")
        }
        (None, None) => String::new(),
    };
    format!("{}\n{peer}\n", described(facts))
}

fn described(facts: &Facts) -> String {
    let architecture = || Some(format!("a CPU of {}", facts.architecture.as_ref()?));
    let virtual_machine = match &facts.virtualization.hypervisor {
        Some(hypervisor) => format!(", under {hypervisor}"),
        None => String::new(),
    };
    format!(
        "{}{virtual_machine}, Linux{}",
        (facts.cpu.model_name.clone().or_else(architecture))
            .unwrap_or_else(|| "an unknown CPU".to_owned()),
        (facts.kernel.release.as_ref()).map_or_else(String::new, |release| format!(" {release}")),
    )
}
