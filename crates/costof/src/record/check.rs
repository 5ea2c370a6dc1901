//! Checks at the end of a run that the path still names the file that was written, and that it has the length that was
//! written. Saves the run should others have removed or changed the file.

use super::{Record, date, new_id};
use crate::error::{Context, Result, bail};
use crate::files;
use crate::history::remember;
use crate::terminal::quoted;
use costof_model::run_file;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

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
        let here = self.file.metadata().map(|own| (own.dev(), own.ino(), self.bytes));
        match fs::metadata(&self.path).map(|named| (named.dev(), named.ino(), named.len())) {
            Ok(named) if here.is_ok_and(|here| here == named) => Ok(()),
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
