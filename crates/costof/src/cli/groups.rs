//! The commands in groups, by what one wants, as `costof --help` shows them.

use super::Cli;
use clap::CommandFactory;

/// Each group with its commands, in their order. One that is in no group is not shown.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "time", "against", "ask", "estimate", "study", "verify"]),
    ("Look", &["show", "runs", "report", "list", "explain", "export"]),
    ("Decide", &["compare", "fleet", "qualify", "history"]),
    ("Prepare", &["doctor", "link", "send"]),
    ("This program", &["completions", "man", "version"]),
];

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&command)
    );
    command.help_template(template)
}

/// What each command is for, group by group.
fn groups(command: &clap::Command) -> String {
    let names = command.get_subcommands().map(|sub| sub.get_name().len());
    let width = names.max().unwrap_or(0);
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("\n{group}:\n");
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string);
            text += &format!("  {:width$}  {}\n", sub.get_name(), about.unwrap_or_default());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_a_group_and_fits_a_line() {
        let command = command();
        let groups = groups(&command);
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let start = format!("  {} ", sub.get_name());
            let lines = groups.lines().filter(|line| line.starts_with(&start));
            assert_eq!(lines.count(), 1, "{} in: {groups}", sub.get_name());
        }
        let widest = groups.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{groups}");
    }
}
