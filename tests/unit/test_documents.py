"""Reading YAML strictly: the traps of YAML 1.1, mistakes in one line, origins, inheritance and ``--set``."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.parts import FORMAT, EventCount
from ettrick.analysis.results.documents import DocumentMistakeError, read_document
from ettrick.analysis.results.explained import results_schema
from ettrick.analysis.results.run import _plain, plain, render, scenario_digest
from ettrick.analysis.results.run import document as typed_document
from ettrick.sim import CLUSTER_BUCKETS, JOB_BUCKETS, yamlfile
from ettrick.sim.yamlfile import (
    DocumentError,
    Mark,
    YamlDocument,
    data_with_use,
    dotted,
    dump,
    key_mark,
    nearest_mark,
    suggest,
)
from tests import report_sample
from tests.cases import SIMULATED, cases
from tests.documents import document
from tests.pace import budget, one_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.results.ensemble import Ensemble

# ----------------------------------------
# The JSON document has the keys of DESIGN, shares that add up, and nothing that JSON does not know.

JOBS = [
    {"name": "first", "gpus": 64, "step_time": "10 s", "work": {"time": "20 h"}, "deadline": "22 h"},
    {"name": "second", "gpus": 64, "step_time": "10 s", "work": {"time": "60 h"}},
]


@pytest.fixture(scope="module")
def several() -> Ensemble:
    """Two jobs that queue for each other, one of which never finishes, in windows of six hours."""
    return replicate(report_sample.prepare(jobs=JOBS, windows="6 h"), 6, keeps_log=True)


@pytest.fixture(scope="module")
def content(several: Ensemble) -> dict[str, Any]:
    """Return the document as a reader of the JSON gets it."""
    read: dict[str, Any] = json.loads(render(typed_document(several, command="ettrick run small.yaml")))
    return read


def test_keys_are_those_of_the_design(content: dict[str, Any]) -> None:
    """Every key that DESIGN section 6 shows is there, with its parts."""
    top = "scenario engine replications seed horizon_s metrics time_shares cluster_shares interruptions_by_cause"
    assert {*top.split(), "loss_gpu_s", "closed_form", "step", "per_job", "provenance"} <= set(content)
    assert set(content["metrics"]["ettr"]) >= {"mean", "mean_ci95", "std", "p05", "p50", "p95", "band90"}
    assert list(content["time_shares"]) == list(JOB_BUCKETS)
    assert list(content["cluster_shares"]) == list(CLUSTER_BUCKETS)
    assert set(content["closed_form"]) >= {"ettr", "assumptions"}
    assert set(content["step"]) >= {"time_s", "breakdown", "mfu", "memory_bytes"}
    assert set(content["provenance"]) >= {"version", "scenario_sha256", "python", "command"}
    assert content["provenance"]["command"] == "ettrick run small.yaml"
    assert (content["scenario"], content["engine"], content["replications"]) == ("small", "des", 6)
    assert (content["seed"], content["horizon_s"]) == (1, 172_800.0)


def test_shares_sum_to_one(content: dict[str, Any]) -> None:
    """Shares of the jobs' time, of the cluster's, of each job's and of each window's sum to 1 within 1e-9."""
    parts = [content["time_shares"], content["cluster_shares"]]
    parts += [job["time_shares"] for job in content["per_job"].values()]
    parts += [window["time_shares"] for window in content["windows"]]
    assert len(parts) == 2 + 2 + 8
    assert all(sum(shares.values()) == pytest.approx(1, abs=1e-9) for shares in parts)


def test_losses_sum_to_the_buckets(content: dict[str, Any]) -> None:
    """Over the causes, loss_gpu_s gives each bucket's share of the GPU-time asked for, and all but the productive."""
    requested = sum(job["requested_gpu_s"] for job in content["per_job"].values())
    for name in JOB_BUCKETS[1:]:
        lost = sum(parts[name] for parts in content["loss_gpu_s"].values())
        assert lost == pytest.approx(content["time_shares"][name] * requested, abs=1e-9 * requested)
    assert set(content["loss_gpu_s"]) == {"no_failure", "node"}
    assert "productive" not in content["loss_gpu_s"]["node"]
    assert content["loss_gpu_s"]["node"]["lost_work"] > 0


def test_shares_are_the_metrics(content: dict[str, Any]) -> None:
    """The productive share is ettr, for the scenario and for each job; queueing is the second job's alone."""
    for part in (content, *content["per_job"].values()):
        assert part["time_shares"]["productive"] == pytest.approx(part["metrics"]["ettr"]["mean"], rel=1e-12)
    assert content["per_job"]["first"]["time_shares"]["queued"] == 0
    assert content["per_job"]["second"]["time_shares"]["queued"] > 0.2


