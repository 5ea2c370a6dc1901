//! Checks the machines before they are measured: whether other processes use them, and which grade to expect.
//!
//! It reports nothing about a quiet machine. It has no clock of its own: a check takes as long as the
//! machines are watched.

use crate::cli::Quiet;
use crate::error::{Error, Result};
use crate::progress::Reminders;
use costof_measure::grade::{self, Kept};
use costof_measure::trials::WATCH;
use costof_model::protocol::Contention;
use costof_model::{Grade, Noise};
use std::time::Duration;

/// A machine is quiet if at least this grade is expected. B means small disturbances; with C, numbers may
/// change.
const QUIET: Grade = Grade::B;

/// A busy machine is quiet again after this many quiet checks in a row, two seconds. A pause between two
/// programs of a build then does not count as its end.
const QUIET_LOOKS: u32 = 4;

/// If this variable is set and no option asks for a check, there is none. `costof verify` sets it: it checks
/// once before it starts costof many times.
const OFF: &str = "COSTOF_NO_PREFLIGHT";

/// The state of a machine.
pub(crate) struct Seen {
    pub(crate) host: String,
    /// None where the machine does not report it.
    pub(crate) contention: Option<Contention>,
}

/// Checks the machines, waits if the options ask for that, and reports what will spoil the measurement.
///
/// # Errors
/// A quiet machine is required, but the machine is busy or cannot be checked.
// METHOD 6
pub(crate) fn check(
    quiet: &Quiet,
    mut look: impl FnMut() -> Result<Vec<Seen>>,
    say: impl Fn(&str),
) -> Result<()> {
    let is_asked = quiet.require_quiet || quiet.wait_quiet.is_some();
    if !is_asked && std::env::var_os(OFF).is_some() {
        return Ok(());
    }
    let seen = look()?;
    match unknown(&seen) {
        Some(why) if quiet.require_quiet => {
            return Err(Error::Nothing(format!("{why} (leave out --require-quiet)")));
        }
        Some(why) => say(&format!("{why}: expect grade C at best")),
        None => {}
    }
    let Some(mut busy) = busy(&seen) else {
        return Ok(());
    };
    if let Some(limit) = quiet.wait_quiet {
        match wait(limit, busy, &mut look, &say)? {
            Some(still) => busy = still,
            None => return Ok(()),
        }
    }
    if quiet.require_quiet {
        return Err(Error::Nothing(format!("{busy} (--require-quiet)")));
    }
    let hint = if quiet.wait_quiet.is_none() {
        " (--wait-quiet 5m waits for a quiet machine)"
    } else {
        ", measured anyway"
    };
    say(&format!("{busy}{hint}"));
    Ok(())
}

/// Checks repeatedly until the machines are quiet or the time is over, and returns their last state.
fn wait(
    limit: Duration,
    mut busy: String,
    look: &mut impl FnMut() -> Result<Vec<Seen>>,
    say: &impl Fn(&str),
) -> Result<Option<String>> {
    let mut reminders = Reminders::default();
    let mut waited = Duration::ZERO;
    let mut quiet_looks = 0;
    while waited < limit {
        if let Some(reminder) = reminders.reminder(waited) {
            let limit = humantime::format_duration(limit);
            say(&format!("{reminder}, up to {limit}, until it is quiet: {busy}"));
        }
        let seen = look()?;
        waited += WATCH * seen.len() as u32;
        match self::busy(&seen) {
            Some(now) => (busy, quiet_looks) = (now, 0),
            None => quiet_looks += 1,
        }
        if quiet_looks == QUIET_LOOKS {
            say(&format!("quiet after {} s", waited.as_secs()));
            return Ok(None);
        }
    }
    Ok((quiet_looks == 0).then_some(busy))
}

/// The first machine that does not report what others use, if there is one.
fn unknown(seen: &[Seen]) -> Option<String> {
    let unknown = seen.iter().find(|seen| seen.contention.is_none())?;
    Some(format!(
        "{} does not say whether it is quiet: its /proc/stat cannot be read, or its costof is older",
        unknown.host
    ))
}

/// Which machines are busy, with what, and what that means; none if all are quiet.
fn busy(seen: &[Seen]) -> Option<String> {
    let busy = seen.iter().filter_map(|seen| {
        let contention = seen.contention?;
        let grades = [true, false].map(|is_alone| expected(contention, is_alone));
        (grades[1] > QUIET).then(|| (grades, described(&seen.host, contention)))
    });
    let busy: Vec<([Grade; 2], String)> = busy.collect();
    let worst = |at: usize| busy.iter().map(|(grades, _)| grades[at]).max();
    let texts: Vec<&str> = busy.iter().map(|(_, text)| &**text).collect();
    let then = match (worst(0)?, worst(1)?) {
        (alone, disturbed) if alone == disturbed => format!("grade {disturbed}"),
        (alone, disturbed) => format!(
            "grade {alone} where enough batches stay undisturbed, else {disturbed}, and few comparisons"
        ),
    };
    Some(format!("{}: expect {then}", texts.join("; ")))
}

fn described(host: &str, contention: Contention) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut users = Vec::new();
    let Contention { cpus, others, steal } = contention;
    let is_busy = |contention| expected(contention, false) > QUIET;
    if is_busy(Contention { steal: 0.0, ..contention }) {
        let cpus = if cpus == 1 { "the CPU".to_owned() } else { format!("{cpus} CPUs") };
        users.push(format!("other processes use {} of {cpus}", percent(others)));
    }
    if is_busy(Contention { others: 0.0, ..contention }) {
        users.push(format!("the hypervisor takes {} of the time", percent(steal)));
    }
    let users = users.join(", ");
    match host {
        "local" => format!("busy: {users}"),
        host => format!("{host} is busy: {users}"),
    }
}

