"""Narrow tensor groups in theory: against the simulator, the strategy's packing, linear algebra and published facts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sim
from sim.formulas.goodput import expected_shares
from sim.policies.contracts import Bucket, JobView
from sim.policies.recovery import Narrow
from tests.cases import cases
from tests.harness import prepared
from tests.oracle.theory.narrow import domain_law, expected_pace, narrow_paces, narrow_shares
from tests.pace import SEED, one_in

DAY = 86400.0
REPLICATIONS = 20
LUCK = float(stats.t.isf(1e-4 / 2 / 6, REPLICATIONS - 1))
"""Student's quantile for one false alarm in 10,000 tests of six shares."""

BUCKETS = {
    "productive": [Bucket.PRODUCTIVE],
    "degraded": [Bucket.DEGRADED],
    "checkpoint_stall": [Bucket.CHECKPOINT_STALL],
    "lost_work": [Bucket.LOST_WORK],
    "detection": [Bucket.DETECTION],
    "restart": [Bucket.RESCHEDULE, Bucket.INITIALIZE, Bucket.RESTORE],
}

BASE: dict[str, Any] = {
    "replicas": 4,
    "domains": 2,
    "tensor": 8,
    "most": 7,
    "life": 40 * DAY,
    "repair": 2 * DAY,
    "boost": 1.0,
    "reshard": 0.0,
    "allowed": None,
    "others": math.inf,
    "downtime": 60.0,
    "days": 200,
}
CASES: dict[str, dict[str, Any]] = {
    "few GPUs missing": {"repair": 0.25 * DAY},
    "several missing at a time": {},
    "a third of the domains hurt, boosted": {"boost": 1.2, "replicas": 8, "domains": 1},
    "only some widths, resharding": {"allowed": [4, 6], "most": 4, "reshard": 0.05},
    "given up early, and replaced": {"most": 1, "repair": 6 * DAY, "life": 30 * DAY},
    "bugs that lose no GPU": {"others": 6 * 3600.0, "repair": 1 * DAY},
}


