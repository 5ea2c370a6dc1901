//! A root that has nothing but costof, /proc and /dev, and that nobody can write to: no /tmp, no home, no
//! /etc/passwd, no /sys, no ssh.

use crate::common::{Place, assert_contains, run, skipped, within};
use rustix::process::geteuid;

/// Runs its arguments in such a root. Only /out can be written to: the folder `out` of the test's place.
const SCRIPT: &str = r#"
set -e
mkdir -p root out
mount -t tmpfs none root
mkdir root/proc root/dev root/out
mount --rbind /proc root/proc
mount --rbind /dev root/dev
mount --bind out root/out
for file in "$1" $(ldd "$1" | grep -o '/[^ ]*'); do
    mkdir -p "root/$(dirname "$file")"
    touch "root/$file"
    mount --bind "$file" "root/$file"
done
mount -o remount,ro root
exec env -i COSTOF_NO_PREFLIGHT=1 COSTOF_TEST_FOLDER="$COSTOF_TEST_FOLDER" "$(command -v chroot)" root "$@"
"#;

#[test]
#[ignore = "long; ./check --all runs it"]
fn in_a_root_of_nothing_but_costof_it_measures_and_says_what_is_missing() {
    if !geteuid().is_root() {
        return skipped("only root can change its root");
    }
    let place = Place::new();
    let outer = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"];
    let within = |line: &str| run(&mut within(&outer, &place.costof(line)));
    let syscall = "run --only os.syscall --set call=getppid --quick";
    let measured = within(&format!("{syscall} --out /out/run.jsonl")).expect_code(0);
    assert_contains(&measured.out, "system call");
    assert_eq!(place.read("out/run.jsonl").points.len(), 1);
    within(syscall).expect_wrong(&["HOME", "--out"]);
    let huge = within("run --only os.page_fault --set kind=huge --quick --out /out/huge.jsonl");
    assert_contains(&huge.expect_code(3).out, "/sys");
    assert_contains(&within("doctor").out, "CPUs share a core");
    within("list").expect_code(0);
    let no_ssh = within("run --on ssh:nobody --out /out/ssh.jsonl").expect_code(3);
    assert_contains(&no_ssh.err, "no ssh here");
}
