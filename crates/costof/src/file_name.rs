//! The names of run files in a folder that `--out` names.

use crate::machine::Machine;
use costof_lab::host::Host;
use std::path::Path;

/// Whether `--out` names a folder: one that exists, or a path that ends with a slash.
pub(crate) fn is_folder(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The file name for the only host of a command: its machine's name, so that the same command on many machines
/// fills one folder.
pub(crate) fn of_machine(machine: &Machine) -> String {
    let name = machine.description.facts.host_name.as_deref();
    let name = name.filter(|name| !name.is_empty());
    format!("{}.jsonl", name.map_or_else(|| of_text(&machine.host.to_string()), of_text))
}

/// The file name for one of several hosts of a command. If two names become equal, or both are cut, each also has
/// its position.
pub(crate) fn of_host(host: &Host, all: &[Host]) -> String {
    let name = |host: &Host| of_text(&host.to_string());
    let own = name(host);
    let position = all.iter().position(|other| other == host);
    let alike = all.iter().filter(|other| name(other) == own).count();
    match position {
        // No host's own name ends like this, since it has no `+`.
        Some(position) if alike > 1 => format!("{own}+{}.jsonl", position + 1),
        _ => format!("{own}.jsonl"),
    }
}

/// Characters other than letters, digits, dots and underscores become dashes. No name is hidden or an option.
fn of_text(text: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    let kept: String = text.chars().map(|c| if is_kept(c) { c } else { '-' }).take(100).collect();
    let before = if kept.starts_with(['.', '-']) { "_" } else { "" };
    before.to_owned() + &kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_file_name_of_its_own() {
        let long = "x".repeat(200);
        let hosts: Vec<Host> = [
            "local",
            "ssh:a.b",
            "exec:a b",
            "exec:a-b",
            &format!("exec:{long}1"),
            &format!("exec:{long}2"),
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let names: Vec<String> = hosts.iter().map(|host| of_host(host, &hosts)).collect();
        assert_eq!(
            names[..4],
            ["local.jsonl", "ssh-a.b.jsonl", "exec-a-b+3.jsonl", "exec-a-b+4.jsonl"]
        );
        assert_ne!(names[4], names[5]);
        assert!(names[4].len() < 120, "{}", names[4]);
    }
}
