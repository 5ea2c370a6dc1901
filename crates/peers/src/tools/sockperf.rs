//! `sockperf ping-pong` and its server on loopback. The number is the median of whole round trips; sockperf
//! halves them unless an option turns that off. It uses TCP_NODELAY.

use crate::server::Transport;
use crate::tool::{Reading, Statistic, Tool, words};

/// Round trips of messages of this many bytes over `tcp` or `udp`. If `spins`, neither peer blocks.
pub fn ping_pong(over: &str, spins: bool, bytes: u32, seconds: u32) -> Tool<'static> {
    let (transport, named) = match over {
        "tcp" => (Transport::Tcp, " --tcp"),
        _ => (Transport::Udp, ""),
    };
    let both = format!("-i 127.0.0.1 -p PORT{named}{}", if spins { " --nonblocked" } else { "" },);
    Tool {
        server: Some((words(&format!("server {both}")), transport)),
        why_not: lost,
        ..Tool::simple(
            "sockperf",
            Statistic::Median,
            &format!("ping-pong {both} -m {bytes} -t {seconds} --full-rtt"),
            Reading::By(median_ns),
        )
    }
}

/// Reads a line such as `sockperf: ---> percentile 50.000 =   12.037`, in microseconds, if the output says
/// that it is about round trips. None if messages were lost, since sockperf does not wait for them.
fn median_ns(output: &str) -> Option<f64> {
    let whole = output.contains("Round trip is");
    let nothing_lost = dropped(output) == Some(0);
    let line = output.lines().find(|line| line.contains("percentile 50.000 ="))?;
    let microseconds: f64 = line.rsplit_once('=')?.1.trim().parse().ok()?;
    (whole && nothing_lost).then_some(microseconds * 1e3)
}

fn lost(output: &str) -> Option<String> {
    let messages = dropped(output).filter(|messages| *messages > 0)?;
    Some(format!("{messages} of its messages were lost, and it does not wait for lost ones"))
}

/// Reads a line such as `sockperf: # dropped messages = 0; # duplicated messages = 0; …`.
fn dropped(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("# dropped messages = ")?;
    rest.split_once(';')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sockperf 3.7.
    const OUTPUT: &str = "\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 45002 # TCP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=13667; ReceivedMessages=13666
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.551 sec; SentMessages=7668; ReceivedMessages=7668
sockperf: \x1b[2;35m====> avg-rtt=71.727 (std-dev=19.851)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 71.727 usec
sockperf: \x1b[2;35mTotal 7668 observations\x1b[0m; each percentile contains 76.68 observations
sockperf: ---> <MAX> observation = 1212.737
sockperf: ---> percentile 99.000 =  112.897
sockperf: ---> percentile 75.000 =   79.658
sockperf: ---> percentile 50.000 =   69.823
sockperf: ---> percentile 25.000 =   62.252
sockperf: ---> <MIN> observation =   19.979
";

    #[test]
    fn the_median_of_whole_round_trips_is_read() {
        assert_eq!(median_ns(OUTPUT), Some(69_823.0));
        let halved = OUTPUT.replace("Round trip is", "Latency is");
        assert_eq!(median_ns(&halved), None);
        let with_losses = OUTPUT.replace("dropped messages = 0", "dropped messages = 3");
        assert_eq!(median_ns(&with_losses), None);
        assert!(lost(&with_losses).unwrap().starts_with("3 of its messages"));
        assert_eq!(lost(OUTPUT), None);
        assert_eq!(median_ns("sockperf: Test ended"), None);
    }

    #[test]
    fn both_ends_wait_alike() {
        let mut tool = ping_pong("udp", true, 56, 1);
        let server = tool.server.as_ref().unwrap().0.join(" ");
        let client = (tool.arguments)().unwrap().join(" ");
        assert_eq!(server, "server -i 127.0.0.1 -p PORT --nonblocked");
        assert!(client.contains("--nonblocked") && !client.contains("--tcp"));
    }
}
