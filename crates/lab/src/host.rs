//! Where a worker can be started.

use crate::address::Address;
use crate::copied::{self, StaticBuilds};
use costof_model::harmless;
use costof_model::node_set::unfolded;
use costof_os::process::namespace::Namespace;
use costof_os::process::shared_object::make_room_for_allocators;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A host: where a worker can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// This machine, by a child process of the controller's own executable.
    Local,
    /// The same, inside the network namespace with this name.
    Namespace(String),
    /// Another machine, through OpenSSH: `[USER@]HOST` or `ssh://[USER@]HOST[:PORT]`.
    Ssh(String),
    /// A shell command whose standard input and output reach a worker.
    Exec(String),
    /// A costof that listens there (`costof send --listen`).
    Call(Address),
}

const USAGE: &str = "local, netns:NAME, ssh:[USER@]HOST, ssh://[USER@]HOST:PORT, tcp:HOST:PORT or \
                     unix:PATH (a `costof send --listen`), or exec:COMMAND, such as 'exec:docker \
                     exec -i NAME costof worker'";

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        if text == "local" {
            return Ok(Host::Local);
        }
        if text.starts_with("ssh://") {
            return ssh(text);
        }
        match text.split_once(':') {
            Some(("netns", name)) => namespace(name),
            Some(("ssh", destination)) => ssh(destination),
            Some(("exec", command)) if command.trim().is_empty() => {
                Err("exec: names no command, such as 'exec:docker exec -i NAME costof worker'"
                    .to_owned())
            }
            Some(("exec", command)) => Ok(Host::Exec(command.to_owned())),
            Some(("tcp", address)) => address.parse().map(Host::Call),
            Some(("unix", _)) => text.parse().map(Host::Call),
            Some((kind, _)) => Err(format!(
                "`{kind}:` is not a kind of host{} (hosts: {USAGE})",
                costof_model::nearest::hint(
                    kind,
                    ["netns", "ssh", "exec", "tcp", "unix"].into_iter()
                )
            )),
            None => Err(format!(
                "`{text}` is not a host (hosts: {USAGE}); to reach a machine by ssh, write ssh:{text}"
            )),
        }
    }
}

fn namespace(name: &str) -> Result<Host, String> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(format!(
            "`{name}` is not the name of a network namespace (`ip netns list` shows them)"
        ));
    }
    Ok(Host::Namespace(name.to_owned()))
}

/// The hosts that one option names: one, or those of a set of ssh destinations.
#[derive(Clone, Debug)]
pub struct HostSet(pub Vec<Host>);

impl FromStr for HostSet {
    type Err = String;

    fn from_str(text: &str) -> Result<HostSet, String> {
        let set = text.strip_prefix("ssh:").filter(|rest| !rest.starts_with("//"));
        let set = set.or_else(|| text.starts_with("ssh://").then_some(text));
        let hosts = match set {
            Some(set) => unfolded(set)?.iter().map(|name| destination(name)).collect(),
            None => text.parse().map(|host| vec![host]),
        };
        hosts.map(HostSet)
    }
}

fn ssh(text: &str) -> Result<Host, String> {
    match &unfolded(text)?[..] {
        [name] => destination(name),
        names => Err(format!(
            "`{text}` names {} hosts, where one is meant (`costof run --on` takes several)",
            names.len()
        )),
    }
}

/// ssh itself parses the destination. Text that ssh would take for an option, or that is clearly
/// not a destination, is rejected here.
fn destination(destination: &str) -> Result<Host, String> {
    let without_scheme = destination.strip_prefix("ssh://").unwrap_or(destination);
    let host = without_scheme.rsplit_once('@').map_or(without_scheme, |(_, host)| host);
    let is_bad = |part: &str| part.is_empty() || part.starts_with('-');
    if is_bad(without_scheme)
        || is_bad(host)
        || destination.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Err(format!(
            "`{destination}` is not [USER@]HOST for ssh (with a port: ssh://HOST:PORT; everything else belongs into ssh's configuration)"
        ));
    }
    Ok(Host::Ssh(destination.to_owned()))
}

impl fmt::Display for Host {
    /// In the form that can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Local => f.write_str("local"),
            Host::Namespace(name) => write!(f, "netns:{name}"),
            Host::Ssh(destination) if destination.starts_with("ssh://") => f.write_str(destination),
            Host::Ssh(destination) => write!(f, "ssh:{destination}"),
            Host::Exec(command) => write!(f, "exec:{command}"),
            Host::Call(address @ Address::Ip(..)) => write!(f, "tcp:{address}"),
            Host::Call(address @ Address::Unix(_)) => write!(f, "{address}"),
        }
    }
}

impl Host {
    /// Whether the controller itself starts its workers, so that they can enter namespaces that it
    /// created on its machine.
    pub fn is_here(&self) -> bool {
        matches!(self, Host::Local | Host::Namespace(_))
    }

