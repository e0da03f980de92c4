"""The JSON document of an optimisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.optimize.domain import Line
from analysis.paired import difference_data
from analysis.provenance import provenance
from analysis.study.value import label_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.optimize.confirm import Confirmation
    from analysis.optimize.evaluate import Bench, Trial
    from analysis.optimize.formula import FormulaAnswer
    from analysis.optimize.play import Found
    from analysis.optimize.scalar import Edge, Top
    from analysis.study.value import Value

__all__ = ["optimum_document"]


def optimum_document(found: Found, *, command: str) -> dict[str, Any]:
    """Return the document of an optimisation as plain data.

    Parameters
    ----------
    found
        What `optimize` returned.
    command
        The command, to be typed again.
    """
    bench = found.bench
    problem = bench.problem
    study = problem.loaded.study
    standing = found.standing
    answers = [member.trial for member in found.front] or list(standing.order[:1])
    return {
        "study": study.name,
        "question": study.question,
        "scenario": study.scenario,
        "method": found.method,
        "replications": bench.replications,
        "over": problem.spec.over,
        "draws": len(problem.draws) - 1,
        "aims": [{"name": aim.name, "lowest": aim.lowest, "is_axis": aim.is_axis} for aim in problem.aims],
        "conditions": [condition.text for condition in problem.conditions],
        "axes": {name: _axis(name, bench) for name in problem.domains},
        "answer": _trial(answers[0], bench) if answers else None,
        "settings": _settings(answers[0]) if answers else [],
        "runner_up": _trial(standing.order[1], bench) if len(standing.order) > 1 and not found.front else None,
        "as_good": _as_good(found),
        "top": None if found.top is None else _top(found.top, bench),
        "edge": None if found.edge is None else _edge(found.edge, bench),
        "front": [_trial(member.trial, bench) | {"certain": member.is_certain} for member in found.front],
        "tried": [_trial(trial, bench) for trial in _in_order(bench)],
        "confirmation": None if found.confirmation is None else _confirmation(found.confirmation, bench),
        "closed_form": None if found.formula is None else _formula(found.formula, bench),
        "closed_form_left_out": _without_formula(bench),
        "assumptions": list(study.assumptions),
        "warnings": _warnings(answers, bench),
        "provenance": provenance(command) | {"scenario_sha256": problem.loaded.digest},
    }


def _warnings(answers: Sequence[Trial], bench: Bench) -> list[str]:
    """Return what the answers warn of; and where idle nodes served like spares, which makes the others look better."""
    about_spares = [
        line for trial in bench.candidates for line in trial.cell.stated.warnings if line.startswith("spares.idle ")
    ]
    return list(dict.fromkeys([*about_spares, *(line for trial in answers for line in trial.cell.stated.warnings)]))


def _axis(name: str, bench: Bench) -> dict[str, Any]:
    """Return where an axis was looked at."""
    domain = bench.problem.domains[name]
    title = bench.problem.loaded.study.vary[name].title or name
    if not isinstance(domain, Line):
        return {"title": title, "values": [value.label for value in domain.values]}
    ends = [value.label for value in domain.spread(2)]
    return {"title": title, "from": ends[0], "to": ends[1], "size": domain.size}


def _labels(chosen: Sequence[Value], bench: Bench) -> dict[str, str]:
    return {name: value.label for name, value in zip(bench.problem.domains, chosen, strict=True)} if chosen else {}


def _trial(trial: Trial, bench: Bench) -> dict[str, Any]:
    """Return a combination as plain data."""
    problem = bench.problem
    pairs = zip(problem.conditions, trial.bounded, trial.verdicts, strict=True)
    names = problem.domains if trial.chosen else ()
    return {
        "values": _labels(trial.chosen, bench),
        "numbers": {name: value.number for name, value in zip(names, trial.chosen, strict=True)},
        "aims": {aim.name: aimed._asdict() for aim, aimed in zip(problem.aims, trial.aims, strict=True)},
        "conditions": [
            {
                "condition": condition.text,
                "metric": condition.metric,
                "bound": condition.bound,
                **bound._asdict(),
                "verdict": verdict,
            }
            for condition, bound, verdict in pairs
        ],
        "met": trial.is_met,
        "closed_form": trial.cell.stated.formula,
        "trouble": trial.trouble,
    }


def _settings(trial: Trial) -> list[str]:
    """Return what a combination writes into the scenario, as ``path=value``."""
    stated = trial.cell.stated.point
    mine = {id(value) for value in trial.chosen}
    values = [value for value in stated.values if id(value) in mine]
    return list(stated._replace(values=tuple(values)).overrides)


def _in_order(bench: Bench) -> list[Trial]:
    """Return what was tried: along its axis if there is one alone, else as it came."""
    domains = list(bench.problem.domains.values())
    if len(domains) == 1 and isinstance(domains[0], Line):
        return sorted(bench.candidates, key=lambda trial: trial.chosen[0].number or 0.0)
    return bench.candidates


def _as_good(found: Found) -> dict[str, Any] | None:
    """Return what is as good as the answer at this precision."""
    standing, bench = found.standing, found.bench
    if found.front or found.edge is not None or not standing.as_good:
        return None
    trials = [trial for trial in _in_order(bench) if trial in standing.as_good]
    return {
        "values": [_labels(trial.chosen, bench) for trial in trials],
        "loss_below": standing.loss,
        "replications_to_resolve": standing.replications_to_resolve,
    }


def _top(top: Top, bench: Bench) -> dict[str, Any]:
    """Return where the curve is highest."""
    (line,) = bench.problem.domains.values()
    assert isinstance(line, Line)
    return {**top._asdict(), "label": line.label(top.number), "labels95": [line.label(end) for end in top.ci95]}


def _edge(edge: Edge, bench: Bench) -> dict[str, Any]:
    """Return up to where conditions hold."""
    return {
        "surely_not": None if edge.surely_not is None else _labels(edge.surely_not.chosen, bench),
        "surely": None if edge.surely is None else _labels(edge.surely.chosen, bench),
        "islands": [_labels(trial.chosen, bench) for trial in edge.islands],
    }


def _confirmation(found: Confirmation, bench: Bench) -> dict[str, Any]:
    """Return what fresh failures say."""
    names = [aim.name for aim in bench.problem.aims]
    rows = zip(found.trials, found.gains, found.ahead, strict=True)
    return {
        "seed": found.seed,
        "replications": max(trial.cell.stated.replications for trial in found.trials),
        "confirmed": found.is_confirmed,
        "trials": [
            _trial(trial, bench)
            | {
                "gain": {name: difference_data(gain) for name, gain in zip(names, gains, strict=True)},
                "ahead_of_answer": {name: difference_data(lead) for name, lead in zip(names, ahead, strict=True)},
            }
            for trial, gains, ahead in rows
        ],
        "as_it_is": _trial(found.start, bench) | {"values": _as_it_is(bench)},
    }


def _as_it_is(bench: Bench) -> dict[str, str]:
    """Return what the scenario as it is says of each axis, where that is one value."""
    problem = bench.problem
    content = problem.loaded.template.scenario(problem.loaded.common).dump()
    found: dict[str, str] = {}
    for name in problem.domains:
        axis = problem.loaded.study.vary[name]
        if not isinstance(axis.choices, dict) or axis.path or axis.paths:
            value = _value_at(content, axis.targets(name)[0].split("."))
            found |= {} if value is None else {name: label_of(value)}
    return found


def _value_at(content: Any, path: Sequence[str]) -> Any:
    """Return what stands at a path of plain data; ``None`` where there is no such place."""
    for step in path:
        if isinstance(content, dict):
            content = content.get(step)
        elif isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            return None
    return content


def _without_formula(bench: Bench) -> dict[str, Any] | None:
    """Return for how many combinations the closed form does not apply, and why it does not for the first."""
    reasons = [trial.cell.stated.no_formula for trial in bench.candidates if trial.cell.stated.no_formula]
    return {"combinations": len(reasons), "reason": reasons[0][0]} if reasons else None


def _formula(found: FormulaAnswer, bench: Bench) -> dict[str, Any]:
    """Return the closed form's answer."""
    return {
        "values": _labels(found.chosen, bench),
        "ettr": found.ettr,
        "ettr_of_answer": found.ettr_of_answer,
        "of_tried": found.is_of_tried,
        "assumptions": list(found.assumptions),
    }
