"""`ettrick explain`, how a job comes back: rates that add up, times of the laws, words for every preset."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import pytest

from ettrick import sim
from ettrick.sim.catalog import recoveries, recovery
from ettrick.sim.policies.contracts import FAULTS
from ettrick.sim.policies.recovery import RECOVERIES
from ettrick.sim.policies.recovery.phases import RecoveryPhase
from ettrick.sim.prepare.explained import STAGES
from ettrick.sim.scenario.fields import Duration
from ettrick.sim.scenario.law_model import LawModel
from tests import report_sample
from tests.cases import cases
from tests.documents import describe
from tests.documents import format_explanation as _format_explanation
from tests.recovery_checks import mean_times
from tests.unit.test_explain import numbers, strings

DAY = 86400

OBSERVED = {"use": "observers", "observers": [{"observer": "in-band"}, {"observer": "slurm"}]}

LADDER: dict[str, Any] = {
    "use": "ladder",
    "rungs": [
        {"name": "again", "keeps": "hosts", "budget": 1, "patience": "2 min", "launch": "40 s"},
        {
            "name": "queue",
            "keeps": "nothing",
            "budget": 2,
            "delay": "1 min",
            "backoff": {"first": "90 s", "most": "1 h"},
        },
    ],
}


@functools.cache
def prepared_with(name: str, *changes: str) -> sim.Prepared:
    """Return the scenario of the comparison with a preset."""
    return sim.examine(sim.load(sim.find("recovery-16k"), [f"recovery.use={name}", *changes]))


@functools.cache
def with_preset(name: str, *changes: str) -> dict[str, Any]:
    """Return its document, as a reader of the JSON gets it."""
    content: dict[str, Any] = describe(prepared_with(name, *changes))
    return content


def said_of(name: str, *changes: str) -> dict[str, Any]:
    """Return what is said of recovery with a preset."""
    found: dict[str, Any] = with_preset(name, *changes)["jobs"]["pretrain"]["recovery"]
    return found


def content_of(**changes: Any) -> dict[str, Any]:
    """Return the document of the small scenario."""
    content: dict[str, Any] = describe(sim.examine(report_sample.parse(**changes)))
    return content


def of_small(**changes: Any) -> dict[str, Any]:
    """Return what is said of recovery of the first job of the small scenario."""
    found: dict[str, Any] = next(iter(content_of(**changes)["jobs"].values()))["recovery"]
    return found


def format_explanation(content: dict[str, Any], width: int = 100) -> str:
    """Return what is printed."""
    return str(_format_explanation(content, width=width))


def section(text: str) -> str:
    """Return what is printed of recovery, with single blanks."""
    return " ".join(text.partition("\nRecovery\n")[2].partition("Closed form")[0].split())


def class_of(found: dict[str, Any], fault: str, *, stops: bool = True) -> dict[str, Any]:
    """Return the row of a class of faults."""
    row: dict[str, Any] = next(row for row in found["classes"] if (row["fault"], row["stops"]) == (fault, stops))
    return row


def times_of(stages: dict[str, Any]) -> dict[str, float]:
    """Return the mean times by what they are part of [s]."""
    return {name: stage["mean_s"] for name, stage in stages.items()}


def all_stages(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all stages of a strategy, those of rungs too."""
    holders = [found["phases"], *(rung["phases"] for rung in found["rungs"])]
    return [stage for stages in holders for stage in stages.values()]


