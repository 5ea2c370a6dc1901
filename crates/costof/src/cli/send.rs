//! The options of `costof send`.

use super::setting;
use super::values::{bytes, count, percent, ports, time, token};
use clap::{ArgGroup, Args, ValueHint, value_parser};
use costof_lab::address::Address;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("mode").args(["listen", "to"]).required(true)),
          after_help = "In one terminal:  costof send --listen 127.0.0.1:7000\n\
                        In another, with the token that the first one prints:\n  \
                        COSTOF_TOKEN=… costof send --to 127.0.0.1:7000 --primitive msg_zerocopy\n  \
                        COSTOF_TOKEN=… costof send --to 127.0.0.1:7000 --over rudp --drop 10%\n\n\
                        `costof explain copy.send` says what is sent and measured, and how; of rudp\n\
                        and study-datagrams, `costof explain rudp.loss`.")]
pub(crate) struct SendOptions {
    /// Listen at HOST:PORT or unix:PATH, until Ctrl-C
    ///
    /// An IPv6 address stands in brackets; port 0 is any.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Address>,
    /// Send to the receiver that listens there
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: Option<Address>,
    /// Connections without this token are refused
    ///
    /// [default: COSTOF_TOKEN or a file; a receiver generates one and prints it]
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(crate) token: Option<String>,
    /// The file that holds the token; a receiver creates it if it does not exist, and removes it when
    /// it ends
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token",
          hide_short_help = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept every sender, without a token
    #[arg(long, conflicts_with_all = ["to", "token", "token_file"], hide_short_help = true)]
    pub(crate) open: bool,
    /// How many senders may connect at a time; a run by `--peer` counts as two
    #[arg(long, value_name = "N", conflicts_with = "to", default_value = "16",
          value_parser = value_parser!(u16).range(1..=256), hide_short_help = true)]
    pub(crate) max_clients: u16,
    /// The ports on which messages may arrive, if a firewall is in the way
    #[arg(long, value_name = "FIRST-LAST", conflicts_with = "to", value_parser = ports, hide_short_help = true)]
    pub(crate) data_port: Option<(u16, u16)>,
    /// How many bytes of datagrams may wait at the receiver (SO_RCVBUF; net.core.rmem_max bounds it)
    /// [default: net.core.rmem_default]
    #[arg(long, value_name = "BYTES", conflicts_with = "to", value_parser = bytes, hide_short_help = true)]
    pub(crate) receive_buffer: Option<u64>,
    #[command(flatten)]
    pub(crate) sending: SendingOptions,
    #[command(flatten)]
    pub(crate) datagrams: DatagramOptions,
    /// Print JSON instead of a table, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of senders only.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --to")]
pub(crate) struct SendingOptions {
    /// How the bytes reach the kernel, such as sendmsg; `costof explain copy.send` has all [default: copy_and_send]
    #[arg(long, value_name = "WORD", conflicts_with = "listen")]
    pub(crate) primitive: Option<String>,
    /// The bytes of a message, such as 64KiB
    #[arg(long, value_name = "BYTES", conflicts_with = "listen")]
    pub(crate) size: Option<String>,
    /// What carries the messages: tcp, unix, udp and others, or rudp or study-datagrams
    #[arg(long, value_name = "WORD", conflicts_with = "listen")]
    pub(crate) over: Option<String>,
    /// End after this many messages on each connection
    #[arg(long, value_name = "N", conflicts_with = "listen", value_parser = count(1, u64::MAX))]
    pub(crate) count: Option<u64>,
    /// End after this time, such as 500ms or 1min [default without --count: 10s]
    #[arg(long, value_name = "TIME", conflicts_with = "listen", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// A value for any axis of copy.send, such as pattern=echo
    ///
    /// With --over rudp and study-datagrams, of rudp.loss, such as control=rate, or window=1 for one message in flight.
    #[arg(long = "set", value_name = "AXIS=V", conflicts_with = "listen", value_parser = setting)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
}

/// Options of senders of reliable datagrams.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --to with --over rudp or study-datagrams")]
pub(crate) struct DatagramOptions {
    /// After how long study-datagrams retransmits what was not answered [default: 1s]
    #[arg(long, value_name = "TIME", conflicts_with = "listen", value_parser = time, hide_short_help = true)]
    pub(crate) retry: Option<Duration>,
    /// The share of the datagrams that the receiver drops, such as 10%
    #[arg(long, value_name = "PERCENT", conflicts_with = "listen", value_parser = percent, hide_short_help = true)]
    pub(crate) drop: Option<f64>,
}
