//! The second half of a study: the same by an unoptimised build.

use super::{Command, RUN, UNOPTIMISED};
use crate::commands::run::resume_by;
use crate::error::{Error, wrong};
use crate::machine::{Asking, Machine};
use crate::planning;
use crate::record;
use crate::session::own_commands;
use crate::tell::tell;
use costof_lab::host::Host;
use costof_measure::schedule::Precision;
use costof_model::run_file::Run;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

impl Command<'_> {
    /// Says which builds measure what.
    pub(super) fn tell_of_builds(&self) -> Result<(), Error> {
        if cfg!(debug_assertions) {
            tell(
                "this costof is itself an unoptimised build (`cargo build --release` makes the other): \
                 what it measures of its own code is slower",
            );
        }
        if self.study.asks_unoptimised(&self.infos).map_err(wrong)? {
            match &self.options.unoptimised {
                Some(build) => tell(format!(
                    "some of it is measured by the unoptimised build {} too, after the rest",
                    build.display()
                )),
                None => tell(
                    "some of its figures are those of an unoptimised build: `cargo build` makes one, \
                     and `--unoptimised target/debug/costof` measures them; without, they are absent",
                ),
            }
        }
        Ok(())
    }

    /// What was measured before, where only the unoptimised build is missing and it `goes_on` with that;
    /// `None` where nothing was measured. What is there is never measured over.
    pub(super) fn first_half(&self, goes_on: bool) -> Result<Option<Run>, Error> {
        let [first, second] = [RUN, UNOPTIMISED].map(|file| self.folder.join(file));
        let path = first.display();
        if !first.exists() {
            return match second.exists() {
                false => Ok(None),
                true => Err(wrong(format!(
                    "{} is there already, and no {RUN} that it belongs to: name another folder by --out",
                    second.display()
                ))),
            };
        }
        if !goes_on || second.exists() {
            return Err(wrong(format!(
                "{path} is there already: name another folder by --out, or show that run by `costof study \
                 {} --run {path}`",
                self.named()
            )));
        }
        let run = record::read(&first)?;
        if run.end.is_none() {
            let by = resume_by(&first, false);
            return Err(wrong(format!(
                "{path} is there already and was interrupted: `{by}` measures what is missing of it, and \
                 then the same command goes on with the unoptimised build"
            )));
        }
        let asked = planning::precision(&self.run_options(RUN)).name();
        if run.run.plan.precision != asked {
            return Err(wrong(format!(
                "{path} is there already, by precision {}, and the unoptimised build is asked for {asked}: \
                 measure both alike",
                run.run.plan.precision
            )));
        }
        tell(format!(
            "{path} is there already: only the unoptimised build is asked"
        ));
        Ok(Some(run))
    }

    /// The unoptimised build as a host, where there is one and the study asks something of it.
    pub(super) fn unoptimised(&self) -> Result<Option<Host>, Error> {
        let Some(build) = &self.options.unoptimised else {
            return Ok(None);
        };
        let cannot = |error| wrong(format!("cannot find {}: {error}", build.display()));
        let build = build.canonicalize().map_err(cannot)?;
        if self.selected(true).next().is_none() {
            return Ok(None);
        }
        let quoted = build.display().to_string().replace('\'', r"'\''");
        Ok(Some(Host::Exec(format!("'{quoted}' worker"))))
    }

    /// Looks whether the unoptimised build is a costof, and unoptimised.
    pub(super) fn meet(&self, host: &Host, interrupted: &AtomicBool) -> Result<(), Error> {
        let (worker, _) = own_commands(None)?;
        let asking = Asking {
            command: &worker,
            limit: Duration::from_secs(self.options.timeout),
            interrupted,
        };
        let met = Machine::meet(host, asking).map_err(|error| match error {
            Error::Nothing(reason) => wrong(format!("--unoptimised is no costof to ask: {reason}")),
            error => error,
        })?;
        match met.description.unoptimised {
            Some(false) => Err(wrong(format!(
                "--unoptimised is an optimised build, as {host} says of itself: `cargo build` makes \
                 the other, target/debug/costof"
            ))),
            // Older ones say nothing of it.
            Some(true) | None => Ok(()),
        }
    }

    /// The command that measures by the unoptimised build what is missing beside a complete run.
    pub(super) fn second_half_by(&self) -> String {
        let options = self.options;
        let precision = match planning::precision(&self.run_options(RUN)) {
            Precision::Quick => " --quick",
            Precision::Default => "",
            Precision::Full => " --full",
        };
        let cpu = options.cpu.as_ref();
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" --cpu {cpu}"));
        let build = options.unoptimised.as_deref().unwrap_or(Path::new("PATH"));
        format!(
            "costof study {}{precision}{cpu} --unoptimised {} --out {}",
            self.named(),
            build.display(),
            self.folder.display()
        )
    }
}
