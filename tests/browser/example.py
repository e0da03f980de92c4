"""A report made by hand, with everything that a report can hold, and words that try to break a page."""

from __future__ import annotations

from ettrick.analysis.page.charts import data
from ettrick.analysis.page.model import Figure, FirstScreen, Header, Number, Report, Section, TableBlock

EVIL = 'A & B <script>alert(1)</script> "quoted" </style> $x$ é'

_AXES = [
    {"key": "rate", "title": "failure rate", "values": ("0.25", "1", "4"), "numbers": (0.25, 1.0, 4.0)},
    {"key": "store", "title": "store", "values": ("local", "remote"), "numbers": None},
    {"key": "spares", "title": "hot spares", "values": ("8", "16"), "numbers": (8.0, 16.0)},
]

_MEANS = (97.0, 92.5, 80.25)


def _cell(rate: int, store: int, spares: int) -> dict[str, object]:
    """Return a cell; one of them cannot run, and of remote stores there are too few runs for quantiles."""
    if (rate, store, spares) == (2, 1, 1):
        missing = ["", "", "", "", "infeasible: needs more nodes than there are"]
        return {"at": [rate, store, spares], "numbers": [None, None], "texts": [missing, missing]}
    mean = _MEANS[rate] - 3 * store + spares
    shares = [mean, mean - 0.5, mean + 0.5, mean - 2, mean + 1, *([None] * 2 if store else [mean - 1, mean + 1])]
    luck = "" if store else f"[{mean - 1}, {mean + 1}]"
    texts = [f"{mean} %", f"[{mean - 0.5}, {mean + 0.5}]", f"[{mean - 2}, {mean + 1}]", luck, ""]
    cost = 1000.0 + 10 * rate + store
    return {
        "at": [rate, store, spares],
        "numbers": [shares, [cost, *[None] * 6]],
        "texts": [texts, [f"{cost:,.0f} USD", "", "", "", ""]],
    }


EXPLORER = {
    "axes": [
        {"key": axis["key"], "title": axis["title"], "values": axis["values"], "numbers": axis["numbers"], "few": True}
        for axis in _AXES
    ],
    "metrics": [{"key": "ettr", "title": "ETTR", "unit": "%"}, {"key": "cost", "title": "Cost", "unit": "USD"}],
    "cells": [_cell(rate, store, spares) for rate in range(3) for store in range(2) for spares in range(2)],
    "unknown": ["median repair"],
    "start": {"x": 0, "series": 1, "at": [0, 0, 1]},
}

"""Data of the explorer as `ettrick.analysis.page.build` makes them: three axes, two metrics, a cell that cannot run."""


def _charts() -> dict[str, object]:
    """Return a picture of each kind."""
    percent = data.ChartAxis("ETTR [%]")
    rates = data.ChartAxis("failure rate", is_log=True, ticks=((0.25, "0.25"), (1.0, "1"), (4.0, "4")))
    phases = (data.Bar("restart after a failure", (3.5,), ((3.0, 4.0),)), data.Bar("lost work", (2.0,)))
    line = data.Series("local", (0.25, 1.0, 4.0), (97.0, 92.5, 80.25), ((96, 98), (92, 93), (79, 81)))
    points = (
        data.FrontPoint("8 spares", 1.0, 90.0, (0.9, 1.1), (89.0, 91.0), "front"),
        data.FrontPoint("16 spares", 1.2, 91.0, None, None, "perhaps"),
    )
    return {
        "phases": data.Bars("Failures cost 5.5 %", "% of the time", ("lost",), phases),
        "heat": data.HeatMap(
            "GPUs cost most", "GPU-hours", ("gpu", "nic"), ("lost work", "restart"), ((9, 2), (1, None)),
            (("9", "2"), ("1", "")), high_is_good=False,
        ),
        "intervals": data.Intervals(
            "Remote saves win", "%", (data.Interval("remote", 93.0, (92, 94), (88, 95)),), (90.0, "target")
        ),
        "stack": data.Stack("A step computes", "s", (data.StackPart("matrix products", 3.0, 0),)),
        "bars": data.Bars("A beats B", "days", ("A", "B"), (data.Bar("finish", (54.0, 56.0)),)),
        "tornado": data.TornadoChart(
            "Rates matter most", "points", ("ETTR", 92.5),
            (data.TornadoBar("rate", ("0.25", 4.5, (4, 5)), ("4", -12.25, None)),),
        ),
        "curves": data.Curves("ETTR falls with the rate", rates, percent, (line,), levels=((90.0, "target"),)),
        "front": data.FrontChart("8 spares are enough", data.ChartAxis("cost"), percent, points, True, False),
    }  # fmt: skip


def example_report(explorer: bool = True) -> Report:
    """Return a report with every kind of picture, tables short and long, and words that try to break a page."""
    columns = (Header("cause", is_number=False), Header("GPU-hours"), Header("why", is_number=False))
    long_number = "30.811 GWh [30.794, 30.828]; +0.336 GWh [0.317, 0.355] against the first of all"
    rows = [
        (f"cause {number} {EVIL}", f"{number * 1000:,}" if number else long_number, "because of this and that " * 3)
        for number in range(4)
    ]
    grid = TableBlock(
        "Losses by cause", columns, rows, [(None, number / 3, None) for number in range(4)], "Of a mean run."
    )
    long = TableBlock("All inputs", columns, [(f"input {number}", "1", "measured") for number in range(60)])
    pictures = {
        key: Figure(key, chart, f"A picture of the kind {key}: {EVIL}", f"How to read {key}.", grid)
        for key, chart in _charts().items()
    }
    gain = Number("2.4 percentage points", 0.024, 0.01, ("run.json#/a/mean", "run.json#/b/mean"), "b - a")
    first_screen = FirstScreen(
        question=f"Does it pay to save remotely? {EVIL}",
        answer=("Saving remotely would add ", gain, " of goodput, [", "1.9 to 2.9 at 95 % confidence", "]."),
        doubt=(f"The failure rate is not known exactly: from 88 to 95 %. {EVIL}",),
        picture=pictures["phases"],
        drivers=(
            ("Luck alone is ", Number("0.285 million tokens for each GPU and day", 2.85e5, 1e6, ("run.json#/d",)), "."),
            ("Restarts take ", Number("3.5 %", 0.035, 0.01, ("run.json#/c",)), " of the time."),
            (EVIL,),
        ),
        not_covered=(("The network is taken to be healthy.",),),
        glossary=(("goodput", "the share of the time that becomes training"), ("ETTR", EVIL)),
    )
    sections = [
        Section(key, f"{picture.chart.title}: {EVIL}", ((EVIL, gain), "A second paragraph."), (picture,), (EVIL,))  # type: ignore[attr-defined]
        for key, picture in pictures.items()
    ]
    sections.append(Section("inputs", "Every input has a source", items=(grid, long)))
    footer = ("Ettrick 0.1", f"ettrick sweep {EVIL}", "sha256 " + "0123456789abcdef" * 4)
    return Report(f"checkpoints {EVIL}", first_screen, tuple(sections), EXPLORER if explorer else None, footer)
