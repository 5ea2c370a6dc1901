//! `costof verify`: compares costof with other programs that measure the same.

mod text;

use crate::cli::VerifyOptions;
use crate::cli::gate::Required;
use crate::error::{Context, Done, Error, Result, gated, rules, wrong};
use crate::plan::keywords::{self, Take};
use crate::preflight::{self, Seen};
use crate::record::Table;
use crate::terminal::{log, prose_columns, set_working, watch_interrupts};
use crate::{placement, progress};
use costof_lab::host::Host;
use costof_measure::{facts, gauge, trials};
use costof_peers::agreement::Placed;
use costof_peers::checks::{Check, checks};
use costof_peers::child::Interrupt;
use costof_peers::costof::Costof;
use costof_peers::error::Error as PeersError;
use costof_peers::round::Event;
use costof_peers::verify::{Outcome, Row, Verifier, chosen};
use costof_report::check::{Case, Finding, Suite};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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
    let checks = chosen(checks(), &options.which, means).map_err(wrong)?;
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
    let folder = Folder::create()?;
    let verifier = Verifier {
        costof: &Costof::at(own),
        precision: "--quick",
        folder: &folder.path,
        cpus: &cpus,
        core_floor: gauge::calibrate(&facts::gather().cpu),
        rounds: usize::from(options.rounds),
        limit: Duration::from_secs(options.timeout),
        interrupt: &interrupt,
    };
    let rows = all(&verifier, checks, options.json)?;
    set_working(false);
    if !options.json {
        io::stdout().write_all(text::summary(&rows, prose_columns()).as_bytes())?;
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
        let mut output = io::stdout().lock();
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

/// A folder for costof's run files while they are read. It is removed with its contents when this is dropped, and
/// by a process of its own however this one ends.
struct Folder {
    path: PathBuf,
    /// It waits for the end of its standard input, which this process holds; `None` where there is no shell.
    remover: Option<Child>,
}

impl Folder {
    fn create() -> Result<Folder> {
        let name = format!("costof-verify-{:016x}", fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        // A process group of its own, which a signal to this one's does not end. It begins before there is a folder.
        let script = "trap '' INT TERM HUP; read -r _; exec rm -rf -- \"$1\"";
        let remover = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.context(format_args!("cannot make the folder {}", path.display()))?;
        Ok(Folder { path, remover: remover.ok() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Anything that cannot be removed stays among other temporary files.
        let _ = fs::remove_dir_all(&self.path);
        if let Some(mut remover) = self.remover.take() {
            let _ = remover.wait();
        }
    }
}
