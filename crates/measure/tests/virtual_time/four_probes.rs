//! Four probes that differ as much as probes can, written against the types:
//! points that share an arena, operations that are used up, two roles that
//! meet, and a load that is offered at a rate. None needs a special case.

use crate::clock::VirtualClock;
use costof_measure::meter::{Meter, Record};
use costof_measure::probe::Role;
use costof_model::axis::Axes;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{Offers, Report};
use costof_model::rows::State;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

fn point(probe: &'static str, axes: Axes) -> Point {
    Point {
        probe: probe.into(),
        axes,
        link: "none".into(),
    }
}

/// Prepares, runs and finishes a point of a role as a worker does.
fn measure(role: &mut dyn Role, point: &Point, clock: &VirtualClock) -> Result<Report, Failure> {
    let stop = AtomicBool::new(false);
    let mut record = Record::default();
    let mut meter = Meter::new(clock, 1e6, &stop, None, "cost", &mut record);
    role.prepare(point, &Offers::new())?;
    role.run(point, &mut meter)?;
    role.finish(point, &mut meter)?;
    Ok(record.into_report(false, Vec::new()))
}

fn median_cost(report: &Report, metric: &str) -> f64 {
    let measured = report
        .metrics
        .iter()
        .find(|measured| measured.name == metric);
    let mut costs = measured.expect("the metric").data.costs();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// `memory.latency`: the arena is made once for all points of a block.
struct MemoryLatency {
    clock: Rc<VirtualClock>,
    arenas_made: Rc<Cell<u32>>,
    arena: Option<Vec<u64>>,
}

impl Role for MemoryLatency {
    fn prepare(&mut self, _: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.arena.get_or_insert_with(|| {
            self.arenas_made.set(self.arenas_made.get() + 1);
            vec![0; 1024]
        });
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let load_ns = if point.axes.number("size") > 4096 {
            100.0
        } else {
            1.0
        };
        meter.repeatable("cost", |n| self.clock.pass(load_ns * n as f64));
        Ok(())
    }
}

#[test]
fn points_of_a_block_share_an_arena() {
    let clock = Rc::new(VirtualClock::new(1));
    let arenas_made = Rc::new(Cell::new(0));
    let mut role = MemoryLatency {
        clock: Rc::clone(&clock),
        arenas_made: Rc::clone(&arenas_made),
        arena: None,
    };
    for (size, expected_ns) in [(1024, 1.0), (1 << 20, 100.0)] {
        let point = point("memory.latency", Axes::default().with("size", size));
        let report = measure(&mut role, &point, &clock).expect("measured");
        assert!((median_cost(&report, "cost") / expected_ns - 1.0).abs() < 0.01);
    }
    assert_eq!(arenas_made.get(), 1);
}

/// `os.page_fault`: pages are used up, so fresh ones are mapped between batches.
struct PageFault {
    clock: Rc<VirtualClock>,
}

impl Role for PageFault {
    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let fresh = Cell::new(0);
        meter.used_up(
            "cost",
            4096,
            |pages| {
                fresh.set(pages);
                Ok(())
            },
            |pages| {
                fresh.set(fresh.get() - pages);
                self.clock.pass(450.0 * pages as f64);
            },
        )
    }
}

#[test]
fn operations_are_used_up() {
    let clock = Rc::new(VirtualClock::new(1));
    let mut role = PageFault {
        clock: Rc::clone(&clock),
    };
    let report = measure(&mut role, &point("os.page_fault", Axes::default()), &clock);
    assert!((median_cost(&report.expect("measured"), "cost") / 450.0 - 1.0).abs() < 0.01);
}

/// `net.rtt`'s server: offers its address, and serves until it is stopped.
struct Server(Option<TcpListener>);

