//! `costof send`: messages by hand, between two terminals.

use crate::cli::{self, SendOptions};
use crate::error::{Error, wrong};
use crate::interrupts;
use crate::tell::tell;
use costof_model::axis::AxisValue;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_probes::by_hand::{self, Address, Asked, Heard, Receiver, Refusal, Served};
use costof_report::by_hand as text;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long is sent where nothing ends it.
const DURATION: Duration = Duration::from_secs(10);
/// Where a token may stand that no other process sees, unlike the command line.
const TOKEN: &str = "COSTOF_TOKEN";
const INTERRUPTED: u8 = 130;

pub(crate) fn run(options: &SendOptions) -> Result<ExitCode, Error> {
    match (&options.listen, &options.to) {
        (Some(address), _) => listen(options, address),
        (None, Some(address)) => send(options, address),
        (None, None) => Err(wrong("send needs --listen ADDR or --to ADDR")),
    }
}

fn send(options: &SendOptions, address: &Address) -> Result<ExitCode, Error> {
    let axes = by_hand::what(address, &values(options)?).map_err(wrong)?;
    let token = told_token(options)?;
    let interrupted = interrupts::watch()?;
    let unlimited = options.count.is_none() && options.duration.is_none();
    let asked = Asked {
        address,
        token: token.as_deref(),
        axes,
        messages: options.count,
        duration: options.duration.or(unlimited.then_some(DURATION)),
        stop: &interrupted,
    };
    let sent =
        by_hand::send(&asked).map_err(|refusal| match interrupted.load(Ordering::Relaxed) {
            true => Error::Interrupted,
            false => refused(refusal),
        })?;
    if sent.ended_by_receiver {
        tell(format_args!("the receiver at {address} has ended it"));
    }
    let (messages, bytes) = (sent.messages, sent.arrived_bytes);
    if let Err(failure) = &sent.measured {
        tell(format_args!(
            "{messages} messages were sent, {} arrived",
            text::counted(bytes / sent.point.axes.number("size"), bytes)
        ));
        return Err(Error::Nothing(failure.reason.clone()));
    }
    show(
        options.json,
        None,
        &sent.point,
        (messages, bytes),
        &sent.measured,
    )?;
    Ok(match interrupted.load(Ordering::Relaxed) {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

/// The axes that were given values.
fn values(options: &SendOptions) -> Result<Vec<(&str, AxisValue)>, Error> {
    let named = [
        ("primitive", &options.primitive),
        ("size", &options.size),
        ("threads", &options.threads),
        ("pattern", &options.pattern),
        ("in_flight", &options.in_flight),
        ("fields", &options.fields),
        ("buffers", &options.buffers),
        ("over", &options.over),
    ];
    let mut values: Vec<(&str, AxisValue)> = named
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)))
        .collect();
    for (axis, given) in &options.settings {
        let [given] = &given[..] else {
            return Err(wrong(format!(
                "--set {axis}= takes one value here (costof run compares several)"
            )));
        };
        if values.iter().any(|(name, _)| name == axis) {
            return Err(wrong(format!("the axis {axis} has two values")));
        }
        values.push((axis, by_hand::value(axis, given).map_err(wrong)?));
    }
    Ok(values)
}

