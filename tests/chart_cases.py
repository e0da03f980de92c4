"""Pictures that are hard to draw: long names, many rows, no values, all values equal, sizes from 1e-3 to 1e12."""

from __future__ import annotations

import math
import random
from typing import Any

from ettrick.analysis.page.charts.data import (
    Bar,
    Bars,
    ChartAxis,
    Curves,
    Dot,
    FrontChart,
    FrontPoint,
    HeatMap,
    Interval,
    Intervals,
    Series,
    Stack,
    StackPart,
    TornadoBar,
    TornadoChart,
)

LONG = "a long name that tells rather a lot of $what$ it names, Größe and 集群 included, and then goes on and on"

SIZES = tuple(10.0**power for power in range(-3, 13))

SCALES = (ChartAxis("minutes between saves"), ChartAxis("goodput [%]"))

LOG = (ChartAxis("GPUs", is_log=True), ChartAxis("hours", is_log=True))

ON = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def curve(name: str, height: float, **look: Any) -> Series:
    """Return a hill with intervals and a band."""
    y = tuple(height - math.log(x / 6) ** 2 for x in ON)
    return Series(
        name, ON, y, tuple((each - 0.3, each + 0.3) for each in y), tuple((each - 2, each + 1) for each in y), **look
    )  # fmt: skip


def candidates(count: int, on_front: int, seed: int = 1) -> tuple[FrontPoint, ...]:
    """Return candidates at random places."""
    draw = random.Random(seed)
    return tuple(
        FrontPoint(
            f"{LONG} {number}", x := draw.random(), y := draw.random(), (x - 0.02, x + 0.02), (y - 0.03, y + 0.01),
            "front" if number < on_front else "perhaps" if number < 2 * on_front else "behind",
        )
        for number in range(count)
    )  # fmt: skip


def table(rows: int, columns: int, name: str) -> HeatMap:
    """Return a table of products, some of which do not exist."""
    values = [
        [None if (row + column) % 7 == 6 else float(row * column) for column in range(columns)] for row in range(rows)
    ]
    texts = [["cannot run" if value is None else f"{12345 * value:,.0f}" for value in row] for row in values]
    heads = tuple(f"{name} {column}" for column in range(columns))
    return HeatMap(LONG, "GPU-hours", tuple(f"{LONG} {row}" for row in range(rows)), heads, values, texts, "row", name)


