//! What threads did, as the kernel numbers it.

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// It made a system call.
    Call {
        /// The number of the call (asm/unistd.h); [`FOREIGN_CALL`] for a program of another architecture.
        number: u16,
        /// The binary logarithm of the bytes that it moved, rounded down.
        size_log2: Option<u8>,
        /// If it moved bytes, the type of file that its first descriptor is of: the upper four bits of `st_mode` (inode(7)).
        file_type: u8,
    },
    /// It gave up its CPU.
    Wait {
        /// The number of the system call that it was in; absent for a page fault.
        call: Option<u16>,
    },
    /// It lost its CPU while it was ready.
    Preempted,
    /// It was woken; or it woke a thread that is not counted.
    WakeUp {
        /// The CPU of the waker.
        from: u16,
        /// The CPU on which it ran then.
        to: u16,
        /// Whether a counted thread woke it.
        by_itself: bool,
    },
    /// It touched a page that was not ready.
    Fault {
        /// Whether the page was there, so that it only may not be used in this way.
        is_present: bool,
        /// Whether it wrote.
        is_write: bool,
        /// Whether the kernel touched the page for it.
        in_kernel: bool,
    },
    /// It handled this signal.
    Signal(u8),
    /// It made a request to a block device.
    BlockIo {
        /// Whether it wrote.
        is_write: bool,
    },
}

impl Event {
    /// A system call that moved nothing.
    pub(crate) fn call(number: u16) -> Self {
        Self::Call { number, size_log2: None, file_type: 0 }
    }
}

/// Stands for the number of a call of a program of another architecture, such as 32-bit ones.
pub const FOREIGN_CALL: u16 = 0xfff;

/// How often a thread did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// How many of these returned an error.
    pub errors: u64,
    /// The bytes that they moved.
    pub bytes: u64,
    /// How long the thread did not run because of them, nanoseconds.
    pub off_cpu_ns: u64,
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTally {
    /// The number of its process.
    pub process: i32,
    /// Its own number.
    pub thread: i32,
    /// Its name at last.
    pub name: String,
    /// What it did, each event once.
    pub events: Vec<(Event, Tally)>,
}

/// The system calls that return how many bytes they moved.
pub(crate) const MOVING_CALLS: &str = "read write pread64 pwrite64 readv writev recvfrom sendto recvmsg sendmsg preadv pwritev \
    preadv2 pwritev2 sendfile splice tee vmsplice copy_file_range process_vm_readv process_vm_writev getdents64 getrandom";

/// The system calls that return in a new thread or process too, with 0.
pub(crate) const FORKING_CALLS: &str = "clone clone3 fork vfork";
