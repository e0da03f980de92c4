"""Numbers of first screens can be followed back: the tracer sees every kind of mistake, and arithmetic keeps places."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from analysis.amounts import COUNT, PERCENT, POINTS, gpu_hours_form
from analysis.page.model import Number, plain
from analysis.page.traced import Places, Traced, number, ranged, told, total
from tests.cases import cases
from tests.trace_numbers import check_number, check_words, evaluated, quotes, value_at

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = {
    "share": 0.93141,
    "a/b": {"x~y": [1.5, 2.5]},
    "none": None,
    "flag": True,
    "found": {"mean": 0.25, "ci95": [0.2, 0.3]},
    "still": {"mean": 0.25, "ci95": [0.25, 0.25]},
    "gpus": 16384,
    "label": "4 spares",
    "kinds": [{"kind": "one", "right": True}, {"kind": "one", "right": False}, {"kind": "two", "right": True}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a document and a table."""
    (tmp_path / "run.json").write_text(json.dumps(CONTENT))
    (tmp_path / "points.csv").write_text("name,ettr.mean\nfirst,0.5\nsecond,0.75\n")
    return tmp_path


PLACES = Places("run.json", CONTENT)


def test_places_of_documents_and_tables_are_found(folder: Path) -> None:
    """A JSON pointer with escapes and a row and column of a table lead to what stands there."""
    assert value_at(folder, "run.json#/a~1b/x~0y/1") == 2.5
    assert value_at(folder, "points.csv#1/ettr.mean") == 0.75
    assert value_at(folder, "run.json#/kinds/*?kind=one&right=true") == 1


@pytest.mark.parametrize(
    "found",
    [
        Number("93.1 %", 0.93141, 0.01, ("run.json#/share",)),
        Number("about 1,120", 1123.778, 1.0, ("run.json#/share", "run.json#/gpus"), "(1 - a) * b"),
        Number("16,400", 16384, 1.0, ("run.json#/gpus",)),
        Number("2", 2.0, 1.0, ("points.csv#0/ettr.mean",), "min(1, 2) + abs(-a) * floor(2.5) + ceil(0.5) - max(1, a)"),
    ],
)
def test_what_is_right_passes(folder: Path, found: Number) -> None:
    """Numbers that follow from their places, told as they are, are accepted."""
    value = evaluated(found.formula, [value_at(folder, source) for source in found.sources])
    check_number(found._replace(value=value), folder)


@pytest.mark.parametrize(
    "wrong",
    [
        Number("93.2 %", 0.93141, 0.01, ("run.json#/share",)),
        Number("93.1 %", 0.93141, 1.0, ("run.json#/share",)),
        Number("93.1 %", 0.9314, 0.01, ("run.json#/share",)),
        Number("93.1 %", 0.93141, 0.01, ("run.json#/found/mean",)),
        Number("6.9 %", 0.93141, 0.01, ("run.json#/share",), "1 - a"),
        Number("much", 0.93141, 0.01, ("run.json#/share",)),
        Number("17,000", 16384, 1.0, ("run.json#/gpus",)),
        Number("1", 1.0, 1.0, ("run.json#/flag",)),
    ],
    ids=["text", "size", "value", "place", "formula", "no number", "rounding", "no amount"],
)
def test_every_mistake_is_seen(folder: Path, wrong: Number) -> None:
    """A wrong text, size, value, place or formula is refused."""
    with pytest.raises(AssertionError):
        check_number(wrong, folder)


def test_formulas_are_arithmetic_only() -> None:
    """Anything but + - * / min max abs ceil floor is refused."""
    for formula in ("a ** 2", "open('x')", "a.real", "a if a else a"):
        with pytest.raises((ValueError, KeyError)):
            evaluated(formula, [1.0])


def test_digits_have_a_source(folder: Path) -> None:
    """Digits outside of numbers pass only as a text of the results, and not as a part of other digits."""
    known = quotes(folder)
    assert (
        check_words(("with 4 spares it is ", Number("93.1 %", 0.93141, 0.01, ("run.json#/share",))), folder, known) == 1
    )
    for text in ("with 5 spares", "with 14 spares", "93 % of it"):
        with pytest.raises(AssertionError):
            check_words((text,), folder, known)


def test_arithmetic_keeps_places(folder: Path) -> None:
    """Whatever is reckoned from places can be followed back, each place named once."""
    share, gpus, low = PLACES.at("share"), PLACES.at("gpus"), PLACES.at("found", "ci95", 0)
    assert share is not None
    assert gpus is not None
    assert low is not None
    for found in (
        (1 - share) * gpus,
        (share - low) * gpus / (share * 3600.0),
        abs(low - share),
        (share * gpus - low * gpus) / 1e-6,
        share - (low - share) * -1.0,
    ):
        check_number(number(found, COUNT), folder)
        assert len(set(found.sources)) == len(found.sources)
    amount = total([share, gpus, share])
    assert amount is not None
    assert amount.value == pytest.approx(2 * 0.93141 + 16384)
    assert len(amount.sources) == 2


def test_places_without_a_number_are_none() -> None:
    """Nulls, truths, texts and places that do not exist are no numbers."""
    for keys in (("none",), ("flag",), ("label",), ("absent",), ("a/b", "x~y", 2), ("share", "mean")):
        assert PLACES.at(*keys) is None


def test_intervals_without_width_are_not_shown() -> None:
    """Runs that were all equal say nothing of others: no interval stands beside their mean."""
    still, found = PLACES.estimate("still", interval="ci95"), PLACES.estimate("found", interval="ci95")
    assert still is not None
    assert found is not None
    assert plain(told(still, PERCENT)) == "25 %"
    assert plain(told(found, PERCENT)) == "25 % (20 to 30)"


def test_ends_are_ordered_after_a_change_of_sign() -> None:
    """What is lost has the ends of what is kept, the other way round."""
    found = PLACES.estimate("found", interval="ci95")
    assert found is not None
    lost = found.changed(lambda share: 1 - share)
    assert lost.interval == (0.7, 0.8)


@cases(
    ("hours", "text"),
    [
        (0.25, "0.250 GPU-hours"),
        (1234567.3, "1.23 million GPU-hours"),
        (739854.3, "740,000 GPU-hours"),
        (16384, "16,384 GPU-hours"),
    ],
)
def test_gpu_time_is_told_in_words(hours: float, text: str) -> None:
    """Whole numbers keep all digits, others have three, and large ones have a word."""
    seconds = 3600.0 * hours
    assert number(Traced(seconds, (), "a"), gpu_hours_form(seconds)).text == text


def test_ranges_whose_ends_look_alike_are_told_once() -> None:
    """A range with both ends the same to the eye is one number."""
    low, high = Traced(0.02, (), "0.02"), Traced(0.02, (), "0.02")
    assert plain(ranged(low, high, POINTS)) == "2.00 points"
    assert plain(ranged(Traced(0.0211, (), "0.0211"), Traced(0.0264, (), "0.0264"), POINTS)) == "2.11 to 2.64 points"
