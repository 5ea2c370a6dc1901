//! `costof export`: a run without its launches.

use crate::cli::ExportOptions;
use crate::error::Error;
use crate::record;
use costof_model::Text;
use costof_model::axis::{AxisValue, Domain};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::{self, Run};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub(crate) fn run(options: &ExportOptions) -> Result<ExitCode, Error> {
    let mut run = record::read(&options.file)?;
    if options.anonymous {
        anonymous(&mut run);
    }
    run.launches.clear();
    let mut output = BufWriter::new(io::stdout().lock());
    for row in run.into_rows() {
        output.write_all(&run_file::line(&row))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Removes host names, addresses, the places of files and the command line.
fn anonymous(run: &mut Run) {
    run.run.command.clear();
    let places = places(run);
    let mut names = names(run);
    names.extend(places.iter().flat_map(|place| named_by(place)));
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    hide_places(run, &places);
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

/// The places that points name: paths and URLs, which have names of hosts and people in them.
fn places(run: &Run) -> Vec<Text> {
    let mut places: Vec<Text> = Vec::new();
    let planned = run.run.plan.blocks.iter().flat_map(|block| &block.points);
    for point in planned {
        let values = place_axes(&run.probes, point).into_iter();
        for value in values.filter_map(|axis| point.axes.0.get(&axis)) {
            if let AxisValue::Word(place) = value
                && place.contains('/')
                && !places.contains(place)
            {
                places.push(place.clone());
            }
        }
    }
    places
}

/// The axes of a point whose values are places.
fn place_axes(probes: &[ProbeInfo], point: &Point) -> Vec<Text> {
    let info = probes.iter().find(|info| info.id == point.probe);
    let axes = info.into_iter().flat_map(|info| info.axes.iter());
    let of_places = axes.filter(|axis| matches!(axis.domain, Domain::Place { .. }));
    of_places.map(|axis| axis.name.clone()).collect()
}

/// A place, and the host and the path in it, as reasons of failures name them.
fn named_by(place: &Text) -> Vec<String> {
    let mut names = vec![place.to_string()];
    if let Some((_, rest)) = place.split_once("://")
        && let Some((server, path)) = rest.split_once('/')
    {
        let host = match server
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            Some((address, _)) => address,
            None => server.split(':').next().unwrap_or(server),
        };
        let folder = path
            .rsplit_once('/')
            .map(|(folder, _)| format!("/{folder}"));
        names.extend([host.to_owned(), format!("/{path}")]);
        names.extend(folder);
    }
    names.retain(|name| name.len() > 1);
    names
}

/// Numbers the places instead, so that points stay apart.
fn hide_places(run: &mut Run, places: &[Text]) {
    let Run {
        run: asked,
        probes,
        predictions,
        failures,
        points,
        ..
    } = run;
    let planned = asked
        .plan
        .blocks
        .iter_mut()
        .flat_map(|block| &mut block.points);
    let all = planned
        .chain(predictions.iter_mut().map(|row| &mut row.point))
        .chain(failures.iter_mut().map(|row| &mut row.point))
        .chain(points.iter_mut().map(|row| &mut row.point));
    for point in all {
        for axis in place_axes(probes, point) {
            if let Some(AxisValue::Word(place)) = point.axes.0.get_mut(&axis)
                && let Some(number) = places.iter().position(|known| known == place)
            {
                *place = format!("/…/{}", number + 1).into();
            }
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
