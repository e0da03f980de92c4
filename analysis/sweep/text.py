"""A study that was run, as text for the terminal: the answers first, then the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import form_of, name_of
from analysis.cells import empty_table, number_of
from analysis.console import Page, console
from analysis.metrics import lower_is_better

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from analysis.answers.words import Form

__all__ = ["format_sweep"]

_WIDTH = 200
"""Columns where there is no terminal: a table that is cut helps nobody."""
_LEAST_WIDTH = 120
"""Columns that a table may take on any terminal, for the same reason."""
_MOST_ROWS = 40
_MOST_COLUMNS = 12
"""Columns of a matrix at most; wider ones are told row by row."""
_MOST_NAMED = 10

Content = dict[str, Any]


def format_sweep(content: Content, *, width: int | None = None) -> str:
    """Return the document of a study (as read back from JSON) as text, `width` columns wide (the terminal's)."""
    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.width = max(out.width, _LEAST_WIDTH)
    out.print(content["study"], style="bold")
    if content["question"]:
        out.print(f"  {content['question']}", soft_wrap=True)
    for line in (_setting(content), *content["at_equal_lines"]):
        out.print(f"  {line}", soft_wrap=True)
    _print_answers(out, content["answers"])
    shown = [cell for cell in content["cells"] if cell["status"] == "ok"]
    if shown:
        _print_results(out, content, shown)
    _print_troubles(out, content)
    notes = [*content["notes"], *(_warning(warning, content) for warning in content["warnings"])]
    for title, lines in (("Assumptions", content["assumptions"]), ("Notes", notes)):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"  - {' '.join(line.split())}", soft_wrap=True)
    return page.text()


def _setting(content: Content) -> str:
    """Return what was run, in a line."""
    counts, design = content["counts"], content["design"]["use"]
    numbers = content["replications"]
    parts = [f"scenario {content['scenario']}", f"design {design}", number_of(counts["cells"], "cell")]
    if counts["points"] > counts["cells"]:
        parts.append(f"{counts['points']:,} points with the draws of what is unknown")
    if numbers:
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        parts.append(f"{span} {'replication' if span == '1' else 'replications'} each")
    parts.append(f"seed {content['seed']}")
    return ", ".join(parts)


def _print_answers(out: Console, answers: Sequence[Content]) -> None:
    """Print every answer: its first sentence, and below it the others."""
    for answer in answers:
        out.print(f"\n{_asked(answer)}", style="bold")
        for sentence in answer["sentences"]:
            out.print(f"  {sentence}", soft_wrap=True)


def _asked(answer: Content) -> str:
    """Return what was asked, as a title."""
    about = answer.get("metric") or answer["data"].get("metric") or ""
    names = [name_of(about)] if about else [name_of(name) for name in answer.get("metrics", ())]
    keys = {"axis": "axis", "between": "between", "along": "along", "for_each": "for each"}
    ways = [f"{word} {_words(answer[key])}" for key, word in keys.items() if answer.get(key)]
    title = " ".join([f"{answer['ask']}:", ", ".join(names), *ways])
    return title[:1].upper() + title[1:]


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _print_results(out: Console, content: Content, cells: Sequence[Content]) -> None:
    """Print the metrics: as a matrix where two axes and one metric make one, else a row for each cell."""
    chosen = [name for name in content["axes"] if len({cell["values"][name] for cell in content["cells"]}) > 1]
    metrics = [name for name in content["metrics"] if any(name in cell["metrics"] for cell in cells)]
    if not metrics:
        return
    forms = {name: _form(cells, name, content["currency"] or "") for name in metrics}
    if len(metrics) == 1 and len(chosen) == 2 and _is_matrix(content, chosen):
        _print_matrix(out, content, chosen, metrics[0], forms[metrics[0]])
        return
    out.print(f"\n{_title(metrics[0])}", style="bold")
    headline, *others = metrics
    has_band = any(_known(cell, headline, "band90") for cell in cells)
    has_luck = any(_known(cell, headline, "p05") or _known(cell, headline, "std") for cell in cells)
    table = empty_table(
        *(content["axes"][name]["title"] for name in chosen) if chosen else ("study",),
        "mean", "95 %\ninterval", *(["luck of\none run"] if has_luck else []),
        *(["90 % band of\nunknown inputs"] if has_band else []), *(_heading(name) for name in others),
    )  # fmt: skip
    _let_labels_fold(table, len(chosen) or 1)
    for cell in cells[:_MOST_ROWS]:
        found, form = cell["metrics"].get(headline, {}), forms[headline]
        row = [cell["values"][name] for name in chosen] or [content["study"]]
        row += [_mean(found, form), _range(found.get("mean_ci95"), form)]
        row += [_luck(found, form)] if has_luck else []
        row += [_range(found.get("band90"), form)] if has_band else []
        table.add_row(*row, *(_mean(cell["metrics"].get(name, {}), forms[name]) for name in others))
    out.print(table)
    if len(cells) > _MOST_ROWS:
        out.print(f"  {len(cells) - _MOST_ROWS} more cells are in the results")