def test_windows_follow_each_other(content: dict[str, Any]) -> None:
    """Windows of six hours cover the two days without a gap; the weighted ettr of all is the scenario's."""
    windows = content["windows"]
    assert [window["start_s"] for window in windows] == [21_600.0 * index for index in range(8)]
    assert [window["end_s"] for window in windows] == [21_600.0 * (index + 1) for index in range(8)]
    assert all(window["ettr"] == window["time_shares"]["productive"] for window in windows)


def test_one_replication_supports_no_interval() -> None:
    """From one replication there is a mean, and null for every interval, quantile and spread."""
    metric = document(replicate(report_sample.prepare(), 1), command="")["metrics"]["ettr"]
    assert metric.pop("mean") > 0
    assert set(metric.values()) == {None}


def test_intervals_stay_where_a_metric_can_be() -> None:
    """The interval of a share does not leave [0, 1], and no time is negative, although Student's would."""
    # About one interruption a replication: MTTI's interval by itself begins below zero.
    rare = {**report_sample.SMALL["failures"][0], "rate": "48 per 1000 node-day"}
    metrics = document(replicate(report_sample.prepare(failures=[rare]), 4), command="")["metrics"]
    for name, metric in metrics.items():
        if metric["mean_ci95"] is not None:
            assert metric["mean_ci95"][0] >= 0, name
    assert metrics["scheduling_goodput"]["mean_ci95"] is None, "the job waits in none of the replications"
    assert metrics["ettr"]["mean_ci95"][1] <= 1


def test_lower_bound_of_mtti_without_interruptions() -> None:
    """Nothing fails in 3 x 2 days: mean null, bound 6 d / ln 20; with interruptions the bound is null.

    Where nothing can fail there is no bound to tell.
    """
    rare = [{**report_sample.SMALL["failures"][0], "rate": "1 per 1000000 node-day"}]
    mtti = document(replicate(report_sample.prepare(failures=rare), 3), command="")["metrics"]["mtti"]
    assert mtti["mean"] is None
    assert mtti["lower_bound95"] == pytest.approx(3 * 172_800 / math.log(20))
    assert document(replicate(report_sample.prepare(), 3), command="")["metrics"]["mtti"]["lower_bound95"] is None
    assert (
        "lower_bound95" not in document(replicate(report_sample.prepare(failures=[]), 3), command="")["metrics"]["mtti"]
    )


def test_job_that_never_arrives() -> None:
    """A job that arrives after the horizon has no shares and is said to be never there; nothing divides by zero."""
    late = {**report_sample.SMALL["jobs"][0], "arrival": "3 d"}
    read = document(replicate(report_sample.prepare(jobs=[late]), 2), command="")
    assert set(read["time_shares"].values()) == {None}
    assert (read["per_job"]["train"]["never_started"], read["per_job"]["train"]["never_arrived"]) == (2, 2)
    assert sum(read["cluster_shares"].values()) == pytest.approx(1, abs=1e-9)


def test_render_knows_no_nan_and_no_numpy() -> None:
    """What JSON does not have becomes null, numpy's numbers become plain ones, tuples become lists."""
    value = {
        "a": [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32(0.5), np.int64(3), np.bool_(True)],
        "b": (1, None, "x"),
        3: {},
    }
    text = json.dumps(_plain(value))
    assert json.loads(text) == {"a": [None, None, None, None, 0.5, 3, True], "b": [1, None, "x"], "3": {}}
    assert "NaN" not in text
    assert "Infinity" not in text


def test_what_is_read_is_what_was_written(content: dict[str, Any], several: Ensemble) -> None:
    """The models read their own JSON, and it obeys the JSON Schema; a key more, of a later version, is left out."""
    jsonschema.validate(content, results_schema())
    read = read_document("run", content | {"new": 1})
    assert plain(read) == content
    written = typed_document(several, command="ettrick run small.yaml")
    assert plain(read) | {"provenance": None} == plain(written) | {"provenance": None}


def test_documents_have_one_format(content: dict[str, Any]) -> None:
    """Documents of before have no number and are read as 0; those of a format to come are refused in a line."""
    assert content["format"] == FORMAT == 1
    older = {key: value for key, value in content.items() if key != "format"}
    assert read_document("run", older).format == 0
    with pytest.raises(DocumentMistakeError, match=r"^format: "):
        read_document("run", content | {"format": 2})


def test_numbers_that_are_not_finite_are_null_in_a_model() -> None:
    """As in JSON: a reader of the model and of the file see the same."""
    found = EventCount(mean=np.float64(2.5), mean_ci95=(0.0, math.inf), std=math.nan)
    assert (found.mean, found.mean_ci95, found.std) == (2.5, (0.0, None), None)
    assert type(found.mean) is float


LOG = "unit,start,end,cause\nn0,1,2,gpu\nn1,5,9,nic\n"


