//! Several runs at once: a fleet, a history, and exports of all of them.

use super::run::{RUNS, exported, plain};
use crate::edits::edited;
use crate::markup;
use costof_measure::{fleet, history};
use costof_model::run_file::{self, Run};
use costof_report as report;

/// Enough for a fleet to judge a host, and for a history to follow a row.
const RUNS_OF_FLEET: usize = 8;
const FALSE_ALARM_RUNS: u32 = 1000;

/// Runs of as many hosts, some of whose values are others.
pub(crate) fn values(script: &[u8]) {
    let (length, mut script) = match script.split_first() {
        Some((length, script)) => (usize::from(*length % 32) + 1, script),
        None => return,
    };
    let mut runs = Vec::new();
    for host in 0..RUNS_OF_FLEET {
        let (of_this, rest) = script.split_at(length.min(script.len()));
        script = rest;
        runs.extend(run(&host.to_string(), of_this));
    }
    if !runs.is_empty() {
        shown(&mut runs);
    }
}

fn run(host: &str, script: &[u8]) -> Option<Run> {
    let which = script.first().map_or(0, |byte| usize::from(byte % 8 == 7));
    let text = edited(RUNS[which], script);
    let (mut run, _) = run_file::read_up_to(text.as_bytes(), u64::MAX).ok()?;
    let facts = run.attempts.iter_mut();
    for facts in facts.flat_map(|attempt| attempt.hosts.values_mut()) {
        facts.host_name = facts.host_name.take().map(|name| name + host);
    }
    Some(run)
}

fn shown(runs: &mut [Run]) {
    exported(runs);
    for by in [&fleet::BY[..], &["kernel", "governor"], &[]] {
        let fleet = fleet::fleet(runs, by);
        plain(&report::fleet::text(&fleet, 80));
        plain(&report::fleet::reasons(&fleet));
        markup::check(&report::fleet::page(&fleet));
        plain(&serde_json::to_string(&fleet).expect("it is JSON"));
    }
    let history = history::history(runs, FALSE_ALARM_RUNS);
    plain(&report::history::text(&history, 80));
    plain(&serde_json::to_string(&history).expect("it is JSON"));
}