def exact(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{seconds!r} s"


def scenario_of(given: dict[str, Any]) -> sim.Prepared:
    """Return a job of nodes that are domains, with some nodes to replace them."""
    nodes = given["replicas"] * given["domains"]
    law = {"law": "exponential", "mean": exact(given["life"])}
    failures: list[dict[str, Any]] = [{"use": "component", "name": "gpu", "part": "gpu", "law": law}]
    if given["others"] < math.inf:
        law = {"law": "exponential", "mean": exact(given["others"])}
        failures.append({"use": "job", "name": "bug", "law": law})
    layout = {"data": given["replicas"], "tensor": given["tensor"], "pipeline": given["domains"]}
    return prepared(
        cluster={"nodes": nodes + 40, "gpus_per_node": given["tensor"], "fabric": {"rails": 1, "radix": 1024}},
        horizon=exact(given["days"] * DAY),
        jobs=[{"name": "job", "gpus": nodes * given["tensor"], "parallelism": layout}],
        failures=failures,
        detection={"time": exact(given["downtime"])},
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": "10 s", "restore": "60 s"}]},
        recovery={
            "use": "narrow",
            "tensor": given["tensor"],
            "launch": "240 s",
            "power_boost": given["boost"],
            "reshard": given["reshard"],
            "give_up_below": given["tensor"] - given["most"],
            **({"allowed": given["allowed"]} if given["allowed"] else {}),
        },
        repair={"time": {"law": "exponential", "mean": exact(given["repair"])}},
        seed=SEED,
    )


def theory(given: dict[str, Any]) -> dict[str, float]:
    """Return the shares of the formula."""
    times: tuple[float, float] = (given["life"], given["repair"])
    layout: tuple[int, int, int] = (given["replicas"], given["domains"], given["tensor"])
    paces = narrow_paces(given["tensor"], given["most"], allowed=given["allowed"], boost=given["boost"])
    more: dict[str, Any] = {name: given[name] for name in ("downtime", "reshard", "others")}
    return narrow_shares(1200.0, 10.0, *times, *layout, paces, restart=300.0, **more)


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_every_share_is_that_of_theory(name: str) -> None:
    """All six shares in their intervals; twice the rate, and a pace that every moment sets anew, would not be."""
    given = BASE | CASES[name]
    case = scenario_of(given)
    rows = []
    for number in range(REPLICATIONS):
        job = sim.run(case, number).jobs[0]
        rows.append(job.buckets / job.requested)
    table = np.array(rows)
    shares = theory(given)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    # All GPUs are there at first, for about a repair time; and the start is one more restart.
    begin = (given["repair"] * shares["degraded"] + 1500.0) / (given["days"] * DAY)
    errors = {}
    for key, buckets in BUCKETS.items():
        seen = table[:, buckets].sum(axis=1)
        errors[key] = float(seen.std(ddof=1)) / math.sqrt(REPLICATIONS)
        assert abs(seen.mean() - shares[key]) <= LUCK * errors[key] + begin, (
            key,
            seen.mean(),
            shares[key],
            errors[key],
            begin,
        )
    other = theory(given | {"life": given["life"] / 2})
    assert abs(table[:, 0].mean() - other["productive"]) > LUCK * errors["productive"], "twice the rate"


# --------------------------------------------------------------------------------------------- against brute force


def strategy(**keys: Any) -> Narrow:
    """Return the strategy whose rules the formula describes."""
    return Narrow.model_validate({"use": "narrow", "tensor": 8, "launch": "1 s", **keys})


@pytest.mark.parametrize(
    ("keys", "most"),
    [({}, 3), ({"allowed": [4, 6]}, 4), ({"power_boost": 1.2}, 3), ({"reshard": 0.1}, 2)],
    ids=["any", "some", "boost", "reshard"],
)
def test_the_expected_pace_is_the_mean_of_what_the_strategy_says(keys: dict[str, Any], most: int) -> None:
    """All that six domains may miss, each with its probability, at the pace that the strategy gives it."""
    recovery = strategy(**keys)
    law, after = domain_law(8, most, 100.0, 5.0), np.full(most + 1, 1 / (most + 1))
    mark = lambda purpose: 0.5  # noqa: E731
    view = JobView("job", 0.0, 6, 0, 3, 3, live=True, attempt=1, mark=mark, gpus=48, narrowed=())
    usual = struck = 0.0
    for lost in itertools.product(range(most + 1), repeat=6):
        pace = recovery.fraction(view._replace(narrowed=tuple((place, n) for place, n in enumerate(lost) if n)))
        usual += pace * math.prod(law[n] for n in lost)
        struck += pace * after[lost[0]] * math.prod(law[n] for n in lost[1:])
    paces = narrow_paces(8, most, allowed=keys.get("allowed"), boost=keys.get("power_boost", 1.0))
    reshard = keys.get("reshard", 0.0)
    assert expected_pace(paces, law, 3, 2, reshard=reshard) == pytest.approx(usual, rel=1e-12)
    assert expected_pace(paces, law, 3, 2, after=after, reshard=reshard) == pytest.approx(struck, rel=1e-12)


@cases("most", [0, 1, 3, 7])
def test_the_law_of_a_domain_by_linear_algebra(most: int) -> None:
    """The equilibrium of the chain with a reset, solved as linear equations."""
    life, outage = 100.0, 9.0
    generator = np.zeros((most + 1, most + 1))
    for lost in range(most + 1):
        generator[lost, lost + 1 if lost < most else 0] += 8 / life
        if lost:
            generator[lost, lost - 1] += lost / outage
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack((generator.T, np.ones(most + 1)))
    expected = np.linalg.lstsq(equations, np.append(np.zeros(most + 1), 1.0), rcond=None)[0]
    assert domain_law(8, most, life, outage) == pytest.approx(expected, rel=1e-9)


# ------------------------------------------------------------------------------------------------- special cases


def test_without_gaps_it_is_the_renewal_formula() -> None:
    """With domains that are replaced at once, or gaps that cost nothing, shares are those of a rigid job."""
    rigid = expected_shares(1200, 10, 50 * DAY / 256, 300, 60, 0)
    for paces in ([1.0], [1.0, 1.0, 1.0]):
        ours = narrow_shares(1200, 10, 50 * DAY, DAY, 8, 4, 8, paces, restart=300, downtime=60)
        assert ours["degraded"] == pytest.approx(0, abs=1e-12)
        for name, share in rigid.items():
            assert ours[name] == pytest.approx(share, rel=1e-9), name


def test_a_thousandth_of_all_gpus_costs_a_high_tensor_degree_a_tenth() -> None:
    """Published: nearly 10 % with 0.1 % of GPUs failed if replicas are dropped, almost nothing if power is boosted.

    arXiv 2504.06095, abstract. With domains of 64, packed into the fewest replicas, it is 6.2 %, with 72 it is 6.9 %:
    of the order that is printed, whose layout is not. Sanity.
    """
    for tensor in (64, 72):
        law = domain_law(tensor, 4, 999.0, 1.0)
        assert float(np.arange(5) @ law) / tensor == pytest.approx(1e-3, rel=2e-3)
        dropped = 1 - expected_pace([1, 0, 0, 0, 0], law, 400, 1)
        assert 0.06 < dropped < 0.10
        kept = 1 - expected_pace(narrow_paces(tensor, 4), law, 400, 1)
        assert kept == pytest.approx(1e-3, rel=0.02), "the share of GPUs that failed"
        assert 1 - expected_pace(narrow_paces(tensor, 4, boost=1.1), law, 400, 1) < 1e-12
