"""Which inputs the scatter of the answer comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, form_of, listed, name_of
from analysis.cells import number_of
from analysis.plots.charts import Bar, Bars, Part, Stack
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.amounts import ends_of
from analysis.report.sections.sensitivity_data import sensitivity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.report.material import Material

__all__ = ["section"]

Content = dict[str, Any]

_SHARE = form_of("ettr", [])


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(material)
    if content is None:
        return None
    found = content["indices"]
    if found is None:
        why = content["indices_missing"]
        title = "The scatter of the answer is not told apart"
        return Section("variance", title, (f"{capital(why)}.",)) if why else None
    pictures = [picture for picture in (_parts(content), _by_axis(content)) if picture is not None]
    text = [f"{capital(found['reason'])}."] if found["reason"] else []
    if not pictures:
        name = capital(name_of(content["metric"]))
        return Section("variance", f"{name} is the same in every run", tuple(text)) if text else None
    return Section("variance", pictures[-1].chart.title, tuple(text), tuple(pictures), tuple(_notes(content)))


def _whole(content: Content) -> str:
    """Return what all inputs are together."""
    return "what is not known" if all(axis["unknown"] for axis in content["axes"].values()) else "what varies"


def _told(found: Content) -> str:
    """Return a share with its interval."""
    return _SHARE.value(found["value"], ends_of(found["ci95"]))


def _parts(content: Content) -> Picture | None:
    """Return what the variance of one run is made of; ``None`` where there is no variance."""
    variance = content["indices"]["variance"]
    names = {"parameters": _whole(content), "luck": "luck of a run", "both": "both together"}
    if any(variance[key]["share"] is None for key in names):
        return None
    shares = {key: variance[key]["share"] for key in names}
    parts = tuple(Part(names[key], 100 * shares[key]["value"], hue) for hue, key in enumerate(names))
    metric = name_of(content["metric"])
    largest = max(names, key=lambda key: float(shares[key]["value"]))
    verb = "make" if largest == "both" else "makes"
    title = f"{capital(names[largest])} {verb} {_told(shares[largest])} of the variance of one run's {metric}"
    rows = [(names[key], _told(shares[key])) for key in names]
    columns = (Column("Part", is_number=False), Column("Share of the variance, 95 % interval"))
    alt = f"The variance of one run's {metric}: {'; '.join(f'{name} {share}' for name, share in rows)}."
    caption = (
        "Luck is what differs between runs of one cluster. Both together: how lucky a run can be is itself different "
        "from one set of inputs to another."
    )
    return Picture("variance-of-a-run", Stack(title, "%", parts), alt, caption, Grid(title, columns, rows))


def _by_axis(content: Content) -> Picture | None:
    """Return the first-order and total index of every input; ``None`` where they are not told apart."""
    found = content["indices"]["by_axis"]
    if not found:
        return None
    titles = {name: str(axis["title"]) for name, axis in content["axes"].items()}
    rows = tuple(
        Bar(
            titles[row["axis"]],
            (100 * row["first"]["value"], 100 * row["total"]["value"]),
            (_percent(row["first"]), _percent(row["total"])),
        )
        for row in found
    )
    metric = name_of(content["metric"])
    top = max(found, key=lambda row: float(row["total"]["value"]))
    told = f"takes part in {_told(top['total'])} of what the inputs make of the variance of {metric}"
    title = capital(f"{titles[top['axis']]} {told}")
    texts = [(titles[row["axis"]], _told(row["first"]), _told(row["total"])) for row in found]
    columns = (Column("Input", is_number=False), Column("Alone, 95 % interval"), Column("In all, 95 % interval"))
    together = content["indices"]["together"]
    note = "" if together is None else f"Only together, not one alone, they bring {_told(together)}."
    alt = f"Shares of the variance: {'; '.join(f'{row[0]} alone {row[1]}, in all {row[2]}' for row in texts[:6])}."
    caption = (
        "Alone: by how much the variance would fall if this input were known. In all: what it takes part in, also "
        f"together with others; these may add up to more than 100 %. {note}"
    ).rstrip()
    chart = Bars(title, "%", ("alone", "in all"), rows)
    return Picture("variance-by-input", chart, alt, caption, Grid(title, columns, texts, note=note))


def _percent(found: Content) -> tuple[float, float] | None:
    ends = ends_of(found["ci95"])
    return None if ends is None else (100 * ends[0], 100 * ends[1])


def _notes(content: Content) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    found = content["indices"]
    samples = f"Variance-based indices (Sobol) from {number_of(found['rows'], 'sample')} of all inputs"
    left = f"; {found['left_out']} were left out" if found["left_out"] else ""
    left += f": {found['why_left_out']}" if found["why_left_out"] else ""
    yield f"{samples}{left}. Brackets are 95 % intervals."
    noise = found["noise_of_means"]
    if noise is not None:
        yield f"Luck makes {_SHARE.plain(noise)} of the variance of the means of points; it is taken out."
    chosen = [str(axis["title"]) for axis in content["axes"].values() if not axis["unknown"]]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}; all their values count as equally likely."
