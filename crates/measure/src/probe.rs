//! What a probe is: its description, and functions that predict, measure and derive.

use crate::meter::Meter;
use crate::schedule::Precision;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use std::time::Duration;

/// One question with a number for an answer, and how it gets it. A literal of
/// this type has no defaults, so that nothing can be forgotten.
#[derive(Debug)]
pub struct Probe {
    /// The description, as plain data.
    pub info: ProbeInfo,
    /// In how many interleaved rounds the points of a block are measured:
    /// several where points are compared with each other, one where setting
    /// up a point is dear.
    pub rounds: u32,
    /// The axes in which points must agree to share a block, because they
    /// share what is set up.
    pub blocks_by: &'static [&'static str],
    /// How long measuring a point takes in a launch at least, in nanoseconds, all
    /// its rounds together, however little time a point is given.
    pub least_ns: fn(&Point) -> f64,
    /// How much memory a point asks for, in bytes; the rest of a worker is small.
    pub memory_bytes: fn(&Point) -> u64,
    /// On how many processors a point's threads and children run. A launch gets
    /// as many as its points ask for and the placement has: fewer where it has
    /// fewer, which is for the role to accept or to refuse.
    pub processors: fn(&Point) -> usize,
    /// The points of the latency table, which may depend on the machine.
    pub headlines: fn(&Facts) -> Vec<Headline>,
    /// What the probe's own plan has beside the headlines and the usual values
    /// of its axes, because it depends on the machine: every pair of its cores,
    /// as many threads as it has processors; or because it is asked over another
    /// link. What is about a link is planned where that one is asked for, or none
    /// is, and this machine can make it.
    pub more_points: fn(&Facts) -> Vec<Planned>,
    /// How much longer a run with more of this probe than its headlines may take, where
    /// its own plan is worth that; a quick one measures it in one round then.
    pub budget: Option<fn(Precision) -> Duration>,
    /// The range expected at a point; none where nothing is known to expect.
    pub predict: fn(&Point, &Facts, &Known<'_>) -> Option<Prediction>,
    /// How each role starts, in the order of `info.roles`. The last one leads.
    pub roles: &'static [StartRole],
    /// Turns what the roles report, in the order of `info.roles`, into the
    /// metrics of the point. Pure.
    pub derive: fn(&Point, Vec<Report>) -> Report,
}

/// Starts a role for one launch of one block.
///
/// # Errors
/// Why the block cannot be measured here.
pub type StartRole = fn(&Launch) -> Result<Box<dyn Role>, Failure>;

/// One end's part in a probe, during one launch of one block. For every point,
/// as often as there are rounds, a role prepares, runs and finishes.
pub trait Role {
    /// Whether the point's operation gives up its processor and waits for
    /// others by design. Waiting is then part of what is measured, and a launch
    /// with such a point records none as noise. It has no counters either, which
    /// the kernel saves and restores at each switch: some hundred nanoseconds.
    fn blocks(&self, point: &Point) -> bool {
        let _ = point;
        false
    }

    /// Sets up the point, untimed: an arena, a socket, a file. `offers` are
    /// those of the roles prepared before; what is returned is for those after.
    ///
    /// # Errors
    /// Why the point cannot be measured here.
    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        let _ = (point, offers);
        Ok(Offers::new())
    }

    /// Measures the point.
    ///
    /// # Errors
    /// Why it has no number.
    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// Checks that the work was done, and adds the evidence as metrics.
    ///
    /// # Errors
    /// What shows that it was not.
    fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _ = (point, meter);
        Ok(())
    }
}

/// A role that has nothing to set up: a function that measures a point.
pub struct Only(pub fn(&Point, &mut Meter<'_>) -> Result<(), Failure>);

impl Role for Only {
    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        (self.0)(point, meter)
    }
}

/// The `derive` of a probe with one role: what the role reports is the result.
///
/// # Panics
/// A probe with several roles that uses this is a bug.
pub fn the_only_report(_: &Point, reports: Vec<Report>) -> Report {
    let [report] = <[Report; 1]>::try_from(reports).expect("one role");
    report
}

/// The probe called `id` in a table.
pub fn find<'a>(table: &[&'a Probe], id: &str) -> Option<&'a Probe> {
    table.iter().copied().find(|probe| probe.info.id == id)
}
