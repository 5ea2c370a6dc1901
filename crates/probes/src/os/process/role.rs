//! The parent that starts children one after the other.

use super::{Exec, How, Process};
use crate::prelude::*;
use costof_os::process::resident_bytes;
use costof_os::process::spawn::{Child, Starter};
use costof_os::process::uncopied::copied_bytes;

pub(super) struct Parent {
    starter: Starter,
    /// What is resident in addition to the worker's own, and copied by a fork.
    _resident: Option<Arena>,
}

impl Setup<Process> for Parent {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Process>, _: &Launch) -> Result<Parent> {
        let refused = |error| refused(point, &error);
        let mut starter =
            Starter::new(point.how.into(), point.exec == Exec::Yes).map_err(refused)?;
        // Best effort: `anonymous` reports how much is copied.
        let _ = starter.copy_little();
        let resident = hold(point.resident)?;
        // What it does once it does again.
        starter.start().and_then(Child::wait).map_err(refused)?;
        Ok(Parent { starter, _resident: resident })
    }

    fn measure(&mut self, point: &At<Process>, meter: &mut Meter<'_>) -> Result {
        let mut failed = FirstError::default();
        meter.stages(
            "call",
            "latency",
            || self.starter.start(),
            |child| failed.note(child.and_then(Child::wait)),
        );
        failed.into_result().map_err(|error| refused(point, &error))
    }

    fn check(self, point: &At<Process>, meter: &mut Meter<'_>) -> Result {
        let resident = resident_bytes().or_fail("cannot read what is resident")?;
        let wanted = point.resident;
        // The kernel's count lags behind a little.
        ensure!(
            resident as f64 >= 0.99 * wanted as f64,
            "only {} of {} are resident: memory was swapped out",
            display_bytes(resident),
            display_bytes(wanted)
        );
        meter.value("resident", resident as f64);
        if let Ok(anonymous) = copied_bytes() {
            meter.value("anonymous", anonymous as f64);
        }
        Ok(())
    }
}

/// This much memory, all of it touched.
fn hold(bytes: u64) -> Result<Option<Arena>> {
    if bytes == 0 {
        return Ok(None);
    }
    // What is left is for page tables too, a fork's among them.
    arenas::ensure_fits(bytes)?;
    arenas::in_memory(bytes, arenas::Pages::Base).map(Some)
}

/// Why the point's call cannot start a process here.
fn refused(point: &At<Process>, error: &io::Error) -> Failure {
    let (how, exec) = (point.how, point.exec);
    let hint = match error.kind() {
        io::ErrorKind::InvalidInput if how == How::PosixSpawn => " (exec=yes)",
        io::ErrorKind::WouldBlock => " (ulimit -u and the cgroup's pids.max limit processes)",
        io::ErrorKind::OutOfMemory => {
            " (vm.overcommit_memory=2 counts a fork's memory twice, though it is shared)"
        }
        io::ErrorKind::Unsupported if how == How::Clone3 => {
            " (it is Linux 5.3, and containers often filter it: run outside of one)"
        }
        io::ErrorKind::PermissionDenied if exec == Exec::Yes => {
            " (vm.memfd_noexec or a security module forbids executing memory files)"
        }
        io::ErrorKind::NotFound if exec == Exec::Yes => " (is /proc mounted?)",
        _ if error.raw_os_error() == Some(NO_CHILD) => {
            " (costof was started with SIGCHLD ignored, so children leave no status)"
        }
        _ => "",
    };
    let how = how.word();
    Failure::unsupported(format!("cannot start a process by {how}: {error}{hint}"))
}

/// ECHILD, on every architecture that there is.
const NO_CHILD: i32 = 10;
