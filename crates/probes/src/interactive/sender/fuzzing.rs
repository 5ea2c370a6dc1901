//! What the fuzz target of a sender does.

use super::super::receiver::fuzzing::connection;
use super::super::{Conditions, asked, empty_report};
use super::*;
use costof_model::harmless;
use std::sync::LazyLock;

static THIS_END: LazyLock<ThisEnd> = LazyLock::new(ThisEnd::new);

/// A receiver's bytes: what it offers leads nowhere but to itself, and what it reports is shown, or not.
pub fn sender(bytes: &[u8]) {
    let (control, _peer) = connection(bytes);
    let mut lines = Lines::new(&control);
    let address = Address::Ip("127.0.0.1".to_owned(), 1);
    let asked = asked(&address, &[], Conditions::default()).expect("these are the defaults");
    let will = Request::Will { asked: asked.clone(), place: THIS_END.place.clone() };
    match greet(&control, &mut lines, Some("token"), &will, || true) {
        Ok(Reply::Begin { offers, place, .. }) => {
            let offers = offers_at(offers, control.peer_address());
            if let Ok(Endpoint::Ip(addresses)) = rendezvous::offered::<Endpoint>(&offers) {
                assert!(addresses.iter().all(|address| address.ip() == control.remote));
            }
            let workload = asked.over(&between(&THIS_END.place, &place)).expect("it was allowed");
            let replies = await_replies(&mut lines, || true, &AtomicBool::new(false));
            if let Some((Ok(report), _)) = replies.arrived {
                let reports = vec![of_probe(workload.info(), report), empty_report()];
                let link_end = ("sender", costof_model::link_end::LinkEnd::default());
                let _ = THIS_END.run(&workload, reports, link_end);
            }
        }
        Ok(Reply::Refused { reason, .. }) => {
            assert!(!printable(&reason).contains(harmless::is_harmful), "{reason:?}");
        }
        Ok(Reply::End | Reply::Arrived { .. }) | Err(_) => {}
    }
}
