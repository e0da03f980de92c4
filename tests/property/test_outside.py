"""Files from outside as life changes them: the same answer, or a refusal with its reason; never another answer.

Each reader gets a good file, changed in one way: packed, cut, doubled, shuffled, newest first, with other line ends,
another zone, another unit, a column twice, a word that nobody knows. What was not used is counted, so that a smaller
answer that nothing tells is a failure.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ettrick.analysis.logs import pipeline
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.tables import NoModelError
from ettrick.sim.failures import Replay
from ettrick.sim.input.job_trace import read_jobs
from ettrick.sim.records import LogError
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.scenario.streams import JobTrace
from ettrick.sim.units import DAY
from tests import log_writers
from tests.log_writers import START, Fault, drawn, name
from tests.pace import SEED, one_in
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFUSED = (LogError, NoModelError, RuleError)

ZONE = "Asia/Kolkata"

NODES = 16


class Answer(NamedTuple):
    """What a file says, comparable, and whether something of it is said not to have been used."""

    rows: list[Any]
    tells: bool


class Form(NamedTuple):
    """A kind of file: a good one, how it is asked, and what it is made of.

    ``parts`` says what its records are: ``lines`` that each have a moment, rows of a ``table``, or one ``document``.
    """

    text: str
    read: Callable[[Path], Answer]
    parts: str
    file: str = "log.txt"
    zone: str = ""
    in_order: bool = False
    """Whether its records have to be in order of time."""


def faults() -> list[Fault]:
    """Return outages that have ended."""
    rates = {"nvlink": 12.0, "gpu_memory": 20.0}
    return [fault for fault in drawn(9, nodes=NODES, days=90.0, rates=rates) if fault.end == fault.end]


def jobs() -> list[dict[str, object]]:
    """Return jobs of a cluster, one after the other on each node."""
    return [
        {"id": 100 + at, "state": ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7")[at % 4], "gpus": 8,
         "start": START + 5000.0 * at, "end": START + 5000.0 * at + 600.0 * (1 + at % 9), "nodes": name(at % NODES)}
        for at in range(40)
    ]  # fmt: skip


def of_logs(path: Path) -> Answer:
    """Return what `ettrick fit` makes of a log: outages, faults, attempts, lives, points of training."""
    request = FitOptions([str(path)], zones=[ZONE], years=["2025"], nodes=NODES, window=(START, START + 100 * DAY))
    tables, reading = pipeline.read(request)
    tells = bool(tables.findings) or any(row.rule != "other lines of the kernel" for row in tables.dropped)
    if tables.lives:
        return Answer(sorted((life.part, life.age, life.failed) for life in tables.lives), tells)
    if tables.attempts:
        return Answer(sorted((a.job, a.t_start, a.t_end, a.end_state, a.nodes, a.gpus) for a in tables.attempts), tells)
    history = pipeline.history_of(request, tables, reading)
    rows = sorted((e.node, round(e.t, 3), round(e.t_end, 3) if e.t_end == e.t_end else None, e.cause, e.planned)
                  for e in history.outages)  # fmt: skip
    return Answer(rows, tells or bool(tables.findings))


def of_training(path: Path) -> Answer:
    """Return the phases of a training log."""
    tables, _ = pipeline.read(FitOptions([str(path)]))
    rows = sorted((p.job, p.attempt, p.phase, p.t0, p.t1, p.first_step, p.last_step) for p in tables.phases)
    return Answer(rows, bool(tables.findings or tables.dropped))


def of_inventory(path: Path) -> Answer:
    """Return the nodes of an inventory."""
    tables, _ = pipeline.read(FitOptions([], str(path), zones=[ZONE]))
    rows = sorted((row.unit, row.gpus, row.rack, row.t_enter) for row in tables.exposure)
    return Answer(rows, bool(tables.findings or tables.dropped))


def of_jobs(path: Path) -> Answer:
    """Return the jobs of a trace."""
    made = read_jobs(JobTrace(name="t", file=str(path)))
    rows = list(zip(made.submit.tolist(), made.gpus.tolist(), made.run.tolist(), made.outcome.tolist(), strict=True))
    return Answer(sorted(rows), bool(made.notes))


def of_replay(path: Path) -> Answer:
    """Return the outages of a log that is replayed."""
    log = Replay(file=str(path)).read()
    rows = [
        (log.units[unit], start, end, cause)
        for cause, recorded in log.by_cause.items()
        for unit, start, end in zip(recorded.unit, recorded.start, recorded.end, strict=True)
    ]
    return Answer(sorted(rows), False)


def table(head: str, rows: list[tuple[Any, ...]]) -> str:
    """Return a table of comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head.split(","), *rows])
    return text.getvalue()


