"""A comparison as tables for the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.cells import amount_text, count_text, empty_table, number_of, percent_text, range_text, text_or_dash
from analysis.compare import by_value
from analysis.console import Page, console
from analysis.metrics import SHARES
from analysis.paired import MANY
from sim.documents import TAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.table import Table

__all__ = ["format_comparison"]

_WIDTH = 200
"""Columns where there is no terminal: a table that is cut helps nobody."""

_LEAST_WIDTH = 120
"""Columns that a table may take on any terminal, for the same reason."""

_MOST_BUCKETS = 7
_LEAST_SHARE = 5e-5
"""A share that rounds to 0.01 %; what is less in all variants is not shown."""

_LABELS = {
    "ettr": "ETTR",
    "goodput": "goodput",
    "cluster_goodput": "cluster\ngoodput",
    "tokens_per_gpu_day": "tokens per\nGPU-day",
    "tokens_per_mw_day": "tokens per\nMW-day",
    "tokens_per_day": "tokens\nper day",
    "cost_per_token": "cost of a\nmillion tokens",
    "cost": "cost",
    "interruptions": "inter-\nruptions",
}
_ONLY_AS_HEADLINE = ("ettr", "cluster_goodput", "tokens_per_gpu_day", "tokens_per_mw_day")
"""ETTR is the productive share of the second table; the others are asked for with --at-equal."""

_MEANINGS = {
    "ettr": "ETTR (productive / requested)",
    "goodput": "goodput (effective MFU)",
    "cluster_goodput": "cluster goodput (productive / owned)",
    "tokens_per_gpu_day": "tokens per GPU-day",
    "tokens_per_mw_day": "tokens per MW-day",
    "tokens_per_day": "tokens per day",
    "cost_per_token": "cost per token",
}


class _Forms(NamedTuple):
    """How values of a metric and differences of it are told."""

    value: Callable[[float], str]
    change: Callable[[float], str]


def format_comparison(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the document of a comparison (as read back from JSON) as text, `width` columns wide (the terminal's)."""
    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.width = max(out.width, _LEAST_WIDTH)
    variants = content["variants"]
    prefix = _common_path(list(variants))
    metric = content["headline"]
    out.print(f"{_MEANINGS[metric]} on the same failures", style="bold")
    out.print(f"  {number_of(content['replications'], 'replication')}, seed {content['seed']}")
    if content["unranked_because"] is not None:
        out.print(f"  not ranked by goodput: {content['unranked_because']}", soft_wrap=True)
    for line in content["at_equal"]["lines"] if content["at_equal"] is not None else ():
        out.print(f"  {line}", soft_wrap=True)
    if content["cannot_run"]:
        out.print(f"  {_left_out(content, prefix)}", soft_wrap=True)
    out.print()
    _print_metrics(out, content, prefix)
    _print_shares(out, content, prefix)
    _print_keys(out, content, prefix)
    lines = [*_best(content, prefix), *_stores(content, prefix), *_unresolved(content, prefix), *_notes(content)]
    if lines:
        out.print()
    for line in lines:
        out.print(f"  - {line}", soft_wrap=True)
    for name, reason in content["cannot_run"].items():
        out.print(f"\n{name.removeprefix(prefix)}: cannot run: {reason}", soft_wrap=True)
    return page.text()


def _left_out(content: dict[str, Any], prefix: str) -> str:
    """Return how many variants are missing, and what the others are compared with if the first one is."""
    line = f"left out: {number_of(len(content['cannot_run']), 'variant')} that cannot run (below)"
    if content["instead_of"] is None:
        return line
    first, missing = (name.removeprefix(prefix) for name in (content["first"], content["instead_of"]))
    return f"{line}; the others are compared with {first}, since {missing} is one of them"


def _common_path(names: list[str]) -> str:
    """Return ``path=`` if that is what the names of all variants begin with, and all that they have in common."""
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_alone = equals and not any(re.search(r", [\w.]+=", name) for name in names)
    return start if is_alone and all(name.startswith(start) for name in names) else ""


