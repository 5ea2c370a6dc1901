//! A run as text: the machine, the latency table, and what stands below it.

use crate::{ladder, notes, predictions, table};
use costof_model::facts::Facts;
use costof_model::noise::{MEASURED, PEER};
use costof_model::run_file::Run;

/// The points of a run as a table, with what is absent and what is doubtful
/// below it.
pub fn text(run: &Run) -> String {
    let mut text = machine(run);
    text.push_str(&table::points(run));
    text.push_str(&notes::summary(run));
    text.push_str(&notes::distributions(run));
    text.push_str(&predictions::missed(run));
    text.push_str(&notes::instruments(run));
    text.push_str(&notes::links(run));
    text.push_str(&notes::absent(run));
    text.push_str(&notes::findings(run));
    text.push_str(&ladder::drawn(run));
    text.push_str(&notes::questions(run));
    text.push_str(&notes::doubts(run));
    text
}

/// What has no number, and why; empty where everything has one.
pub fn absent(run: &Run) -> String {
    notes::absent(run)
}

/// A line that says which machine it is, and one for that of the other end.
pub(crate) fn machine(run: &Run) -> String {
    let Some(attempt) = run.attempts.last() else {
        return String::new();
    };
    let Some(facts) = attempt.hosts.get(MEASURED) else {
        return String::new();
    };
    let peer = attempt.hosts.get(PEER).map_or_else(String::new, |facts| {
        format!("the other end: {}\n", described(facts))
    });
    format!("{}\n{peer}\n", described(facts))
}

fn described(facts: &Facts) -> String {
    let unknown = || "unknown".to_owned();
    let virtual_machine = match &facts.virtualization.hypervisor {
        Some(hypervisor) => format!(", under {hypervisor}"),
        None => String::new(),
    };
    format!(
        "{}{virtual_machine}, Linux {}",
        facts.cpu.model_name.clone().unwrap_or_else(unknown),
        facts.kernel.release.clone().unwrap_or_else(unknown),
    )
}
