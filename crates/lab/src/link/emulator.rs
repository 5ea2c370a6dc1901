//! What emulates a link: the kernel, or costof's own relay.

use crate::link::ends::Ends;
use costof_model::link_report::LinkReport;

/// What emulates a link.
pub(crate) trait Emulator {
    /// By which name it is known.
    fn name(&self) -> &'static str;

    /// A launch begins: draws from this seed, counts from zero.
    fn begin(&mut self, seed: u64, ends: &Ends) -> Result<(), String>;

    /// Goes on on these processors, where it has a thread.
    fn run_on(&mut self, cpus: &[usize]) -> Result<(), String> {
        let _ = cpus;
        Ok(())
    }

    /// What happened since the launch began.
    fn report(&mut self, ends: &Ends) -> Result<LinkReport, String>;
}
