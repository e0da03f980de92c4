"""Detection kinds: what each observer sees, after how long, by published timers and exact laws."""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.sim.cluster import FABRIC_PARTS
from ettrick.sim.failures import SOURCES
from ettrick.sim.policies.detection import Latency, Observers
from ettrick.sim.scenario.laws import Fixed
from tests.cases import cases
from tests.detection_checks import KINDS, check_detection, times
from tests.intervals import Z
from tests.pace import one_in

if TYPE_CHECKING:
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.policies.detection.kinds import Detection

ALL = (
    "in-band",
    "node-agent",
    "heartbeat",
    "collective-timeout",
    "slurm",
    "kubernetes",
    "nvrx",
    "straggler",
    "sdc-check",
)

STOPS = ("process", "gpu", "driver", "host", "nic", "switch", "hang", "storage")


def observers(*names: str | dict[str, Any], **changes: Any) -> Observers:
    """Return a detection with observers, each a name or what would be written of it."""
    entries = [{"use": name} if isinstance(name, str) else name for name in names]
    return Observers.model_validate({"observers": entries, **changes})


def mean(detection: Detection, fault: str, kind: str = "crash") -> float:
    """Return the mean time until a fault is noticed [s]."""
    detection_race = detection.detection_race(fault, kind)
    return detection_race.mean_value


def sole(name: str | dict[str, Any], fault: str, kind: str = "crash") -> np.ndarray:
    """Return times after which one observer alone notices a fault [s], and nobody else does, shape (n,)."""
    detection_race = observers(name).detection_race(fault, kind)
    assert len(detection_race.observers) == 1
    drawn: np.ndarray = detection_race.observers[0].law.ppf((np.arange(20_000) + 0.5) / 20_000)
    return drawn


@pytest.mark.parametrize(
    "detection",
    one_in(
        2,
        [
            Latency.model_validate({}),
            Latency.model_validate({"time": {"use": "exponential", "mean": "5 min"}, "hang": "10 min", "slow": "1 d"}),
            Latency.model_validate({"corrupt": {"use": "lognormal", "median": "1 h", "sigma": 1}, "scale": 0.5}),
            observers(),
            observers(*ALL),
            observers("in-band", "collective-timeout", "slurm", scale=2.0),
            observers("in-band", "kubernetes", "nvrx", "sdc-check", human={"silent": "1 d"}),
            *(observers(name) for name in ALL),
        ],
    ),
)
def test_every_detection(detection: Detection) -> None:
    """Every kind of detection passes the harness, and comes back from pickle and from its own text."""
    check_detection(detection)
    assert pickle.loads(pickle.dumps(detection)) == detection
    assert type(detection).model_validate(detection.model_dump(mode="json")) == detection


def test_latency_by_effect() -> None:
    """One latency holds for each kind of effect, whatever the class; without one, what steps on is never noticed."""
    detection = Latency.model_validate({"time": "5 min", "hang": "10 min", "slow": "1 h"})
    for fault in STOPS:
        assert [mean(detection, fault, kind) for kind in ("crash", "hang", "slow")] == [300, 600, 3600]
        assert [detection.detection_race(fault, kind) for kind in ("degrade", "corrupt", "spike")] == [None] * 3
    assert mean(Latency.model_validate({"time": "5 min"}), "hang", "hang") == 300


def test_slurm_marks_nodes_down_after_300_to_500_seconds() -> None:
    """SlurmdTimeout of 300 s acts as U(300 s, 500 s): mean 400 s, and 2 s is what 20,000 draws can tell."""
    detection_race = observers("slurm").detection_race("host", "crash")
    assert detection_race is not None
    drawn = times(detection_race, 20_000)
    assert drawn.min() >= 300
    assert drawn.max() <= 500
    error = 200 / math.sqrt(12 * drawn.size)
    assert Z * error < 2
    assert abs(drawn.mean() - 400) <= Z * error
    assert mean(observers({"use": "slurm", "timeout": "60 s"}), "host") == pytest.approx(80)


def test_kubernetes_evicts_after_340_to_355_seconds() -> None:
    """A node is NotReady 40 to 55 s after its fault, and its pods are evicted 300 s later."""
    drawn = sole("kubernetes", "host")
    assert drawn.min() >= 340
    assert drawn.max() <= 355
    assert drawn.mean() == pytest.approx(347.5)
    renewed, looked = np.meshgrid(np.arange(0.5, 1000) / 100, np.arange(0.5, 500) / 100)
    exact = np.quantile((50 - renewed + looked + 300).ravel(), (np.arange(200) + 0.5) / 200)
    assert np.abs(drawn[50::100] - exact).max() < 0.8
    assert drawn.std() == pytest.approx(math.sqrt((10**2 + 5**2) / 12), rel=0.01)
    ready = sole({"use": "kubernetes", "toleration": "0 s"}, "host")
    assert ready.min() >= 40
    assert ready.max() <= 55