/// The grade to expect for a measurement now, by the limits of the grades. `is_alone` says that it keeps its
/// CPU, and that enough of its batches are not disturbed.
///
/// Other processes move to another CPU if there is one. There they still share caches, memory and the power
/// budget with the measurement.
fn expected(contention: Contention, is_alone: bool) -> Grade {
    let elsewhere = f64::from(contention.cpus) - 1.0;
    let others = contention.others * f64::from(contention.cpus);
    let noise = Noise {
        duration_ns: 1.0,
        steal_ns: Some(contention.steal),
        others_ns: Some((others - elsewhere).max(0.0)),
        run_queue_wait_ns: Some(0.0),
        others_elsewhere: (elsewhere > 0.0).then(|| (others / elsewhere).min(1.0)),
        ..Noise::default()
    };
    let causes = grade::causes(&[&noise], Kept { is_alone, ..Kept::default() });
    let grades = causes.iter().map(|cause| cause.grade);
    grades.max().unwrap_or(Grade::A)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::golden;
    use std::cell::RefCell;

    fn contention(cpus: u32, others: f64, steal: f64) -> Contention {
        Contention { cpus, others, steal }
    }

    /// What is said where looks see others use these shares of two CPUs, the last one from then on, and
    /// how it ends.
    fn checked(wait_s: Option<u64>, require_quiet: bool, shares: &[f64]) -> (Vec<String>, String) {
        let quiet = Quiet { wait_quiet: wait_s.map(Duration::from_secs), require_quiet };
        let said = RefCell::new(Vec::new());
        let mut looks = shares.iter().chain(std::iter::repeat(&shares[shares.len() - 1]));
        let look = || {
            let others = *looks.next().unwrap();
            Ok(vec![Seen {
                host: "local".to_owned(),
                contention: others.is_finite().then(|| contention(2, others, 0.0)),
            }])
        };
        let done = check(&quiet, look, |text| said.borrow_mut().push(text.to_owned()));
        let end = done.map_or_else(|error| error.to_string(), |_| "measured".to_owned());
        (said.into_inner(), end)
    }

    #[test]
    fn the_expected_grade_is_that_of_what_is_left_for_what_is_measured() {
        for (seen, alone, disturbed) in [
            (contention(2, 0.0, 0.0), Grade::A, Grade::A),
            // A program in the background has the other CPU, and a good part of it.
            (contention(2, 0.2, 0.0), Grade::B, Grade::B),
            (contention(2, 0.5, 0.0), Grade::C, Grade::C),
            (contention(2, 1.0, 0.0), Grade::C, Grade::D),
            (contention(1, 0.05, 0.0), Grade::B, Grade::B),
            (contention(1, 0.5, 0.0), Grade::B, Grade::D),
            (contention(64, 0.3, 0.0), Grade::B, Grade::B),
            (contention(64, 0.9, 0.0), Grade::C, Grade::C),
            (contention(2, 0.0, 0.05), Grade::B, Grade::C),
        ] {
            let grades = [true, false].map(|is_alone| expected(seen, is_alone));
            assert_eq!(grades, [alone, disturbed], "{seen:?}");
        }
    }

    #[test]
    fn a_quiet_machine_is_not_mentioned_and_a_busy_one_in_a_line() {
        assert_eq!(checked(None, false, &[0.1]), (vec![], "measured".into()));
        let (said, end) = checked(None, false, &[f64::NAN]);
        assert_eq!((said.len(), &*end), (1, "measured"));
        assert!(said[0].ends_with("C at best"), "{said:?}");
        let (said, end) = checked(None, false, &[1.0]);
        assert_eq!(end, "measured");
        golden("costof/messages", "a busy machine", &said.join("\n"));
        let seen = [("local", 0.9, 0.3), ("ssh:b", 0.6, 0.0), ("ssh:c", 0.0, 0.0)].map(
            |(host, others, steal)| Seen {
                host: host.to_owned(),
                contention: Some(contention(4, others, steal)),
            },
        );
        golden("costof/messages", "busy hosts", &busy(&seen).unwrap());
    }

    #[test]
    fn a_quiet_machine_is_waited_for_and_a_pause_is_not_one() {
        let (said, end) = checked(Some(300), false, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(end, "measured");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("waiting, up to 5m,"));
        // Three quiet looks, a busy one, and four quiet ones: each half a second.
        assert_eq!(said[1], "quiet after 4 s");
        // After the wait it is measured anyway.
        let (said, end) = checked(Some(15), false, &[1.0]);
        assert_eq!(end, "measured");
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[1].starts_with("waiting for 10 s"), "{said:?}");
        assert!(said[2].ends_with("measured anyway"), "{said:?}");
    }

    #[test]
    fn where_a_quiet_machine_is_required_another_is_not_measured() {
        assert_eq!(checked(None, true, &[0.0]).1, "measured");
        assert!(checked(None, true, &[1.0]).1.starts_with("busy: other processes"));
        assert!(checked(Some(3), true, &[1.0]).1.contains("--require-quiet"));
        assert_eq!(checked(Some(60), true, &[1.0, 0.0]).1, "measured");
        assert!(checked(None, true, &[f64::NAN]).1.contains("/proc/stat"));
    }
}
