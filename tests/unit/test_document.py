"""The JSON document has the keys of DESIGN, shares that add up, and nothing that JSON does not know."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from pydantic import ValidationError

import sim
from analysis.results.explained import results_schema
from analysis.results.models import (
    FORMAT,
    DocumentMistakeError,
    Often,
    RunDocument,
    read_document,
)
from analysis.results.run import _plain, plain, render, scenario_digest
from analysis.results.run import document as typed_document
from analysis.runs import Ensemble, replicate
from sim import CLUSTER_BUCKETS, JOB_BUCKETS
from tests import small
from tests.typed import as_plain

if TYPE_CHECKING:
    from pathlib import Path

document = as_plain(typed_document)

JOBS = [
    {"name": "first", "gpus": 64, "step_time": "10 s", "work": {"time": "20 h"}, "deadline": "22 h"},
    {"name": "second", "gpus": 64, "step_time": "10 s", "work": {"time": "60 h"}},
]


@pytest.fixture(scope="module")
def several() -> Ensemble:
    """Two jobs that queue for each other, one of which never finishes, in windows of six hours."""
    return replicate(small.prepare(jobs=JOBS, windows="6 h"), 6, keeps_log=True)


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


def test_per_job_has_the_metrics_of_a_job(content: dict[str, Any]) -> None:
    """Each job has metrics and shares under its name, and says how often it was finished."""
    jobs = content["per_job"]
    assert list(jobs) == ["first", "second"]
    assert set(jobs["first"]["metrics"]) == set(content["metrics"]) - {"cluster_goodput", "node_availability", "energy"}
    assert (jobs["first"]["finished"], jobs["first"]["censored"]) == (6, 0)
    assert (jobs["second"]["finished"], jobs["second"]["censored"]) == (0, 6)
    assert jobs["second"]["metrics"]["time_to_work"]["mean"] is None
    assert any("'second' was not finished at the horizon in 6 of 6" in note for note in content["notes"])


def test_windows_follow_each_other(content: dict[str, Any]) -> None:
    """Windows of six hours cover the two days without a gap; the weighted ettr of all is the scenario's."""
    windows = content["windows"]
    assert [window["start_s"] for window in windows] == [21_600.0 * index for index in range(8)]
    assert [window["end_s"] for window in windows] == [21_600.0 * (index + 1) for index in range(8)]
    assert all(window["ettr"] == window["time_shares"]["productive"] for window in windows)


def test_windows_add_up(several: Ensemble, content: dict[str, Any]) -> None:
    """Each window's ettr, weighed by the GPU-time asked for in it, gives the ettr of the whole."""
    asked = [
        sum(float(job.totals[index, : len(JOB_BUCKETS)].sum()) for result in several.results for job in result.jobs)
        for index in range(8)
    ]
    mean = sum(window["ettr"] * weight for window, weight in zip(content["windows"], asked, strict=True)) / sum(asked)
    assert mean == pytest.approx(content["metrics"]["ettr"]["mean"], rel=1e-12)


def test_no_windows_unless_asked_for() -> None:
    """A scenario without windows has an empty list."""
    assert document(replicate(small.prepare(), 1), command="")["windows"] == []


def test_one_replication_supports_no_interval() -> None:
    """From one replication there is a mean, and null for every interval, quantile and spread."""
    metric = document(replicate(small.prepare(), 1), command="")["metrics"]["ettr"]
    assert metric.pop("mean") > 0
    assert set(metric.values()) == {None}


def test_intervals_stay_where_a_metric_can_be() -> None:
    """The interval of a share does not leave [0, 1], and no time is negative, although Student's would."""
    # One interruption in about every second replication: MTTI's interval by itself begins below zero.
    rare = {**small.SMALL["failures"][0], "rate": "16 per 1000 node-day"}
    metrics = document(replicate(small.prepare(failures=[rare]), 4), command="")["metrics"]
    for name, metric in metrics.items():
        if metric["mean_ci95"] is not None:
            assert metric["mean_ci95"][0] >= 0, name
    assert metrics["scheduling_goodput"]["mean_ci95"][1] <= 1
    assert metrics["ettr"]["mean_ci95"][1] <= 1


