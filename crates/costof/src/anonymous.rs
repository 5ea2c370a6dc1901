//! A run that may be shown to strangers.

use costof_model::Text;
use costof_model::axis::{Axis, AxisValue, Domain};
use costof_model::run_file::Run;

/// Removes host names, addresses, folders and the command line.
pub(crate) fn anonymous(run: &mut Run) {
    run.run.command.clear();
    let mut names = names(run);
    names.extend(without_places(run));
    let folders = run
        .attempts
        .iter()
        .flat_map(|attempt| attempt.hosts.values());
    names.extend(folders.filter_map(|facts| facts.temporary_folder.clone()));
    names.retain(|name| name.len() > 1);
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
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

/// Takes folders and URLs out of all points, and says which they were.
fn without_places(run: &mut Run) -> Vec<String> {
    let is_place = |axis: &&Axis| matches!(axis.domain, Domain::Place { .. });
    let axes = run.probes.iter().flat_map(|info| info.axes.iter());
    let axes: Vec<Text> = axes
        .filter(is_place)
        .map(|axis| axis.name.clone())
        .collect();
    let planned = run.run.plan.blocks.iter_mut();
    let points = planned
        .flat_map(|block| &mut block.points)
        .chain(run.points.iter_mut().map(|row| &mut row.point))
        .chain(run.predictions.iter_mut().map(|row| &mut row.point))
        .chain(run.failures.iter_mut().map(|row| &mut row.point));
    let mut places = Vec::new();
    for point in points {
        for (name, value) in &mut point.axes.0 {
            match value {
                AxisValue::Word(word) if axes.contains(name) && word.contains('/') => {
                    places.extend(named_by(word));
                    *word = "…".into();
                }
                _ => {}
            }
        }
    }
    places
}

/// A place, and of an URL its host and paths, as reasons of failures name them.
fn named_by(place: &str) -> Vec<String> {
    let mut names = vec![place.to_owned()];
    if let Some((_, rest)) = place.split_once("://")
        && let Some((server, path)) = rest.split_once('/')
    {
        let bracketed = server
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        let (host, _) = bracketed.unwrap_or_else(|| server.split_once(':').unwrap_or((server, "")));
        let folders = path
            .match_indices('/')
            .map(|(at, _)| format!("/{}", &path[..at]));
        names.extend([host.to_owned(), format!("/{path}")]);
        names.extend(folders);
        // What is not found is named alone.
        names.extend(path.split('/').map(|name| format!("`{name}`")));
    }
    names
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
