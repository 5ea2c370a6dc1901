//! What a fork of this process leaves out, so that it costs what it costs in a program of a few lines: a large
//! program has more memory to copy.
//!
//! Source: madvise(2) on `MADV_DONTFORK` (Linux 2.6.16) and `MADV_DONTNEED`; proc(5) on maps and on `VmFlags`
//! in smaps.

use std::fs;
use std::io;
use std::ops::Range;
use std::ptr;

use crate::memory::arena::{base_page_bytes, mapping_range};
use crate::process::status::kib_value;
use crate::system_call::{check, unsupported};

/// Below the stack pointer, this much stays: the frames of what is called next.
const FRAMES_BYTES: usize = 16 << 10;

/// While this exists, a fork copies of the mappings that this process had before only those of the program
/// without its relocated tables, of the C library, and of this thread's stack and variables.
#[derive(Debug)]
pub struct Uncopied(Vec<Range<usize>>);

impl Uncopied {
    /// From now on, until it is dropped; also gives back the unused part of this thread's stack. What is
    /// mapped later is copied.
    ///
    /// # Errors
    ///
    /// `Unsupported` in a process of several threads, another of which could fork too; those of /proc/self/maps
    /// and madvise(2).
    ///
    /// # Safety
    ///
    /// A child that is forked meanwhile may use only code, the C library and what was on this thread's stack:
    /// no heap, and no function through a table that relocation has filled in.
    pub unsafe fn begin() -> io::Result<Self> {
        if fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(unsupported("this process has several threads"));
        }
        let maps = fs::read_to_string("/proc/self/maps")?;
        let here = 0_u8;
        let stack = ptr::from_ref(&here).addr();
        let needed = Needed {
            stack,
            // SAFETY: returns the address of a variable of this thread.
            variables: unsafe { libc::__errno_location() }.addr(),
            library: (libc::fork as *const ()).addr(),
            // SAFETY: reads what the kernel told at the start.
            linker: unsafe { libc::getauxval(libc::AT_BASE) } as usize,
            code: (copied_bytes as *const ()).addr(),
        };
        let mut uncopied = Self(Vec::new());
        for range in needed.others(&maps) {
            advise(&range, libc::MADV_DONTFORK)?;
            uncopied.0.push(range);
        }
        if let Some(own) = mappings(&maps).find(|mapping| mapping.range.contains(&stack)) {
            // The kernel rounds the length up.
            let page = base_page_bytes();
            let unused = own.range.start..(stack - FRAMES_BYTES) / page * page;
            if !unused.is_empty() {
                advise(&unused, libc::MADV_DONTNEED)?;
            }
        }
        Ok(uncopied)
    }
}

impl Drop for Uncopied {
    fn drop(&mut self) {
        for range in &self.0 {
            // It fails for what was unmapped meanwhile.
            let _ = advise(range, libc::MADV_DOFORK);
        }
    }
}

fn advise(range: &Range<usize>, advice: libc::c_int) -> io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: two of the advices change only what forks do. The third is given for the part of this thread's
    // stack that no function uses.
    check(unsafe { libc::madvise(start, range.len(), advice) }).map(drop)
}

/// Bytes of memory of no file whose page-table entries a fork of this process copies.
///
/// # Errors
///
/// Those of reading /proc/self/smaps.
pub fn copied_bytes() -> io::Result<u64> {
    Ok(copied(&fs::read_to_string("/proc/self/smaps")?))
}

/// Sums `Anonymous` of the mappings that have no flag `dc`, do not copy.
fn copied(smaps: &str) -> u64 {
    let (mut kib, mut of_this) = (0, 0);
    for line in smaps.lines() {
        if let Some(value) = line.strip_prefix("Anonymous:") {
            of_this = kib_value(value).unwrap_or(0);
        } else if let Some(flags) = line.strip_prefix("VmFlags:")
            && !flags.split_whitespace().any(|flag| flag == "dc")
        {
            kib += of_this;
        }
    }
    kib * 1024
}

/// Addresses in what a child needs.
struct Needed {
    stack: usize,
    variables: usize,
    library: usize,
    /// 0 in a static program.
    linker: usize,
    /// In the program's own code.
    code: usize,
}

