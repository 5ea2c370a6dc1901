//! `pg_test_fsync` of PostgreSQL: what its ways to make a block of 8 KiB durable cost.

use crate::error::failed;
use crate::tool::{Reading, Statistic, Tool, words};
use costof_os::file::data::DataFile;
use std::os::fd::AsRawFd;

/// A block of 8 KiB, written and made durable by fdatasync, in a file without a name that costof makes for it in the folder
/// that costof uses. Each of its dozen tests runs for this many seconds.
pub fn fdatasync(seconds: u32) -> Tool<'static> {
    let read = Reading::By(nanoseconds);
    let tool = Tool::simple("pg_test_fsync", Statistic::Mean, "", read);
    let mut file: Option<DataFile> = None;
    let arguments = move || {
        let no_file = |error| failed(format!("cannot make a file for pg_test_fsync: {error}"));
        // It is new in each round, and lasts until the next; pg_test_fsync writes all of it.
        let file = file.insert(DataFile::create(None).map_err(no_file)?);
        let number = file.file().as_raw_fd();
        Ok(words(&format!("-s {seconds} -f /proc/{}/fd/{number}", std::process::id())))
    };
    Tool { arguments: Box::new(arguments), ..tool }
}

/// The first line for fdatasync is about one write: `fdatasync   236.988 ops/sec    4220 usecs/op`.
fn nanoseconds(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.trim_start().starts_with("fdatasync"))?;
    let per_second: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1e9 / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL 15, the second table left out but for a line.
    const OUTPUT: &str = "\
1 second per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                       574.731 ops/sec    1740 usecs/op
        fdatasync                           236.988 ops/sec    4220 usecs/op
        fsync_writethrough                              n/a
        fdatasync                           729.121 ops/sec    1372 usecs/op
";

    #[test]
    fn its_file_has_no_name() {
        let mut tool = fdatasync(1);
        let arguments = match (tool.arguments)() {
            Ok(arguments) => arguments,
            Err(error) => return eprintln!("checked less: {error}"),
        };
        let file = std::fs::metadata(arguments.last().unwrap()).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&file), 0);
    }

    #[test]
    fn one_write_is_read() {
        assert_eq!(nanoseconds(OUTPUT), Some(1e9 / 236.988));
        for output in ["", "        fdatasync      n/a"] {
            assert_eq!(nanoseconds(output), None, "{output}");
        }
    }
}
