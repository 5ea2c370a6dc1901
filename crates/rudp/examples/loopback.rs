//! How fast one connection over loopback is: `loopback [cubic|rate|fixed] [datagram bytes]
//! [message bytes] [seconds]`.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use rudp::socket::Socket;
use rudp::{Accept, Config, Control, Event};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const WAIT: Option<Duration> = Some(Duration::from_secs(5));

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| match words.get(at) {
        Some(word) => word.parse(),
        None => Ok(otherwise),
    };
    let control = match words.first().map(String::as_str) {
        None | Some("cubic") => Control::Cubic,
        Some("rate") => Control::Rate,
        Some("fixed") => Control::Fixed { messages: 32 },
        Some(other) => return Err(format!("`{other}` is no control: cubic, rate, fixed").into()),
    };
    let config = Config {
        control,
        datagram_bytes: number(1, 65_507)?,
        ..Config::default()
    };
    let (bytes, seconds) = (number(2, 64 << 10)?, number(3, 3)?);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let accept = Accept {
        config: config.clone(),
        ..Accept::default()
    };
    let mut server = Socket::bind(any, [1; 16], Some(accept))?;
    let to = server.local_addr()?;
    let receiver = std::thread::spawn(move || {
        let mut came = 0;
        while let Ok(Some((_, event))) = server.poll(WAIT) {
            match event {
                Event::Message(message) => came += message.len(),
                Event::Closed(_) => break,
                _ => {}
            }
        }
        came
    });
    let mut client = Socket::bind(any, [2; 16], None)?;
    let id = client.connect(to, config)?;
    let mut began = Instant::now();
    let mut stats = None;
    while let Some((_, event)) = client.poll(WAIT)? {
        let now = client.now();
        let Some(connection) = client.connection(id) else {
            break;
        };
        match event {
            Event::Connected => began = Instant::now(),
            Event::Closed(reason) => {
                println!("{reason:?}");
                break;
            }
            _ => {}
        }
        stats = Some(connection.stats());
        if began.elapsed() > Duration::from_secs(seconds as u64) {
            connection.close(now);
            continue;
        }
        // What fits into the socket's buffers, several times.
        while connection.stats().queued_bytes < 4 << 20 {
            connection.send(vec![7; bytes])?;
        }
    }
    let took = began.elapsed().as_secs_f64();
    let came = receiver.join().map_err(|_| "the receiver panicked")?;
    println!("{:.2} Gb/s, {stats:?}", came as f64 * 8e-9 / took);
    Ok(())
}
