"""Paths of the scenario that a study writes to: none twice, and none that would be lost inside of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.documents import TAGS
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.study.axis import Axis

__all__ = ["check_paths"]


def check_paths(axes: Mapping[str, Axis], common: Mapping[str, Any]) -> None:
    """Refuse paths that a study cannot write to.

    Parameters
    ----------
    axes
        What varies, by name.
    common
        Values that hold at every point, by path.

    Raises
    ------
    RuleError
        At the first of them.
    """
    for path in common:
        _check_path(path, ("set", path))
    taken: dict[str, str] = {}
    for name, axis in axes.items():
        for path in axis.targets(name):
            _check_path(path, _place(name, axis, path))
            if path in taken:
                raise RuleError(("vary", name), f"{path} is varied by {taken[path]} already")
            if path in common:
                raise RuleError(("set", path), f"is varied too, by {name}; say it once")
            taken[path] = name
    for path, name in taken.items():
        for inner, other in taken.items():
            if inner.startswith(f"{path}.") and other != name and not _are_choices(axes[name], name, path):
                rule = f"{inner} would be lost: the axis {name} replaces {path} as a whole"
                raise RuleError(("vary", other), rule)


def _place(name: str, axis: Axis, path: str) -> tuple[str | int, ...]:
    """Return where an axis says which path it writes to."""
    if path in axis.paths:
        return ("vary", name, "paths", axis.paths.index(path))
    return ("vary", name, "path") if axis.path else ("vary", name)


def _check_path(path: str, at: tuple[str | int, ...]) -> None:
    """Refuse what is no path, and the seed: all points share one, so that they differ in nothing but what varies."""
    if "=" in path or not all(step and step == step.strip() for step in path.split(".")):
        raise RuleError(at, f"'{path}' is not a path such as spares.hot")
    if path == "seed":
        raise RuleError(at, "all points have the same seed: give it to the study, as seed:")


def _are_choices(axis: Axis, name: str, path: str) -> bool:
    """Return whether everything that an axis writes to a path names a strategy: what is inside is then set later."""
    if axis.choices is None:
        return False
    contents = [content for value in axis.values(name) for target, content in value.settings if target == path]
    return all(isinstance(content, dict) and any(tag in content for tag in TAGS) for content in contents)
