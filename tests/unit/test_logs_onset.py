"""Since when: a change, a drift or a silence is named with its date, by its own series, and chance is not one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ettrick.analysis.logs import estimate, fit, training
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.tables import Tables, TrainingPhase, utc
from tests import log_writers
from tests.cases import cases
from tests.log_writers import CODES, START, Fault, drawn, read_logs
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ettrick.analysis.logs.events import History

DAY = 86400.0


def clustered(generator: np.random.Generator, days: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return daily counts of events of which a third is followed by another within days."""
    moments = generator.uniform(0, days, generator.poisson(0.2 * days)).tolist()
    moments += [moment + generator.lognormal(-0.7, 1.5) for moment in moments if generator.random() < 0.35]
    return np.histogram(moments, np.arange(days + 1))[0].astype(np.float64)


def test_rates_without_a_change() -> None:
    """Of independent counts 1 % have a change of chance below 1 %; most have none that is clear."""
    generator = np.random.default_rng(SEED)
    changes = [estimate.rate_change(generator.poisson(0.3, 180), np.ones(180), 7) for _ in range(60)]
    assert sum(change is None for change in changes) > 40
    assert sum(change is not None and change.chance < 0.01 for change in changes) <= 4  # Poisson of 0.6: P(> 4) < 4e-4


@pytest.mark.nightly
@cases("kind, limit", [("independent", 0.01), ("in clusters", 0.05)])
def test_false_alarms_of_rates(kind: str, limit: float) -> None:
    """Of 600 series without a change 1 % have one below 1 %, and of clusters that the weeks half hide, 5 % at most."""
    generator = np.random.default_rng(SEED)
    hits = 0
    for _ in range(600):
        counts = generator.poisson(0.3, 180) if kind == "independent" else clustered(generator, 180)
        change = estimate.rate_change(counts, np.ones(180), 7)
        hits += change is not None and change.chance < 0.01
    assert hits / 600 < limit + 3 * np.sqrt(limit / 600)


def test_a_rate_that_steps() -> None:
    """Ten times the rate from day 88 on is found in most series, at that day but for some, with both rates."""
    generator = np.random.default_rng(SEED)
    changes = [
        estimate.rate_change(np.concatenate((generator.poisson(0.04, 88), generator.poisson(0.4, 92))), np.ones(180), 7)
        for _ in range(8)
    ]
    clear = [change for change in changes if change is not None and change.chance < 0.001]
    assert len(clear) >= 5
    assert np.median([change.at for change in clear]) == pytest.approx(88, abs=4)
    assert np.mean([change.after for change in clear]) == pytest.approx(0.4, abs=0.05)
    few = estimate.rate_change([0, 0, 1, 0, 2, 1], np.ones(6))
    assert few is None, "four events say nothing"


@cases("shared, limit", [(0.0, 0.01), (0.6, 0.04)])
def test_levels_without_a_change(shared: float, limit: float) -> None:
    """Of independent levels at most 1 % have a change of chance below 1 %, of days that hang together 4 %."""
    generator = np.random.default_rng(SEED)
    hits = 0
    for _ in range(150):
        noise = generator.standard_normal(160)
        for at in range(1, len(noise)):
            noise[at] += shared * noise[at - 1]
        change = estimate.level_change(9.6 + 0.05 * noise[40:])
        hits += change is not None and change.chance < 0.01
    assert hits / 150 < limit + 3 * np.sqrt(limit / 150)


def test_levels_that_step_or_drift() -> None:
    """A step has its date, and a drift both ends; constant and short series have none."""
    noise = np.random.default_rng(SEED).normal(0, 0.05, 120)
    step = present(estimate.level_change(np.where(np.arange(120) < 70, 9.6, 10.05) + noise))
    assert (step.at, step.steady) == (pytest.approx(70, abs=2), False)
    assert (step.before, step.after) == (pytest.approx(9.6, abs=0.02), pytest.approx(10.05, abs=0.02))
    drift = present(estimate.level_change(np.linspace(9.6, 10.05, 120) + noise))
    assert (drift.steady, drift.chance < 1e-6) == (True, True)
    assert (drift.before, drift.after) == (pytest.approx(9.6, abs=0.06), pytest.approx(10.05, abs=0.06))
    constant = present(estimate.level_change(np.full(50, 9.6)))
    assert constant.chance == 1.0
    assert estimate.level_change([9.6, 10.0]) is None


