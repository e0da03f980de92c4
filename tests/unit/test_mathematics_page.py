"""The page of the mathematics: its picture is current, it names all of the theory, and what it derives is so."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from scipy.optimize import minimize_scalar

import sim
from docs.pictures.mathematics import PICTURE, efficiency_of, main, picture, simulated
from sim.formulas.goodput import efficiency, optimal_interval
from tests.cases import cases
from tests.intervals import Z

DOCS = Path(sim.__file__).parents[1] / "docs" / "explanation"
PAGE = (DOCS / "mathematics.md").read_text(encoding="utf-8")
THEORY = {path.stem for path in (Path(sim.__file__).parent / "formulas").glob("[a-z]*.py")}
PLUMBING = {"arrays"}
"""Modules of theory that say nothing of jobs."""


@pytest.mark.nightly
def test_the_picture_is_current() -> None:
    """The picture of the page is the one that the program draws now, byte for byte, and it is well-formed."""
    drawn = picture()
    assert (DOCS / "images" / PICTURE).read_text(encoding="utf-8") == drawn
    words = {element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")}
    assert {"Young", "Daly", "exact", "best τ for each M", "M = 15 min", "τ = 3 h"} <= words
    assert f"images/{PICTURE}" in PAGE


@pytest.mark.parametrize(("interval", "mtti"), [(300.0, 600.0), (1800.0, 7200.0), (10_800.0, 12 * 86_400.0)])
def test_the_dots_are_the_job_of_the_lines(interval: float, mtti: float) -> None:
    """A dot is where the line is, within its interval and the end of a run, and has the place that it was given."""
    dot = simulated(interval, mtti, 77.0, replications=8)
    # Half of a 95 % interval of 8 is 2.36 standard errors; Student's law has wider tails than the normal one.
    error = dot.half / 2.36
    assert abs(dot.mean - efficiency_of(interval, mtti)) <= 2 * Z * error + min(interval, mtti) / (400 * mtti)
    assert dot.place == 77.0
    assert abs(dot.mean - efficiency_of(interval, mtti / 4)) > 2 * Z * error


def test_a_folder_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A picture that can be written is, with status 0; one that cannot is one line and the status 2."""
    monkeypatch.setattr("docs.pictures.mathematics.picture", lambda: "drawn")
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / PICTURE).read_text(encoding="utf-8") == "drawn"
    assert main([str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_the_page_names_all_of_the_theory() -> None:
    """Each module of theory about jobs or nodes stands on the page, and nothing that is named like one is missing."""
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert named >= THEORY - PLUMBING, THEORY - PLUMBING - named
    assert named - {"run", "explain"} <= THEORY


def test_the_share_at_the_best_interval() -> None:
    """At the exact optimum E is (1 - tau / M) e^(-lambda (u + w)) / (1 + lambda d), and nearly its expansion."""
    for write, mtti in ((5.0, 86_400.0), (60.0, 3600.0), (600.0, 900.0)):
        best = optimal_interval(write, mtti)
        found = efficiency(best, write, mtti, 100.0, 50.0, 30.0)
        assert found == pytest.approx((1 - best / mtti) * math.exp(-130 / mtti) / (1 + 50 / mtti), rel=1e-9)
    light = efficiency(optimal_interval(1.0, 1e6), 1.0, 1e6, 100.0, 50.0, 30.0)
    assert light == pytest.approx(1 - math.sqrt(2e-6) - 180e-6, abs=3e-6)


@cases("factor", [0.5, 2.0])
def test_twice_the_best_interval_costs_a_quarter(factor: float) -> None:
    """An interval wrong by a factor of two costs a quarter of sqrt(2 b / M), where failures are light."""
    best = optimal_interval(1.0, 1e8)
    cost = efficiency(best, 1.0, 1e8, 0.0) - efficiency(factor * best, 1.0, 1e8, 0.0)
    assert cost == pytest.approx(0.25 * math.sqrt(2e-8), rel=1e-3)


def test_the_expansion_of_the_share() -> None:
    """The second-order terms of the page are those of the formula: what is left falls with the cube of the rate."""
    tau, write, restart, drain, downtime = 100.0, 9.0, 20.0, 30.0, 15.0
    left = []
    for rate in (2e-5, 1e-5):
        y, z, v = rate * (tau + write), rate * (restart + drain), rate * downtime
        second = y**2 / 12 + z**2 / 2 + v**2 + y * z / 2 + v * z + v * y / 2
        page = tau / (tau + write) * (1 - (y / 2 + z + v) + second)
        left.append(page - efficiency(tau, write, 1 / rate, restart, downtime, drain))
    assert left[0] / left[1] == pytest.approx(8, rel=0.01)


@cases(("power", "ratio", "share"), [(1.0, 1.0, 20), (2.0, 0.5, 42)])
def test_the_peak_of_goodput(power: float, ratio: float, share: int) -> None:
    """At N* without restarts b / tau is 1 / x, and E is 20 % for x = 1 and 42 % for x = 2, as the page says."""

    def mtti_of(log_size: float) -> float:
        return 36_000.0 * math.exp(-power * log_size)

    def minus_done(log_size: float) -> float:
        mtti = mtti_of(log_size)
        return -math.exp(log_size) * efficiency(optimal_interval(60.0, mtti), 60.0, mtti, 0.0)

    mtti = mtti_of(minimize_scalar(minus_done, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-9}).x)
    best = optimal_interval(60.0, mtti)
    assert 60.0 / best == pytest.approx(ratio, rel=1e-5)
    assert round(100 * efficiency(best, 60.0, mtti, 0.0)) == share
    assert f"{share} %" in PAGE
    if power == 1.0:
        assert mtti / 60.0 == pytest.approx(1.25, abs=0.01)
