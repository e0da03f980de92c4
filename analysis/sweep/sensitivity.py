"""A study simulated for its sensitivity: one axis at a time, all at once at random, or both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.run import provenance
from ettrick.analysis.results.studies import AxisDescription, Center, IndicesSummary, SensitivityDocument
from ettrick.analysis.statistics.estimates import summarise_ratio
from ettrick.analysis.study.designs import OneAtATime, Saltelli
from ettrick.analysis.study.questions.sensitivity import tornado
from ettrick.analysis.study.questions.sobol import LEAST, indices
from ettrick.analysis.study.table import Cell, StudyTable
from ettrick.analysis.sweep.campaign import counted
from ettrick.analysis.sweep.sweep import replications_of
from ettrick.analysis.sweep.task import blocks
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.analysis.study.designs import Design
    from ettrick.analysis.study.model import Study
    from ettrick.analysis.study.questions.sobol import Indices
    from ettrick.analysis.study.table import PointResult
    from ettrick.analysis.sweep.campaign import Campaign


METHODS = ("tornado", "sobol", "both")

SAMPLES = 64
"""Points of a set, by default; with d axes 64 (d + 2) points are simulated."""


def sensitivity(
    campaign: Campaign, *, command: str, method: str = "both", samples: int | None = None, metric: str = "",
    replications: int | None = None,
) -> SensitivityDocument:  # fmt: skip
    """Return the document of what the axes of a study do to a metric.

    What is in the journal already is not simulated again, so that a second call with another metric simulates nothing.

    Parameters
    ----------
    command
        What made the document.
    method
        ``tornado``, ``sobol`` or ``both``.
    samples
        Points of a set of the Saltelli design, a power of two; omitted: as the study says if that is its design, else
        `SAMPLES`.
    metric
        Omitted: the first one of the study.
    replications
        Of every point; omitted: as many as a sweep has; with a precision, as many as before its decisions.

    Raises
    ------
    ReplicationsError
        If there is no such method or metric, the numbers are too small, or the central point cannot run.
    """
    study = campaign.loaded.study
    metric = metric or study.metrics[0]
    count = replications_of(study) if replications is None else replications
    _check(method, count)
    campaigns = _by_method(campaign, samples)
    center = _center(campaigns["tornado"], metric, count)
    tables = _simulated({name: campaigns[name] for name in campaigns if method in (name, "both")}, metric, count)
    return _document(campaigns, center, tables, metric, count, command)


def _by_method(campaign: Campaign, samples: int | None) -> dict[str, Campaign]:
    """Return the study with the design of each method: one axis at a time, and all at once."""
    study = campaign.loaded.study
    together = _together(study) if samples is None else Saltelli(samples=samples)
    try:
        together.check(study.vary)
    except RuleError as error:
        raise ReplicationsError(f"--samples {samples}: {error.rule}") from None
    designs: dict[str, Design] = {"tornado": _alone(study), "sobol": together}
    studies = {name: study.model_copy(update={"design": design}) for name, design in designs.items()}
    return {name: replace(campaign, loaded=replace(campaign.loaded, study=copy)) for name, copy in studies.items()}


def _alone(study: Study) -> OneAtATime:
    return study.design if isinstance(study.design, OneAtATime) else OneAtATime()


def _together(study: Study) -> Saltelli:
    return study.design if isinstance(study.design, Saltelli) else Saltelli(samples=SAMPLES)


def _document(
    campaigns: Mapping[str, Campaign], center: PointResult, tables: Mapping[str, StudyTable], metric: str,
    replications: int, command: str,
) -> SensitivityDocument:  # fmt: skip
    """Return the document of the central point and of the tables by method."""
    loaded = campaigns["tornado"].loaded
    study = loaded.study
    of_sobol, missing = _indices_of(tables["sobol"], metric, campaigns["sobol"]) if "sobol" in tables else (None, "")
    return SensitivityDocument(
        format=FORMAT,
        study=study.name,
        question=study.question,
        scenario=study.scenario,
        metric=metric,
        replications=replications,
        seed=loaded.scenario(center.point).seed,
        axes={
            name: AxisDescription(
                title=axis.title or name, unknown=axis.is_uncertain, basis=axis.basis, source=axis.source
            )
            for name, axis in study.vary.items()
        },
        center=_center_summary(center, study, metric),
        low=_alone(study).low,
        tornado=tornado(tables["tornado"], metric) if "tornado" in tables else None,
        indices=of_sobol,
        indices_missing=missing,
        assumptions=list(study.assumptions),
        warnings=list(center.warnings),
        provenance=provenance(command, scenario_sha256=loaded.digest),
    )


def _center_summary(center: PointResult, study: Study, metric: str) -> Center:
    """Return the central point with its mean."""
    ratios = center.metrics[metric]
    summary = summarise_ratio([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    return Center(
        values={name: value.label for name, value in zip(study.vary, center.point.values, strict=True)},
        mean=summary.mean,
        ci95=summary.mean_ci95,
        closed_form=center.formula if metric == "ettr" else None,
    )


def _indices_of(table: StudyTable, metric: str, campaign: Campaign) -> tuple[IndicesSummary | None, str]:
    """Return the indices of a metric, or why there are none."""
    try:
        return _indices(indices(table, metric), _together(campaign.loaded.study).samples), ""
    except ReplicationsError as error:
        return None, str(error)


def _indices(estimated: Indices, samples: int) -> IndicesSummary:
    variance = {
        name: {"variance": variance, "share": None if estimated.shares is None else estimated.shares[name]}
        for name, variance in estimated.parts._asdict().items()
    }
    names = {
        "samples": samples,
        "variance": variance,
        "noise_of_means": estimated.noise,
        "by_axis": list(estimated.axes),
    }
    return IndicesSummary.model_validate({**estimated._asdict(), **names})


def _check(method: str, replications: int) -> None:
    """Refuse what makes no sense for any study."""
    if method not in METHODS:
        raise ReplicationsError(f"--method: unknown method '{method}'{suggest(method, METHODS)}")
    if replications < LEAST:
        raise ReplicationsError(
            f"{replications} replications: needs {LEAST} at least to separate what varies from noise"
        )


def _center(campaign: Campaign, metric: str, replications: int) -> PointResult:
    """Return what comes of the central point, which shows soon whether the rest makes sense."""
    point = next(campaign.loaded.points())
    replace(campaign, progress=lambda _done, _total: None).simulate([point], replications)
    outcome = campaign.outcome(point, replications)
    if outcome.trouble:
        raise ReplicationsError(f"the central point cannot run: {outcome.trouble}")
    if metric not in outcome.metrics:
        raise ReplicationsError(f"{metric}: the scenario has no such metric{suggest(metric, outcome.metrics)}")
    return outcome


def _simulated(campaigns: dict[str, Campaign], metric: str, replications: int) -> dict[str, StudyTable]:
    """Return the tables of several studies, simulated with one progress over all of them."""
    points = {name: tuple(campaign.loaded.points()) for name, campaign in campaigns.items()}
    total = len(blocks(0, replications)) * sum(map(len, points.values()))
    count = counted(next(iter(campaigns.values())).progress, total)
    tables = {}
    for name, campaign in campaigns.items():
        replace(campaign, progress=count).simulate(points[name], replications)
        cells = tuple(Cell(campaign.outcome(point, replications, (metric,))) for point in points[name])
        tables[name] = StudyTable(campaign.loaded.study.vary, cells, (metric,))
    return tables
