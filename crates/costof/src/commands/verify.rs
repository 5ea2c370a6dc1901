//! `costof verify`: compares costof with other programs that measure the same.

mod text;

use crate::cli::VerifyOptions;
use crate::cli::gate::Required;
use crate::error::{Context, Done, Error, Result, gated, rules, wrong};
use crate::plan::keywords::{self, Take};
use crate::preflight::{self, Seen};
use crate::record::Table;
use crate::terminal::{log, output, prose_columns, set_working, watch_interrupts};
use crate::{placement, progress};
use costof_lab::host::Host;
use costof_measure::{facts, gauge, trials};
use costof_peers::agreement::Placed;
use costof_peers::checks::{Check, Effort, checks};
use costof_peers::child::Interrupt;
use costof_peers::costof::Costof;
use costof_peers::error::Error as PeersError;
use costof_peers::round::Event;
use costof_peers::verify::{Outcome, Row, Verifier, chosen};
use costof_report::check::{Case, Finding, Suite};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn run(table: Table, options: &VerifyOptions) -> Done {
    let rules = rules(&options.gate, &Required::default(), table)?;
    let mut meant = BTreeMap::new();
    for word in &options.which {
        let found =
            keywords::probes(table, word, Take::Best { most: usize::MAX }).unwrap_or_default();
        meant.insert(word.as_str(), found);
    }
    let means = |word: &str, probe: &str| meant[word].iter().any(|info| info.id == probe);
    let checks = chosen(checks(Effort::QUICK), &options.which, means).map_err(wrong)?;
    let cpus = placement::here(options.cpu.as_deref())?;
    let interrupted = watch_interrupts()?;
    let look = || {
        let contention = trials::contention();
        if interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let host = Host::Local.to_string();
        Ok(vec![Seen { host, contention }])
    };
    preflight::check(&options.quiet, look, |text| log(text))?;
    let interrupt = Interrupt::from_flag(interrupted);
    let own = std::env::current_exe().context("cannot tell where this costof is")?;
    let folder = tempfile::Builder::new().prefix("costof-verify-").tempdir();
    let folder = folder.context("cannot make a folder for the run files")?;
    let verifier = Verifier {
        costof: &Costof::at(own),
        precision: "--quick",
        folder: folder.path(),
        cpus: &cpus,
        core_floor: gauge::calibrate(&facts::gather().cpu),
        rounds: usize::from(options.rounds),
        limit: Duration::from_secs(options.timeout),
        interrupt: &interrupt,
    };
    let rows = all(&verifier, checks, options.json)?;
    set_working(false);
    if !options.json {
        output().write_all(text::summary(&rows, prose_columns()).as_bytes())?;
    }
    if !rows.iter().any(is_compared) {
        let why = "nothing could be compared; the reasons are above";
        return Err(Error::Nothing(why.to_owned()));
    }
    let by = options.threshold.map(|percent| percent / 100.0);
    let cases = |by: f64| rows.iter().filter_map(|row| case(row, by)).collect();
    let suite = by.map(|by| Suite::new("verify", "row", cases(by), &rules));
    gated(&options.gate, suite.as_slice())
}

/// Makes every check, and reports the result of each at once.
fn all(verifier: &Verifier<'_>, checks: Vec<Check>, json: bool) -> Result<Vec<Row>> {
    let sides = |check: &Check| 1 + check.peers.len();
    let measurements = verifier.rounds * checks.iter().map(sides).sum::<usize>();
    let bar = progress::bar(measurements as u64, "");
    let mut rows = Vec::new();
    let mut before = 0;
    for check in checks {
        before += (verifier.rounds * sides(&check)) as u64;
        let what = format!("{} {}", check.probe, check.axes);
        let found = verifier
            .check(check, &mut |event| match event {
                Event::Begins(side) => {
                    progress::give_way(&bar);
                    bar.set_message(format!("{side}: {what}"));
                    bar.inc(1);
                }
                Event::Waits(holder) => bar.suspend(|| {
                    let machine = "this machine is being measured by";
                    log(format!("waiting: {machine} {holder}"));
                }),
                Event::LeftOut { .. } | Event::Round { .. } => {}
            })
            .map_err(|error| match error {
                PeersError::Failed(why) => wrong(why),
                PeersError::Interrupted => Error::Interrupted,
            })?;
        // Absent and failed sides are done too.
        bar.set_position(before);
        let mut output = output();
        let text = if json {
            found.iter().map(text::as_json).collect()
        } else {
            text::of_check(&found, prose_columns())
        };
        bar.suspend(|| output.write_all(text.as_bytes()).and_then(|()| output.flush()))?;
        rows.extend(found);
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn is_compared(row: &Row) -> bool {
    matches!(row.outcome, Outcome::Compared(..))
}

/// Whether a ratio lies further outside its expected range than this share; `None` if the tool is not installed.
fn case(row: &Row, by: f64) -> Option<Case> {
    let finding = match &row.outcome {
        Outcome::Compared(agreement, _) => match agreement.placed(row.expected.widened(by)) {
            Some(Placed::Outside) => Finding::Fail("is outside the expected range".to_owned()),
            Some(Placed::Across) | None => {
                Finding::Undecided("may be outside the expected range".to_owned())
            }
            Some(Placed::Inside) => Finding::Pass,
        },
        Outcome::Absent(_) => return None,
        Outcome::Failed(why) => Finding::Fail(why.clone()),
    };
    let name = format!("{} {}: {} by {}", row.probe, row.axes, row.metric, row.tool);
    Some(Case { name, probe: Some(row.probe.into()), finding })
}
