"""Estimators of failure models beside textbooks and published records: lives of parts, and nodes that stay bad."""

from __future__ import annotations

import csv
import functools
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.logs import estimate, lives
from analysis.logs.lives import Lives
from analysis.validation.lab import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.validation.lab import Lab

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
"""Reference data that are not part of the project."""

AGES = [54, 187, 216, 240, 244, 335, 361, 373, 375, 386, *[500] * 10]
"""Ages of 20 units of the NIST handbook; the ten of 500 were alive."""

MOMENTS = [2.7, 10.3, 12.5, 30.6, 57.0, 61.3, 80.0, 109.5, 125.0, 128.6, 143.8, 167.9, 229.2, 296.7, 320.6, 328.2,
           366.2, 396.7, 421.1, 438.2, 501.2, 620.0]  # fmt: skip
"""Failures of a system that was watched for 620 h, of a textbook."""


def textbook_fit(_: Lab, __: int, *, parameter: str) -> Estimate:
    """Return a parameter of a fit to textbook data: ``shape`` and ``scale`` of lives, ``exponent``, ``factor``."""
    if parameter in ("shape", "scale"):
        fit = lives.weibull(Lives.of(AGES, [age < 500 for age in AGES]), intervals=False)
        return Estimate(fit.parameters[parameter].value)
    trend = estimate.trend(MOMENTS, MOMENTS[-1])
    return Estimate(trend.scale if parameter == "factor" else trend.exponent.value)


def lives_of_gpus(_: Lab, __: int, *, batch: str, statistic: str, age: float = 0.0) -> Estimate:
    """Return what the lives of Titan's GPUs give, in years of 365 days.

    ``shape`` and ``scale`` are of a Weibull law, ``alive`` is the share that lives longer than an `age`, ``hazard`` the
    failures per GPU-year in the half year from it on, and ``gain`` by how much a hazard by age lowers the AIC of
    the best smooth law.
    """
    mine = _batch(batch)
    if statistic == "alive":
        return Estimate(float(lives.survival(mine, [age])[0]))
    edges = 0.5 * np.arange(12 if batch == "old" else 6)
    if statistic == "hazard":
        return Estimate(lives.piecewise(mine, list(edges)).parameters[f"from {age:g}"].value)
    if statistic == "gain":
        smooth = (lives.exponential(mine), lives.weibull(mine, intervals=False), lives.lognormal(mine))
        return Estimate(min(law.aic for law in smooth) - lives.piecewise(mine, list(edges)).aic)
    return Estimate(lives.weibull(mine, intervals=False).parameters[statistic].value)


@functools.cache
def _batch(batch: str) -> Lives:
    rows = [row for row in _rows("titan_gpu_life/gpu_life.csv.gz") if row["batch"] == batch]
    age = np.array([float(row["life_days"]) for row in rows]) / lives.YEAR
    return Lives.of(age[age > 0], np.array([row["failed"] == "1" for row in rows])[age > 0])


def lasting_difference_of_nodes(_: Lab, __: int, *, system: str, end: str = "value") -> Estimate:
    """Return the squared variation that the nodes of both halves of a record share, or an ``end`` of its interval."""
    if system == "infinitehbd":
        faults = [(row["node_id"], float(row["start_day"])) for row in _rows("infinitehbd/fault_events.csv")]
        nodes, first, last = 400, 0.0, 348.0
    else:
        faults = [
            (row["entity_id"], float(row["t_start_h"]))
            for row in _rows("canonical/lanl_events.csv.gz")
            if row["system"] == system and row["entity_id"] not in ("", "n0") and row["planned"] != "True"
        ]
        nodes = 511 if system == "sys20" else 1023
        first, last = min(time for _, time in faults), max(time for _, time in faults)
    number = {name: at for at, name in enumerate(dict.fromkeys(node for node, _ in faults))}
    counts = np.zeros((2, nodes))
    for node, time in faults:
        if time <= last:
            counts[int(time >= (first + last) / 2), number[node]] += 1
    return Estimate(getattr(estimate.split_half(*counts), end))


def _rows(name: str) -> list[Mapping[str, str]]:
    path = DATA / name
    if not path.exists():
        raise FileNotFoundError("reference data not present")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(content.decode().splitlines()))