def _forms(content: dict[str, Any], metric: str) -> _Forms:
    """Return how a metric is told."""
    if metric in SHARES:
        return _Forms(percent_text, _points)
    if metric == "interruptions":
        return _Forms(count_text, lambda change: f"{change:+,.1f}")
    if metric in ("cost", "cost_per_token"):
        cost = next(iter(content["variants"].values()))["cost"]
        scale = 1e6 if metric == "cost_per_token" else 1.0
        return _Forms(
            lambda amount: f"{_short(scale * amount)} {cost['currency']}",
            lambda change: f"{_signed(scale * change)} {cost['currency']}",
        )
    return _Forms(amount_text, _signed)


def _points(change: float) -> str:
    """Return a difference of shares in points."""
    return f"{100 * change:+.2f} pt"


def _short(value: float) -> str:
    """Return a positive number to three digits or more."""
    return amount_text(value) if value >= 1000 else f"{value:.4g}"


def _signed(value: float) -> str:
    """Return a number with its sign."""
    return f"{'-' if value < 0 else '+'}{_short(abs(value))}"


def _print_metrics(out: Console, content: dict[str, Any], prefix: str) -> None:
    """Print the headline of each variant, how far it is from the first's, and what else a decision needs."""
    variants = content["variants"]
    metric = content["headline"]
    forms = _forms(content, metric)
    others = [name for name in _LABELS if name not in (metric, *_ONLY_AS_HEADLINE)]
    shown = [name for name in others if all(name in variant["metrics"] for variant in variants.values())]
    ranks = {name: str(place) for place, name in enumerate(content["order"], start=1)}
    table = empty_table(
        prefix.rstrip("=") or "variant", *(["rank"] if ranks else []), _LABELS[metric], "difference\nto the first",
        "95 %\ninterval", *(_LABELS[name] for name in shown),
    )  # fmt: skip
    _let_labels_fold(table)
    for name, variant in variants.items():
        change = variant["difference"].get(metric)
        found = variant["metrics"]
        table.add_row(
            name.removeprefix(prefix),
            *([ranks.get(name, "-")] if ranks else []),
            text_or_dash(found[metric]["mean"], forms.value),
            "" if name == content["first"] else text_or_dash(change and change["mean"], forms.change),
            "" if name == content["first"] else range_text(change and change["ci95"], forms.change),
            *(text_or_dash(found[other]["mean"], _forms(content, other).value) for other in shown),
        )
    out.print(table)


def _let_labels_fold(table: Table) -> None:
    """Where a terminal is narrow, let the names of variants take several lines, and keep numbers whole."""
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].no_wrap = False
    table.columns[0].overflow = "fold"


def _print_shares(out: Console, content: dict[str, Any], prefix: str) -> None:
    """Print the largest shares of the requested GPU-time, productive first."""
    shares = {name: variant["time_shares"] for name, variant in content["variants"].items()}
    largest = {bucket: max(mine[bucket] or 0.0 for mine in shares.values()) for bucket in next(iter(shares.values()))}
    lost = sorted((name for name in largest if name != "productive"), key=lambda name: -largest[name])
    buckets = ["productive", *(name for name in lost if largest[name] >= _LEAST_SHARE)][: _MOST_BUCKETS + 1]
    out.print("\nWhere the GPU-time went", style="bold")
    table = empty_table(prefix.rstrip("=") or "variant", *(bucket.replace("_", "\n") for bucket in buckets))
    _let_labels_fold(table)
    for name, mine in shares.items():
        table.add_row(name.removeprefix(prefix), *(text_or_dash(mine[bucket], percent_text) for bucket in buckets))
    out.print(table)


