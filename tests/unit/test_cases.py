"""How the suite is cut: tables of cases within one test, rows for a push, and parts of what is nightly."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases import cases
from tests.conftest import pytest_collection_modifyitems
from tests.pace import one_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Report:
    """A report of subtests that notes the names of those that fail."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    @contextmanager
    def test(self, name: str) -> Iterator[None]:
        """Note the name if the case fails."""
        try:
            yield
        except (Exception, pytest.fail.Exception):
            self.failed.append(name)


def test_each_case_is_played_and_each_that_fails_is_named(tmp_path: Path) -> None:
    """A table in a table too; a failed assertion and an error that is not raised count; each case has its folder."""
    played: list[tuple[int, int, str]] = []

    @cases("low, high", [(1, 2), (3, 3), pytest.param(5, 4, id="last")])
    @cases("text", ["1", "x"], ids=lambda text: f"<{text}>")
    def test(low: int, high: int, text: str, tmp_path: Path) -> None:
        played.append((low, high, text))
        (tmp_path / "made").mkdir()
        if text == "x":
            with pytest.raises(ValueError, match="invalid literal"):
                int(text)
        else:
            with pytest.raises(ZeroDivisionError):
                _ = 1 / (high - low)

    report = Report()
    test(subtests=report, tmp_path=tmp_path)
    assert played == [(low, high, text) for low, high in ((1, 2), (3, 3), (5, 4)) for text in ("1", "x")]
    assert report.failed == ["1-2-<1>", "last-<1>"]


def test_a_push_and_the_night_share_the_rows() -> None:
    """Each third row has no mark, the others are nightly; a tuple is a row of several values."""
    rows = one_in(3, [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    assert [row.values for row in rows] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert [bool(row.marks) for row in rows] == [False, True, True, False]


def test_parts_have_each_test_once() -> None:
    """Eight parts of a thousand names share none, leave none out, and are of about one size."""
    names = [f"tests/unit/test_x.py::test_it[{number}]" for number in range(1000)]
    found: list[str] = []
    for part in range(8):
        items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
        dropped: list[Any] = []
        hook = SimpleNamespace(pytest_deselected=lambda items, dropped=dropped: dropped.extend(items))
        config: Any = SimpleNamespace(getoption=lambda _, part=part: f"{part}/8", hook=hook)
        pytest_collection_modifyitems(config, items)
        assert len(items) + len(dropped) == 1000
        assert 80 < len(items) < 170
        found += [item.nodeid for item in items]
    assert sorted(found) == sorted(names)
