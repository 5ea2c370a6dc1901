//! Round trips over loopback, in nanoseconds: the least, the median and the 99th percentile.

use costof_rpc::{Address, Client, Kind, Options, Payload, Server, Stack};
use std::error::Error;
use std::time::Instant;

const CALLS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("costof-rpc-{}", std::process::id()));
    for stack in Stack::ALL {
        for address in [
            Address::Tcp(([127, 0, 0, 1], 0).into()),
            Address::Unix(path.clone()),
        ] {
            let options = Options::default();
            let server = Server::listen(stack, &address, &options)?;
            let mut client = Client::new(stack, &options)?;
            let Some(address) = server.address() else {
                continue;
            };
            client.connect(address)?;
            for kind in [
                Kind::Int,
                Kind::Structure,
                Kind::String(64),
                Kind::String(65_536),
            ] {
                let payload = Payload::new(kind);
                let mut took: Vec<u128> = Vec::with_capacity(CALLS);
                for _ in 0..CALLS {
                    let began = Instant::now();
                    client.call(&payload)?;
                    took.push(began.elapsed().as_nanos());
                }
                took.sort_unstable();
                let (least, median, most) = (took[0], took[CALLS / 2], took[CALLS / 100 * 99]);
                let line = format!("{stack} {address} {kind}: {least} {median} {most}\n");
                std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())?;
            }
        }
    }
    Ok(())
}
