//! `cpu.loop`: one iteration of a loop.

use crate::prelude::*;
use costof_os::cpu::loops;
use std::hint::black_box;

words! {
    /// What the loop does besides counting.
    pub(crate) enum Body {
        /// nothing: a subtraction and a branch
        Empty = "empty",
        /// one nop
        Nop = "nop",
        /// counts in memory, as an unoptimised build does: load, add, store, compare
        MemoryCounter = "memory_counter",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Loop>();

point! {
    /// What does one iteration of a loop cost?
    ///
    /// The loops are in assembly and aligned to 64 bytes, so no optimiser unrolls or removes them,
    /// and the placement of code does not change the number. The course projects' unoptimised
    /// builds timed the loop with a counter in memory: cores that rename memory (Zen 2, Golden Cove
    /// and later) do it in one cycle, older ones forward the store in 4 to 6.
    ///
    /// # Predicted from
    /// the core clock and cycles per taken branch
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 6.5 cycles an iteration, unoptimised
    /// - Agner Fog, The microarchitecture of Intel, AMD and VIA CPUs: store forwarding
    /// - T. Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS
    ///   2009: code placement
    pub(crate) struct Loop of "cpu.loop" {
        /// what the loop does besides counting
        body: Body = words(),
    }
}

impl Measure for Loop {
    const METRICS: &'static [Metric] = metrics! {
        /// one iteration
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|_| role::<Loop>(run)];

    headlines! {
        "loop iteration": { body: Body::Empty },
        "loop iteration: counter in memory": { body: Body::MemoryCounter },
    }

    fn predict(point: &At<Loop>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let (cycles, because) = match point.body {
            Body::MemoryCounter => (
                (1.0, 6.5),
                "the counter goes through the store buffer, or is renamed",
            ),
            Body::Empty | Body::Nop => ((0.95, 2.1), "a taken branch a cycle, two on small cores"),
        };
        cost_cycles(measured, cycles, because)
    }
}

fn run(point: &At<Loop>, meter: &mut Meter<'_>) -> Result<(), Failure> {
    match point.body {
        Body::Empty => meter.repeatable("cost", loops::empty),
        Body::Nop => meter.repeatable("cost", loops::nop),
        Body::MemoryCounter => meter.repeatable("cost", |n| {
            black_box(loops::memory_counter(n));
        }),
    }
    Ok(())
}
