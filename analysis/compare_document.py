"""The JSON document of a comparison: what each variant came to, and how far it is from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.at_equal import at_equal_lines, taken
from analysis.compare import keys_that_differ
from analysis.document import document
from analysis.paired import difference
from analysis.provenance import provenance, scenario_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.compare import Comparison
    from analysis.paired import Difference

__all__ = ["compare_document"]

_OF_A_RUN = (
    "scenario",
    "metrics",
    "time_shares",
    "cluster_shares",
    "interruptions_by_cause",
    "loss_gpu_s",
    "energy",
    "cost",
    "per_job",
    "assumptions",
    "warnings",
    "notes",
)
"""What a variant has in common with the document of a run."""

_WORDS = {"tokens_per_gpu_day": "tokens per GPU-day", "tokens_per_mw_day": "tokens per MW-day"}


def compare_document(
    comparison: Comparison,
    cannot_run: Mapping[str, str],
    *,
    command: str,
    varied: Sequence[str] = (),
    without_stores: Mapping[str, str] | None = None,
    instead_of: str | None = None,
) -> dict[str, Any]:
    """Return the document of a comparison as plain data; see docs/reference/json.md.

    Parameters
    ----------
    comparison
        The variants that ran.
    cannot_run
        One line about each that cannot, by name.
    command
        The command, to be typed again.
    varied
        Dotted paths that differ on purpose.
    without_stores
        The variant without the checkpoint stores of a recovery preset, by the name of the one that has them.
    instead_of
        The variant that the others were to be compared with, if it cannot run.
    """
    first = comparison.ensembles[0].prepared
    scenarios = {
        name: ensemble.prepared.scenario for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    return {
        "replications": comparison.replications,
        "seed": first.seed,
        "precise": comparison.precise,
        "first": comparison.names[0],
        "instead_of": instead_of,
        "headline": comparison.headline,
        "order": list(comparison.order),
        "ranking": _ranking(comparison),
        "at_equal": _at_equal(comparison),
        "differs": list(comparison.differs),
        "varied": list(varied),
        "also_differ": keys_that_differ(scenarios, varied),
        "stores": _stores(comparison, without_stores or {}),
        "unranked_because": _why_unranked(comparison),
        "variants": {
            name: {
                "scenario_sha256": scenario_digest(ensemble.prepared.scenario),
                **{key: value for key, value in document(ensemble, command="").items() if key in _OF_A_RUN},
                "difference": {metric: _plain(found) for metric, found in differences.items()},
            }
            for name, ensemble, differences in zip(
                comparison.names, comparison.ensembles, comparison.differences, strict=True
            )
        },
        "cannot_run": dict(cannot_run),
        "provenance": provenance(command),
    }


def _ranking(comparison: Comparison) -> dict[str, Any] | None:
    """Return which variants may be the best, as plain data."""
    found = comparison.ranking
    if found is None:
        return None
    names = comparison.names
    return {
        "behind": {
            names[position]: {"mean": mean, "ci95": interval}
            for position, (mean, interval) in zip(found.order, found.behind, strict=True)
        },
        "may_be_best": [names[position] for position in found.may_be_best],
        "replications_to_resolve": found.replications_to_resolve,
    }


def _at_equal(comparison: Comparison) -> dict[str, Any] | None:
    """Return what was divided by what, as plain data."""
    if comparison.at_equal is None:
        return None
    of = {
        name: taken(ensemble.prepared, ensemble.rows)
        for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    return {
        "kind": comparison.at_equal,
        "variants": {name: found._asdict() for name, found in of.items()},
        "lines": at_equal_lines(comparison.at_equal, comparison.headline, of, comparison.differs),
    }


def _stores(comparison: Comparison, without: Mapping[str, str]) -> dict[str, Any]:
    """Return what checkpoint stores of presets make of the headline, and what the difference is without them."""
    rows = {
        name: [row[comparison.headline] for row in ensemble.rows]
        for name, ensemble in zip(comparison.names, comparison.ensembles, strict=True)
    }
    first = comparison.names[0]
    base = without.get(first, first)
    return {
        name: {
            "without": bare,
            "gain": _plain(difference(rows[name], rows[bare])),
            "rest": None if name == first else _plain(difference(rows[bare], rows[base])),
        }
        for name, bare in without.items()
    }


def _plain(found: Difference | None) -> dict[str, Any] | None:
    """Return a difference as plain data."""
    if found is None:
        return None
    return found._asdict() | {"controlled": None if found.controlled is None else found.controlled._asdict()}


def _why_unranked(comparison: Comparison) -> str | None:
    """Return why the variants are not ranked by goodput, if they are not."""
    if not comparison.differs:
        return None
    names = comparison.differs
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    why = (
        f"{listed} differ{'s' * (len(names) == 1)}, and a share of the peak does not tell which is better "
        "(it would punish the faster hardware)"
    )
    if comparison.order:
        return f"{why}; ranked by {_WORDS.get(comparison.headline, comparison.headline.replace('_', ' '))}"
    return f"{why}; without tokens per day of every variant there is no rank"
