"""Draw theory next to the simulator: ``python docs/pictures/mathematics.py FOLDER``.

Lines are the closed forms of `ettrick.sim.formulas`, dots are simulated jobs with 95 % intervals. The picture is plain
shapes and words, and the same bytes each time.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.statistics.estimates import t_quantile
from ettrick.analysis.terminal import console
from ettrick.sim import Bucket
from ettrick.sim.formulas.goodput import daly_interval, efficiency, optimal_interval, young_interval
from ettrick.sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PICTURE = "mathematics.svg"

"""Name of the picture."""


_WRITE, _RESTART, _DETECTION = 120.0, 180.0, 60.0

_FAILURES, _REPLICATIONS, _SEED = 400, 12, 1

# After Okabe and Ito: the colour-blind tell them apart.
_BLUE, _RED, _GREEN, _INK, _GREY = "#0072B2", "#D55E00", "#009E73", "#22262b", "#8a8f98"


class Dot(NamedTuple):
    """A simulated job: where it is on the axis [s], its productive share and half its 95 % interval [-]."""

    place: float
    mean: float
    half: float


class Panel(NamedTuple):
    """A logarithmic axis of times, on which productive shares stand.

    Parameters
    ----------
    left
        Where the panel begins in the picture.
    title, words
        What it shows, and what its axis is.
    ends
        Ends of the axis [s].
    ticks
        Times with their words [s].
    """

    left: float
    title: str
    words: str
    ends: tuple[float, float]
    ticks: dict[float, str]

    def x(self, seconds: float) -> float:
        """Return where a time is in the picture."""
        low, high = self.ends
        return self.left + _WIDE * math.log(seconds / low) / math.log(high / low)

    def curve(self, shares: Callable[[float], float], color: str, width: float, dash: str = "") -> str:
        """Return a line of theory."""
        times = np.geomspace(*self.ends, 161)
        points = [(self.x(float(each)), shares(float(each))) for each in times]
        path = " ".join(f"{x:.1f},{_y(share):.1f}" for x, share in points if share >= 0.002)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>'

    def dots(self, dots: Sequence[Dot], color: str) -> list[str]:
        """Return simulated jobs with their intervals."""
        shapes = []
        for dot in dots:
            x, y, low, high = self.x(dot.place), _y(dot.mean), _y(dot.mean - dot.half), _y(dot.mean + dot.half)
            shapes += [
                f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{color}" stroke-width="1.4"/>',
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="white" stroke="{color}" stroke-width="1.4"/>',
            ]
        return shapes

    def frame(self) -> list[str]:
        """Return title, axes and grid."""
        shapes = [_text(self.left, 24, self.title, size=13, bold=True)]
        for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            y = _y(share)
            shapes.append(
                f'<path d="M{self.left:.1f} {y:.1f}H{self.left + _WIDE:.1f}" stroke="#e1e4e8" stroke-width="0.8"/>'
            )
            shapes.append(_text(self.left - 7, y + 4, f"{share:.1f}", anchor="end"))
        for seconds, words in self.ticks.items():
            x = self.x(seconds)
            shapes.append(f'<path d="M{x:.1f} {_y(0):.1f}v5" stroke="{_GREY}" stroke-width="0.8"/>')
            shapes.append(_text(x, _y(0) + 18, words, anchor="middle"))
        return [*shapes, _text(self.left + _WIDE / 2, _y(0) + 37, self.words, anchor="middle", size=12)]


_WIDE, _TOP, _HIGH = 370.0, 42.0, 300.0

_BY_MTTI = Panel(
    46,
    "Productive share by mean time to interrupt",
    "mean time to interrupt M",
    (7 * MINUTE, 14 * DAY),
    {10 * MINUTE: "10 min", HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 d", 7 * DAY: "7 d"},
)

_BY_INTERVAL = Panel(
    525,
    "The same by interval between saves",
    "interval τ",
    (1.5 * MINUTE, 8 * HOUR),
    {2 * MINUTE: "2 min", 10 * MINUTE: "10 min", HOUR: "1 h", 6 * HOUR: "6 h"},
)

_INTERVALS = {"τ = 5 min": (5 * MINUTE, _BLUE), "τ = 30 min": (30 * MINUTE, _RED), "τ = 3 h": (3 * HOUR, _GREEN)}

_PLACES = [10 * MINUTE, 30 * MINUTE, 2 * HOUR, 10 * HOUR, 3 * DAY, 12 * DAY]

_MTTIS = {"M = 15 min": (15 * MINUTE, _RED), "M = 1 h": (HOUR, _BLUE), "M = 8 h": (8 * HOUR, _GREEN)}

_STEPS = [2 * MINUTE, 4 * MINUTE, 22 * MINUTE, 80 * MINUTE, 4 * HOUR]

_FEWEST = 0.01

"""Productive share below which no job is simulated [-]."""


def efficiency_of(interval: float, mtti: float) -> float:
    """Return the productive share of the picture's job in theory [-]."""
    return efficiency(interval, _WRITE, mtti, _RESTART, _DETECTION)


