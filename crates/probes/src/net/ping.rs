//! `net.ping`: how long the other end's kernel takes to answer an ICMP echo.

use crate::prelude::*;
use crate::two_ends::path::{self, UDP_HEADERS};
use crate::two_ends::{Wait, is_slow, rendezvous, share_lost, warm_up};
use costof_os::net::icmp::Pinger;
use std::net::IpAddr;

pub(crate) static PROBE: Probe = Probe::new::<Ping>();

point! {
    /// How long does the other end's kernel take to answer a ping?
    ///
    /// One ICMP echo request at a time goes to the other end's address, and its reply is compared
    /// with it. ping(8) does the same, but pauses between requests, and uses the kernel's stamps.
    /// The other end's kernel answers when it receives the request, without waking a
    /// process, so this takes less than net.rtt. On loopback, all of it happens inside the sending
    /// call. The number of requests is fixed before, because a measurement that stops when its time
    /// is over tends to stop at a loss. However slow a link is, a launch has time for four. The other
    /// end needs no costof: `costof run net.ping --to HOST` pings any host, by its name or address.
    ///
    /// # Predicted from
    /// system calls (os.syscall), the link's delays, and bytes over its rate
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: ping 23 µs on loopback, 213 µs remote
    /// - ping(8); RFC 792; RFC 4443; icmp(7)
    ///
    /// # Needs
    /// - an ICMP socket: net.ipv4.ping_group_range must include the user's group, or root
    ///   (CAP_NET_RAW)
    pub(crate) struct Ping of "net.ping" {
        /// bytes that the echo carries after its header of 8
        size: usize = bytes(0..=DATAGRAM_MAX_BYTES as u64, &[56, 1024]),
        /// how an end waits for a message
        wait: Wait = words(),
    }
}

impl Measure for Ping {
    const METRICS: &'static [Metric] = metrics! {
        /// from just before the echo request is sent until its reply has arrived
        latency: Nanoseconds Lower,
        /// the share of requests without a reply within a second, or within twice the round trip of
        /// an emulated link; they have no latency
        lost: One Lower,
    };
    const AFTER: NameList = &["os.syscall"];
    const ROLE_NAMES: NameList = &["server", "client"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Ping>(Server(rendezvous::with_receiver(launch)?)),
        |_| role::<Ping>(Client { pinger: None }),
    ];

    fn least_ns(point: &At<Self>) -> f64 {
        path::least_ns(&point.link, point.size as u64, UDP_HEADERS)
    }

    headlines! {
        "ping: loopback": {},
        "packet there and back: wan": {} over "wan",
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let calls = syscall::measured_cost(measured, syscall::Call::Read)? * (10.0, 32.0);
        // The kernel turns the request into the reply in place; the message is copied in and out.
        let copies = Cost::bytes(point.size as f64, (1.0, 10.0), "copied");
        let link = path::cost(&point.link, point.size as u64, UDP_HEADERS)?;
        (calls.named("through ICMP and IP, there and back") + copies + link).predict("latency")
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        leading(reports)
    }
}

/// The kernel answers. This role only offers its address.
struct Server(Rendezvous);

impl RoleAt<Ping> for Server {
    fn prepare(&mut self, _: &At<Ping>, _: &Offers) -> Result<Offers> {
        Ok(rendezvous::offer(&self.0.address.to_string()))
    }

    fn run(&mut self, _: &At<Ping>, _: &mut Meter<'_>) -> Result {
        Ok(())
    }
}

struct Client {
    pinger: Option<(IpAddr, Pinger)>,
}

/// The shortest time after which a reply is considered lost.
const LOST: Duration = Duration::from_secs(1);
/// After this many losses in a row before any reply, none will come.
const LOST_FIRST: u32 = 3;

impl RoleAt<Ping> for Client {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Ping>, offers: &Offers) -> Result<Offers> {
        let address: IpAddr = rendezvous::offered(offers)?;
        let opened = Pinger::open(address, point.size, point.wait == Wait::Spin);
        let pinger = opened.map_err(|error| cannot_ping(address, &error))?;
        self.pinger = Some((address, pinger));
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Ping>, meter: &mut Meter<'_>) -> Result {
        let lost_after = lost_after(point);
        let (address, mut pinger) = self.pinger.take().expect("it is prepared");
        let mut failed: Option<io::Error> = None;
        // Whether a reply arrived.
        let mut echo = || -> bool {
            let answered = failed.is_none().then(|| pinger.echo(lost_after));
            match answered {
                Some(Ok(answered)) => answered,
                Some(Err(error)) => {
                    failed = Some(error);
                    false
                }
                None => false,
            }
        };
        let first_ns = (0..LOST_FIRST).find_map(|_| echo_ns(&mut echo));
        if let Some(first_ns) = first_ns {
            if is_slow(first_ns, meter) {
                meter.latency("latency", first_ns);
            }
            let each_ns = warm_up(first_ns, meter, || Ok(echo_ns(&mut echo)))?;
            let mut slow = meter.lasting(path::lasts_ns(first_ns));
            let lost = pings(&mut slow, each_ns, &mut echo)?;
            meter.value("lost", lost);
        }
        match (failed, first_ns) {
            (Some(error), _) => Err(cannot_ping(address, &error)),
            (None, None) => Err(no_answer(point, address, lost_after)),
            (None, Some(_)) => Ok(()),
        }
    }
}

/// A second, or twice the round trip of the link.
fn lost_after(point: &At<Ping>) -> Duration {
    LOST.max(2 * path::may_take(&point.link, point.size as u64, UDP_HEADERS))
}

/// Reports the latencies of replies, and the share of requests without one.
fn pings(meter: &mut Meter<'_>, each_ns: f64, echo: &mut impl FnMut() -> bool) -> Result<f64> {
    let clock = meter.clock();
    share_lost(meter, each_ns, |meter| {
        let start = clock.start();
        let answered = echo();
        let end = clock.end();
        if answered {
            meter.latency("latency", clock.ns(end.saturating_sub(start)));
        }
        Ok(!answered)
    })
}

fn echo_ns(echo: &mut impl FnMut() -> bool) -> Option<f64> {
    let start = Instant::now();
    echo().then(|| start.elapsed().as_nanos() as f64)
}

/// Losses that no link of costof explains: the next launch would have no answer either.
fn no_answer(point: &At<Ping>, address: IpAddr, lost_after: Duration) -> Failure {
    let reason = format!(
        "{address} did not answer {LOST_FIRST} pings within {} s each (a firewall may drop them, or no \
         machine has this address)",
        lost_after.as_secs()
    );
    if point.link == Link::Remote.to_string() {
        Failure::unsupported(reason)
    } else {
        Failure::error(reason)
    }
}

fn cannot_ping(address: IpAddr, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::PermissionDenied => Failure::unsupported(format!(
            "cannot open an ICMP socket to {address}: {error} (sysctl net.ipv4.ping_group_range=\"0 \
             2147483647\" permits it to all users; root needs nothing)"
        )),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Failure::unsupported(
            format!("cannot reach {address}: {error} (`ip route get {address}` shows the route)"),
        ),
        _ => Failure::error(format!("cannot ping {address}: {error}")),
    }
}
