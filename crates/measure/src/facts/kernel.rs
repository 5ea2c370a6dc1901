//! The kernel: its build options, its command line, and its settings.

use std::collections::BTreeMap;
use std::ffi::CStr;

use costof_model::facts::{ClockSource, Kernel};
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rustix::system::Uname;

use super::folder::{Folder, is_word_of};

/// Build options that change costs, or what can be measured.
const OPTIONS: &str = include_str!("kernel_options.txt");

/// Settings that change costs, or what can be measured.
/// Source: Documentation/admin-guide/sysctl/, Documentation/networking/ip-sysctl.rst.
const SETTINGS: &str = include_str!("kernel_settings.txt");

/// Everything about the kernel.
pub(super) fn kernel(root: &Folder) -> Kernel {
    let live = |part| root.is_live().then(|| uname(part));
    let release = root.text("/proc/sys/kernel/osrelease");
    let release = release.or_else(|| live(|uname| uname.release()));
    let (command_line, config) = (root.text("/proc/cmdline"), config(root, release.as_deref()));
    let reported = root.chosen("/sys/kernel/debug/sched/preempt", '(', ')');
    Kernel {
        preemption: reported.or_else(|| preemption(&config, command_line.as_deref().unwrap_or(""))),
        version: (root.text("/proc/sys/kernel/version")).or_else(|| live(|uname| uname.version())),
        command_line,
        config,
        sysctls: sysctls(root),
        real_time: root.flag("/sys/kernel/realtime"),
        boot_id: boot_id(root),
        release,
    }
}

/// The preemption model that the kernel was built with, or, where it can be chosen at boot, that of the command line.
/// Source: kernel/Kconfig.preempt; admin-guide/kernel-parameters.txt, `preempt=`.
fn preemption(config: &BTreeMap<String, String>, command_line: &str) -> Option<String> {
    const MODELS: [(&str, &str); 4] = [
        ("PREEMPT_NONE", "none"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT", "full"),
        ("PREEMPT_LAZY", "lazy"),
    ];
    let is_set = |option: &str| config.get(option).is_some_and(|value| value == "y");
    let mut words = command_line.split_whitespace().rev();
    let is_known = |word: &&str| MODELS.iter().any(|(_, model)| model == word);
    let chosen = words.find_map(|word| word.strip_prefix("preempt=").filter(is_known));
    let chosen = chosen.filter(|_| is_set("PREEMPT_DYNAMIC"));
    let built = || MODELS.into_iter().find(|(option, _)| is_set(option)).map(|(_, model)| model);
    chosen.or_else(built).map(str::to_owned)
}

/// What this machine's kernel says of itself without files, which a sandbox may hide. Source: uname(2).
pub(super) fn uname(part: fn(&Uname) -> &CStr) -> String {
    part(&rustix::system::uname()).to_string_lossy().into_owned()
}

/// Identifies this boot. Source: Documentation/admin-guide/sysctl/kernel.rst, `random`.
pub(super) fn boot_id(root: &Folder) -> Option<String> {
    root.text("/proc/sys/kernel/random/boot_id")
}

/// The kernel's clock sources. Source: Documentation/ABI/testing/sysfs-devices-system-clocksource.
pub(super) fn clock_source(root: &Folder) -> ClockSource {
    let folder = root.folder("/sys/devices/system/clocksource/clocksource0");
    ClockSource {
        current: folder.text("current_clocksource"),
        available: folder.words("available_clocksource"),
    }
}

fn sysctls(root: &Folder) -> BTreeMap<String, String> {
    let setting = |name: &str| {
        let words = root.words(&format!("/proc/sys/{}", name.replace('.', "/")));
        (!words.is_empty()).then(|| (name.to_owned(), words.join(" ")))
    };
    SETTINGS.split_whitespace().filter_map(setting).collect()
}

/// The options that matter, from the first file that contains them.
fn config(root: &Folder, release: Option<&str>) -> BTreeMap<String, String> {
    let compressed = "/proc/config.gz";
    if let Some(bytes) = root.bytes(compressed) {
        match gunzip(&bytes) {
            Some(text) => return options(&text),
            None => root.refuse(compressed, "not readable as gzip"),
        }
    }
    let release = release.unwrap_or("");
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/usr/lib/modules/{release}/config"),
    ]
    .into_iter()
    .find_map(|path| Some(options(&root.text(&path)?)))
    .unwrap_or_default()
}

