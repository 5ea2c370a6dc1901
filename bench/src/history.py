"""The change points that Apache Otava finds in each series of a file, with its own defaults; where a series says
`from`, also in each beginning of it from this length on."""

import json
import sys

from otava.series import Metric, Series


def changes(values):
    series = Series("costof", None, list(range(len(values))), {"value": Metric()}, {"value": values}, {})
    return [int(change.index) for change in series.analyze().change_points["value"]]


with open(sys.argv[1]) as file:
    for series in json.load(file):
        values, first = series["values"], series["from"]
        lengths = range(first, len(values) + 1) if first else []
        beginnings = [changes(values[:length]) for length in lengths]
        print(json.dumps({"changes": changes(values), "beginnings": beginnings}))
