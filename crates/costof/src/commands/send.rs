//! `costof send`: messages by hand, between two terminals.

use crate::cli::{self, SendOptions};
use crate::error::{Context, Done, Error, INTERRUPTED, bail, wrong};
use crate::terminal::{log, watch_interrupts};
use costof_model::axis::AxisValue;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_probes::by_hand::{self, Address, Asked, Heard, Receiver, Refusal, Served};
use costof_report::interactive as text;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long is sent where nothing ends it.
const DURATION: Duration = Duration::from_secs(10);
/// Where a token may stand that no other process sees, unlike the command line.
const TOKEN: &str = "COSTOF_TOKEN";

pub(crate) fn run(options: &SendOptions) -> Done {
    match (&options.listen, &options.to) {
        (Some(address), _) => listen(options, address),
        (None, Some(address)) => send(options, address),
        (None, None) => Err(wrong("send needs --listen ADDR or --to ADDR")),
    }
}

fn send(options: &SendOptions, address: &Address) -> Done {
    let axes = by_hand::what(address, &values(options)?).map_err(wrong)?;
    let token = given_token(options)?;
    let interrupted = watch_interrupts()?;
    let sending = &options.sending;
    let unlimited = sending.count.is_none() && sending.duration.is_none();
    let asked = Asked {
        address,
        token: token.as_deref(),
        axes,
        messages: sending.count,
        duration: sending.duration.or(unlimited.then_some(DURATION)),
        stop: &interrupted,
    };
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let sent = match by_hand::send(&asked) {
        Err(_) if is_interrupted() => return Err(Error::Interrupted),
        sent => sent.map_err(refused)?,
    };
    if sent.ended_by_receiver {
        log(format_args!("the receiver at {address} has ended it"));
    }
    let (messages, bytes) = (sent.messages, sent.arrived_bytes);
    if let Err(failure) = &sent.measured {
        log(format_args!(
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
    Ok(ExitCode::from(if is_interrupted() {
        INTERRUPTED
    } else {
        0
    }))
}

/// The axes that were given values.
fn values(options: &SendOptions) -> Result<Vec<(&str, AxisValue)>, Error> {
    let mut values: Vec<(&str, AxisValue)> = options.axes.0.clone();
    for (axis, given) in &options.sending.settings {
        let [given] = &given[..] else {
            bail!("--set {axis}= takes one value here (costof run compares several)");
        };
        if values.iter().any(|(name, _)| name == axis) {
            bail!("the axis {axis} has two values");
        }
        values.push((axis, by_hand::value(axis, given).map_err(wrong)?));
    }
    Ok(values)
}

fn listen(options: &SendOptions, address: &Address) -> Done {
    let given = if options.open {
        None
    } else {
        given_token(options)?
    };
    let generated = if options.open || given.is_some() {
        None
    } else {
        let token = by_hand::token();
        Some(token.context("the kernel gives no random bytes for a token (--token)")?)
    };
    let interrupted = watch_interrupts()?;
    let ports = options.data_port.unwrap_or((0, 0));
    let token = given.or_else(|| generated.clone());
    let receiver = Receiver::open(address, token, options.max_clients.into(), ports);
    let receiver = receiver.map_err(refused)?;
    let address = receiver.address();
    let file = match (&options.token_file, &generated) {
        (Some(path), Some(token)) => Some(TokenFile::write(path, token)?),
        _ => None,
    };
    log(format_args!("listening at {address} until Ctrl-C"));
    let to = shown(&address);
    log(match (options.open, &options.token_file, &generated) {
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
        if let Err(error) = show_event(options.json, heard) {
            // Nobody reads what there is to be said.
            interrupted.store(true, Ordering::Relaxed);
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    });
    drop(file);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// The address as others call it: one that stands for all addresses of this machine is none.
fn shown(address: &Address) -> String {
    match address {
        Address::Ip(host, port) if ["0.0.0.0", "::"].contains(&host.as_str()) => {
            format!("HOST:{port}, HOST being a name or address of this machine")
        }
        address => address.to_string(),
    }
}

fn show_event(json: bool, heard: Heard) -> Result<(), Error> {
    match heard {
        Heard::Refused { from, because } => log(format_args!("{from} is refused: {because}")),
        Heard::Trouble(what) => log(what),
        Heard::Began {
            client,
            from,
            point,
        } => log(format_args!(
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
                log(format_args!(
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

/// The token of the options or the environment; none where it is to be generated.
fn given_token(options: &SendOptions) -> Result<Option<String>, Error> {
    if let Some(token) = &options.token {
        return Ok(Some(token.clone()));
    }
    let Some(path) = &options.token_file else {
        return match std::env::var(TOKEN) {
            Ok(token) if !token.is_empty() => cli::token(&token).map(Some).context(TOKEN),
            _ => Ok(None),
        };
    };
    match fs::read_to_string(path) {
        Ok(text) => {
            let token = cli::token(text.trim()).map(Some);
            token.context(format_args!("{} holds no token", path.display()))
        }
        // The receiver writes it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.listen.is_some() => {
            Ok(None)
        }
        Err(error) => bail!("cannot read {}: {error}", path.display()),
    }
}

/// A file with a token, for its owner alone, as long as there is somebody who takes it.
struct TokenFile(PathBuf);

impl TokenFile {
    fn write(path: &Path, token: &str) -> Result<TokenFile, Error> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| writeln!(file, "{token}"))
            .context(format_args!("cannot write {}", path.display()))?;
        Ok(TokenFile(path.to_owned()))
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
