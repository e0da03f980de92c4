"""Several axes, or values without an order: everything where that is little, else a search by Optuna."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

from analysis.ensemble import RequestError
from analysis.optimize.domain import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.optimize.evaluate import Bench, Trial
    from analysis.study.value import Value

__all__ = ["ALL", "BATCH", "play_all", "search"]

ALL = 50
"""Combinations up to which all of them are played."""

BATCH = 8
"""Points that are suggested at once; fixed, so that the suggestions do not depend on who plays them."""

_SEED = 1


def play_all(bench: Bench) -> None:
    """Try every combination."""
    bench.play(list(itertools.product(*(domain.values for domain in bench.problem.domains.values()))))


def search(bench: Bench, trials: int) -> None:
    """Try as many combinations as asked for, where earlier ones say that the best may be.

    Tree-structured Parzen estimators, asked for `BATCH` combinations at a time with a fixed seed: those of a batch
    count as bad for each other until they are played. Of combinations that miss a condition those that miss it by less
    are preferred. Combinations that were tried before are suggested again at times, and cost nothing.

    Raises
    ------
    RequestError
        If Optuna is not installed.

    References
    ----------
    J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 24 (2011); T. Akiba et al., "Optuna",
    KDD (2019); Y. Ozaki et al., J. Artificial Intelligence Research 73 (2022), 1209 (several aims).
    """
    try:
        import optuna
    except ImportError:
        message = "a search over several axes needs Optuna: pip install 'ettrick[opt]'; or give fewer values"
        raise RequestError(message) from None
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        _search(optuna, bench, trials)
    finally:
        optuna.logging.set_verbosity(verbosity)


def _search(optuna: Any, bench: Bench, trials: int) -> None:
    misses: dict[int, list[float]] = {}
    directions = ["minimize" if aim.lowest else "maximize" for aim in bench.problem.aims]
    study = optuna.create_study(directions=directions, sampler=_sampler(optuna, bench, misses))
    done = 0
    while done < trials:
        asked = [study.ask() for _ in range(min(BATCH, trials - done))]
        played = bench.play([_chosen(trial, bench) for trial in asked])
        for trial, found in zip(asked, played, strict=True):
            values = _told(found)
            if values is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            misses[trial.number] = _misses(bench, found)
            study.tell(trial, values)
        done += len(asked)


def _sampler(optuna: Any, bench: Bench, misses: dict[int, list[float]]) -> Any:
    """Return what suggests combinations; of constraints it asks `misses` by the number of a trial."""
    with warnings.catch_warnings():
        # That these options are experimental, or will have other names, is not the user's business.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return optuna.samplers.TPESampler(
            seed=_SEED,
            # The same for any number of trials: more of them go on where fewer ended.
            n_startup_trials=2 * BATCH,
            multivariate=True,
            constant_liar=True,
            constraints_func=_constraints(misses) if bench.problem.conditions else None,
        )


def _constraints(misses: dict[int, list[float]]) -> Callable[[Any], Sequence[float]]:
    return lambda trial: misses[trial.number]


def _chosen(trial: Any, bench: Bench) -> tuple[Value, ...]:
    """Return the combination that a suggestion stands for."""
    chosen = []
    for name, domain in bench.problem.domains.items():
        if not isinstance(domain, Line):
            chosen.append(domain.values[trial.suggest_categorical(name, range(domain.size))])
        elif domain.steps:
            chosen.append(domain.steps[trial.suggest_int(name, 0, len(domain.steps) - 1)])
        elif domain.is_whole:
            first, last = (round(end) for end in domain.ends)
            chosen.append(domain.value(float(trial.suggest_int(name, first, last, log=domain.is_log))))
        else:
            low, high = domain.ends
            chosen.append(domain.value(trial.suggest_float(name, low, high, log=domain.is_log)))
    return tuple(chosen)


def _told(found: Trial) -> list[float] | None:
    """Return what counts of a trial; ``None`` if any of it, or of the metrics of conditions, is not known."""
    values = [aim.mean for aim in found.aims]
    bounded = [bound.mean for bound in found.bounded]
    if found.trouble or any(mean is None for mean in (*values, *bounded)):
        return None
    return [value for value in values if value is not None]


def _misses(bench: Bench, found: Trial) -> list[float]:
    """Return by how much a trial misses each condition; not above zero where it is kept."""
    pairs = zip(bench.problem.conditions, found.bounded, strict=True)
    return [condition.violation(bound.mean) for condition, bound in pairs if bound.mean is not None]