@pytest.mark.parametrize("name", recoveries())
def test_rates_of_classes_add_up(name: str) -> None:
    """Interruptions of all classes are those of the job, one in its MTTI, and every cause is in one class."""
    prepared, found = prepared_with(name), said_of(name)
    job, classes = prepared.jobs[0], found["classes"]
    assert sum(row["per_day"] for row in classes) * job.mtti == pytest.approx(DAY, rel=1e-9)
    assert found["interruptions_per_day"] * job.mtti == pytest.approx(DAY, rel=1e-12)
    causes = sorted(cause for row in classes for cause in row["causes"])
    assert causes == sorted(source.name for source in prepared.sources)
    assert [row["fault"] for row in classes] == [fault for fault in FAULTS if fault in {r["fault"] for r in classes}]
    waits = sum(row["per_day"] * row["known_after_s"] for row in classes if row["stops"])
    assert waits / found["interruptions_per_day"] == pytest.approx(found["detection_mean_s"], rel=1e-9)
    assert found["detection_mean_s"] == job.detection_mean
    for row in classes:
        assert sum(row["first"].values()) == pytest.approx(1, abs=1e-9)


def test_slurm_misses_a_host_after_300_to_500_seconds() -> None:
    """Slurm marks a silent node down after U(300, 500) s, and no time-out of 615 s comes before it."""
    row = class_of(said_of("slurm-requeue"), "host")
    assert 300 < row["known_after_s"] < 500
    assert row["known_after_s"] == pytest.approx(400, rel=1e-9)
    assert row["first"]["slurm"] == pytest.approx(1, abs=1e-9)
    shown = section(format_explanation(with_preset("slurm-requeue")))
    assert re.search(r"host [\d.]+ 6\.67 min slurm 100 % nic", shown)


def test_what_nobody_covers_waits_for_a_human() -> None:
    """A NIC is no business of Slurm's: a human sees it, after a mean of 15 min x exp(1.685^2 / 2)."""
    nic = {"use": "component", "name": "nic", "part": "nic", "rate": "1 per 1000 nic-day"}
    content = content_of(failures=[nic], detection=OBSERVED)
    row = class_of(next(iter(content["jobs"].values()))["recovery"], "nic")
    assert row["known_after_s"] == pytest.approx(900 * math.exp(1.685**2 / 2), rel=1e-6)
    assert row["first"]["human"] == pytest.approx(1, abs=1e-9)
    assert "operator 100 %" in section(format_explanation(content))
    # Who covers less of a class stands behind those who see more of it, however early it is.
    watchers = {"use": "observers", "observers": [{"observer": "in-band", "covers": {"nic": "20 %"}}]}
    assert "operator 80 %, in-band 20 %" in section(format_explanation(content_of(failures=[nic], detection=watchers)))


def test_a_rate_that_changes_counts_in_the_mean() -> None:
    """Growing as 2 t / 4 d the hazard is 6/4 of the stated one in the mean over six days, warm-up included."""
    failing = {**report_sample.SMALL["failures"][0], "tempo": {"trend": {"exponent": 2, "reference": "4 d"}}}
    found = of_small(failures=[failing], horizon="4 d", warmup="2 d")
    assert class_of(found, "host")["per_day"] == pytest.approx(1.5 * 14 * 0.2)
    assert found["interruptions_per_day"] == pytest.approx(1.5 * 14 * 0.2)


def test_stores_of_a_preset() -> None:
    """Copies in memory every 2 min beside the remote ones every 10 min, in steps of 6.37 s: 19 and 95 of them."""
    content = with_preset("nvrx-in-job")
    step = content["jobs"]["pretrain"]["step"]["time_s"]
    near, far = content["jobs"]["pretrain"]["recovery"]["stores"]
    assert (near["store"], far["store"], near["clique"], far["clique"]) == ("peer-host", "remote", 2, None)
    assert (near["interval_s"], near["stall_s"], near["durable_after_s"], near["read_in_s"]) == (120, 0.5, 10, 5)
    assert (far["interval_s"], far["stall_s"], far["durable_after_s"], far["read_in_s"]) == (600, 2, 60, 30)
    assert (near["retain"], far["retain"]) == (1, None)
    for row in (near, far):
        assert row["steps"] == math.ceil(row["interval_s"] / step)
        assert row["period_s"] == pytest.approx(row["steps"] * step)
    shown = section(format_explanation(content))
    assert "peer-host 2 min 19 0.5 s 10 s 5 s all 2 of a clique 1" in shown
    assert "remote 10 min 95 2 s 1 min 30 s nothing all" in shown