def forms() -> dict[str, Form]:
    """Return a good file of each kind."""
    own, made = faults(), jobs()
    xids = [log_writers.xid(fault) for fault in own]
    dates = [(f.node, log_writers.utc(f.start), log_writers.utc(f.end), f.cause, "no") for f in own]
    lives = [
        (f"s{at}", f"2024-01-{1 + at % 28:02}", f"2024-0{2 + at % 7}-10", ("yes", "no")[at % 2]) for at in range(30)
    ]
    submitted = [(at, 60.0 * at, 8 * (1 + at % 3), 100.0 + at, "completed") for at in range(30)]
    swf = [f"{at} {60 * at} 0 {100 + at} 8 -1 -1 8 {200 + at} -1 1 1 1 1 1 1 -1 -1" for at in range(1, 30)]
    recorded = [(f.node, round(f.start - START, 1), round(f.end - START, 1), f.cause) for f in own]
    return {
        "outages": Form(table("node,start,end,cause,planned", dates), of_logs, "table"),
        "durations": Form(table("node,start,duration_min,cause", [
            (f.node, log_writers.utc(f.start), (f.end - f.start) / 60, f.cause) for f in own]), of_logs, "table"),
        "inventory": Form(log_writers.inventory(NODES, 4, ZONE), of_inventory, "table", "nodes.csv", ZONE),
        "lives": Form(table("serial,start,end,failed", lives), of_logs, "table"),
        "node-events": Form(log_writers.node_events(own, ZONE), of_logs, "table", zone=ZONE),
        "sacct": Form(log_writers.sacct(made, ZONE), of_logs, "table", zone=ZONE),
        "slurmctld": Form(log_writers.slurmctld(own, ZONE), of_logs, "lines", zone=ZONE),
        "kernel": Form(log_writers.kernel(xids, "iso"), of_logs, "lines"),
        "kernel local": Form(log_writers.kernel(xids, "local", ZONE), of_logs, "lines", zone=ZONE),
        "journald": Form(log_writers.kernel(xids, "journald"), of_logs, "lines"),
        "docker": Form(log_writers.kernel(xids, "docker"), of_logs, "lines"),
        "rfc5424": Form(log_writers.kernel(xids, "rfc5424"), of_logs, "lines"),
        "syslog": Form(log_writers.kernel(xids, "syslog", ZONE), of_logs, "lines", zone=ZONE),
        "pdsh": Form(log_writers.kernel(xids, "pdsh", ZONE), of_logs, "lines", zone=ZONE),
        "kubernetes": Form(log_writers.kubernetes(own, "events.k8s.io"), of_logs, "lines"),
        "kubernetes list": Form(log_writers.kubernetes(own), of_logs, "document"),
        "nvsentinel": Form(log_writers.nvsentinel(own), of_logs, "lines"),
        "prometheus": Form(log_writers.prometheus(own, NODES, START, START + 95 * DAY, 3600.0), of_logs, "document"),
        "training": Form(log_writers.goodput([(0.0, 0, 40), (900.0, 30, 60)]), of_training, "lines", "train.jsonl"),
        "sacct json": Form(log_writers.sacct_json(made), of_logs, "document"),
        "jobs": Form(table("job,submit,gpus,run,state", submitted), of_jobs, "table", "jobs.csv"),
        "swf": Form("; UnixStartTime: 0\n" + "\n".join(swf) + "\n", of_jobs, "lines", "jobs.swf"),
        "replay": Form(table("unit,start,end,cause", recorded), of_replay, "table", "log.csv", in_order=True),
    }  # fmt: skip


FORMS = forms()


# What life does to a file: the changed one, or nothing where that makes no sense.


def _lines(form: Form) -> tuple[list[str], list[str]]:
    """Return the lines before the records, and the records."""
    lines = form.text.splitlines(keepends=True)
    heads = 1 if form.parts == "table" or lines[0].startswith(";") else 0
    return lines[:heads], lines[heads:]


def _is_csv(form: Form) -> bool:
    """Return whether a form is a table of comma-separated values."""
    return form.parts == "table" and _delimiter(form) == ","


def _delimiter(form: Form) -> str:
    """Return what separates the cells of a table."""
    return "|" if "|" in form.text.splitlines()[0] else ","


