//! A test for [ReFrame](https://reframe-hpc.readthedocs.io): it measures the same probes, and compares their
//! values with this run's.

use super::{File, Value};
use costof_model::run_file::Run;
use costof_model::unit::Better;
use serde_json::{Map, json};

/// What a value may be worse than its reference.
const WORSE: f64 = 0.1;

const TEST: &str = r#"import json
import os

import reframe as rfm
import reframe.utility.sanity as sn

PROBES = json.loads('''@PROBES@''')
REFERENCE = json.loads('''@REFERENCE@''')


@rfm.simple_test
class CostofCheck(rfm.RunOnlyRegressionTest):
    """Measures with costof, and fails where a value is worse than its reference by more than a tenth."""

    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'costof'
    executable_opts = ['run', *PROBES, '--out', 'run.jsonl']
    postrun_cmds = ['costof export run.jsonl --all-metrics --format bencher > values.json']
    reference = {'*': {name: tuple(value) for name, value in REFERENCE.items()}}

    @sanity_function
    def has_values(self):
        return sn.assert_found(r'"value"', 'values.json')

    @run_before('performance')
    def set_perf_variables(self):
        with open(os.path.join(self.stagedir, 'values.json')) as file:
            values = {name.replace(':', ';'): measures for name, measures in json.load(file).items()}
        self.perf_variables = {
            name: sn.make_performance_function(
                sn.defer(next(iter(values[name].values()))['value']), unit)
            for name, (*_, unit) in REFERENCE.items() if name in values
        }
"#;

pub(super) fn file(run: &Run, values: &[Value<'_>]) -> File {
    let mut reference = Map::new();
    for value in values {
        let (low, high) = match value.estimate.better {
            Better::Lower => (None, Some(WORSE)),
            Better::Higher => (Some(-WORSE), None),
            Better::Neither => continue,
        };
        let tuple = json!([value.estimate.median, low, high, value.unit()]);
        // ReFrame takes a colon for the end of a system's name.
        reference.insert(value.name().replace(':', ";"), tuple);
    }
    let probes = run.run.plan.points().map(|point| &*point.probe);
    let mut probes: Vec<&str> = probes.filter(|probe| is_plain(probe)).collect();
    probes.sort_unstable();
    probes.dedup();
    let text = |json: String| json.replace('\\', r"\\").replace('\'', r"\'");
    let test = TEST.replace("@PROBES@", &text(json!(probes).to_string()));
    let test = test.replace("@REFERENCE@", &text(super::json(&reference)));
    ("costof_check.py".to_owned(), test)
}

/// Whether a shell takes the name for one word, and costof for no option: ReFrame writes it into a script as it is,
/// and a run file may come from anybody.
fn is_plain(probe: &str) -> bool {
    !probe.is_empty()
        && probe
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"._".contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing;

    #[test]
    fn no_probe_of_a_run_file_is_a_command_or_an_option() {
        let hostile = [
            "$(reboot)",
            "`reboot`",
            "a;reboot",
            "--out=/etc/passwd",
            "a b",
            "",
        ];
        let names = hostile.into_iter().chain(["os.syscall"]);
        let rows = names.map(|name| testing::sized_row(name, 1, 5.0));
        let run = testing::planned([rows.map(|row| row.point).collect()]);
        let (_, test) = file(&run, &[]);
        assert!(
            test.contains(r#"PROBES = json.loads('''["os.syscall"]''')"#),
            "{test}"
        );
    }
}