def _print_keys(out: Console, content: dict[str, Any], prefix: str) -> None:
    """Print in which keys the variants differ beyond what was varied; parameters of a varied choice in one line."""
    keys, lines = content["also_differ"], {}
    for path in content["varied"]:
        place, _, tag = path.rpartition(".")
        inside = [key.removeprefix(f"{place}.") for key in keys if tag in TAGS and key.startswith(f"{place}.")]
        if inside:
            lines[place] = f"{', '.join(inside)}: follow from {path}"
            keys = {key: values for key, values in keys.items() if not key.startswith(f"{place}.")}
    lines |= {
        key: by_value({name.removeprefix(prefix): value for name, value in values.items()})
        for key, values in keys.items()
    }
    if not lines:
        return
    out.print("\nOther keys in which the variants differ", style="bold")
    width = max(map(len, lines))
    for key, line in lines.items():
        out.print(f"  {key:{width}}  {line}", soft_wrap=True)


def _stores(content: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield what the checkpoint stores of a recovery preset gain, and what the recovery does without them."""
    forms = _forms(content, content["headline"])
    first = content["first"].removeprefix(prefix)

    def shown(found: dict[str, Any] | None) -> str:
        if found is None:
            return "-"
        return f"{forms.change(found['mean'])} ({range_text(found['ci95'], forms.change)})"

    for name, found in content["stores"].items():
        label = name.removeprefix(prefix)
        line = f"{label}: the stores of its preset make {shown(found['gain'])}"
        if found["rest"] is None:
            yield line
            continue
        also = " without its own" if content["first"] in content["stores"] else ""
        yield f"{line}; without them the difference to {first}{also} is {shown(found['rest'])}"


def _best(content: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield which of more than two variants may be the best, together at 95 %."""
    ranking = content["ranking"]
    if ranking is None:
        return
    names = [name.removeprefix(prefix) for name in ranking["may_be_best"]]
    if len(names) == 1:
        yield f"best: {names[0]}, resolved from each of the others (95 % together)"
        return
    needed = ranking["replications_to_resolve"]
    told = f"; {_more(needed, content['replications'])} would tell" if _differ(content) else ""
    yield f"may be best (95 % together): {', '.join(names[:-1])} or {names[-1]}{told}"


def _differ(content: dict[str, Any]) -> bool:
    """Return whether those that may be best are not all the same in every replication."""
    behind = content["ranking"]["behind"]
    return any(tuple(behind[name]["ci95"]) != (0.0, 0.0) for name in content["ranking"]["may_be_best"][1:])


def _more(needed: int | None, done: int) -> str:
    """Return how many replications more would be enough, in words."""
    if needed is None:
        return f"more than {MANY:,} replications"
    return f"about {max(needed - done, 1):,} more {'replication' if needed - done <= 1 else 'replications'}"


def _unresolved(content: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield a line for each variant whose difference to the first may be chance."""
    metric = content["headline"]
    first = content["first"].removeprefix(prefix)
    for name, variant in content["variants"].items():
        change = variant["difference"].get(metric)
        if change is None or change["resolved"]:
            continue
        label = name.removeprefix(prefix)
        if change["ci95"][0] == change["ci95"][1]:
            yield f"{label}: the same as {first} in every replication"
            continue
        yield (
            f"{label}: the difference to {first} is not resolved at this precision; "
            f"{_more(change['replications_to_resolve'], content['replications'])} would"
            f"{_without_luck(change['controlled'], _forms(content, metric))}"
        )


def _without_luck(taken: dict[str, Any] | None, forms: _Forms) -> str:
    """Return what is left of a difference without the luck of the failures, where that resolves it."""
    if taken is None or taken["ci95"][0] <= 0 <= taken["ci95"][1]:
        return ""
    return f" (it is with the luck of the failures taken out: {range_text(taken['ci95'], forms.change)})"


def _notes(content: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader must know before using the numbers of a variant."""
    for name, variant in content["variants"].items():
        for note in variant["notes"]:
            yield f"{name}: {note}"
