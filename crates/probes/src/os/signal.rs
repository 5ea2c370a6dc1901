//! `os.signal`: what installing a signal handler and handling a signal cost.

use crate::expect::cost_ns;
use crate::literal::{cost, list, text, word, words};
use crate::os::syscall;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Offers;
use costof_os::signals::{Cause, Handler};

pub(crate) static PROBE: Probe = Probe {
    info: ProbeInfo {
        id: text("os.signal"),
        method: 1,
        question: text(
            "What do installing a signal handler, and having a signal handled, cost a program?",
        ),
        axes: list![words(
            "how",
            "what is done",
            list![
                word(
                    "deliver",
                    "a thread sends itself SIGUSR1 (tgkill), the handler runs and returns"
                ),
                word("install", "sigaction alone"),
                word(
                    "fault",
                    "a store to a read-only page, the handler of SIGSEGV runs and returns"
                ),
            ],
        )],
        crossings: list![],
        metrics: list![cost(
            "one signal, from before it is made until the handler has returned; for `install`, one \
             sigaction"
        )],
        how: text(
            "In a loop, in one thread. The handler counts, and the count is checked. `deliver` \
             enters the kernel twice: tgkill, as which returns the handler runs, on the thread's \
             own stack, and the handler's return (rt_sigreturn). Both move the processor's state \
             to and from that stack, vector registers included. `fault` is made by a store that \
             never happens: the handler goes on behind it, so that there is no tgkill, and no \
             mprotect, but an exception and the kernel's look at the page.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_sig: install, catch, prot"
            ),
            text("sigaction(2), sigreturn(2), signal(7)"),
        ],
        predicted_from: text(
            "the smallest system call, which os.syscall has measured, and 0.3 to 2 µs for building and taking down the frame of a handler",
        ),
        after: list![text("os.syscall")],
        needs: list![],
        roles: list![text("only")],
    },
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Signal::default()))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    let axes = Axes::default().with("how", "deliver");
    vec![Headline::new("signal: delivery and return", axes)]
}

#[derive(Default)]
struct Signal {
    handler: Option<Handler>,
    /// How many signals were made.
    made: u64,
}

impl Role for Signal {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let cause = match point.axes.word("how") {
            "fault" => Cause::Fault,
            _ => Cause::Sent,
        };
        // There is one at a time.
        self.handler = None;
        self.made = 0;
        let handler = Handler::install(cause)
            .map_err(|error| Failure::unsupported(format!("cannot install a handler: {error}")))?;
        self.handler = Some(handler);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let handler = self
            .handler
            .as_mut()
            .expect("a prepared point has its handler");
        let made = &mut self.made;
        match point.axes.word("how") {
            "install" => meter.repeatable("cost", |n| handler.reinstall(n)),
            _ => meter.repeatable("cost", |n| {
                handler.handle(n);
                *made += n;
            }),
        }
        Ok(())
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let handler = self
            .handler
            .take()
            .expect("a measured point has its handler");
        if !handler.is_installed() {
            return Err(Failure::error(
                "another handler is installed than was asked for",
            ));
        }
        if handler.handled() != self.made {
            return Err(Failure::error(format!(
                "{} signals were made, and {} handled",
                self.made,
                handler.handled()
            )));
        }
        Ok(())
    }
}

/// What the frame of a handler takes, to build and to take down: hundreds of
/// bytes to kilobytes of registers, by the processor's vector extensions.
const FRAME_NS: (f64, f64) = (300.0, 2000.0);

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let call_ns = syscall::one_thread_ns(known, "getppid")?;
    match point.axes.word("how") {
        "install" => cost_ns(
            call_ns,
            2.0 * call_ns + 100.0,
            format!(
                "1 to 2 system calls of {call_ns:.0} ns, and up to 100 ns to copy two structures"
            ),
        ),
        "fault" => cost_ns(
            call_ns + FRAME_NS.0 + 100.0,
            3.0 * call_ns + FRAME_NS.1 + 1000.0,
            format!(
                "an exception and the call that returns, like 1 to 3 system calls of \
                 {call_ns:.0} ns together, a look at the page of 0.1 to 1 µs, and a handler's \
                 frame of 0.3 to 2 µs"
            ),
        ),
        _ => cost_ns(
            2.0 * call_ns + FRAME_NS.0,
            2.0 * call_ns + FRAME_NS.1,
            format!(
                "2 system calls of {call_ns:.0} ns, and a handler's frame of 0.3 to 2 µs with the \
                 vector registers"
            ),
        ),
    }
}
