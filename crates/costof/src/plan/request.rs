//! What a command asks to measure, checked against the table of probes before anything starts.

use super::keywords::{self, Take};
use crate::cli::RunOptions;
use crate::error::{Result, bail, wrong};
use crate::project;
use crate::record::Table;
use crate::terminal::log;
use costof_lab::link;
use costof_model::{Link, ProbeInfo, Settings, Text, nearest, plan};

/// The request for a run.
pub(crate) struct Request {
    pub(super) infos: Vec<&'static ProbeInfo>,
    pub(crate) headlines_only: bool,
    /// Whether only the headlines that everybody knows are measured, as in a first look.
    pub(super) known_only: bool,
    pub(super) settings: Settings,
    /// The probes that were not named and cannot have what is set, each with the value.
    pub(crate) left_out: Vec<String>,
    /// Where the probe's own plan lies, if not at its default places: a place on an axis.
    pub(crate) places: Settings,
    /// Whether the points that its predictions need are measured too.
    pub(crate) with_needed: bool,
    /// The links for probes that need one, in their canonical form.
    pub(super) links: Vec<Text>,
    /// Whether the user asked for these links. If not, a probe's own plan also uses other links.
    pub(super) links_asked: bool,
    /// Whether points that take too long for the time budget are left out.
    pub(crate) fits_budget: bool,
    /// Whether it is the first look at all that matters, which has to end in time.
    pub(crate) is_first_look: bool,
}

impl Request {
    /// The probes and settings of the options.
    pub(crate) fn new(table: Table, options: &RunOptions) -> Result<Request> {
        let take = Take::Best { most: MOST_BY_A_WORD };
        let mut infos = select(table, &options.probes, take)?;
        // A file that lies in a folder runs no code unless its probes are named.
        let is_named = |info: &&ProbeInfo| {
            let mut names = info.id.split('.');
            names.any(|name| options.probes.iter().any(|word| word.contains(name)))
        };
        let own = infos.first().filter(|_| !options.probes.is_empty()).map(|info| &*info.id);
        infos.retain(|info| !project::is_own(table, info) || is_named(info));
        if let (true, Some(own)) = (infos.is_empty(), own) {
            bail!("probes of your own are measured only by their names, such as {own}");
        }
        let mut settings = Settings::new();
        for (axis, values) in &options.chosen.settings {
            if !infos.iter().any(|info| info.axis(axis).is_ok()) {
                return Err(wrong(unknown_axis(axis, &infos)));
            }
            let all = settings.entry(axis.clone()).or_default();
            all.extend(values.iter().cloned());
        }
        // If no probe is named, the axes that are set determine the probes.
        if options.probes.is_empty() && !settings.is_empty() {
            infos.retain(|info| settings.keys().any(|axis| info.axis(axis).is_ok()));
        }
        // Wrong values are reported before anything is measured.
        check_values(&infos, &options.probes, &settings).map_err(wrong)?;
        let left_out = leave_out(&mut infos, &settings).map_err(wrong)?;
        let links_asked = !options.chosen.links.is_empty();
        if (links_asked || options.peer.host.is_some())
            && !infos.iter().any(|info| info.needs_link())
        {
            bail!(
                "{} is for probes with two ends, and none of the chosen ones has two (`costof list net` shows some that have)",
                if links_asked { "--link" } else { "--peer" }
            );
        }
        if options.to.is_some() && !infos.iter().all(|info| info.id == TO_ANY_HOST) {
            bail!(
                "--to is for {TO_ANY_HOST} alone, which any host answers (`costof run {TO_ANY_HOST} --to \
                 HOST`); other probes need costof there (--peer)"
            );
        }
        let has_settings = !settings.is_empty();
        let is_bare = options.probes.is_empty() && !has_settings;
        Ok(Request {
            links: links(options)?,
            links_asked,
            headlines_only: is_bare && !options.measuring.full,
            known_only: is_bare && options.measuring.quick,
            infos,
            settings,
            left_out,
            places: Settings::new(),
            with_needed: !options.chosen.only,
            fits_budget: options.chosen.budget.is_some()
                || options.measuring.quick && options.chosen.launches.is_none() && !has_settings,
            is_first_look: is_bare
                && options.measuring.quick
                && options.chosen.launches.is_none()
                && options.chosen.budget.is_none()
                && !links_asked,
        })
    }

    /// The probes.
    pub(crate) fn infos(&self) -> impl Iterator<Item = &'static ProbeInfo> {
        self.infos.iter().copied()
    }

    /// The settings for this probe.
    pub(super) fn settings_of(&self, info: &ProbeInfo) -> Settings {
        settings_of(info, &self.settings)
    }
}

