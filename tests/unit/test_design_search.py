"""Designs from the command to the document: resumed, in parallel, in another order, with more, with nothing."""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import gamma, lambertw
from scipy.stats import poisson

from ettrick import sim
from ettrick.analysis.optimize.bounds import Candidates, upper, upper_ettr
from ettrick.analysis.optimize.derive import listed_of, neighbours
from ettrick.analysis.optimize.problem import problem_of
from ettrick.analysis.study.load import load_study
from tests.cases import cases, mistake_lines
from tests.report_sample import call

if TYPE_CHECKING:
    from pathlib import Path

WRONG = 2

AT_ONCE = ("--seconds", "0", "--executor", "serial")
"""One batch of designs is simulated, and nothing is confirmed."""

SCENARIO: dict[str, Any] = {
    "name": "small",
    "cluster": {"nodes": 16, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8}},
    "horizon": "2 d",
    "jobs": [
        {
            "name": "train",
            "gpus": 64,
            "model": "llama3-8b",
            "batch": {"sequence": 8192, "tokens": 524288},
            "parallelism": {"tensor": 4, "data": 16},
        }
    ],
    "failures": [{"use": "component", "name": "node", "part": "node", "rate": "100 per 1000 node-days"}],
    "detection": {"time": "2 min"},
    "checkpoint": {"tiers": [{"interval": "20 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
    "recovery": {"use": "hot-spare", "initialize": "3 min"},
    "spares": {"hot": 2, "idle": "withhold"},
    "repair": {"time": "4 h"},
}

RECOVERIES: dict[str, Any] = {"fast": {"use": "hot-spare", "initialize": "3 min"}, "slow": {"use": "slurm-requeue"}}

VARY: dict[str, Any] = {
    "size": {"derive": "size"},
    "spares": {"derive": "spares"},
    "layout": {"derive": "layout"},
    "recovery": {"path": "recovery", "choices": RECOVERIES},
    "detection": {"path": "detection.time", "choices": ["2 min", "30 min", "-1 min"]},
}

OPTIMIZE: dict[str, Any] = {"maximize": "tokens_per_day", "budget": {"gpus": 128}, "tie": "0.5 %", "confirm": 16}


def study(vary: dict[str, Any] | None = None, *, scenario: str = "small.yaml", **more: Any) -> str:
    """Return a study of the small scenario as text."""
    return sim.dump(
        {"name": "design", "scenario": scenario, "vary": VARY if vary is None else vary, "optimize": OPTIMIZE, **more}
    )


def ask(folder: Path, text: str, *options: str, out: str = "") -> Any:
    """Run a study beside the small scenario."""
    (folder / "small.yaml").write_text(sim.dump(SCENARIO))
    (folder / "study.yaml").write_text(text)
    kept = ("--out", str(folder / out)) if out else ()
    return call("design", str(folder / "study.yaml"), "--json", "-q", *kept, *(options or ("--executor", "serial")))


def content_of(result: Any) -> dict[str, Any]:
    """Return the document without what tells when and how it was made."""
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    del content["provenance"]
    return dict(content)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a design, and its document."""
    folder = tmp_path_factory.mktemp("design")
    return folder, content_of(ask(folder, study(), out="whole"))


def test_killed_and_resumed_or_shared_it_is_the_same(answered: tuple[Path, dict[str, Any]]) -> None:
    """A journal that ends in the middle of a line is gone on with; two processes write the same bytes as one."""
    folder, content = answered
    shutil.copytree(folder / "whole", folder / "killed")
    (folder / "killed" / "optimize.json").unlink()
    journal = folder / "killed" / "journal.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) // 3])
    first = dict.fromkeys(("whole", "killed", "shared"), "")
    assert content_of(ask(folder, study(), out="killed")) == content
    assert content_of(ask(folder, study(), "-j", "2", out="shared")) == content
    for name in first:
        written = json.loads((folder / name / "optimize.json").read_bytes())
        del written["provenance"]
        first[name] = json.dumps(written)
    assert len(set(first.values())) == 1


def test_the_order_of_axes_and_choices_is_only_an_order(answered: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Reversed axes and choices, and other names of the choices, give the same answer, gap and funnel."""
    _, content = answered
    renamed = {"one": RECOVERIES["slow"], "two": RECOVERIES["fast"]}
    turned = {name: VARY[name] for name in reversed(VARY)} | {"recovery": {"path": "recovery", "choices": renamed}}
    turned["detection"] = {"path": "detection.time", "choices": ["-1 min", "30 min", "2 min"]}
    other = content_of(ask(tmp_path, study(turned)))
    names = {"slow": "one", "fast": "two"}

    def renamed_in(values: dict[str, str]) -> dict[str, str]:
        return {axis: names.get(label, label) for axis, label in values.items()}

    assert other["answer"]["values"] == renamed_in(content["answer"]["values"])
    assert other["answer"]["aims"] == content["answer"]["aims"]
    for part in ("funnel", "regret", "derived", "budget"):
        assert other[part] == content[part]
    simulated = sorted(str(sorted(renamed_in(trial["values"]).items())) for trial in content["trials"])
    assert sorted(str(sorted(trial["values"].items())) for trial in other["trials"]) == simulated


def test_a_dead_value_is_reported_and_stops_nothing(answered: tuple[Path, dict[str, Any]]) -> None:
    """The reason is the first complaint of check, by the value of the axis; funnel and neighbours count it."""
    _, content = answered
    (dead,) = content["infeasible"]
    assert (dead["axis"], dead["value"], dead["kind"]) == ("detection", "-1 min", "check")
    assert "detection.time" in dead["first"]
    assert content["funnel"]["infeasible"] == dead["count"]
    (neighbour,) = [beside for beside in content["neighbours"] if beside["to"] == "-1 min"]
    assert neighbour["status"] == "cannot run"


def test_every_neighbour_was_simulated(answered: tuple[Path, dict[str, Any]]) -> None:
    """What the listing says is beside the answer has a difference from it, and none is better beyond a tie."""
    folder, content = answered
    listing = listed_of(problem_of(load_study(str(folder / "study.yaml"))))
    values = tuple(content["answer"]["values"].values())
    (best,) = [index for index, row in enumerate(listing.candidates) if tuple(place.label for place in row) == values]
    beside = neighbours(listing, best)
    simulated = [entry for entry in content["neighbours"] if entry["status"] != "cannot run"]
    assert len(beside) == len(simulated) > 0
    score = content["answer"]["aims"]["tokens_per_day"]["mean"]
    assert all(entry["difference"]["mean"] <= 0.005 * score for entry in simulated)


def test_more_may_be_had_with_a_larger_budget(tmp_path: Path) -> None:
    """The largest bound never falls, whether or not the larger number of GPUs divides well."""
    ask(tmp_path, study(), *AT_ONCE)
    best = -math.inf
    for gpus in range(16, 136, 8):
        loaded = load_study(str(tmp_path / "study.yaml"), (f"optimize.budget.gpus={gpus}",))
        listing = listed_of(problem_of(loaded))
        rows = Candidates(listing.bases, listing.base_of, listing.step_time, listing.tokens, listing.interval)
        bound = float(upper("tokens_per_day", rows, upper_ettr(rows)[0]).max())
        assert bound >= best * (1 - 1e-12)
        best = bound


def test_nothing_fits(tmp_path: Path) -> None:
    """Exit 1, and the smallest budget with which something does."""
    result = ask(tmp_path, study(optimize=OPTIMIZE | {"budget": {"gpus": 4}}))
    assert result.exit_code == 1
    assert "The smallest change that lets a design run: GPUs" in result.stderr
    (needed,) = [part["needed"] for part in json.loads(result.stdout)["budget"].values()]
    again = ask(
        tmp_path, study(optimize=OPTIMIZE | {"budget": {"gpus": int(needed)}}), "--seconds", "0", "--executor", "serial"
    )
    assert again.exit_code == 0
    less = ask(
        tmp_path,
        study(optimize=OPTIMIZE | {"budget": {"gpus": int(needed) - 1}}),
        "--seconds",
        "0",
        "--executor",
        "serial",
    )
    assert less.exit_code == 1


def test_what_a_limit_of_time_left_out_is_said(tmp_path: Path) -> None:
    """Of no time there is an answer of the first batch, with its distance; what came after it is named."""
    content = content_of(ask(tmp_path, study(), *AT_ONCE))
    assert content["answer"] is not None
    assert content["confirmation"] is None
    assert content["funnel"]["simulated"] == 8
    assert content["left_out"][0] == "the check of the bounds"
    assert content["left_out"][-1] == "the confirmation on fresh failures"
    assert content["regret"]["relative"] > 0


def test_why_not(tmp_path: Path) -> None:
    """A value that ties, is worse or cannot run has its reason; one that does not exist is refused."""
    text = study(VARY | {"detection": {"path": "detection.time", "choices": ["2 min", "-1 min"]}})
    slow = ask(tmp_path, text, *AT_ONCE, "--explain", "detection=-1 min")
    explained = content_of(slow)["explained"]
    assert explained["status"] == "cannot run"
    assert explained["reason"].startswith("check: ")
    refused = ask(tmp_path, text, *AT_ONCE, "--explain", "detection=3 min")
    assert (refused.exit_code, "detection has no value '3 min'" in refused.stderr) == (WRONG, True)


_SIZE = {"size": {"derive": "size"}}

_TIMES = ("repair.time", "detection.time", "recovery.initialize", "checkpoint.tiers.0.restore")

_PRICED = {
    "offer": {
        "choices": {
            "a": {"cost": {"capex": 1, "years": 4, "currency": "EUR"}},
            "b": {"cost": {"capex": 1, "years": 4}},
        }
    },
    "size": {"derive": "size"},
}


@cases(
    ("vary", "optimize", "words"),
    [
        (_SIZE, {"budget": None}, "needs a limit: add optimize.budget"),
        (_SIZE, {"budget": {"power": "0 MW"}}, "must be above 0"),
        (_SIZE, {"budget": {"power": "100"}}, "needs a unit"),
        (_SIZE, {"budget": {"capex": 1e6}}, "needs prices"),
        (_PRICED, {"budget": {"capex": 1e6}}, "is of one currency, and prices are in EUR and USD"),
        (_SIZE, {"batch": {"sequences": [0, 4]}}, "a batch has one sequence at least"),
        (_SIZE, {"tie": "50 %"}, "50 % is too much"),
        (_SIZE | {"nodes": {"path": "cluster.nodes", "choices": [1, 2]}}, {}, "cluster.nodes follows from the size"),
        (
            {path: {"choices": [f"{n} s" for n in range(1, 60)]} for path in _TIMES} | _SIZE,
            {},
            "makes 12,117,361 combinations before any is derived, and at most 10,000,000 are listed: vary less",
        ),
    ],
)
def test_refused_in_a_line(tmp_path: Path, vary: dict[str, Any], optimize: dict[str, Any], words: str) -> None:
    """Where it stands and the rule; exit 2, and nothing is written."""
    goal = {key: value for key, value in (OPTIMIZE | optimize).items() if value is not None}
    result = ask(tmp_path, study(vary, optimize=goal), out="none")
    assert (result.exit_code, result.stdout) == (WRONG, "")
    (said,) = mistake_lines(result.stderr)
    assert words in said
    assert not (tmp_path / "none" / "optimize.json").exists()


def test_a_measured_step_has_no_derived_layout(tmp_path: Path) -> None:
    """The step was measured for one layout."""
    result = ask(tmp_path, study(set={"jobs.0.step_time": "10 s"}))
    assert result.exit_code == WRONG
    (said,) = mistake_lines(result.stderr)
    assert "(step_time or mfu), of one layout: leave it out" in said
    other = ask(
        tmp_path,
        study({"a": {"path": "spares.hot", "choices": [0, 1]}}, optimize={"maximize": "ettr"}),
        "--seconds",
        "3",
    )
    assert (other.exit_code, "--seconds: only applies to designs" in other.stderr) == (WRONG, True)


# ----------------------------------------
# Services: the cheapest that meets its SLO.

SERVICE: dict[str, Any] = {
    "name": "few",
    "scenario": "serve-llama3-70b",
    "set": {"cluster.nodes": None, "services.0.demand.rate": "200 per s", "horizon": "30 d"},
    "vary": {
        "width": {"choices": {str(gpus): {"services.0.parallelism.tensor": gpus} for gpus in (4, 8)}},
        "replicas": {"path": "services.0.replicas", "choices": [20, 28, 36, 44]},
        "spares": {"path": "spares.hot", "choices": [0, 1, 2]},
    },
    "optimize": {"minimize": "cost", "subject_to": ["slo_attainment >= 0.999"], "confirm": 16},
}


@pytest.mark.parametrize("budget", [None, {"gpus": 300}])
def test_the_cheapest_service_has_no_cheaper_neighbour(tmp_path: Path, budget: dict[str, int] | None) -> None:
    """36 replicas of four GPUs with 2 spares were once said to be the cheapest, beside cheaper ones without."""
    goal = SERVICE["optimize"] | ({} if budget is None else {"budget": budget})
    content = json.loads(ask(tmp_path, sim.dump(SERVICE | {"optimize": goal})).stdout)
    assert content["answer"]["values"] == {"width": "4", "replicas": "36", "spares": "0"}
    assert content["answer"]["aims"]["cost"]["mean"] == pytest.approx(36 * 4 * 2.5 * 720)
    cost = content["answer"]["aims"]["cost"]["mean"]
    for trial in content["trials"]:
        assert trial["aims"]["cost"]["mean"] is None or trial["aims"]["cost"]["mean"] >= cost or not trial["met"]
    around = {(entry["axis"], entry["to"]) for entry in content["neighbours"]}
    assert around >= {("replicas", "28"), ("replicas", "44"), ("spares", "1"), ("width", "8")}
    if budget is not None:
        assert content["regret"]["source"] in ("race", "condition")
        assert content["funnel"]["below_bound"] > 0
        assert {group["kind"] for group in content["infeasible"]} >= {"budget", "check"}


# ----------------------------------------
# Oracles: as functions where no model says the same, else as scenarios.


def best_share(mtti: float, write: float, restart: float) -> float:
    """Return the productive share at the best interval [-], all in one unit of time."""
    interval = mtti * (1 + float(lambertw(-math.exp(-1 - write / mtti)).real))
    return interval / mtti * math.exp(-restart / mtti) / math.expm1((interval + write) / mtti)


def test_stacks_of_shards() -> None:
    """O15: more stacks survive more failures, until half of the groups may be dead and steps take two."""

    def share(stacks: int) -> float:
        groups = 200
        lost = float(gamma(1 + 1 / stacks)) * groups ** (1 - 1 / stacks)
        steps = np.ceil(groups / (groups - np.arange(round(lost)))).mean()
        return best_share(10 * lost, 1.0, 60.0) / float(steps)

    shares = {stacks: share(stacks) for stacks in range(1, 21)}
    assert max(shares, key=shares.__getitem__) == 8
    assert [shares[stacks] for stacks in (7, 8, 9)] == pytest.approx([0.447566, 0.451365, 0.445595], rel=2e-6)


def test_a_date_that_is_kept() -> None:
    """O10: nodes that finish with 50, 90 and 99 % before 60 days are over, each failure taking 20 minutes."""

    def kept(nodes: int) -> float:
        return float(poisson.cdf(math.floor((60 - 108_000 / nodes) * 72), nodes * 60 / 300))

    assert [min(n for n in range(1900, 2100) if kept(n) >= p) for p in (0.5, 0.9, 0.99)] == [1982, 1997, 2009]
    assert kept(1997) == pytest.approx(0.911388, rel=1e-6)
