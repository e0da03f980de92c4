"""How a job comes back, as text for the terminal; every number in it is in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import empty_table, label_grid, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

__all__ = ["print_recovery"]

_LEAST = 0.005
"""Share of a class below which an observer is not named [-]."""
_WHO = {"stated": "as stated", "human": "a human"}
_BASES = "P: read in a source, S: quoted by others, D: derived, A: assumed"


def print_recovery(out: Console, jobs: dict[str, Any], name: str) -> None:
    """Print how a job comes back; what an earlier one has in common with it is not said again."""
    recovery = jobs[name]["recovery"]
    before = list(jobs)[: list(jobs).index(name)]
    out.print("\nHow it comes back", style="bold")
    twin = next((other for other in before if jobs[other]["recovery"] == recovery), None)
    if twin is not None:
        out.print(label_grid([("as", twin)]))
        return
    out.print(label_grid(_strategy(recovery)))
    _print_classes(out, recovery)
    _print_stores(out, recovery["stores"])
    if recovery["rungs"]:
        _print_rungs(out, recovery)
    else:
        _print_phases(out, recovery["phases"])
    preset = recovery["preset"]
    if preset is not None and not before:
        out.print(f"\nWhat the numbers of {preset['name']} rest on", style="bold")
        out.print(f"  {_BASES}")
        out.print(label_grid([(note["basis"], " ".join(note["text"].split())) for note in preset["notes"]]))


def _strategy(recovery: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the strategy is, where its numbers are from, and what the scenario changes in all of them."""
    rows = [("strategy", f"{recovery['strategy']}: {recovery['summary']}")]
    preset = recovery["preset"]
    if preset is not None:
        rows.append(("preset", f"{preset['name']}: {preset['title']} ({preset['source']})"))
    scales = [f"all times of {part} x {factor:g}" for part, factor in recovery["scales"].items() if factor != 1]
    if scales:
        rows.append(("factors", ", ".join(scales)))
    settings = [_setting(name, value) for name, value in recovery["settings"].items()]
    if settings:
        rows.append(("settings", ", ".join(settings)))
    return [*rows, ("times", "means at the size of the job, of faults that take one of its nodes at most")]


def _setting(name: str, value: Any) -> str:
    """Return what the scenario states of a strategy."""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, dict):
        return f"{name} ({', '.join(_setting(key, item) for key, item in value.items())})"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


# ------------------------------------------------------------------------------------------------ in tables


def _print_classes(out: Console, recovery: dict[str, Any]) -> None:
    """Print which classes of faults there are, and who knows of them first."""
    if not recovery["classes"]:
        return
    table = _worded("Faults", "a day", "known after", "first to know", words=("first to know",))
    for row in recovery["classes"]:
        name = row["fault"] if row["stops"] else f"{row['fault']}, steps on"
        table.add_row(name, f"{row['per_day']:.3g}", _time(row["known_after_s"]), _first(row["first"]))
    table.add_row("all", f"{recovery['interruptions_per_day']:.3g}", "", "")
    out.print()
    out.print(table)


def _first(shares: dict[str, float]) -> str:
    """Return who knows of faults first, the most frequent one first."""
    if not shares:
        return "nobody"
    often = sorted(shares.items(), key=lambda item: -round(item[1], 6))
    named = [(_WHO.get(name, name), share) for name, share in often if share >= _LEAST]
    return ", ".join(f"{name} {100 * share:.3g} %" for name, share in named)


def _print_stores(out: Console, stores: Sequence[dict[str, Any]]) -> None:
    """Print where copies are kept."""
    in_steps = any(row["steps"] is not None for row in stores)
    corrupt = any(row["unreadable"] for row in stores)
    table = _worded(
        *("Copies", "every"),
        *(["steps"] if in_steps else []),
        *("stall", "durable after", "read in", "lost with", "kept"),
        *(["unreadable"] if corrupt else []),
        words=("lost with",),
    )
    for row in stores:
        live = row["interval_s"] is None
        read = [_time(row["read_in_s"]), _time(row["fetched_in_s"])]
        kept = "last step" if live else "all" if row["retain"] is None else f"{row['retain']}"
        table.add_row(
            row["store"],
            "" if live else _time(row["interval_s"]),
            *([f"{row['steps']:,}" if row["steps"] is not None else ""] if in_steps else []),
            *(("", "") if live else (_time(row["stall_s"]), _time(row["durable_after_s"]))),
            read[0] if read[0] == read[1] else f"{read[0]}, own lost {read[1]}",
            _lost_with(row),
            kept,
            *([f"{100 * row['unreadable']:.3g} %"] if corrupt else []),
        )
    out.print()
    out.print(table)


