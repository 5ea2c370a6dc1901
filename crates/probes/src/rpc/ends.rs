//! The two ends of a connection by which calls go: they meet as all ends of probes do, and what has
//! met them is given to the stack.

use super::axes::{called, check, over};
use super::served::Served;
use crate::derived;
use crate::literal::axis;
use crate::net::both_ends::take;
use crate::net::caller::Caller;
use crate::net::meeting::{self, cannot_reach};
use crate::net::path::End;
use crate::rudp::roles::CPU_OF_ALL;
use crate::wake::Kept;
use costof_measure::meter::Meter;
use costof_measure::probe::Role;
use costof_model::axis::AxisValue;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{Launch, Meeting, Offers, Report};
use costof_model::rows::State;
use costof_os::meeting::{Address, Listener, Met, Over, call};
use costof_rpc::{Client, Options, RpcError, Socket, Stack};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// What keeps the processor awake meanwhile, and the connections of two ends that have met.
pub(super) type Connected = (Option<Kept>, Vec<Socket>);

/// The end that is called, and what serves it.
pub(super) struct Called {
    end: End,
    /// How many connections a point has.
    connections: fn(&Point) -> usize,
    kept: Option<Kept>,
    listener: Option<Listener>,
    served: Option<Served>,
}

impl Called {
    /// # Errors
    /// Those of [`End::of`].
    pub(super) fn start(
        launch: &Launch,
        connections: fn(&Point) -> usize,
    ) -> Result<Called, Failure> {
        Ok(Called {
            end: End::of(launch, false)?,
            connections,
            kept: None,
            listener: None,
            served: None,
        })
    }

    /// The connections of the one who calls, and what keeps the processor awake. None where the launch
    /// has ended before.
    ///
    /// # Errors
    /// Why nobody can be met.
    fn accept(&mut self, point: &Point, meter: &Meter<'_>) -> Result<Option<Connected>, Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let token = self.end.meeting.token.as_bytes();
        let said_back = |met: Met| said_back(connection(point, met.into_socket()?), token);
        let accepted = listener.accept(meter.stop());
        let accepted = accepted.and_then(|met| met.into_iter().map(said_back).collect());
        let kept = self.kept.take();
        Ok(meeting::met(accepted)?.map(|sockets| (kept, sockets)))
    }
}

impl Role for Called {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        let placed = placed(point);
        let (cpus, wake) = (axis(&placed, "cpus"), axis(&placed, "wake"));
        self.kept = Some(self.end.settle(&placed.link, cpus, wake, true)?);
        let (meeting, connections) = (&self.end.meeting, (self.connections)(point));
        let (listener, offers) = meeting::listen(&point.link, meeting, over(point), connections)?;
        self.listener = Some(listener);
        // On the processor that this thread has been moved to.
        self.served = Some(Served::start(called(point))?);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let served = self.served.take().expect("it is prepared");
        let Some((_kept, sockets)) = self.accept(point, meter)? else {
            return Ok(());
        };
        meter.operation_allocates();
        served.serve(sockets)?;
        served.until_stopped(CPU_OF_ALL, meter);
        Ok(())
    }
}

/// Connects to the end that is called, so many times.
///
/// # Errors
/// Why it cannot be reached.
pub(super) fn connect(
    point: &Point,
    connections: usize,
    caller: &mut Caller,
) -> Result<Connected, Failure> {
    caller.call_by(|meeting: &Meeting, offers: &Offers| {
        let address: Address = meeting::offered(offers)?;
        let token = meeting.token.as_bytes();
        let connected = |met: Met| Ok(connection(point, met.into_socket()?));
        let called = call(over(point), &address, connections, token);
        let sockets = called.and_then(|met| met.into_iter().map(connected).collect());
        sockets.map_err(|error| cannot_reach(&address, &error))
    })
}

/// The point, with each end on a processor of its own that is kept awake where it says nothing else.
pub(super) fn placed(point: &Point) -> Point {
    let mut point = point.clone();
    for (axis, usual) in [("cpus", "cross"), ("wake", "awake")] {
        let usual = || AxisValue::Word(usual.into());
        point.axes.0.entry(axis.into()).or_insert_with(usual);
    }
    point
}

/// A client of the end that is called, and what keeps the processor awake.
///
/// # Errors
/// Why that end cannot be reached.
pub(super) fn client(
    point: &Point,
    stack: Stack,
    caller: &mut Caller,
) -> Result<(Option<Kept>, Client), Failure> {
    let (kept, mut sockets) = connect(point, 1, caller)?;
    let socket = sockets.pop().expect("one connection was asked for");
    let client = Client::new(stack, &Options::default()).and_then(|mut client| {
        client.over(socket)?;
        Ok(client)
    });
    Ok((kept, client.map_err(|error| broken(&error))?))
}

/// A connected socket, as the stacks take it.
fn connection(point: &Point, socket: OwnedFd) -> Socket {
    match over(point) {
        Over::Unix => Socket::Unix(UnixStream::from(socket)),
        _ => Socket::Tcp(TcpStream::from(socket)),
    }
}

/// The one who calls waits for its token.
fn said_back(socket: Socket, token: &[u8]) -> io::Result<Socket> {
    match &socket {
        Socket::Tcp(stream) => (&*stream).write_all(token)?,
        Socket::Unix(stream) => (&*stream).write_all(token)?,
    }
    Ok(socket)
}

/// A failure of a stack.
pub(super) fn broken(error: &RpcError) -> Failure {
    Failure::error(format!("the call failed: {error}"))
}

/// What the caller reports beside [`CPU_OF_ALL`], of which [`joined()`] makes `cpu_server`: how many
/// calls that was for.
pub(super) const CALLS: &str = "calls";

/// The server's report and the client's in one.
pub(super) fn joined(reports: Vec<Report>) -> Report {
    let [mut server, mut report] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    let all = take(&mut server, CPU_OF_ALL).zip(take(&mut report, CALLS));
    if server.state != State::Ok || report.state != State::Ok {
        report.state = State::Failed;
        report.metrics.clear();
        return report;
    }
    report.metrics.extend(server.metrics);
    report.allocations += server.allocations;
    if let Some((cpu_ns, calls)) = all {
        derived::add(&mut report, "cpu_server", cpu_ns / calls.max(1.0));
    }
    report
}
