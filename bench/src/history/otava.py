"""The change points that Apache Otava finds in the series of a file, with its own defaults; where a series has a step, also in
each beginning of its row from the length `from` on. Each line of the output answers one series."""

import json
import sys

from otava.series import Metric, Series


def changes(row, values):
    series = Series("costof", None, list(range(len(values))), {"value": Metric()}, {"value": values}, {})
    return [{"row": row, "at": int(change.index)} for change in series.analyze().change_points["value"]]


with open(sys.argv[1]) as file:
    for series in json.load(file):
        rows, step, first = [row["values"] for row in series["rows"]], series["step"], series["from"]
        found = [change for row, values in enumerate(rows) for change in changes(row, values)]
        lengths = [] if step is None else range(first, len(rows[step]) + 1)
        beginnings = [changes(step, rows[step][:length]) for length in lengths]
        print(json.dumps({"changes": found, "beginnings": beginnings}))