def _lost_with(row: dict[str, Any]) -> str:
    """Return what takes a shard of a copy."""
    words = {
        "peer": "last whole replica",
        "host": "reboot or swap",
        "peer-host": f"all {row['clique']} of a clique",
        "disk": "swap",
        "remote": "nothing",
    }[row["store"]]
    return f"{words} in every replica" if row["every_replica"] else words


def _print_rungs(out: Console, recovery: dict[str, Any]) -> None:
    """Print the rungs of a ladder, with their mean times at the size of the job."""
    words = ("keeps", "replacements", "not for")
    table = _worded("Ways back", "keeps", "tries", "replacements", "not for", "stop", "delay", "launch", words=words)
    for rung in recovery["rungs"]:
        skips = [*rung["not_for"], *(["rank 0"] if rung["except_first"] else [])]
        tries = "" if rung["budget"] is None else f"{rung['budget']}"
        times = [_time(stage["mean_s"]) for stage in rung["phases"].values()]
        table.add_row(rung["name"], rung["keeps"], tries, _replacements(rung), ", ".join(skips), *times)
    out.print()
    out.print(table)
    more = [(rung["name"], f"and {part}") for rung in recovery["rungs"] for part in _only_after(rung["phases"])]
    out.print(label_grid([*more, ("at the end", _human(recovery["human"]))]))


def _replacements(rung: dict[str, Any]) -> str:
    """Return where the replacements of a rung come from, and how long it waits for them."""
    if rung["keeps"] == "nothing":
        return "the queue"
    wait = rung["patience_s"]
    waits = "" if wait is None else "; if at hand" if wait == 0 else f"; for {_time(wait)}"
    return ", ".join(rung["pools"]) + waits


def _human(human: dict[str, Any] | None) -> str:
    """Return what happens when no rung is left."""
    if human is None:
        return "nobody is called: some way may always be tried"
    vain = human["no_progress"]
    when = "no way is left" + (f", or when {vain} restarts in a row bring no new work" if vain is not None else "")
    if _time(human["after_s"]) == "never":
        return f"the job has failed for good when {when}"
    return f"a human is called when {when}; the job starts again {_time(human['after_s'])} later"


def _print_phases(out: Console, stages: dict[str, Any]) -> None:
    """Print what a strategy takes, with the mean times of its phases at the size of the job."""
    table = _worded("Phases", "mean", "made of", words=("made of",))
    for name, stage in stages.items():
        parts = stage["parts"]
        if any(part["mean_s"] for part in parts):
            made_of = [f"{part['name']} {_time(part['mean_s'])}{_after(part)}" for part in parts]
            table.add_row(name, _time(stage["mean_s"]), ", ".join(made_of) if len(parts) > 1 else "")
    if table.rows:
        out.print()
        out.print(table)


def _only_after(stages: dict[str, Any]) -> list[str]:
    """Return the phases that the times of a rung leave out, because they are needed after some faults alone."""
    return [
        f"{part['name']} {_time(part['mean_s'])}{_after(part)}"
        for stage in stages.values()
        for part in stage["parts"]
        if part["faults"] is not None
    ]


def _after(part: dict[str, Any]) -> str:
    """Return after which faults alone a phase is needed."""
    return "" if part["faults"] is None else f" (only after {', '.join(part['faults'])})"


# ------------------------------------------------------------------------------------------------ in cells


def _worded(*columns: str, words: tuple[str, ...]) -> Table:
    """Return a table with columns of which some hold words, and begin at the left."""
    table = empty_table(*columns)
    for column in table.columns:
        if column.header in words:
            column.justify = "left"
    return table


def _time(seconds: float | None) -> str:
    """Return a time; what is not finite has no number in JSON."""
    return "never" if seconds is None else time_text(round(seconds, 6))
