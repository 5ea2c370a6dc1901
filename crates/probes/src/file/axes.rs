//! What the probes of files vary, and what those of reading and writing blocks measure.

use crate::prelude::*;

/// The value that stands for the folder that [`costof_os::file::scratch`] chooses.
pub(crate) const TEMPORARY: &str = "temporary";

/// Metrics of reading and writing blocks.
pub(crate) const BLOCK_METRICS: &[Metric] = metrics! {
    /// one block: the time of many, divided by their number
    cost: Nanoseconds Lower,
    /// one block, from its request until it is complete; measured where that takes at least 100
    /// clock readings
    latency: Nanoseconds Lower,
    /// bytes of blocks divided by their time
    throughput: BytesPerSecond Higher,
    /// CPU time of the thread that reads or writes, per KiB
    cpu: Nanoseconds Lower,
    /// bytes that came from the device (with cache=direct, or went to it), divided by the bytes
    /// read or written: the smaller of /proc/self/io and the disk's own counter; over 1 where more
    /// was read than requested; absent where neither counts, and so is a number of a device
    device_share: One Neither,
};

words! {
    /// Which block comes next.
    pub(crate) enum Pattern {
        /// in random order, each once before any comes again (up to 262,144 blocks)
        Random = "random",
        /// in order, and from the beginning again
        Sequential = "sequential",
        /// in random order on a rotational disk: what moving the head costs; refused on other disks
        Seek = "seek",
    }
}

impl Pattern {
    /// The axis `pattern` of reads.
    pub(crate) fn reads() -> AxisOf<Pattern> {
        words().about(ABOUT_PATTERN)
    }

    /// The axis `pattern` of writes.
    pub(crate) fn writes() -> AxisOf<Pattern> {
        words_of(&[Pattern::Random, Pattern::Sequential]).about(ABOUT_PATTERN)
    }

    /// Whether a block does not follow the one before.
    pub(crate) fn jumps(self) -> bool {
        match self {
            Pattern::Random | Pattern::Seek => true,
            Pattern::Sequential => false,
        }
    }
}

const ABOUT_PATTERN: &str = "which block comes next";

/// The axis `dir`.
pub(crate) fn dir() -> AxisOf<Text> {
    place(&[(
            TEMPORARY,
            "the first of TMPDIR or else /tmp, the current folder, XDG_CACHE_HOME, HOME and /var/tmp that is not on a file system in memory",
        )],
        &[]).about("the folder in which the file lies, which never has a name there")
}

/// The axis `block`.
pub(crate) fn block(defaults: &[u64]) -> AxisOf<u64> {
    bytes(256..=1 << 20, defaults).about("bytes that one operation reads or writes")
}

/// The axis `size`.
pub(crate) fn size(defaults: &[u64]) -> AxisOf<u64> {
    bytes(64 << 10..=1 << 40, defaults)
        .about("bytes of the file; nothing is made that would fill its disk")
}
