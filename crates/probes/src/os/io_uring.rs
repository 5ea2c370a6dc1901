//! `os.io_uring`: small operations by a ring, beside the system calls that do the same.

use crate::os::mitigations;
use crate::prelude::*;
use costof_os::process::ring_calls::{self, RingCalls, Taker};
use costof_os::process::syscalls;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use syscall::Call;

words! {
    /// What is done.
    pub(crate) enum Operation {
        /// one byte of /dev/zero is read, as os.syscall call=read does
        Read = "read",
        /// nothing; as a system call, getppid
        Nop = "nop",
        /// 64 bytes are sent by UDP over loopback to a socket that is full and drops them
        Send = "send",
    }

    /// Who asks the kernel for it.
    pub(crate) enum How {
        /// io_uring_enter, which submits the requests and waits for all of them
        Ring = "ring",
        /// the same; the file is registered with the ring
        Registered = "registered",
        /// a thread of the kernel on another CPU polls the ring (SQPOLL), and is awake
        Polled = "polled",
        /// no ring: a system call for each
        Calls = "calls",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<IoUring>();

point! {
    /// What does a small operation cost by io_uring, and by a system call?
    ///
    /// A batch of requests is put into the ring, submitted, and complete before the next batch begins. Where the kernel
    /// has them, the ring has IORING_SETUP_SINGLE_ISSUER and DEFER_TASKRUN: completions come on request, and interrupt
    /// nobody. Each result is checked. No operation has to wait, so the kernel does it in the call that submits it:
    /// this is the cost of asking, not of waiting. With how=polled, the kernel's thread has a CPU of its own;
    /// it falls asleep after 100 ms without a request, and `calls` shows whether it had to be woken. Accept is not among
    /// the operations: without a wait it needs a connection that somebody has made before, and that costs hundreds of
    /// times as much (net.connect).
    ///
    /// # Predicted from
    /// the same operation as a system call (os.syscall) and the mitigations: entering the kernel once a batch, and usual
    /// cycles (cpu.frequency) for a request and its completion
    ///
    /// # Sources
    /// - io_uring_enter(2), io_uring_setup(2)
    /// - J. Axboe, Efficient IO with io_uring, 2019
    /// - D. Didona et al., Understanding Modern Storage APIs, SYSTOR 2022
    ///
    /// # Needs
    /// - that io_uring is not disabled (kernel.io_uring_disabled, seccomp)
    /// - how=polled: two CPUs (--cpu)
    pub(crate) struct IoUring of "os.io_uring" {
        /// what is done
        operation: Operation = words(),
        /// who asks the kernel for it
        how: How = words(),
        /// requests of a submission; system calls have none, and cost the same with any
        batch: u64 = count(1..=256, &[1, 2, 4, 8, 16, 32, 64, 256]),
    }
}

impl Measure for IoUring {
    const METRICS: &'static [Metric] = metrics! {
        /// one operation: a batch's time divided by its requests
        cost: Nanoseconds Lower,
        /// system calls per operation, as the caller counts them
        calls: One Neither,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["operation", "how"], &["how", "batch"]];
    const ROUNDS: u32 = 2;
    const BUDGET: Option<Budget> = Some(Budget::seconds(5, 20, 60));
    const ROLES: &'static [StartRole] = &[alone::<_, Caller>];

    headlines! {
        "io_uring: a NOP, submitted and completed": { operation: Operation::Nop },
    }

    fn check_axes(point: &At<Self>) -> Result {
        if point.how == How::Calls && point.batch > 1 {
            unsupported!("system calls are made one by one (--set batch=1)");
        }
        if point.how == How::Registered && point.operation == Operation::Nop {
            unsupported!("a NOP names no file that could be registered (--set operation=read)");
        }
        Ok(())
    }

    fn processors(point: &At<Self>) -> usize {
        if point.how == How::Polled { 2 } else { 1 }
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let work = |cycles, what| mitigations::work(facts, measured, cycles, what);
        let own = match point.operation {
            Operation::Nop => Cost::default(),
            Operation::Read => work((100.0, 250.0), "to clear a byte")?,
            Operation::Send => work((1_500.0, 6_000.0), "for UDP, IP and the loopback device")?,
        };
        let batch = 1.0 / point.batch as f64;
        let cost = match point.how {
            How::Calls => match point.operation {
                Operation::Nop => syscall::measured_cost(measured, Call::Getppid)? * (0.9, 1.1),
                Operation::Read => syscall::measured_cost(measured, Call::Read)? * (0.9, 1.1),
                Operation::Send => mitigations::entries(facts, measured, 1.0)? + own,
            },
            How::Ring | How::Registered => {
                let entry = mitigations::entries(facts, measured, 1.0)? * (batch, 3.0 * batch);
                entry + work((30.0, 250.0), "for a request and its completion")? + own
            }
            How::Polled => {
                let lines = Cost::new((150.0 * batch, 2_000.0 * batch), "for lines to another CPU");
                let here = cycles(measured, (20.0, 150.0), "for a request and its completion")?;
                // The other CPU works on the first requests while this one writes the next.
                lines + here + own * (0.3, 1.5)
            }
        };
        cost.predict("cost")
    }
}

struct Caller {
    way: Way,
    /// Operations that were done.
    done: u64,
    /// The full socket.
    _receiver: Option<UdpSocket>,
}

enum Way {
    Ring(Box<RingCalls>),
    Calls(ring_calls::Operation),
}

impl Setup<IoUring> for Caller {
    fn set_up(point: &At<IoUring>, launch: &Launch) -> Result<Caller> {
        IoUring::check_axes(point)?;
        let mut receiver = None;
        let operation = match point.operation {
            Operation::Nop => ring_calls::Operation::Nop,
            Operation::Read => {
                let zeroes = File::open("/dev/zero").or_unsupported("cannot open /dev/zero")?;
                ring_calls::Operation::Read(zeroes)
            }
            Operation::Send => {
                let (sender, full) = full_socket().or_unsupported("cannot send over loopback")?;
                receiver = Some(full);
                ring_calls::Operation::Send(sender)
            }
        };
        let taker = match point.how {
            How::Calls => None,
            How::Ring => Some(Taker::Caller),
            How::Registered => Some(Taker::CallerRegistered),
            How::Polled => Some(Taker::Poller(threads::on(2, &launch.cpus)?[1])),
        };
        let way = match taker {
            Some(taker) => {
                let ring = RingCalls::new(operation, point.batch as u32, taker);
                Way::Ring(Box::new(ring.or_unsupported("cannot make a ring")?))
            }
            None => Way::Calls(operation),
        };
        Ok(Caller { way, done: 0, _receiver: receiver })
    }

    fn measure(&mut self, point: &At<IoUring>, meter: &mut Meter<'_>) -> Result {
        meter.batches_are_multiples_of(point.batch);
        let Caller { way, done, .. } = self;
        let operation = |n| {
            *done += n;
            way.repeat(n)
        };
        repeat_fallible(meter, "cost", operation).or_fail("an operation failed")
    }

    fn check(self, _: &At<IoUring>, meter: &mut Meter<'_>) -> Result {
        let calls = match &self.way {
            Way::Ring(ring) => ring.calls() as f64 / self.done as f64,
            Way::Calls(_) => 1.0,
        };
        meter.value("calls", calls);
        Ok(())
    }
}

impl Way {
    #[inline]
    fn repeat(&mut self, n: u64) -> io::Result<()> {
        match self {
            Way::Ring(ring) => ring.repeat(n),
            Way::Calls(ring_calls::Operation::Nop) => {
                syscalls::getppid(n);
                Ok(())
            }
            Way::Calls(ring_calls::Operation::Read(file)) => {
                syscalls::read_one_byte(file.as_fd(), n)
            }
            Way::Calls(ring_calls::Operation::Send(socket)) => {
                let message = [7; ring_calls::MESSAGE_BYTES];
                (0..n).try_for_each(|_| socket.send(&message).map(drop))
            }
        }
    }
}

/// A connected sender, and the receiver, which has no room for another message.
fn full_socket() -> io::Result<(UdpSocket, UdpSocket)> {
    /// More messages than any usual buffer holds: the kernel charges hundreds of bytes for each.
    const FILL: u32 = 20_000;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    for _ in 0..FILL {
        sender.send(&[7; ring_calls::MESSAGE_BYTES])?;
    }
    Ok((sender, receiver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::{at, measured, measured_call};

    #[test]
    fn a_call_has_no_batch_and_a_nop_no_file() {
        let check = |values| IoUring::check_axes(&At::from(at::<IoUring>(values)));
        assert!(check("how=calls").is_ok() && check("how=registered batch=8").is_ok());
        assert!(check("how=calls batch=8").unwrap_err().reason.contains("batch=1"));
        assert!(check("how=registered operation=nop").unwrap_err().reason.contains("no file"));
    }

    #[test]
    fn a_larger_batch_is_predicted_to_cost_less() {
        let rows = [measured(Frequency {}, 3e9), measured_call(Call::Read, 100.0)];
        let range = |values| {
            let point = At::from(at::<IoUring>(values));
            let rows = MeasuredRows::new(&rows);
            let predicted = IoUring::predict(&point, &Facts::default(), &rows).unwrap();
            (predicted.low, predicted.high)
        };
        let (one, many) = (range("batch=1"), range("batch=64"));
        assert!(many.0 < one.0 && many.1 < one.1, "{one:?} {many:?}");
        let (low, high) = range("how=calls");
        assert!((low - 90.0).abs() < 1e-9 && (high - 110.0).abs() < 1e-9, "{low} {high}");
    }
}
