"""Laws of lives with late entry and censoring: textbook values, another library, published lives, intervals."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.logs import estimate
from ettrick.analysis.logs import lives as laws
from ettrick.analysis.logs.lives import SurvivalData
from ettrick.cli import app
from tests.cases import cases
from tests.intervals import Z
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

needs_data = pytest.mark.skipif(not (DATA / "logs").exists(), reason="skipped: reference data not present")


def met(generator: np.random.Generator, n: int, law: Callable[[int], Any]) -> SurvivalData:
    """Return lives of a law in years: 40 % met late, at 0 to 3, and all watched for 1 to 6."""
    entry = np.where(generator.random(n) < 0.4, generator.uniform(0, 3, n), 0.0)
    life = law(n)
    while (gone := life <= entry).any():
        life[gone] = law(int(gone.sum()))
    end = entry + generator.uniform(1, 6, n)
    return SurvivalData.of(np.minimum(life, end), life <= end, entry)


def test_weibull_with_censoring() -> None:
    """Ten failures and ten survivors of the NIST handbook: shape 1.7208, scale 606.53."""
    ages = [54, 187, 216, 240, 244, 335, 361, 373, 375, 386]
    law = laws.weibull(SurvivalData.of(ages + [500] * 10, [True] * 10 + [False] * 10))
    assert law.parameters["shape"].value == pytest.approx(1.7208, abs=5e-5)
    assert law.parameters["scale"].value == pytest.approx(606.53, abs=5e-3)
    low, high = law.parameters["shape"][1:]
    assert low < 1.7208 < high


def test_late_entry() -> None:
    """A unit that is met at an age says nothing of younger ones: of exponential lives only the time lived counts."""
    generator = np.random.default_rng(SEED)
    entry = generator.uniform(0, 3, 4000)
    life = generator.weibull(2.0, 4000) * 4
    seen = life > entry
    lives = SurvivalData.of(np.minimum(life, 5)[seen], (life < 5)[seen], entry[seen])
    law = laws.weibull(lives)
    # Of about 3,000 lives the shape is known to 2 %; without the entry it comes out far above 2.
    assert law.parameters["shape"].low < 2 < law.parameters["shape"].high
    assert laws.weibull(SurvivalData.of(lives.age, lives.failed)).parameters["shape"].low > 2.2
    constant = laws.exponential(lives)
    assert constant.parameters["mean"].value == pytest.approx((lives.age - lives.entry).sum() / lives.failed.sum())


def test_mean_cumulative() -> None:
    """Events over units at risk: units that leave early do not dilute the later ones."""
    # Two units, of which one is watched from 0 to 4 and one from 0 to 8.
    mean = laws.mean_cumulative([1.0, 2.0, 6.0], np.arange(9.0), np.array([2.0, 2, 2, 2, 1, 1, 1, 1]))
    assert mean.tolist() == pytest.approx([0, 0, 0.5, 1, 1, 1, 1, 2, 2])


def test_another_library() -> None:
    """With censoring and late entry all estimators give what lifelines gives: laws, Kaplan-Meier, Nelson-Aalen."""
    lifelines = pytest.importorskip("lifelines")
    generator = np.random.default_rng(SEED)
    lives = met(generator, 300, lambda n: 5 * np.exp(0.8 * generator.standard_normal(n)))
    data = {"event_observed": lives.failed, "entry": lives.entry}
    theirs = lifelines.WeibullFitter().fit(lives.age, **data)
    ours = laws.weibull(lives)
    assert ours.parameters["shape"].value == pytest.approx(theirs.rho_, rel=1e-4)
    assert ours.parameters["scale"].value == pytest.approx(theirs.lambda_, rel=1e-4)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood_, abs=1e-4)
    theirs = lifelines.LogNormalFitter().fit(lives.age, **data)
    ours = laws.lognormal(lives)
    found = [ours.parameters[name] for name in ("median", "sigma")]
    assert [each.value for each in found] == pytest.approx([math.exp(theirs.mu_), theirs.sigma_], rel=1e-4)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood_, abs=1e-4)
    errors = theirs.summary["se(coef)"]
    widths = [math.log(each.high / each.low) / 2 / 1.96 for each in found]
    assert widths == pytest.approx([errors["mu_"], errors["sigma_"] / theirs.sigma_], rel=0.01)
    theirs = lifelines.ExponentialFitter().fit(lives.age, **data)
    assert laws.exponential(lives).parameters["mean"].value == pytest.approx(theirs.lambda_, rel=1e-4)
    theirs = lifelines.PiecewiseExponentialFitter([2.0, 4.0]).fit(lives.age, **data)
    hazards = [each.value for each in laws.piecewise(lives, [0.0, 2.0, 4.0]).parameters.values()]
    assert hazards == pytest.approx([1 / mean for mean in theirs.summary["coef"]], rel=1e-3)
    at = lives.age[lives.failed]
    theirs = lifelines.KaplanMeierFitter().fit(lives.age, **data)
    assert laws.survival(lives, at) == pytest.approx(theirs.predict(at).to_numpy(), rel=1e-9)
    theirs = lifelines.NelsonAalenFitter(nelson_aalen_smoothing=False).fit(lives.age, **data)
    assert laws.cumulative_hazard(lives, at) == pytest.approx(theirs.predict(at).to_numpy(), rel=1e-9)
    # Repairs, some of them open.
    ((_, median, sigma),) = estimate.two_lognormals(lives.age, lives.failed, parts=1).parts
    theirs = lifelines.LogNormalFitter().fit(lives.age, lives.failed)
    assert (median, sigma) == pytest.approx((math.exp(theirs.mu_), theirs.sigma_), rel=1e-4)


def intervals(generator: np.random.Generator) -> dict[str, tuple[estimate.Estimate, float]]:
    """Return estimates from data drawn again, each with its truth."""
    aged = met(generator, 200, lambda n: 5 * generator.weibull(2.0, n))
    skewed = met(generator, 200, lambda n: 5 * np.exp(0.8 * generator.standard_normal(n)))
    constant = met(generator, 200, lambda n: generator.exponential(5.0, n))
    of_weibull, of_lognormal = laws.weibull(aged).parameters, laws.lognormal(skewed).parameters
    moments = 100 * generator.random(generator.poisson(200)) ** (1 / 0.7)
    ratio = generator.gamma(2, 0.5, 400)
    halves = generator.poisson(2 * ratio), generator.poisson(2 * ratio)
    few = np.where(generator.random(400) < 0.05, 6.0, 1.0) / 1.25  # variation (0.05 36 + 0.95) / 1.25² - 1
    return {
        "rate": (estimate.rate(int(generator.poisson(25)), 1000.0), 0.025),
        "share": (estimate.share(int(generator.binomial(200, 0.3)), 200), 0.3),
        "median": (estimate.median(np.exp(2 * generator.standard_normal(200))), 1.0),
        "trend": (estimate.trend(moments, 100.0).exponent, 0.7),
        "mean": (laws.exponential(constant).parameters["mean"], 5.0),
        "shape": (of_weibull["shape"], 2.0),
        "scale": (of_weibull["scale"], 5.0),
        "lognormal median": (of_lognormal["median"], 5.0),
        "lognormal sigma": (of_lognormal["sigma"], 0.8),
        "lasting": (estimate.split_half(*halves), 0.5),
        "lasting of a few": (estimate.split_half(*(generator.poisson(2 * few) for _ in range(2))), 0.76),
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_intervals_cover(count: int) -> None:
    """95 % intervals hold the truth in 95 % of new data, by four standard errors; estimates are off by 10 % at most.

    Every format gives the same tables (`test_logs.py`), so that what covers from tables covers from each format.
    """
    generator = np.random.default_rng(SEED)
    drawn = [intervals(generator) for _ in range(count)]
    tolerance = Z * math.sqrt(0.95 * 0.05 / count)
    for name in drawn[0]:
        pairs = [each[name] for each in drawn]
        inside = np.mean([found.low <= truth <= found.high for found, truth in pairs])
        ratio = np.mean([found.value / truth for found, truth in pairs])
        print(f"{name:18}{inside:7.3f}{ratio:8.3f}")  # noqa: T201
        # Exact intervals of counts, and the wider one of two errors, hold the truth a little more often.
        more = 0.015 * (name in ("share", "median") or "lasting" in name)
        assert 0.95 - tolerance <= inside <= 0.95 + tolerance + more, name
        assert ratio == pytest.approx(1, abs=0.1), name


def test_laws_that_do_not_fit_are_found() -> None:
    """A law is rejected where another one made the lives, and in about 5 % of those that it made itself."""
    generator = np.random.default_rng(SEED)
    lives = SurvivalData.of(np.concatenate((generator.exponential(0.2, 60), 5 * generator.weibull(4.0, 240))))
    assert laws.misfit(laws.weibull(lives), lives, laws.weibull, draws=40) < 0.05
    own = [met(generator, 100, lambda n: generator.exponential(5.0, n)) for _ in range(100)]
    found = [laws.misfit(laws.exponential(each), each, laws.exponential, 39, at) for at, each in enumerate(own)]
    assert sum(p <= 0.05 for p in found) <= 5 + Z * math.sqrt(100 * 0.05 * 0.95)
    assert 0.35 < np.mean(found) < 0.65


def test_the_law_that_is_written_is_tested() -> None:
    """Parts of which a tenth dies in its first days: no smooth law has both ends, and what is written says so.

    Where a law made the lives itself, that one is written, and fits.
    """
    generator = np.random.default_rng(SEED)
    life = np.where(generator.random(1500) < 0.1, generator.exponential(5.0, 1500), 900 * generator.weibull(5.0, 1500))
    end = generator.uniform(300, 1100, 1500)
    batch = laws._batch("mixed", SurvivalData.of(np.minimum(life, end), life <= end), Counter())
    aic = {law.use: law.aic for law in batch.laws}
    smooth = min((use for use in aic if use != "piecewise"), key=lambda use: aic[use])
    assert aic["piecewise"] < aic[smooth] - 100
    assert batch.chosen == "piecewise"
    lives = SurvivalData.of(np.minimum(life, end), life <= end)
    assert laws.misfit(laws.weibull(lives), lives, laws.weibull, draws=39) < 0.05
    own = laws._batch("own", met(generator, 400, lambda n: 5 * generator.weibull(2.0, n)), Counter())
    assert own.chosen == "weibull"
    assert present(own.misfit) > 0.001


@needs_data
def test_titan_wears_out_by_batch() -> None:
    """Published lives: Weibull 2.64 and 7.11 y for the old batch, and still wrong; the new one is exponential."""
    with gzip.open(DATA / "titan_gpu_life" / "gpu_life.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if float(row["life_days"]) > 0]

    def lives(batch: str) -> SurvivalData:
        mine = [row for row in rows if row["batch"] == batch]
        return SurvivalData.of([float(row["life_days"]) / 365 for row in mine], [row["failed"] == "1" for row in mine])

    old, new = lives("old"), lives("new")
    law = laws.weibull(old)
    assert law.parameters["shape"] == pytest.approx((2.64, 2.58, 2.70), abs=0.006)
    assert law.parameters["scale"].value == pytest.approx(7.1125, abs=5e-5)
    assert laws.best_law([laws.exponential(old), law]) is law
    assert laws.misfit(law, old, laws.weibull, draws=20) < 0.05
    hazards = [each.value for each in laws.piecewise(old, [0, 1.5, 2, 2.5, 3]).parameters.values()]
    assert hazards[0] < 0.002
    assert hazards[1:4] == pytest.approx([0.016, 0.080, 0.163], rel=0.03)
    assert 0.12 < hazards[4] < 0.15
    smooth = [laws.exponential(new), laws.weibull(new), laws.lognormal(new)]
    assert laws.best_law(smooth).use == "exponential"
    assert [round(of.aic) for of in (laws.exponential(old), law, laws.lognormal(old))] == [37328, 32901, 32512]


def fitted(folder: Path, lines: list[str], *options: str, status: int = 0) -> Any:
    """Return the document of ettrick fit of a table of lives, or what it printed if it ends otherwise."""
    (folder / "lives.csv").write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["fit", str(folder / "lives.csv"), "-q", "--out", str(folder / "out"), *options])
    assert done.exit_code == status, done.output
    return json.loads((folder / "out" / "fit.json").read_text()) if not status else done.output


SITE = """\
extends: out/failures.yaml
name: site
cluster: {nodes: 16, gpus_per_node: 8}
horizon: 30 d
jobs: [{name: train, gpus: 96, step_time: 10 s}]
repair: {time: 4 h}
detection: {time: 2 min}
checkpoint: {tiers: [{interval: 1 h, mode: blocking, write: 10 s, restore: 1 min}]}
recovery: {use: full-restart, initialize: 5 min}
"""


@pytest.mark.parametrize("form", ["days", "hours"])
def test_tables_of_ages(form: str, tmp_path: Path) -> None:
    """Ages in any unit, with a cause or a mark of failure, give the law that drew them, and what is written runs."""
    generator = np.random.default_rng(SEED)
    lives = met(generator, 200, lambda n: 5 * generator.weibull(2.0, n))
    rows = enumerate(zip(lives.entry, lives.age, lives.failed, strict=True))
    if form == "days":
        lines = ["serial,batch,life_days,failed,entry_days"]
        lines += [f"s{n},x,{365 * age:.6f},{int(failed)},{365 * entry:.6f}" for n, (entry, age, failed) in rows]
    else:
        lines = ["part,batch,age_h,cause,entry_h"]
        lines += [
            f"s{n},x,{8760 * age:.6f},{'dbe' if failed else ''},{8760 * entry:.6f}" for n, (entry, age, failed) in rows
        ]
    (batch,) = fitted(tmp_path, lines)["batches"]
    assert (batch["parts"], batch["failures"], batch["chosen"]) == (200, int(lives.failed.sum()), "weibull")
    assert batch["late"] == int((lives.entry > 0).sum())
    (law,) = (law for law in batch["laws"] if law["use"] == "weibull")
    ours = laws.weibull(lives).parameters
    assert law["parameters"]["shape"]["value"] == pytest.approx(ours["shape"].value, rel=1e-4)
    assert law["parameters"]["scale"]["value"] == pytest.approx(365 * ours["scale"].value, rel=1e-4)
    for curve in batch["curves"].values():
        outside = [not low <= y <= high for y, low, high in zip(curve["y"], curve["low"], curve["high"], strict=True)]
        assert np.mean(outside) < 0.3, "the law lies about its data"
    (tmp_path / "site.yaml").write_text(SITE)
    assert [source.name for source in sim.prepare(sim.load(tmp_path / "site.yaml")).sources] == ["part"]


def test_tables_of_dates(tmp_path: Path) -> None:
    """Dates of installation and removal: what the window did not see is late entry, and what is in service is open."""
    lines = [
        "serial,start,end,cause",
        "a,2024-01-01T00:00:00Z,2024-12-31T00:00:00Z,dbe",  # gone before the window
        "b,2024-01-01T00:00:00Z,2025-07-01T00:00:00Z,dbe",
        "c,2024-01-01T00:00:00Z,2025-03-01T00:00:00Z,",
        "d,2025-02-01T00:00:00Z,,",
        "e,2024-01-01T00:00:00Z,2026-02-01T00:00:00Z,dbe",  # after it
        "f,2025-02-01T00:00:00Z,2025-01-01T00:00:00Z,dbe",
    ]
    found = fitted(tmp_path, lines, "--window", "2025-01-01T00:00:00Z/2026-01-01T00:00:00Z")
    (batch,) = found["batches"]
    assert (batch["parts"], batch["failures"], batch["late"]) == (4, 1, 3)
    assert 365 * batch["years"] == pytest.approx(181 + 59 + 334 + 365)
    assert {row["rule"]: row["number"] for row in found["dropped"]} == {
        "a life that ended before it was met": 1, "no time in service": 1,
    }  # fmt: skip


@cases(
    ("lines", "status", "text"),
    [
        (["serial,life_days", "a,5"], 2, "lives.csv:1: has no column for the failed or cause"),
        (["serial,life_days,failed", "a,5,0"], 1, "none of 1 parts failed"),
        (["serial,life_days,failed", "a,x,0"], 2, "lives.csv:2: no line of this log (lives) can be used"),
        (["serial,start,cause", "a,2025-01-01T00:00:00,x"], 2, "--timezone"),
    ],
)
def test_lives_that_cannot_be_used(lines: list[str], status: int, text: str, tmp_path: Path) -> None:
    """Each mistake is one line and its status."""
    output = fitted(tmp_path, lines, status=status)
    assert text in output
    assert output.count("\n") == 1
