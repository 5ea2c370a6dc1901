//! How the two ends of a network probe find each other.

use costof_model::failure::Failure;
use costof_model::protocol::{Launch, Meeting, Offers};
use costof_os::conversation::{Conversation, Listener, Over, Wait};
use std::io;
use std::net::SocketAddr;

/// By which name the address of the listening end is offered.
const ADDRESS: &str = "address";

/// Where the roles of this launch meet, for a probe that needs the far end to
/// hear or to answer.
///
/// # Errors
/// `Unsupported` where it does neither. A launch of two roles that is told
/// nothing of it is a bug of the controller.
pub(crate) fn meeting(launch: &Launch) -> Result<Meeting, Failure> {
    let told = launch.meeting.clone();
    let meeting =
        told.ok_or_else(|| Failure::error("the launch does not say where its roles meet"))?;
    match meeting.sink {
        Some(_) => Err(Failure::unsupported(
            "this needs the other end, and the link sink is the sender's half only: nothing \
             arrives and nothing comes back (--link loopback or veth)",
        )),
        None => Ok(meeting),
    }
}

/// Listens at this end, and what the other end needs to know of it.
pub(crate) fn listen(meeting: &Meeting, over: Over) -> Result<(Listener, Offers), Failure> {
    let opened = Listener::open(over, meeting.address, meeting.ports)
        .and_then(|listener| Ok((listener.address()?, listener)));
    let (address, listener) = opened.map_err(|error| {
        Failure::unsupported(format!(
            "cannot listen at {}: {error} (--peer-address and --peer-port choose where)",
            meeting.address
        ))
    })?;
    let offers = Offers::from([(ADDRESS.into(), address.to_string())]);
    Ok((listener, offers))
}

/// The conversation with the end that made these offers.
pub(crate) fn call(
    meeting: &Meeting,
    offers: &Offers,
    over: Over,
    wait: Wait,
) -> Result<Conversation, Failure> {
    let address: SocketAddr = offers
        .get(ADDRESS)
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| Failure::error("the other end offered no address"))?;
    Conversation::call(over, address, wait, meeting.token.as_bytes()).map_err(|error| {
        Failure::unsupported(format!(
            "cannot reach the other end at {address}: {error} (a firewall may forbid it; \
             --peer-address and --peer-port choose where)"
        ))
    })
}

/// A failure while the ends talk.
pub(crate) fn broken(error: &io::Error) -> Failure {
    Failure::error(format!(
        "the conversation with the other end failed: {error}"
    ))
}
