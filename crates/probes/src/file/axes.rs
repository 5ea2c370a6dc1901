//! What the probes of files vary.

use crate::literal::{list, text, word, words};
use costof_model::List;
use costof_model::axis::{Axis, Choice, Domain};
use costof_model::unit::Unit;

/// Where files lie that a probe makes itself: the word that stands for [`costof_os::scratch`]'s
/// choice.
pub(crate) const TEMPORARY: &str = "temporary";

/// The axis `dir`.
pub(crate) const DIR: Axis = Axis {
    name: text("dir"),
    about: text("the folder in which the file lies, which never has a name there"),
    domain: Domain::Place {
        words: list![word(
            TEMPORARY,
            "the first of TMPDIR or else /tmp, the current folder, XDG_CACHE_HOME, HOME and /var/tmp that is on no file system in memory"
        )],
        schemes: list![],
    },
};

/// Words of the axis `pattern`.
pub(crate) const RANDOM: Choice = word(
    "random",
    "any: every block once before one comes again, as far as 262,144 of them go",
);
pub(crate) const SEQUENTIAL: Choice = word(
    "sequential",
    "the one behind it, and the first behind the last",
);

/// The axis `pattern`.
pub(crate) const PATTERN: Axis = words(
    "pattern",
    "which block comes next",
    list![
        RANDOM,
        SEQUENTIAL,
        word(
            "seek",
            "any, on a disk that turns: what it costs to move the head; refused on others, where nothing moves"
        ),
    ],
);

/// The axis `cache`.
pub(crate) const CACHE: Axis = words(
    "cache",
    "where the file is before it is read",
    list![
        word("warm", "in the page cache, all of it, which is verified"),
        word(
            "cold",
            "on its device, read into the page cache: evicted before (POSIX_FADV_DONTNEED), which is verified"
        ),
        word(
            "direct",
            "on its device, read past the page cache (O_DIRECT)"
        ),
    ],
);

/// The axis `block`.
pub(crate) const fn block_axis(usual: List<u64>) -> Axis {
    Axis {
        name: text("block"),
        about: text("bytes that one operation reads or writes"),
        domain: Domain::Number {
            unit: Unit::Bytes,
            low: 256,
            high: 1 << 20,
            usual,
        },
    }
}

/// The axis `size`.
pub(crate) const fn size_axis(usual: List<u64>) -> Axis {
    Axis {
        name: text("size"),
        about: text("bytes of the file; nothing is made that would fill its disk"),
        domain: Domain::Number {
            unit: Unit::Bytes,
            low: 64 << 10,
            high: 1 << 40,
            usual,
        },
    }
}
