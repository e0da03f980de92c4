"""What fresh failures say of an answer, and what the document and the text of an optimisation tell."""

from __future__ import annotations

import json
import math
import re
import shlex
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from analysis.optimize.play import optimize, optimum_document
from analysis.page.chapters.optimum import against, format_optimum
from analysis.results.run import render
from analysis.statistics.estimates import t_quantile
from tests.cases import cases
from tests.fake_campaign import INTERVAL, FakeCampaign, study_of

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.optimize.play import Found
    from analysis.study.load import LoadedStudy

SPARES: dict[str, Any] = {"spares.hot": {"range": {"min": 0, "max": 2, "step": 1}}}
UNKNOWN = {"repair.time": {"distribution": {"law": "uniform", "min": "1 h", "max": "9 h"}}}
MODE = "checkpoint.tiers.0.mode"
WORDS = {MODE: {"choices": ["blocking", "async"]}}


def found_by(loaded: LoadedStudy, function: Any, runs: int = 8) -> Found:
    """Return what an optimisation of a fabricated campaign finds."""
    return optimize(FakeCampaign(loaded, None, None, function=function), replications=runs)  # type: ignore[arg-type]


def told(found: Found) -> tuple[dict[str, Any], str]:
    """Return the document as read back from JSON, and its text."""
    content = json.loads(render(optimum_document(found, command="ettrick optimize study")))
    return content, format_optimum(content)


# ----------------------------------------------------------------------------------------------- fresh failures


def noise(settings: dict[str, Any], rng: Any) -> dict[str, float]:
    """All combinations are worth 0.5, and each has luck of its own in every replication."""
    mine = np.random.default_rng([int(rng.integers(2**31)), zlib.crc32(json.dumps(settings).encode())])
    return {"ettr": 0.5 + 0.1 * float(mine.standard_normal())}


def test_the_best_of_many_equals_looks_better_than_it_is_and_fresh_failures_show_it(tmp_path: Path) -> None:
    """Over 12 studies of 20 equals winners are 4 standard errors above the truth, and within 3 on fresh failures."""
    vary = {"detection.time": {"choices": [f"{second} s" for second in range(60, 80)]}, MODE: {"choices": ["async"]}}
    found, fresh = [], []
    for seed in range(12):
        outcome = found_by(study_of(tmp_path, f"seed={seed}", vary=vary, optimize={"maximize": "ettr"}), noise)
        assert outcome.confirmation is not None
        found.append(outcome.standing.order[0].aims[0].mean)
        fresh.append(outcome.confirmation.trials[0].aims[0].mean)
    error = 0.1 / math.sqrt(64 * 12)
    assert np.mean(np.array(found)) - 0.5 > 4 * 0.1 / math.sqrt(8 * 12)
    assert abs(np.mean(np.array(fresh)) - 0.5) < 3 * error


def lucky(settings: dict[str, Any], rng: Any) -> dict[str, float]:
    """Jobs finish with the seed of the study, and with no other."""
    return {"p_finish_by": float(settings["seed"] == 5), "ettr": 0.9}


def test_fresh_failures_deny_what_was_luck(tmp_path: Path) -> None:
    """The confirmation has another seed, and an answer that misses its condition there speaks against itself."""
    asked = {"minimize": "spares.hot", "subject_to": ["p_finish_by >= 0.9"]}
    found = found_by(study_of(tmp_path, "seed=5", vary=SPARES, optimize=asked), lucky)
    assert found.confirmation is not None
    assert found.confirmation.seed != 5
    assert found.confirmation.is_confirmed is False
    content, text = told(found)
    assert against(content) == ["fresh failures deny the answer: p_finish_by >= 0.9 fails"]
    assert "NOT confirmed" in text
    assert "  p_finish_by >= 0.9 fails\n" in text