    /// What may help if a worker ended with this exit code before it introduced itself.
    pub(crate) fn way_out(&self, code: i32) -> Option<String> {
        match (self, code) {
            (Host::Ssh(destination), 255) => Some(format!(
                "ssh could not connect: it must work without a password and know the host's key, try `ssh -o BatchMode=yes {destination} true`"
            )),
            (Host::Ssh(_), 126) => Some(
                "a costof is there, but its file system may be mounted noexec; --remote-costof PATH names another one"
                    .to_owned(),
            ),
            (Host::Ssh(_), 127) => Some(copied::way_out()),
            (Host::Exec(_), 126 | 127) => {
                Some("the shell did not find the program that the command names".to_owned())
            }
            _ => None,
        }
    }
}

/// How many hosts lose their copies of costof at the same time.
const REMOVED_AT_ONCE: usize = 64;

/// How to start workers: on the controller's machine with this program, on others with a costof
/// that is installed there.
#[derive(Debug)]
pub struct WorkerCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Kept open, so that the same executable runs even if its file is replaced.
    executable: Option<File>,
    /// The costof on other machines, as a command for their shell; `None` for the one there or a copy.
    remote: Option<String>,
    /// What proves to a costof that listens that it may be called.
    token: Option<String>,
    copies: OnceLock<Result<StaticBuilds, String>>,
    /// The destinations of ssh that may have a copy now.
    reached: Mutex<BTreeSet<String>>,
}