/// A line of /proc/self/maps.
struct Mapping<'a> {
    range: Range<usize>,
    permissions: &'a str,
    /// Empty for anonymous memory.
    name: &'a str,
}

fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let (start, end) = mapping_range(line)?;
        let mut words = line.split_whitespace().skip(1);
        Some(Mapping {
            range: start..end,
            permissions: words.next()?,
            name: words.nth(3).unwrap_or_default(),
        })
    })
}

impl Needed {
    /// The mappings without which a child can do.
    fn others(&self, maps: &str) -> Vec<Range<usize>> {
        let name_at = |address: usize| {
            let found = mappings(maps).find(|mapping| mapping.range.contains(&address));
            found.map(|mapping| mapping.name).filter(|name| !name.is_empty())
        };
        let files = [name_at(self.library), name_at(self.linker)];
        let program = name_at(self.code);
        let mut others = Vec::new();
        let mut is_after_code = false;
        // Where the variables of a file that begin as zero may follow, in memory of no name.
        let mut end_of_file = 0;
        for Mapping { range, permissions, name } in mappings(maps) {
            let is_code = permissions.contains('x');
            is_after_code |= is_code && program == Some(name);
            // The tables that relocation has filled in, which a small program has few of.
            let is_tables = is_after_code && !permissions.contains('w');
            let is_of_file = files.contains(&Some(name))
                || (program == Some(name) && !is_tables)
                || (name.is_empty() && range.start == end_of_file);
            if is_of_file {
                end_of_file = range.end;
            }
            let is_kernels = name.starts_with('[') && name != "[heap]";
            let is_own = [self.stack, self.variables].iter().any(|at| range.contains(at));
            if !is_of_file && !is_kernels && !is_own && !is_code {
                others.push(range);
            }
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with its tables, its heap, the C library with its zeroes, another library, a file, this thread's variables,
    /// the linker, the kernel's pages, the stack.
    const MAPS: &str = "\
1000-2000 r--p 00000000 fe:00 7 /bin/program
2000-3000 r-xp 00001000 fe:00 7 /bin/program
3000-4000 r--p 00002000 fe:00 7 /bin/program
4000-4800 rw-p 00003000 fe:00 7 /bin/program
4800-4900 rw-p 00000000 00:00 0
5000-6000 rw-p 00000000 00:00 0 [heap]
10000-11000 r-xp 00000000 fe:00 8 /lib/libc.so.6
11000-12000 rw-p 00001000 fe:00 8 /lib/libc.so.6
12000-13000 rw-p 00000000 00:00 0
14000-15000 r--p 00000000 fe:00 9 /lib/libm.so.6
16000-17000 rw-p 00000000 00:00 0
18000-19000 rw-p 00000000 00:00 0
20000-21000 rw-p 00000000 fe:00 10 /lib/ld.so
30000-31000 r--p 00000000 00:00 0 [vvar]
40000-50000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn a_child_has_what_it_needs() {
        let mut needed = Needed {
            stack: 0x4f000,
            variables: 0x18080,
            library: 0x10080,
            linker: 0x20000,
            code: 0x2000,
        };
        let dynamic = [0x3000, 0x5000, 0x14000, 0x16000];
        let starts = |needed: &Needed| -> Vec<usize> {
            let others = needed.others(MAPS).into_iter();
            others.map(|range| range.start).collect()
        };
        assert_eq!(starts(&needed), dynamic);
        // In a static program, the C library is part of it.
        (needed.library, needed.linker) = (0x2000, 0);
        assert_eq!(starts(&needed)[..2], [0x5000, 0x11000]);
    }

    #[test]
    fn what_is_not_copied_does_not_count() {
        let smaps = "1-2 rw-p\nAnonymous: 8 kB\nVmFlags: rd wr\n\
                     2-3 rw-p\nAnonymous: 16 kB\nVmFlags: rd dc wr\n3-4 rw-p\nAnonymous: 4 kB\nVmFlags: rd\n";
        assert_eq!(copied(smaps), 12 << 10);
    }

    #[test]
    fn a_process_of_several_threads_is_left_alone() {
        std::thread::scope(|scope| {
            // This test's thread is not the first one, unless tests run in that.
            scope.spawn(|| {
                // SAFETY: no child is forked meanwhile, since it is refused.
                assert!(unsafe { Uncopied::begin() }.is_err());
            });
        });
    }
}