@cases("fault", STOPS)
def test_a_silent_hang_costs_the_timeout_of_a_collective(fault: str) -> None:
    """PyTorch gives a collective up after 600 s, and writes its state down for 15 s."""
    assert mean(observers("collective-timeout"), fault, "hang") == 615


def test_in_process_watchdogs() -> None:
    """A hang is interrupted after 60 s, a stuck process killed after 90 s, a dead rank missed after 30 s."""
    detection = observers("nvrx")
    assert [mean(detection, fault) for fault in ("hang", "driver", "host")] == [60, 90, 30]


def test_heartbeats_are_missed_a_timeout_after_the_last() -> None:
    """The fault falls between two reports, so that the time is timeout - U(0, period)."""
    drawn = sole({"use": "heartbeat", "timeout": "60 s", "period": "20 s"}, "hang", "hang")
    assert drawn.min() >= 40
    assert drawn.max() <= 60
    assert drawn.mean() == pytest.approx(50)


def test_stragglers_are_reported_a_few_times() -> None:
    """With k confirmations a slow node is found between k - 1 and k periods after it became slow."""
    for count in (1, 3):
        drawn = sole({"use": "straggler", "confirmations": count}, "slow", "slow")
        assert drawn.min() >= 300 * (count - 1)
        assert drawn.max() <= 300 * count
        assert drawn.mean() == pytest.approx(300 * (count - 0.5))


def test_checks_find_a_share_of_what_computes_wrongly() -> None:
    """Checks find 70 % of silent corruption within an hour; the rest waits for a human."""
    detection_race = observers("sdc-check", human={"silent": "1 d"}).detection_race("corrupt", "corrupt")
    assert detection_race.shares() == pytest.approx({"sdc-check": 0.7, "human": 0.3})
    assert detection_race.mean_value == pytest.approx(0.7 * 3600 + 0.3 * 86_400)


def test_a_human_takes_a_quarter_of_an_hour() -> None:
    """What nobody covers is noticed after 15 min at the median, and 4 h at the 95th percentile."""
    detection_race = observers("slurm").detection_race("hang", "hang")
    assert detection_race.human.ppf_one(0.5) == pytest.approx(900)
    assert detection_race.human.ppf_one(0.95) == pytest.approx(4 * 3600, rel=0.01)
    silent = observers().detection_race("slow", "slow")
    assert silent.human.ppf_one(0.5) == pytest.approx(8 * 3600)
    assert silent.human.ppf_one(0.95) == pytest.approx(5 * 86_400, rel=0.01)


@cases("name", ALL)
@cases("kind", KINDS[2:])
def test_who_sees_what_does_not_stop(name: str, kind: str) -> None:
    """While the job steps on, who waits for it to stop sees nothing, whatever part it is that has the fault."""
    seen = observers(name).detection_race("nic", kind)
    sees = {"node-agent": KINDS, "straggler": ("slow", "degrade"), "sdc-check": ("corrupt",)}.get(name, ())
    assert [observer.name for observer in seen.observers] == [name] * (kind in sees)


def test_coverage_replaces_single_classes() -> None:
    """A coverage or a time that is stated replaces that of its class alone; a coverage of zero is none."""
    agent = {"use": "node-agent", "covers": {"nic": "50 %", "gpu": "0 %"}, "latency": {"nic": "20 s"}}
    detection = observers(agent, "collective-timeout")
    assert mean(detection, "nic") == pytest.approx(0.5 * 20 + 0.5 * 615)
    assert mean(detection, "gpu") == 615
    assert mean(detection, "driver") == 10
    assert mean(detection, "switch") == 60


def test_the_earliest_wins() -> None:
    """Of all that cover a class, the earliest notices it: with Slurm, an agent of partial coverage, and a timeout."""
    detection = observers(
        {"use": "node-agent", "covers": {"host": "30 %"}},
        "slurm",
        {"use": "collective-timeout", "timeout": "400 s", "dump": "0 s"},
    )
    # Without the agent it is min(U(300, 500), 400): half below 400, with the mean 350.
    assert mean(detection, "host") == pytest.approx(0.3 * 2 + 0.7 * (0.5 * 350 + 0.5 * 400))
    detection_race = detection.detection_race("host", "crash")
    assert detection_race.shares() == pytest.approx(
        {"node-agent": 0.3, "slurm": 0.35, "collective-timeout": 0.35, "human": 0}
    )


