//! `action.yml`, the GitHub Action, and the workflow of CONTRIBUTING.md: their steps, as a runner executes them.
//! `COSTOF_PYTHON` names a Python that has PyYAML and check-jsonschema; `./check` makes one.

use crate::against::{git, repository};
use crate::common::{COSTOF, Ended, Place, assert_contains, assert_contains_all, or_skip, run};
use crate::formats::python;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// GitHub's `gh api` for comments, which are the files of a folder, each named by its id.
const GH: &str = r#"cd ../../comments
case "$*" in
    *--paginate*) grep -l "^$(echo "$*" | grep -o '<!--.*-->')" -- * || true ;;
    *POST*) echo "gh $*"; cp "${7#body=@}" $(($(ls | wc -l) + 1)) ;;
    *) echo "gh $*"; cp "${7#body=@}" "${5##*/}" ;;
esac"#;

/// The workflow in CONTRIBUTING.md.
fn own_workflow() -> String {
    let text = fs::read_to_string(format!("{ROOT}CONTRIBUTING.md")).unwrap();
    let (_, block) = text.split_once("````yaml\n").unwrap();
    block.split_once("````").unwrap().0.to_owned()
}

/// A file of YAML, read.
fn yaml(path: &Path) -> Result<Value, String> {
    let convert =
        "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let read = run(python("yaml", "python3")?.args(["-c", convert]).arg(path));
    Ok(serde_json::from_str(&read.expect_code(0).out).unwrap())
}

fn step<'a>(steps: &'a Value, name: &str) -> &'a Value {
    let mut steps = steps.as_array().unwrap().iter();
    steps.find(|step| step["name"] == name).unwrap()
}

