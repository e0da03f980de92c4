"""Logs that cannot be replayed."""

from __future__ import annotations

from tests.unit.bad_input import HEADER, bad, log

CASES = [
    bad(
        "log is missing",
        {7: "  - {use: replay, file: §lag.csv}"},
        "failures.0.file: there is no file ",
        "did you mean 'log.csv'?",
        files={"log.csv": HEADER},
    ),
    bad("log is a folder", {7: "  - §{use: replay, file: .}"}, "failures.0: ", "cannot be read: is a directory"),
    log("is unsorted", HEADER + "a,5,6,x\nb,3,4,x\n", "log.csv:3: rows must be sorted by 'start': 3 comes after 5"),
    log("ends before it starts", HEADER + "a,5,4,x\n", "log.csv:2: the outage of 'a' ends (4) before it starts (5)"),
    log("holds no number", HEADER + "a,5,soon,x\n", "log.csv:2: column 'end' holds 'soon', which is not a number"),
    log(
        "holds dates",
        HEADER + "a,2026-11-20,2026-11-21,x\n",
        "holds '2026-11-20', which is not a number",
        "times count from the start of the log, in its time_unit",
    ),
    log(
        "holds a negative time",
        HEADER + "a,-5,6,x\n",
        "log.csv:2: column 'start' must be finite and not negative, not -5",
    ),
    log("holds nan", HEADER + "a,0,nan,x\n", "log.csv:2: column 'end' must be finite and not negative, not nan"),
    log(
        "lacks a column",
        "node,start,end\na,1,2\n",
        "log.csv:1: no column 'unit' (the header has: node, start, end)",
        "columns: {unit: node}",
    ),
    log("lacks a field", HEADER + "a,1\n", "log.csv:2: column 'end' holds '', which is not a number"),
    log("lacks a unit", HEADER + ",1,2,x\n", "log.csv:2: column 'unit' is empty"),
    log(
        "has too many units",
        HEADER + "".join(f"n{unit},{unit},{unit + 1},x\n" for unit in range(17)),
        "log.csv: the log has 17 units, but the cluster has 16 nodes",
    ),
    log("is not UTF-8", b"unit,start,end,cause\na,1,2,caf\xe9\n", "log.csv:2: is not UTF-8 text (byte 0xe9)"),
    log("is empty", "", "log.csv: the log is empty; it needs a header (unit,start,end,cause)"),
    log("has only a header", HEADER, "log.csv: the log has no rows below its header"),
    log(
        "has an endless field",
        HEADER + f"a,1,2,{'x' * 200_000}\n",
        "log.csv:2: is no CSV (field larger than field limit (131072))",
    ),
    bad(
        "unit of a log",
        {7: "  - {use: replay, file: log.csv, time_unit: §hours}"},
        "failures.0.time_unit: 'hours' is not a choice",
        "(choose from s, min, h, d)",
        files={"log.csv": HEADER},
    ),
]
