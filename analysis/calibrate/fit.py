r"""The fit of the step model's numbers to measured steps, and how well it does on steps that it has not seen.

Least squares with a soft L1 loss, so that a few odd rows do not decide:

.. math:: \min_x \sum_i w_i\, 2 \left(\sqrt{1 + z_i^2} - 1\right) + \sum_k \left(\frac{x_k - \mu_k}{\sigma_k}\right)^2,
   \quad z_i = \frac{\ln(T_i(e^x) / t_i)}{0.1}

over the logarithms x of the numbers. Rows of one source share hardware, software and authors: n of them weigh
w = n^(-1/2) each, so a source counts as n^(1/2) independent measurements. Each prior counts as one more. Where a source
is the only one that knows a number, leaving it out leaves the prior, which is why that ends well.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.calibrate.measures import significant
from analysis.calibrate.numbers import Array, Key, Numbers, Prior, errors, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.calibrate.rows import Row

__all__ = ["Change", "Fold", "changed_errors", "fit", "folds", "held_out", "rounded", "sources"]

SCALE = 0.1
"""Error beyond which the loss grows with the error, not with its square [-]."""


class Fold(NamedTuple):
    """A fit without some rows: which ones, the numbers, and the errors on those rows, shape (n,) [-]."""

    out: list[int]
    numbers: Numbers
    errors: Array


class Change(NamedTuple):
    """A change to the model, to see what a part of it is worth.

    Parameters
    ----------
    name
        What is changed.
    constants
        Numbers that are fixed at another value, and not fitted.
    links
        What happens to the links of each row.
    """

    name: str
    constants: Mapping[str, float] = {}
    links: Callable[[Row], Row] | None = None


def fit(rows: Sequence[Row], priors: Mapping[Key, Prior], start: Numbers) -> Numbers:
    """Return the numbers that fit rows best: those with a prior are fitted, the others stay as they start.

    Parameters
    ----------
    rows
        Measured steps.
    priors
        What is known of each fitted number.
    start
        All numbers; those that are fitted begin at the medians of their priors.
    """
    from scipy.optimize import least_squares

    keys = list(priors)
    centre = np.log([priors[key].median for key in keys])
    spread = np.array([priors[key].deviation for key in keys])
    measured = np.log([row.measured for row in rows])
    counts = Counter(row.source for row in rows)
    root_weights = np.array([counts[row.source] ** -0.25 for row in rows])

    def numbers(position: Array) -> Numbers:
        return start.updated(dict(zip(keys, np.exp(position).tolist(), strict=True)))

    def residuals(position: Array) -> Array:
        away = (np.log(predict(rows, numbers(position))) - measured) / SCALE
        soft = np.sign(away) * np.sqrt(2 * (np.sqrt(1 + away**2) - 1))
        return np.concatenate([root_weights * soft, (position - centre) / spread])

    found = least_squares(residuals, centre, diff_step=[1e-4], xtol=1e-9, ftol=1e-9, gtol=1e-9)
    return numbers(found.x)


def rounded(numbers: Numbers, keys: Sequence[Key], digits: int = 4) -> Numbers:
    """Return numbers with some of them rounded to significant digits, as they are written down."""
    return numbers.updated({key: significant(numbers.value(key), digits) for key in keys})


def folds(count: int, parts: int, seed: int) -> list[list[int]]:
    """Return the positions 0 to `count` - 1, shuffled and dealt into parts."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    return [sorted(order[part::parts]) for part in range(parts)]


def sources(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the positions of rows by source."""
    found: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        found.setdefault(row.source, []).append(position)
    return dict(sorted(found.items()))


def held_out(
    rows: Sequence[Row],
    groups: Sequence[list[int]],
    priors: Mapping[Key, Prior],
    start: Numbers,
    tick: Callable[[], None] = lambda: None,
) -> list[Fold]:
    """Return, for each group of positions, the fit to all other rows and its errors on the group."""
    found = []
    for out in groups:
        left = set(out)
        numbers = fit([row for position, row in enumerate(rows) if position not in left], priors, start)
        found.append(Fold(out, numbers, errors([rows[position] for position in out], numbers)))
        tick()
    return found


def changed_errors(rows: Sequence[Row], change: Change, priors: Mapping[Key, Prior], start: Numbers) -> Array:
    """Return the errors of the model after a change, fitted anew [-]."""
    fixed: dict[Key, float] = {("constants", name): value for name, value in change.constants.items()}
    free = {key: prior for key, prior in priors.items() if key not in fixed}
    if change.links is not None:
        rows = [change.links(row) for row in rows]
    return errors(rows, fit(rows, free, start.updated(fixed)))
