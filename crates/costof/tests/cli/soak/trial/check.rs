//! What must hold after a trial.

use super::{Fault, OLD_PAGE, POLL, Trial, files, run_files, wait};
use costof_model::run_file::{self, RunFileError};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long what was started may take to end after its command.
const END_LIMIT: Duration = Duration::from_secs(30);

impl Trial {
    /// What is wrong with how it ended, and with what it wrote.
    pub(super) fn check_end(&mut self, code: Option<i32>) -> Vec<String> {
        let (out, err) = (self.text("out"), self.text("err"));
        let mut found = Vec::new();
        if err.contains("panicked") || out.contains("panicked") {
            found.push(format!("a panic: {err}"));
        }
        // What ends the shell around it has this code there.
        let may_be_killed = self.has_killed || matches!(self.fault, Fault::Memory | Fault::Signal);
        self.has_killed |= !matches!(code, Some(0..=3 | 130));
        match code {
            Some(0..=3 | 130) => {}
            None | Some(129..160) if may_be_killed => {}
            // The start of the program itself has failed.
            Some(126 | 127) if err.contains("shared librar") || err.contains("sh:") => {}
            other => found.push(format!("ended with {other:?}: {err}")),
        }
        // It may be the reason that cannot be written.
        let may_be_silent =
            self.fault == Fault::FailingDisk && self.what.starts_with("write") && err.is_empty();
        if matches!(code, Some(2 | 3)) && !has_reason(&err) && !may_be_silent {
            found.push(format!("code {code:?} without a reason: {err}"));
        }
        if out.contains("LEFT") {
            found.push(format!("a link is left: {out} {err}"));
        }
        found
    }

    pub(super) fn check_nothing_runs(&self) -> Option<String> {
        let began = Instant::now();
        while !self.place.running().is_empty() {
            if began.elapsed() > END_LIMIT {
                let left = format!("still running: {:?}", self.place.running());
                self.kill_all();
                return Some(left);
            }
            sleep(POLL);
        }
        None
    }

    /// Files and devices that nobody needs any more.
    pub(super) fn check_left(&self) -> Vec<String> {
        let mut found = Vec::new();
        if Path::new("/sys/class/net/costof").exists() {
            found.push("a device costof is left".to_owned());
        }
        let folder = self.folder();
        let page = fs::read_to_string(folder.join("page.html")).unwrap_or_default();
        if page != OLD_PAGE && !page.trim_end().ends_with("</html>") {
            found.push(format!("page.html has {} bytes, and no end", page.len()));
        }
        let is_temporary = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "tmp");
        let mut left: Vec<PathBuf> = files(&folder).into_iter().filter(is_temporary).collect();
        left.extend(
            fs::read_dir(self.place.path("tmp")).unwrap().flatten().map(|entry| entry.path()),
        );
        if !left.is_empty() && !self.has_killed {
            found.push(format!("left: {left:?}"));
        }
        found
    }

    /// What is lost of the run files, and how they go on.
    pub(super) fn check_runs(&self) -> Vec<String> {
        let files = run_files(&self.folder());
        let lost = self
            .written
            .keys()
            .filter(|path| path.starts_with(self.folder()) && !files.contains(path));
        let mut found: Vec<String> =
            lost.map(|path| format!("{} is gone", path.display())).collect();
        for file in files {
            let written = self.written.get(&file).map_or(&[][..], |bytes| bytes);
            if let Err(why) = self.check_run(&file, written) {
                found.push(format!("{}: {why}", file.display()));
            }
        }
        found
    }

    fn check_run(&self, file: &Path, written: &[u8]) -> Result<(), String> {
        let bytes = fs::read(file).unwrap();
        if !bytes.starts_with(written) {
            return Err("what was written has changed".to_owned());
        }
        match run_file::read(&bytes[..]) {
            Err(RunFileError::Empty | RunFileError::Unfinished) if written.is_empty() => {
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
            Ok(_) => {}
        }
        let resume = self.place.costof(&format!("run --resume {} --force", file.display()));
        let resume = match &self.namespaces {
            Some(namespaces) => namespaces.at_the_near_end(&resume),
            None => resume,
        };
        let mut child = self.spawn(resume, "resume-");
        let Some(code) = wait(&mut child, || {}) else {
            return Err(format!("--resume {}", self.hangs(&mut child, "resume-err")));
        };
        let said = self.text("resume-err");
        if said.contains("panicked") {
            return Err(format!("--resume panics: {said}"));
        }
        let resumed = fs::read(file).unwrap();
        let kept = &bytes[..run_file::read(&bytes[..]).unwrap().whole_bytes as usize];
        let run =
            run_file::read(&resumed[..]).map_err(|error| format!("after --resume: {error}"))?;
        let launches: BTreeSet<_> =
            run.launches.iter().map(|row| (row.block, row.launch)).collect();
        match code {
            _ if !resumed.starts_with(kept) => Err("--resume changes what was written".to_owned()),
            _ if launches.len() != run.launches.len() => Err("a launch is there twice".to_owned()),
            Some(0) if run.end.is_none() => Err("--resume ends well without an end".to_owned()),
            Some(0) => Ok(()),
            Some(2 | 3) if has_reason(&said) => Ok(()),
            code => Err(format!("--resume ends with {code:?}: {said}")),
        }
    }
}

/// Whether an error says more than that there is one.
fn has_reason(err: &str) -> bool {
    err.lines().any(|line| line.starts_with("costof: ") && line.len() > 20)
}
