//! The two ends: one sends messages until the other has received enough.

use super::{How, Receive, Segments};
use crate::prelude::*;
use crate::two_ends::{broken, cannot_reach, rendezvous};
use costof_exchange::pattern::repeat::{Sender, call};
use costof_exchange::progress::windows::KIB;
use costof_exchange::rendezvous::{Address, Listener};

/// Warm-up: socket buffers grow, and TCP's window, which takes ten round trips to reach 16 MiB.
const RAMP: Duration = Duration::from_millis(50);
const RAMP_ROUND_TRIPS: u32 = 20;
const RAMP_MAX: Duration = Duration::from_secs(5);
/// The shortest batch: many times what a stream's buffers hold.
const BATCH_NS: f64 = 5e6;
/// The TCP timestamp option in a segment.
const OPTIONS_BYTES: usize = 12;

pub(super) struct Sending {
    rendezvous: Rendezvous,
    cpus: Vec<usize>,
    listener: Option<Listener>,
}

impl Sending {
    pub(super) fn start(launch: &Launch) -> Result<Sending> {
        Ok(Sending {
            rendezvous: rendezvous::with_receiver(launch)?,
            cpus: launch.cpus.clone(),
            listener: None,
        })
    }

    /// Payload of TCP's largest segment now; `None` for a Unix socket.
    fn segment_bytes(sender: &Sender) -> Result<Option<u32>> {
        sender.segment_bytes().map_err(|error| failed(&error))
    }
}

impl RoleAt<Receive> for Sending {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Receive>, _: &Offers) -> Result<Offers> {
        let page_bytes = base_page_bytes();
        point.check(page_bytes)?;
        let (listener, offers) =
            rendezvous::listen(&point.link, &self.rendezvous, point.over.into(), 1)?;
        if point.segments == Segments::Pages {
            let segment = (page_bytes + OPTIONS_BYTES) as u32;
            listener.limit_segments(segment).or_unsupported_hint(
                format!("the segment size cannot be set to a page of {page_bytes} B"),
                "--set segments=usual",
            )?;
        }
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &At<Receive>, meter: &mut Meter<'_>) -> Result {
        let listener = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        pin(&self.cpus)?;
        let mut sender = match Sender::accept(&listener, stop, point.size, point.sent_by.into()) {
            Ok(sender) => sender,
            // The receiver has failed and reports why.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        if point.segments == Segments::Pages
            && let Some(segment) = Sending::segment_bytes(&sender)?
            && !(segment as usize).is_multiple_of(base_page_bytes())
        {
            unsupported!(
                "segments have {segment} B here, not whole pages: the link's MTU is smaller, or an end \
                 has no timestamps (--set segments=usual, or --link loopback)"
            );
        }
        let work = sender.send(stop).map_err(|error| failed(&error))?;
        // Segments grow with the receiver's window: their final size counts.
        if let Some(segment) = Sending::segment_bytes(&sender)? {
            meter.value("segment", f64::from(segment));
        }
        if work.bytes > 0 && work.wall_ns > 0 {
            let (cpu_ns, wall_ns) = (work.cpu_ns as f64, work.wall_ns as f64);
            meter.value("cpu_sender", cpu_ns / (work.bytes as f64 / KIB));
            meter.value("sender_running", (cpu_ns / wall_ns).min(1.0));
        }
        meter.allocated(work.allocations);
        Ok(())
    }
}

pub(super) struct Receiving {
    rendezvous: Rendezvous,
    cpus: Vec<usize>,
    offers: Offers,
}

impl Receiving {
    pub(super) fn start(launch: &Launch) -> Result<Receiving> {
        Ok(Receiving {
            rendezvous: rendezvous::with_receiver(launch)?,
            cpus: launch.cpus.clone(),
            offers: Offers::new(),
        })
    }
}

impl RoleAt<Receive> for Receiving {
    const BLOCKS: bool = true;

    fn prepare(&mut self, _: &At<Receive>, offers: &Offers) -> Result<Offers> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Receive>, meter: &mut Meter<'_>) -> Result {
        let address: Address = rendezvous::offered(&self.offers)?;
        pin(&self.cpus)?;
        let (how, over) = (point.how.into(), point.over.into());
        let token = self.rendezvous.token.as_bytes();
        let called = call(how, over, &address, point.shape(), token);
        let (mut receiver, round_trip) = called.map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => failed(&error),
            _ => cannot_reach(&address, &error),
        })?;
        // A MiB, or at least one message.
        let some = ((1 << 20) / point.size as u64).clamp(1, 1024);
        let (began, ramp) = (Instant::now(), ramp(round_trip));
        while began.elapsed() < ramp {
            receiver.receive(some).map_err(|error| failed(&error))?;
        }
        let before = receiver.counts();
        let mut received = Ok(());
        meter.batches_last(BATCH_NS);
        meter.repeatable("cost", |n| {
            if received.is_ok() {
                received = receiver.receive(n);
            }
        });
        received.map_err(|error| failed(&error))?;
        let counts = receiver.counts().since(&before);
        let (bytes, cpu_ns) = (counts.bytes as f64, counts.cpu_ns as f64);
        meter.value("cpu_receiver", cpu_ns / (bytes / KIB));
        meter.value("receiver_running", (cpu_ns / counts.wall_ns as f64).min(1.0));
        meter.value("calls", counts.calls as f64 / counts.messages as f64);
        if point.how == How::Mapped {
            meter.value("mapped", counts.mapped_bytes as f64 / bytes);
        }
        let is_right = receiver.next_is_right().map_err(|error| failed(&error))?;
        ensure!(is_right, "the received bytes differ from those sent");
        Ok(())
    }
}

/// A failure that may mean that this machine lacks what the point needs.
fn failed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::Unsupported => Failure::unsupported(error.to_string()),
        _ => broken(error),
    }
}

fn ramp(round_trip: Duration) -> Duration {
    (RAMP_ROUND_TRIPS * round_trip).clamp(RAMP, RAMP_MAX)
}

/// Pins this thread to its role's first CPU. Where there are two CPUs, the roles' first ones
/// differ.
fn pin(cpus: &[usize]) -> Result {
    match cpus.first() {
        Some(first) => affinity::pin(&[*first]).or_fail(format!("cannot run on CPU {first}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_take_longer_to_begin() {
        let ms = Duration::from_millis;
        assert_eq!(ramp(Duration::ZERO), RAMP);
        assert_eq!(ramp(ms(10)), ms(200));
        assert_eq!(ramp(ms(3000)), RAMP_MAX);
    }
}
