//! What a command asks to measure, checked against the table of probes before anything starts.

use super::keywords::{self, Take};
use crate::cli::RunOptions;
use crate::error::{Error, bail, wrong};
use costof_lab::link;
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::link::Link;
use costof_model::plan::{self, Settings};
use costof_model::probe_info::ProbeInfo;
use costof_model::{Text, nearest};
use std::time::Duration;

/// The request for a run.
pub(crate) struct Request<'a> {
    pub(super) infos: Vec<&'a ProbeInfo>,
    pub(crate) headlines_only: bool,
    /// Whether only the headlines of a first look are measured.
    pub(crate) first_look: bool,
    pub(super) settings: Settings,
    /// Whether the other axes stay at their defaults if some axes are set.
    pub(crate) only: bool,
    /// Whether the points that its predictions need are measured too.
    pub(crate) with_needed: bool,
    /// The links for probes that need one, in their canonical form.
    pub(super) links: Vec<Text>,
    /// Whether the user asked for these links. If not, a probe's own plan also uses other links.
    pub(super) links_asked: bool,
    pub(crate) precision: Precision,
    /// Whether points that take too long for the time budget are left out.
    pub(crate) fits_budget: bool,
    pub(super) launches: Option<u32>,
    /// How long to measure at most, if the user has set that.
    pub(super) budget: Option<Duration>,
}

impl<'a> Request<'a> {
    /// The probes and settings of the options.
    pub(crate) fn new(
        table: &'a [&'static Probe],
        options: &RunOptions,
    ) -> Result<Request<'a>, Error> {
        let mut infos = select(
            table,
            &options.probes,
            Take::Best {
                most: MOST_BY_A_WORD,
            },
        )?;
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
        for info in &infos {
            plan::points(info, &settings_of(info, &settings)).map_err(wrong)?;
        }
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
            infos,
            links: links(options)?,
            links_asked,
            headlines_only: is_bare && !options.measuring.full,
            first_look: is_bare && options.measuring.quick,
            settings,
            only: options.chosen.only,
            with_needed: !options.chosen.only,
            precision: options.measuring.precision(),
            fits_budget: options.chosen.budget.is_some()
                || options.measuring.quick
                    && options.chosen.launches.is_none()
                    && !(options.chosen.only && has_settings),
            launches: options.chosen.launches,
            budget: options.chosen.budget,
        })
    }

    /// Whether it is the first look at all that matters, which has to end in time.
    pub(crate) fn is_first_look(&self) -> bool {
        self.first_look && self.fits_budget && self.budget.is_none() && !self.links_asked
    }

    /// The settings for this probe.
    pub(super) fn settings_of(&self, info: &ProbeInfo) -> Settings {
        settings_of(info, &self.settings)
    }
}

/// The descriptions of all probes.
pub(crate) fn infos(table: &[&'static Probe]) -> Vec<&'static ProbeInfo> {
    table.iter().map(|probe| &*probe.info).collect()
}

/// The probe whose other end any host is.
const TO_ANY_HOST: &str = "net.ping";

/// A word that is not a probe's name may select at most this many probes; if it matches more, the user has to
/// choose.
const MOST_BY_A_WORD: usize = 3;

/// The probes that the words name, in the order of the table; without words, all probes.
pub(crate) fn select(
    table: &[&'static Probe],
    words: &[String],
    take: Take,
) -> Result<Vec<&'static ProbeInfo>, Error> {
    let mut named = Vec::new();
    for word in words {
        named.extend(keywords::probes(table, word, take)?);
    }
    let mut selected = infos(table);
    selected.retain(|info| words.is_empty() || named.contains(info));
    Ok(selected)
}

/// The requested links in their canonical form; the default is loopback.
fn links(options: &RunOptions) -> Result<Vec<Text>, Error> {
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
    if let [info] = infos {
        return info.axis(axis).err().unwrap_or_default();
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

fn settings_of(info: &ProbeInfo, settings: &Settings) -> Settings {
    let own = settings.iter().filter(|(axis, _)| info.axis(axis).is_ok());
    own.map(|(axis, values)| (axis.clone(), values.clone()))
        .collect()
}