impl WorkerCommand {
    /// Any program whose standard input and output reach a worker.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> WorkerCommand {
        WorkerCommand {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            executable: None,
            remote: None,
            token: None,
            copies: OnceLock::new(),
            reached: Mutex::default(),
        }
    }

    /// The controller's own executable with these arguments. It is opened once, so that a build
    /// that replaces its file during a run changes nothing.
    ///
    /// # Errors
    /// If the executable cannot be opened.
    pub fn own_executable(arguments: &[&str]) -> io::Result<WorkerCommand> {
        let executable = File::open("/proc/self/exe")?;
        let program = format!("/proc/self/fd/{}", executable.as_raw_fd());
        Ok(WorkerCommand { executable: Some(executable), ..WorkerCommand::new(program, arguments) })
    }

    /// The same, with another costof on other machines.
    #[must_use]
    pub fn with_remote(self, costof: &str) -> WorkerCommand {
        WorkerCommand { remote: Some(costof.to_owned()), ..self }
    }

    /// The same, with the token of a costof that listens.
    #[must_use]
    pub fn with_token(self, token: Option<String>) -> WorkerCommand {
        WorkerCommand { token, ..self }
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The static builds of costof for machines that ssh reaches.
    ///
    /// # Errors
    /// If one is there and cannot be read.
    pub(crate) fn copies(&self) -> io::Result<&StaticBuilds> {
        let find = || StaticBuilds::find().map_err(|error| error.to_string());
        let found = self.copies.get_or_init(find).as_ref();
        found.map_err(|error| io::Error::other(error.clone()))
    }

    /// Removes the copies of costof from every host that ssh has reached. Returns the hosts where that failed, and why.
    pub fn remove_copies(&self) -> Vec<(Host, String)> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let reached: Vec<&String> = reached.iter().collect();
        let mut failed = Vec::new();
        for some in reached.chunks(REMOVED_AT_ONCE) {
            let removing: Vec<_> = some.iter().map(|host| remove_copies(host)).collect();
            for (host, removing) in some.iter().zip(removing) {
                let done = removing.and_then(Child::wait_with_output);
                let why = match done {
                    Ok(done) if done.status.success() => continue,
                    Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
                    Err(error) => error.to_string(),
                };
                failed.push((Host::Ssh((*host).clone()), harmless::beginning(why.trim(), 400)));
            }
        }
        failed
    }

    /// The command on a host, for display.
    pub(crate) fn shown(&self, host: &Host) -> String {
        match (host, &self.executable) {
            (Host::Ssh(_) | Host::Exec(_) | Host::Call(_), _) => host.to_string(),
            (_, Some(_)) => std::env::current_exe().map_or_else(
                |_| "costof's own executable".to_owned(),
                |path| path.display().to_string(),
            ),
            (_, None) => self.program.display().to_string(),
        }
    }

    /// The command that starts a worker on `host`. Its input and output are pipes, and it leads its
    /// own process group, so that Ctrl-C reaches only the controller.
    ///
    /// # Errors
    /// If the host is a network namespace that does not exist.
    pub(crate) fn on(&self, host: &Host) -> io::Result<Command> {
        let mut command = match host {
            Host::Local | Host::Namespace(_) => {
                let mut command = Command::new(&self.program);
                command.args(&self.arguments);
                make_room_for_allocators(&mut command);
                command
            }
            Host::Ssh(destination) => {
                let worker = match &self.remote {
                    Some(costof) => format!("{costof} worker"),
                    None => {
                        let reached = self.reached.lock();
                        let mut reached = reached.unwrap_or_else(PoisonError::into_inner);
                        reached.insert(destination.clone());
                        self.copies()?.worker()
                    }
                };
                through_ssh(destination, &worker)
            }
            Host::Exec(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
            Host::Call(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if let Host::Namespace(name) = host {
            Namespace::open_named(name)
                .and_then(|namespace| namespace.start_in(&mut command))
                .map_err(|error| {
                    let text = format!(
                        "the network namespace {name}: {error} (`ip netns list` shows those that \
                         are there)"
                    );
                    io::Error::new(error.kind(), text)
                })?;
        }
        command
            // For a panic, the message matters; a backtrace would push it out of the kept part.
            .env("RUST_BACKTRACE", "0")
            // How the user logged in says nothing about the worker, unless ssh starts it: then the
            // other side sets these variables anew.
            .env_remove("SSH_CONNECTION")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(command)
    }
}

/// The command that executes a line in the login's shell of a machine. ssh prompts for nothing, forwards nothing, and
/// leaves no master connection behind, which would outlive it.
fn through_ssh(destination: &str, line: &str) -> Command {
    let mut command = Command::new("ssh");
    let options = "-T -x -a -o BatchMode=yes -o ClearAllForwardings=yes -o ControlMaster=no -o RemoteCommand=none \
                   -o ConnectTimeout=20 --";
    command.args(options.split_whitespace());
    command.args([destination, line]);
    command
}

/// Starts to remove the copies of costof from a host.
fn remove_copies(destination: &str) -> io::Result<Child> {
    let mut command = through_ssh(destination, &copied::removal());
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_executable_is_named_by_its_path() {
        let own = WorkerCommand::own_executable(&[]).unwrap();
        assert_eq!(own.shown(&Host::Local), std::env::current_exe().unwrap().display().to_string());
        assert_eq!(own.shown(&Host::Ssh("there".to_owned())), "ssh:there");
        assert_eq!(WorkerCommand::new("/some/costof", &[]).shown(&Host::Local), "/some/costof");
    }

    #[test]
    fn a_host_is_read_back_as_it_is_shown() {
        for text in [
            "local",
            "netns:client",
            "ssh:there",
            "ssh:me@there.example.org",
            "ssh:me@realm@there",
            "ssh://me@there:2222",
            "ssh:fd00::1",
            "exec:docker exec -i box costof worker",
            "exec:srun -w node1 'costof' worker",
            "tcp:there.example.org:7000",
            "tcp:[::1]:7000",
            "unix:/tmp/costof",
        ] {
            let host: Host = text.parse().unwrap();
            assert_eq!(host.to_string(), text);
        }
    }

    #[test]
    fn a_set_names_several_destinations() {
        for (text, hosts) in [
            ("ssh:me@n[1-2], x", &["ssh:me@n1", "ssh:me@n2", "ssh:x"][..]),
            ("ssh://n[1-2]:22", &["ssh://n1:22", "ssh://n2:22"]),
            ("ssh://[::1]:22", &["ssh://[::1]:22"]),
            ("exec:a n[1-2],b", &["exec:a n[1-2],b"]),
        ] {
            let set: HostSet = text.parse().unwrap();
            let set: Vec<String> = set.0.iter().map(ToString::to_string).collect();
            assert_eq!(set, hosts, "{text}");
        }
        assert!("ssh:a,-oProxyCommand=b".parse::<HostSet>().is_err());
    }

    #[test]
    fn what_is_no_host_says_so() {
        for (text, says) in [
            ("", "is not a host"),
            ("there", "ssh:there"),
            ("shh:there", "ssh"),
            ("netns:", "not the name"),
            ("netns:../etc", "not the name"),
            ("ssh:", "[USER@]HOST"),
            ("ssh:me@", "[USER@]HOST"),
            ("ssh:-oProxyCommand=reboot", "[USER@]HOST"),
            ("ssh:me@-oProxyCommand=reboot", "[USER@]HOST"),
            ("ssh:ssh://-oProxyCommand=reboot", "[USER@]HOST"),
            ("ssh://", "[USER@]HOST"),
            ("ssh:there costof", "[USER@]HOST"),
            ("ssh:n[1-3]", "names 3 hosts"),
            ("ssh:n[1-1000000000]", "more than 10000 hosts"),
            ("exec: ", "no command"),
            ("tcp:there", "HOST:PORT"),
            ("unix:", "unix:/tmp/costof"),
        ] {
            let error = text.parse::<Host>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn ssh_gets_no_more_words_than_are_its() {
        let own = WorkerCommand::new("/some/costof", &[]).with_remote("~/bin/costof");
        let command = own.on(&Host::Ssh("me@there".to_owned())).unwrap();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words[words.len() - 3..], ["--", "me@there", "~/bin/costof worker"]);
    }
}
