//! A command, from its start to its end.

use super::{COST, EndOthers, LIMIT, OwnProbe, Words};
use crate::meter::Meter;
use crate::probe::Role;
use costof_model::{Failure, Offers, Point, fail};
use costof_os::process::command::{children, end_children};
use costof_os::process::line_program::{how_ended, run_to_end};
use std::process::{Command, Stdio};

pub(super) struct CommandRole {
    pub(super) _at_end: EndOthers,
    pub(super) own: &'static OwnProbe,
    pub(super) words: &'static Words,
    pub(super) command: Option<(String, Command)>,
}

impl Role for CommandRole {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    /// Runs the command once, to see that it succeeds, or why not.
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let (name, mut command) = self.own.command_at(self.words, point)?;
        let before = children();
        let ran = run_to_end(&mut command, LIMIT);
        end_children(&before);
        match ran {
            Ok((Some(status), _)) if status.success() => {}
            Ok((Some(status), words)) => {
                let words =
                    if words.is_empty() { words } else { format!("; it last said: {words}") };
                fail!("the command `{name}` {}{words}", how_ended(status))
            }
            Ok((None, _)) => fail!(
                "the command `{name}` did not end within {} s, and was killed (`costof time` measures long commands)",
                LIMIT.as_secs()
            ),
            Err(error) => fail!("cannot start the command `{name}`: {error}"),
        }
        command.stderr(Stdio::null());
        self.command = Some((name, command));
        Ok(Offers::new())
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Some((name, command)) = &mut self.command else {
            fail!("the command was not prepared");
        };
        // To start a process allocates.
        meter.operation_allocates();
        let mut failed = None;
        meter.repeatable(COST, |n| {
            for _ in 0..n {
                match command.status() {
                    Ok(status) if status.success() => {}
                    Ok(status) => {
                        failed.get_or_insert_with(|| format!("{} in a batch", how_ended(status)));
                    }
                    Err(error) => {
                        failed.get_or_insert_with(|| {
                            format!("could not be started in a batch: {error}")
                        });
                    }
                }
            }
        });
        match failed {
            Some(why) => fail!("the command `{name}` {why}, after it had succeeded"),
            None => Ok(()),
        }
    }
}
