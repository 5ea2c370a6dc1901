//! The kernel's line about a process or thread, `/proc/PID/stat`.
//!
//! Source: proc_pid_stat(5), whose numbers of the fields are used here.

use std::fs;
use std::io;
use std::str::FromStr;

/// The fields of such a line.
#[derive(Clone, Copy, Debug)]
pub struct Stat<'t> {
    name: &'t str,
    /// From the third one on.
    fields: &'t str,
}

impl<'t> Stat<'t> {
    /// The line's fields; `None` if it is none.
    pub fn parse(line: &'t str) -> Option<Self> {
        // The name, in parentheses, may hold blanks and parentheses.
        let (before, fields) = line.rsplit_once(')')?;
        Some(Self { name: before.split_once('(')?.1, fields })
    }

    /// The name of the program, field 2.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// A field from the third one on, as text.
    pub fn text(&self, field: usize) -> Option<&'t str> {
        self.fields.split_ascii_whitespace().nth(field.checked_sub(3)?)
    }

    /// A field from the third one on, as a number.
    pub fn number<N: FromStr>(&self, field: usize) -> Option<N> {
        self.text(field)?.parse().ok()
    }

    /// Whether it goes on, and is no zombie.
    pub fn is_alive(&self) -> bool {
        !matches!(self.text(3), None | Some("Z" | "X"))
    }
}

/// A process's line.
///
/// # Errors
///
/// `NotFound` if there is no such process, or it belongs to another user and /proc hides it.
pub fn read(process: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{process}/stat"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = Stat::parse("7 (a) R 1) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 5 6\n").unwrap();
        assert_eq!((stat.name(), stat.text(3)), ("a) R 1", Some("S")));
        assert_eq!([14, 17].map(|field| stat.number(field)), [Some(12), Some(6)]);
        assert_eq!((stat.number::<u32>(3), stat.text(2), stat.text(18)), (None, None, None));
        assert!(stat.is_alive() && !Stat::parse("7 (a) Z 1").unwrap().is_alive());
        assert!(Stat::parse("7 a S").is_none());
        let own = read(std::process::id()).unwrap();
        assert_eq!(Stat::parse(&own).unwrap().number(4), Some(std::os::unix::process::parent_id()));
    }
}
