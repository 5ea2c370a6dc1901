//! `os.signal`: what installing a signal handler and handling a signal cost.

use crate::prelude::*;
use costof_os::process::signals::Handler;

words! {
    /// What happens.
    pub(crate) enum How {
        /// a thread sends itself SIGUSR1 (tgkill), the handler runs and returns
        Deliver = "deliver",
        /// sigaction alone
        Install = "install",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Signal>();

point! {
    /// What does it cost to install a signal handler, and to handle a signal?
    ///
    /// One thread does it in a loop. The handler counts, and the count is checked. `deliver` enters
    /// the kernel twice: by tgkill, on whose return the handler runs, on the thread's own stack,
    /// and by the handler's return (rt_sigreturn). Both move the CPU's state, with its vector
    /// registers, to or from that stack.
    ///
    /// # Predicted from
    /// a system call, and a quarter to 0.8 of an open and close (os.syscall) for the kernel's code;
    /// 500 to 2,000 cycles (cpu.frequency) for building and removing the frame of a handler
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_sig: install, catch
    /// - sigaction(2), sigreturn(2), signal(7)
    pub(crate) struct Signal of "os.signal" {
        /// what happens
        how: How = words(),
    }
}

impl Measure for Signal {
    const METRICS: &'static [Metric] = metrics! {
        /// one signal, from before it is sent until the handler has returned; for `install`, one
        /// sigaction
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Signaller>];

    headlines! {
        "signal: delivery and return": { how: How::Deliver },
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let call = syscall::measured_cost(measured, syscall::Call::Getppid)?;
        let open = syscall::measured_cost(measured, syscall::Call::Open)?;
        let frame = "for a handler's frame with the vector registers";
        let frame = cycles(measured, FRAME_CYCLES, frame)?
            + (open * HANDLED).named("to queue and to take the signal");
        let cost = match point.how {
            How::Install => call * (1.0, 2.0) + Cost::new((0.0, 100.0), "to copy two structures"),
            How::Deliver => call * 2.0 + frame,
        };
        cost.predict("cost")
    }
}

/// Building and removing the frame of a handler, in cycles: XSAVE and XRSTOR of hundreds of bytes to
/// kilobytes of registers on a user's stack, by the CPU's vector extensions.
const FRAME_CYCLES: (f64, f64) = (500.0, 2_000.0);
/// Sending, queueing and taking a signal, in opens and closes of a file: both look something up,
/// lock it, allocate an object and free it.
const HANDLED: (f64, f64) = (0.25, 0.8);

struct Signaller {
    handler: Handler,
    /// How many signals were made.
    made: u64,
}

impl Setup<Signal> for Signaller {
    fn set_up(_: &At<Signal>, _: &Launch) -> Result<Signaller> {
        let handler = Handler::install().or_unsupported("cannot install a handler")?;
        Ok(Signaller { handler, made: 0 })
    }

    fn measure(&mut self, point: &At<Signal>, meter: &mut Meter<'_>) -> Result {
        let Signaller { handler, made } = self;
        match point.how {
            How::Install => meter.repeatable("cost", |n| handler.reinstall(n)),
            How::Deliver => meter.repeatable("cost", |n| {
                handler.handle(n);
                *made += n;
            }),
        }
        Ok(())
    }

    fn check(self, _: &At<Signal>, _: &mut Meter<'_>) -> Result {
        let Signaller { handler, made } = self;
        ensure!(handler.is_installed(), "another handler is installed");
        let handled = handler.handled();
        ensure!(handled == made, "{made} signals were made, and {handled} handled");
        Ok(())
    }
}
