//! Executables in memory files: some instructions, with no file system behind them, linked to nothing.
//!
//! Source: memfd_create(2), elf(5).

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

const NAME: &CStr = c"costof-program";
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = libc::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = libc::EM_AARCH64;

/// An executable of these instructions, which must not depend on where they are.
///
/// # Errors
///
/// Those of memfd_create(2) (Linux 3.17); `vm.memfd_noexec` and security modules can forbid it.
pub(super) fn memory_executable(code: &[u8]) -> io::Result<File> {
    let mut file = executable_memory_file()?;
    file.write_all(&image(code))?;
    Ok(file)
}

/// The path by which this process and its children execute a memory file, as long as it is open.
pub(super) fn memory_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn executable_memory_file() -> io::Result<File> {
    let file = match memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Before Linux 6.3, every memory file is executable, and the flag is unknown.
        Err(Errno::INVAL) => memfd_create(NAME, MemfdFlags::CLOEXEC),
        answer => answer,
    };
    Ok(file?.into())
}

/// A header, one segment that is the whole file, a stack that is not executable, and the instructions.
fn image(code: &[u8]) -> Vec<u8> {
    const HEADER_BYTES: u64 = 64;
    const SEGMENT_BYTES: u64 = 56;
    const SEGMENTS: u64 = 2;
    const ADDRESS: u64 = 0x40_0000;
    /// The largest base page.
    const ALIGNMENT: u64 = 0x1_0000;
    const LOADED: u32 = 1;
    const STACK: u32 = 0x6474_e551;
    const READABLE_EXECUTABLE: u32 = 5;
    const READABLE_WRITABLE: u32 = 6;
    let code_at = HEADER_BYTES + SEGMENTS * SEGMENT_BYTES;
    let file_bytes = code_at + code.len() as u64;

    let mut file = Vec::with_capacity(file_bytes as usize);
    // 64-bit, little-endian, version 1, System V; an executable of fixed addresses.
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    file.extend([0; 8]);
    file.extend(2_u16.to_le_bytes());
    file.extend(MACHINE.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend((ADDRESS + code_at).to_le_bytes());
    // Segments directly behind this header, no sections, no flags.
    file.extend(HEADER_BYTES.to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    for number in [HEADER_BYTES, SEGMENT_BYTES, SEGMENTS, 0, 0, 0] {
        file.extend((number as u16).to_le_bytes());
    }
    for (kind, access, address, bytes, alignment) in [
        (LOADED, READABLE_EXECUTABLE, ADDRESS, file_bytes, ALIGNMENT),
        (STACK, READABLE_WRITABLE, 0, 0, 16),
    ] {
        file.extend(kind.to_le_bytes());
        file.extend(access.to_le_bytes());
        // Offset, virtual and physical address, bytes in the file and in memory.
        for number in [0, address, address, bytes, bytes, alignment] {
            file.extend(number.to_le_bytes());
        }
    }
    file.extend(code);
    file
}
