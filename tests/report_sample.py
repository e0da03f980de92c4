"""Reports made by hand, for tests of what they are written as."""

from __future__ import annotations

from analysis.page.charts import data
from analysis.page.model import Column, Grid, Number, Opening, Picture, Report, Section

CHARTS = {
    "waterfall": data.Waterfall(
        "Failures take 6.9 % of the time",
        "% of the time",
        ("paid time", 100.0),
        (
            data.Change("lost work", -4.25, (-4.5, -4.0)),
            data.Change("restarts", -2.75),
            data.Change("shorter saves", 0.125),
        ),
        ("training", 93.125),
    ),
    "intervals": data.Intervals(
        "16 spares yield 1.5 points more than none",
        "%",
        (
            data.Interval("no spares", 91.5, (91.25, 91.75), (90.0, 93.0)),
            data.Interval("8 spares", None, note="does not fit"),
            data.Interval("16 spares", 93.0, (92.75, 93.25), (91.5, 94.5)),
        ),
        (92.0, "target"),
    ),
    "bars": data.Bars(
        "GPUs cause most losses",
        "GPU-hours",
        ("lost work", "restarts"),
        (
            data.Bar("GPU", (1200.0, 800.5), ((1100.0, 1300.0), None)),
            data.Bar("switch", (300.25, None), ((250.0, 350.0), None)),
        ),
    ),
    "tornado": data.Tornado(
        "The failure rate matters most",
        "points of goodput",
        ("93.1 %", 93.1),
        (
            data.Swing("failure rate", ("4", 1.5, (1.25, 1.75)), ("9", -2.5, (-2.75, -2.25))),
            data.Swing("repair time", ("12 h", 0.25, None), ("3 d", -0.5, None)),
        ),
    ),
    "stack": data.Stack(
        "Attention takes a third of a step",
        "s",
        (data.Part("attention", 3.5, 0), data.Part("network", 6.25, 1), data.Part("bubble", 0.25, -1)),
    ),
    "curves": data.Curves(
        "Goodput falls with size",
        data.Scale("GPUs", is_log=True),
        data.Scale("goodput [%]"),
        (
            data.Series(
                "simulated", (1024.0, 4096.0, 16384.0), (98.5, 96.25, 91.0), ((98.0, 99.0), None, (90.0, 92.0))
            ),
            data.Series("formula", (1024.0, 4096.0, 16384.0), (98.75, None, 91.5), look="dashed", hue=-1),
        ),
        levels=((95.0, "target"),),
        edges=((10_000.0, "today"),),
        dots=(data.Dot("Llama 3", 16384.0, 90.0, "arXiv 2407.21783"),),
        shaded_from=(8192.0, "extrapolated"),
    ),
    "named places": data.Curves(
        "Copies in memory help",
        data.Scale("store", ticks=((0.0, "remote"), (1.0, "own memory"))),
        data.Scale("goodput [%]"),
        (data.Series("", (0.0, 1.0), (92.0, 94.5), ((91.0, 93.0), (94.0, 95.0))),),
    ),
    "steps": data.Curves(
        "Half of the runs end by day 50",
        data.Scale("days"),
        data.Scale("chance [%]"),
        (data.Series("4 spares", (40.0, 50.0, 60.0), (25.0, 50.0, 100.0), look="step"),),
    ),
    "front": data.Front(
        "Two candidates are not beaten",
        data.Scale("USD per million tokens"),
        data.Scale("days to finish"),
        (
            data.FrontPoint("no spares", 1.5, 60.0, None, (59.0, 61.0), "front"),
            data.FrontPoint("32 spares", 1.75, 55.0, None, (54.5, 55.5), "front"),
            data.FrontPoint("64 spares", 2.0, 56.0, None, None, "behind"),
        ),
        lowest_x_is_best=True,
        lowest_y_is_best=True,
    ),
    "heat map": data.HeatMap(
        "Hangs lose most in detection",
        "GPU-hours",
        ("hang", "crash"),
        ("detection", "restart"),
        ((5000.0, 100.0), (None, 2500.0)),
        (("5,000", "100"), ("none", "2,500")),
        high_is_good=False,
    ),
    "contours": data.Contours(
        "95 % needs 12 h between failures",
        "%",
        data.Scale("hours between failures"),
        data.Scale("minutes to restart"),
        (4.0, 8.0, 16.0),
        (2.0, 10.0),
        ((91.5, 95.5, 97.5), (80.5, 90.5, 94.5)),
        (90.0, 95.0),
    ),
    "calendar": data.Calendar(
        "Eleven days of thirty lost time",
        7.0,
        2.0,
        (
            data.Phase(0.0, 1.5, "productive"),
            data.Phase(1.5, 1.75, "lost_work", "gpu"),
            data.Phase(1.75, 2, "productive"),
        ),
    ),
}
"""One picture of each kind, by name. Its numbers are short in binary, so that files give them back as they are."""


def picture(name: str) -> Picture:
    """Return a picture of the sample."""
    key = name.replace(" ", "-")
    return Picture(key, CHARTS[name], f"What {name} shows, in words.", f"How to read {name}.")


def report(
    first: str | None = "waterfall", rest: tuple[str, ...] = ("intervals", "tornado"), tables: tuple[Grid, ...] = ()
) -> Report:
    """Return a report with these pictures; without a first one, of tables alone."""
    goodput = Number("93.1 %", 0.931, 0.01, ("run.json#/metrics/ettr/mean",))
    lost = Number("210 GPU-years", 6.6e9, 3.2e7, ("run.json#/a", "run.json#/b"), "(b - a) * 8760")
    opening = Opening(
        "What is left of a month on 1,024 GPUs?",
        ("Of what is paid for, ", goodput, " becomes training."),
        ("At exactly this failure rate: ", lost, " are lost a year."),
        picture(first) if first is not None else None,
        (("GPUs cause two thirds: ", lost, "."), ("Restarts take 4 min each.",), ("Saves cost $3 | *nothing* else.",)),
        (("Serving is not part of it.",), ("Prices <are> round [numbers].",)),
        (("goodput", "what is left for training"),),
    )
    table = Grid(
        "Every cause",
        (Column("cause", is_number=False), Column("a|b")),
        (("gpu_*", "1,200"), ("switch", "300")),
        note="In GPU-hours.",
    )
    sections = (
        Section(
            "all", "1. Everything # else", ("A `text`.", ("- with ", goodput)), (table, *map(picture, rest), *tables)
        ),
        Section("none", "Nothing to see", (), (), ("small print",)),
    )
    return Report("sample_study", opening, sections, None, ("ettrick 1.2", "ettrick run sample --out DIR", "sha256 ab"))
