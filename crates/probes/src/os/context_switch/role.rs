//! A token between two ends that wait for each other.

use super::{ContextSwitch, Over};
use crate::ends::{TokenExchange, broken, cannot_start, keep, partner_cpu};
use crate::prelude::*;
use costof_os::ipc::token::{self, Alone, Exchange, Wait};
use costof_os::sched::usage::Usage;

pub(super) struct Switcher {
    exchange: Exchange,
    token: TokenExchange,
    /// What both ends had used before.
    before: [Usage; 2],
    round_trips: u64,
}

impl Setup<ContextSwitch> for Switcher {
    fn blocks(_: &At<ContextSwitch>) -> bool {
        true
    }

    fn set_up(point: &At<ContextSwitch>, launch: &Launch) -> Result<Switcher> {
        ContextSwitch::check_axes(point)?;
        let exchange = Exchange {
            between: point.between.into(),
            over: match point.over {
                Over::Pipe => token::Over::Pipe,
                Over::Futex => token::Over::SharedMemory,
                Over::Condvar => token::Over::Condvar,
            },
            wait: Wait::Block,
            size: 1,
            cpu: partner_cpu(point.cpus, &launch.cpus)?,
        };
        let awake = keep(point.cpus, point.wake, &launch.cpus)?;
        let mut token = TokenExchange::start(&exchange, awake)?;
        Ok(Switcher {
            exchange,
            before: token.leader.usage().map_err(broken)?,
            token,
            round_trips: 0,
        })
    }

    fn measure(&mut self, point: &At<ContextSwitch>, meter: &mut Meter<'_>) -> Result {
        let single = (point.cpus == Cpus::Cross).then_some("round_trip");
        // A round trip counts as one here; `derive` makes it two switches.
        self.round_trips = self.token.measure(single, meter)?;
        Ok(())
    }

    fn check(mut self, point: &At<ContextSwitch>, meter: &mut Meter<'_>) -> Result {
        let after = self.token.leader.usage().map_err(broken)?;
        let [own, partner] = [0, 1].map(|end| after[end].since(&self.before[end]));
        let voluntary = (own.voluntary_switches + partner.voluntary_switches) as f64;
        let involuntary = (own.involuntary_switches + partner.involuntary_switches) as f64;
        let switches = (voluntary + involuntary) / (2 * self.round_trips) as f64;
        // On two CPUs a busy machine may run the end that waits so late that it finds the token
        // there.
        let least = match point.cpus {
            Cpus::Same | Cpus::OneThread => 0.9,
            Cpus::Cross => 0.5,
        };
        ensure!(
            switches >= least,
            "the token went back and forth, but the kernel counted only {switches:.2} context switches \
             for each that was meant: the ends found it without waiting"
        );
        // This end also measures.
        meter.value("cpu", partner.cpu_ns() as f64 / self.round_trips as f64);
        meter.value("switches", switches);
        meter.value("preempted", involuntary / (voluntary + involuntary));
        meter.value("over_alone", over_alone_ns(&self.exchange, meter)?);
        Ok(())
    }
}

/// Batches of which the median counts, and how long each is.
const ALONE_BATCHES: usize = 31;
const ALONE_OPERATIONS: u64 = 300;

/// What the calls of one direction cost in one thread.
fn over_alone_ns(exchange: &Exchange, meter: &Meter<'_>) -> Result<f64> {
    let mut alone = Alone::open(exchange).map_err(cannot_start)?;
    let clock = meter.clock();
    let mut costs = Vec::with_capacity(ALONE_BATCHES);
    for _ in 0..ALONE_BATCHES {
        let start = clock.start();
        let done = alone.repeat(ALONE_OPERATIONS);
        let ns = clock.ns(clock.end().saturating_sub(start));
        done.map_err(broken)?;
        costs.push(ns / ALONE_OPERATIONS as f64);
    }
    Ok(median(&costs).expect("there are batches"))
}