def simulated(interval: float, mtti: float, place: float, replications: int = _REPLICATIONS) -> Dot:
    """Return the productive share of the picture's job as simulated, drawn at a place of the axis [s]."""
    case = sim.prepare(sim.parse(_scenario(interval, mtti)))
    jobs = [sim.run(case, number).jobs[0] for number in range(replications)]
    shares = np.array([job.buckets[Bucket.PRODUCTIVE] / job.requested for job in jobs])
    half = t_quantile(0.95, replications - 1) * float(shares.std(ddof=1)) / math.sqrt(replications)
    return Dot(place, float(shares.mean()), half)


def _scenario(interval: float, mtti: float) -> dict[str, Any]:
    """Return a job that fails as a whole, in nodes that are always there."""

    def exact(seconds: float) -> str:
        return f"{seconds!r} s"

    saves = {"interval": exact(interval), "mode": "blocking", "write": exact(_WRITE), "restore": "0 s"}
    return {
        "name": "theory",
        "cluster": {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": exact(_FAILURES * mtti),
        "jobs": [{"name": "job", "gpus": 2}],
        "failures": [{"use": "job", "name": "failure", "law": {"use": "exponential", "mean": exact(mtti)}}],
        "detection": {"time": exact(_DETECTION)},
        "checkpoint": {"tiers": [saves]},
        "recovery": {"use": "hot-spare", "initialize": exact(_RESTART)},
        "repair": {"time": "0 s"},
        "seed": _SEED,
    }


def picture() -> str:
    """Return the picture."""
    shapes = [*_by_mtti(), *_by_interval()]
    start = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 915 392" font-family="DejaVu Sans, Arial, sans-serif">\n'
        '<rect width="915" height="392" fill="white"/>\n'
    )
    return start + "\n".join(shapes) + "\n</svg>\n"


def _by_mtti() -> list[str]:
    """Return the panel with the mean time to interrupt as its axis."""
    panel = _BY_MTTI
    shapes = panel.frame()

    def best(mtti: float) -> float:
        return optimal_interval(_WRITE, mtti)

    shapes.append(panel.curve(lambda mtti: efficiency_of(best(mtti), mtti), _INK, 2.6))
    shapes += panel.dots([simulated(best(mtti), mtti, mtti) for mtti in _PLACES], _INK)
    for interval, color in _INTERVALS.values():
        shapes.append(panel.curve(lambda mtti, each=interval: efficiency_of(each, mtti), color, 1.6))  # type: ignore[misc]
        places = [mtti for mtti in _PLACES if efficiency_of(interval, mtti) > _FEWEST]
        shapes += panel.dots([simulated(interval, mtti, mtti) for mtti in places], color)
    shapes.append(_text(panel.x(1.2 * HOUR), _y(0.86), "best τ for each M", color=_INK, bold=True, anchor="end"))
    places_of_words = ((3.2 * DAY, 0.665), (20 * MINUTE, 0.20), (2.6 * HOUR, 0.20))
    for (words, (_, color)), (mtti, share) in zip(_INTERVALS.items(), places_of_words, strict=True):
        shapes.append(_text(panel.x(mtti), _y(share), words, color=color, bold=True))
    return shapes


def _by_interval() -> list[str]:
    """Return the panel with the interval as its axis, and the three rules for the best one."""
    panel = _BY_INTERVAL
    shapes = panel.frame()
    for words, (mtti, color) in _MTTIS.items():
        shapes.append(panel.curve(lambda interval, each=mtti: efficiency_of(interval, each), color, 1.6))  # type: ignore[misc]
        places = [interval for interval in _STEPS if efficiency_of(interval, mtti) > _FEWEST]
        shapes += panel.dots([simulated(interval, mtti, interval) for interval in places], color)
        for number, rule in enumerate((young_interval, daly_interval, optimal_interval)):
            interval = rule(_WRITE, mtti)
            shapes.append(_mark(number, panel.x(interval), _y(efficiency_of(interval, mtti)), color))
        peak = optimal_interval(_WRITE, mtti)
        shapes.append(
            _text(panel.x(peak), _y(efficiency_of(peak, mtti)) - 14, words, color=color, bold=True, anchor="middle")
        )
    for number, words in enumerate(("Young", "Daly", "exact")):
        shapes.append(_mark(number, panel.left + 12, _y(0.12) + 16 * (number - 1), _INK))
        shapes.append(_text(panel.left + 23, _y(0.12) + 16 * (number - 1) + 4, words))
    return shapes


def _mark(number: int, x: float, y: float, color: str) -> str:
    """Return the mark of a rule: a triangle for Young's, a ring for Daly's, a cross for the exact one."""
    if number == 0:
        return f'<path d="M{x:.1f} {y - 6:.1f}l5.5 9.5h-11z" fill="{color}"/>'
    if number == 1:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="{color}" stroke-width="1.6"/>'
    return f'<path d="M{x - 4:.1f} {y:.1f}h8m-4 -4v8" stroke="{color}" stroke-width="1.8"/>'


def _y(share: float) -> float:
    """Return where a share is in the picture."""
    return _TOP + _HIGH * (1.0 - share)


def _text(
    x: float, y: float, words: str, *, size: int = 11, color: str = _INK, anchor: str = "start", bold: bool = False
) -> str:
    """Return words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>{words}</text>'
    )


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture; return 0, or 2 if it cannot be written."""
    parser = argparse.ArgumentParser(prog="mathematics-picture", description="Draw theory and simulation.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(arguments)
    try:
        (options.folder / PICTURE).write_bytes(picture().encode())
    except OSError as error:
        console(sys.stderr).print(f"{options.folder}: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
