//! `os.wait`: what it costs to wait for many descriptors at once.

use crate::prelude::*;
use costof_os::ipc::ready::{self, Ready};

words! {
    /// The call that waits.
    pub(crate) enum By => ready::By {
        /// epoll_wait, level-triggered
        Epoll = "epoll",
        /// poll, which gets all descriptors each time
        Poll = "poll",
        /// io_uring_enter, with a poll request for each descriptor that stays (IORING_POLL_ADD_MULTI)
        IoUring = "io_uring",
    }

    /// What is done.
    pub(crate) enum Step {
        /// one descriptor becomes readable, and is found and read
        Wake = "wake",
        /// a descriptor is removed and added again, while all others stay registered
        Register = "register",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Wait>();

point! {
    /// What does it cost to find the one of many descriptors that is ready, by epoll, poll or io_uring?
    ///
    /// One thread writes to one of its eventfds, waits for any of them, and reads the one that is reported, another one
    /// each time: three system calls, and no sleep. What a sleeping thread's wake-up adds is os.context_switch. That
    /// the right one was reported is checked each time. poll gets and scans all descriptors in each call; epoll and io_uring
    /// keep them in the kernel.
    ///
    /// # Predicted from
    /// three reads (os.syscall), and for poll 15 to 250 cycles (cpu.frequency) for each descriptor
    ///
    /// # Sources
    /// - epoll(7), poll(2), eventfd(2), io_uring_enter(2)
    /// - G. Banga, J. C. Mogul, P. Druschel, A Scalable and Explicit Event Delivery Mechanism for UNIX, USENIX 1999
    /// - perf-bench(1), epoll wait and epoll ctl
    ///
    /// # Needs
    /// - as many open files (ulimit -Hn)
    /// - for io_uring: Linux 5.13, and a container that lets it through
    pub(crate) struct Wait of "os.wait" {
        /// the call that waits
        by: By = words(),
        /// how many descriptors are waited for
        descriptors: usize = count(1..=100_000, &[1, 10, 100, 1000, 10_000]),
        /// what is done
        step: Step = words(),
    }
}

impl Measure for Wait {
    const METRICS: &'static [Metric] = metrics! {
        /// a write, a wait and a read; for `register`, two calls of epoll_ctl
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["by", "descriptors"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 5, 30));
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Ready>];

    headlines! {
        "epoll: write, wait and read an eventfd": {},
    }

    fn check_axes(point: &At<Wait>) -> Result {
        if point.step == Step::Register && point.by != By::Epoll {
            unsupported!("only epoll has a call that registers and nothing else (--set by=epoll)");
        }
        Ok(())
    }

    fn predict(point: &At<Wait>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let read = syscall::measured_cost(measured, syscall::Call::Read)?;
        let count = point.descriptors as f64;
        let cost = match (point.step, point.by) {
            (Step::Register, _) => read * (1.5, 8.0),
            (Step::Wake, By::Poll) => {
                let scanned = (15.0 * count, 250.0 * count);
                read * (2.5, 7.0) + cycles(measured, scanned, "to look at each descriptor")?
            }
            // Lines of descriptors that were not used for long.
            (Step::Wake, By::Epoll | By::IoUring) => {
                read * (2.5, 7.0) + cycles(measured, (1.0, 1_500.0), "for cold lines")?
            }
        };
        cost.predict("cost")
    }
}

impl Setup<Wait> for Ready {
    fn set_up(point: &At<Wait>, _: &Launch) -> Result<Ready> {
        Wait::check_axes(point)?;
        Ready::new(point.by.into(), point.descriptors)
            .or_unsupported(format_args!("cannot wait for {} descriptors", point.descriptors))
    }

    fn measure(&mut self, point: &At<Wait>, meter: &mut Meter<'_>) -> Result {
        let measured = match point.step {
            Step::Wake => repeat_fallible(meter, "cost", |n| self.wake(n)),
            Step::Register => repeat_fallible(meter, "cost", |n| self.register_again(n)),
        };
        measured.or_fail("waiting failed")
    }
}