def test_every_kind_of_store() -> None:
    """Each store says what takes a shard of it; a peer is never saved to; a shard from elsewhere is read longer."""
    timed = {"interval": "30 s", "write": "1 s", "restore": "2 s"}
    tiers = [
        {"store": "remote", "interval": "20 min", "write": "30 s", "restore": "1 min", "corrupt": "1 %", "retain": 7},
        {"store": "disk", **timed, "interval": "5 min"},
        {"store": "host", **timed, "every_replica": True},
        {"store": "peer-host", "interval": "1 min", "clique": 4, "node_bandwidth": "10 GB/s", "network": "5 GB/s"},
        {"store": "peer", "restore": "3 s"},
    ]
    job = {**report_sample.SMALL["jobs"][0], "parallelism": {"tensor": 8, "data": 14}}
    content = content_of(jobs=[job], checkpoint={"tiers": tiers, "size": "1.4 TB"})
    rows = next(iter(content["jobs"].values()))["recovery"]["stores"]
    assert [row["store"] for row in rows] == ["peer", "host", "peer-host", "disk", "remote"]
    peer, _, clique, _, remote = rows
    assert (peer["interval_s"], peer["period_s"], peer["steps"]) == (None, None, None)
    # 1.4 TB over 14 nodes are 100 GB a node.
    assert (clique["read_in_s"], clique["fetched_in_s"]) == pytest.approx((10, 20))
    assert (remote["unreadable"], remote["retain"]) == (0.01, 7)
    shown = section(format_explanation(content, width=160))
    assert "peer 3 s last whole replica last step 0 %" in shown
    assert "reboot or swap in every replica" in shown
    assert "10 s, own lost 20 s all 4 of a clique" in shown
    assert "disk 5 min 30 0 s 1 s 2 s swap 1 0 %" in shown
    assert "nothing 7 1 %" in shown
    assert "unreadable" not in section(format_explanation(content_of()))


@pytest.mark.parametrize("name", recoveries())
def test_means_are_hand_sums(name: str) -> None:
    """What phases take together is the sum of those that every fault needs; the others are told apart."""
    stages = all_stages(said_of(name))
    assert stages
    for stage in stages:
        needed = [part["mean_s"] for part in stage["parts"] if part["faults"] is None]
        assert stage["mean_s"] == pytest.approx(sum(needed), rel=1e-12, abs=1e-12)
    shown = section(format_explanation(with_preset(name)))
    for stage in stages:
        for part in stage["parts"]:
            if part["faults"] is not None:
                assert f"{part['name']} " in shown
                assert f"(only after {', '.join(part['faults'])})" in shown


def test_in_job_and_requeue_by_hand() -> None:
    """ft_launcher: 15 s, U(0, 50) and 5 s to stop; Slurm: 30 s of KillWait, 121 s and U(0, 60) until it is eligible."""
    found = said_of("nvrx-in-job")
    first, last = found["rungs"]
    assert times_of(first["phases"])["stop"] == pytest.approx(15 + 25 + 5)
    assert times_of(last["phases"])["stop"] == pytest.approx(30)
    assert times_of(last["phases"])["delay"] == pytest.approx(121 + 30)
    # Collectives at the size at which the time is stated, 17 s, and 20 s of first step.
    parts = {part["name"]: part["mean_s"] for part in first["phases"]["launch"]["parts"]}
    assert (parts["collectives"], parts["first step"], parts["last call"]) == (17, 20, 1)
    assert 15 < parts["imports"] < 60  # the slowest of 2,048 nodes
    assert (first["keeps"], first["budget"], first["pools"], first["patience_s"]) == ("hosts", 3, ["spare"], 0)
    assert (first["not_for"], first["except_first"]) == (["planned"], True)
    assert (last["keeps"], last["budget"], last["pools"], last["patience_s"]) == ("nothing", 2, [], None)
    # Phases of new nodes count: one of them joins.
    launch = said_of("gemini-in-memory")["rungs"][0]["phases"]["launch"]["parts"]
    assert {part["name"]: part["mean_s"] for part in launch}["machine"] == 300
    shown = section(format_explanation(with_preset("nvrx-in-job")))
    assert "in-job hosts 3 spare; if available planned, rank 0 45 s 0 s" in shown
    assert "requeue nothing 2 the queue 30 s 2.52 min" in shown


