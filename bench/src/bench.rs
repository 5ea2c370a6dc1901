//! What every comparison is given: costof, a processor, a place for run files,
//! and the word that the user wants to stop.

use crate::child::{self, Finished, Interrupt};
use crate::costof;
use crate::error::{OrCannot, Result, failed};
use crate::machine;
use clap::Args;
use costof_model::run_file::Run;
use costof_os::sched::affinity;
use costof_peers::costof::{Costof, read};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How long a run may take that is not full: twice what `costof run` alone promises.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(120);
/// How often a run is looked at that is watched.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How often both sides (or the runs in a row) are repeated; each comparison has its own default
    #[arg(long, value_name = "N", global = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// The processor that both sides are measured on; without, the last one
    #[arg(long, value_name = "N", global = true)]
    pub(crate) cpu: Option<usize>,
    /// Which costof; without, the one of this workspace, built first
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) costof: Option<PathBuf>,
}

pub(crate) struct Bench {
    pub(crate) costof: Costof,
    pub(crate) interrupt: Interrupt,
    /// The processor that is measured on.
    pub(crate) cpu: usize,
    /// The processors that this process may use.
    pub(crate) cpus: Vec<usize>,
    rounds: Option<u32>,
    /// Beside the programs that Cargo has built: what is compiled and written here.
    folder: PathBuf,
}

impl Bench {
    pub(crate) fn prepare(options: Options) -> Result<Bench> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .or_cannot("watch for interrupts")?;
        let interrupt = Interrupt::from_flag(interrupted);
        let target = target_folder()?;
        let costof = costof::find(options.costof, &target)?;
        let cpus = affinity::allowed().or_cannot("read the allowed CPUs")?;
        let cpu = options.cpu.or(cpus.last().copied()).unwrap_or(0);
        if !cpus.contains(&cpu) {
            return Err(failed(format!("--cpu {cpu}: this process may use the CPUs {cpus:?}")));
        }
        let folder = target.join("costof-bench").join(machine::time_stamp(SystemTime::now()));
        fs::create_dir_all(&folder).or_cannot(format_args!("make {}", folder.display()))?;
        Ok(Bench { costof, interrupt, cpu, cpus, rounds: options.rounds, folder })
    }

    /// How many rounds: as asked, else `default`.
    pub(crate) fn rounds(&self, default: usize) -> usize {
        self.rounds.map_or(default, |rounds| rounds as usize)
    }

    /// All processors, the measured one first, for what takes several.
    pub(crate) fn measured_first(&self) -> Vec<usize> {
        let others = self.cpus.iter().filter(|cpu| **cpu != self.cpu);
        std::iter::once(&self.cpu).chain(others).copied().collect()
    }

    /// The same as `--cpu` takes it.
    pub(crate) fn cpu_list(&self) -> String {
        let cpus: Vec<String> = self.measured_first().iter().map(usize::to_string).collect();
        cpus.join(",")
    }

    /// The measured CPU and the next one.
    ///
    /// Errors: there is no other.
    pub(crate) fn two_cpus(&self) -> Result<[usize; 2]> {
        match self.measured_first()[..] {
            [first, second, ..] => Ok([first, second]),
            _ => Err(failed("it takes a second CPU")),
        }
    }

    /// `costof run` with these arguments, between blanks, and what its run file holds, which is kept under
    /// `name`.
    pub(crate) fn run(&self, name: &str, arguments: &str) -> Result<Run> {
        self.run_within(name, arguments, RUN_LIMIT)
    }

    /// The same of a run that may take so long.
    pub(crate) fn run_within(&self, name: &str, arguments: &str, limit: Duration) -> Result<Run> {
        let (file, arguments) = (self.file(name), words(arguments));
        self.costof.run(&file, &arguments, limit, &self.interrupt)
    }

    /// The same, watched while it runs: its process id is handed to `poll`.
    pub(crate) fn run_watched(
        &self,
        name: &str,
        arguments: &str,
        poll: &mut dyn FnMut(u32),
    ) -> Result<(Run, Finished)> {
        let (file, arguments) = (self.file(name), words(arguments));
        let mut command = self.costof.run_command(&file, &arguments);
        let (limit, interrupt) = (RUN_LIMIT, &self.interrupt);
        let finished = child::finish_watched(&mut command, limit, interrupt, POLL_INTERVAL, poll)?;
        Ok((read(&file)?, finished))
    }

    /// costof with these arguments, between blanks, run to its end.
    pub(crate) fn costof(&self, arguments: &str) -> Result<Finished> {
        let mut command = self.costof.command(&words(arguments));
        child::finish(&mut command, RUN_LIMIT, &self.interrupt)
    }

    /// Where the files of this bench are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of this bench.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A folder that outlives this run of the bench, for what is built once.
    pub(crate) fn lasting_folder(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// Says what is compared, and on which machine.
    pub(crate) fn introduce(&self, what: &str) {
        println!("{what}");
        println!("{}", machine::describe(SystemTime::now()));
        println!("costof: {}\n", self.costof.path().display());
    }

    /// Says where the files of this bench are, where there are any.
    pub(crate) fn conclude(&self) {
        if fs::read_dir(&self.folder).is_ok_and(|mut files| files.next().is_some()) {
            println!("The run files are in {}", self.folder.display());
        }
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// `--set` for each of these axes, between blanks, as `costof run` takes them.
pub(crate) fn settings(axes: &str) -> String {
    let settings = axes.split_whitespace().map(|axis| format!("--set {axis}"));
    settings.collect::<Vec<_>>().join(" ")
}

/// Where this program is.
pub(crate) fn own_program() -> Result<PathBuf> {
    std::env::current_exe().or_cannot("find this program's own file")
}

/// Where Cargo puts what it builds: this program is in `TARGET/PROFILE/`.
fn target_folder() -> Result<PathBuf> {
    let own = own_program()?;
    own.ancestors()
        .nth(2)
        .map(Path::to_owned)
        .ok_or_else(|| failed(format!("{} is in no target folder", own.display())))
}