@cases("fault", STOPS)
def test_one_more_observer_is_never_later(fault: str) -> None:
    """On the same faults, an observer more makes none later that some observer had noticed."""
    never = {"latency": "1000 d"}
    for count in range(len(ALL)):
        fewer = observers(*ALL[:count], human=never).detection_race(fault, "crash")
        more = observers(*ALL[: count + 1], human=never).detection_race(fault, "crash")
        assert fewer is not None
        assert more is not None
        assert np.all(times(more, 500) <= times(fewer, 500))


def test_shipped_scenarios_ask_for_the_same_numbers() -> None:
    """A latency of one law asks for the number called ``detection`` alone, as a law by itself does."""
    law = {"use": "exponential", "mean": "5 min"}
    detection_race = Latency.model_validate({"time": law}).detection_race("gpu", "crash")
    asked: list[str] = []

    def mark(purpose: str) -> float:
        asked.append(purpose)
        return 0.5

    assert detection_race.draw(mark) == pytest.approx(300 * math.log(2))
    assert asked == ["detection"]
    fixed = Latency.model_validate({"time": "5 min"}).detection_race("gpu", "crash")
    assert isinstance(fixed.observers[0].law, Fixed)
    assert fixed.fixed == 300


# ----------------------------------------
# Classes of faults: what follows from effect and part, what is stated, and what the catalog says of its causes.

COUNTS = {
    "gpu": 128,
    "node": 16,
    "rack": 4,
    "pdu": 2,
    "switch_tray": 36,
    "scale_up": 4,
    **dict.fromkeys(FABRIC_PARTS, 64),
}

RATES = {"component": "1 per year", "incident": "1 per year", "defect": "1 per year", "job": "1 per job-day"}


def built(use: str, **fields: Any) -> FailureSource:
    """Return the runtime source of a cause."""
    cause: Any = SOURCES[use].model_validate({"name": "cause", "rate": RATES[use], **fields})
    source: FailureSource = cause.build(COUNTS, 1)
    return source


@cases(
    ("part", "fault"),
    [
        ("gpu", "gpu"),
        ("node", "host"),
        ("nic", "nic"),
        ("transceiver", "nic"),
        ("cable_node_leaf", "nic"),
        ("cable_leaf_spine", "switch"),
        ("leaf", "switch"),
        ("spine", "switch"),
        ("core", "switch"),
        ("switch_tray", "switch"),
        ("rack", "host"),
        ("pdu", "host"),
        ("scale_up", "host"),
    ],
)
def test_class_by_part(part: str, fault: str) -> None:
    """A crash is of the class of its part, also where the GPUs of a node are drawn as one."""
    source = built("component", part=part)
    assert source.fault == fault
    assert source.damage == "process"
    assert built("incident", part=part).fault == fault


@cases(
    ("effect", "fault"),
    [
        ("hang", "hang"),
        ({"use": "slow", "factor": 0.5}, "slow"),
        ({"use": "degrade", "bandwidth": 0.5}, "slow"),
        ("corrupt", "corrupt"),
    ],
)
def test_class_by_effect(effect: Any, fault: str) -> None:
    """What hangs, is slow or computes wrongly is of that class, whatever part it is."""
    for part in ("gpu", "node", "nic"):
        assert built("component", part=part, effect=effect).fault == fault
    assert built("defect", share=0.1, effect=effect).fault == fault


def test_class_of_jobs() -> None:
    """What strikes a job is the end of a process, a hang or a loss spike; what is planned is known."""
    assert built("job").fault == "process"
    assert built("job", effect="hang").fault == "hang"
    assert built("job", planned=True).fault == "planned"
    bug: Any = SOURCES["bug"].model_validate({"name": "bug", "rate": "1 per job-day", "fix": "1 h"})
    assert bug.build(COUNTS, 1).fault == "process"
    spike: Any = SOURCES["loss-spike"].model_validate({"name": "spike", "rate": "1 per job-day"})
    source = spike.build(COUNTS, 1)
    assert (source.fault, source.effect.use) == ("spike", "spike")


def test_what_is_stated_wins() -> None:
    """A class or a damage that is stated replaces what would follow."""
    source = built("component", part="node", effect="hang", fault="driver", damage="reboot")
    assert (source.fault, source.damage) == ("driver", "reboot")
    assert built("job", fault="storage", damage="reboot").fault == "storage"
    assert built("job", damage="reboot").damage == "reboot"