fn options(text: &str) -> BTreeMap<String, String> {
    let matters = |name: &str| is_word_of(OPTIONS, name) || name.starts_with("MITIGATION_");
    text.lines()
        .filter_map(|line| {
            let (name, value) = match line.strip_prefix("# CONFIG_") {
                Some(unset) => (unset.strip_suffix(" is not set")?, "n"),
                None => line.strip_prefix("CONFIG_")?.split_once('=')?,
            };
            matters(name).then(|| (name.to_owned(), value.trim_matches('"').to_owned()))
        })
        .collect()
}

/// Larger than the configuration of any kernel.
const CONFIG_LIMIT_BYTES: usize = 4 << 20;

/// The text of a gzip file with one member, whose header has no optional fields, as the kernel's
/// build makes it (`gzip -n`), or only the file's name. Source: RFC 1952 section 2.3.
fn gunzip(bytes: &[u8]) -> Option<String> {
    const NAME: u8 = 8;
    let (head, rest) = bytes.split_at_checked(10)?;
    if head[..3] != [0x1f, 0x8b, 8] || head[3] & !NAME != 0 {
        return None;
    }
    let packed = if head[3] & NAME == 0 {
        rest
    } else {
        rest.get(rest.iter().position(|&byte| byte == 0)? + 1..)?
    };
    let text = decompress_to_vec_with_limit(packed, CONFIG_LIMIT_BYTES).ok()?;
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preemption_model_is_that_of_the_build_unless_boot_chose_it() {
        let config = |text| options(text);
        let dynamic = config("CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n");
        assert_eq!(preemption(&dynamic, "ro quiet").as_deref(), Some("none"));
        assert_eq!(preemption(&dynamic, "preempt=none preempt=full").as_deref(), Some("full"));
        assert_eq!(preemption(&dynamic, "preempt=full preempt=x").as_deref(), Some("full"));
        let fixed = config("# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_VOLUNTARY=y\n");
        assert_eq!(preemption(&fixed, "preempt=full").as_deref(), Some("voluntary"));
        assert_eq!(preemption(&config(""), "preempt=full"), None);
    }

    #[test]
    fn options_are_kept_where_they_matter() {
        let text = "CONFIG_HZ=250\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_LOCALVERSION=\"-x\"\n\
            CONFIG_MITIGATION_SRSO=y\n# a comment\nCONFIG_\n=\n";
        let options = options(text);
        let expected = [("HZ", "250"), ("MITIGATION_SRSO", "y"), ("NO_HZ_FULL", "n")];
        assert_eq!(options, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    }

    #[test]
    fn a_gzip_file_is_read_and_a_broken_one_is_not() {
        // printf 'CONFIG_HZ=1000\n' | gzip -n, and the same with a file name.
        let plain = [
            0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f, 0xf7,
            0x88, 0xb2, 0x35, 0x34, 0x30, 0x30, 0xe0, 0x02, 0x00,
        ];
        assert_eq!(gunzip(&plain).as_deref(), Some("CONFIG_HZ=1000\n"));
        let mut named = plain.to_vec();
        named[3] = 8;
        named.splice(10..10, *b"config\0");
        assert_eq!(gunzip(&named).as_deref(), Some("CONFIG_HZ=1000\n"));
        named[3] = 4;
        for broken in [&plain[..9], &plain[..14], &named, &[0; 40], &[]] {
            assert_eq!(gunzip(broken), None);
        }
    }
}
