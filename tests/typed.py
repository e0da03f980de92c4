"""Documents of commands in tests: made as models, changed as plain data, shown as models again."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from analysis.results.models import Part
from analysis.results.run import plain

if TYPE_CHECKING:
    from collections.abc import Callable


PROVENANCE = {"version": "0", "python": "3", "numpy": "2", "command": "ettrick"}

"""How the numbers of a document that is written by hand were made."""


def as_plain(build: Callable[..., Part]) -> Callable[..., dict[str, Any]]:
    """Return a function that gives plain data where another one gives a document or a part of one."""

    @wraps(build)
    def built(*arguments: Any, **options: Any) -> dict[str, Any]:
        return plain(build(*arguments, **options))

    return built


def of_plain(show: Callable[..., Any], model: type[Part]) -> Callable[..., Any]:
    """Return a function that takes plain data where another one takes a document or a part of one."""

    @wraps(show)
    def shown(content: Any, *arguments: Any, **options: Any) -> Any:
        typed = content if isinstance(content, Part) else model.model_validate(content)
        return show(typed, *arguments, **options)

    return shown
