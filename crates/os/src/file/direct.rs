//! How reads and writes past the page cache must be aligned.
//!
//! Source: open(2) on `O_DIRECT`, statx(2) on `STATX_DIOALIGN` (Linux 6.1).

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// To what a direct read or write is aligned, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Where the memory begins.
    pub memory: u32,
    /// Where in the file it begins, and how long it is.
    pub file: u32,
}

/// What a file system that does not tell is taken to ask for: more than any asks that is known.
const UNTOLD: Alignment = Alignment {
    memory: 4096,
    file: 4096,
};

/// The alignment that this file asks for; none where it cannot be read past the page cache.
///
/// # Errors
///
/// What statx(2) says.
pub fn alignment(file: &File) -> io::Result<Option<Alignment>> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(Some(UNTOLD));
    }
    let told = Alignment {
        memory: status.stx_dio_mem_align,
        file: status.stx_dio_offset_align,
    };
    Ok((told.memory > 0 && told.file > 0).then_some(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::data::{Access, DataFile};
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_aligned_so_can_be_read() {
        let Ok(mut data) = DataFile::create(None) else {
            eprintln!("skipped: no folder on a disk to write to");
            return;
        };
        data.extend(1 << 20).unwrap();
        let Some(aligned) = alignment(data.file()).unwrap() else {
            eprintln!("skipped: no direct reads on this file system");
            return;
        };
        assert!(aligned.file.is_power_of_two() && aligned.memory.is_power_of_two());
        let Ok(file) = data.open(Access::Direct) else {
            eprintln!("skipped: no direct reads on this file system");
            return;
        };
        let bytes = aligned.file as usize;
        let mut arena =
            crate::memory::arena::Arena::map(8192, crate::memory::arena::PageSize::Base).unwrap();
        file.read_exact_at(&mut arena.as_mut_slice()[..bytes], u64::from(aligned.file))
            .unwrap();
        assert!(crate::file::data::is_content(
            &arena.as_slice()[..bytes],
            u64::from(aligned.file)
        ));
    }
}
