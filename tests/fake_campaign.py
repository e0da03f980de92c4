"""A campaign that simulates nothing: what each replication comes to is a function that a test writes down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from numpy.random import default_rng

from analysis.optimize.evaluate import Bench
from analysis.optimize.problem import problem_of
from analysis.study.load import LoadedStudy, load_study
from analysis.study.table import Outcome
from analysis.sweep.campaign import Campaign
from sim import Ratio
from tests import small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from analysis.study.amounts import Point


INTERVAL = "checkpoint.tiers.0.interval"

START = {INTERVAL: "20 min", "checkpoint.tiers.0.mode": "blocking", "spares.hot": 2, "detection.time": "2 min"}
"""What the scenario says where a point says nothing."""


@dataclass(frozen=True)
class FakeCampaign(Campaign):
    """Answers with ``function(settings, rng)`` for each replication; the generator is the same for all points.

    ``ValueError`` of the function is a point that cannot run. Sizes of what was asked for at once are in `played`.
    """

    function: Callable[[dict[str, Any], Any], dict[str, float]] = lambda _settings, _rng: {}
    played: list[int] = field(default_factory=list)

    def play(self, points: Iterable[Point], replications: int, first: int = 0) -> None:
        """Note how many points were asked for."""
        self.played.append(len(list(points)))

    def outcome(self, point: Point, replications: int, metrics: Sequence[str] = (), first: int = 0) -> Outcome:
        """Return what the function says."""
        texts = (text.partition("=") for text in self.loaded.overrides(point))
        settings = START | {path: json.loads(text) for path, _, text in texts}
        seed = settings.get("seed", 1)
        rows: dict[str, list[Ratio]] = {}
        try:
            for number in range(first, first + replications):
                for name, value in self.function(settings, default_rng([seed, number])).items():
                    if not metrics or name in metrics:
                        rows.setdefault(name, []).append(Ratio(value, 1.0))
        except ValueError as error:
            return Outcome(point, trouble=str(error))
        return Outcome(point, rows)


def study_of(folder: Path, *overrides: str, **changes: Any) -> LoadedStudy:
    """Return a study of the small scenario, with top-level keys added."""
    (folder / "small.yaml").write_text(small.YAML)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "study", "scenario": "small.yaml", **changes}, sort_keys=False))
    return load_study(path, overrides)


def bench_of(loaded: LoadedStudy, function: Callable[[dict[str, Any], Any], dict[str, float]], runs: int = 16) -> Bench:
    """Return where the points of a study are tried, without a simulation."""
    campaign = FakeCampaign(loaded, None, None, function=function)  # type: ignore[arg-type]
    return Bench(problem_of(loaded), campaign, runs)
