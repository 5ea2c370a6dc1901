//! `cpu.loop`: one iteration of a loop.

use crate::prelude::*;
use costof_os::cpu::loops;

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
    /// the core clock and cycles per taken branch; for a counter in memory, whether the core renames
    /// memory
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

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let (cycles, because) = match point.body {
            Body::MemoryCounter if renames_memory(facts) => {
                ((0.95, 2.1), "this core renames memory, so the counter stays in a register")
            }
            Body::MemoryCounter => ((3.8, 6.5), "the counter goes through the store buffer"),
            Body::Empty | Body::Nop => ((0.95, 2.1), "a taken branch a cycle, two on small cores"),
        };
        cost_cycles(measured, cycles, because)
    }
}

/// Whether the core is of a kind that renames memory: Zen 2 and later, Golden Cove and later (by
/// instructions that came with it).
fn renames_memory(facts: &Facts) -> bool {
    let cpu = &facts.cpu;
    let has = |flag: &str| cpu.flags.iter().any(|own| own == flag);
    match (cpu.vendor.as_deref(), cpu.family, cpu.model) {
        (Some("AuthenticAMD"), Some(0x17), Some(model)) => model >= 0x30,
        (Some("AuthenticAMD"), Some(family), _) => family > 0x17,
        (Some("GenuineIntel"), ..) => has("avx_vnni") || has("amx_tile"),
        _ => false,
    }
}

fn run(point: &At<Loop>, meter: &mut Meter<'_>) -> Result {
    match point.body {
        Body::Empty => meter.repeatable("cost", loops::empty),
        Body::Nop => meter.repeatable("cost", loops::nop),
        Body::MemoryCounter => meter.repeatable("cost", |n| {
            black_box(loops::memory_counter(n));
        }),
    }
    Ok(())
}