impl Role for Server {
    fn prepare(&mut self, _: &Point, _: &Offers) -> Result<Offers, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .map_err(|error| Failure::error(format!("cannot listen: {error}")))?;
        let address = listener
            .local_addr()
            .expect("a bound listener has an address");
        self.0 = Some(listener);
        Ok(Offers::from([("address".into(), address.to_string())]))
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let listener = self.0.take().expect("prepared");
        let (mut stream, _) = listener
            .accept()
            .map_err(|error| Failure::error(error.to_string()))?;
        let mut answered = 0;
        let mut byte = [0];
        // The client closes when it has measured; then only the stop is awaited.
        while matches!(stream.read(&mut byte), Ok(1)) {
            answered += u32::from(stream.write_all(&byte).is_ok());
        }
        meter.until_stopped(std::thread::yield_now);
        meter.value("answered", f64::from(answered));
        Ok(())
    }
}

/// `net.rtt`'s client, which leads: goes where the server's offer says.
struct Client(Option<TcpStream>);

impl Role for Client {
    fn prepare(&mut self, _: &Point, offers: &Offers) -> Result<Offers, Failure> {
        let address = offers.get("address").expect("the server's offer");
        let stream = TcpStream::connect(address)
            .map_err(|error| Failure::error(format!("cannot reach {address}: {error}")))?;
        self.0 = Some(stream);
        Ok(Offers::new())
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut stream = self.0.take().expect("prepared");
        let mut byte = [7];
        let mut intact = true;
        // Virtual time does not pass here, so the operations are counted instead.
        for _ in 0..50 {
            meter.first("latency", || {
                intact &= stream.write_all(&byte).is_ok() && stream.read_exact(&mut byte).is_ok();
            });
        }
        if intact {
            Ok(())
        } else {
            Err(Failure::error("the server went away"))
        }
    }
}

#[test]
fn two_roles_meet_by_what_one_offers_the_other() {
    let point = point("net.rtt", Axes::default());
    let stop = AtomicBool::new(false);
    let mut server = Server(None);
    let offers = server.prepare(&point, &Offers::new()).expect("an offer");
    let served = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let clock = VirtualClock::new(1);
            let mut record = Record::default();
            let mut meter = Meter::new(&clock, 1e6, &stop, None, "cost", &mut record);
            server.run(&point, &mut meter).expect("served");
            record.into_report(false, Vec::new())
        });
        let clock = VirtualClock::new(2);
        let mut record = Record::default();
        let mut meter = Meter::new(&clock, 1e6, &stop, None, "cost", &mut record);
        let mut client = Client(None);
        client.prepare(&point, &offers).expect("connected");
        client.run(&point, &mut meter).expect("measured");
        drop(client);
        stop.store(true, Ordering::Release);
        assert_eq!(record.into_report(false, Vec::new()).state, State::Ok);
        server.join().expect("the server ended")
    });
    assert_eq!(median_cost(&served, "answered"), 50.0);
}

/// An open-loop load: a request each 10 µs to a server that takes 4 µs, and
/// once stands still for 100 µs. Requests that were held up count from when
/// they were to be sent.
struct OpenLoop {
    clock: Rc<VirtualClock>,
}

impl Role for OpenLoop {
    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        const REQUESTS: u32 = 200;
        let mut sent = 0;
        let clock = Rc::clone(&self.clock);
        meter.open_loop("latency", |now_ns| {
            if sent == REQUESTS {
                return None;
            }
            let intended_ns = f64::from(sent) * 10_000.0;
            let early_ns = (intended_ns - now_ns).max(0.0);
            let service_ns = if sent == 100 { 100_000.0 } else { 4_000.0 };
            clock.pass(early_ns + service_ns);
            sent += 1;
            Some(now_ns + early_ns + service_ns - intended_ns)
        });
        Ok(())
    }
}

#[test]
fn a_load_counts_from_the_intended_time() {
    let clock = Rc::new(VirtualClock::new(1));
    let mut role = OpenLoop {
        clock: Rc::clone(&clock),
    };
    let report = measure(&mut role, &point("net.rtt", Axes::default()), &clock).expect("measured");
    let buckets = report.metrics[0].data.counted();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let late: u64 = buckets
        .iter()
        .filter(|(upper_ns, _)| *upper_ns > 10_000.0)
        .map(|(_, count)| count)
        .sum();
    assert_eq!(total, 200);
    // The one that stood still, and those that it held up until the queue was
    // empty again, at 6 µs gained a request: closed-loop would have seen one.
    assert!((15..=17).contains(&late), "{late} late requests");
}
