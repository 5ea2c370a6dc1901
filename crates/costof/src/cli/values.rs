//! The values of options that clap cannot read by itself.

use crate::{history, record};
use clap::builder::{
    NonEmptyStringValueParser, PathBufValueParser, PossibleValue, PossibleValuesParser,
    TypedValueParser,
};
use costof_measure::schedule::{MAX_LAUNCHES, MIN_LAUNCHES};
use costof_model::bill::Means;
use costof_model::unit::{parse_bytes, parse_count};
use costof_report::export::{self, FORMATS, Format};
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A format of `costof export`, by its name.
pub(super) fn export_format() -> impl TypedValueParser<Value = &'static Format> {
    let formats = FORMATS.iter();
    let words = formats.map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(words).try_map(|name| export::format(&name).ok_or("no such format"))
}

/// A means of counting for a bill.
pub(super) fn means() -> impl TypedValueParser<Value = Means> {
    PossibleValuesParser::new(["ebpf", "ptrace"]).map(|word| match &*word {
        "ebpf" => Means::Ebpf,
        _ => Means::Ptrace,
    })
}

/// A run: the path of its file, or of a folder that has no other run, or its number in the history.
pub(super) fn run_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|name| history::resolve(name).and_then(record::file))
}

/// One of several runs: as [`run_file`], but a folder stands for all of its runs.
pub(super) fn runs() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(history::resolve)
}

/// How many launches of each point may be asked for.
pub(super) fn launches() -> impl TypedValueParser<Value = u32> {
    count(MIN_LAUNCHES, MAX_LAUNCHES)
}

/// A number of things, such as 10000 or 10k, within these bounds.
pub(super) fn count<T>(least: T, most: T) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + PartialOrd + Copy + Display + Send + Sync + 'static,
{
    NonEmptyStringValueParser::new().try_map(move |text| {
        let count = parse_count(&text).and_then(|count| T::try_from(count).ok());
        let count = count.filter(|count| (least..=most).contains(count));
        count.ok_or_else(|| {
            format!("not a whole number from {least} to {most}, such as {least} or 2k")
        })
    })
}

/// A number of bytes, such as 4MiB.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).filter(|bytes| (1..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "not a size from 1B to 1GiB, such as 4MiB".to_owned())
}

/// Seconds, up to a day, as `90` or `90s`.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let whole = |time: Duration| (time.subsec_nanos() == 0).then_some(time.as_secs());
    let seconds = text.parse().ok().or_else(|| whole(time(text).ok()?));
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds from 1 to 86400, such as 90 or 2min".to_owned())
}

/// A share in percent, as `5` or `5%`.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent),
        _ => Err("not a percentage of zero or more, such as 5".to_owned()),
    }
}

/// A risk in percent, as a share: no certainty, and no wild guess.
pub(super) fn risk(text: &str) -> Result<f64, String> {
    share(text, 49.0)
}

/// A change in percent, as a share.
pub(super) fn change(text: &str) -> Result<f64, String> {
    share(text, 1000.0)
}

fn share(text: &str, most: f64) -> Result<f64, String> {
    match percent(text) {
        Ok(percent) if (0.001..=most).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("not a percentage from 0.001 to {most}, such as 5")),
    }
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| !time.is_zero() && *time <= Duration::from_secs(86_400))
        .ok_or_else(|| {
            format!("`{text}` is not a duration of up to a day, such as 500ms, 10s or 1min")
        })
}

/// A token goes in one line, and on a command line.
pub(crate) fn token(text: &str) -> Result<String, String> {
    const MAX: usize = 256;
    match text.len() {
        1..=MAX if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text.to_owned()),
        _ => Err(format!("a token has 1 to {MAX} ASCII letters, digits and signs, without spaces")),
    }
}

/// An address at which one host can be called. Link-local ones would need an interface too.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let is_one_host = |address: &IpAddr| {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !address.is_unspecified() && !address.is_multicast() && !is_link_local
    };
    text.parse().ok().filter(is_one_host).ok_or_else(|| {
        format!(
            "`{text}` is not the address of one host, such as 192.0.2.1 or 2001:db8::1 (a link-local one is not enough)"
        )
    })
}

/// `FIRST-LAST`, or one port.
pub(super) fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first @ 1..), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!("`{text}` is not a range of ports from 1 to 65535, such as 5000-5010")),
    }
}
