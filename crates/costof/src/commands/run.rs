//! `costof run`: measures.

use super::{history, show::print_run};
use crate::cli::RunOptions;
use crate::error::{Done, Error, INTERRUPTED, bail};
use crate::machine::{self, Machines};
use crate::plan::request::Request;
use crate::record::Record;
use crate::resume;
use crate::session::{Session, hosts};
use crate::terminal::{log, watch_interrupts};
use costof_lab::host::Host;
use costof_measure::probe::Probe;
use costof_model::rows::Hosts;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Barrier, OnceLock};

pub(crate) fn run(table: &'static [&'static Probe], options: &RunOptions) -> Done {
    // The request is checked before anything starts.
    let request = Request::new(table, options)?;
    let several = options.on.len() > 1;
    if several {
        check_several(options)?;
    }
    let interrupted = watch_interrupts()?;
    // A file to resume is checked before the machine is described.
    let resumed = options.resume.as_deref().map(Record::reopen).transpose()?;
    let hosts = match &resumed {
        Some(record) => record.run.run.plan.hosts.clone(),
        None => machine::resolved(hosts(options))?,
    };
    if resumed.is_some() {
        resume::check_commands(&hosts, options.force)?;
    }
    let remote_costof = hosts.remote_costof.clone();
    let remote_costof = remote_costof.as_ref();
    let session = Session::new(table, options, vec![request], remote_costof, &interrupted)?;
    if several {
        return on_several(session, &hosts);
    }
    let done = session.measure(hosts, resumed)?;
    drop(session);
    match done {
        Some(record) => show(&record, options),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Checks that the options allow several hosts.
fn check_several(options: &RunOptions) -> Result<(), Error> {
    for (position, host) in options.on.iter().enumerate() {
        if options.on[..position].contains(host) {
            bail!("--on {host} is given twice");
        }
    }
    if options.printing.json {
        bail!(
            "--json is for one host: with several, each has a run file of its own (--out DIR, then \
             `costof export FILE`)"
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

/// Measures the same on each host. Hosts that are one machine take turns; the others run at the same time.
fn on_several(session: Session<'_>, here: &Hosts) -> Done {
    let options = session.options;
    let hosts = &options.on;
    let all_connected: OnceLock<Barrier> = OnceLock::new();
    let measure = &|host: &Host| -> Result<Option<Record>, Error> {
        let hosts = Hosts {
            on: Some(host.to_string()),
            ..here.clone()
        };
        let machines = Machines::connect(&hosts, session.setting(), &session.display);
        // Nothing is measured while other hosts still describe their machines.
        all_connected.wait().wait();
        session.measure_on(machines?, hosts, None)
    };
    let all: Vec<Result<Option<Record>, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = hosts
            .iter()
            .map(|host| std::thread::Builder::new().spawn_scoped(scope, move || measure(host)))
            .collect();
        // A host without a thread is not waited for.
        let started = running.iter().filter(|run| run.is_ok()).count();
        all_connected.get_or_init(|| Barrier::new(started));
        let ended = running.into_iter().map(|run| {
            let run =
                run.map_err(|error| Error::Nothing(format!("cannot start a thread: {error}")))?;
            let ended = run.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect()
    });
    drop(session);
    let mut worst = 0;
    for (host, done) in hosts.iter().zip(all) {
        let shown = done.and_then(|record| match record {
            None => Ok(ExitCode::SUCCESS),
            Some(record) => {
                writeln!(io::stdout(), "{host}:")?;
                show(&record, options)
            }
        });
        let code = match &shown {
            Ok(code) if *code == ExitCode::SUCCESS => 0,
            Ok(_) => INTERRUPTED,
            Err(error) => {
                log(format!("{host}: {error}"));
                error.exit_code()
            }
        };
        worst = worst.max(code);
    }
    Ok(ExitCode::from(worst))
}

/// Prints the results of a run, and how it ended.
fn show(record: &Record, options: &RunOptions) -> Done {
    let run = &record.run;
    print_run(run, record.path(), &options.printing)?;
    if run.end.is_none() {
        log(resume::advice(run, record.path()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if run.points.is_empty() {
        let why = "nothing could be measured; the reasons are above";
        return Err(Error::Nothing(why.to_owned()));
    }
    if options.history {
        history::print_latest(&run.host_name())?;
    }
    Ok(ExitCode::SUCCESS)
}
