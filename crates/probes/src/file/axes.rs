//! What the probes of files vary, and what those of reading and writing blocks measure.

use crate::prelude::*;

/// The word for the folder that [`costof_os::file::scratch`] chooses.
pub(crate) const TEMPORARY: &str = "temporary";

/// What reading and writing blocks measure.
pub(crate) const BLOCK_METRICS: &[Metric] = metrics! {
    /// one block, time of many by their number
    cost: Nanoseconds Lower,
    /// each block, from its request until it is seen to be complete; where it takes 100 readings of the
    /// clock
    latency: Nanoseconds Lower,
    /// bytes of blocks by the time that they cost
    throughput: BytesPerSecond Higher,
    /// CPU time of the thread that reads or writes, for each KiB
    cpu: Nanoseconds Lower,
    /// bytes that came from the device, or with cache=direct went to it, for each that was read or
    /// written: the smaller of /proc/self/io and the disk's own counter; over 1 where more was read
    /// than requested; absent where neither counts
    device_share: One Neither,
};

words! {
    /// Which block comes next.
    pub(crate) enum Pattern {
        /// any: every block once before one comes again, as far as 262,144 of them go
        Random = "random",
        /// the one behind it, and the first behind the last
        Sequential = "sequential",
        /// any, on a disk that turns: what it costs to move the head; refused on others, where nothing
        /// moves
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
            "the first of TMPDIR or else /tmp, the current folder, XDG_CACHE_HOME, HOME and /var/tmp that is on no file system in memory",
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
