//! `costof against`: a program in this work tree, and in another revision.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, ended, or_skip, run, spawn, within,
};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Runs a shell script in a place.
fn shell(place: &Place, script: &str) {
    let mut command = place.command("sh -ec");
    run(command.arg(script)).expect_code(0);
}

/// A repository of two commits: in the second, the program loops ten times as often. It is built.
pub(crate) fn repository() -> Result<Place, String> {
    let git = Command::new("git").arg("--version").output();
    git.map_err(|error| format!("git: {error}"))?;
    let place = Place::new();
    fs::create_dir(place.path("repo")).unwrap();
    let program = |loops: u32| format!("i=0; while [ $i -lt {loops} ]; do i=$((i+1)); done");
    fs::create_dir(place.path("repo/sub")).unwrap();
    fs::write(place.path("repo/.gitignore"), "built\n").unwrap();
    fs::write(place.path("repo/sub/source"), program(5_000)).unwrap();
    let commit = "git add -A && git -c user.name=a -c user.email=a@b commit --quiet -m x";
    shell(&place, &format!("cd repo && git init --quiet && {commit}"));
    fs::write(place.path("repo/sub/source"), program(50_000)).unwrap();
    shell(&place, &format!("cd repo && {commit}"));
    Ok(place)
}

/// `costof against` in the repository's folder `sub`.
fn costof(place: &Place, arguments: &str) -> Command {
    let mut command = place.costof(&format!("against {arguments}"));
    command.current_dir(place.path("repo/sub"));
    command.env("XDG_CACHE_HOME", place.path("cache"));
    command
}

/// It has run.
fn against(place: &Place, arguments: &str) -> Ended {
    let ended = run(&mut costof(place, arguments));
    place.expect_nothing_runs();
    ended
}

/// What git prints in a folder of the place.
pub(crate) fn git(place: &Place, folder: &str, arguments: &str) -> String {
    let mut command = place.command(&format!("git {arguments}"));
    run(command.current_dir(place.path(folder))).expect_code(0).out
}

/// A short comparison of the last two commits.
const SHORT: &str = "HEAD~1 --runs 1 -- sh source";

const BUILD: &str =
    "--build 'echo build; cp source built; pwd >> $HOME/builds' --runs 6 --threshold 50%";

#[test]
fn a_slower_work_tree_fails_and_a_faster_one_passes() {
    let place = or_skip!(repository());
    let slower = against(&place, &format!("HEAD~1 {BUILD} -- sh built")).expect_code(1);
    let first = slower.out.lines().next().unwrap();
    assert!(first.starts_with("worktree takes ") && first.contains("HEAD~1"), "{first}");
    assert_contains_all(&slower.err, &["building HEAD~1", "building worktree", "build\n"]);
    // What was not committed counts too, and the other work tree stays.
    fs::write(place.path("repo/sub/source"), "true").unwrap();
    let faster = against(&place, &format!("HEAD {BUILD} -- sh built")).expect_code(0);
    assert_contains(&faster.out, "PASS");
    let builds = fs::read_to_string(place.path("builds")).unwrap();
    let builds: Vec<&str> = builds.lines().collect();
    assert_eq!(builds.len(), 4, "{builds:?}");
    assert_eq!((builds[0], builds[1]), (builds[2], builds[3]));
    assert!(Path::new(builds[0]).starts_with(place.path("cache")), "{builds:?}");
    let source = fs::read_to_string(place.path("repo/sub/source")).unwrap();
    assert_eq!(source, "true", "this work tree is not changed");
}

#[test]
fn what_is_wrong_is_named() {
    let place = or_skip!(repository());
    let unknown = against(&place, "no-such -- sh source").expect_code(2);
    assert_contains_all(&unknown.err, &["no-such", "git fetch"]);
    assert_contains(&against(&place, "origin/x -- true").err, "git fetch origin x");
    assert!(!against(&place, "HEAD~9 -- true").err.contains("git fetch"));
    let unbuilt = against(&place, "HEAD~1 --build 'exit 5' -- sh built").expect_code(2);
    assert_contains_all(&unbuilt.err, &["the build of HEAD~1 failed", "exit 5"]);
    let outside = place.costof("against HEAD -- true");
    let outside = run(&mut within(&["env", "GIT_CEILING_DIRECTORIES=/"], &outside)).expect_code(2);
    assert_contains(&outside.err, "git: ");
}

