"""The sensitivity of a study in sentences, and how its numbers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import dimension_of, is_share, name_of
from analysis.cells import number_of, percent_text, time_text
from sim import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Forms", "answers", "changes", "forms", "name_of", "percent", "title", "varies", "whole"]

_NAMED = 4
"""Axes that a sentence names."""

_SAME = 1e-12
"""Change relative to the metric that is rounding [-]."""


def answers(content: dict[str, Any]) -> list[str]:
    """Return the answer in sentences, the most important first."""
    return [*_of_indices(content), *_of_tornado(content)]


def _of_indices(content: dict[str, Any]) -> Iterator[str]:
    """Yield what all axes and luck together tell."""
    found = content["indices"]
    if found is None:
        return
    all_of_it, name = whole(content), name_of(content["metric"])
    variance = found["variance"]
    if variance["luck"]["share"] is None:
        yield f"{name}: {found['reason']}."
        return
    yield (
        f"{all_of_it} makes {_share(variance['parameters']['share'])} of the variance of one run's {name}, "
        f"luck {_share(variance['luck']['share'])}, both together {_share(variance['both']['share'])}."
    )
    if found["reason"]:
        yield f"No axis is told from another: {found['reason']}."
        return
    told = [f"{title(content, row['axis'])} alone brings {_share(row['first'])}" for row in found["by_axis"][:_NAMED]]
    if len(found["by_axis"]) > _NAMED:
        told.append("the others see below")
    rest = found["together"]
    joint = f"; only together they bring {_share(rest)}" if rest["ci95"][0] > 0 and len(told) > 1 else ""
    yield f"Of {all_of_it[0].lower()}{all_of_it[1:]}, {', '.join(told)}{joint}."


def _of_tornado(content: dict[str, Any]) -> Iterator[str]:
    """Yield what the axes tell one at a time."""
    swings = [swing for swing in content["tornado"] or () if changes(swing)]
    change = forms(content).change
    first = next((swing for swing in swings if swing["resolved"]), None)
    if first is not None:
        moves = [move for move in first["moves"] if move["change"] is not None]
        told = ", ".join(f"{change(move['change']['mean'])} at {move['label']}" for move in moves)
        those = "One at a time" if first is swings[0] else "Of those resolved one at a time"
        yield f"{those}, {title(content, first['axis'])} moves it most: {told} (from {first['center']})."
    count = number_of(content["replications"], "replication")
    open_ones = [swing for swing in swings if not swing["resolved"] and any(map(varies, swing["moves"]))]
    same = [swing for swing in swings if not any(map(varies, swing["moves"])) and not any(changes(swing))]
    for these, told in (
        (open_ones, f"One at a time not resolved with {count}"),
        (same, "One at a time without any effect"),
    ):
        if these:
            yield f"{told}: {', '.join(title(content, swing['axis']) for swing in these)}."


def varies(move: dict[str, Any]) -> bool:
    """Return whether replications differ in what a value changes."""
    found = move["change"]
    return found is not None and found["ci95"][0] != found["ci95"][1]


def whole(content: dict[str, Any]) -> str:
    """Return what all axes are together."""
    return "What we do not know" if all(axis["unknown"] for axis in content["axes"].values()) else "What varies"


def changes(swing: dict[str, Any]) -> list[float]:
    """Return the mean changes of an axis that are known."""
    return [move["change"]["mean"] for move in swing["moves"] if move["change"] is not None]


def title(content: dict[str, Any], axis: str) -> str:
    """Return what an axis is called."""
    return str(content["axes"][axis]["title"])


class Forms(NamedTuple):
    """How values of a metric, changes of it, and its spread are told."""

    value: Callable[[float], str]
    change: Callable[[float], str]
    spread: Callable[[float], str]


def forms(content: dict[str, Any]) -> Forms:
    """Return how the metric of a document is told."""
    metric, size = content["metric"], abs(content["center"]["mean"] or 0.0)
    if is_share(metric):
        return Forms(percent_text, _points, lambda spread: f"{100 * spread:.2f} pt")
    plain: Callable[[float], str] = time_text if dimension_of(metric) is units.DURATION else "{:.4g}".format

    def change(amount: float) -> str:
        # What the order of a sum leaves of nothing.
        return "0" if abs(amount) <= _SAME * size else f"{'-' if amount < 0 else '+'}{plain(abs(amount))}"

    return Forms(plain, change, plain)


def _points(change: float) -> str:
    """Return a difference of shares in points."""
    text = f"{100 * change:+.2f} pt"
    return "0.00 pt" if text[1:] == "0.00 pt" else text


def percent(share: float) -> str:
    """Return a share in whole percent: its interval is seldom narrower."""
    return f"{100 * share:.0f} %"


def _share(found: dict[str, Any]) -> str:
    """Return a share with its interval, in percent."""
    low, high = found["ci95"]
    return f"{percent(found['value'])} [{100 * low:.0f}..{100 * high:.0f}]"
