//! Compares a run file at its end with what was written to it, and saves the run should others have removed or
//! changed the file.

use super::{Record, date, new_id};
use crate::error::{Context, Result, bail};
use crate::files;
use crate::history::remember;
use crate::terminal::quoted;
use costof_model::run_file;
use costof_os::memory::pattern::{CHECKSUM_OF_NOTHING, extend_checksum};
use costof_os::process::NO_WAIT;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::SystemTime;

/// The length of a content and its checksum: enough to notice changes that nobody made on purpose to deceive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum(u64, u64);

impl Checksum {
    pub(super) const NOTHING: Checksum = Checksum(0, CHECKSUM_OF_NOTHING);

    pub(super) fn add(&mut self, bytes: &[u8]) {
        *self = Checksum(self.0 + bytes.len() as u64, extend_checksum(self.1, bytes));
    }

    pub(super) fn of_file(file: &File) -> io::Result<Checksum> {
        let mut checksum = Checksum::NOTHING;
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read_at(&mut part, checksum.0)? {
                0 => return Ok(checksum),
                read => checksum.add(&part[..read]),
            }
        }
    }
}

impl Record {
    /// Checks that the path still names what was written, and nothing else.
    ///
    /// # Errors
    /// It does not, and the run was saved, which the error says; or the disk does not take it.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.sync()?;
        let Err(what) = self.check() else {
            return Ok(());
        };
        let path = self.path.display().to_string();
        let what = format!("while costof wrote {path}, {what}");
        self.save().context(format_args!("{what}; what was measured cannot be saved elsewhere"))?;
        let saved = quoted(&self.path);
        let next = match self.run.end {
            Some(_) => format!("`costof show {saved}` shows it"),
            None => format!("`costof run --resume {saved}` measures what is missing"),
        };
        bail!("{what}; all that was measured is now in {saved}: {next}")
    }

    /// What others did to the file, if the path no longer leads to what was written.
    fn check(&self) -> Result<(), &'static str> {
        // What lies there now may be a pipe.
        let mut options = File::options();
        let found = options.read(true).custom_flags(NO_WAIT).open(&self.path).and_then(|file| {
            match file.metadata()? {
                data if data.is_file() => Checksum::of_file(&file),
                _ => Ok(Checksum::NOTHING),
            }
        });
        match found {
            Ok(content) if content == self.content => Ok(()),
            Ok(_) => Err("it was changed or replaced"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err("it was removed or moved"),
            Err(_) => Err("it became unreadable"),
        }
    }

    /// Writes the whole run to a new file: of the same name if there is none any more, else beside it, else among
    /// temporary files.
    fn save(&mut self) -> io::Result<()> {
        let name = format!("{}-saved.jsonl", new_id(&date(SystemTime::now())));
        let paths =
            [self.path.clone(), self.path.with_file_name(&name), std::env::temp_dir().join(&name)];
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        let permissions = self.file.metadata()?.permissions();
        let mut failed = io::ErrorKind::NotFound.into();
        for path in paths {
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            match folder.and_then(|()| options.open(&path)) {
                Err(error) => failed = error,
                Ok(mut file) => {
                    file.set_permissions(permissions)?;
                    for row in self.run.clone().into_rows() {
                        file.write_all(&run_file::line(&row))?;
                    }
                    file.sync_all()?;
                    files::sync_name(&path);
                    remember(&self.run.run.id, &path);
                    self.path = path;
                    return Ok(());
                }
            }
        }
        Err(failed)
    }
}
