"""Reads a costof run with pandas and DuckDB as it is, and holds what they say
against the file's own rows. Usage: read_run.py RUN.jsonl"""

import json
import math
import sys

import duckdb
import pandas

PATH = sys.argv[1]
ROWS = [json.loads(line) for line in open(PATH, encoding="utf-8")]


def rows(kind):
    return [row for row in ROWS if row["type"] == kind]


def same(found, expected):
    """The same points; pandas and DuckDB may round the last digit of a number."""
    return found.keys() == expected.keys() and all(
        math.isclose(found[key], expected[key], rel_tol=1e-12) for key in expected
    )


def medians():
    """(probe, axes as JSON) of each point, to the median of its primary metric."""
    return {
        (row["probe"], json.dumps(row["axes"], sort_keys=True)): metric["median"]
        for row in rows("point")
        for metric in row["metrics"]
        if metric["name"] == row["primary"]
    }


def read_with_pandas():
    frame = pandas.read_json(PATH, lines=True)
    assert len(frame) == len(ROWS)
    assert dict(frame.type.value_counts()) == dict(
        pandas.Series([row["type"] for row in ROWS]).value_counts()
    )
    points = frame[frame.type == "point"]
    read = {}
    for point in points.itertuples():
        for metric in point.metrics:
            if metric["name"] == point.primary:
                read[point.probe, json.dumps(point.axes, sort_keys=True)] = metric["median"]
    assert same(read, medians()), (read, medians())
    if rows("failure"):
        failures = frame[frame.type == "failure"]
        assert list(failures.reason) == [row["reason"] for row in rows("failure")]
    metrics = pandas.json_normalize(
        rows("point"), "metrics", ["probe", "grade"], record_prefix="metric."
    )
    assert metrics["metric.median"].notna().all()


def read_with_duckdb():
    # Without any description of the columns; a line may be longer than usual.
    run = f"read_json('{PATH}', format = 'newline_delimited', maximum_object_size = 67108864)"
    counted = duckdb.sql(f"select type, count(*) from {run} group by type").fetchall()
    assert dict(counted) == {kind: len(rows(kind)) for kind, _ in counted}, counted
    read = duckdb.sql(
        f"""
        select probe, to_json(axes), metric.median
        from (select probe, axes, "primary", unnest(metrics) as metric from {run}
              where type = 'point')
        where metric.name = "primary"
        """
    ).fetchall()
    # DuckDB gives all axes of the file to every point; those that a point has not are null.
    found = {}
    for probe, axes, median in read:
        axes = {name: value for name, value in json.loads(axes).items() if value is not None}
        found[probe, json.dumps(axes, sort_keys=True)] = median
    assert same(found, medians()), (found, medians())
    if rows("failure"):
        failures = duckdb.sql(
            f"select probe, kind, reason from {run} where type = 'failure'"
        ).fetchall()
        assert sorted(failures) == sorted(
            (row["probe"], row["kind"], row["reason"]) for row in rows("failure")
        )
    launches = duckdb.sql(
        f"""
        select block, launch, wall_ns, noise.duration_ns from {run}
        where type = 'launch' order by block, launch
        """
    ).fetchall()
    assert launches == sorted(
        (row["block"], row["launch"], row["wall_ns"], row["noise"]["duration_ns"])
        for row in rows("launch")
    )


read_with_pandas()
read_with_duckdb()