fn listen(options: &SendOptions, address: &Address) -> Result<ExitCode, Error> {
    let told = match options.open {
        true => None,
        false => told_token(options)?,
    };
    let drawn = match told.is_none() && !options.open {
        true => Some(by_hand::token().map_err(|error| {
            wrong(format!(
                "the kernel gives no random bytes for a token: {error} (--token)"
            ))
        })?),
        false => None,
    };
    let interrupted = interrupts::watch()?;
    let clients_most = options.max_clients.into();
    let ports = options.data_port.unwrap_or((0, 0));
    let token = told.or_else(|| drawn.clone());
    let receiver = Receiver::open(address, token, clients_most, ports).map_err(refused)?;
    let address = receiver.address();
    let file = match (&options.token_file, &drawn) {
        (Some(path), Some(token)) => Some(TokenFile::write(path, token)?),
        _ => None,
    };
    tell(format_args!("listening at {address} until Ctrl-C"));
    let to = shown(&address);
    tell(match (options.open, &options.token_file, &drawn) {
        (true, ..) => format!("senders: costof send --to {to} (--open: without a token)"),
        (_, Some(path), _) => format!(
            "senders: costof send --to {to} --token-file {}",
            path.display()
        ),
        (_, None, Some(token)) => format!("senders: {TOKEN}={token} costof send --to {to}"),
        _ => format!("senders: costof send --to {to}, with the same token"),
    });
    let failed = Mutex::new(None);
    receiver.serve(&interrupted, &|heard| {
        if let Err(error) = hear(options.json, heard) {
            // Nobody reads what there is to be said.
            interrupted.store(true, Ordering::Relaxed);
            *failed.lock().unwrap_or_else(|error| error.into_inner()) = Some(error);
        }
    });
    drop(file);
    match failed
        .into_inner()
        .unwrap_or_else(|error| error.into_inner())
    {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// The address as others call it: one that stands for all of this machine's is none.
fn shown(address: &Address) -> String {
    match address {
        Address::Ip(host, port) if ["0.0.0.0", "::"].contains(&host.as_str()) => {
            format!("HOST:{port}, HOST being a name or address of this machine")
        }
        address => address.to_string(),
    }
}

fn hear(json: bool, heard: Heard) -> Result<(), Error> {
    match heard {
        Heard::Refused { from, because } => tell(format_args!("{from} is refused: {because}")),
        Heard::Trouble(what) => tell(what),
        Heard::Began {
            client,
            from,
            point,
        } => tell(format_args!(
            "client {client} ({from}) sends: {}",
            text::what(&point, by_hand::info())
        )),
        Heard::Ended(served) => {
            let Served {
                client,
                from,
                point,
                messages,
                bytes,
                early,
                measured,
            } = *served;
            if let Some(why) = early {
                tell(format_args!(
                    "client {client} ({from}) ended early, after {}: {why}",
                    text::counted(messages, bytes)
                ));
            }
            show(
                json,
                Some((client, &from)),
                &point,
                (messages, bytes),
                &measured,
            )?;
        }
    }
    Ok(())
}

/// What was measured; of a client, at the end that listens.
fn show(
    json: bool,
    client: Option<(u64, &str)>,
    point: &Point,
    (messages, bytes): (u64, u64),
    measured: &Result<Run, Failure>,
) -> Result<(), Error> {
    let written = if json {
        let mut row = json!({
            "point": point,
            "messages": messages,
            "arrived_bytes": bytes,
        });
        if let Some((client, from)) = client {
            row["client"] = client.into();
            row["from"] = from.into();
        }
        match measured {
            Ok(run) => {
                row["metrics"] = json!(by_hand::metrics(run));
                let found = costof_findings::all::findings(run);
                let sentences = found.into_iter().map(|found| found.sentence());
                row["findings"] = sentences.collect();
            }
            Err(failure) => row["failure"] = failure.reason.clone().into(),
        }
        format!("{row}\n")
    } else {
        let what = text::what(point, by_hand::info());
        let arrived = text::counted(messages, bytes);
        let who = client.map_or(what.clone(), |(client, from)| {
            format!("client {client} ({from}), {what}")
        });
        match measured {
            Ok(run) => format!("{who}: {arrived} arrived\n{}\n", text::metrics(run)),
            Err(failure) => format!("{who}: {arrived} arrived: {}\n\n", failure.reason),
        }
    };
    io::stdout().lock().write_all(written.as_bytes())?;
    Ok(())
}

/// The token that this end was told; none where it is to be drawn.
fn told_token(options: &SendOptions) -> Result<Option<String>, Error> {
    if let Some(token) = &options.token {
        return Ok(Some(token.clone()));
    }
    if let Some(path) = &options.token_file {
        return match fs::read_to_string(path) {
            Ok(text) => {
                let token = cli::token(text.trim()).map_err(|error| {
                    wrong(format!("{} holds no token: {error}", path.display()))
                })?;
                Ok(Some(token))
            }
            // Who listens writes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && options.listen.is_some() => {
                Ok(None)
            }
            Err(error) => Err(wrong(format!("cannot read {}: {error}", path.display()))),
        };
    }
    match std::env::var(TOKEN) {
        Ok(token) if !token.is_empty() => cli::token(&token)
            .map(Some)
            .map_err(|error| wrong(format!("{TOKEN}: {error}"))),
        _ => Ok(None),
    }
}

/// A file with a token, for its owner alone, as long as there is somebody who takes it.
struct TokenFile(PathBuf);

impl TokenFile {
    fn write(path: &Path, token: &str) -> Result<TokenFile, Error> {
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| writeln!(file, "{token}"));
        match written {
            Ok(()) => Ok(TokenFile(path.to_owned())),
            Err(error) => Err(wrong(format!("cannot write {}: {error}", path.display()))),
        }
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It may have been taken away.
        let _ = fs::remove_file(&self.0);
    }
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Wrong(reason) => Error::Wrong(reason),
        Refusal::Nothing(reason) => Error::Nothing(reason),
    }
}
