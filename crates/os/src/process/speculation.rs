//! Speculation of the CPU that a thread may turn off for itself.
//!
//! Source: Linux Documentation/userspace-api/spec_ctrl.rst; prctl(2) on `PR_SET_SPECULATION_CTRL` (Linux 4.17).

use std::io;

use crate::system_call::unsupported;
use rustix::process::{
    SpeculationFeature, SpeculationFeatureControl, SpeculationFeatureState,
    control_speculative_feature, speculative_feature_state,
};

/// What the CPU does before it knows whether it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// Loads before earlier stores whose address is not known yet.
    StoreBypass,
    /// Indirect branches to where others have branched (Linux 4.20).
    IndirectBranches,
}

/// Turns it off for this thread and what it starts from then on.
///
/// # Errors
///
/// `Unsupported` if a thread has no say in it: the CPU is not affected, or the kernel decides for all. Otherwise those
/// of prctl(2).
pub fn turn_off(what: Speculation) -> io::Result<()> {
    let feature = match what {
        Speculation::StoreBypass => SpeculationFeature::SpeculativeStoreBypass,
        Speculation::IndirectBranches => SpeculationFeature::IndirectBranchSpeculation,
    };
    let state = speculative_feature_state(feature)?;
    if !state.is_some_and(|state| state.contains(SpeculationFeatureState::PRCTL)) {
        return Err(unsupported(
            "a thread cannot turn this off here: the CPU does not need it, or the kernel decides for all \
             (/sys/devices/system/cpu/vulnerabilities)",
        ));
    }
    Ok(control_speculative_feature(feature, SpeculationFeatureControl::DISABLE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_is_off_is_off_for_this_thread() {
        for (what, feature) in [
            (Speculation::StoreBypass, SpeculationFeature::SpeculativeStoreBypass),
            (Speculation::IndirectBranches, SpeculationFeature::IndirectBranchSpeculation),
        ] {
            let state = thread::spawn(move || {
                turn_off(what).map(|()| speculative_feature_state(feature).unwrap().unwrap())
            });
            match state.join().unwrap() {
                Ok(state) => assert!(state.contains(SpeculationFeatureState::DISABLE)),
                Err(error) => eprintln!("checked less: {error}"),
            }
        }
    }
}