/// A program of a shell's lines.
fn write_program(place: &Place, name: &str, lines: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The command that executes a step as a runner does, in a folder.
fn shell(place: &Place, step: &Value, folder: &str) -> Command {
    fs::write(place.path("step.sh"), step["run"].as_str().unwrap()).unwrap();
    let mut shell = place.command("bash --noprofile --norc -e -o pipefail");
    shell.arg(place.path("step.sh")).current_dir(place.path(folder));
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    shell.env("PATH", path).env("GITHUB_REPOSITORY", "owner/program");
    shell.env("GITHUB_OUTPUT", place.path("output"));
    shell.env("GITHUB_STEP_SUMMARY", place.path("summary"));
    shell
}

/// Executes a step of the action where its inputs are these or their defaults.
fn execute(place: &Place, action: &Value, name: &str, inputs: &[(&str, &str)]) -> Ended {
    let step = step(&action["runs"]["steps"], name);
    let mut shell = shell(place, step, "repo/sub");
    for (variable, expression) in step["env"].as_object().unwrap() {
        let expression = expression.as_str().unwrap();
        let input = expression.strip_prefix("${{ inputs.").and_then(|it| it.strip_suffix(" }}"));
        let value = match (variable.as_str(), input) {
            ("RESULT", _) => place.path("costof.md").display().to_string(),
            ("NUMBER", _) => "7".to_owned(),
            ("COSTOF", _) => COSTOF.to_owned(),
            (_, Some(input)) => {
                let default = || action["inputs"][input]["default"].as_str().unwrap_or_default();
                let given = inputs.iter().find(|(name, _)| *name == input);
                given.map_or_else(|| default().to_owned(), |(_, value)| (*value).to_owned())
            }
            (variable, None) => panic!("{variable} is {expression}"),
        };
        shell.env(variable, value);
    }
    if let Some((_, costof)) = inputs.iter().find(|(name, _)| *name == "costof") {
        shell.env("COSTOF", costof);
    }
    shell.env("XDG_CACHE_HOME", place.path("cache"));
    run(&mut shell)
}

#[test]
fn the_action_checks_a_change_of_a_repository() {
    let action = or_skip!(yaml(Path::new(&format!("{ROOT}action.yml"))));
    let place = or_skip!(repository());
    write_program(&place, "bin/gh", GH);
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let few = ("options", "--runs 6");
    // The budget and a number of runs exclude each other.
    let slow = [
        ("base", "HEAD~1"),
        ("command", "sh 'built'"),
        ("build", "echo built; cp source built"),
        ("threshold", "50"),
        ("budget", ""),
        few,
    ];
    let compared = execute(&place, &action, "Compare", &slow);
    assert_contains(&compared.err, "building HEAD~1");
    let output = read("output");
    // A busy machine may decide otherwise, or not at all.
    let verdict = match compared.code {
        Some(0) => "pass",
        Some(1) => "fail",
        Some(3) => "inconclusive",
        code => panic!("{code:?}: {}", compared.err),
    };
    assert_eq!(output, format!("verdict={verdict}\n"));
    let title = format!("### Cost of this change: {verdict}");
    assert_contains_all(&read("summary"), &[&title, "worktree takes ", "|"]);
    // Another workflow's comment stays, and each command has one that is renewed.
    write_program(&place, "comments/1", &title);
    for (command, asked) in [
        ("sh built", "gh api --silent --method POST repos/owner/program/issues/7/comments"),
        ("sh built", "--method PATCH repos/owner/program/issues/comments/2"),
        ("sh 'built'", "--method POST"),
    ] {
        let inputs = [("command", command)];
        let commented = execute(&place, &action, "Comment", &inputs).expect_code(0);
        assert_contains(&commented.out, asked);
    }
    for comment in ["comments/2", "comments/3"] {
        assert_contains_all(&read(comment), &["<!-- costof against ", &title]);
    }
    // What failed before is not the result of what could not be measured.
    for (inputs, says) in [
        (&[("base", ""), ("command", "true")][..], "set the input base"),
        (&[("base", "HEAD"), ("command", " ")], "command is empty"),
        (&[("base", "HEAD"), ("command", "sh 'a")], "quote"),
        (&[("base", "no-such"), ("command", "true")], "no revision no-such"),
        (&[("base", "HEAD"), ("command", "true"), ("build", "exit 5")], "exit code 2"),
        (&[("base", "HEAD"), ("command", "true"), few], "exit code 2"),
    ] {
        let wrong = execute(&place, &action, "Compare", inputs).expect_code(2);
        assert_contains_all(&wrong.out, &["::error::", says]);
        assert_eq!(execute(&place, &action, "Comment", &[]).expect_code(0).out, "", "{says}");
    }
    assert_eq!(read("output"), output, "what is wrong has no verdict");
}

#[test]
fn the_actions_verdict_is_the_exit_code_and_a_shallow_checkout_gets_its_base() {
    let action = or_skip!(yaml(Path::new(&format!("{ROOT}action.yml"))));
    for (code, undecided, unfit, ends, verdict) in [
        (0, "fail", "skip", 0, "pass"),
        (1, "pass", "measure", 1, "fail"),
        (3, "fail", "measure", 3, "inconclusive"),
        (3, "pass", "measure", 0, "inconclusive"),
        // Here costof says with this code that the runner is not fit.
        (3, "fail", "skip", 3, "skipped"),
        (3, "pass", "skip", 0, "skipped"),
    ] {
        let place = or_skip!(repository());
        let base = git(&place, "repo", "rev-parse HEAD~1").trim().to_owned();
        let url = format!("file://{}", place.path("repo").display());
        git(&place, ".", &format!("clone --quiet --depth 1 {url} shallow"));
        fs::remove_dir_all(place.path("repo/sub")).unwrap();
        fs::rename(place.path("repo"), place.path("origin")).unwrap();
        fs::rename(place.path("shallow"), place.path("repo")).unwrap();
        let url = format!("file://{}", place.path("origin").display());
        git(&place, "repo", &format!("remote set-url origin {url}"));
        write_program(&place, "costof", &format!(r#"printf '%s\n' "$@"; exit {code}"#));
        let costof = place.path("costof").display().to_string();
        let inputs = [
            ("costof", &*costof),
            ("base", &*base),
            ("command", r#"./a program "of two""#),
            ("build", "make all"),
            ("metric", "wall"),
            ("options", "--prepare 'make clean'"),
            ("undecided", undecided),
            ("unfit", unfit),
        ];
        execute(&place, &action, "Compare", &inputs).expect_code(ends);
        git(&place, "repo", &format!("cat-file -e {base}"));
        let summary = fs::read_to_string(place.path("summary")).unwrap();
        let asked = format!(
            "against\n{base}\n--build\nmake all\n--threshold\n5\n--metric\nwall\n--budget\n60s\n\
             --markdown\n--prepare\nmake clean\n--\n./a\nprogram\nof two\n"
        );
        let fitness = "```text\ndoctor\n--ci\n--for\n5\n--budget\n60s\n```\n";
        assert_contains_all(&summary, &[fitness, &format!("change: {verdict}\n")]);
        assert_eq!(summary.contains(&asked), verdict != "skipped", "{summary}");
        let output = fs::read_to_string(place.path("output")).unwrap();
        assert_eq!(output, format!("verdict={verdict}\n"));
    }
}

#[test]
fn the_workflow_of_contributors_compares_two_builds_of_costof() {
    let place = Place::new();
    fs::write(place.path("workflow.yml"), own_workflow()).unwrap();
    let workflow = or_skip!(yaml(&place.path("workflow.yml")));
    let compare = step(&workflow["jobs"]["compare"]["steps"], "Compare");
    for (code, first) in [(0, "PASS: 1 of 1 row"), (1, "FAIL: 1"), (3, "INCONCLUSIVE: 0"), (2, "")]
    {
        let costof = format!(r#"printf '%s\n' "$@" >asked; echo '{first}'; exit {code}"#);
        write_program(&place, "target/release/costof", &costof);
        run(&mut shell(&place, compare, ".")).expect_code(code);
        let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
        assert_contains_all(&read("summary"), &["```text\n", first]);
        let here = fs::canonicalize(place.path("")).unwrap();
        let hosts = ["/base", ""]
            .map(|tree| format!("exec:'{}{tree}/target/release/costof' worker\n", here.display()));
        assert_contains_all(
            &read("asked"),
            &[&hosts.concat(), "os.syscall\n", "--threshold\n10\n"],
        );
    }
}

#[test]
fn the_action_and_the_workflows_follow_the_published_schemas() {
    let place = Place::new();
    fs::write(place.path("workflow.yml"), own_workflow()).unwrap();
    for (schema, file) in [
        ("actions", format!("{ROOT}action.yml")),
        ("workflows", format!("{ROOT}docs/pull-request.yml")),
        ("workflows", place.path("workflow.yml").display().to_string()),
    ] {
        let mut check = or_skip!(python("check_jsonschema", "check-jsonschema"));
        run(check.args(["--builtin-schema", &format!("vendor.github-{schema}"), &file]))
            .expect_code(0);
    }
}
