//! Where programs come from that are not here.

use std::path::{Path, PathBuf};

/// A program, and what installs it.
struct Package {
    programs: &'static [&'static str],
    /// On Debian.
    debian: &'static str,
    /// What else is to be known of it.
    besides: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        programs: &["perf"],
        debian: "linux-perf",
        besides: ", linux-tools-$(uname -r) on Ubuntu",
    },
    Package {
        programs: &["cc"],
        debian: "gcc",
        besides: "",
    },
    Package {
        programs: &["taskset", "setpriv"],
        debian: "util-linux",
        besides: "",
    },
    Package {
        programs: &["ping"],
        debian: "iputils-ping",
        besides: "",
    },
    Package {
        programs: &["lmbench", "lat_syscall", "lat_pipe", "lat_mem_rd"],
        debian: "lmbench",
        besides: " in its section non-free",
    },
    Package {
        programs: &["sysbench"],
        debian: "sysbench",
        besides: "",
    },
    Package {
        programs: &["stress-ng"],
        debian: "stress-ng",
        besides: "",
    },
    Package {
        programs: &["mbw"],
        debian: "mbw",
        besides: "",
    },
    Package {
        programs: &["fio"],
        debian: "fio",
        besides: "",
    },
    Package {
        programs: &["iperf3"],
        debian: "iperf3",
        besides: "",
    },
    Package {
        programs: &["sockperf"],
        debian: "sockperf",
        besides: "",
    },
];

/// Says that a program is not here, and what would install it where that is known.
pub fn missing(program: &str) -> String {
    let known = PACKAGES
        .iter()
        .find(|package| package.programs.contains(&program));
    match known {
        Some(Package {
            debian, besides, ..
        }) => format!("there is no {program} here (install {debian} on Debian{besides})"),
        None => format!("there is no {program} here"),
    }
}

/// Where a program is, by its name or its path; a package may put it where no path leads, as Debian's
/// lmbench does. None where it is not.
pub fn find(program: impl AsRef<Path>) -> Option<PathBuf> {
    let lmbench = format!("/usr/lib/lmbench/bin/{}-linux-gnu", std::env::consts::ARCH);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from(lmbench)])
        // Of a path that begins with a slash, nothing but that is left.
        .map(|folder| folder.join(program.as_ref()))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_the_way_out() {
        assert_eq!(
            missing("perf"),
            "there is no perf here (install linux-perf on Debian, linux-tools-$(uname -r) on Ubuntu)"
        );
        assert_eq!(
            missing("lat_pipe"),
            "there is no lat_pipe here (install lmbench on Debian in its section non-free)"
        );
        assert_eq!(missing("no-such"), "there is no no-such here");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("/bin/no-such-program"), None);
    }
}
