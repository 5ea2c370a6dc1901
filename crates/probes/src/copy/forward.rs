//! `copy.forward`: what a proxy pays to pass bytes on.

use crate::ends::{broken, cannot_start, keep, partner_cpu, tcp_over_loopback};
use crate::net::rtt::Rtt;
use crate::prelude::*;
use costof_os::net::forward::{Forwarded, Forwarder, Way};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

words! {
    /// By which calls the proxy passes bytes on.
    pub(crate) enum By => Way {
        /// recv(2) into a buffer of 64 KiB, and send(2) from it
        RecvSend = "recv_send",
        /// splice(2) from the socket into a pipe of 1 MiB, and from it into the other socket
        Splice = "splice",
        /// io_uring: one multishot receive into a ring of 32 buffers of 32 KiB, and a bundled send of
        /// all that have arrived; one io_uring_enter(2) submits and waits
        Uring = "uring",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Forward>();

/// At most this much of a message is on its way, so that no end waits for the other one: each
/// socket has room for as much.
const WINDOW: usize = 64 << 10;
/// A message that takes longer is lost.
const STALLED: Duration = Duration::from_secs(10);
/// Messages between two checks of the time, and before the first that counts.
const MESSAGES: u64 = 8;
const KIB: f64 = 1024.0;

point! {
    /// What does a proxy pay to pass a message on?
    ///
    /// A thread on another CPU passes on what it receives from one TCP connection to another one,
    /// over loopback, and looks at nothing. The measured thread sends a message on the first
    /// connection and receives it on the second one, one message after the other, with up to 64 KiB
    /// of it on its way; each is stamped. All ends wait in the kernel. A message carries its number,
    /// which is compared when it arrives, and the last one is compared as a whole. The proxy's CPU
    /// time (CLOCK_THREAD_CPUTIME_ID) includes what the kernel does for the receiver's end of the
    /// second connection, as over loopback a send delivers.
    ///
    /// # Predicted from
    /// a round trip by TCP of the same bytes (net.rtt): a message that is passed on makes two
    /// hops and wakes two threads, as a round trip does; the bytes after the first 64 are copied two
    /// to four times
    ///
    /// # Sources
    /// - splice(2); D. Maltz, P. Bhagwat, TCP Splicing for Application Layer Proxy Performance, IBM 1998
    /// - io_uring_prep_recv_multishot(3), io_uring_prep_send_bundle(3); liburing, examples/proxy.c
    ///
    /// # Needs
    /// - by=uring: io_uring of Linux 6.10
    /// - cpus=cross: two CPUs (--cpu)
    /// - wake=polling: root, and a cpuidle driver whose shallowest state is POLL
    pub(crate) struct Forward of "copy.forward" {
        /// by which calls the proxy passes bytes on
        by: By = words(),
        /// bytes of a message
        size: u64 = bytes(8..=16 << 20, &[64 << 10, 64, 4 << 10, 16 << 10, 256 << 10, 1 << 20]),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Measure for Forward {
    const METRICS: &'static [Metric] = metrics! {
        /// from just before a message is sent until it has arrived behind the proxy; each is stamped
        latency: Nanoseconds Lower,
        /// CPU time of the proxy's thread per KiB
        cpu: Nanoseconds Lower,
        /// bytes that arrived per second
        throughput: BytesPerSecond Higher,
        /// system calls of the proxy per message
        system_calls: One Lower,
    };
    const AFTER: NameList = &["net.rtt"];
    const CROSSINGS: &'static [NameList] = &[&["by", "size"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: NameList = &["size", "cpus", "wake"];
    const ROLES: &'static [StartRole] = &[alone::<_, Proxied>];

    headlines! {
        "proxy: 64 KiB passed on by recv and send": {},
    }

    fn memory_bytes(point: &At<Forward>) -> u64 {
        2 * point.size + (8 << 20)
    }

    fn processors(point: &At<Forward>) -> usize {
        point.cpus.count()
    }

    fn predict(point: &At<Forward>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let round_trip = measured.at_over("loopback", &Rtt::default())?;
        let mut cost = Cost::new(round_trip, "for a round trip by TCP (net.rtt)") * (0.6, 1.8);
        let copies = match point.by {
            By::RecvSend | By::Uring => (4.0, 4.0),
            By::Splice => (2.0, 3.0),
        };
        let bytes = point.size.saturating_sub(64) as f64;
        cost += Cost::bytes(bytes, (1.5, 12.0), "copied") * copies;
        // Windows of a long message wait for each other.
        let turns = (point.size as f64 / WINDOW as f64 - 1.0).max(0.0);
        cost += Cost::new(round_trip, "for each further window of 64 KiB") * (0.0, turns);
        cost.predict("latency")
    }
}

/// The connections to the proxy and from it, and its thread.
struct Proxied {
    into: TcpStream,
    out: TcpStream,
    proxy: JoinHandle<io::Result<Forwarded>>,
    message: Vec<u8>,
    arrived: Vec<u8>,
    number: u64,
    _awake: Awake,
}

impl Setup<Forward> for Proxied {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Forward>, launch: &Launch) -> Result<Proxied> {
        let cpu = partner_cpu(point.cpus, &launch.cpus)?;
        let awake = keep(point.cpus, point.wake, &launch.cpus)?;
        let connections = tcp_over_loopback().and_then(|one| Ok((one, tcp_over_loopback()?)));
        let ((into, from), (to, out)) =
            connections.or_unsupported("cannot connect over loopback (ip link set lo up)")?;
        for end in [&into, &out] {
            let limits = end
                .set_read_timeout(Some(STALLED))
                .and_then(|()| end.set_write_timeout(Some(STALLED)));
            limits.or_fail("cannot limit how long a message takes")?;
        }
        let way = point.by.into();
        let (ready, is_ready) = mpsc::channel();
        let proxy = thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            // If this fails, it runs elsewhere.
            let _ = affinity::pin(&[cpu]);
            let forwarder = match Forwarder::new(way) {
                Ok(forwarder) => forwarder,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Err(ErrorKind::Unsupported.into());
                }
            };
            let _ = ready.send(Ok(()));
            forwarder.forward(&from, &to)
        });
        let proxy = proxy.map_err(cannot_start)?;
        let is_ready = is_ready.recv().or_fail("the proxy has ended")?;
        is_ready.or_unsupported(point.by.word())?;
        let size = point.size as usize;
        let message = (0..size).map(|at| (at % 251) as u8).collect();
        let mut ready =
            Proxied { into, out, proxy, message, arrived: vec![0; size], number: 0, _awake: awake };
        for _ in 0..MESSAGES {
            ready.pass_on()?;
        }
        Ok(ready)
    }

    fn measure(&mut self, point: &At<Forward>, meter: &mut Meter<'_>) -> Result {
        let clock = meter.clock();
        let began = clock.start();
        let mut messages = 0;
        meter.repeat(u64::MAX, |meter| {
            for _ in 0..MESSAGES {
                let start = clock.start();
                self.pass_on()?;
                meter.latency("latency", clock.ns(clock.end().saturating_sub(start)));
                messages += 1;
            }
            Ok(())
        })?;
        let ns = clock.ns(clock.end().saturating_sub(began));
        meter.value("throughput", (messages * point.size) as f64 * 1e9 / ns);
        Ok(())
    }

    fn check(self, _: &At<Forward>, meter: &mut Meter<'_>) -> Result {
        let messages = self.number as f64;
        ensure!(self.arrived == self.message, "the received bytes differ from those sent");
        let (bytes, forwarded) = self.end()?;
        ensure!(forwarded.bytes == bytes, "{} of {bytes} bytes were passed on", forwarded.bytes);
        meter.value("cpu", forwarded.cpu_ns as f64 / bytes as f64 * KIB);
        meter.value("system_calls", forwarded.calls as f64 / messages);
        Ok(())
    }
}

