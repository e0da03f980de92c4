"""What was compared, with intervals: variants of a comparison, or candidates of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed
from analysis.cells import number_of
from analysis.compare import by_value
from analysis.metrics import METRICS, lower_is_better
from analysis.paired import MANY
from analysis.plots.charts import Interval, Intervals
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.amounts import Shown, shown, shown_of_cells
from analysis.report.sections.candidates import candidates_section
from analysis.report.sections.pairs import variant_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.report.material import Material

__all__ = ["difference_note", "section"]

Content = dict[str, Any]

_TIME_SHARE = "time_shares."
_SMALLEST = 1e-6
"""Part of a metric below which a difference is not told in a table."""


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    if material.kind == "compare":
        return _of_variants(material.main)
    return None if material.sweep is None else candidates_section(material.sweep)


def difference_note(found: Content, replications: int) -> str:
    """Return how sure a difference is: resolved, or what it would take."""
    if found["resolved"]:
        return "resolved"
    if found["ci95"][0] == found["ci95"][1]:
        return "the same in every run" if found["mean"] == 0 else "as much in every run"
    needed = found["replications_to_resolve"]
    told = (
        f"more than {MANY:,} replications" if needed is None else f"about {needed:,} replications, not {replications},"
    )
    return f"not resolved: {told} would tell"


def _of_variants(content: Content) -> Section:
    """Return the section of a comparison."""
    content, metric = _named(content), content["headline"]
    variants = content["variants"]
    headline = shown_of_cells(variants.values(), metric, _currency(content))
    text = [f"{capital(line)}." for line in (content["at_equal"] or {"lines": ()})["lines"]]
    if content["differs"]:
        text.append(f"{capital(listed(content['differs']))} differ from variant to variant.")
    if content["unranked_because"]:
        text.append(f"{capital(content['unranked_because'])}.")
    text += _stores(content, headline)
    pictures = [_means(content, headline), _differences(content, headline), _behind(content, headline)]
    items: list[Picture | Grid] = [picture for picture in pictures if picture is not None]
    items += [_metrics(content)]
    if content["also_differ"]:
        others = tuple((key, by_value(values)) for key, values in content["also_differ"].items())
        columns = (Column("Key", is_number=False), Column("Values of the variants", is_number=False))
        items.append(Grid("Other keys in which the variants differ", columns, others))
    if content["cannot_run"]:
        rows = tuple(content["cannot_run"].items())
        columns = (Column("Variant", is_number=False), Column("Why it cannot run", is_number=False))
        items.append(Grid("What cannot run", columns, rows))
    count = number_of(content["replications"], "replication")
    notes = [
        f"{count} of each variant, seed {content['seed']}; a replication has the same failures in all variants, so "
        "that the luck that they share cancels in a difference.",
        "Intervals are 95 %: what more replications would make smaller.",
    ]
    return Section("comparison", _title(content, headline), tuple(text), tuple(items), tuple(notes))


def _stores(content: Content, headline: Shown) -> Iterator[str]:
    """Yield what the checkpoint stores of presets make of the differences."""
    base = f"{content['first']}{' without its own' * (content['first'] in content['stores'])}"
    for name, found in content["stores"].items():
        if found["gain"] is not None:
            rest = found["rest"] and f"; without them the difference to {base} is {headline.change(found['rest'])}"
            yield f"{name}: the checkpoint stores of its preset make {headline.change(found['gain'])}{rest or ''}."


def _named(content: Content) -> Content:
    """Return the document with its variants called as they are read: without what all their names begin with."""
    labels = variant_labels([*content["variants"], *content["cannot_run"]])
    found = content | {
        "variants": {labels[name]: variant for name, variant in content["variants"].items()},
        "first": labels[content["first"]],
        "cannot_run": {labels[name]: why for name, why in content["cannot_run"].items()},
        "order": [labels[name] for name in content["order"]],
        "stores": {labels[name]: found for name, found in content.get("stores", {}).items()},
        "also_differ": {
            key: {labels[name]: value for name, value in values.items()}
            for key, values in content.get("also_differ", {}).items()  # documents of before have none
        },
    }
    ranking = content["ranking"]
    if ranking is not None:
        behind = {labels[name]: each for name, each in ranking["behind"].items()}
        found["ranking"] = ranking | {
            "behind": behind,
            "may_be_best": [labels[name] for name in ranking["may_be_best"]],
        }
    return found


def _currency(content: Content) -> str:
    costs = [variant["cost"] for variant in content["variants"].values() if variant["cost"]]
    return str(costs[0]["currency"]) if costs else ""


def _title(content: Content, headline: Shown) -> str:
    """Return what the comparison says in a sentence."""
    variants, order, name = content["variants"], content["order"], headline.name
    if len(variants) == 1:
        return f"{next(iter(variants))} is the only variant that can run"
    if not order:
        return f"{number_of(len(variants), 'variant')} beside each other, without a rank"
    if content["ranking"] is not None:
        ahead = content["ranking"]["may_be_best"]
        if len(ahead) > 1:
            if len(ahead) == len(variants) and all(map(_is_equal, content["ranking"]["behind"].values())):
                return f"{listed(ahead)} have the same {name}, in every run"
            return f"{listed(ahead)} cannot be told apart: any of them may have the best {name}"
        second = content["ranking"]["behind"][order[1]] if len(order) > 1 else None
        gap = "" if second is None else f", {headline.distance(second['mean'], second['ci95'])} ahead of {order[1]}"
        return f"{order[0]} has the best {name}{gap}"
    first, other = content["first"], next(name for name in variants if name != content["first"])
    found = variants[other]["difference"].get(headline.metric)
    if found is None:
        return f"{order[0]} has the best {name}"
    if _is_equal(found):
        return f"{other} and {first} have the same {name}, in every run"
    if not found["resolved"]:
        return f"{other} and {first} cannot be told apart in {name}: {headline.change(found)}"
    word = "more" if found["mean"] > 0 else "less"
    return f"{other} has {headline.distance(found['mean'], found['ci95'])} {word} {name} than {first}"


def _is_equal(found: Content) -> bool:
    """Return whether a difference is none at all, in every replication."""
    return found["mean"] == 0 and found["ci95"] is not None and found["ci95"][0] == found["ci95"][1]


def _means(content: Content, headline: Shown) -> Picture | None:
    """Return the headline metric of each variant."""
    rows, texts = [], []
    order = content["order"] or list(content["variants"])
    for name in [*order, *(other for other in content["variants"] if other not in order)]:
        found = content["variants"][name]["metrics"].get(headline.metric, {})
        mean, text = headline.of(found.get("mean")), headline.told(found) or "not known"
        note = "" if mean is not None else text
        ends, band = headline.ends(found.get("mean_ci95")), headline.ends(found.get("band90"))
        rows.append(Interval(name, mean, ends, band, note))
        texts.append((name, text))
    known = [row for row in rows if row.mean is not None]
    if not known:
        return None
    told = dict(texts)
    title = f"{capital(headline.name)} of {number_of(len(rows), 'variant')}: {told[known[0].name]} with {known[0].name}"
    if len(known) > 1:
        title += f", {told[known[-1].name]} with {known[-1].name}"
    chart = Intervals(title, headline.unit, tuple(rows))
    columns = (Column("Variant", is_number=False), Column(f"{capital(headline.name)}, 95 % interval"))
    alt = f"Means with 95 % intervals: {'; '.join(f'{name} {text}' for name, text in texts)}."
    caption = (
        "The failures are the same in all rows: what variants differ by is known better than these intervals suggest."
    )
    return Picture("comparison", chart, alt, caption, Grid(title, columns, texts))


def _differences(content: Content, headline: Shown) -> Picture | None:
    """Return how far each other variant is from the first, on the same failures."""
    first, rows, texts = content["first"], [], []
    for name, variant in content["variants"].items():
        found = variant["difference"].get(headline.metric)
        if name == first or found is None:
            continue
        note = difference_note(found, content["replications"])
        rows.append(Interval(name, headline.of(found["mean"]), headline.gaps(found["ci95"]), None, note))
        texts.append((name, headline.change(found), *_controlled(found, headline), note))
    if not rows:
        return None
    resolved = [row for row in rows if row.note == "resolved"]
    if len(resolved) == len(rows):
        title = f"Every difference from {first} in {headline.name} is resolved" if len(rows) > 1 else (
            f"{rows[0].name} against {first}: {texts[0][1]} of {headline.name}"
        )  # fmt: skip
    else:
        title = f"{len(resolved)} of {number_of(len(rows), 'difference')} from {first} in {headline.name} is resolved"
    chart = Intervals(title, headline.step, tuple(rows), (0.0, first))
    # Luck can be taken out of all differences of a metric, or of none.
    widest = max(len(row) for row in texts)
    texts = [row if len(row) == widest else (*row[:2], "not known", row[2]) for row in texts]
    columns = (
        Column("Variant", is_number=False),
        Column("Difference, 95 % interval"),
        *([Column("With common luck taken out")] if widest > 3 else []),
        Column("How sure", is_number=False),
    )
    alt = f"Differences in {headline.name} from {first}: {'; '.join(f'{row[0]} {row[1]}, {row[-1]}' for row in texts)}."
    caption = f"Differences to {first} within the same replications. Resolved: the 95 % interval leaves out zero."
    return Picture("comparison-differences", chart, alt, caption, Grid(title, columns, texts))


def _controlled(found: Content, headline: Shown) -> tuple[str, ...]:
    """Return a difference with the luck taken out that both variants had; nothing where that is not known."""
    controlled = found.get("controlled")
    return () if controlled is None else (headline.change(controlled),)


def _behind(content: Content, headline: Shown) -> Picture | None:
    """Return how far each variant is behind the best, by intervals that hold together."""
    ranking = content["ranking"]
    if ranking is None:
        return None
    rows, texts, ahead = [], [], ranking["may_be_best"]
    for name, found in ranking["behind"].items():
        note = ("may be the best" if len(ahead) > 1 else "the best") if name in ahead else "behind"
        rows.append(Interval(name, headline.of(found["mean"]), headline.gaps(found["ci95"]), None, note))
        texts.append((name, headline.distance(found["mean"], found["ci95"]), note))
    title = (
        f"{ahead[0]} is ahead of all others, with 95 % confidence"
        if len(ahead) == 1
        else f"{listed(ahead)} may be the best"
    )
    needed = ranking["replications_to_resolve"]
    more = "" if needed is None else f" About {needed:,} replications would tell."
    chart = Intervals(title, headline.step, tuple(rows), (0.0, "the best"))
    columns = (
        Column("Variant", is_number=False),
        Column("Behind the best, 95 % together"),
        Column("How sure", is_number=False),
    )  # fmt: skip
    alt = f"Behind the best in {headline.name}: {'; '.join(f'{row[0]} {row[1]}, {row[2]}' for row in texts)}."
    caption = f"These intervals hold together with 95 %, whichever variant is truly the best.{more}"
    return Picture("comparison-behind", chart, alt, caption, Grid(title, columns, texts))


def _metrics(content: Content) -> Grid:
    """Return all metrics that the variants have, side by side."""
    variants = content["variants"]
    names = [name for name in METRICS if not name.startswith(_TIME_SHARE)]
    names = [name for name in names if any(variant["metrics"].get(name, {}).get("mean") is not None
                                           for variant in variants.values())]  # fmt: skip
    names.remove("effective_mfu") if "effective_mfu" in names else None
    rows = [tuple(_row(name, content)) for name in names]
    columns = (Column("Metric", is_number=False), *(Column(name) for name in variants))
    note = (
        "The mean of each metric with its 95 % interval; behind the semicolon the difference to the first variant, "
        "where it is resolved."
    )
    return Grid("All metrics of all variants", columns, rows, note=note)


def _row(metric: str, content: Content) -> Iterator[str]:
    """Yield a metric of every variant, with its difference to the first where that is resolved."""
    variants = content["variants"].values()
    told = shown(metric, [variant["metrics"].get(metric, {}).get("mean") for variant in variants], _currency(content))
    better = "lower is better" if lower_is_better(metric) else ""
    yield f"{capital(told.name)}{f' ({better})' if better else ''}"
    for variant in variants:
        text = told.told(variant["metrics"].get(metric, {})) or "not known"
        found = variant["difference"].get(metric)
        yield text + (f"; {told.change(found)}" if _is_told(found, variant["metrics"].get(metric, {})) else "")


def _is_told(found: Content | None, summary: Content) -> bool:
    """Return whether a difference is resolved, and large enough for anybody to ask for it."""
    return found is not None and found["resolved"] and abs(found["mean"]) > _SMALLEST * abs(summary["mean"])
