//! `costof send`: sends messages between two terminals. Who listens lets a worker answer each caller;
//! who sends is the controller of one launch.

mod outcome;
mod sending;

use crate::cli::{self, SendOptions};
use crate::error::{Context, Done, Error, INTERRUPTED, Result, bail, wrong};
use crate::files;
use crate::session::{TOKEN, own_executable};
use crate::terminal::{log, prose_columns, watch_interrupts};
use costof_lab::address::Address;
use costof_lab::listening::{self, Event, Listening, Sockets};
use costof_measure::probe::find;
use costof_model::protocol::{ByHand, Conditions};
use costof_model::unit::display_ns;
use costof_model::{AxisValue, Point, ProbeInfo};
use costof_os::random;
use costof_probes::{TABLE, interactive};
use costof_report::interactive as text;
use outcome::Outcome;
use sending::Sending;
use serde_json::json;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long to send without `--count` or `--duration`.
const DURATION: Duration = Duration::from_secs(10);
/// A duration that is never reached, where only the number of messages ends it.
const EVER: Duration = Duration::from_secs(365 * 86_400);
/// A file with a token is not longer.
const TOKEN_FILE_MAX_BYTES: u64 = 4096;

pub(crate) fn run(options: &SendOptions) -> Done {
    match (&options.listen, &options.to) {
        (Some(address), _) => listen(options, address),
        (None, Some(address)) => send(options, address),
        (None, None) => Err(wrong("send needs --listen ADDR or --to ADDR")),
    }
}

fn send(options: &SendOptions, address: &Address) -> Done {
    let datagrams = &options.datagrams;
    let drop = datagrams.drop.unwrap_or(0.0) / 100.0;
    let retry_ns = datagrams.retry.map(|retry| retry.as_nanos() as u64);
    let conditions = Conditions { retry_ns, drop };
    let is_unix = matches!(address, Address::Unix(_));
    let point = interactive::asked(address, is_unix, &values(options)?, conditions);
    let point = point.map_err(wrong)?;
    let messages = options.sending.count;
    let token = given_token(options)?;
    let interrupted = watch_interrupts()?;
    let sending = Sending {
        address,
        token,
        point,
        by_hand: ByHand { messages, conditions },
        duration: options.sending.duration.unwrap_or(match messages {
            Some(_) => EVER,
            None => DURATION,
        }),
        enough: &interrupted,
    };
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let (outcome, is_ended_there) = match sending.send() {
        Err(_) if is_interrupted() => return Err(Error::Interrupted),
        sent => sent?,
    };
    if is_ended_there {
        log(format_args!("the receiver at {address} ended the connection"));
    }
    if let Err(failure) = &outcome.measured {
        log(counted(&outcome));
        return Err(Error::Nothing(failure.reason.clone()));
    }
    show(options.json, None, &outcome)?;
    Ok(ExitCode::from(if is_interrupted() { INTERRUPTED } else { 0 }))
}

/// The axes with the values from the options.
fn values(options: &SendOptions) -> Result<Vec<(&str, AxisValue)>> {
    let sending = &options.sending;
    let own = [("over", &sending.over), ("size", &sending.size), ("primitive", &sending.primitive)];
    let own = own.into_iter().filter_map(|(axis, given)| Some((axis, given.as_deref()?)));
    let mut texts: Vec<(&str, &str)> = own.collect();
    for (axis, given) in &sending.settings {
        let [given] = &given[..] else {
            bail!("--set {axis}= takes one value here (costof run compares several)");
        };
        if texts.iter().any(|(name, _)| name == axis) {
            bail!("the axis {axis} has two values");
        }
        texts.push((axis, given));
    }
    let over = texts.iter().find(|(axis, _)| *axis == "over").map_or("", |(_, over)| over);
    let values =
        texts.iter().map(|(axis, text)| Ok((*axis, interactive::value(over, axis, text)?)));
    let mut values = values.collect::<Result<Vec<_>, String>>().map_err(wrong)?;
    let value = |name| values.iter().find(|(axis, _)| *axis == name).map(|(_, value)| value);
    let size = value("size").and_then(AxisValue::as_number);
    let window = interactive::window_that_fits(over, size).filter(|_| value("window").is_none());
    values.extend(window.map(|window| ("window", AxisValue::Number(window))));
    Ok(values)
}