# Logs.


def history_of(folder: Path, **texts: str) -> tuple[Tables, History]:
    """Return what logs of 64 nodes say."""
    files = log_writers.write(folder, **texts)
    (folder / "nodes.csv").write_text(log_writers.inventory(64))
    return read_logs(FitOptions(files, str(folder / "nodes.csv"), ["UTC"]))


def test_a_cause_that_steps(tmp_path: Path) -> None:
    """A cause with six times its rate from day 88 on is named with its date; the causes that did not change are not."""
    faults = drawn(SEED, rates={"gpu_memory": 3.0, "nic": 3.0})
    more = drawn(SEED + 1, rates={"nic": 15.0}, days=180.0)
    faults += [fault for fault in more if fault.start > START + 88 * DAY]
    _, history = history_of(tmp_path, outages_csv=log_writers.outages(sorted(faults, key=lambda fault: fault.start)))
    (finding,) = fit._onsets(history)
    assert finding.startswith("nic: ")
    date = present(re.search(r"before (\d{4}-\d\d-\d\d)", finding))
    assert date[1] in {utc(history.start + at * DAY)[:10] for at in range(80, 97)}


@pytest.mark.nightly
def test_causes_that_do_not_step(tmp_path: Path) -> None:
    """Of 60 logs of constant rates, with repairs that do not hold, at most 5 % but for chance have a finding."""
    hits = 0
    for number in range(60):
        faults = drawn(SEED + number, relapse=(0.3, 0.5, 1.2), cv2=0.3)
        _, history = history_of(tmp_path, outages_csv=log_writers.outages(faults))
        hits += any(fit._onsets(history))
    assert hits <= 9  # of 60 logs 3 are expected; nightly draws are others


@cases("silent", [True, False])
def test_a_collector_that_was_silent(tmp_path: Path, silent: bool) -> None:
    """Four days without kernel lines are found where reasons of outages name codes, though their rate allows it."""
    rates = {"gpu_memory": 10.0, "nic": 2.0}
    faults = drawn(SEED, rates=rates)
    low, high = START + 100 * DAY, START + 104 * DAY
    faults += [Fault(f"gpu{at:03}", low + (at + 0.5) * DAY, low + (at + 0.7) * DAY, "gpu_memory") for at in range(4)]
    faults.sort(key=lambda fault: fault.start)
    lines = [log_writers.xid(fault) for fault in faults if fault.cause in CODES]
    kept = [line for line in lines if not (silent and low <= line[0] < high)]
    tables, _ = history_of(
        tmp_path, events_txt=log_writers.node_events(faults), kernel_log=log_writers.kernel(kept, "iso")
    )
    findings = [text for text in tables.findings if text.startswith("kernel: nothing between")]
    assert len(findings) == silent, tables.findings
    if silent:
        assert "outages name a code" in findings[0]
        begin = present(re.search(r"between (\S+) and (\S+) ", findings[0]))
        assert begin[1] <= utc(low)[:11] + "99"
        assert begin[2] >= utc(high)[:10]


SHAPES: dict[str, Callable[[float], float]] = {
    "": lambda _share: 9.6,
    "steadily from 2025-01-06 to": lambda share: 9.6 + 0.45 * share,
    "on 2025-03-": lambda share: 9.6 if share < 0.6 else 10.05,
    "steadily from 2025-01-06": lambda share: 9.6 + 0.45 * min(max(2 * share - 0.5, 0.0), 1.0),
}


@cases("how", SHAPES)
def test_a_step_time_that_drifts(how: str) -> None:
    """Steps that grow from 9.60 to 10.05 s, or in a middle part, are found with both; those that do not are none."""
    generator = np.random.default_rng(SEED)
    tables, now, count = Tables(), START, 0
    while now < START + 120 * DAY:
        length = 360 * float(generator.normal(SHAPES[how]((now - START) / (120 * DAY)), 0.1))
        tables.phases.append(TrainingPhase("run", 0, "step", now, now + length, count, count + 360))
        now, count = now + length, count + 360
    findings = training._drift(training.StepStretches.of(tables.phases))
    assert len(findings) == bool(how)
    if how:
        assert how in findings[0]
        assert re.search(r"from 9\.\d+ to 10\.0\d s \(\+4\.\d %\)", findings[0])
