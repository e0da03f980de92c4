"""Units that differ: frailty makes counts negative binomial, sources share bad nodes, hazard ratios act on survival.

References
----------
M. Greenwood, G. U. Yule, "An inquiry into the nature of frequency distributions representative of multiple happenings",
Journal of the Royal Statistical Society 83 (1920): Poisson counts with a Gamma mean are negative binomial. D. R. Cox,
"Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972): proportional hazards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from sim.failures import Component, draw_trace
from sim.failures.variety import fleet_of
from tests.cases import cases
from tests.intervals import LEAST, Z, close
from tests.source_checks import pooled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.failures import Source

DAY = 86400.0
NODES = 20_000
COUNTS = {"node": NODES, "gpu": 8 * NODES, "nic": 8 * NODES, "rack": NODES}


def source_of(**entry: Any) -> Source:
    """Return a component source; without a law one failure in a hundred days."""
    base: dict[str, Any] = {"name": "fault", "part": "node"}
    if "law" not in entry:
        base["rate"] = "1 per 100 d"
    return Component.model_validate(base | entry).build(COUNTS, 1)


def by_node(source: Source, days: float, *others: Source, seed: int = 1) -> list[NDArray[np.int64]]:
    """Return the failures of each node in some days, of a source and of others beside it."""
    sources = (source, *others)
    drawn = draw_trace(sources, days * DAY, seed, 0)
    counts = []
    for index, each in enumerate(sources):
        slots = drawn.slot[drawn.source == index]
        counts.append(np.bincount(slots // max(each.slots_per_node, 1), minlength=NODES))
    return counts


# -------------------------------------------------------------------------------------------------------- frailty


@pytest.mark.parametrize(
    ("entry", "shape"),
    [
        ({"frailty": {"shape": 0.5}}, 0.5),
        ({"frailty": {"shape": 2, "of": "part"}}, 2.0),
        ({"part": "gpu", "rate": "1 per 800 d", "frailty": {"shape": 0.5}}, 0.5),
        ({"part": "nic", "rate": "1 per 800 d", "frailty": {"shape": 0.5}}, 0.5),
        ({"part": "gpu", "rate": "1 per 800 d", "frailty": {"shape": 0.5, "of": "part"}}, 4.0),
    ],
    ids=["node", "node as a part", "GPUs of frail nodes", "NICs of frail nodes", "frail GPUs"],
)
def test_gamma_frailty_makes_counts_negative_binomial(entry: dict[str, Any], shape: float) -> None:
    """Counts of nodes have variance / mean = 1 + mean / shape, and the whole negative binomial law.

    Eight frail GPUs of a node add up to a Gamma law with eight times the shape.
    """
    mean = 1.5
    counts = by_node(source_of(**entry), 100 * mean)[0]
    law = stats.nbinom(shape, shape / (shape + mean))
    variance, excess = float(law.var()), float(law.stats(moments="k"))
    assert variance / mean == pytest.approx(1 + mean / shape)
    assert close(counts, mean, variance)
    # The variance of a sample variance: (kurtosis - 1) sigma^4 / n.
    error = variance * math.sqrt((excess + 2) / NODES)
    assert abs(counts.var(ddof=1) - variance) <= Z * error
    assert abs(variance - mean) > 2 * Z * error, "equal nodes must fall outside"
    observed = np.bincount(np.minimum(counts, 40), minlength=41).astype(np.float64)
    expected = NODES * law.pmf(np.arange(41))
    expected[40] += NODES * law.sf(40)
    assert stats.chisquare(*pooled(observed, expected)).pvalue > LEAST


def test_equal_nodes_count_as_poisson() -> None:
    """Without frailty variance over mean is 1."""
    counts = by_node(source_of(), 150)[0]
    # The variance of a Poisson sample variance is (1 / mean + 2) mean^2 / n.
    assert abs(counts.var(ddof=1) - 1.5) <= Z * 1.5 * math.sqrt((1 / 1.5 + 2) / NODES)


def covariance(one: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[float, float]:
    """Return the covariance of two counts over nodes, and its standard error."""
    products = (one - one.mean()) * (other - other.mean())
    return float(products.mean()), float(products.std(ddof=1)) / math.sqrt(NODES)


@cases("part", ["node", "gpu"])
def test_a_shared_frailty_meets_the_same_bad_nodes(part: str) -> None:
    """Two sources with one frailty have the covariance mean x mean / shape over nodes."""
    rate = "1 per 100 d" if part == "node" else "1 per 800 d"
    one = source_of(frailty={"shape": 0.8})
    other = source_of(name="other", part=part, rate=rate, frailty={"shape": 0.8})
    found, error = covariance(*by_node(one, 150, other))
    assert abs(found - 1.5 * 1.5 / 0.8) <= Z * error
    assert found > 2 * Z * error


@cases(
    "changes",
    [
        {"frailty": {"shape": 0.8, "shared": "others"}},
        {"part": "rack", "frailty": {"shape": 0.8}},
        {},
    ],
    ids=["another name", "racks are no nodes", "no frailty"],
)
def test_other_sources_have_nothing_to_do_with_it(changes: dict[str, Any]) -> None:
    """Frailties with different names, of different parts, or none at all, are uncorrelated over nodes."""
    found, error = covariance(*by_node(source_of(frailty={"shape": 0.8}), 150, source_of(name="other", **changes)))
    assert abs(found) <= Z * error


@cases("replication", [0, 1])
def test_frailties_follow_the_gamma_law_with_mean_one(replication: int) -> None:
    """Hazard ratios are Gamma distributed, and drawn anew in each replication."""
    source = source_of(frailty={"shape": 0.7})
    ratio = fleet_of(source, 1, replication).ratio
    assert ratio is not None
    assert stats.kstest(ratio, stats.gamma(0.7, scale=1 / 0.7).cdf).pvalue > LEAST
    other = fleet_of(source, 1, 1 - replication).ratio
    assert other is not None
    assert abs(float(np.corrcoef(ratio, other)[0, 1])) <= Z / math.sqrt(NODES)


# ------------------------------------------------------------------------------------------------- hazard ratios


@cases("shape", [0.5, 1.0, 3.0])
@cases("ratio", [0.25, 8.0])
def test_a_hazard_ratio_scales_a_weibull_law(shape: float, ratio: float) -> None:
    """With the hazard ratio h, Weibull lives keep their shape and have the scale times h^(-1 / shape)."""
    law = {"law": "weibull", "shape": shape, "scale": "50 d"}
    source = source_of(law=law, batches=[{"share": 1, "ratio": ratio}], renews="never")
    drawn = draw_trace([source], math.inf, 3, 0)
    assert stats.kstest(drawn.time, stats.weibull_min(shape, scale=50 * DAY * ratio ** (-1 / shape)).cdf).pvalue > LEAST
    plain = draw_trace([source_of(law=law, renews="never")], math.inf, 3, 0)
    assert stats.kstest(plain.time, stats.weibull_min(shape, scale=50 * DAY).cdf).pvalue > LEAST


@cases("ratio", [0.25, 8.0])
def test_a_hazard_ratio_is_a_power_of_survival(ratio: float) -> None:
    """Whatever the law, a unit with the hazard ratio h survives x with P(X > x)^h: here a lognormal life."""
    law = {"law": "lognormal", "median": "50 d", "sigma": 0.8}
    source = source_of(law=law, batches=[{"share": 1, "ratio": ratio}], renews="never")
    survival = stats.lognorm(0.8, scale=50 * DAY).sf(draw_trace([source], math.inf, 4, 0).time) ** ratio
    assert stats.kstest(survival, "uniform").pvalue > LEAST


# ------------------------------------------------------------------------------------------- batches, covariates


def test_batches_are_shares_of_the_nodes() -> None:
    """Each node is in a batch with its share; all its GPUs are, and it is in the same for every source."""
    law = {"law": "weibull", "shape": 2, "mean": "30 d"}
    batches = [{"share": 0.2, "law": law}, {"share": "5 %", "ratio": 10}]
    fleet = fleet_of(source_of(part="gpu", law=law, batches=batches), 1, 0)
    assert fleet.which is not None
    assert fleet.ratio is not None
    which, ratio = fleet.which.reshape(NODES, 8), fleet.ratio.reshape(NODES, 8)
    assert (which == which[:, :1]).all()
    assert (ratio == ratio[:, :1]).all()
    for found, share in ((which[:, 0] == 1, 0.2), (ratio[:, 0] == 10, 0.05), (ratio[:, 0] == 1, 0.95)):
        assert abs(found.mean() - share) <= Z * math.sqrt(share * (1 - share) / NODES)
    assert not ((which == 1) & (ratio == 10)).any()
    other = fleet_of(source_of(name="other", batches=batches), 1, 0)
    assert other.which is not None
    assert other.ratio is not None
    assert np.array_equal(other.which, which[:, 0])
    assert np.array_equal(other.ratio, ratio[:, 0])


def test_batches_fail_by_their_own_rates() -> None:
    """Three batches with hazards 1, 5 and 0.2 of the source's: counts of nodes are a mixture of Poisson laws."""
    entry = [{"share": 0.3, "ratio": 5}, {"share": 0.2, "law": {"law": "exponential", "mean": "500 d"}}]
    counts = by_node(source_of(batches=entry), 100)[0]
    law = 0.5 * stats.poisson(1).pmf(np.arange(31)) + 0.3 * stats.poisson(5).pmf(np.arange(31))
    law += 0.2 * stats.poisson(0.2).pmf(np.arange(31))
    observed = np.bincount(np.minimum(counts, 30), minlength=31).astype(np.float64)
    assert stats.chisquare(*pooled(observed, NODES * law / law.sum())).pvalue > LEAST


def test_covariates_go_round_the_nodes() -> None:
    """Node i has level (i // stride) mod levels; ratios of several covariates multiply."""
    row = {"name": "row", "ratios": [1, 2, 4], "stride": 10}
    supply = {"name": "supply", "ratios": [0.5, 1.5]}
    counts = by_node(source_of(covariates=[row, supply]), 100)[0]
    node = np.arange(NODES)
    expected = np.array([1.0, 2.0, 4.0])[node // 10 % 3] * np.array([0.5, 1.5])[node % 2]
    cell = node // 10 % 3 * 2 + node % 2
    # Poisson counts, not a fixed total: the sum of squares has as many degrees of freedom as there are cells.
    observed, mean = np.bincount(cell, counts), np.bincount(cell, expected)
    assert stats.chi2(6).sf(float(((observed - mean) ** 2 / mean).sum())) > LEAST
    assert abs(observed[1] - observed[0]) > Z * math.sqrt(observed[0] + observed[1])
