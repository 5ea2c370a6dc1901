//! The two ends of a connection by which calls go: they meet as all ends of probes do, and what has
//! met them is given to the stack.

use super::axes::Call;
use super::served::Served;
use crate::derived;
use crate::net::axes::Over;
use crate::net::both_ends::take;
use crate::net::caller::Caller;
use crate::net::meeting::{self, cannot_reach};
use crate::net::path::End;
use crate::prelude::*;
use crate::rudp::roles::CPU_OF_ALL;
use crate::wake::Kept;
use costof_exchange::rendezvous::{Address, Listener, Met, call as call_over};
use costof_model::protocol::Meeting;
use costof_model::rows::State;
use costof_rpc::{Client, Options, RpcError, Socket};
use std::io::{self, Write};

/// What keeps the processor awake meanwhile, and the connections of two ends that have met.
pub(super) type Connected = (Option<Kept>, Vec<Socket>);

/// The end that is called, and what serves it.
pub(super) struct Called {
    end: End,
    kept: Option<Kept>,
    listener: Option<Listener>,
    served: Option<Served>,
}

impl Called {
    /// # Errors
    /// Those of [`End::of`].
    pub(super) fn start(launch: &Launch) -> Result<Called, Failure> {
        Ok(Called {
            end: End::of(launch, false)?,
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
    fn accept(&mut self, meter: &Meter<'_>) -> Result<Option<Connected>, Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let token = self.end.meeting.token.as_bytes();
        let said_back = |met: Met| said_back(met.into_socket()?.into(), token);
        let accepted = listener.accept(meter.stop());
        let accepted = accepted.and_then(|met| met.into_iter().map(said_back).collect());
        let kept = self.kept.take();
        Ok(meeting::met(accepted)?.map(|sockets| (kept, sockets)))
    }
}

impl<P> RoleAt<P> for Called
where
    for<'a> Call: From<&'a P>,
{
    fn blocks(&self, _: &At<P>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers, Failure> {
        let call = Call::from(&point.axes);
        let (meeting, link) = (&self.end.meeting, &point.link);
        self.kept = Some(self.end.settle(link, call.cpus, call.wake, true)?);
        let over = Over::from(call.over).into();
        let (listener, offers) = meeting::listen(link, meeting, over, call.connections)?;
        self.listener = Some(listener);
        // On the processor that this thread has been moved to.
        self.served = Some(Served::start(call.stack)?);
        Ok(offers)
    }

    fn run(&mut self, _: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let served = self.served.take().expect("it is prepared");
        let Some((_kept, sockets)) = self.accept(meter)? else {
            return Ok(());
        };
        meter.operation_allocates();
        served.serve(sockets)?;
        served.until_stopped(CPU_OF_ALL, meter);
        Ok(())
    }
}

/// Connects to the end that is called, as often as it is to be.
///
/// # Errors
/// Why it cannot be reached.
pub(super) fn connect(call: &Call, caller: &mut Caller) -> Result<Connected, Failure> {
    caller.call_by(|meeting: &Meeting, offers: &Offers| {
        let address: Address = meeting::offered(offers)?;
        let token = meeting.token.as_bytes();
        let connected = |met: Met| Ok(Socket::from(met.into_socket()?));
        let over = Over::from(call.over).into();
        let called = call_over(over, &address, call.connections, token);
        let sockets = called.and_then(|met| met.into_iter().map(connected).collect());
        sockets.map_err(|error| cannot_reach(&address, &error))
    })
}

/// A client of the end that is called, and what keeps the processor awake.
///
/// # Errors
/// Why that end cannot be reached.
pub(super) fn client(call: &Call, caller: &mut Caller) -> Result<(Option<Kept>, Client), Failure> {
    let (kept, mut sockets) = connect(call, caller)?;
    let socket = sockets.pop().expect("one connection was asked for");
    let client = Client::new(call.stack, &Options::default()).and_then(|mut client| {
        client.over(socket)?;
        Ok(client)
    });
    Ok((kept, client.map_err(|error| broken(&error))?))
}

/// The one who calls waits for its token.
fn said_back(socket: Socket, token: &[u8]) -> io::Result<Socket> {
    (&socket).write_all(token)?;
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
