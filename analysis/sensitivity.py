"""A study simulated for its sensitivity: one axis at a time, all at once at random, or both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.models import (
    AxisDescription,
    Center,
    IndicesSummary,
    SensitivityDocument,
    SwingSummary,
)
from ettrick.analysis.results.run import provenance
from ettrick.analysis.statistics.estimates import summarise_ratio
from ettrick.analysis.statistics.precision import ReplicationsError
from ettrick.analysis.study.designs import OneAtATime, Saltelli
from ettrick.analysis.study.questions.sensitivity import tornado
from ettrick.analysis.study.questions.sobol import LEAST, indices
from ettrick.analysis.study.table import Cell, StudyTable
from ettrick.analysis.sweep.sweep import replications_of
from ettrick.analysis.sweep.task import blocks
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.study.designs import Design
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.questions.sobol import Indices
    from ettrick.analysis.study.table import PointResult
    from ettrick.analysis.sweep.campaign import Campaign


def sensitivity_document(found: SensitivityResult, *, command: str) -> SensitivityDocument:
    """Return the document of the sensitivity of a study."""
    study, center = found.loaded.study, found.center
    ratios = center.metrics[found.metric]
    known = summarise_ratio([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    return SensitivityDocument(
        format=FORMAT,
        study=study.name,
        question=study.question,
        scenario=study.scenario,
        metric=found.metric,
        replications=found.replications,
        seed=found.loaded.scenario(center.point).seed,
        axes={
            name: AxisDescription(
                title=axis.title or name, unknown=axis.is_uncertain, basis=axis.basis, source=axis.source
            )
            for name, axis in study.vary.items()
        },
        center=Center(
            values={name: value.label for name, value in zip(study.vary, center.point.values, strict=True)},
            mean=known.mean,
            ci95=known.mean_ci95,
            closed_form=center.formula if found.metric == "ettr" else None,
        ),
        low=found.low,
        tornado=found.tornado,
        indices=None if found.indices is None else _indices(found.indices, found.samples),
        indices_missing=found.missing,
        assumptions=list(study.assumptions),
        warnings=list(center.warnings),
        provenance=provenance(command, scenario_sha256=found.loaded.digest),
    )


def _indices(found: Indices, samples: int) -> IndicesSummary:
    variance = {
        name: {"variance": variance, "share": None if found.shares is None else found.shares[name]}
        for name, variance in found.parts._asdict().items()
    }
    names = {"samples": samples, "variance": variance, "noise_of_means": found.noise, "by_axis": list(found.axes)}
    return IndicesSummary.model_validate({**found._asdict(), **names})


METHODS = ("tornado", "sobol", "both")

SAMPLES = 64
"""Points of a set, by default; with d axes 64 (d + 2) points are simulated."""


@dataclass(frozen=True)
class SensitivityResult:
    """What a study says about what varies.

    Parameters
    ----------
    replications, samples
        Replications of every point; points of a set of the Saltelli design.
    low
        Probability of the low end of what is unknown; the high one has as much above it [-].
    tornado
        One axis at a time; ``None`` if that was not asked for.
    indices
        All at once; ``None`` if that was not asked for, or `missing` says why there is nothing.
    missing
        Why there are no indices though they were asked for; empty otherwise.
    """

    loaded: LoadedStudy
    metric: str
    replications: int
    samples: int
    center: PointResult
    low: float
    tornado: list[SwingSummary] | None
    indices: Indices | None
    missing: str


def sensitivity(
    campaign: Campaign,
    *,
    method: str = "both",
    samples: int | None = None,
    metric: str = "",
    replications: int | None = None,
) -> SensitivityResult:
    """Return what the axes of a study do to a metric.

    What is in the journal already is not simulated again, so that a second call with another metric simulates nothing.

    Parameters
    ----------
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
    RequestError
        If there is no such method or metric, the numbers are too small, or the central point cannot run.
    """
    study = campaign.loaded.study
    metric = metric or study.metrics[0]
    count = replications_of(study) if replications is None else replications
    _check(method, count)
    alone = study.design if isinstance(study.design, OneAtATime) else OneAtATime()
    own = study.design if isinstance(study.design, Saltelli) else Saltelli(samples=SAMPLES)
    together = own if samples is None else Saltelli(samples=samples)
    try:
        together.check(study.vary)
    except RuleError as error:
        raise ReplicationsError(f"--samples {samples}: {error.rule}") from None
    plans: dict[str, Design] = {"tornado": alone, "sobol": together}
    loaded = campaign.loaded
    campaigns = {
        name: replace(campaign, loaded=replace(loaded, study=loaded.study.model_copy(update={"design": design})))
        for name, design in plans.items()
    }
    wanted = [name for name in plans if method in (name, "both")]
    center = _center(campaigns["tornado"], metric, count)
    tables = _simulated({name: campaigns[name] for name in wanted}, metric, count)
    found, missing = None, ""
    if "sobol" in tables:
        try:
            found = indices(tables["sobol"], metric)
        except ReplicationsError as error:
            missing = str(error)
    swings = tornado(tables["tornado"], metric) if "tornado" in tables else None
    return SensitivityResult(
        campaign.loaded, metric, count, together.samples, center, alone.low, swings, found, missing
    )


def _check(method: str, replications: int) -> None:
    """Refuse what makes no sense for any study."""
    if method not in METHODS:
        raise ReplicationsError(f"--method {method}: is no method{suggest(method, METHODS)}")
    if replications < LEAST:
        raise ReplicationsError(
            f"{replications} replications: needs {LEAST} at least to separate what varies from noise"
        )


def _center(campaign: Campaign, metric: str, replications: int) -> PointResult:
    """Return what comes of the central point, which shows soon whether the rest makes sense."""
    point = next(campaign.loaded.points())
    replace(campaign, progress=lambda _done, _total: None).simulate([point], replications)
    found = campaign.outcome(point, replications)
    if found.trouble:
        raise ReplicationsError(f"the central point cannot run: {found.trouble}")
    if metric not in found.metrics:
        raise ReplicationsError(f"{metric}: the scenario has no such metric{suggest(metric, found.metrics)}")
    return found


def _simulated(campaigns: dict[str, Campaign], metric: str, replications: int) -> dict[str, StudyTable]:
    """Return the tables of several studies, simulated with one progress over all of them."""
    points = {name: tuple(campaign.loaded.points()) for name, campaign in campaigns.items()}
    per_point = len(blocks(0, replications))
    total, before = per_point * sum(map(len, points.values())), 0
    tables = {}
    for name, campaign in campaigns.items():
        replace(campaign, progress=_shifted(campaign.progress, before, total)).simulate(points[name], replications)
        cells = tuple(Cell(campaign.outcome(point, replications, (metric,))) for point in points[name])
        tables[name] = StudyTable(campaign.loaded.study.vary, cells, (metric,))
        before += per_point * len(points[name])
    return tables


def _shifted(progress: Callable[[int, int | None], None], before: int, total: int) -> Callable[[int, int | None], None]:
    """Return a progress that counts on from what was done before."""
    return lambda done, _own: progress(before + done, total)
