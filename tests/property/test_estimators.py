"""No estimator of a fit raises, and all of its numbers are finite: of equal, single, few and evenly spaced data too."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.logs import check, estimate, lives, pipeline, write
from ettrick.analysis.logs.estimate import ClusterModel, UpTimes
from ettrick.analysis.logs.lives import SurvivalData
from ettrick.analysis.logs.tables import NoModelError, utc
from ettrick.analysis.results.models import Provenance
from tests.log_writers import START, name
from tests.property.common import examples
from tests.typed import present

if TYPE_CHECKING:
    from pathlib import Path

    from ettrick.analysis.logs.estimate import Clustering

Array = Any

DAYS = 100.0


def times(least: int = 1, most: int = 45) -> st.SearchStrategy[Array]:
    """Return moments in a window of `DAYS`, in order: evenly spaced, all at once, at the ends, in a cluster, or any."""
    counts, starts = st.integers(least, most), st.floats(0.0, DAYS - 1)
    spaced = st.builds(lambda n, start: np.linspace(start, DAYS - 0.5, n), counts, starts)
    at_once = st.builds(lambda n, start: np.full(n, start), counts, st.sampled_from([0.0, 1e-6, 50.0, DAYS]))
    dense = st.builds(lambda n, start: start + np.arange(n) * 1e-5, counts, starts)
    free = st.lists(st.floats(0.0, DAYS), min_size=least, max_size=most).map(lambda values: np.sort(values))
    return st.one_of(spaced, at_once, dense, free)


def is_finite(numbers: Any) -> bool:
    """Return whether no number is NaN or infinite."""
    return bool(np.isfinite(np.asarray(numbers, dtype=np.float64)).all())


@examples(100)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.floats(1e-3, 1e6))
def test_rates_that_lend_each_other_strength(counts: list[int], time: float) -> None:
    """Counts that are equal, or one alone, share one rate: the law of rates has an end."""
    found = estimate.pooled(counts, np.full(len(counts), time))
    assert is_finite([found.shape, found.rate, *found.rates])
    low, high = min(counts) / time, max(max(counts), 0.5) / time
    assert (found.rates >= low * (1 - 1e-3)).all()
    assert (found.rates <= high * (1 + 1e-3)).all()


@examples(100)
@given(times(), st.integers(1, 30), st.booleans())
def test_counts_and_trends(moments: Array, windows: int, watched: bool) -> None:
    """Trend, dispersion and changes of the rate, also over windows in which nobody watched."""
    found = estimate.trend(moments, DAYS)
    assert is_finite([*found.exponent, found.scale])
    counts = np.histogram(moments, np.linspace(0, DAYS, windows + 1))[0]
    exposure = np.full(windows, 1.0 if watched else 0.0)
    assert is_finite(estimate.dispersion(counts, exposure))
    for change in estimate.changes(counts, exposure):
        assert is_finite(change)
    half = estimate.split_half(counts, counts[::-1])
    assert math.isnan(half.value) or is_finite(half)


@examples(100)
@given(times(), st.floats(1e-6, 1e6), st.integers(0, 2**20))
def test_durations(values: Array, unit: float, bits: int) -> None:
    """Durations that are equal, or of which few are complete, have a law with a width of its own."""
    length = np.maximum(values, 1e-3) * unit
    done = np.array([at == 0 or bool(bits >> at % 20 & 1) for at in range(len(length))])
    law = estimate.duration_law(length, done)
    assert is_finite([law.log_likelihood, *(number for part in law.parts for number in part)])
    assert all(estimate.LEAST_SIGMA * 0.999 <= sigma <= estimate.MOST_SIGMA * 1.001 for *_, sigma in law.parts)
    assert is_finite(estimate.median(length).value)


@examples(60, on_push=5)
@given(st.lists(times(most=12), min_size=1, max_size=6), st.integers(0, 60))
def test_spells(nodes: list[Array], idle: int) -> None:
    """Repeats and bad nodes of any nodes, and draws: all are what a scenario may state."""
    rows = []
    for node, moments in enumerate(nodes):
        gaps = np.maximum(np.diff(moments, prepend=0.0, append=DAYS), 1e-5)
        rows += [(node, gap, at < len(gaps) - 1, at > 0) for at, gap in enumerate(gaps)]
    rows += [(node, DAYS, False, False) for node in range(len(nodes), len(nodes) + idle)]
    spells = UpTimes(*map(np.array, zip(*rows, strict=True)), len(nodes) + idle)  # type: ignore[arg-type]
    verdict = estimate.clustering(spells)
    draws = ClusterModel(spells).draws(verdict.chosen, 20)
    assert {verdict.relapse, verdict.frailty} <= {"yes", "no", "undecided"}
    fit: Clustering
    for fit in (*verdict.fits.values(), *draws):
        assert is_finite([fit.mu, fit.probability, fit.median, fit.sigma, fit.cv2, fit.log_likelihood])
        assert fit.probability <= estimate.MOST_RELAPSE * 1.001
        assert fit.cv2 <= estimate.MOST_CV2 * 1.001


@examples(60)
@given(times(least=2), st.integers(1, 5))
def test_statistics_of_the_check(moments: Array, nodes: int) -> None:
    """Each statistic is a number, or there are too few outages for it."""
    node = np.arange(len(moments)) % nodes
    found = check.statistics(check.Faults(node, moments, np.minimum(moments + 0.1, DAYS), nodes, DAYS))
    assert not np.isinf(found).any()
    assert found[0] == len(moments)


@examples(40, on_push=5)
@given(times(least=1, most=40), st.integers(0, 2**20), st.floats(0.0, 0.999))
def test_lives(ages: Array, bits: int, share: float) -> None:
    """Lives that are equal, that nearly all ended, or that were met just before they ended."""
    age = np.maximum(ages, 1e-3)
    failed = np.array([at % 20 < 10 or bool(bits >> at % 20 & 1) for at in range(len(age))])
    met = SurvivalData.of(age, failed, share * age)
    for law in (lives.exponential(met), lives.weibull(met), lives.lognormal(met), lives.piecewise(met, [0.0, 50.0])):
        assert is_finite([law.log_likelihood, *(each.value for each in law.parameters.values())]), law.use
        assert is_finite(law.hazard(np.linspace(0.0, age.max(), 7)[1:]))


FEW = [("gpu_off_bus", 2), ("gpu_memory", 2), ("gpu_firmware", 1), ("nvlink", 1)]

CASES = {
    "few of four causes": [
        (DAYS * (at + 0.3) / 6, cause) for at, cause in enumerate(c for c, n in FEW for _ in range(n))
    ],
    "evenly spaced": [(at * 2.0, "nic") for at in range(1, 41)],
    "one": [(50.0, "nic")],
    "all at once": [(50.0, "nic")] * 8,
    "all at the end": [(DAYS - 1e-3, "nic")] * 25,
    "two a node, a second apart": [(10 + at // 2 + at % 2 * 3e-5, "nic") for at in range(60)],
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_of_little(case: str, tmp_path: Path) -> None:
    """What is too little for a law still gives a folder that loads, with shares between 0 and 1."""
    rows = CASES[case]
    nodes = 8 if "all" in case or "one" in case else 4
    lines = [
        f"{name(at // 2 % nodes if 'second' in case else at % nodes)},{utc(START + 86400 * start)},"
        f"{utc(START + 86400 * start + (1 if 'second' in case else 600))},{cause}"
        for at, (start, cause) in enumerate(rows)
    ]
    (tmp_path / "outages.csv").write_text("\n".join(["node,start,end,cause", *lines]) + "\n")
    window = START, START + 86400 * DAYS
    request = pipeline.FitOptions([str(tmp_path / "outages.csv")], nodes=nodes, window=window, simulations=20)
    try:
        found = pipeline.run(request, Provenance(version="", python="", numpy="", command=""))
    except NoModelError:
        pytest.fail("a rate is known of one outage")
    assert isinstance(found, pipeline.FitResult)
    json.dumps(found.document.model_dump(), allow_nan=False)
    for file, text in found.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    sim.prepare(sim.load(tmp_path / write.SCENARIO))
    cost = present(found.document.cost)
    assert all(0 <= share <= 1 for share in (cost.model, cost.p05, cost.p95, cost.replay) if share is not None)
