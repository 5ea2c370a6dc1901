//! How the two ends of a network probe find each other.

use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{Launch, Meeting, Offers};
use costof_os::conversation::{Conversation, Wait};
use costof_os::meeting::{Address, Listener, Over};
use std::fmt::Display;
use std::io;

/// By which name the address of the listening end is offered.
const ADDRESS: &str = "address";

/// Where the roles of this launch meet, for a probe that needs the far end to
/// hear or to answer.
///
/// # Errors
/// `Unsupported` where it does neither. A launch of two roles that is told
/// nothing of it is a bug of the controller.
pub(crate) fn meeting(launch: &Launch) -> Result<Meeting, Failure> {
    let meeting = place(launch)?;
    match meeting.sink {
        Some(_) => Err(Failure::unsupported(
            "this needs the other end, and the link sink is the sender's half only: nothing \
             arrives and nothing comes back (--link loopback or veth)",
        )),
        None => Ok(meeting),
    }
}

/// Where the roles of this launch meet, for a probe that also measures the
/// sender's half alone.
///
/// # Errors
/// A launch of two roles that is told nothing of it is a bug of the controller.
pub(crate) fn place(launch: &Launch) -> Result<Meeting, Failure> {
    let told = launch.meeting.clone();
    told.ok_or_else(|| Failure::error("the launch does not say where its roles meet"))
}

/// Refuses a point whose ends are to share a processor, where they are on two
/// machines.
pub(crate) fn can_share(meeting: &Meeting, share: bool) -> Result<(), Failure> {
    match share && meeting.apart {
        true => Err(Failure::unsupported(
            "the ends are on two machines, which share no processor (--set cpus=cross)",
        )),
        false => Ok(()),
    }
}

/// Listens at this end of the point's link for some flows, and what the other end needs to know of
/// it.
pub(crate) fn listen(
    point: &Point,
    meeting: &Meeting,
    over: Over,
    flows: usize,
) -> Result<(Listener, Offers), Failure> {
    if over == Over::Unix {
        reaches_a_unix_socket(point)?;
    }
    let token = meeting.token.as_bytes();
    let opened = Listener::open(over, meeting.address, meeting.ports, flows, token)
        .and_then(|listener| Ok((listener.address()?, listener)));
    let (address, listener) = opened.map_err(|error| {
        Failure::unsupported(format!(
            "cannot listen at {}: {error} (--peer-address and --peer-port choose where)",
            meeting.address
        ))
    })?;
    Ok((listener, offer(&address.to_string())))
}

/// Whether both ends are in one network namespace: they are so on this link alone, by whatever
/// address they meet.
fn reaches_a_unix_socket(point: &Point) -> Result<(), Failure> {
    match &*point.link {
        "loopback" => Ok(()),
        _ => Err(Failure::unsupported(
            "a Unix socket does not leave its machine or its network namespace (--set over=tcp, \
             or --link loopback)",
        )),
    }
}

/// What the other end needs to know where it is told nothing but an address.
pub(crate) fn offer(address: &str) -> Offers {
    Offers::from([(ADDRESS.into(), address.to_owned())])
}

/// The address that the other end offers.
pub(crate) fn offered<A: std::str::FromStr>(offers: &Offers) -> Result<A, Failure> {
    offers
        .get(ADDRESS)
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| Failure::error("the other end offered no address"))
}

/// What has met the one that calls; none where the launch has ended before, because the other end
/// has failed and says why.
pub(crate) fn met<T>(accepted: io::Result<T>) -> Result<Option<T>, Failure> {
    match accepted {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        accepted => accepted.map(Some).map_err(|error| broken(&error)),
    }
}

/// The conversation with the end that made these offers.
pub(crate) fn call(
    meeting: &Meeting,
    offers: &Offers,
    over: Over,
    wait: Wait,
) -> Result<Conversation, Failure> {
    let address: Address = offered(offers)?;
    Conversation::call(over, &address, wait, meeting.token.as_bytes())
        .map_err(|error| cannot_reach(&address, &error))
}

/// A failure to reach the end that listens.
pub(crate) fn cannot_reach(address: &dyn Display, error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "cannot reach the other end at {address}: {error} (a firewall may forbid it; \
         --peer-address and --peer-port choose where)"
    ))
}

/// A failure while the ends talk.
pub(crate) fn broken(error: &io::Error) -> Failure {
    Failure::error(format!(
        "the conversation with the other end failed: {error}"
    ))
}
