//! `cpu.call`: a procedure call, by its arguments.

use crate::prelude::*;
use costof_os::cpu::calls::{ArgumentKind, call};

words! {
    pub(crate) enum Arguments => ArgumentKind {
        /// 64-bit integers, in registers
        Int = "int",
        /// 64-bit floating point, in registers
        Double = "double",
        /// structures of 32 bytes by value, copied to the stack
        Struct = "struct",
        /// 32-bit floating point, by a callee as gcc -O0 compiles it: each argument is stored on the stack and loaded again
        UnoptimisedFloat = "unoptimised_float",
        /// the same of double
        UnoptimisedDouble = "unoptimised_double",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Call>();

point! {
    /// What does a procedure call cost, by the type and number of its arguments?
    ///
    /// An iteration of the loop makes eight calls of a function in assembly that cannot be inlined.
    /// For each call the caller sets up all arguments by the platform's calling convention, and the
    /// callee adds them up; the sum is checked. Calls do not wait for each other, so this is a
    /// throughput: whatever the core does in parallel costs nothing, and arguments in registers may
    /// be free. The cost includes the arguments, the call, the return, one addition per argument,
    /// and an eighth of the loop. The instructions of unoptimised callees are those of gcc -O0 (Debian 12) for
    /// the same function, however costof was built.
    ///
    /// # Predicted from
    /// the core clock; a call and a return every 2 to 6 cycles, and what the arguments add: two
    /// to six instructions a cycle, one or two stores; unoptimised 1 to 4 for the frame, and up to
    /// two for each argument that is stored and loaded
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 5.9 to 10.6 cycles for 0 to 7 arguments,
    ///   unoptimised
    /// - System V ABI for AMD64, section 3.2.3; Procedure Call Standard for the Arm 64-bit
    ///   Architecture, section 6.8
    pub(crate) struct Call of "cpu.call" {
        /// type of the arguments
        r#type: Arguments = words(),
        /// number of arguments
        args: u64 = count(0..=7, &[0, 1, 2, 3, 4, 5, 6, 7]),
    }
}

impl Measure for Call {
    // With 1, the cost depended on where the linker put the callees.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one call and its return
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["type", "args"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|_| role::<Call>(run)];

    headlines! {
        "procedure call": {},
        "procedure call: 7 integers": { args: 7 },
        "procedure call: 4 structures": { r#type: Arguments::Struct, args: 4 },
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let args = point.args as f64;
        let (cycles, because) = match point.r#type {
            Arguments::Struct => (
                (2.0 + args, 6.0 + 3.0 * args),
                "a call and a return, and two to four stores for each structure, of which a core \
                 makes one or two a cycle",
            ),
            Arguments::Int | Arguments::Double => (
                (2.0 + args / 6.0, 5.5 + args / 2.0),
                "a call and a return, and two to six instructions a cycle for the arguments",
            ),
            Arguments::UnoptimisedFloat | Arguments::UnoptimisedDouble => (
                (3.0 + 0.3 * args, 10.0 + 2.0 * args),
                "a call, a return and a frame, and a store and a load for each argument",
            ),
        };
        cost_cycles(measured, cycles, because)
    }
}

fn run(point: &At<Call>, meter: &mut Meter<'_>) -> Result {
    let args = point.args as u8;
    let mut sum = 0;
    meter.repeatable("cost", |n| sum = call(point.r#type.into(), args, n));
    let expected = point.args * (point.args + 1) / 2;
    ensure!(
        sum == expected,
        "the callee did not get its arguments: it returned {sum} instead of {expected}"
    );
    Ok(())
}
