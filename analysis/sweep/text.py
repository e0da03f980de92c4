"""A study that was run, as text for the terminal: the answers first, then the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import name_of
from analysis.cells import empty_table, number_of
from analysis.sweep.cell_text import (
    finished_text,
    form_for,
    known,
    luck_text,
    mean_text,
    range_text,
    title_of,
    where_text,
)
from analysis.sweep.matrices import print_matrices
from analysis.sweep.sheet import Sheet, folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from analysis.sweep.cell_text import Content

__all__ = ["format_sweep"]

_MOST_ROWS = 40
_MOST_NAMED = 10


def format_sweep(content: Content, *, width: int | None = None) -> str:
    """Return the document of a study (as read back from JSON) as text.

    Parameters
    ----------
    content
        The document.
    width
        Columns; omitted: those of ``COLUMNS``, or of the terminal. Without either, sentences are not broken.
    """
    sheet = Sheet(width)
    sheet.title(content["study"])
    asked = [content["question"]] if content["question"] else []
    for line in (*asked, _setting(content), *_precision(content), *content["at_equal_lines"]):
        sheet.tell(line)
    for warning in content["warnings"]:
        sheet.tell(f"warning: {_warning(warning, content)}")
    _print_answers(sheet, content)
    shown = [cell for cell in content["cells"] if cell["status"] == "ok"]
    if shown:
        _print_results(sheet, content, shown)
    _print_troubles(sheet, content)
    for title, lines in (("Assumptions", content["assumptions"]), ("Notes", content["notes"])):
        if lines:
            sheet.heading(title)
            for line in lines:
                sheet.tell(f"- {line}")
    return sheet.text()


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


def _precision(content: Content) -> Iterator[str]:
    """Yield which precision was asked for, in how many cells it was reached, and with how many replications."""
    asked = content["precision"]
    if asked is None:
        return
    cells = [cell for cell in content["cells"] if cell["precise"] is not None]
    met = sum(cell["precise"] for cell in cells)
    name = name_of(asked["metric"] or content["metrics"][0])
    yield (
        f"precision {asked['width']}, the half-width of the 95 % interval of {name}: "
        f"reached in {met} of {number_of(len(cells), 'cell')}"
    )


def _print_answers(sheet: Sheet, content: Content) -> None:
    """Print every answer: its first sentence, and below it the others."""
    titles = {name: axis["title"] for name, axis in content["axes"].items()}
    for answer in content["answers"]:
        sheet.heading(_asked(answer, titles))
        for sentence in answer["sentences"]:
            sheet.tell(sentence)


def _asked(answer: Content, titles: Mapping[str, str]) -> str:
    """Return what was asked, as a title; axes are called by their titles."""
    about = answer.get("metric") or answer["data"].get("metric") or ""
    names = [name_of(about)] if about else [name_of(name) for name in answer.get("metrics", ())]
    keys = {"axis": "by", "between": "between", "along": "along", "for_each": "for each", "over": "over"}
    ways = [f"{word} {_words(answer[key], titles)}" for key, word in keys.items() if answer.get(key)]
    title = " ".join([f"{answer['ask']}:", ", ".join(names), *ways])
    return title[:1].upper() + title[1:]


def _words(value: Any, titles: Mapping[str, str]) -> str:
    return ", ".join(titles.get(name, name) for name in ([value] if isinstance(value, str) else value))


def _print_results(sheet: Sheet, content: Content, cells: Sequence[Content]) -> None:
    """Print the metrics: as matrices where one metric of a grid makes some, else a row for each cell."""
    chosen = [name for name in content["axes"] if len({cell["values"][name] for cell in content["cells"]}) > 1]
    metrics = [name for name in content["metrics"] if any(name in cell["metrics"] for cell in cells)]
    if not metrics:
        return
    forms = {name: form_for(cells, name, content["currency"] or "") for name in metrics}
    if len(metrics) == 1 and print_matrices(sheet, content, chosen, metrics[0], forms[metrics[0]]):
        return
    sheet.heading(title_of(metrics[0]))
    headline, *others = metrics
    has_band = any(known(cell, headline, "band90") for cell in cells)
    has_luck = any(known(cell, headline, "p05") or known(cell, headline, "std") for cell in cells)
    is_precise, has_unfinished = content["precision"] is not None, any(cell["censored"] for cell in cells)
    table = empty_table(
        *(content["axes"][name]["title"] for name in chosen) if chosen else ("study",),
        "mean", "95 %\ninterval", *(["luck of\none run"] if has_luck else []),
        *(["90 % band of\nunknown inputs"] if has_band else []), *(folded(name_of(name)) for name in others),
        *(["runs\nfinished"] if has_unfinished else []), *(["replications"] if is_precise else []),
    )  # fmt: skip
    for cell in cells[:_MOST_ROWS]:
        found, form = cell["metrics"].get(headline, {}), forms[headline]
        row = [cell["values"][name] for name in chosen] or [content["study"]]
        row += [mean_text(found, form), range_text(found.get("mean_ci95"), form)]
        row += [luck_text(found, form)] if has_luck else []
        row += [range_text(found.get("band90"), form)] if has_band else []
        row += [mean_text(cell["metrics"].get(name, {}), forms[name]) for name in others]
        row += [finished_text(cell)] if has_unfinished else []
        row += [f"{cell['replications']:,}{'' if cell['precise'] else ': too few'}"] if is_precise else []
        table.add_row(*row)
    sheet.table(table, len(chosen) or 1)
    if len(cells) > _MOST_ROWS:
        sheet.tell(f"{len(cells) - _MOST_ROWS} more cells are in the results")


def _print_troubles(sheet: Sheet, content: Content) -> None:
    """Print the cells without results, with the reasons, those of the same reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in content["cells"]:
        if cell["status"] != "ok":
            reasons.setdefault((cell["status"], cell["trouble"]), []).append(f"({where_text(content, cell)})")
    if not reasons:
        return
    sheet.heading("Without results")
    words = {"infeasible": "cannot run", "failed": "failed", "crashed": "crashed"}
    for (status, reason), places in reasons.items():
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        named = ", ".join(places[:_MOST_NAMED])
        sheet.tell(f"- {named}{more}: {words.get(status, status)}: {reason}")


def _warning(warning: Content, content: Content) -> str:
    """Return a warning, with the number of cells unless it is about all of them."""
    count, total = warning["cells"], content["counts"]["cells"]
    return warning["warning"] if count == total else f"{warning['warning']} ({count} of {total} cells)"
