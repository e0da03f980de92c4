"""A table of cheap cases as one test: what pytest spends on an item is more than such a case takes."""

from __future__ import annotations

import functools
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SIMULATED = list(sim.shipped("scenarios"))
"""Shipped scenarios."""


def mistake_lines(text: str) -> list[str]:
    """Return what a command says of mistakes, without the lines that name a command which helps."""
    return [line for line in text.splitlines() if not line.startswith("help: ")]


ENDED = (Exception, pytest.fail.Exception, pytest.skip.Exception)


def cases(
    names: str | tuple[str, ...] | list[str],
    table: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Play a test with each row of a table, within one item; the arguments are those of ``pytest.mark.parametrize``.

    Each case that fails is reported by its name, as a subtest, and the others are still played. `tmp_path` is a new
    folder for each; other fixtures are shared: where a case leaves something behind, take ``parametrize``.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [row if isinstance(row, type(pytest.param())) else _row(row, len(columns)) for row in table]
    assert rows, "a table without cases"
    assert not any(row.marks for row in rows), "a case with a mark is an item of its own: take parametrize"
    given = ids if callable(ids) or ids is None else list(ids)

    def name_of(index: int) -> str:
        row = rows[index]
        if row.id is not None:
            return str(row.id)
        if isinstance(given, list):
            return str(given[index])
        words = [given(value) if given is not None else None for value in row.values]
        return "-".join(
            str(word if word is not None else value if isinstance(value, (str, float, int)) else f"{column}{index}")
            for column, word, value in zip(columns, words, row.values, strict=True)
        )

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)

        @functools.wraps(test)
        def play(**fixtures: Any) -> None:
            report = fixtures["subtests"]
            here = {parameter.name: fixtures[parameter.name] for parameter in others}
            for index, row in enumerate(rows):
                name = name_of(index)
                if "tmp_path" in here:
                    here["tmp_path"] = fixtures["tmp_path"] / f"case{index}"
                    here["tmp_path"].mkdir()
                if "subtests" in here:  # a table within a table
                    here["subtests"] = SimpleNamespace(test=lambda inner, name=name: report.test(f"{name}-{inner}"))
                try:
                    test(**dict(zip(columns, row.values, strict=True)), **here)
                except ENDED:  # said only then: a subtest that passes costs as much as an item
                    with report.test(name):
                        raise

        takes = others if "subtests" in signature.parameters else [*others, subtests]
        play.__signature__ = signature.replace(parameters=takes)  # type: ignore[attr-defined]
        return play

    return decorate


def _row(row: Any, columns: int) -> Any:
    return pytest.param(row) if columns == 1 else pytest.param(*row)
