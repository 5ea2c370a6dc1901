//! Other people's clients call our services, and our clients other people's: Python's grpcio, and
//! Apache's Thrift of Python. `COSTOF_PYTHON` names a Python that has them; `./check --all` makes one.

use crate::{PLAIN, STUDY, connect, listen, loopback, times};
use costof_rpc::Summary;
use costof_rpc::{Kind, Payload, Stack};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A Python that has all it takes, and what is generated for it.
struct Python {
    executable: OsString,
    place: TempDir,
}

impl Python {
    /// Fails with the reason where the test is to be skipped.
    fn new() -> Result<Self, String> {
        let asked = std::env::var_os("COSTOF_PYTHON");
        let executable = asked.clone().unwrap_or_else(|| "python3".into());
        let place = TempDir::new().expect("a folder can be made");
        let generated = generate(&executable, place.path());
        if let Err(why) = generated {
            assert!(asked.is_none(), "COSTOF_PYTHON will not do: {why}");
            return Err(format!("{why} (./check --all makes a COSTOF_PYTHON that will do)"));
        }
        Ok(Self { executable, place })
    }

    /// One end of a stack.
    fn peer(&self, role: &str, stack: Stack, address: SocketAddr) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
        let mut command = Command::new(&self.executable);
        command.env("PYTHONPATH", self.place.path());
        // Compiled scripts are not to lie beside them.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let script = match stack {
            Stack::Thrift => "thrift_peer.py",
            _ => "grpc_peer.py",
        };
        command.arg(scripts.join(script)).args([role, &address.to_string()]);
        command
    }
}

/// What Python's own compilers make of the interfaces.
fn generate(python: &OsString, to: &Path) -> Result<(), String> {
    let idl = Path::new(env!("CARGO_MANIFEST_DIR")).join("idl");
    let named = |option: &str, path: &Path| {
        let mut option = OsString::from(option);
        option.push(path);
        option
    };
    let mut imports = Command::new(python);
    succeeds(imports.args(["-c", "import grpc, grpc_tools, thrift"]))?;
    let mut protoc = Command::new(python);
    protoc.args(["-m", "grpc_tools.protoc"]).args([
        named("-I", &idl),
        named("--python_out=", to),
        named("--grpc_python_out=", to),
        idl.join("echo.proto").into(),
    ]);
    succeeds(&mut protoc)?;
    let mut thrift = Command::new("thrift");
    thrift.args(["--gen", "py", "-out"]).arg(to);
    succeeds(thrift.arg(idl.join("echo.thrift")))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let said = |Output { stderr, .. }| String::from_utf8_lossy(&stderr).trim().to_owned();
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?} fails: {}", said(output))),
        Err(error) => Err(format!("{command:?} cannot be run: {error}")),
    }
}

/// What a test needs, or its end with the reason.
macro_rules! or_skip {
    ($needed:expr) => {
        match $needed {
            Ok(needed) => needed,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        }
    };
}

/// A server of the other side, until it is dropped.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn new(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("it ran to generate");
        let out = child.stdout.take().expect("it is piped");
        let mut said = String::new();
        let read = BufReader::new(out).read_line(&mut said);
        read.expect("it says where it is");
        let address = said.trim().parse().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn pythons_clients_call_our_services() {
    let python = or_skip!(Python::new());
    for stack in PLAIN {
        let (_server, address) = listen(stack);
        succeeds(&mut python.peer("client", stack, address))
            .unwrap_or_else(|why| panic!("{stack:?}: {why}"));
        // And ours after them.
        let mut client = connect(stack, address);
        client.call(&Payload::new(Kind::Structure)).unwrap();
    }
}

#[test]
fn our_clients_call_pythons_services() {
    let python = or_skip!(Python::new());
    let strings = [0, 1, 64, 65_536, 1_000_003].map(Kind::String);
    for stack in PLAIN {
        let serving = Serving::new(&mut python.peer("server", stack, loopback()));
        let mut client = connect(stack, serving.address);
        for kind in STUDY.into_iter().chain(strings) {
            let called = client.call(&Payload::new(kind));
            called.unwrap_or_else(|error| panic!("{stack:?} {kind}: {error}"));
        }
        for size in [1, 65_536] {
            let more = times(30);
            let bytes = 30 * size as u64;
            let arrived = client.upload(size, more).unwrap();
            assert_eq!(arrived, Summary { chunks: 30, bytes }, "{stack:?}");
        }
    }
}

#[test]
fn a_method_that_pythons_services_lack_is_named() {
    let python = or_skip!(Python::new());
    for stack in PLAIN {
        let serving = Serving::new(&mut python.peer("bare", stack, loopback()));
        let mut client = connect(stack, serving.address);
        let error = client.call(&Payload::new(Kind::Double)).unwrap_err();
        let error = error.to_string().to_lowercase();
        let names = ["method", "unknown function echo_double"];
        assert!(names.iter().any(|name| error.contains(name)), "{stack:?}: {error}");
    }
}