def _print_matrix(out: Console, content: Content, axes: Sequence[str], metric: str, form: Form) -> None:
    """Print the means of one metric over two axes; the best one has an asterisk."""
    down, across = axes
    cells = {(cell["values"][down], cell["values"][across]): cell for cell in content["cells"]}
    means = {key: cell["metrics"][metric]["mean"] for key, cell in cells.items() if metric in cell["metrics"]}
    known = {key: mean for key, mean in means.items() if mean is not None}
    pick = min if lower_is_better(metric) else max
    best = pick(known, key=lambda key: known[key], default=None)
    rows = list(dict.fromkeys(key[0] for key in cells))
    columns = list(dict.fromkeys(key[1] for key in cells))
    titles = [content["axes"][name]["title"] for name in axes]
    out.print(f"\n{_title(metric)}: {titles[0]} (down) and {titles[1]} (across)", style="bold")
    table = empty_table(titles[0], *columns)
    for row in rows:
        texts = []
        for column in columns:
            found = cells.get((row, column), {"metrics": {}})["metrics"].get(metric, {})
            texts.append(f"{_mean(found, form)}{' *' if (row, column) == best else '  '}")
        table.add_row(row, *texts)
    out.print(table)
    halves = [
        (ends[1] - ends[0]) / 2
        for cell in cells.values()
        if (ends := cell["metrics"].get(metric, {}).get("mean_ci95")) is not None
    ]
    if halves:
        low, high = (f"{half / form.size:.2g}" for half in (min(halves), max(halves)))
        span = f"{low if low == high else f'{low} to {high}'} {form.step or form.unit}".rstrip()
        out.print(f"  * the {'lowest' if pick is min else 'highest'} mean; 95 % intervals are means ± {span}")


def _is_matrix(content: Content, axes: Sequence[str]) -> bool:
    """Return whether the cells are a grid of two axes that fits, without anything unknown."""
    cells = content["cells"]
    rows, columns = (len({cell["values"][name] for cell in cells}) for name in axes)
    fits = rows <= _MOST_ROWS and columns <= _MOST_COLUMNS
    return fits and rows * columns == len(cells) and not any(cell["draws"] for cell in cells)


def _print_troubles(out: Console, content: Content) -> None:
    """Print the cells without results, with the reasons, those of the same reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in content["cells"]:
        if cell["status"] != "ok":
            where = ", ".join(f"{content['axes'][name]['title']} = {label}" for name, label in cell["values"].items())
            reasons.setdefault((cell["status"], cell["trouble"]), []).append(f"({where})")
    if not reasons:
        return
    out.print("\nWithout results", style="bold")
    words = {"infeasible": "cannot run", "failed": "failed", "crashed": "crashed"}
    for (status, reason), places in reasons.items():
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        named = ", ".join(places[:_MOST_NAMED])
        out.print(f"  - {named}{more}: {words.get(status, status)}: {reason}", soft_wrap=True)


def _warning(warning: Content, content: Content) -> str:
    """Return a warning, with the number of cells unless it is about all of them."""
    count, total = warning["cells"], content["counts"]["cells"]
    return warning["warning"] if count == total else f"{warning['warning']} ({count} of {total} cells)"


def _title(metric: str) -> str:
    name = name_of(metric)
    return name[:1].upper() + name[1:]


def _heading(metric: str) -> str:
    """Return the name of a metric in two lines."""
    words = name_of(metric).split()
    half = (len(words) + 1) // 2
    return f"{' '.join(words[:half])}\n{' '.join(words[half:])}".rstrip()


def _let_labels_fold(table: Table, labels: int) -> None:
    """Where a terminal is narrow, let labels take several lines, and keep numbers whole."""
    for position, column in enumerate(table.columns):
        column.no_wrap = position >= labels
        column.overflow = "fold"
        column.justify = "left" if position < labels else "right"


def _known(cell: Content, metric: str, key: str) -> Any:
    return cell["metrics"].get(metric, {}).get(key)


def _form(cells: Sequence[Content], metric: str, currency: str) -> Form:
    """Return how the numbers of a column are told."""
    means = [_known(cell, metric, "mean") for cell in cells]
    return form_of(metric, [mean for mean in means if mean is not None], currency)


def _mean(found: Mapping[str, Any], form: Form) -> str:
    """Return a mean, with the digits that its interval deserves."""
    mean = found.get("mean")
    if mean is None:
        return "-"
    ends = found.get("mean_ci95")
    return form.plain(mean, None if ends is None else (ends[0], ends[1]))


def _range(ends: Sequence[float | None] | None, form: Form) -> str:
    """Return an interval, with the digits that it deserves."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    span = ends[0], ends[1]
    return f"{form.plain(ends[0], span, unit='')}..{form.plain(ends[1], span)}"


def _luck(found: Mapping[str, Any], form: Form) -> str:
    """Return between what one run is: p05..p95 where there are enough replications, else the standard deviation."""
    if found.get("p05") is not None and found.get("p95") is not None:
        return _range((found["p05"], found["p95"]), form)
    spread = found.get("std")
    return "-" if spread is None else f"± {form.plain(spread, (0.0, 2 * spread), form.step or form.unit)}"
