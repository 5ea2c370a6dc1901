//! From which memory node pages come.
//!
//! Source: mbind(2), Linux Documentation/admin-guide/mm/numa_memory_policy.rst. A mapping with a policy of its own is
//! left alone by automatic NUMA balancing, which would move remote pages to the CPU that reads them.

use std::ffi::c_ulong;
use std::io;

use crate::memory::arena::Arena;
use crate::system_call::{check, invalid};

/// No kernel has more nodes (`MAX_NUMNODES` with `CONFIG_NODES_SHIFT=10`).
const NODES: usize = 1024;

/// Takes pages of an arena that are not in memory yet from this node and from no other, for which the kernel may drop
/// what it caches of files there.
///
/// # Errors
///
/// `InvalidInput` if no kernel has such a node or this one does not, or it has no memory; the errors of mbind(2): `EPERM`
/// under the usual seccomp filter of containers, `ENOSYS` without `CONFIG_NUMA`.
pub fn bind(arena: &Arena, node: u32) -> io::Result<()> {
    let node = node as usize;
    if node >= NODES {
        return Err(invalid(format!("there is no memory node {node}")));
    }
    let mut nodes = [0_u64; NODES / 64];
    nodes[node / 64] = 1 << (node % 64);
    let (start, mode) = (arena.address(), libc::MPOL_BIND as c_ulong);
    // The kernel subtracts one from the number of bits.
    let (bits, flags) = (NODES + 1, 0_usize);
    // SAFETY: the range is the arena's own, and a policy changes no content; the kernel reads as many bits as the array
    // has.
    check(unsafe {
        libc::syscall(libc::SYS_mbind, start, arena.len(), mode, nodes.as_ptr(), bits, flags)
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::PageSize;
    use std::fs;

    /// Whether this kernel, a filter or a cpuset lets nobody place memory there, or the node has none.
    fn is_refused(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EINVAL))
    }

    #[test]
    fn pages_come_from_the_node_that_is_asked_for() {
        let mut arena = Arena::map(1 << 20, PageSize::Base).unwrap();
        match bind(&arena, 0) {
            Err(error) if is_refused(&error) => return eprintln!("skipped: {error}"),
            placed => placed.unwrap(),
        }
        arena.populate().unwrap();
        assert_eq!(arena.as_slice().iter().find(|byte| **byte != 0), None);
        let Ok(maps) = fs::read_to_string("/proc/self/numa_maps") else {
            return eprintln!("skipped: this kernel does not say where pages are");
        };
        let start = format!("{:x} ", arena.address());
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        let has = |word: String| line.split(' ').any(|found| found == word);
        assert!(has("bind:0".to_owned()), "{line}");
        assert!(has(format!("N0={}", arena.len() / rustix::param::page_size())), "{line}");
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        let arena = Arena::map(1 << 16, PageSize::Base).unwrap();
        assert_eq!(bind(&arena, 1024).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let error = bind(&arena, 1023).unwrap_err();
        assert!(is_refused(&error), "{error}");
    }
}
