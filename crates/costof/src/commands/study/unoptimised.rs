//! The second run of a study: the same points measured by an unoptimised build.

use super::{Command, RUN, UNOPTIMISED, unoptimised_build};
use crate::error::{Context, Error, bail, wrong};
use crate::machine::Machine;
use crate::session::Programs;
use crate::terminal::log;
use crate::{record, resume};
use costof_lab::host::Host;
use costof_lab::launch::Setting;
use costof_measure::schedule::Precision;
use costof_model::run_file::Run;
use std::path::Path;
use std::sync::atomic::AtomicBool;

impl Command<'_> {
    /// Reports which build measures what.
    pub(super) fn log_builds(&self) -> Result<(), Error> {
        if cfg!(debug_assertions) {
            log(
                "this costof is itself an unoptimised build (`cargo build --release` makes the other): its own code is slower",
            );
        }
        if !self.study.asks_unoptimised(&self.infos).map_err(wrong)? {
            return Ok(());
        }
        match &self.unoptimised {
            Some(build) => log(format!(
                "after the rest, the unoptimised build {} measures some of it too",
                build.display()
            )),
            None => log(format!(
                "some of its figures are of an unoptimised build: {}; without it, they are absent",
                unoptimised_build::how()
            )),
        }
        Ok(())
    }

    /// The complete main run, if only the run of the unoptimised build is missing and the user wants to
    /// continue (`goes_on`); `None` if nothing was measured. An existing run is never overwritten.
    pub(super) fn first_half(&self, goes_on: bool) -> Result<Option<Run>, Error> {
        let [first, second] = [RUN, UNOPTIMISED].map(|file| self.folder.join(file));
        let path = first.display();
        if !first.exists() {
            if second.exists() {
                let second = second.display();
                bail!(
                    "{second} exists already, without the {RUN} that it belongs to: name another folder with --out"
                );
            }
            return Ok(None);
        }
        if !goes_on || second.exists() {
            bail!(
                "{path} exists already: name another folder with --out, or show that run with `costof study {} --run {path}`",
                self.named()
            );
        }
        let run = record::read(&first)?;
        if run.end.is_none() {
            let command = resume::command(&first, false);
            bail!(
                "{path} exists already and was interrupted: `{command}` measures what is missing, and then the same command continues with the unoptimised build"
            );
        }
        let asked = self.options.measuring.precision().name();
        let precision = &run.run.plan.precision;
        if precision != asked {
            bail!(
                "{path} exists already, with precision {precision}, but {asked} is asked for the unoptimised build: measure both alike"
            );
        }
        log(format!(
            "{path} exists already: only the unoptimised build is measured"
        ));
        Ok(Some(run))
    }

    /// The unoptimised build as a host, if there is one and the study has points for it.
    pub(super) fn unoptimised(&self) -> Result<Option<Host>, Error> {
        let Some(build) = &self.unoptimised else {
            return Ok(None);
        };
        let found = build.canonicalize();
        let build = found.context(format_args!("cannot find {}", build.display()))?;
        if self.selected(true).next().is_none() {
            return Ok(None);
        }
        let quoted = build.display().to_string().replace('\'', r"'\''");
        Ok(Some(Host::Exec(format!("'{quoted}' worker"))))
    }

    /// Checks that the unoptimised build is a costof, and that it is unoptimised.
    pub(super) fn check_unoptimised(
        &self,
        host: &Host,
        interrupted: &AtomicBool,
    ) -> Result<(), Error> {
        let setting = Setting {
            command: &Programs::new(None)?.worker,
            limit: self.options.measuring.limit(),
            interrupted,
        };
        let machine = Machine::connect(host, setting).map_err(|error| match error {
            Error::Nothing(reason) => wrong(format!(
                "--unoptimised names no costof that answers: {reason}"
            )),
            error => error,
        })?;
        // Older versions do not report it.
        if machine.description.unoptimised == Some(false) {
            bail!(
                "--unoptimised names an optimised build, by what {host} says about itself: `cargo build` makes the other, target/debug/costof"
            );
        }
        Ok(())
    }

    /// The command with which the unoptimised build measures what is missing after a complete main run.
    pub(super) fn second_half_command(&self) -> String {
        let options = self.options;
        let precision = match options.measuring.precision() {
            Precision::Quick => " --quick",
            Precision::Default => "",
            Precision::Full => " --full",
        };
        let cpu = options.measuring.cpu.as_ref();
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" --cpu {cpu}"));
        let places = options.places.iter();
        let places: String = places
            .map(|(axis, values)| format!(" --set {axis}={}", values.join(",")))
            .collect();
        let build = self.unoptimised.as_deref().unwrap_or(Path::new("PATH"));
        format!(
            "costof study {}{precision}{cpu}{places} --unoptimised {} --out {}",
            self.named(),
            build.display(),
            self.folder.display()
        )
    }
}
