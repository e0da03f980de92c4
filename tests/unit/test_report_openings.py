"""The first screen of a run, a comparison, a sensitivity, an optimum and a validation says what the results say."""

from __future__ import annotations

import copy
import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.analysis.amounts import COUNT, PERCENT, POINTS
from ettrick.analysis.page.build import OPENINGS
from ettrick.analysis.page.first_screen import EXACTLY
from ettrick.analysis.page.glossary import terms
from ettrick.analysis.page.model import Number, plain
from ettrick.analysis.page.report_data import ReportData, read_results
from ettrick.analysis.page.sourced import SourcedNumber, SourceDocument, number, ranged, total, worded
from tests.report_folders import results
from tests.trace_numbers import check_number, check_opening, check_words, quotes
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ettrick.analysis.page.model import FirstScreen, Words

KINDS = (
    "run", "one", "priced", "two-jobs", "calm", "compare", "same", "three", "sweep", "sensitivity", "optimize",
    "validate",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders() -> dict[str, Path]:
    """Return a folder of results of every kind, each made by its command."""
    return {name: results(name) for name in KINDS}


def opened(folder: Path) -> FirstScreen:
    """Return the first screen of a folder."""
    report_data = ReportData(read_results(folder))
    return OPENINGS[report_data.kind](report_data)


def text_of(first_screen: FirstScreen) -> str:
    """Return all that a first screen says."""
    parts = (first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered)
    return " ".join([first_screen.question, *map(plain, parts)])


def edited(folder: Path, to: Path, change: Callable[[Any], object]) -> FirstScreen:
    """Return the first screen of the same results with something changed, after tracing its numbers."""
    shutil.copytree(folder, to)
    path = to / read_results(to).file
    content = json.loads(path.read_bytes())
    content["provenance"].pop("sha256")
    change(content)
    path.write_text(json.dumps(content))
    found = opened(to)
    check_opening(found, to)
    return found


def numbers(words: Words) -> list[Number]:
    """Return the numbers of a text."""
    return [part for part in words if isinstance(part, Number)]


def test_every_number_can_be_traced(folders: dict[str, Path]) -> None:
    """On first screens of every kind each number follows from the results, and no digit has another source."""
    least = {"calm": 3, "same": 1, "validate": 2}
    for name, folder in folders.items():
        assert check_opening(opened(folder), folder) >= least.get(name, 4), name


def test_first_screens_are_plain_language(folders: dict[str, Path]) -> None:
    """There is an answer, doubt and limits of it; no bucket or metric by its key; terms are explained, once each."""
    for name, folder in folders.items():
        found = opened(folder)
        text = text_of(found)
        assert plain(found.answer).endswith("."), name
        assert found.question, name
        assert found.doubt, name
        assert found.not_covered, name
        assert len(found.drivers) <= 3, name
        assert not re.search(r"[a-z]+_[a-z]+|\bnan\b|None|\[\]", text), name
        explained = dict(found.glossary)
        assert len(explained) == len(found.glossary), name
        for term, pattern, meaning, *_ in terms():
            stands = re.search(rf"(?<![\w-])(?:{pattern})(?![\w])", text, re.IGNORECASE)
            assert (explained.get(term) == meaning) == bool(stands), (name, term)


def test_prices_make_money_of_lost_time(folders: dict[str, Path]) -> None:
    """Lost GPU-hours of the 112 GPUs cost 2 USD each, as all 128 that are paid for; without prices no money is told."""
    content = json.loads((folders["priced"] / "run.json").read_bytes())
    first_screen = opened(folders["priced"])
    found = [part for part in numbers(first_screen.answer) if "USD" in part.text]
    share = 1 - content["metrics"]["ettr"]["mean"]
    assert [part.value for part in found] == pytest.approx([share * 112 * 48 * 2, 128 * 48 * 2])
    assert "times and prices" in plain(first_screen.doubt)
    assert "USD" not in text_of(opened(folders["run"]))
    assert "prices" not in text_of(opened(folders["run"]))


def test_a_band_takes_the_place_of_exact_rates(folders: dict[str, Path], tmp_path: Path) -> None:
    """With a band of what is not known it is told, and else that all holds at exactly the stated rates."""
    assert plain(opened(folders["run"]).doubt).startswith(EXACTLY)
    band = [0.5, 0.6]
    found = edited(folders["run"], tmp_path / "band", lambda content: content["metrics"]["ettr"].update(band90=band))
    assert EXACTLY not in plain(found.doubt)
    assert "50 to 60 %" in plain(found.doubt)


def test_no_time_asked_for_is_no_answer(folders: dict[str, Path], tmp_path: Path) -> None:
    """Where no job ran, nothing is made up."""

    def nothing_ran(content: Any) -> None:
        for summary in content["metrics"].values():
            summary.update(mean=None, mean_ci95=None, std=None)
        content["time_shares"] = dict.fromkeys(content["time_shares"])
        content["closed_form"]["ettr"] = None

    found = edited(folders["run"], tmp_path / "none", nothing_ran)
    assert not numbers(found.answer)
    assert found.picture is None


def with_speed(content: Any, speed: float) -> None:
    """Let the last variant of two be better in goodput, at some difference of speed; prices are as they are."""
    first, best = content["order"]
    content.update(headline="goodput", order=[best, first], ranking=None)
    for name, share in ((first, 0.90), (best, 0.95)):
        content["variants"][name]["metrics"]["goodput"] = {"mean": 0.4 * share, "mean_ci95": None}
        content["variants"][name]["metrics"]["ettr"].update(mean=share, mean_ci95=[share - 0.01, share + 0.01])
    resolved = {"resolved": True, "replications_to_resolve": 2, "controlled": None}
    content["variants"][best]["difference"] |= {
        "ettr": {"mean": 0.05, "ci95": [0.04, 0.06], **resolved},
        "goodput": {"mean": 0.02, "ci95": [0.016, 0.024], **resolved},
        "program_goodput": {"mean": speed, "ci95": [speed, speed], **resolved},
    }


def test_a_comparison_has_one_metric_and_its_worth_in_a_driver(folders: dict[str, Path], tmp_path: Path) -> None:
    """The answer and the picture have goodput alone; GPU-years follow from the points of time, at 2 USD a GPU-hour."""
    found = edited(folders["compare"], tmp_path / "time", lambda content: with_speed(content, 0.0))
    amounts = "1.6 to 2.4 percentage points more than"
    assert amounts in plain(found.answer)
    assert amounts in present(found.picture).title
    assert "4.5 to 6.7 GPU-years a year" in plain(found.drivers[0])
    values = [part.value for part in numbers(found.drivers[0])]
    assert values[:2] == pytest.approx([112 * share for share in (0.04, 0.06)])
    assert values[-1] == pytest.approx(0.05 * 112 * 365.2425 * 24 * 2, rel=1e-3)


def test_what_is_not_resolved_is_not_claimed(folders: dict[str, Path], tmp_path: Path) -> None:
    """Where the interval holds zero, both are told apart by no one, and how many runs would is said."""

    def unresolved(content: Any) -> None:
        other = content["variants"][content["order"][1]]["difference"][content["headline"]]
        other.update(mean=-0.001, ci95=[-0.003, 0.001], resolved=False, replications_to_resolve=77)

    answer = plain(edited(folders["compare"], tmp_path / "open", unresolved).answer)
    assert "too close to call" in answer
    assert "about 77 replications" in answer
    assert "best" not in answer


def test_no_rank_is_no_winner(folders: dict[str, Path], tmp_path: Path) -> None:
    """Where variants are not ranked, the reason is the answer."""

    def unranked(content: Any) -> None:
        content.update(order=[], ranking=None, unranked_because="model differs, and there are no tokens")

    found = edited(folders["three"], tmp_path / "unranked", unranked)
    assert plain(found.answer) == "Which is better is not known: model differs, and there are no tokens."
    assert found.picture is None
    assert not found.drivers


def test_a_change_has_its_direction(folders: dict[str, Path], tmp_path: Path) -> None:
    """What raises the metric is said to raise it, and the same change with the other sign to lower it."""
    for sign, word in (
        (1.0, " raises it by 10 to 30 percentage points"),
        (-1.0, " lowers it by 10 to 30 percentage points"),
    ):

        def change(content: Any, sign: float = sign) -> None:
            ends = sorted((0.1 * sign, 0.3 * sign))
            content["tornado"][0]["moves"][0]["change"].update(mean=0.2 * sign, ci95=ends, resolved=True)

        assert word in plain(edited(folders["sensitivity"], tmp_path / word.strip()[:5], change).answer)


def test_a_resolved_change_leads_and_bars_end_where_changes_do(folders: dict[str, Path], tmp_path: Path) -> None:
    """A smaller change beyond chance is named before a larger one that may be chance; bars end where changes do."""

    def change(content: Any) -> None:
        moves = content["tornado"][0]["moves"]
        moves[:] = [copy.deepcopy(moves[0]) for _ in range(3)]
        for move, mean, resolved in zip(moves, (0.01, 0.06, 0.02), (True, False, False), strict=True):
            ends = [mean - 0.005, mean + 0.005] if resolved else [-0.01, 2 * mean + 0.01]
            move["change"].update(mean=mean, ci95=ends, resolved=resolved)

    found = edited(folders["sensitivity"], tmp_path / "mixed", change)
    assert " raises it by 0.5 to 1.5 percentage points" in plain(found.answer)
    assert present(found.picture).chart.swings[0].high[1] == pytest.approx(6.0)


def test_no_input_matters_beyond_chance(folders: dict[str, Path], tmp_path: Path) -> None:
    """Where no swing is resolved, no input is named as the one that matters."""

    def open_(content: Any) -> None:
        for row in content["tornado"]:
            for move in row["moves"]:
                move["change"].update(mean=0.01, ci95=[-0.01, 0.03], resolved=False, replications_to_resolve=None)

    found = edited(folders["sensitivity"], tmp_path / "open", open_)
    assert plain(found.answer).startswith("No input changes")
    assert "ten thousand" in text_of(found)


def test_conditions_that_nothing_meets(folders: dict[str, Path], tmp_path: Path) -> None:
    """Without an answer it is said which condition failed, and what came closest to it."""

    def unmet(content: Any) -> None:
        content.update(answer=None, settings=[], runner_up=None, as_good=None, confirmation=None)
        content["conditions"] = ["ettr >= 99.9 %"]
        for trial in content["trials"]:
            trial["met"] = False
            trial["conditions"][0].update(condition="ettr >= 99.9 %", bound=0.999, verdict="fails")

    found = edited(folders["optimize"], tmp_path / "unmet", unmet)
    assert (
        plain(found.answer)
        == "None of the evaluated settings makes the useful share of the time (ETTR) at least 99.9 %."
    )
    closest = max(trial["aims"]["ettr"]["mean"] for trial in
                  json.loads((folders["optimize"] / "optimize.json").read_bytes())["trials"])  # fmt: skip
    assert numbers(found.drivers[0])[0].value == closest


def test_fresh_failures_that_deny_the_answer(folders: dict[str, Path], tmp_path: Path) -> None:
    """Whether fresh failures confirm an optimum stands on the first screen."""
    for confirmed, word in ((True, " confirm the"), (False, "do not confirm"), (None, "neither confirm")):

        def change(content: Any, confirmed: bool | None = confirmed) -> None:
            content["confirmation"]["confirmed"] = confirmed

        assert word in plain(edited(folders["optimize"], tmp_path / str(confirmed), change).doubt)


def test_a_validation_that_holds_says_yes_and_one_that_fails_says_where(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """All rows in their limits are a yes; one outside is a no that names it, with both values."""
    yes, groups = (
        opened(folders["validate"]),
        json.loads((folders["validate"] / "validate.json").read_bytes())["groups"],
    )
    rows = [row for group in groups for row in group["rows"]]
    used = max(
        abs(row["delta"]) / row["limit"]
        for row in rows
        if row["limit"] and row["tolerance"]["kind"] in ("relative", "absolute", "printed", "sampling")
    )
    assert plain(yes.answer).startswith("Yes: all")
    *counts, closest = (part.value for part in numbers(yes.answer))
    assert sum(counts) == len(rows)
    assert closest == pytest.approx(used)
    name = ""

    def fails(content: Any) -> None:
        nonlocal name
        row = content["groups"][0]["rows"][0]
        content["groups"] = copy.deepcopy(content["groups"])
        content["groups"][0]["rows"][0]["verdict"] = "fail"
        content["counts"]["pass"] -= 1
        content["counts"]["fail"] += 1
        name = row["id"]

    found = edited(folders["validate"], tmp_path / "failed", fails)
    assert plain(found.answer).startswith("Not in everything: 1 of the")
    assert plain(found.drivers[0]).startswith(f"{name}: the simulator has")


# ----------------------------------------
# Numbers of first screens can be followed back: the tracer sees every kind of mistake, and arithmetic keeps places.

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


PLACES = SourceDocument("run.json", CONTENT)


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
    for found in (
        (1 - share) * gpus,
        (share - low) * gpus / (share * 3600.0),
        abs(low - share),
        (share * gpus - low * gpus) / 1e-6,
        share - (low - share) * -1.0,
    ):
        check_number(number(found, COUNT), folder)
        assert len(set(found.sources)) == len(found.sources)
    amount = present(total([share, gpus, share]))
    assert amount.value == pytest.approx(2 * 0.93141 + 16384)
    assert len(amount.sources) == 2


def test_intervals_without_width_are_not_shown() -> None:
    """Runs that were all equal say nothing of others: no interval stands beside their mean."""
    still, found = PLACES.estimate("still", interval="ci95"), PLACES.estimate("found", interval="ci95")
    assert plain(worded(present(still), PERCENT)) == "25 %"
    assert plain(worded(present(found), PERCENT)) == "25 % (20 to 30)"


def test_ends_are_ordered_after_a_change_of_sign() -> None:
    """What is lost has the ends of what is kept, the other way round."""
    found = present(PLACES.estimate("found", interval="ci95"))
    lost = found.changed(lambda share: 1 - share)
    assert lost.interval == (0.7, 0.8)


def test_ranges_whose_ends_look_alike_are_told_once() -> None:
    """A range with both ends the same to the eye is one number."""
    low, high = SourcedNumber(0.02, (), "0.02"), SourcedNumber(0.02, (), "0.02")
    assert plain(ranged(low, high, POINTS)) == "2.00 percentage points"
    assert (
        plain(ranged(SourcedNumber(0.0211, (), "0.0211"), SourcedNumber(0.0264, (), "0.0264"), POINTS))
        == "2.11 to 2.64 percentage points"
    )
