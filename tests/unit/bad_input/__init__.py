"""Bad scenarios, in tables: what is written, and what must be said of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ettrick.sim.policies.recovery import RECOVERIES

BASE = """\
name: base
cluster: {nodes: 16, fabric: {leaf: {nodes: 4}}}
horizon: 30 d
jobs:
  - {name: train, gpus: 64, step_time: 10 s}
failures:
  - {use: component, name: node, rate: 6.5 per 1000 node-days}
detection: {time: 5 min}
checkpoint:
  tiers: [{interval: 30 min, mode: blocking, write: 30 s, restore: 1 min}]
recovery: {use: hot-spare, initialize: 4 min}
spares: {hot: 2}
repair: {time: 1 d}
"""

COMPONENT = "  - {use: component, name: node, "

TIER = "  tiers: [{mode: blocking, write: 30 s, restore: 1 min, "

ASYNC = "  tiers: [{write: 30 s, restore: 1 min, "

ELASTIC = "recovery: {use: shrink-rejoin, reconfigure: 10 s, initialize: 4 min"

RECOVERY_NAMES = ", ".join(RECOVERIES)

HEADER = "unit,start,end,cause\n"


@dataclass
class Bad:
    """A scenario with one mistake, and what must be said of it.

    ``change`` replaces lines of BASE by number, or is the whole file. In it, § stands where the message must point.
    """

    change: dict[int, str] | str | bytes
    fragments: tuple[str, ...]
    place: str = ""
    overrides: tuple[str, ...] = ()
    files: dict[str, str | bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Work out the text of the file, and the place of the mistake."""
        if isinstance(self.change, bytes):
            self.content = self.change
            return
        lines = BASE.splitlines()
        changes = self.change if isinstance(self.change, dict) else {}
        for number, line in changes.items():
            lines[number - 1] = line
        text = self.change if isinstance(self.change, str) else "\n".join(lines) + "\n"
        before, sign, after = text.partition("§")
        if sign:
            self.place = f"s.yaml:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        self.content = (before + after).encode()


def bad(
    change: dict[int, str] | str | bytes, *fragments: str, place: str = "", files: dict[str, str | bytes] | None = None
) -> Bad:
    """Return a bad scenario."""
    return Bad(change, fragments, place, files=files or {})


def log(content: str | bytes, *fragments: str) -> Bad:
    """Return a scenario whose replayed log is bad."""
    row = {7: "  - §{use: replay, file: log.csv}"}
    return Bad(row, ("failures.0: ", *fragments), files={"log.csv": content})


def over(option: str, *fragments: str, files: dict[str, str | bytes] | None = None) -> Bad:
    """Return the good scenario with a bad ``--set``."""
    return Bad({}, fragments, f"--set {option}", (option,), files or {})
