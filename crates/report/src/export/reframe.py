import json
import os

import reframe as rfm
import reframe.utility.sanity as sn

REQUEST = json.loads('''@REQUEST@''')
REFERENCE = json.loads('''@REFERENCE@''')


@rfm.simple_test
class CostofCheck(rfm.RunOnlyRegressionTest):
    """Measures with costof, and fails where a value is missing, or worse than its reference by more than a tenth."""

    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'costof'
    executable_opts = ['run', *REQUEST, '--out', 'run.jsonl']
    postrun_cmds = ['costof export run.jsonl --all-metrics --format bencher > values.json']
    reference = {'*': {name: tuple(value) for name, value in REFERENCE.items()}}

    def values(self):
        with open(os.path.join(self.stagedir, 'values.json')) as file:
            return {name.replace(':', ';'): measures for name, measures in json.load(file).items()}

    @sanity_function
    def has_values(self):
        values = self.values()
        missing = [name for name in REFERENCE if name not in values]
        return sn.assert_eq(missing, [], msg='no value of {0}')

    @run_before('performance')
    def set_perf_variables(self):
        values = self.values()
        self.perf_variables = {
            name: sn.make_performance_function(
                sn.defer(next(iter(values[name].values()))['value']), unit)
            for name, (*_, unit) in REFERENCE.items() if name in values
        }