def replaying(folder: Path, log: str = LOG) -> Path:
    """Write a scenario that replays a log beside it; return its path."""
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "log.csv").write_text(log)
    data = {**report_sample.SMALL, "failures": [{"use": "replay", "file": "logs/log.csv", "time_unit": "h"}]}
    (folder / "scenario.yaml").write_text(sim.dump(data))
    return folder / "scenario.yaml"


def test_digest_does_not_depend_on_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies in two folders, one seen from its own folder, have one digest: the log counts by what it says."""
    first, second = replaying(tmp_path / "a"), replaying(tmp_path / "b" / "c")
    there = scenario_digest(sim.load(first))
    monkeypatch.chdir(second.parent)
    assert scenario_digest(sim.load("scenario.yaml")) == there


def test_digest_changes_with_the_content(tmp_path: Path) -> None:
    """Another seed, another rate or another line in the log makes another digest; another spelling does not."""
    base = scenario_digest(report_sample.parse())
    assert scenario_digest(report_sample.parse(horizon="48 h")) == base
    assert scenario_digest(report_sample.parse(seed=2)) != base
    assert scenario_digest(report_sample.parse(horizon="3 d")) != base
    logs = [replaying(tmp_path / name, log) for name, log in (("a", LOG), ("b", LOG.replace("9", "8")))]
    assert scenario_digest(sim.load(logs[0])) != scenario_digest(sim.load(logs[1]))


@pytest.mark.parametrize("name", one_in(4, sorted(SIMULATED)))
def test_resolved_scenario_is_the_same_scenario(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written as resolved extends nothing, loads anywhere, and has the digest of the original."""
    original = sim.load(sim.find(name))
    (tmp_path / "resolved.yaml").write_text(sim.dump(original.dump()))
    monkeypatch.chdir(tmp_path)
    again = sim.load("resolved.yaml")
    assert scenario_digest(again) == scenario_digest(original)
    assert "extends" not in (tmp_path / "resolved.yaml").read_text()


def test_resolved_replay_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario loaded by a relative path and resolved from there finds its log from any other folder."""
    monkeypatch.chdir(replaying(tmp_path / "a").parent)
    original = sim.load("scenario.yaml")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "resolved.yaml").write_text(sim.dump(original.dump()))
    monkeypatch.chdir(tmp_path)
    again = sim.load("b/resolved.yaml")
    texts = [render(typed_document(replicate(sim.prepare(each), 2), command="")) for each in (original, again)]
    assert texts[0] == texts[1]


def write(folder: Path, **files: str) -> Path:
    """Write files (two underscores stand for a slash) and return the first one."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / (next(iter(files)).replace("__", "/") + ".yaml")


def mistake(path: Path, **options: Any) -> str:
    """Return the message of a mistake, without the folder; it is one line."""
    with pytest.raises(DocumentError) as caught:
        extend(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{path.parent}{os.sep}", "")


WORDED_APART = re.compile(r"invalid YAML: (?!a second ).*")
"""What the parsers themselves say, each in words of its own."""


def by_both(read: Callable[..., YamlDocument]) -> Callable[..., YamlDocument]:
    """Return a reader that asks both of PyYAML's parsers: they must not differ, nor in what they refuse."""

    def outcome(*arguments: Any, **options: Any) -> YamlDocument | DocumentError:
        try:
            return read(*arguments, **options)
        except DocumentError as error:
            return error

    def read_twice(*arguments: Any, **options: Any) -> YamlDocument:
        found = outcome(*arguments, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yamlfile, "_PARSER", yaml.SafeLoader)
            pure = outcome(*arguments, **options)
        if isinstance(found, DocumentError):
            c_said, said = (WORDED_APART.sub("", str(error)) for error in (found, pure))
            assert said == c_said
            raise found
        assert pure == found
        return found

    return read_twice


load, extend, assign = map(by_both, (yamlfile.load, yamlfile.extend, yamlfile.assign))


@cases(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("10:30", "10:30"),
        ("1:30:00", "1:30:00"),
        ("1e6", 1e6),
        ("1e-3", 1e-3),
        ("1.5e6", 1.5e6),
        ("1.5E+6", 1.5e6),
        (".5", 0.5),
        ("-2.", -2.0),
        ("010", 10),
        ("089", 89),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("+7", 7),
        ("1_000", "1_000"),
        ("2026-11-20", "2026-11-20"),
        ("=", "="),
        ("-.inf", float("-inf")),
        (".inf", float("inf")),
        ("inf", "inf"),
        ("nan", "nan"),
        ("0b11", "0b11"),
        ("'1e6'", "1e6"),
        ('"true"', "true"),
        ("''", ""),
        ("30 min", "30 min"),
        ("6.5e-5 / gpu / h", "6.5e-5 / gpu / h"),
        ("[1, no, 1e3]", [1, "no", 1e3]),
        ("{a: 1, b: {c: x}}", {"a": 1, "b": {"c": "x"}}),
    ],
    ids=repr,
)
def test_scalars_follow_the_core_schema(tmp_path: Path, written: str, value: Any) -> None:
    """Plain scalars mean what YAML 1.2 core says, in value and in type."""
    data = load(write(tmp_path, a=f"key: {written}\n")).data
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


