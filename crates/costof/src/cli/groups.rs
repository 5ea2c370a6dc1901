//! The commands in groups, by what one wants, as `costof --help` shows them, and what several commands' help shares.

use super::Cli;
use super::gate::EXIT_CODES;
use clap::{Command, CommandFactory};

/// Each group with its commands, in their order. One that is in no group is not shown.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["run", "time", "bill", "against", "ask", "estimate", "study"]),
    ("Look", &["show", "runs", "report", "export", "list", "explain", "doctor"]),
    ("Decide", &["compare", "history", "fleet", "qualify", "place"]),
    ("Rarely needed", &["verify", "link", "send", "completions", "man"]),
];

/// The commands whose exit code may stop a script.
const CHECKS: [&str; 7] = ["compare", "time", "against", "history", "fleet", "qualify", "verify"];

/// The whole command line.
pub(crate) fn command() -> Command {
    let command = CHECKS
        .into_iter()
        .fold(Cli::command(), |command, check| command.mut_subcommand(check, with_exit_codes));
    // `compare` measures only with --interleave, and then as `run` does.
    let command = command.mut_subcommand("compare", |compare| {
        compare.mut_args(|arg| {
            let is_of_interleave = arg.get_help_heading().is_some();
            if is_of_interleave { arg.hide_short_help(true) } else { arg }
        })
    });
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&command)
    );
    command.help_template(template)
}

fn with_exit_codes(check: Command) -> Command {
    let own = check.get_after_help().map(|own| format!("{own}\n\n")).unwrap_or_default();
    let [short, long] = EXIT_CODES.map(|codes| format!("{own}{codes}"));
    check.after_help(short).after_long_help(long)
}

/// What each command is for, group by group.
fn groups(command: &Command) -> String {
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
    use clap::Arg;

    /// The lines of a usual window.
    const SCREEN: usize = 34;

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

    #[test]
    fn short_help_fits_a_screen_and_long_help_has_every_option() {
        let mut command = command().term_width(80);
        command.build();
        let mut long_ones = Vec::new();
        for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
            let short = sub.render_help().to_string();
            let lines = short.lines().count();
            let bound = if sub.get_name() == "run" { 30 } else { SCREEN };
            long_ones.extend((lines > bound).then(|| format!("{lines} lines: {short}")));
            let long = sub.render_long_help().to_string();
            let options = sub.get_arguments().filter(|arg| !arg.is_hide_set());
            for option in options.filter_map(Arg::get_long) {
                assert!(long.contains(&format!("--{option}")), "--{option} in: {long}");
            }
        }
        assert!(long_ones.is_empty(), "{}", long_ones.join("\n"));
    }

    #[test]
    fn every_check_names_its_exit_codes() {
        for check in CHECKS {
            let mut command = command();
            let help = command.find_subcommand_mut(check).unwrap().render_long_help().to_string();
            assert!(help.contains("3  inconclusive"), "{help}");
            assert!(help.contains("--undecided"), "{help}");
        }
    }
}