#[test]
fn work_trees_on_a_disk_that_is_not_mounted_stay_known() {
    let place = or_skip!(repository());
    git(&place, "repo", "worktree add --quiet --detach ../disk HEAD");
    fs::rename(place.path("disk"), place.path("unmounted")).unwrap();
    against(&place, SHORT).expect_code(0);
    fs::rename(place.path("unmounted"), place.path("disk")).unwrap();
    git(&place, "disk", "status");
    // One of costof's that was removed is made again.
    fs::remove_dir_all(place.path("cache")).unwrap();
    against(&place, SHORT).expect_code(0);
}

#[test]
fn in_a_hook_it_changes_nothing_of_the_commit() {
    let place = or_skip!(repository());
    let state = || {
        let head = git(&place, "repo", "rev-parse HEAD --symbolic-full-name HEAD");
        head + &git(&place, "repo", "status --porcelain") + &git(&place, "repo", "ls-files -s")
    };
    let before = state();
    let hook = "--build 'env | grep ^GIT_ || true' HEAD~1 --runs 1 -- sh source";
    let mut command = costof(&place, hook);
    command.env("GIT_DIR", place.path("repo/.git"));
    command.env("GIT_INDEX_FILE", place.path("repo/.git/index"));
    command.env("GIT_PREFIX", "sub/").env("GIT_WORK_TREE", place.path("repo"));
    let ended = run(&mut command).expect_code(0);
    for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE"] {
        assert!(!ended.err.contains(&format!("{name}=")), "{}", ended.err);
    }
    assert_eq!(state(), before);
}

#[test]
fn a_program_that_is_one_file_for_both_sides_is_told() {
    let place = or_skip!(repository());
    let source = place.path("repo/sub/source").display().to_string();
    let same = against(&place, &format!("HEAD~1 -- {source}")).expect_code(2);
    assert_contains_all(&same.err, &["both sides", "relative to this folder"]);
    let argument = against(&place, &format!("HEAD~1 --runs 1 -- sh {source}")).expect_code(0);
    assert_contains(&argument.err, "both sides use /");
    let build = "--build 'ln -sf /bin/true built'";
    let linked = against(&place, &format!("HEAD~1 {build} --runs 1 -- ./built")).expect_code(0);
    assert_contains(&linked.err, "./built is the same file");
    fs::create_dir(place.path("repo/sub/new")).unwrap();
    let mut command = costof(&place, SHORT);
    let without = run(command.current_dir(place.path("repo/sub/new"))).expect_code(2);
    assert_contains(&without.err, "HEAD~1 has no folder sub/new");
}

#[test]
fn a_clone_made_anew_has_its_other_work_tree_made_anew() {
    let place = or_skip!(repository());
    against(&place, SHORT).expect_code(0);
    git(&place, ".", "clone --quiet --no-hardlinks repo clone");
    fs::remove_dir_all(place.path("repo")).unwrap();
    fs::rename(place.path("clone"), place.path("repo")).unwrap();
    against(&place, SHORT).expect_code(0);
    // Paths that differ only in what separates their parts have folders of their own.
    for folder in ["a-b/c", "a/b-c"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        git(&place, ".", &format!("clone --quiet repo {folder}"));
        let mut command = costof(&place, SHORT);
        run(command.current_dir(place.path(folder).join("sub"))).expect_code(0);
    }
    let listed = git(&place, "a-b/c", "worktree list") + &git(&place, "a/b-c", "worktree list");
    assert!(listed.lines().count() == 4 && !listed.contains("prunable"), "{listed}");
}

#[test]
fn who_comes_second_waits() {
    let place = or_skip!(repository());
    let first = File::open(place.path("repo")).unwrap();
    first.lock().unwrap();
    let mut second = spawn(&mut costof(&place, SHORT));
    let mut line = String::new();
    BufReader::new(second.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_contains(&line, "waiting: another costof");
    assert_eq!(git(&place, "repo", "worktree list").lines().count(), 1);
    drop(first);
    ended(second).expect_code(0);
}
