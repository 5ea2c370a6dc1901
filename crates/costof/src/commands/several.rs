//! `costof run` on several hosts: each measures the same, into a run file of its own.

use super::show::print_ended;
use crate::cli::RunOptions;
use crate::error::{Done, Error, INTERRUPTED, Result, bail};
use crate::machine::Machines;
use crate::progress::MANY;
use crate::record::{Record, Table};
use crate::session::Session;
use crate::terminal::{log, output, print, printable};
use costof_lab::host::Host;
use costof_model::Hosts;
use costof_model::node_set::folded;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};

/// The run of a host; `None` if there is nothing left to show of it.
type Ended = Result<Option<Record>>;

/// Checks that the options allow several hosts.
pub(super) fn check(options: &RunOptions) -> Result<()> {
    let mut seen = BTreeSet::new();
    for host in options.on.iter().map(ToString::to_string) {
        if !seen.insert(host.clone()) {
            bail!("--on {host} is given twice");
        }
    }
    if options.printing.json {
        bail!(
            "--json is for one host: with several, each has a run file of its own (--out DIR, then \
             `costof export FILE`)"
        );
    }
    if options.history && options.on.len() >= MANY {
        bail!(
            "--history is for fewer than {MANY} hosts: `costof history FILE…` with the runs of one \
             says what changed there"
        );
    }
    match &options.out {
        Some(folder) if folder.exists() && !folder.is_dir() => bail!(
            "{} is a file: with several hosts, --out names a folder for one file each",
            folder.display()
        ),
        _ => Ok(()),
    }
}

/// Measures on each host. Hosts that are one machine take turns; the others run at the same time. A host that fails
/// costs its own run only.
pub(super) fn measure(session: Session<'_>, here: &Hosts) -> Done {
    let options = session.options;
    let hosts = &options.on;
    let is_many = hosts.len() >= MANY;
    let done = AtomicUsize::new(0);
    let all = on_each(&session, hosts, &|host, connected| {
        let on = Hosts { on: Some(host.to_string()), ..here.clone() };
        let machines = Machines::connect(&on, session.setting(), &session.display);
        connected();
        let ended = machines.and_then(|machines| {
            session.measure_on(machines, on, None, &mut |controller| controller.execute())
        });
        if !is_many {
            return ended;
        }
        let ended = ended.and_then(concluded);
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        let how = if ended.is_ok() { "measured" } else { "failed" };
        let line = format!("{host}: {how}, {count} of {} hosts", hosts.len());
        session.display.say(&line);
        ended
    })?;
    let table = session.table;
    drop(session);
    let mut worst = 0;
    let mut measured: Vec<String> = Vec::new();
    for (host, ended) in all {
        let code = code_of(table, host, ended, options);
        worst = worst.max(code);
        if code == 0 {
            measured.push(host.to_string());
        }
    }
    if is_many {
        print(summary(&measured, options))?;
    }
    Ok(ExitCode::from(worst))
}

/// What becomes of each host, in their order. As many threads as hosts may be measured at the same time take one
/// after the other. `measure` calls what it is given when it has connected.
fn on_each<'h>(
    session: &Session<'_>,
    hosts: &'h [Host],
    measure: &(dyn Fn(&Host, &dyn Fn()) -> Ended + Sync),
) -> Result<Vec<(&'h Host, Ended)>> {
    let may_be_one_machine = hosts.iter().any(|host| !matches!(host, Host::Ssh(_)));
    let all_connected: OnceLock<Barrier> = OnceLock::new();
    let queue = Mutex::new(hosts.iter().enumerate());
    let work = || {
        let mut ended = Vec::new();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let is_first = ended.is_empty();
            let is_interrupted = session.setting().interrupted.load(Ordering::Relaxed);
            let Some((position, host)) = next.filter(|_| is_first || !is_interrupted) else {
                return ended;
            };
            // Nothing is measured while other hosts that may be the same machine still describe it.
            let connected = || {
                if is_first && may_be_one_machine {
                    all_connected.wait().wait();
                }
            };
            ended.push((position, host, measure(host, &connected)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let count = hosts.len().min(usize::from(session.options.fanout));
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work);
        let (running, failed): (Vec<_>, Vec<_>) = (0..count).map(start).partition(Result::is_ok);
        // A thread that could not be started is not waited for: the others take its hosts.
        all_connected.get_or_init(|| Barrier::new(running.len()));
        if let (true, Some(Err(error))) = (running.is_empty(), failed.first()) {
            return Err(Error::Nothing(format!("cannot start a thread: {error}")));
        }
        let ended = running.into_iter().flatten().flat_map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok(ended.collect::<Vec<_>>())
    })?;
    all.sort_by_key(|(position, _, _)| *position);
    let all = all.into_iter().map(|(_, host, ended)| (host, ended));
    Ok(all.collect())
}

/// What one of many hosts ended with; its run is not kept in memory.
fn concluded(record: Option<Record>) -> Ended {
    match record {
        Some(record) if record.run.end.is_none() => Err(Error::Interrupted),
        Some(record) if !record.run.has_asked_for() => Err(Error::Nothing(format!(
            "nothing could be measured: `costof show {}` has the reasons",
            record.path().display()
        ))),
        _ => Ok(None),
    }
}

/// Shows how it went on a host; the exit code.
fn code_of(table: Table, host: &Host, ended: Ended, options: &RunOptions) -> u8 {
    let shown = ended.and_then(|record| match record {
        None => Ok(ExitCode::SUCCESS),
        Some(record) => {
            writeln!(output(), "{}:", printable(host))?;
            print_ended(table, &record, options)
        }
    });
    match &shown {
        Ok(code) if *code == ExitCode::SUCCESS => 0,
        Ok(_) => INTERRUPTED,
        Err(error) => {
            log(format!("{host}: {error}"));
            error.exit_code()
        }
    }
}

/// On which of many hosts it went well, and how to go on.
fn summary(measured: &[String], options: &RunOptions) -> String {
    let names: Vec<&str> = measured.iter().map(String::as_str).collect();
    let done = if options.dry_run { "planned" } else { "measured" };
    let (count, all) = (names.len(), options.on.len());
    let mut text = format!("{count} of {all} hosts {done}");
    if count > 0 {
        text.push_str(&format!(": {}", folded(&names)));
    }
    text.push('\n');
    if let Some(folder) = options.out.as_ref().filter(|_| !options.dry_run && count > 0) {
        let folder = folder.display();
        text.push_str(&format!("Which of them are odd: `costof fleet {folder}`\n"));
    }
    text
}