def test_phases_of_replicas_are_those_of_the_formula() -> None:
    """Stall, rejoin and absence of a replica are what the closed form of replicas that leave takes."""
    prepared = prepared_with("torchft-hsdp")
    job: Any = prepared.jobs[0]
    strategy: Any = prepared.recovery
    wanted = strategy.absence_for(job.gpus, job.nodes, job.replicas)
    found = times_of(said_of("torchft-hsdp")["phases"])
    assert found["reconfigure"] == pytest.approx(wanted.stall, rel=1e-12)
    assert found["rejoin"] == pytest.approx(wanted.rejoin, rel=1e-12)
    assert found["initialize"] + found["catch_up"] == pytest.approx(wanted.away, rel=1e-12)


@cases(
    "strategy",
    [
        {"use": "full-restart", "delay": "1 min", "initialize": {"law": "uniform", "low": "1 min", "high": "3 min"}},
        {"use": "hot-spare", "reschedule": "10 s", "initialize": "3 min", "scale": 3},
        {"use": "standby", "recovery": "90 s"},
        {"use": "ladder", "scale": 2, "rungs": [{"name": "one", "keeps": "hosts", "stop": "5 s", "launch": "1 min"}]},
        {
            "use": "ladder",
            "rungs": [
                {
                    "name": "queue",
                    "keeps": "nothing",
                    "delay": "1 min",
                    "backoff": {"first": "30 s", "most": "1 h"},
                    "launch": [{"name": "image", "time": "20 s", "joiners": True, "exposed": False}],
                }
            ],
        },
    ],
    ids=["full-restart", "hot-spare", "standby", "rung", "queue"],
)
def test_times_are_those_of_the_closed_form(strategy: dict[str, Any]) -> None:
    """All that a failure costs before the restore is what the closed form takes, factors included."""
    prepared = sim.examine(report_sample.parse(recovery=strategy))
    wanted = sum(mean_times(prepared.recovery, prepared.jobs[0].gpus, prepared.jobs[0].nodes))
    assert sum(stage["mean_s"] for stage in all_stages(of_small(recovery=strategy))) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", ["nvrx-in-process", "torchrun-elastic", "torchft-hsdp", "ntp"])
def test_factors_are_in_all_times(name: str) -> None:
    """Twice the recovery doubles every phase and nothing of detection; three times the detection is for that alone."""
    plain, slower = said_of(name), said_of(name, "recovery.scale=2", "detection={scale: 3}", "repair.scale=4")
    assert slower["scales"] == {"detection": 3, "recovery": 2, "repair": 4}
    for stage, other in zip(all_stages(plain), all_stages(slower), strict=True):
        assert other["mean_s"] == pytest.approx(2 * stage["mean_s"])
        for part, longer in zip(stage["parts"], other["parts"], strict=True):
            assert longer["mean_s"] == pytest.approx(2 * part["mean_s"])
    for row, later in zip(plain["classes"], slower["classes"], strict=True):
        assert later["known_after_s"] == pytest.approx(3 * row["known_after_s"])
    if plain["human"] is not None:
        assert slower["human"]["after_s"] == pytest.approx(2 * plain["human"]["after_s"])
    words = "all times of detection x 3, all times of recovery x 2, all times of repair x 4"
    shown = with_preset(name, "recovery.scale=2", "detection={scale: 3}", "repair.scale=4")
    assert words in section(format_explanation(shown))
    assert "factors" not in section(format_explanation(with_preset(name)))