@cases(
    ("finish", "says"),
    [(0.87, "which is that it fails"), (0.92, "would show it if mean and spread")],
    ids=["misses the bound", "keeps it"],
)
def test_a_mean_beside_its_bound_denies_nothing(tmp_path: Path, finish: float, says: str) -> None:
    """An answer at the edge misses the bound on fresh failures as often as not: not resolved, and what would tell."""

    def edge(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        share = 1.0 if settings["seed"] == 5 else finish
        number = int(rng.bit_generator.seed_seq.entropy[1])
        return {"p_finish_by": float((number * 7) % 64 < round(64 * share))}

    asked = {"minimize": "spares.hot", "subject_to": ["p_finish_by >= 0.9"]}
    found = found_by(study_of(tmp_path, "seed=5", vary=SPARES, optimize=asked), edge)
    assert found.confirmation is not None
    assert found.confirmation.is_confirmed is None
    content, text = told(found)
    assert against(content) == []
    assert "On fresh failures: not resolved" in text
    assert says in text


def test_the_replications_that_would_tell_do(tmp_path: Path) -> None:
    """A mean 1 point above its bound with a known spread: so many replications make the interval that narrow."""

    def steady(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        return {"ettr": 0.91 + 0.1 * (-1) ** int(rng.bit_generator.seed_seq.entropy[1])}

    asked = {"maximize": "ettr", "subject_to": ["ettr >= 0.9"]}
    _, text = told(found_by(study_of(tmp_path, vary=SPARES, optimize=asked), steady))
    match = re.search(r"ettr >= 0.9 is not resolved: confirm: (\d+) would show it", text)
    assert match is not None
    # The half-width of 64 is 1.998 x 0.1 sqrt(64 / 63) / 8.
    assert int(match[1]) == math.ceil(64 * (t_quantile(0.95, 63) * 0.1 / math.sqrt(63) / 0.01) ** 2)


def test_a_confirmation_over_draws_draws_again(tmp_path: Path) -> None:
    """Repair times that were tried by no draw of the search; and what so few of them can show is told."""
    asked = {"minimize": "spares.hot", "subject_to": ["p_finish_by >= 0.95"], "over": "luck+parameters"}
    found = found_by(study_of(tmp_path, vary=SPARES | UNKNOWN, optimize=asked), lambda _s, _r: {"p_finish_by": 1.0})
    assert found.confirmation is not None
    before, after = (
        {str(outcome.point.values) for outcome in trial.cell.drawn}
        for trial in (found.standing.order[0], found.confirmation.trials[0])
    )
    assert len(before) == len(after) == 20
    assert not before & after
    content, text = told(found)
    assert content["confirmation"]["confirmed"] is None
    assert "it takes 72 draws and 72 replications at least" in text


def test_what_is_to_be_typed_is_quoted(tmp_path: Path) -> None:
    """A shell reads the option back as one word, quotes of the value included."""
    loaded = study_of(tmp_path, vary={INTERVAL: {"choices": ["10 min", "40 min"]}}, optimize={"maximize": "ettr"})
    content, text = told(found_by(loaded, lambda s, _r: {"ettr": 0.5 + 0.1 * (s[INTERVAL] == "10 min")}))
    typed = next(line for line in text.splitlines() if "to use it" in line).partition("to use it: ")[2]
    assert shlex.split(typed) == ["--set", *content["settings"]]
    assert content["settings"] == [f'{INTERVAL}="10 min"']


@cases(("gain", "confirmed"), [(0.1, True), (-0.1, False), (0.0, None)], ids=["better", "worse", "the same"])
def test_an_answer_is_confirmed_if_it_beats_the_scenario_as_it_is(
    tmp_path: Path, gain: float, confirmed: bool | None
) -> None:
    """With a start that is worse it is, with a better one it is not, and with the same values nothing is resolved."""

    def steps(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        # 20 minutes, as it is, are not among the choices.
        return {"ettr": 0.5 + gain * (settings[INTERVAL] != "20 min") + 0.01 * rng.standard_normal()}

    loaded = study_of(tmp_path, vary={INTERVAL: {"choices": ["10 min", "40 min"]}}, optimize={"maximize": "ettr"})
    found = found_by(loaded, steps)
    assert found.confirmation is not None
    assert found.confirmation.is_confirmed is confirmed
    (change,) = found.confirmation.gains[0]
    assert change is not None
    assert change.mean == pytest.approx(gain)


# ------------------------------------------------------------------------------------------------- what is told


def test_the_document_has_no_answer_where_nothing_keeps_the_conditions(tmp_path: Path) -> None:
    """The text names the closest point, and the document speaks against itself."""
    asked = {"maximize": "ettr", "subject_to": ["ettr >= 95 %"]}
    found = found_by(
        study_of(tmp_path, vary=SPARES, optimize=asked), lambda s, _r: {"ettr": 0.9 + s["spares.hot"] / 100}
    )
    content, text = told(found)
    assert content["answer"] is content["confirmation"] is None
    assert against(content) == ["nothing that was tried keeps the conditions"]
    assert "the closest is 92.00 %" in text


def test_where_no_point_can_run_the_reason_is_told(tmp_path: Path) -> None:
    """The reason of the first point stands in the text."""

    def never(_settings: dict[str, Any], _rng: Any) -> dict[str, float]:
        message = "the rack is on fire"
        raise ValueError(message)

    content, text = told(found_by(study_of(tmp_path, vary=SPARES, optimize={"maximize": "ettr"}), never))
    assert against(content) == ["no point can run"]
    assert "the rack is on fire" in text


def test_the_text_has_the_answer_its_rivals_and_how_to_use_it(tmp_path: Path) -> None:
    """What is as good, the closed form's choice, the confirmation beside what was said, and the options for a run."""

    def rise(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        return {"ettr": 0.9 + settings["spares.hot"] / 100 + 0.05 * rng.standard_normal()}

    content, text = told(found_by(study_of(tmp_path, vary=SPARES, optimize={"maximize": "ettr"}), rise))
    assert content["answer"]["values"] == {"spares.hot": "2"}
    assert content["runner_up"]["values"] == {"spares.hot": "1"}
    assert content["settings"] == ["spares.hot=2"]
    assert "Answer: spares.hot 2" in text
    assert "every other point that was tried is resolved as worse" in text
    assert "--set spares.hot=2" in text
    assert "as it is (spares.hot 2)" in text
    assert content["confirmation"]["confirmed"] is None
    assert against(content) == []


def test_the_edge_is_told_with_what_is_sure(tmp_path: Path) -> None:
    """With every run alike, 8 runs that finish are no proof of 95 %: the text says how many would be."""
    asked = {"minimize": "spares.hot", "subject_to": ["p_finish_by >= 0.95"]}
    loaded = study_of(tmp_path, vary=SPARES, optimize=asked)
    content, text = told(found_by(loaded, lambda s, _r: {"p_finish_by": float(s["spares.hot"] >= 1)}))
    assert content["answer"]["values"] == {"spares.hot": "1"}
    assert content["edge"]["surely_not"] == {"spares.hot": "0"}
    assert content["confirmation"]["confirmed"] is None
    assert "confirm: 72 would show it" in text
    assert "surely not enough: spares.hot 0 and before" in text
