//! What is recorded of the ends of a link in each launch.

use crate::common::{Place, assert_contains, skipped};

#[test]
#[ignore = "long; ./check --all runs it"]
fn each_launch_tells_how_the_ends_of_its_link_were_set_up() {
    let place = Place::new();
    for (link, device) in [("loopback", "lo"), ("veth", "costof")] {
        let file = format!("{link}.jsonl");
        let ended = place.run(&format!(
            "run --only net.rtt --quick --set over=tcp --set cpus=same --set size=56 --link {link} --out {file}"
        ));
        if ended.code == Some(3) && link == "veth" {
            skipped(format_args!("the link veth: {}", ended.out));
            continue;
        }
        let ended = ended.expect_code(0);
        assert_contains(&ended.out, &format!("Link {link}: {device}"));
        let run = place.read(&file);
        assert!(!run.launches.is_empty());
        for launch in &run.launches {
            let ends = &launch.noise.ends;
            assert_eq!(ends.keys().collect::<Vec<_>>(), ["client", "server"]);
            for end in ends.values() {
                let its = end.device.as_deref().unwrap_or_default();
                assert!(its.starts_with(device), "{end:?}");
                assert!(end.mtu_bytes >= Some(1280), "{end:?}");
                assert!(end.congestion_control.is_some(), "{end:?}");
            }
        }
    }
    place.expect_nothing_runs();
}
