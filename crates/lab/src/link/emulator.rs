//! What emulates a link: the kernel, or costof's own relay.

use crate::link::ends::Ends;
use costof_model::LinkReport;

/// What emulates a link.
pub(crate) trait Emulator {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Starts a launch: uses this seed, counts from zero.
    fn begin(&mut self, seed: u64, ends: &Ends) -> Result<(), String>;

    /// Continues on these CPUs, if it has a thread.
    fn run_on(&mut self, _cpus: &[usize]) -> Result<(), String> {
        Ok(())
    }

    /// What happened since the launch began.
    fn report(&mut self, ends: &Ends) -> Result<LinkReport, String>;
}
