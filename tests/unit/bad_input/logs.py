"""Logs that cannot be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.bad_input import HEADER, bad, log

if TYPE_CHECKING:
    from tests.unit.bad_input import Bad

NODES = "node\n" + "".join(f"n{node}\n" for node in range(16))


def inventory(rows: str, content: str, *fragments: str, at: str = "failures.0.inventory: ") -> Bad:
    """Return a scenario whose inventory is bad, or does not go with its log."""
    place = "§" if at == "failures.0: " else ""
    row = f"  - {place}{{use: replay, file: log.csv, inventory: {'' if place else '§'}nodes.csv}}"
    return bad({7: row}, at, *fragments, files={"log.csv": HEADER + rows, "nodes.csv": content})


CASES = [
    bad(
        {7: "  - {use: replay, file: §lag.csv}"},
        "failures.0.file: there is no file ",
        "did you mean 'log.csv'?",
        files={"log.csv": HEADER},
    ),
    bad({7: "  - §{use: replay, file: .}"}, "failures.0: ", "cannot be read (is a directory)"),
    log(HEADER + "a,5,6\n", "log.csv:2: has 3 fields, and the header 4"),
    log("unit,start,end,end\na,5,6,7\n", "log.csv:1: column 'end' is there twice"),
    log(HEADER + "a,1709971200000,1709971260000,x\n", "these look like milliseconds since 1970"),
    log(HEADER + "a,45361.5,45362.25,x\n", "log.csv: the moments go from 45361.5 to 45362.25; these look like the"),
    bad(
        {7: "  - {use: replay, file: log.csv, time_unit: §h, columns: {start: start_s}}"},
        "failures.0.time_unit: is not the unit that the name of column 'start_s' states",
        files={"log.csv": HEADER.replace("start", "start_s") + "n1,5,6,x\n"},
    ),
    log(HEADER + "a,5,4,x\n", "log.csv:2: the outage of 'a' ends (4) before it starts (5)"),
    log(
        HEADER + "a,5,soon,x\n",
        "log.csv:2: column 'end' holds 'soon', which is neither a number of zero or more nor a date such as 2026-",
    ),
    log(
        HEADER + "a,2026-11-20,2026-11-21,x\nb,30,40,x\n",
        "log.csv:3: column 'start' holds '30', but the moments above it are dates without an offset from UTC",
    ),
    log(
        HEADER + "a,2026-11-20T09:00:00Z,2026-11-20T10:00:00,x\n",
        "log.csv:2: column 'end' holds '2026-11-20T10:00:00', but the moments above it are dates with an offset from",
    ),
    log(
        HEADER + "n1,5,,x\nn2,6,7,x\nn1,8,9,x\n",
        "log.csv:4: 'n1' returns, but its outage of line 2 has no end; say when that was over",
    ),
    log(
        HEADER + "left,1,2,x\nright,5,6,x\n",
        "log.csv: 'left' has no number that tells its place",
        "inventory: FILE",
        "map: first-appearance",
    ),
    bad(
        {7: "  - §{use: replay, file: log.csv}\n  - {use: replay, file: more.csv}"},
        "failures.0: log.csv: the log has 9 units, with the other logs 17, but the cluster has 16 nodes",
        files={
            "log.csv": HEADER + "".join(f"n{unit},{unit},{unit + 1},x\n" for unit in range(9)),
            "more.csv": HEADER + "".join(f"n{unit},{unit},{unit + 1},y\n" for unit in range(8, 17)),
        },
    ),
    bad(
        {7: "  - {use: replay, file: log.csv, origin: §yesterday}"},
        "failures.0.origin: 'yesterday', which is neither a number of zero or more nor a date such as",
        files={"log.csv": HEADER + "n1,5,6,x\n"},
    ),
    bad(
        {7: "  - {use: replay, file: log.csv, origin: §2026-11-20}"},
        "failures.0.origin: '2026-11-20' does not go with the moments of the log, which are numbers",
        files={"log.csv": HEADER + "n1,5,6,x\n"},
    ),
    bad(
        {7: "  - {use: replay, file: log.csv, origin: §6}"},
        "failures.0.origin: log.csv has no outage after 6",
        files={"log.csv": HEADER + "n1,5,6,x\n"},
    ),
    bad(
        {7: "  - {use: replay, file: log.csv, inventory: §node.csv}"},
        "failures.0.inventory: there is no file ",
        "did you mean 'nodes.csv'?",
        files={"log.csv": HEADER + "n1,5,6,x\n", "nodes.csv": NODES},
    ),
    inventory(
        "n1,5,6,x\nn17,6,7,x\n",
        NODES,
        "log.csv:3: unknown node of the inventory 'n17'; did you mean 'n7'?",
        at="failures.0: ",
    ),
    inventory("n1,5,6,x\n", "node\nn1\nn2\n", "nodes.csv names 2 nodes below its header, but the cluster has 16"),
    inventory("n1,5,6,x\n", NODES + "n16\n", "nodes.csv names 17 nodes below its header, but the cluster has 16"),
    inventory("n1,5,6,x\n", NODES + "n3\n", "nodes.csv:18: 'n3' is also in line 5"),
    inventory(
        "n1,5,6,x\n", "node,rack\nn1,r1\n,r1\n", "nodes.csv:1: has no column for the unit (the header has: node, rack)"
    ),
    inventory("n1,5,6,x\n", "unit,rack\nn1,r1\n,r1\n", "nodes.csv:3: column 'unit' is empty"),
    inventory("n1,5,6,x\n", "", "nodes.csv:1: has no header; the first line names the columns"),
    inventory("n1,5,6,x\n", "unit\n", "nodes.csv: has no names below its header"),
    bad(
        {7: "  - {use: replay, file: log.csv, inventory: nodes.csv, map: §first-appearance}"},
        "failures.0.map: an inventory says which node is which; leave one of the two out",
        files={"log.csv": HEADER + "n1,5,6,x\n", "nodes.csv": NODES},
    ),
    log(
        HEADER + "a,-5,6,x\n",
        "log.csv:2: column 'start' holds '-5', which is neither a number of zero or more nor a date",
    ),
    log(
        "node,start,end\na,1,2\n",
        "log.csv:1: has no column for the unit (the header has: node, start, end)",
        "columns: {unit: NAME}",
    ),
    log(HEADER + "a,1\n", "log.csv:2: has 2 fields, and the header 4"),
    log(HEADER + ",1,2,x\n", "log.csv:2: column 'unit' is empty"),
    log(
        HEADER + "".join(f"n{unit},{unit},{unit + 1},x\n" for unit in range(17)),
        "log.csv: the log has 17 units, but the cluster has 16 nodes",
    ),
    log(b"unit,start,end,cause\na,1,2,caf\xe9\n", "log.csv:2: is not UTF-8 text (byte 0xe9)"),
    log("", "log.csv:1: has no header; the first line names the columns"),
    log(HEADER, "log.csv: the log has no rows below its header"),
    log(HEADER + f'a,1,2,"{"x" * 200_000}"\n', "log.csv:2: a quoted field does not end, or is too long"),
    bad(
        {7: "  - {use: replay, file: log.csv, time_unit: §hours}"},
        "failures.0.time_unit: 'hours' is not a choice",
        "(choose from s, min, h, d)",
        files={"log.csv": HEADER},
    ),
]
