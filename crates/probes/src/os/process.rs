//! `os.process`: what starting a process costs, until it has ended.

mod role;

use crate::prelude::*;
use costof_os::process::spawn::Starting;
use role::Parent;

const MIB_64: u64 = 64 << 20;
const GIB: u64 = 1 << 30;

words! {
    /// The call.
    pub(crate) enum How => Starting {
        /// fork() of the C library: the child has a copy of its parent
        Fork = "fork",
        /// what vfork does in the kernel (clone with CLONE_VM and CLONE_VFORK): the child borrows
        /// its parent's memory, and the parent waits until the child ends or executes a program
        Vfork = "vfork",
        /// posix_spawn() of the C library, which borrows memory too, and executes a program
        PosixSpawn = "posix_spawn",
        /// the system call clone3 without flags: fork without the C library
        Clone3 = "clone3",
    }

    /// Whether the child executes a program.
    pub(crate) enum Exec {
        /// it ends at once
        No = "no",
        /// it executes a static program of a few instructions, which ends at once
        Yes = "yes",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Process>();

point! {
    /// What does it cost to start a process that does nothing, until it has ended, by the size of
    /// its parent?
    ///
    /// Children run one after the other on the parent's CPU. The time is read before the call,
    /// after it, and after waitpid; the exit code shows what the child did. The cost includes the
    /// child's page faults and its end. The parent is a worker of one thread (with two, the C
    /// library's fork takes locks, and a third longer). It is a large program, but
    /// excludes from a fork (MADV_DONTFORK) what a program of a few lines does not have: its heap,
    /// the tables that relocation has filled in, and libraries other than the C library. So a fork
    /// copies what such a program copies, and what resident adds; the metric anonymous says how
    /// much. The static build copies its tables too, since its C library is among them.
    /// The executed program lies in a memory file, is linked to nothing and gets no environment. So
    /// execve is measured without a file system and without the dynamic linker, which takes most of the time of an ordinary
    /// program such as /bin/true. A fork copies the page tables of touched memory and marks every
    /// page as shared, so its cost grows with the number of pages, not with their content. The
    /// memory is on the smallest pages, because huge ones would hide that.
    ///
    /// # Predicted from
    /// three system calls (os.syscall); making and ending a process and executing a program, in
    /// opens and closes of a file (os.syscall); where a fork copies page tables, 100 to 250 cycles
    /// (cpu.frequency) and a hundredth to a thirtieth of an open for each resident page
    ///
    /// # Sources
    /// - fork(2), vfork(2), clone(2), posix_spawn(3), execve(2)
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_proc
    /// - A. Baumann, J. Appavoo, O. Krieger, T. Roscoe, A fork() in the road, HotOS 2019
    /// - CSE 221 System Measurement Project, 2014: creating a process 20.33 µs, sd 3.17
    ///
    /// # Needs
    /// - as much free memory as resident says
    /// - for clone3: Linux 5.3, and a container that lets it through
    /// - for exec: /proc, and memory files that may be executed (vm.memfd_noexec)
    pub(crate) struct Process of "os.process" {
        /// the call
        how: How = words(),
        /// whether the child executes a program
        exec: Exec = words(),
        /// touched memory that the parent has in addition to its own, on small pages
        resident: u64 = bytes(0..=1 << 40, &[0, MIB_64, GIB]),
    }
}

impl Measure for Process {
    // 3: a fork copies little of the worker.
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = metrics! {
        /// from before the call until the child has ended and was waited for
        latency: Nanoseconds Lower,
        /// the part of it until the call has returned in the parent; vfork and posix_spawn return
        /// after the child has ended or executed
        call: Nanoseconds Lower,
        /// the parent's resident memory, its own included (VmRSS)
        resident: Bytes Neither,
        /// the part of it that belongs to no file and of which a fork copies the page tables, by
        /// smaps
        anonymous: Bytes Neither,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["how", "exec"]];
    // A worker keeps what it has measured, and a fork copies that. To give every point the same
    // start, each has its launches alone.
    const BLOCKS_BY: NameList = &["how", "exec", "resident"];
    const ROLES: &'static [StartRole] = &[alone::<_, Parent>];

    headlines! {
        "process: fork and exit": {},
        "process: fork and exit, 64 MiB resident": { resident: MIB_64 },
        "process: vfork and exit": { how: How::Vfork },
        "process: posix_spawn of a program": { how: How::PosixSpawn, exec: Exec::Yes },
    }

    /// For calls that borrow the parent's memory, its size does not matter.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let borrowing = [(How::Vfork, Exec::No), (How::PosixSpawn, Exec::Yes)];
        let large = borrowing.map(|(how, exec)| Process { how, exec, resident: GIB });
        Planned::all(large)
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.resident
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let mut cost = syscall::measured_cost(measured, syscall::Call::Getppid)? * 3.0;
        let copies = matches!(point.how, How::Fork | How::Clone3);
        let open = syscall::measured_cost(measured, syscall::Call::Open)?;
        let (times, made) = if copies {
            (COPIED, "a small process")
        } else {
            (BORROWED, "a process that borrows memory")
        };
        cost += (open.clone() * times).named(format_args!("to make {made} and to end it"));
        if point.exec == Exec::Yes {
            cost += (open.clone() * EXECUTED).named("to execute a static program");
        }
        let pages = point.resident / facts.memory.page_bytes.unwrap_or(4096);
        if copies && pages > 0 {
            let counts = cycles(measured, PAGE_CYCLES, "to change its counts")?;
            let page = (counts + open * PAGE_CODE).named("to copy and drop a page's entry");
            cost += page * pages as f64;
        }
        cost.predict("latency")
    }
}

// In opens and closes of a file, which take locks, walk a tree, and allocate and free an object, and
// which mitigations slow down alike.
/// Making and ending a small process: a dozen objects, ten to twenty mappings to copy and to remove,
/// as many page faults of both, page tables, scheduling.
const COPIED: (f64, f64) = (35.0, 105.0);
/// The same for a process that borrows its parent's address space: the objects, and two context
/// switches.
const BORROWED: (f64, f64) = (7.0, 20.0);
/// Additional time for executing a static program of one page: a new address space, its stack and
/// mappings, half a dozen page faults, and removing all of it.
const EXECUTED: (f64, f64) = (25.0, 70.0);
/// Copying a page-table entry at the fork and dropping it at the end, in cycles: four atomic
/// changes of counts in a structure of the page, 64 bytes that are in a cache.
const PAGE_CYCLES: (f64, f64) = (100.0, 250.0);
/// And the functions that do it, in opens and closes of a file, which call hundreds.
const PAGE_CODE: (f64, f64) = (0.01, 0.035);