def _cells(form: Form, change: Callable[[list[list[str]]], list[list[str]]], delimiter: str = "") -> str:
    """Return a table after a change of its cells."""
    own = _delimiter(form)
    rows = change([line.rstrip("\n").split(own) for line in form.text.splitlines()])
    return "".join((delimiter or own).join(row) + "\n" for row in rows)


def _shuffled(form: Form) -> str:
    head, rows = _lines(form)
    random.Random(SEED).shuffle(rows)
    return "".join(head + rows)


def _of_unit(form: Form, factor: float) -> str | None:
    """Return a table with moments that are numbers in another unit, which no name states."""
    head = form.text.splitlines()[0].split(",")
    columns = [at for at, title in enumerate(head) if title in ("start", "end", "submit")]
    if form.parts != "table" or _delimiter(form) != "," or not columns or form.read in (of_jobs, of_replay):
        return None

    def change(rows: list[list[str]]) -> list[list[str]]:
        for row in rows[1:]:
            for at in columns:
                row[at] = repr(_seconds(row[at]) * factor)
        return rows

    return _cells(form, change)


def _seconds(text: str) -> float:
    """Return the seconds since 1970 of a date."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _with_word(form: Form, titles: tuple[str, ...], word: str) -> str | None:
    """Return a table whose third row has a word that nobody knows where a word is needed."""
    head = [title.lower() for title in form.text.splitlines()[0].split(_delimiter(form))]
    at = next((head.index(title) for title in titles if title in head), -1)
    if form.parts != "table" or at < 0:
        return None

    def change(rows: list[list[str]]) -> list[list[str]]:
        rows[3][at] = word
        return rows

    return _cells(form, change)


def _in_pieces(form: Form) -> bytes:
    half = len(form.text) // 2
    return gzip.compress(form.text[:half].encode()) + gzip.compress(form.text[half:].encode())


SAME: dict[str, Callable[[Form], str | bytes | None]] = {
    "crlf": lambda form: form.text.replace("\n", "\r\n"),
    "bom": lambda form: "\ufeff" + form.text,
    "packed": lambda form: gzip.compress(form.text.encode()),
    "packed in pieces": _in_pieces,
    "blank lines at the end": lambda form: form.text + "\n\n",
    "no line end at the end": lambda form: form.text.rstrip("\n"),
    "semicolons": lambda form: form.text.replace(",", ";") if _is_csv(form) else None,
    "tabs": lambda form: form.text.replace(",", "\t") if _is_csv(form) else None,
    "quoted": lambda form: (
        _cells(form, lambda rows: [[f'"{cell}"' for cell in row] for row in rows]) if _is_csv(form) else None
    ),
    "capitals in the header": lambda form: (
        _cells(form, lambda rows: [[cell.upper() for cell in rows[0]], *rows[1:]])
        if form.parts == "table" and form.read not in (of_jobs, of_replay)
        else None
    ),
    "columns in another order": lambda form: (
        _cells(form, lambda rows: [row[::-1] for row in rows]) if form.parts == "table" else None
    ),
    "one column more": lambda form: (
        _cells(form, lambda rows: [["note", *rows[0]], *(["x", *row] for row in rows[1:])])
        if form.parts == "table"
        else None
    ),
    "indented": lambda form: json.dumps(json.loads(form.text), indent=2) if form.parts == "document" else None,
    "on one line": lambda form: json.dumps(json.loads(form.text)) if form.parts == "document" else None,
    "an item a line": lambda form: _item_a_line(form.text) if form.parts == "document" else None,
    "coloured": lambda form: re.sub(r"(NVRM: Xid)", "\x1b[31m\\1\x1b[0m", form.text) if "NVRM" in form.text else None,
}
"""Changes that say the same."""

OR_REFUSED: dict[str, Callable[[Form], str | bytes | None]] = {
    "newest first": lambda form: "".join(_lines(form)[0] + _lines(form)[1][::-1]) if form.parts != "document" else None,
    "shuffled": lambda form: _shuffled(form) if form.parts != "document" else None,
    "doubled": lambda form: form.text * 2 if form.parts == "lines" and form.file != "jobs.swf" else None,
    "rows doubled": lambda form: "".join(_lines(form)[0] + _lines(form)[1] * 2) if form.parts == "table" else None,
    "milliseconds": lambda form: _of_unit(form, 1e3),
    "microseconds": lambda form: _of_unit(form, 1e6),
    "days of a spreadsheet": lambda form: _of_unit(form, 1 / 86400),
    "another encoding": lambda form: form.text.encode("utf-16"),
}
"""Changes that may be refused: what is read in spite of them is the same."""

TOLD: dict[str, Callable[[Form], str | bytes | None]] = {
    "a column twice": lambda form: (
        _cells(form, lambda rows: [[row[at] for at in (0, *range(len(row)))] for row in rows])
        if form.parts == "table"
        else None
    ),
    "a word for yes that nobody knows": lambda form: _with_word(form, ("failed", "planned"), "perhaps"),
    "a state that nobody knows": lambda form: (
        _with_word(form, ("state",), "GONE_AWRY") if "JobID" in form.text or form.read is of_jobs else None
    ),
    "a moment that is none": lambda form: _with_word(form, ("start", "submit", "timestart"), "soon"),
    "a moment a hundred years on": lambda form: (
        _with_word(form, ("end", "timeend"), "2126-03-01T00:00:00Z") if form.read is of_logs else None
    ),
    "cut": lambda form: form.text[: int(len(form.text) * 0.9)].rpartition(",")[0] if form.parts != "lines" else None,
    "packed and cut": lambda form: gzip.compress(form.text.encode())[:-200],
}
"""Changes that take something away: a refusal, or it is said that not all was used."""


def _item_a_line(text: str) -> str:
    """Return a document whose longest list has an item a line."""
    document = json.loads(text)
    key = next((key for key in ("items", "jobs") if key in document), "")
    if not key:
        return text
    items = ",\n".join(json.dumps(item) for item in document.pop(key))
    return json.dumps(document)[:-1] + f', "{key}": [\n{items}\n]}}\n'


def asked(form: Form, content: str | bytes, folder: Path) -> Answer | Exception:
    """Return what a file says, or why it is refused."""
    path = folder / form.file
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        return form.read(path)
    except REFUSED as error:
        return error


def before_and_after(
    form: Form, change: Callable[[Form], str | bytes | None], folder: Path
) -> tuple[list[Any], Answer | Exception]:
    """Return what a good file says, and what it says after a change, or why it is refused then."""
    answer, changed = asked(form, form.text, folder), change(form)
    assert isinstance(answer, Answer), answer
    assert answer.rows
    return answer.rows, asked(form, present(changed), folder)


def pairs(changes: dict[str, Any]) -> list[tuple[str, str]]:
    """Return each kind of file with each change that makes sense of it."""
    return [(kind, change) for kind, form in FORMS.items() for change in changes if changes[change](form) is not None]


@pytest.mark.parametrize(("kind", "change"), one_in(2, pairs(SAME)))
def test_the_same_said_otherwise(kind: str, change: str, tmp_path: Path) -> None:
    """Line ends, packing, separators, order of columns and indents change nothing."""
    rows, other = before_and_after(FORMS[kind], SAME[change], tmp_path)
    assert isinstance(other, Answer), other
    assert other.rows == rows


@pytest.mark.parametrize(("kind", "change"), one_in(2, pairs(OR_REFUSED)))
def test_the_same_or_refused(kind: str, change: str, tmp_path: Path) -> None:
    """Other orders, copies and units are understood or refused; nothing else is made of them."""
    rows, other = before_and_after(FORMS[kind], OR_REFUSED[change], tmp_path)
    if isinstance(other, Answer):
        assert other.rows == rows
    else:
        assert len(str(other)) > 20
        assert "\n" not in str(other)


@pytest.mark.parametrize(("kind", "change"), one_in(2, pairs(TOLD)))
def test_what_is_lost_is_told(kind: str, change: str, tmp_path: Path) -> None:
    """Where something of a file cannot be used, the file is refused, or that is said; the rest is as it was."""
    rows, other = before_and_after(FORMS[kind], TOLD[change], tmp_path)
    if isinstance(other, Answer):
        assert other.tells or other.rows == rows
        near = [row for row in other.rows if row not in rows]
        assert len(near) <= 3, near


@pytest.mark.parametrize("kind", [kind for kind, form in FORMS.items() if form.zone])
def test_the_zone_of_the_machine_has_no_effect(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local time is of the zone that is stated, wherever it is read."""
    form, rows = FORMS[kind], []
    for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        answer = asked(form, form.text, tmp_path)
        assert isinstance(answer, Answer)
        rows.append(answer.rows)
    monkeypatch.undo()
    time.tzset()
    assert rows[0] == rows[1] == rows[2]
