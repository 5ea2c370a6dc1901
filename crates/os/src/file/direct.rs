//! The alignment that reads and writes need to bypass the page cache.
//!
//! Source: open(2) on `O_DIRECT`, statx(2) on `STATX_DIOALIGN` (Linux 6.1).

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// The alignment assumed for a file system that reports none: more than any known one needs.
const ASSUMED_BYTES: u32 = 4096;

/// The alignment in bytes of the offset and the length of direct reads and writes of this file; `None` if reads
/// cannot bypass the page cache.
///
/// # Errors
///
/// The errors of statx(2).
pub fn alignment(file: &File) -> io::Result<Option<u32>> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(Some(ASSUMED_BYTES));
    }
    let bytes = status.stx_dio_offset_align;
    Ok((status.stx_dio_mem_align > 0 && bytes > 0).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::data::{Access, DataFile};
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_aligned_so_can_be_read() {
        let Some(data) = DataFile::for_test(1 << 20) else {
            return;
        };
        let Some(aligned) = alignment(data.file()).unwrap() else {
            eprintln!("skipped: no direct reads on this file system");
            return;
        };
        assert!(aligned.is_power_of_two());
        let Ok(file) = data.open(Access::Direct) else {
            eprintln!("skipped: no direct reads on this file system");
            return;
        };
        let bytes = aligned as usize;
        let mut arena =
            crate::memory::arena::Arena::map(8192, crate::memory::arena::PageSize::Base).unwrap();
        file.read_exact_at(&mut arena.as_mut_slice()[..bytes], aligned.into()).unwrap();
        assert!(crate::file::data::is_content(&arena.as_slice()[..bytes], aligned.into()));
    }
}