@cases(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3:1: a: key is given twice (first on line 1)"),
        ("x:\n  - {a: 1, a: 2}\n", "a.yaml:2:12: x.0.a: key is given twice (first on line 2)"),
        ("a:\nb: 1\n", "a.yaml:1:1: a: key has no value"),
        ("a:\n  b: null\n", "a.yaml:2:3: a.b: key has no value"),
        ("a: ~\n", "a.yaml:1:1: a: key has no value"),
        ("{a\n\n  b}\n", "a.yaml:1:2: a\\nb: key has no value"),
        ("a: {b:1}\n", "a.yaml:1:5: a.b:1: key has no value; write a space after ':' in 'b:1'"),
        ("a:\n  - 1\n  -\n", "a.yaml:3:4: a.1: item has no value"),
        ("a:\n  1.5: x\n", "a.yaml:2:3: a: a key must be text; write '1.5' in quotes"),
        ("1: x\n'1': y\n", "a.yaml:2:1: 1: key is given twice (first on line 1)"),
        ("true: x\n", "a.yaml:1:1: a key must be text; write 'true' in quotes"),
        ("? [a, b]\n: x\n", "a.yaml:1:3: a key must be text"),
        ("", "a.yaml: the file is empty"),
        ("# only this\n", "a.yaml: the file is empty"),
        ("---\n...\n", "a.yaml: the file is empty"),
        ("- a\n- b\n", "a.yaml:1:1: must hold a mapping (key: value) at the top level"),
        ("only text\n", "a.yaml:1:1: must hold a mapping (key: value) at the top level"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2:1: one file holds one document; remove the second '---'"),
        ("a: !!python/object:os.system x\n", "a.yaml:1:4: a: tags are not supported; remove "),
        ("a: !!str 5\n", "a.yaml:1:4: a: tags are not supported; remove 'tag:yaml.org,2002:str'"),
        ("a: *b\n", "a.yaml:1:4: a: *b stands for nothing written before it"),
        ("a: &b {c: *b}\n", "a.yaml:1:11: a.c: *b stands for nothing written before it"),
        ("a:\n\tb: 1\n", "a.yaml:2:1: a tab cannot stand here; use spaces"),
        ("a: b: c\n", "a.yaml:1:5: invalid YAML: a second ': ' in one line; quote the text"),
        ("a: [1, 2\nb: 3\n", "a.yaml:2:"),
        ("a: 'x\n", "a.yaml:2:1: invalid YAML: found unexpected end of stream"),
        ("a: @x\n", "a.yaml:1:4: invalid YAML: found character"),
        ("a: 1\nb: x\x07y\n", "a.yaml:2:5: the character U+0007 is not allowed"),
        (f"a: {'9' * 5000}\n", "a.yaml:1:4: a: number has too many digits"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    """Every mistake of form is one line with file, line, column, path and rule."""
    assert mistake(write(tmp_path, a=text)).startswith(message)


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{b: " * 5_000, "- " * 100_000])
def test_deep_nesting_is_refused(tmp_path: Path, text: str) -> None:
    """Nesting that would exhaust the stack of a recursive reader is refused."""
    assert mistake(write(tmp_path, a=text)).endswith("is nested too deeply")


def test_expanding_aliases_is_bounded(tmp_path: Path) -> None:
    """Ten lines of aliases that stand for 10**10 values are refused at once."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert mistake(write(tmp_path, a="\n".join(lines))).endswith("holds more than 1,000,000 values")


def test_aliases_repeat_and_merge_keys_are_plain(tmp_path: Path) -> None:
    """An alias repeats a value as an independent copy; << is an ordinary key."""
    data = load(write(tmp_path, a="a: &x {b: [1]}\nc: *x\nd: {<<: *x}\n")).data
    assert data == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"<<": {"b": [1]}}}
    data["a"]["b"].append(2)
    assert data["c"] == {"b": [1]}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a directory, a broken name and wrong bytes are mistakes with the file's name."""
    path = tmp_path / "a.yaml"
    assert mistake(path) == "a.yaml: cannot be read: no such file or directory"
    path.mkdir()
    assert mistake(path) == "a.yaml: cannot be read: is a directory"
    assert "cannot be read: embedded null byte" in mistake(Path("a\0.yaml"))
    (tmp_path / "b.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    assert mistake(tmp_path / "b.yaml") == "b.yaml:2:7: is not UTF-8 text (byte 0xe9)"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a socket and a device without an end are refused at once, with their kind."""
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket.yaml"))  # names of sockets are short
        for name, kind in (("pipe", "pipe"), ("socket", "socket")):
            assert mistake(tmp_path / f"{name}.yaml") == f"{name}.yaml: cannot be read: it is a {kind}, not a file"
    assert mistake(Path("/dev/zero")) == "zero: cannot be read: it is a device, not a file"


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    """A file saved on Windows reads as any other, with the same lines."""
    (tmp_path / "a.yaml").write_bytes("\ufeffa: 1\r\nb: é\r\n".encode())
    document = load(tmp_path / "a.yaml")
    assert document.data == {"a": 1, "b": "é"}
    assert document.keys["b",][1:3] == (2, 1)


def test_marks_of_keys_and_values(tmp_path: Path) -> None:
    """Every key and value knows its line and column, counted from 1."""
    path = write(tmp_path, a="name: x\njobs:\n  - {gpus: 8}\n  - gpus: 16\n")
    document = load(path)
    assert document.files == [path]
    assert document.keys["jobs", 1, "gpus"] == Mark(str(path), 4, 5)
    assert document.values["jobs", 1, "gpus"] == Mark(str(path), 4, 11)
    assert document.values["jobs", 0] == Mark(str(path), 3, 5)
    assert str(document.values["name",]) == f"{path}:1:7"
    assert set(document.values) == {
        *((), ("name",), ("jobs",), ("jobs", 0), ("jobs", 1), ("jobs", 0, "gpus"), ("jobs", 1, "gpus"))
    }
    assert nearest_mark(document, ("jobs", 1, "name")) == document.values["jobs", 1]
    assert nearest_mark(document, ("what", "ever")) == document.values[()]
    assert key_mark(document, ("jobs", 1, "gpus")) == document.keys["jobs", 1, "gpus"]
    assert key_mark(document, ("jobs", 1)) == document.values["jobs", 1]


def test_extends_merges_mappings_and_replaces_lists(tmp_path: Path) -> None:
    """The file wins over what it extends: mappings key by key, lists and scalars as a whole; origins follow."""
    path = write(
        tmp_path, a="extends: base.yaml\nx: {b: 3}\nlist: [9]\n", base="x: {a: 1, b: 2}\nlist: [1, 2]\nkept: yes\n"
    )
    document = extend(path)
    assert document.data == {"x": {"a": 1, "b": 3}, "list": [9], "kept": "yes"}
    assert document.files == [path, tmp_path / "base.yaml"]
    assert str(document.values["x", "a"]).endswith("base.yaml:1:8")
    assert str(document.values["x", "b"]).endswith("a.yaml:2:8")
    assert str(document.keys["kept",]).endswith("base.yaml:3:1")
    assert ("list", 1) not in document.values
    assert ("extends",) not in document.keys


def test_extends_a_list_from_left_to_right(tmp_path: Path) -> None:
    """Of several bases the later one wins with all that it extends; a file read twice is listed once."""
    path = write(
        tmp_path,
        a="extends: [b.yaml, c.yaml]\nfrom_a: a\n",
        b="extends: d.yaml\nwho: b\nfrom_b: b\n",
        c="extends: d.yaml\nwho: c\n",
        d="who: d\nfrom_b: d\nfrom_d: d\n",
    )
    document = extend(path)
    assert document.data == {"who": "c", "from_b": "d", "from_d": "d", "from_a": "a"}
    assert [file.name for file in document.files] == ["a.yaml", "b.yaml", "d.yaml", "c.yaml"]


def test_extends_inside_and_shorthand(tmp_path: Path) -> None:
    """`extends` works in any mapping, relative to the file that says so; shorthand paths take a bare name."""
    write(tmp_path, topologies__x="extends: parts/base.yaml\nnodes: 8\n")
    write(tmp_path / "topologies", parts__base="form: rail\nnodes: 4\n")
    inside = write(tmp_path, scenarios__a="cluster: {extends: ../topologies/x.yaml, nodes: 16}\n")
    short = write(tmp_path, scenarios__b="cluster: ../topologies/x.yaml\nnote: ../topologies/x.yaml\n")
    item = write(tmp_path, scenarios__c="jobs: [{extends: ../topologies/x.yaml, gpus: 1}]\n")
    assert extend(inside).data == {"cluster": {"form": "rail", "nodes": 16}}
    document = extend(short, shorthand=("cluster",))
    assert document.data == {"cluster": {"form": "rail", "nodes": 8}, "note": "../topologies/x.yaml"}
    assert str(document.values["cluster", "nodes"]) == f"{tmp_path / 'topologies' / 'x.yaml'}:2:8"
    assert str(document.keys["cluster",]) == f"{short}:1:1"
    assert [path.name for path in document.files] == ["b.yaml", "x.yaml", "base.yaml"]
    assert extend(item).data == {"jobs": [{"form": "rail", "nodes": 8, "gpus": 1}]}


def test_own_base_replaces_the_inherited_mapping(tmp_path: Path) -> None:
    """A mapping that names its own base does not keep keys of the one it would have inherited."""
    write(tmp_path, fat="form: fat_tree\nlevels: 3\n", rail="form: rail\nrails: 8\n", base="cluster: fat.yaml\n")
    other = write(tmp_path, a="extends: base.yaml\ncluster: rail.yaml\n")
    changed = write(tmp_path, b="extends: base.yaml\ncluster: {levels: 2}\n")
    grandchild = write(tmp_path, c="extends: b.yaml\ncluster: {nodes: 4}\n")
    assert extend(other, shorthand=("cluster",)).data == {"cluster": {"form": "rail", "rails": 8}}
    assert extend(changed, shorthand=("cluster",)).data == {"cluster": {"form": "fat_tree", "levels": 2}}
    assert extend(grandchild, shorthand=("cluster",)).data["cluster"] == {"form": "fat_tree", "levels": 2, "nodes": 4}


def test_locate_finds_shipped_files(tmp_path: Path) -> None:
    """The caller may look names up elsewhere; it is told the name and the file that mentions it."""
    path = write(tmp_path, a="cluster: h100\n", shipped__h100="nodes: 8\n")
    asked: list[tuple[str, Path]] = []

    def locate(name: str, source: Path) -> Path:
        asked.append((name, source))
        return tmp_path / "shipped" / f"{name}.yaml"

    assert extend(path, shorthand=("cluster",), locate=locate).data == {"cluster": {"nodes": 8}}
    assert asked == [("h100", path)] * 2, "once by each parser"


def test_what_is_known_by_name_stands_in_for_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A file of this name wins, a folder does not; an ending makes a file of it; an unknown name meets the nearest."""
    known = {"h100": write(tmp_path, shipped__h100="nodes: 8\n")}
    options: dict[str, Any] = {"shorthand": ("cluster",), "catalog": lambda _: known}
    path = write(tmp_path, a="cluster: {extends: h100, gpus: 4}\n")
    short = write(tmp_path, b="cluster: h100\n")
    assert extend(path, **options).data == {"cluster": {"nodes": 8, "gpus": 4}}
    assert extend(short, **options).data == {"cluster": {"nodes": 8}}
    assert assign(YamlDocument({}), "cluster=h100", **options).data == {"cluster": {"nodes": 8}}
    (tmp_path / "h100").mkdir()
    assert extend(short, **options).data == {"cluster": {"nodes": 8}}
    (tmp_path / "h100").rmdir()
    (tmp_path / "h100").write_text("nodes: 2\n")
    assert extend(short, **options).data == {"cluster": {"nodes": 2}}
    line = "c.yaml:1:10: cluster: h10: no such file, and nothing with this name is bundled; did you mean 'h100'?"
    assert mistake(write(tmp_path, c="cluster: h10\n"), **options).startswith(line)
    line = "d.yaml:1:10: cluster: h100.yaml cannot be read: no such file or directory"
    assert mistake(write(tmp_path, d="cluster: h100.yaml\n"), **options).startswith(line)


def test_circles_and_broken_extends(tmp_path: Path) -> None:
    """A circle names its chain; a file that is missing is a mistake of the line that mentions it."""
    path = write(
        tmp_path, a="x: 1\nextends: b.yaml\n", b="extends: c.yaml\n", c=f"extends: ../{tmp_path.name}/a.yaml\n"
    )
    assert mistake(path) == "c.yaml:1:10: extends: files extend each other: a.yaml -> b.yaml -> c.yaml -> a.yaml"
    assert mistake(write(tmp_path, d="cluster: {extends: d.yaml}\n")) == (
        "d.yaml:1:20: cluster.extends: files extend each other: d.yaml -> d.yaml"
    )
    assert mistake(write(tmp_path, e="x: 1\nextends: none.yaml\n")) == (
        "e.yaml:2:10: extends: none.yaml cannot be read: no such file or directory"
    )
    assert mistake(write(tmp_path, f="cluster: none.yaml\n"), shorthand=("cluster",)) == (
        "f.yaml:1:10: cluster: none.yaml cannot be read: no such file or directory"
    )
    for broken, column in (("3", 10), ("[a.yaml, 3]", 19), ("{x: 1}", 10), ("''", 10)):
        assert mistake(write(tmp_path, g=f"extends: {broken}\n")) == (
            f"g.yaml:1:{column}: extends: must be the name of a file, or a list of names"
        )
    assert mistake(write(tmp_path, h="extends: i.yaml\n", i="x: 1\nx: 2\n")) == (
        "i.yaml:2:1: x: key is given twice (first on line 1)"
    )


def test_what_is_extended_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read once however often it is named; the length of chains, nesting, places and values are bounded."""

    def chain(name: str, count: int, line: str) -> Path:
        for index in range(count):
            write(tmp_path, **{f"{name}{index}": line.format(next=f"{name}{index + 1}.yaml")})
        write(tmp_path, **{f"{name}{count}": "x: 1\n"})
        return tmp_path / f"{name}0.yaml"

    assert extend(chain("twice", 40, "extends: [{next}, {next}]\n")).data == {"x": 1}
    assert mistake(chain("row", 101, "extends: {next}\n")) == (
        "row99.yaml:1:10: extends: more than 100 files extend one another in a row"
    )
    assert extend(tmp_path / "row2.yaml").data == {"x": 1}
    doubled = "a: {{extends: {next}}}\nb: {{extends: {next}}}\n"
    assert extend(chain("few", 3, doubled)).data["a"]["b"]["a"] == {"x": 1}
    nested = "a: {{" * 40 + "extends: {next}" + "}}" * 40 + "\n"
    assert mistake(chain("deep", 4, nested)).endswith("a.a.a: with what its files extend, is nested too deeply")
    many = chain("many", 40, doubled)
    monkeypatch.setattr(yamlfile, "_MOST_EXTENDED", 100)
    assert mistake(many).endswith("files are extended at more than 100 places")
    monkeypatch.setattr(yamlfile, "_LARGEST", 100)
    assert mistake(many).endswith("with what its files extend, holds more than 100 values")


@pytest.fixture
def marked_document(tmp_path: Path) -> YamlDocument:
    """Return a small document."""
    return load(write(tmp_path, a="horizon: 54 d\njobs:\n  - {gpus: 8}\n  - {gpus: 16}\ncluster: {nodes: {a: 1}}\n"))


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("horizon=30 d", ("horizon",), "30 d"),
        ("jobs.1.gpus=32", ("jobs", 1, "gpus"), 32),
        ("jobs.0.gpus=1e3", ("jobs", 0, "gpus"), 1000.0),
        ("jobs.0.name=no", ("jobs", 0, "name"), "no"),
        ("fabric.core.oversubscription=7", ("fabric", "core", "oversubscription"), 7),
        ("cluster.nodes=16", ("cluster", "nodes"), 16),
        ("cluster={form: rail}", ("cluster",), {"form": "rail"}),
        ("jobs.0=[1, {a: b}]", ("jobs", 0), [1, {"a": "b"}]),
        ("note=a=b", ("note",), "a=b"),
        ("cluster.0=x", ("cluster", "0"), "x"),
    ],
)
def test_assign_sets_one_value(
    marked_document: YamlDocument, text: str, path: tuple[str | int, ...], value: Any
) -> None:
    """--set changes one value, marks it with the option, and leaves its argument and every other value alone."""
    before = load(marked_document.files[0])
    result = assign(marked_document, text)
    found = result.data
    for step in path:
        found = found[step]
    assert found == value
    assert type(found) is type(value)
    assert str(result.values[path]) == str(result.keys[path]) == f"--set {text}"
    assert marked_document == before
    untouched = [old for old in before.values if old[: len(path)] != path]
    assert all(result.values[old] == before.values[old] for old in untouched)


def test_assign_forgets_what_it_replaces(marked_document: YamlDocument) -> None:
    """Marks below a replaced value go with it; marks of new intermediate mappings are those of the option."""
    assert ("cluster", "nodes", "a") in marked_document.values
    result = assign(assign(marked_document, "cluster.nodes=16"), "x.y=1")
    assert ("cluster", "nodes", "a") not in result.values
    assert str(key_mark(result, ("x",))) == "--set x.y=1"
    assert assign(assign(marked_document, "horizon=1 d"), "horizon=2 d").data["horizon"] == "2 d"


def test_null_removes_a_key_with_all_that_is_in_it(marked_document: YamlDocument) -> None:
    """Neither its data nor its marks are left; the document itself is as it was."""
    found = assign(marked_document, "cluster=null")
    assert "cluster" in marked_document.data
    assert found.data == {key: value for key, value in marked_document.data.items() if key != "cluster"}
    assert not [path for path in (*found.keys, *found.values) if path[:1] == ("cluster",)]
    inner = assign(marked_document, "jobs.0.gpus= ~ ")
    assert "gpus" not in inner.data["jobs"][0]


def test_assign_follows_files(marked_document: YamlDocument, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value may name a file, relative to the working directory, and its marks are those of that file."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, topologies__x="nodes: 8\n")
    result = assign(marked_document, "cluster=topologies/x.yaml", shorthand=("cluster",))
    assert result.data["cluster"] == {"nodes": 8}
    assert str(result.values["cluster", "nodes"]).endswith("x.yaml:1:8")
    assert result.files == [*marked_document.files, Path("topologies/x.yaml")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("horizon", "needs path=value, for example --set horizon='30 d'"),
        ("=3", "needs path=value, for example --set horizon='30 d'"),
        ("a..b=3", "needs path=value, for example --set horizon='30 d'"),
        ("horizon.x=3", "horizon: is '54 d', not a mapping: there is no 'x' in it"),
        ("horizon.x.y=3", "horizon: is '54 d', not a mapping: there is no 'x' in it"),
        ("jobs.2.gpus=3", "jobs: is a list of 2, counted from 0: there is no item '2'"),
        ("jobs.-1.gpus=3", "jobs: is a list of 2, counted from 0: there is no item '-1'"),
        ("jobs.gpus=3", "jobs: is a list of 2, counted from 0: there is no item 'gpus'"),
        ("horizon=", "horizon: has no value; null would remove the key"),
        (
            "horizont=null",
            "horizont: no such key to remove; did you mean 'horizon'? (choose from horizon, jobs, cluster)",
        ),
        ("jobs.0=null", "jobs.0: is an item of a list: null removes keys only; write the list without it"),
        ("horizon=a: b: c", "invalid YAML: a second ': ' in one line; quote the text"),
        ("horizon={a: 1, a: 2}", "a: key is given twice (first on line 1)"),
        ("cluster=none.yaml", "cluster: none.yaml cannot be read: no such file or directory"),
    ],
)
def test_assign_refuses(marked_document: YamlDocument, text: str, message: str) -> None:
    """A path that leads nowhere and a value that is no YAML are mistakes of the option, in one line."""
    with pytest.raises(DocumentError) as caught:
        assign(marked_document, text, shorthand=("cluster",))
    assert str(caught.value) == f"--set {text}: {message}"


def test_errors_have_parts_and_survive_pickling() -> None:
    """An error carries mark, path and rule, also out of a worker process."""
    error = DocumentError(Mark("a.yaml", 3, 5), "jobs.0", "is wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.mark, copy.path, copy.rule) == (Mark("a.yaml", 3, 5), "jobs.0", "is wrong")
    assert str(copy) == "a.yaml:3:5: jobs.0: is wrong"
    assert str(DocumentError(Mark("a.yaml"), "", "is wrong")) == "a.yaml: is wrong"
    assert dotted(("jobs", 0, "gpus")) == "jobs.0.gpus"


@cases(
    ("word", "choices", "message"),
    [
        ("horison", ["name", "horizon"], "; did you mean 'horizon'? (choose from name, horizon)"),
        ("MTBF", ["mtbf", "mttr"], "; did you mean 'mtbf'? (choose from mtbf, mttr)"),
        ("fat-tree", ["rail", "fat_tree"], "; did you mean 'fat_tree'? (choose from rail, fat_tree)"),
        ("zzz", ["name", "horizon"], " (choose from name, horizon)"),
        ("zzz", [], ""),
        ("zzz", [f"c{n}" for n in range(20)], f" (choose from {', '.join(f'c{n}' for n in range(12))}, ... 8 more)"),
    ],
)
def test_suggest(word: str, choices: list[str], message: str) -> None:
    """An unknown word is answered with the nearest choice, and with at most twelve of them."""
    assert suggest(word, choices) == message


SCALARS = (
    st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
    | st.sampled_from(["no", "10:30", "1e6", "1e-3", "010", "0o10", "0x1F", "1_000", "2026-11-20", "=", "<<", "~"])
    | st.sampled_from(["null", "", "true", ".inf", ".nan", "- a", "a: b", "#", "x #y", "'", '"', "*a", "&a", "!t"])
)


def mappings(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings with any text as key."""
    return st.dictionaries(st.text(st.characters(codec="utf-8")) | st.just("no"), values, max_size=4)


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | mappings(inner), max_leaves=12)


def same(left: Any, right: Any) -> bool:
    """Return whether two pieces of data are equal in value and in type, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@settings(max_examples=budget(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=mappings(VALUES))
@example(data={"a": "010", "b": "no", "c": "10:30", "d": "1e6", "089": "089"})
@example(data={"a": 1e16, "b": 1e-7, "c": float("inf"), "d": -0.0})
@example(data={"a": "9" * 5000})
@example(data={"": {"kind": "gpus"}, "kind": "8"})
@example(data={"\x85": "\u2028", "a": "b\n\n c\n", "d": "\ufeff", "e": " x " * 90})
def test_dump_reads_back(tmp_path: Path, data: dict[str, Any]) -> None:
    """Whatever is dumped reads back as the same values of the same types, keys in the same order.

    A key that reads like a former word for `use` is read as `use`, in a file as in plain data.
    """
    assert same(load(write(tmp_path, a=dump(data))).data, data_with_use(data))
