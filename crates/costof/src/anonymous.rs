//! A run that may be shown to strangers.

use costof_model::run_file::Run;

/// Removes host names, addresses and the command line.
pub(crate) fn anonymous(run: &mut Run) {
    run.run.command.clear();
    let names = names(run);
    for row in &mut run.failures {
        for name in &names {
            row.reason = row.reason.replace(name, "…");
        }
    }
    let hosts = &mut run.run.plan.hosts;
    for host in [&mut hosts.on, &mut hosts.peer].into_iter().flatten() {
        let kind = host.split_once(':').map(|(kind, _)| kind.len() + 1);
        host.truncate(kind.unwrap_or(host.len()));
    }
    hosts.peer_address = None;
    hosts.remote_costof = None;
    for attempt in &mut run.attempts {
        attempt.boot = None;
        if let Some(peer) = &mut attempt.peer {
            peer.addresses = None;
        }
        for facts in attempt.hosts.values_mut() {
            *facts = facts.anonymous();
        }
    }
}

/// What names hosts in the reasons of failures, the longest first, so that none
/// is left over of which another is a part.
fn names(run: &Run) -> Vec<String> {
    let hosts = &run.run.plan.hosts;
    let mut names = Vec::new();
    for host in [&hosts.on, &hosts.peer].into_iter().flatten() {
        if let Some((_, name)) = host.split_once(':') {
            names.extend([host.clone(), name.to_owned()]);
            names.extend(name.rsplit_once('@').map(|(_, host)| host.to_owned()));
        }
    }
    names.extend(hosts.remote_costof.clone());
    for attempt in &run.attempts {
        let addresses = attempt.peer.as_ref().and_then(|peer| peer.addresses);
        let addresses = addresses.map(|(near, far)| [near, far].map(|ip| ip.to_string()));
        names.extend(addresses.into_iter().flatten());
        let facts = attempt.hosts.values();
        names.extend(facts.filter_map(|facts| facts.host_name.clone()));
    }
    names.extend(hosts.peer_address.map(|address| address.to_string()));
    names.retain(|name| !name.is_empty());
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names
}