def test_bands_arrive_in_their_metrics(several: Ensemble) -> None:
    """A band stands in the metric that it belongs to, within what is possible; the others have null."""
    metrics = document(several, command="", bands={"ettr": (0.5, 1.2), "mtti": None})["metrics"]
    assert metrics["ettr"]["band90"] == [0.5, 1.0]
    assert metrics["mtti"]["band90"] is None
    assert metrics["runtime_goodput"]["band90"] is None


def test_lower_bound_of_mtti_without_interruptions() -> None:
    """Nothing fails in 3 x 2 days: mean null, bound 6 d / ln 20; with interruptions the bound is null."""
    mtti = document(replicate(small.prepare(failures=[]), 3), command="")["metrics"]["mtti"]
    assert mtti["mean"] is None
    assert mtti["lower_bound95"] == pytest.approx(3 * 172_800 / math.log(20))
    assert document(replicate(small.prepare(), 3), command="")["metrics"]["mtti"]["lower_bound95"] is None


def test_job_that_never_arrives() -> None:
    """A job that arrives after the horizon has no shares and is said to be never there; nothing divides by zero."""
    late = {**small.SMALL["jobs"][0], "arrival": "3 d"}
    read = document(replicate(small.prepare(jobs=[late]), 2), command="")
    assert set(read["time_shares"].values()) == {None}
    assert (read["per_job"]["train"]["never_started"], read["per_job"]["train"]["never_arrived"]) == (2, 2)
    assert sum(read["cluster_shares"].values()) == pytest.approx(1, abs=1e-9)


def test_job_that_never_starts_is_noted() -> None:
    """A job that waits behind one that never ends is counted and noted."""
    jobs = [{**small.SMALL["jobs"][0], "name": name} for name in ("first", "second")]
    read = document(replicate(small.prepare(jobs=jobs), 2), command="")
    assert read["per_job"]["second"]["never_started"] == 2
    assert read["per_job"]["second"]["time_shares"]["queued"] == 1
    assert "job 'second' never got its nodes in 2 of 2 replications" in read["notes"]


# --------------------------------------------------------------------------------------------------- JSON


def test_render_round_trip(content: dict[str, Any], several: Ensemble) -> None:
    """Reading the text back gives the same plain data, and writing that gives the same text."""
    text = render(typed_document(several, command="ettrick run small.yaml"))
    assert json.loads(text) == content
    assert render(RunDocument.model_validate(content)) == text


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


# -------------------------------------------------------------------------------------------------- models


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


def test_a_document_cannot_be_changed(several: Ensemble) -> None:
    """What was found stays as it was found."""
    found = typed_document(several, command="")
    with pytest.raises(ValidationError, match="frozen"):
        found.seed = 2  # type: ignore[misc]


def test_numbers_that_are_not_finite_are_null_in_a_model() -> None:
    """As in JSON: a reader of the model and of the file see the same."""
    found = Often(mean=np.float64(2.5), mean_ci95=(0.0, math.inf), std=math.nan)
    assert (found.mean, found.mean_ci95, found.std) == (2.5, (0.0, None), None)
    assert type(found.mean) is float


# ------------------------------------------------------------------------------------------------- digest

LOG = "unit,start,end,cause\nn0,1,2,gpu\nn1,5,9,nic\n"


def replaying(folder: Path, log: str = LOG) -> Path:
    """Write a scenario that replays a log beside it; return its path."""
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "log.csv").write_text(log)
    data = {**small.SMALL, "failures": [{"use": "replay", "file": "logs/log.csv", "time_unit": "h"}]}
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
    base = scenario_digest(small.parse())
    assert scenario_digest(small.parse(horizon="48 h")) == base
    assert scenario_digest(small.parse(seed=2)) != base
    assert scenario_digest(small.parse(horizon="3 d")) != base
    logs = [replaying(tmp_path / name, log) for name, log in (("a", LOG), ("b", LOG.replace("9", "8")))]
    assert scenario_digest(sim.load(logs[0])) != scenario_digest(sim.load(logs[1]))


@pytest.mark.parametrize("name", sorted(sim.shipped("scenarios")))
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
