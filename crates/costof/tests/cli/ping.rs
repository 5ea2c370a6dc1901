//! Pings of a host without costof.

use crate::common::{Ended, Place, assert_contains, median, point, run, skipped, within};
use crate::namespaces::Namespaces;
use std::process::Command;

/// Runs `ip` with these words.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {done:?}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_host_without_costof_answers_or_the_reason_is_told() {
    let namespaces = match Namespaces::new("ping") {
        Ok(namespaces) => namespaces,
        Err(why) => return skipped(why),
    };
    let Namespaces { near, far } = &namespaces;
    for (end, address) in [(near, "fd00:77::2/64"), (far, "fd00:77::1/64")] {
        ip(&format!("-n {end} address add {address} dev cable nodad"));
    }
    let place = Place::new();
    let command = |to: &str| {
        let line = format!(
            "run net.ping --only --set size=56 --quick --launches 3 --out run.jsonl --to {to}"
        );
        let _ = std::fs::remove_file(place.path("run.jsonl"));
        namespaces.at_the_near_end(&place.costof(&line))
    };
    let ping = |to: &str| -> Ended { run(&mut command(to)) };
    for (to, link) in [("10.77.0.1", "remote"), ("fd00:77::1", "remote"), ("localhost", "loopback")]
    {
        let pinged = ping(to).expect_code(0);
        assert_contains(&pinged.out, &format!("the other end: {to}"));
        let run = place.read("run.jsonl");
        let row = point(&run, "net.ping");
        assert_eq!(row.point.link, link, "{to}");
        assert!(median(row, "latency") > 0.0);
    }
    for (to, says) in [
        ("192.0.2.1", "no route to 192.0.2.1"),
        ("no-such-host.invalid", "no-such-host.invalid has no address"),
    ] {
        assert_contains(&ping(to).expect_code(3).err, says);
    }
    let nobody = ping("10.77.0.9").expect_code(3);
    assert_contains(&nobody.out, "cannot reach 10.77.0.9");
    // Root without the right to raw sockets, in a namespace that lets no group have other ones.
    let without_right = ["setpriv", "--bounding-set", "-net_raw"];
    let refused = run(&mut within(&without_right, &command("10.77.0.1"))).expect_code(3);
    assert_contains(&refused.out, "ping_group_range");
    ip(&format!("netns exec {far} sysctl -q net.ipv4.icmp_echo_ignore_all=1"));
    let silent = ping("10.77.0.1").expect_code(3);
    assert_contains(&silent.out, "did not answer 3 pings");
}