def test_who_is_called_at_the_end() -> None:
    """A ladder whose last rung has a budget ends with a human, 15 min x exp(1.6856^2 / 2) later, or failed."""
    called = of_small(recovery=LADDER)
    assert called["human"]["no_progress"] is None
    assert called["human"]["after_s"] == pytest.approx(900 * math.exp(1.6856**2 / 2), rel=1e-6)
    assert "operator escalation when no rung is left; the job starts again" in section(
        format_explanation(content_of(recovery=LADDER))
    )
    over = content_of(recovery={**LADDER, "gives_up": True, "no_progress": 4})
    assert over["jobs"]["train"]["recovery"]["human"] == {"after_s": None, "no_progress": 4}
    words = "the job has failed for good when no rung is left, or when 4 restarts in a row bring no new work"
    assert words in section(format_explanation(over))
    for name in ("slurm-requeue", "k8s-jobset", "gemini-in-memory"):
        assert said_of(name)["human"] is None
        assert "no operator escalation" in section(format_explanation(with_preset(name)))
    assert said_of("nvrx-in-process")["human"]["no_progress"] == 3
    assert said_of("torchft-hsdp")["human"] is None


@cases("name", RECOVERIES)
def test_no_time_of_a_strategy_is_forgotten(name: str) -> None:
    """Every time of a strategy is explained, but waits for nodes, which are settings; a ladder's are in its rungs."""
    model: Any = RECOVERIES[name]
    fields = model.model_fields
    assert set(STAGES[name]) <= set(fields)
    is_time = "RecoveryPhase", "Law", str(Duration.__metadata__[0])
    types = {key: f"{field} {field.annotation}" for key, field in fields.items()}
    times = {key for key, text in types.items() if any(part in text for part in is_time)}
    assert times - {"rungs", "exhausted", "patience", "quorum_timeout"} <= set(STAGES[name])
    for value in (fields[key].default for key in STAGES[name]):
        assert not isinstance(value, LawModel | RecoveryPhase)


@pytest.mark.parametrize("name", recoveries())
def test_every_preset_is_explained(name: str) -> None:
    """Title, source and each note with its basis are shown, and the whole fits a hundred columns."""
    content, preset = with_preset(name), recovery(name)
    found = content["jobs"]["pretrain"]["recovery"]
    assert (found["preset"]["name"], found["preset"]["title"]) == (name, preset["title"])
    assert (found["strategy"], found["summary"]) == (preset["recovery"]["use"], found["summary"])
    assert [f"{note['basis']}: {note['text']}" for note in found["preset"]["notes"]] == preset["notes"]
    text = format_explanation(content)
    shown = section(text)
    assert f"{name}: {preset['title']} ({preset['source']})" in shown
    for note in found["preset"]["notes"]:
        assert f"{note['basis']} {' '.join(note['text'].split())}" in shown
    assert max(map(len, text.partition("\nRecovery\n")[2].splitlines())) <= 100
    assert not {"None", "nan", "inf"} & set(text.split())
    assert "…" not in text


@pytest.mark.parametrize("name", recoveries())
def test_every_number_of_a_preset_is_in_the_document(name: str) -> None:
    """Each number that is shown of recovery is one of the JSON in another unit, or of one of its texts."""
    content = with_preset(name)
    shown = section(format_explanation(content))
    for worded in sorted({" ".join(text.split()) for text in strings(content)}, key=len, reverse=True):
        if re.search(r"\d", worded):
            shown = shown.replace(worded, " ")
    shown = shown.replace("rank 0", " ")
    known = [number * unit for number in numbers(content) for unit in (1, 100, 1 / 60, 1 / 3600, 1 / DAY)]
    found = re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?", shown)
    assert len(found) > 20
    for word in found:
        step = 10.0 ** -len(word.partition(".")[2])
        assert any(abs(float(word.replace(",", "")) - number) <= 0.5 * step + 1e-9 for number in known), word