/// Says which probes are left out of these requests.
pub(crate) fn log_left_out(requests: &[Request]) {
    let left_out: Vec<&str> =
        requests.iter().flat_map(|request| &request.left_out).map(String::as_str).collect();
    if !left_out.is_empty() {
        log(format_args!(
            "left out, since they cannot have the value (`costof explain PROBE` lists what they can): {}",
            left_out.join(", ")
        ));
    }
}

/// The descriptions of all probes.
pub(crate) fn infos(table: Table) -> Vec<&'static ProbeInfo> {
    table.iter().map(|probe| &*probe.info).collect()
}

/// The probe whose other end any host is.
const TO_ANY_HOST: &str = "net.ping";

/// A word that is not a probe's name may select at most this many probes; if it matches more, the user has to
/// choose.
const MOST_BY_A_WORD: usize = 3;

/// The probes that the words name, in the order of the table; without words, all probes.
pub(crate) fn select(
    table: Table,
    words: &[String],
    take: Take,
) -> Result<Vec<&'static ProbeInfo>> {
    let mut named = Vec::new();
    for word in words {
        named.extend(keywords::probes(table, word, take)?);
    }
    let mut selected = infos(table);
    selected.retain(|info| words.is_empty() || named.contains(info));
    Ok(selected)
}

/// The requested links in their canonical form; the default is loopback.
fn links(options: &RunOptions) -> Result<Vec<Text>> {
    let asked = &options.chosen.links;
    for (position, link) in asked.iter().enumerate() {
        link::addresses(link, options.peer.address).map_err(wrong)?;
        if asked[..position].contains(link) {
            bail!("the link {link} is given twice");
        }
    }
    let links = match asked.as_slice() {
        [] => &[Link::Loopback],
        links => links,
    };
    Ok(links.iter().map(|link| link.to_string().into()).collect())
}

fn unknown_axis(axis: &str, infos: &[&ProbeInfo]) -> String {
    if let Some(now) = infos.iter().find_map(|info| info.present_axis(axis)) {
        return format!("the axis `{axis}` is now `{now}`: --set {now}=…");
    }
    if let [info] = infos {
        return info.axis(axis).err().unwrap_or_default();
    }
    if infos.iter().all(|info| info.axes.is_empty()) {
        return format!("none of the chosen probes has an axis `{axis}`, or any other");
    }
    let axes = infos.iter().flat_map(|info| info.axes.iter());
    let mut names: Vec<&str> = axes.map(|axis| &*axis.name).collect();
    names.sort_unstable();
    names.dedup();
    format!(
        "none of the chosen probes has an axis `{axis}`{} (axes: {})",
        nearest::hint(axis, names.iter().copied()),
        names.join(", ")
    )
}

/// Checks that each value that is set is one that a chosen probe can have. A probe that is named, and not only
/// found by a layer, a glob, a word or its axes, must be able to have all values of its axes.
fn check_values(infos: &[&ProbeInfo], words: &[String], settings: &Settings) -> Result<(), String> {
    let is_named = |info: &&&ProbeInfo| words.iter().any(|word| *word == *info.id);
    for (axis, values) in settings {
        let having = || infos.iter().filter(|info| info.axis(axis).is_ok());
        for value in values {
            let cannot = |info: &&&ProbeInfo| !can_be(info, axis, value);
            let refused = having().filter(is_named).find(cannot);
            let refused =
                refused.or_else(|| having().next().filter(|_| having().all(|info| cannot(&info))));
            if let Some(info) = refused {
                let set = Settings::from([(axis.clone(), vec![value.clone()])]);
                plan::read(info, &set)?;
            }
        }
    }
    Ok(())
}

/// Takes away the probes that can have none of the values that are set for one of their axes, and returns what each
/// cannot have.
fn leave_out(infos: &mut Vec<&ProbeInfo>, settings: &Settings) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    let mut reason = None;
    infos.retain(|info| {
        let own = settings_of(info, settings);
        let Some((axis, _)) = own.iter().find(|(_, values)| values.is_empty()) else {
            return true;
        };
        left_out.push(format!("{} ({axis}={})", info.id, settings[axis].join(",")));
        let set = Settings::from([(axis.clone(), settings[axis].clone())]);
        reason = plan::read(info, &set).err().or(reason.take());
        false
    });
    match reason {
        Some(reason) if infos.is_empty() => Err(reason),
        _ => Ok(left_out),
    }
}

fn can_be(info: &ProbeInfo, axis: &str, value: &str) -> bool {
    info.value(axis, value).is_ok()
}

/// The values for the axes that this probe has, without those that it cannot have.
fn settings_of(info: &ProbeInfo, settings: &Settings) -> Settings {
    let own = settings.iter().filter(|(axis, _)| info.axis(axis).is_ok());
    own.map(|(axis, values)| {
        let values = values.iter().filter(|value| can_be(info, axis, value));
        (axis.clone(), values.cloned().collect())
    })
    .collect()
}
