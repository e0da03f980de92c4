"""What control variates are worth: replications that the same interval takes without, relative to with."""

from __future__ import annotations

from typing import NamedTuple

import sim
from analysis.compare import Variant, compare
from analysis.runs import replicate
from analysis.statistics.differences import controlled

REPLICATIONS = 60


class _Case(NamedTuple):
    """A shipped scenario with changes."""

    title: str
    scenario: str
    changes: tuple[str, ...] = ()

    def prepared(self) -> sim.Prepared:
        """Return it, ready to run."""
        return sim.prepare(sim.load(sim.find(self.scenario), self.changes))


_MEANS = (
    _Case("Llama 3, 16 spares, which bind now and then", "llama3-405b-54d"),
    _Case("Llama 3, 64 spares", "llama3-405b-54d", ("spares.hot=64",)),
    _Case("Llama 3 under slurm-requeue", "recovery-16k", ("recovery.use=slurm-requeue", "spares.hot=64")),
    _Case("Llama 3 under nvrx-in-job", "recovery-16k", ("recovery.use=nvrx-in-job", "spares.hot=64")),
    _Case("Llama 3 under torchft-hsdp", "recovery-16k", ("recovery.use=torchft-hsdp", "spares.hot=64")),
)

_PAIRS = (
    ("saves every 20 min for 10", _MEANS[1], ("checkpoint.tiers.0.interval=20 min",)),
    ("a restart of 100 s for 200", _MEANS[1], ("recovery.initialize=100 s",)),
    ("slurm-requeue for nvrx-in-job", _MEANS[3], ("recovery.use=slurm-requeue", "spares.hot=64")),
    ("torchft-hsdp for nvrx-in-job", _MEANS[3], ("recovery.use=torchft-hsdp", "spares.hot=64")),
)


def precision_rows() -> list[str]:
    """Return how many times the replications the intervals of means and of paired differences are worth."""
    lines = [f"{'what control variates are worth, in replications':66} {'factor':>8}"]
    worth = {}
    for case in _MEANS:
        found = replicate(case.prepared(), REPLICATIONS)
        taken = controlled([row["ettr"] for row in found.rows], found.luck)
        if taken is None:
            lines.append(f"  ETTR: {case.title:58} {'none':>8}")
        else:
            worth[case.title] = taken.worth
            lines.append(f"  ETTR: {case.title:58} {taken.worth:8.1f}")
    for title, case, changes in _PAIRS:
        changed = case._replace(changes=(*case.changes, *changes))
        variants = [Variant("with", case.prepared()), Variant("without", changed.prepared())]
        change = compare(variants, REPLICATIONS).differences[1]["ettr"]
        factor = change.controlled.worth if change is not None and change.controlled is not None else 1.0
        lines.append(f"  difference on the same failures: {title:31} {factor:8.1f}")
    lines.append(f"least where spares do not bind: {min(worth.values()):.1f} (target >= 3)")
    return lines
