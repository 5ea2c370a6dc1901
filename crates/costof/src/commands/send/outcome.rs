//! What was sent by hand, and what that shows.

use crate::session::first_row;
use costof_measure::estimate;
use costof_measure::probe::{Probe, find};
use costof_model::protocol::{BY_HAND, Conditions};
use costof_model::{
    Block, ClockInfo, Data, Failure, Launch, LaunchRow, Noise, Plan, Point, Report, Run, State,
};
use costof_probes::TABLE;

/// What was sent, and what that shows.
pub(super) struct Outcome {
    pub(super) probe: &'static Probe,
    pub(super) point: Point,
    pub(super) conditions: Conditions,
    /// Messages that were sent, as the sender counts them; none at the receiver.
    pub(super) sent: Option<u64>,
    /// Messages that arrived completely, as the receiver counts them; no more than were sent.
    pub(super) arrived: u64,
    /// Their payload, in bytes.
    pub(super) arrived_bytes: u64,
    /// By how many more arrived than were sent, because the network delivered some twice; known to the
    /// sender.
    pub(super) duplicates: u64,
    /// The measurements that this end knows: at the sender those of both ends, at the receiver its own.
    pub(super) measured: Result<Run, Failure>,
}

impl Outcome {
    /// Of a launch by hand, from the receiver's report and the sender's, where that is known here.
    pub(super) fn new(
        launch: &Launch,
        receiver: Option<Report>,
        mut sender: Option<Report>,
        noise: Noise,
        failure: Option<Failure>,
    ) -> Outcome {
        let point = launch.points[0].clone();
        let probe = find(TABLE, &point.probe).expect("its points were checked");
        let size = point.axes.find_number("size").unwrap_or(1).max(1);
        let empty = Report { state: State::Ok, metrics: Vec::new(), allocations: 0 };
        let mut receiver = receiver.unwrap_or_else(|| empty.clone());
        let mut arrived_bytes = take_count(&mut receiver);
        let sent = sender.as_mut().map(take_count);
        // A network may deliver datagrams twice.
        let duplicates = sent.map_or(0, |sent| (arrived_bytes / size).saturating_sub(sent));
        arrived_bytes -= duplicates * size;
        let reports = vec![receiver, sender.unwrap_or(empty)];
        let measured = match failure {
            Some(failure) => Err(failure),
            None => measured(probe, &point, reports, noise, &launch.clock),
        };
        Outcome {
            probe,
            point,
            conditions: launch.by_hand.unwrap_or_default().conditions,
            sent,
            arrived: arrived_bytes / size,
            arrived_bytes,
            duplicates,
            measured,
        }
    }
}

/// Removes what a role has counted.
fn take_count(report: &mut Report) -> u64 {
    let at = report.metrics.iter().position(|metric| metric.name == BY_HAND);
    match at.map(|at| report.metrics.remove(at).data) {
        Some(Data::Value(count)) => count as u64,
        _ => 0,
    }
}

/// The ends' reports together, as a run of one launch.
fn measured(
    probe: &Probe,
    point: &Point,
    reports: Vec<Report>,
    noise: Noise,
    clock: &ClockInfo,
) -> Result<Run, Failure> {
    let (info, report) = (&probe.info, (probe.derive)(point, reports));
    let primary = &info.primary().name;
    if !report.metrics.iter().any(|metric| metric.name == *primary) {
        return Err(Failure::error(
            "too little arrived to measure a rate (a larger --count or --duration)",
        ));
    }
    let launch = LaunchRow {
        of: 1,
        points: vec![report.of(point.clone())],
        noise: Noise { ends: noise.ends, ..Noise::default() },
        ..LaunchRow::default()
    };
    let row = estimate::point(info, point, None, &[&launch], None, clock)?;
    let plan = Plan {
        precision: "by hand".into(),
        blocks: vec![Block { points: vec![point.clone()], rounds: 1, ..Block::default() }],
        ..Plan::default()
    };
    let mut run = Run::new(first_row(plan, None));
    run.probes = vec![(**info).clone()];
    run.launches = vec![launch];
    run.points = vec![row];
    Ok(run)
}
