"""Runs what docs/data.md shows, in a folder with the files that it names: run.jsonl, run.csv, values/.
No column of its tables has numbers of several units. Usage: run_snippets.py PAGE"""

import json
import re
import sys

import duckdb

PAGE = open(sys.argv[1], encoding="utf-8").read()
POINTS = [row for row in map(json.loads, open("run.jsonl", encoding="utf-8")) if row["type"] == "point"]
UNITS = {
    (row["point"], metric["name"]): metric["unit"] for row in POINTS for metric in row["metrics"]
}
PRIMARY = {row["point"]: row["primary"] for row in POINTS}


def check(table):
    assert len(table) > 1, table
    for column in table.columns:
        if table[column].dtype.kind != "f":
            continue
        units = {
            UNITS[row["point"], row.get("metric", PRIMARY[row["point"]])]
            for row in table[table[column].notna()].to_dict("records")
        }
        assert len(units) == 1, (column, units, table)


def python(code):
    names = {}
    exec(code, names)
    assert set(names["table"].columns) >= {"ns", "Hz", "B/s"}, names["table"]
    return names["table"].reset_index()


RUN = {"python": python, "sql": lambda code: duckdb.sql(code).df()}
SNIPPETS = re.findall(r"^```(python|sql)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
assert len(SNIPPETS) >= 4, SNIPPETS
for language, code in SNIPPETS:
    check(RUN[language](code))
