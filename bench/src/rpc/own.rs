//! Our own ends, by `crates/rpc`. They take the same arguments as the peers (`rpc/peers/main.go`), after the
//! name of the stack.

use crate::role::{self, RoleResult};
use crate::rudp::print_quantiles;
use costof_rpc::{Client, Kind, Payload, Stack};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// The bench has so long, behind `warm`, to look what both ends have used so far.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs the end that these words name.
pub(crate) fn run_role(words: &[String]) -> ExitCode {
    role::run(words, parse_and_run)
}

fn parse_and_run(words: &[&str]) -> RoleResult<()> {
    let [stack, what, rest @ ..] = words else {
        return Err("it takes a stack, and serve, call or stream".into());
    };
    let stack = match *stack {
        "grpc" => Stack::Grpc,
        "framed" => Stack::Thrift,
        unknown => return Err(format!("there is no stack `{unknown}`").into()),
    };
    match (*what, rest) {
        ("serve", []) => serve(stack),
        ("call", [address, warm_up, calls, bytes]) => {
            call(connected(stack, address)?, warm_up.parse()?, calls.parse()?, bytes.parse()?)
        }
        ("stream", [address, lasts_ms, bytes]) => {
            let lasts = Duration::from_millis(lasts_ms.parse()?);
            stream(connected(stack, address)?, lasts, bytes.parse()?)
        }
        _ => Err("there is no such role".into()),
    }
}

/// Prints where it listens, and serves until it is ended.
fn serve(stack: Stack) -> RoleResult<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = costof_rpc::server(stack)?;
    println!("{}", listener.local_addr()?);
    loop {
        server.serve(listener.accept()?.0.into())?;
    }
}

fn connected(stack: Stack, address: &str) -> RoleResult<Box<dyn Client>> {
    let mut client = costof_rpc::client(stack, None)?;
    client.over(TcpStream::connect(address)?.into())?;
    Ok(client)
}

/// Calls, and prints how long calls took.
fn call(mut client: Box<dyn Client>, warm_up: usize, calls: usize, bytes: usize) -> RoleResult<()> {
    let payload = Payload::new(Kind::String(bytes));
    for _ in 0..warm_up {
        client.call(&payload)?;
    }
    warm();
    let mut took = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        client.call(&payload)?;
        took.push(began.elapsed());
    }
    print_quantiles(took);
    until_ended()
}

/// Streams twice for so long, and prints of the second time how many bytes went, and how long it took
/// until the server had reported what arrived.
fn stream(mut client: Box<dyn Client>, lasts: Duration, bytes: usize) -> RoleResult<()> {
    let mut upload = || {
        let began = Instant::now();
        let summary = client.upload(bytes, Box::new(move || began.elapsed() < lasts))?;
        RoleResult::Ok((summary.bytes, began.elapsed().as_nanos()))
    };
    upload()?;
    warm();
    let (bytes, took_ns) = upload()?;
    println!("{bytes} {took_ns}");
    until_ended()
}

fn warm() {
    println!("warm");
    thread::sleep(PAUSE);
}

/// What it has used is looked at while it is still there.
fn until_ended() -> ! {
    loop {
        thread::park();
    }
}