/// As [`broken`], for a receiver that waits no longer than [`STALLED`].
fn lost(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::WouldBlock => Failure::error(format!(
            "a message did not come through the proxy within {} s",
            STALLED.as_secs()
        )),
        _ => broken(error),
    }
}

impl Proxied {
    /// Sends a message into the proxy, and receives it behind it.
    #[inline]
    fn pass_on(&mut self) -> Result {
        self.number += 1;
        let number = self.number.to_ne_bytes();
        self.message[..number.len()].copy_from_slice(&number);
        let size = self.message.len();
        let (mut sent, mut received) = (0, 0);
        while received < size {
            while sent < size && sent - received < WINDOW {
                let until = size.min(received + WINDOW);
                sent += self.into.write(&self.message[sent..until]).map_err(broken)?;
            }
            match self.out.read(&mut self.arrived[received..]).map_err(lost)? {
                0 => return Err(broken(ErrorKind::UnexpectedEof.into())),
                bytes => received += bytes,
            }
        }
        ensure!(self.arrived[..number.len()] == number, "another message arrived than was sent");
        Ok(())
    }

    /// Ends the proxy. Returns the bytes that were sent into it, and what it passed on.
    fn end(self) -> Result<(u64, Forwarded)> {
        self.into.shutdown(Shutdown::Write).map_err(broken)?;
        let forwarded = self.proxy.join().expect("passing on does not panic").map_err(broken)?;
        Ok((self.number * self.message.len() as u64, forwarded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::measured_over_loopback;
    use costof_model::FailureKind;
    use costof_model::testing::launch_message;

    #[test]
    fn each_way_passes_on_what_is_shorter_and_longer_than_a_window() {
        let cpus = affinity::allowed().unwrap()[..1].to_vec();
        let launch = Launch { cpus, ..launch_message(Vec::new()) };
        for by in By::ALL.iter().copied() {
            for size in [8, 200_001] {
                let axes = Forward { by, size, cpus: Cpus::Same, ..Forward::default() };
                match Proxied::set_up(&At::from(axes), &launch) {
                    Err(failure) if failure.kind == FailureKind::Unsupported => {
                        eprintln!("checked less: {failure}");
                    }
                    proxied => {
                        let mut proxied = proxied.unwrap();
                        proxied.pass_on().unwrap();
                        let (bytes, forwarded) = proxied.end().unwrap();
                        assert_eq!(
                            (bytes, forwarded.bytes),
                            ((MESSAGES + 1) * size, bytes),
                            "{by:?}"
                        );
                        assert!(forwarded.cpu_ns > 0 && forwarded.calls > 0, "{by:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn more_bytes_and_more_copies_are_predicted_to_take_longer() {
        let rows = [measured_over_loopback(Rtt::default(), 20e3)];
        let of = |by, size| {
            let point = At::from(Forward { by, size, ..Forward::default() });
            Forward::predict(&point, &Facts::default(), &MeasuredRows::new(&rows)).unwrap()
        };
        let small = of(By::RecvSend, 64);
        assert_eq!((small.low, small.high), (12e3, 36e3));
        assert!(of(By::RecvSend, 1 << 20).low > of(By::Splice, 1 << 20).low);
    }
}
