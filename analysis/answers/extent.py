"""Places on an axis with their intervals, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.answers.places import Scale
    from analysis.answers.words import Form

__all__ = ["ends_text", "place_with_ends"]

End: TypeAlias = tuple[str, float]


def _as_it_is(number: float) -> float:
    return number


def ends_text(
    form: Form,
    scale: Scale,
    low: float | None,
    high: float | None,
    extent: tuple[End, End],
    whole: Callable[[float], float] = _as_it_is,
) -> tuple[str, str]:
    """Return the ends of an interval without their unit; one that is not known lies beyond the axis.

    Parameters
    ----------
    form
        How they are told, in the unit of the place they belong to.
    scale
        The axis.
    low, high
        The ends; ``None`` where they are not known.
    extent
        Label and number of the first and the last value of the axis.
    whole
        What makes a number of the axis out of any.
    """

    def edge(label: str, number: float) -> str:
        # Labels of times have units of their own.
        text = form.exact(number) if scale.is_time else label
        return text.removesuffix(f" {form.unit}") if form.unit else text

    first = f"below {edge(*extent[0])}" if low is None else form.plain(whole(low), unit="")
    last = f"above {edge(*extent[1])}" if high is None else form.plain(whole(high), unit="")
    return first, last


def place_with_ends(
    scale: Scale,
    at: float,
    low: float | None,
    high: float | None,
    extent: tuple[End, End],
    whole: Callable[[float], float] = _as_it_is,
) -> str:
    """Return a place on an axis with its interval, all in one unit: ``1.47 h [1.04, above 2]``."""
    form = scale.form_at(at)
    if low is not None and high is not None:
        return form.value(whole(at), (whole(low), whole(high)))
    ends = ends_text(form, scale, low, high, extent, whole)
    # A comma between numbers that have commas would not be seen.
    return f"{form.plain(whole(at))} [{(' to ' if any(',' in end for end in ends) else ', ').join(ends)}]"
