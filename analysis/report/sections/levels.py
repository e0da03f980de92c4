"""Values that questions of a study ask a metric to reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.report.phrases import in_words

if TYPE_CHECKING:
    from analysis.report.sections.amounts import Shown
    from analysis.report.sections.axes import Axis

_INTERVAL = re.compile(r" \[[^\]]*\]")

__all__ = ["Level", "levels_of"]


class Level(NamedTuple):
    """A value that a metric has to reach, or must not pass.

    Parameters
    ----------
    height
        In the unit that is shown.
    name
        What it is called: ``at least 95 %``.
    sentence
        What the study answers, without intervals and the full stop.
    """

    height: float
    name: str
    sentence: str


def levels_of(content: dict[str, Any], axis: Axis, metric: Shown) -> tuple[Level, ...]:
    """Return the values that questions ask of a metric along an axis, each once."""
    found: dict[tuple[str, float], Level] = {}
    for answer in content["answers"]:
        data = answer["data"]
        if answer["ask"] != "threshold" or data.get("metric") != metric.metric or data.get("along") != axis.name:
            continue
        for key, word in (("at_least", "at least"), ("at_most", "at most")):
            value = data.get(key)
            if isinstance(value, int | float):
                name = f"{word} {metric.form.exact(value)}"
                sentence = in_words(_INTERVAL.sub("", answer["sentences"][0]).removesuffix("."), content)
                found.setdefault((key, value), Level(value / metric.form.size, name, sentence))
    return tuple(found.values())
