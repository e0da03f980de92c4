"""Training logs: their order and their wrapping are nothing, and a log of which nothing is used is refused."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.analysis.logs import pipeline
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.training import summary
from ettrick.analysis.page.chapters import fit as chapter
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.results.models import Provenance
from ettrick.sim.records import LogError
from tests.cases import cases
from tests.log_writers import read_logs
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.analysis.logs.tables import Tables
    from ettrick.analysis.results.fitted import TrainingSummary

BEGIN = 1740823200.0
"""2025-03-01T10:00:00Z."""

MADE = Provenance(version="", python="", numpy="", command="")

Records = list[dict[str, Any]]


def records(runs: Sequence[tuple[float, int, int]], step: float = 10.0, prepare: float = 120.0) -> Records:
    """Return what ml-goodput-measurement logs of a job: of each run its start [s], first step and steps."""
    entries: Records = []
    for begin, first, count in runs:
        moment = BEGIN + begin
        entries.append({"job_start_time": moment})
        entries += [{"tpu_init_start_time": moment}, {"tpu_init_end_time": moment + 60}]
        entries += [{"data_loading_start_time": moment + 60}, {"data_loading_end_time": moment + 90}]
        entries += [
            {"step_start_time": moment + prepare + step * number, "step_count": first + number}
            for number in range(count)
        ]
        entries.append({"job_end_time": moment + prepare + step * (count - 1)})
    return [{"job_name": "run", **entry} for entry in entries]


RUNS = records([(0, 0, 61), (3600, 40, 61), (7200, 80, 41), (9000, 100, 31)])


def as_lines(entries: Sequence[Any]) -> bytes:
    """Return entries, one a line."""
    return "".join(f"{json.dumps(entry)}\n" for entry in entries).encode()


def read(folder: Path, *texts: bytes) -> tuple[Tables, TrainingSummary | None]:
    """Return what was read of logs of training beside four nodes, and what it says of training."""
    (folder / "outages.csv").write_text("node,start,end\nn1,2025-03-01T10:06:00Z,2025-03-01T12:09:00Z\n")
    names = [str(folder / f"train-{number}.jsonl") for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        Path(name).write_bytes(text)
    tables, history = read_logs(FitOptions([str(folder / "outages.csv"), *names], nodes=4))
    return tables, summary(tables, history)


def shuffled(entries: Records) -> Records:
    """Return entries in any order."""
    return random.Random(SEED).sample(entries, len(entries))


MUTATIONS: dict[str, Callable[[Records], Sequence[bytes]]] = {
    "newest first": lambda entries: [as_lines(entries[::-1])],
    "shuffled": lambda entries: [as_lines(shuffled(entries))],
    "each line twice": lambda entries: [as_lines(list(itertools.chain(*zip(entries, entries, strict=True))))],
    "CRLF and BOM": lambda entries: [b"\xef\xbb\xbf" + as_lines(entries).replace(b"\n", b"\r\n")],
    "gz": lambda entries: [gzip.compress(as_lines(entries))],
    "Cloud Logging": lambda entries: [as_lines([{"severity": "INFO", "jsonPayload": entry} for entry in entries])],
    "text of Cloud Logging": lambda entries: [
        as_lines([{"insertId": "x", "textPayload": f"INFO {json.dumps(entry)}"} for entry in entries])
    ],
    "docker": lambda entries: [as_lines([{"log": f"{json.dumps(entry)}\n", "stream": "stdout"} for entry in entries])],
    "a list of Cloud Logging, newest first": lambda entries: [
        json.dumps([{"jsonPayload": entry, "severity": "INFO"} for entry in entries[::-1]], indent=2).encode()
    ],
    "a list of Cloud Logging, an item a line": lambda entries: [
        b"[" + b",\n".join(json.dumps({"jsonPayload": entry}).encode() for entry in entries) + b"]\n"
    ],
    "what a program printed": lambda entries: [
        b"starting\n" + as_lines(entries).replace(b"{", b"2025-03-01T10:00:00Z INFO goodput: {") + b"done\n"
    ],
    "pods": lambda entries: [as_lines(entries).replace(b"{", b"[pod/train-0/main] {")],
    "Loki": lambda entries: [as_lines([{"labels": {"app": "x"}, "line": json.dumps(entry)} for entry in entries])],
    "cut into two files, the later one first": lambda entries: [as_lines(entries[100:]), as_lines(entries[:100])],
    "two files that overlap": lambda entries: [as_lines(entries[:120]), as_lines(entries[80:])],
    "moments as text": lambda entries: [
        as_lines([{key: str(value) if "_time" in key else value for key, value in entry.items()} for entry in entries])
    ],
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_one_log_in_any_form(tmp_path: Path, mutation: str) -> None:
    """Order, wrapping, packing and division of a log do not move what it says."""
    _, plain = read(tmp_path, as_lines(RUNS))
    assert (plain.attempts, plain.step_time_s, plain.restart_s) == (4, 10.0, 120.0)
    # 130 steps remain of 190, in the 9,420 s from the first start to the last step.
    assert plain.goodput == pytest.approx(130 * 10 / 9420)
    _, mutated = read(tmp_path, *MUTATIONS[mutation](RUNS))
    assert mutated == plain


def test_phases_have_an_order_within_a_moment(tmp_path: Path) -> None:
    """Of lines of one moment ends come before starts, whichever way they stand: no span is lost."""
    for entries in (RUNS, RUNS[::-1], shuffled(RUNS)):
        tables, _ = read(tmp_path, as_lines(entries))
        spans = [phase.t1 - phase.t0 for phase in tables.phases if phase.phase == "initialize"]
        assert sorted(spans) == [30.0] * 4 + [60.0] * 4
        assert not tables.dropped


def test_a_log_without_its_first_lines(tmp_path: Path) -> None:
    """A run whose start is not in the log is one of its own: the time to a first step is never below zero."""
    _, training = read(tmp_path, as_lines(RUNS[20:]))
    assert (training.attempts, training.restart_s) == (4, 120.0)


@cases(
    "text, words",
    [
        ('{"job_name": "a", "job_start_time": 1740823200000.0}\n', "these look like milliseconds since 1970"),
        ('{"jsonPayload": {"name": "x"}, "labels": {"job_name": "a", "a_start_time": 3}}\n', "no entry of ml-goodput"),
        ('{"job_name": "a", "step_start_time": 1740823200.0}\n', "no entry of ml-goodput"),
        ('{"job_name": "a", "job_start_time": NaN}\n', "a value is no second since 1970"),
        ('{"job_name": "a", "job_start_time": 1e-5}\n', "a value is not a time such as"),
        ('{"job_name": "a", "job_start_time": "2126-03-01T00:00:00Z"}\n', "before 1990 or after 2100"),
        ('{"job_name": "a", "job_start_time": "soon"}\n', "a value is not a time such as"),
        ('{"job_name": "a", "b_start_time": null}\n', "an entry without a moment"),
    ],
)
def test_a_log_of_which_nothing_is_used(tmp_path: Path, text: str, words: str) -> None:
    """A file of a known kind of which no line is used is refused, with the commonest reason and its count."""
    with pytest.raises(LogError) as caught:
        read(tmp_path, text.encode() * 3 + b"no JSON\n")
    assert words in str(caught.value)
    assert "train-0.jsonl:1: no line of this log (goodput) can be used; of 4 lines, 3" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_yaml_of_cloud_logging(tmp_path: Path) -> None:
    """What gcloud prints for eyes is refused with the option that exports it."""
    with pytest.raises(LogError, match="export it with gcloud logging read --format=json"):
        read(tmp_path, b"---\ninsertId: 1b\njsonPayload:\n  job_name: run\n  job_start_time: 1740823200.0\n")


def test_two_goodputs_in_the_window(tmp_path: Path) -> None:
    """A window cuts the training log; goodput by steps and in time are two numbers, both beside the model's.

    A day of steps of 10 s, a day of 12.5 s, three of 10 s: of the first two days 80 % and 100 % of the second one.
    """
    steps = [(0.0, 10.0, 8640), (86400.0, 12.5, 6912), (172800.0, 10.0, 25920)]
    entries: Records = [{"job_name": "run", "job_start_time": BEGIN}]
    count = 0
    for begin, step, number in steps:
        for at in range(0, number, 48):
            entries.append({"job_name": "run", "step_start_time": BEGIN + begin + step * at, "step_count": count + at})
        count += number
    (tmp_path / "train.jsonl").write_bytes(as_lines(entries))
    (tmp_path / "outages.csv").write_text("node,start,end\nn1,2025-03-03T12:00:00Z,2025-03-03T13:00:00Z\n")
    day = [(BEGIN + 86400 * at, BEGIN + 86400 * (at + 1)) for at in range(5)]
    request = FitOptions([str(tmp_path / "outages.csv"), str(tmp_path / "train.jsonl")], nodes=4, simulations=5)
    for window, by_steps in (((day[0][0], day[1][1]), 0.9), ((day[1][0], day[2][1]), 0.9), ((day[2][0], day[3][1]), 1)):
        tables, reading = pipeline.read(request)
        training = present(summary(tables, pipeline.history_of(request._replace(window=window), tables, reading)))
        assert training.step_time_s == pytest.approx(10.0)
        assert training.goodput == pytest.approx(by_steps, abs=1e-3)
        assert training.goodput_in_time == pytest.approx(1.0, abs=1e-3)
    document = pipeline.run(request._replace(window=(day[1][0], day[2][1])), MADE).document
    text = terminal.write(chapter.sections(document, has_pictures=False))
    assert text.count("90.0 % by steps and 100.0 % in time") == 2, text


def test_a_window_that_begins_in_a_pause(tmp_path: Path) -> None:
    """Time without steps after the start of the window and before its end is wall time, where the job had begun."""
    window = (BEGIN + 1000, BEGIN + 3600 + 320)
    (tmp_path / "outages.csv").write_text("node,start,end\nn1,2025-03-01T10:20:00Z,2025-03-01T10:30:00Z\n")
    (tmp_path / "train.jsonl").write_bytes(as_lines(RUNS))
    request = FitOptions([str(tmp_path / "outages.csv"), str(tmp_path / "train.jsonl")], nodes=4, window=window)
    tables, reading = pipeline.read(request)
    training = present(summary(tables, pipeline.history_of(request, tables, reading)))
    assert training.goodput == pytest.approx(20 * 10 / (window[1] - window[0]))
    later = request._replace(window=(BEGIN + 20_000, BEGIN + 40_000))
    tables, reading = pipeline.read(later)
    assert summary(tables, pipeline.history_of(later, tables, reading)) is None
    assert any("no two steps in the window" in text for text in tables.findings)