fn listen(options: &SendOptions, address: &Address) -> Done {
    let given = if options.open { None } else { given_token(options)? };
    let generated = if options.open || given.is_some() {
        None
    } else {
        let token = random::digits();
        Some(token.context("the kernel gives no random bytes for a token (--token)")?)
    };
    let interrupted = watch_interrupts()?;
    let sockets = Sockets {
        ports: options.data_port.unwrap_or((0, 0)),
        receive_buffer: options.receive_buffer,
    };
    let token = given.or_else(|| generated.clone());
    // Probes of the user's own are nobody else's.
    let worker = own_executable(&["worker", "--end-with-parent", "--project", "/dev/null"])?;
    let served = (worker, interactive::allowed as listening::Allowed);
    let receiver = Listening::open(address, token, options.max_clients.into(), sockets, served);
    let receiver = receiver.map_err(wrong)?;
    let address = receiver.address();
    let file = match (&options.token_file, &generated) {
        (Some(path), Some(token)) => Some(TokenFile::create(path, token)?),
        _ => None,
    };
    log(format_args!("listening at {address} until Ctrl-C"));
    let to = reachable(&address);
    log(match (options.open, &options.token_file, &generated) {
        (true, ..) => format!("senders: costof send --to {to} (--open: without a token)"),
        (_, Some(path), _) => {
            format!("senders: costof send --to {to} --token-file {}", path.display())
        }
        (_, None, Some(token)) => format!("senders: {TOKEN}={token} costof send --to {to}"),
        _ => format!("senders: costof send --to {to}, with the same token"),
    });
    let failed = Mutex::new(None);
    receiver.serve(&interrupted, &|event| {
        if let Err(error) = show_event(options.json, event) {
            // Nobody reads the output any more.
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

/// The address that senders can use: an address for all interfaces is replaced.
fn reachable(address: &Address) -> String {
    match address {
        Address::Ip(host, port) if ["0.0.0.0", "::"].contains(&host.as_str()) => {
            format!("HOST:{port}, HOST being a name or address of this machine")
        }
        address => address.to_string(),
    }
}

fn show_event(json: bool, event: Event) -> Result<()> {
    match event {
        Event::Refused { from, because } => log(format_args!("{from} is refused: {because}")),
        Event::Trouble(what) => log(what),
        Event::Began { client, from, launch } => {
            let info = &find(TABLE, &launch.points[0].probe).expect("it was allowed").info;
            let conditions = launch.by_hand.unwrap_or_default().conditions;
            let what = described(&launch.points[0], info, conditions);
            log(format_args!("client {client} ({from}) sends: {what}"));
        }
        Event::Ended(served) => {
            let (client, from) = (served.client, &*served.from);
            let outcome =
                Outcome::new(&served.launch, served.report, None, served.noise, served.failure);
            if let Some(why) = &served.early {
                let counted = counted(&outcome);
                log(format_args!("client {client} ({from}) ended early, {counted}: {why}"));
            }
            show(json, Some((client, from)), &outcome)?;
        }
    }
    Ok(())
}

/// What was sent, where this end has sent it, and what arrived, as the receiver has counted it.
fn counted(outcome: &Outcome) -> String {
    let arrived = text::counted(outcome.arrived, outcome.arrived_bytes);
    let sent = outcome.sent.map(|sent| format!("{sent} sent, "));
    let twice = match outcome.duplicates {
        0 => String::new(),
        more => format!(", and {more} or more a second time"),
    };
    format!("{}{arrived} arrived{twice}", sent.unwrap_or_default())
}

/// Prints the measurements. On the listening side, `client` is the number and the address of the client.
fn show(json: bool, client: Option<(u64, &str)>, outcome: &Outcome) -> Result<()> {
    let text = if json { format!("{}\n", row(client, outcome)) } else { table(client, outcome) };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn row(client: Option<(u64, &str)>, outcome: &Outcome) -> serde_json::Value {
    let mut row = json!({
        "point": outcome.point,
        "messages": outcome.arrived,
        "arrived_bytes": outcome.arrived_bytes,
    });
    if outcome.conditions != Conditions::default() {
        row["conditions"] = json!(outcome.conditions);
    }
    if let Some(sent) = outcome.sent {
        row["sent"] = sent.into();
    }
    if outcome.duplicates > 0 {
        row["duplicates"] = outcome.duplicates.into();
    }
    if let Some((client, from)) = client {
        row["client"] = client.into();
        row["from"] = from.into();
    }
    match &outcome.measured {
        Ok(run) => {
            row["metrics"] = json!(run.points.first().map(|row| &row.metrics));
            let found = costof_findings::all::findings(run);
            let sentences = found.into_iter().map(|found| found.sentence);
            row["findings"] = sentences.collect();
        }
        Err(failure) => row["failure"] = failure.reason.clone().into(),
    }
    row
}

fn table(client: Option<(u64, &str)>, outcome: &Outcome) -> String {
    let who =
        client.map_or_else(String::new, |(client, from)| format!("client {client} ({from}), "));
    let info = &outcome.probe.info;
    let what = described(&outcome.point, info, outcome.conditions);
    let counted = counted(outcome);
    match &outcome.measured {
        Ok(run) => {
            let metrics = text::metrics(run, info, prose_columns());
            format!("{who}{what}: {counted}\n{metrics}\n")
        }
        Err(failure) => format!("{who}{what}: {counted}: {}\n\n", failure.reason),
    }
}

/// What is sent: the point, and what no axis says.
fn described(point: &Point, info: &ProbeInfo, conditions: Conditions) -> String {
    let Conditions { retry_ns, drop } = conditions;
    let mut text = text::what(point, info);
    if let Some(retry_ns) = retry_ns {
        text += &format!(", retransmitted after {}", display_ns(retry_ns));
    }
    if drop > 0.0 {
        text += &format!(", {:.1} % dropped on purpose", 100.0 * drop);
    }
    text
}

/// The token from the options or the environment; none if a new one is to be generated.
fn given_token(options: &SendOptions) -> Result<Option<String>> {
    if let Some(token) = &options.token {
        return Ok(Some(token.clone()));
    }
    let Some(path) = &options.token_file else {
        return match std::env::var(TOKEN) {
            Ok(token) if !token.is_empty() => cli::token(&token).map(Some).context(TOKEN),
            _ => Ok(None),
        };
    };
    match files::read_text(path, TOKEN_FILE_MAX_BYTES) {
        Ok(text) => {
            let token = cli::token(text.trim()).map(Some);
            token.context(format_args!("{} holds no token", path.display()))
        }
        // The receiver will write the file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.listen.is_some() => {
            Ok(None)
        }
        Err(error) => bail!("cannot read {}: {error}", path.display()),
    }
}

/// The new file with a token. It is removed when this is dropped, unless another has taken its place.
struct TokenFile<'p> {
    path: &'p Path,
    file: File,
}

impl TokenFile<'_> {
    /// Writes the token, which only the file's owner can read.
    fn create<'p>(path: &'p Path, token: &str) -> Result<TokenFile<'p>> {
        let cannot = || format!("cannot write {}", path.display());
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut created = TokenFile { path, file: created.context(cannot())? };
        writeln!(created.file, "{token}").context(cannot())?;
        Ok(created)
    }
}

impl Drop for TokenFile<'_> {
    fn drop(&mut self) {
        let identity = |data: io::Result<Metadata>| data.ok().map(|data| (data.dev(), data.ino()));
        if identity(fs::symlink_metadata(self.path)) == identity(self.file.metadata()) {
            let _ = fs::remove_file(self.path);
        }
    }
}