CASES: dict[str, Any] = {
    "bars": Bars("A", "GPU-hours", ("",), (Bar("x", (12345.0,)), Bar("y", (180.0,)), Bar("z", (-60.0,)))),
    "bars, two": Bars("A", "%", ("first", "total"), (Bar("x", (1.0, None), ((0.5, 1.5), None)), Bar("y", (0.0, 3.0)))),
    "bars, many": Bars(LONG, "$", ("$a$", "b"), tuple(Bar(f"{LONG} {size}", (size, None)) for size in SIZES * 2)),
    "bars, changes": Bars(
        "A", "percentage points", ("gain",),
        (Bar("lost work", (2.81,), ((2.6, 3.0),)), Bar("detection", (-0.03,), ((-0.05, -0.01),))),
    ),
    "bars, none": Bars("A", "", ("a",), (Bar("x", (None,)),)),
    "bars, no rows": Bars("A", "", (), ()),
    "intervals": Intervals(
        "A is best", "%",
        (
            Interval("in-job restart", 93.1, (92.8, 93.4), (90.0, 95.0), "best"), Interval("one run", 92.0),
            Interval("not run", None, note="cannot run: a model of this size does not fit into the memory"),
        ),
        (92.0, "target 92 %"),
    ),
    "intervals, many": Intervals(
        LONG, "USD",
        tuple(Interval(f"{LONG} {size}", size, (0.9 * size, 1.1 * size), None, LONG) for size in SIZES * 2),
        (1e12, LONG * 3),
    ),
    "intervals, equal": Intervals("A", "points", (Interval("x", 0.0, (0.0, 0.0)), Interval("y", 0.0))),
    "intervals, no rows": Intervals("A", "points", ()),
    "stack": Stack(
        "A", "s", (StackPart("x", 2.8, 0), StackPart("y", 0.4, 1), StackPart("z", 0.3, 1), StackPart("rest", 0.15, -1))
    ),
    "stack, below zero": Stack(
        LONG, "%", (StackPart("x", 120.0, 0), StackPart("y", -20.0, 1), StackPart("z", 1e-6, 2))
    ),
    "stack, nothing": Stack("A", "s", (StackPart("x", 0.0, 0),)),
    "stack, many": Stack("A", "$", tuple(StackPart(f"{LONG} {number}", 1.0 + number, number) for number in range(20))),
    "tornado": TornadoChart(
        "Failures matter most", "points", ("goodput", 92.4),
        (
            TornadoBar("failures", ("half", 1.2, (1.1, 1.3)), ("twice", -2.3, (-2.4, -2.2))),
            TornadoBar("interval", ("5 min", -0.2, None), ("60 min", -0.45, (-0.5, -0.4))),
            TornadoBar("spares", ("0", 0.0, None), ("64", 0.03, None)),
        ),
    ),
    "tornado, many": TornadoChart(
        LONG, "%", (LONG, 1.0),
        tuple(
            TornadoBar(f"{LONG} {size}", (LONG, -size, (-2 * size, 1.0)), (LONG, size, None)) for size in SIZES[::-1]
        ),
    ),
    "tornado, nothing": TornadoChart(
        "A", "points", ("x", 0.0), (TornadoBar("a", ("low", 0.0, None), ("high", 0.0, None)),)
    ),
    "heat map": table(4, 3, "column"),
    "heat map, many": table(16, 12, "interval of many"),
    "heat map, upright": table(3, 12, "uninterruptible"),
    "heat map, nothing": HeatMap("A", "", ("r",), ("c",), [[None]], [["no value"]]),
    "heat map, equal": HeatMap("A", "%", ("r", "s"), ("c",), [[5.0], [5.0]], [["5 %"], ["5 %"]]),
    "curves": Curves(
        "Saving every 6 minutes is best", SCALES[0]._replace(is_log=True), SCALES[1],
        (
            curve("in storage", 93.0), curve("in the memory of a neighbour", 93.2, hue=1),
            Series("theory", ON, (92.0,) * 6),
        ),
        ((92.0, "needed: 92 %"),), ((10.0, "today: 10 min"), (11.0, "soon"), (31.0, LONG)),
        shaded_from=(16.0, "extrapolated"),
    ),
    "curves, equal": Curves(
        "A", *SCALES, tuple(Series(f"{LONG} {number}", (1.0, 2.0), (5.0, 5.0), hue=number) for number in range(8)),
        tuple((5.0, f"level {number}") for number in range(5)),
    ),
    "curves, many": Curves(
        "A", *SCALES, tuple(curve(f"{LONG} {number}", number) for number in range(11)), ((4.0, LONG),),
        ((3.0, LONG),), (Dot("d", 4.0, 4.0),), (16.0, "far"),
    ),
    "curves, sizes": Curves(
        LONG, *LOG, (Series("a", SIZES, SIZES), Series("b", (3.0, -3.0), (1e-3, 0.0), ((1e-4, 1e-2), None))),
    ),
    "curves, nothing of it on the axes": Curves(
        "A", *LOG, (Series("a", (1.0, 2.0), (0.0, 1.0), ((-1.0, 2.0), (-1.0, 2.0))),), ((0.0, "never"),),
        ((0.0, "now"),), (Dot("d", 0.0, 1.0),), (0.0, "all"),
    ),
    "curves, measured": Curves(
        "A", *LOG, (Series("law", (1e3, 1e6), (50.0, 0.05), look="dashed"),),
        dots=tuple(Dot(f"cluster {number}", 16384.0 * 1.02**number, 2.8, "Somebody") for number in range(9)),
    ),
    "curves, crowd": Curves(
        "A", *SCALES, (), dots=tuple(Dot(f"{LONG} {number}", 1.0 + 1e-3 * number, 1.0, LONG) for number in range(20))
    ),
    "curves, gaps": Curves("A", *SCALES, (Series("a", ON[:5], (1.0, None, 3.0, None, 4.0), ((0.5, 1.5),) * 5),)),
    "curves, nothing": Curves("A", *SCALES, (Series("a", (1.0,), (None,)),)),
    "curves, ticks": Curves(
        "A", ChartAxis("", ticks=tuple((float(number), f"a long label {number}") for number in range(20))),
        ChartAxis("y", ticks=((0.0, "nothing"), (1.0, "everything"))), (Series("", (0.0, 19.0), (0.0, 1.0)),),
    ),
    "front": FrontChart("Three are worth a look", ChartAxis("cost [M$]"), SCALES[1], candidates(9, 3), True, False),
    "front, many": FrontChart("A", ChartAxis("$"), LOG[1], candidates(150, 6), True, True),
    "front, one place": FrontChart("A", *SCALES, (FrontPoint(LONG, 1.0, 1.0, None, None, "front"),) * 30, False, False),
    "front, nobody": FrontChart("A", *SCALES, (), False, False),
}  # fmt: skip

"""A chart by what is hard about it."""
