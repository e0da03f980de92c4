"""The answer on failures that had no part in finding it."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from analysis.optimize.evaluate import Bench
from analysis.optimize.problem import draws_of
from analysis.study.value import settings_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.optimize.evaluate import Trial
    from analysis.paired import Difference
    from analysis.study.load import LoadedStudy

__all__ = ["Confirmation", "confirm"]


class Confirmation(NamedTuple):
    """What came of some combinations, and of the scenario as it is, on fresh failures.

    Parameters
    ----------
    seed
        Of the fresh failures, and of fresh draws of what is not known.
    trials
        The combinations, in the order in which they were given; the first is the answer.
    start
        The scenario as it is.
    gains
        For each of `trials` and each aim, by how much it is better than the scenario as it is.
    ahead
        For each of `trials` and each aim, by how much it is better than the answer.
    is_confirmed
        Whether conditions surely hold, and the answer is surely better than the scenario as it is unless that misses a
        condition; ``False`` where a condition surely fails, or the scenario as it is is surely better; ``None`` where
        this is not resolved.
    """

    seed: int
    trials: tuple[Trial, ...]
    start: Trial
    gains: tuple[tuple[Difference | None, ...], ...]
    ahead: tuple[tuple[Difference | None, ...], ...]
    is_confirmed: bool | None


def confirm(bench: Bench, found: Sequence[Trial], replications: int) -> Confirmation:
    """Return what some combinations come to with another seed, beside the scenario as it is.

    The best of many looks better than it is: luck that helped it is part of why it was chosen. Fresh failures owe it
    nothing. An answer that was searched for at the edge of a condition lies on either side of it by chance: a mean that
    misses the bound by less than its doubt denies nothing.

    Parameters
    ----------
    bench
        Where they were found.
    found
        The combinations, the answer first.
    replications
        Of each.

    References
    ----------
    J. E. Smith, R. L. Winkler, "The Optimizer's Curse", Management Science 52 (2006), 311.
    """
    seed = _fresh(bench.problem.loaded.scenario(found[0].cell.stated.point).seed)
    loaded = _with_seed(bench.problem.loaded, seed)
    # The draws too: inputs that none of them met helped to choose the answer as luck did.
    draws = draws_of(loaded, over_draws=bench.problem.over_draws, fresh=seed)
    problem = dataclasses.replace(bench.problem, loaded=loaded, draws=draws)
    fresh = Bench(problem, dataclasses.replace(bench.campaign, loaded=loaded), replications)
    *trials, start = fresh.play([*(trial.chosen for trial in found), ()])
    aims = problem.aims
    gains = tuple(tuple(fresh.gain(trial, start, aim) for aim in aims) for trial in trials)
    ahead = tuple(tuple(fresh.gain(trial, trials[0], aim) for aim in aims) for trial in trials)
    return Confirmation(seed, tuple(trials), start, gains, ahead, _is_confirmed(trials[0], start, gains[0]))


def _is_confirmed(answer: Trial, start: Trial, gains: Sequence[Difference | None]) -> bool | None:
    """Return whether the answer is what it was said to be: denied only where that is resolved, as it is confirmed."""
    if answer.verdict == "fails":
        return False
    gain = gains[0]
    compared = gain is not None and start.is_met
    if compared and gain is not None and gain.resolved and gain.mean < 0:
        return False
    is_better = not compared or (gain is not None and gain.resolved)
    return True if answer.verdict == "holds" and answer.is_usable and is_better else None


def _fresh(seed: int) -> int:
    """Return another seed that follows from one."""
    return int.from_bytes(hashlib.blake2b(f"confirm {seed}".encode(), digest_size=8).digest(), "big") >> 1


def _with_seed(loaded: LoadedStudy, seed: int) -> LoadedStudy:
    kept = (text for text in loaded.common if not text.startswith("seed="))
    return dataclasses.replace(loaded, common=(*kept, settings_text("seed", seed)))
