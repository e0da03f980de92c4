"""Questions that fit on paper: an equation of `sim.formulas`, amounts as a scenario has them, an answer with units."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick.analysis.amounts import duration_form, percent_text, short_text, time_text
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.explained import FormulaDocument, FormulaResult
from ettrick.sim import units, yamlfile
from ettrick.sim.formulas import arrays, goodput, nodes, queues
from ettrick.sim.units import DAY, YEAR, UnitError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.formulas.arrays import FloatArray


class QuantityKind(NamedTuple):
    """A kind of amount that an option takes: its parser, its limits, and an example for errors."""

    words: str
    read: Callable[[str], float]
    least: float = 0.0
    most: float = math.inf
    is_open: bool = False

    def of(self, text: str) -> float:
        """Return the amount [SI]; raise a UnitError that is one rule."""
        value = self.read(text)
        if not math.isfinite(value):
            raise UnitError("must be finite")
        if value < self.least or value > self.most or (self.is_open and value in (self.least, self.most)):
            if self.most < math.inf:
                raise UnitError(f"must be above {self.least:g} and below {self.most:g}, got '{text}'")
            raise UnitError(f"must be {'above' if self.is_open else 'at least'} {self.least:g}, got '{text}'")
        return value


def _mtbf(text: str) -> float:
    """Return a mean time between failures [s], also of a rate."""
    if not ("per" in text.split() or "/" in text or text.endswith("FIT")):
        return _time(text)
    rate = units.parse_rate(text).per_second
    return 1.0 / rate if rate > 0 else math.inf


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UnitError(f"{text!r} is not a number") from None


def _time(text: str) -> float:
    return units.parse(0 if text == "0" else text, units.DURATION)  # nothing needs no unit


def _share(text: str) -> float:
    return units.parse(text, units.FRACTION)


KINDS = {
    "mtbf": QuantityKind("time or rate", _mtbf, is_open=True),
    "time": QuantityKind("time above 0", _time, is_open=True),
    "span": QuantityKind("time", _time),
    "parts": QuantityKind("whole number from 1", units.parse_count, 1),
    "count": QuantityKind("whole number", units.parse_count),
    "share": QuantityKind("share", _share, 0.0, 1.0, is_open=True),
    "factor": QuantityKind("number from 1", _number, 1),
}

Unit = Literal["s", "share", "count", "1/d"]


class FormulaInput(NamedTuple):
    """An amount of a question: its option, its symbol, one of `KINDS`, what it is, and an example.

    Without a default it must be given.
    """

    name: str
    symbol: str
    takes: str
    meaning: str
    example: str
    default: float | None = None


class FormulaLine(NamedTuple):
    """A result: its key in the JSON document, what it is, its value [unit], NaN where there is none.

    The `note` of an approximation outside its range says so, and gives the bound.
    """

    name: str
    meaning: str
    value: float
    unit: Unit
    note: str = ""


class Formula(NamedTuple):
    """A question: in words, its equation, its amounts, what it assumes, and where it is from."""

    question: str
    equation: str
    inputs: tuple[FormulaInput, ...]
    assumptions: tuple[str, ...]
    reference: str


@functools.cache
def formulas() -> dict[str, Formula]:
    """Return the questions by name."""
    table: Any = yamlfile.load(Path(__file__).with_suffix(".yaml")).data
    shared = table["inputs"]
    return {
        name: Formula(
            entry["question"],
            entry["equation"].rstrip(),
            tuple(FormulaInput(key, **{**shared.get(key, {}), **stated}) for key, stated in entry["inputs"].items()),
            tuple(table["assumptions"].get(text, text) for text in entry["assumptions"]),
            entry["reference"],
        )
        for name, entry in table["questions"].items()
    }


class FormulaError(ValueError):
    """A question that is not known, or an amount that cannot be used: one line."""


def answered(name: str, texts: Sequence[str]) -> FormulaDocument:
    """Return the answer to a question.

    Parameters
    ----------
    name
        One of `formulas`.
    texts
        Amounts as on a command line: ``--mtbf``, ``3``, ``h``, or ``--mtbf=3h``; what follows an option is its amount.

    Raises
    ------
    FormulaError
        If there is no such question, or an amount is missing, unknown, given twice, or cannot be used.
    """
    formula = known(name)
    amounts = _read_amounts(formula.inputs, name, texts)
    try:
        results = _ANSWERS[name](**{option.replace("-", "_"): value for option, value in amounts.items()})
    except (ValueError, ArithmeticError) as error:
        raise FormulaError(f"formula {name}: {error}") from None
    return FormulaDocument(
        format=FORMAT,
        formula=name,
        question=formula.question,
        equation=formula.equation,
        inputs={entry.name: amounts[entry.name] for entry in formula.inputs},
        results={
            row.name: FormulaResult(value=row.value, unit=row.unit, meaning=row.meaning, note=row.note)
            for row in results
        },
        assumptions=list(formula.assumptions),
        reference=formula.reference,
    )


def _read_amounts(inputs: Sequence[FormulaInput], name: str, texts: Sequence[str]) -> dict[str, float]:
    """Return the amounts of a question by option [SI], defaults included."""
    entries = {entry.name: entry for entry in inputs}
    amounts: dict[str, float] = {}
    for option, text in _amounts(name, texts):
        if option not in entries:
            raise FormulaError(f"formula {name}: unknown option --{option}{suggest(option, entries)}")
        if option in amounts:
            raise FormulaError(f"formula {name}: --{option} is given twice")
        try:
            amounts[option] = KINDS[entries[option].takes].of(text)
        except UnitError as error:
            offer = "" if "(" in str(error) or ";" in str(error) else f"; {_such_as(entries[option])}"
            raise FormulaError(f"--{option}: {error}{offer}") from None
    for entry in inputs:
        if entry.name not in amounts:
            if entry.default is None:
                raise FormulaError(f"formula {name}: --{entry.name} is missing: {entry.meaning}, {_such_as(entry)}")
            amounts[entry.name] = entry.default
    return amounts


def _such_as(entry: FormulaInput) -> str:
    return f"a {KINDS[entry.takes].words} such as {entry.example}"


def known(name: str) -> Formula:
    """Return a question, or raise a FormulaError with the nearest name."""
    questions = formulas()
    if name not in questions:
        raise FormulaError(f"formula: unknown question '{name}'{suggest(name, questions, most=len(questions))}")
    return questions[name]


def _amounts(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return options with their amounts, of which the parts may stand apart."""
    rows: list[tuple[str, list[str]]] = []
    for text in texts:
        if text.startswith("--"):
            option, sign, amount = text[2:].partition("=")
            rows.append((option, [amount] if sign else []))
        elif rows:
            rows[-1][1].append(text)
        else:
            raise FormulaError(f"formula {name}: '{text}' belongs to no option, such as --{known(name).inputs[0].name}")
    return [(option, " ".join(parts)) for option, parts in rows]


# ----------------------------------------
# As text.


def format_formulas() -> str:
    """Return all questions, a line each."""
    return "\n".join(line.strip() for line in _columns([(name, row.question) for name, row in formulas().items()]))


def format_question(name: str) -> str:
    """Return what a question needs, and what it rests on."""
    formula = known(name)
    rows = []
    for entry in formula.inputs:
        default = "" if entry.default is None else f"; {_shown(entry, entry.default)} if not given"
        rows.append((f"--{entry.name}", entry.symbol, f"{entry.meaning}, such as {entry.example}{default}"))
    return "\n".join([*_head(formula), *_columns(rows), "", *_foot(formula)])


def format_formula(document: FormulaDocument) -> str:
    """Return the answer to a question."""
    formula = known(document.formula)
    rows = [
        (f"--{entry.name}", entry.symbol, f"{_shown(entry, document.inputs[entry.name])}, {entry.meaning}")
        for entry in formula.inputs
    ]
    results = [(row.meaning, value_text(row), row.note) for row in document.results.values()]
    return "\n".join([*_head(formula), *_columns(rows), "", *_columns(results), "", *_foot(formula)])


def value_text(row: FormulaResult) -> str:
    """Return a result with its unit."""
    if row.value is None:
        return _time_text(None) if row.unit == "s" else "-"
    if row.unit == "share":
        # As many digits as tell it from 0 and from 1.
        rest = min(row.value, 1.0 - row.value)
        return percent_text(row.value, 2 if rest <= 0 else min(max(2, 1 - math.floor(math.log10(100 * rest))), 10))
    if row.unit == "s":
        return _time_text(row.value)
    return f"{short_text(row.value)} per day" if row.unit == "1/d" else short_text(row.value)


def _time_text(seconds: float | None) -> str:
    # A document has no infinity.
    if seconds is None or math.isinf(seconds):
        return "never"
    return duration_form(seconds).brief(seconds)


def _shown(entry: FormulaInput, value: float | None) -> str:
    if value is None or entry.takes in ("mtbf", "time", "span"):
        return _time_text(value)
    return percent_text(value, 6).rstrip(" %0").rstrip(".") + " %" if entry.takes == "share" else f"{value:,.12g}"


def _head(formula: Formula) -> list[str]:
    return [formula.question, "", *(f"  {line}" for line in formula.equation.splitlines()), ""]


def _foot(formula: Formula) -> list[str]:
    return [*(f"assumes  {text}" for text in formula.assumptions), f"source   {formula.reference}"]


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


# ----------------------------------------
# The questions, each with what works it out. Amounts are in SI.


def _best(write: float, mtti: float, restart: float, downtime: float, drain: float = 0.0) -> tuple[float, float]:
    """Return the best time between saves [s], and the ETTR with it [-]."""
    # A free save is best made all the time.
    interval = max(goodput.optimal_interval(write, mtti), drain, 1e-9 * mtti)
    return interval, goodput.efficiency(interval, write, mtti, restart, downtime, drain)


_CLOSE = 0.01

"""Share by which an approximation may miss what is exact and still be called within its range [-]."""


def _checkpoint_interval(write: float, mtti: float, restart: float, downtime: float) -> list[FormulaLine]:
    rows: list[FormulaLine] = []
    best = goodput.optimal_interval(write, mtti)
    for name, label, rule, domain in (
        ("young", "Young", goodput.young_interval, "b far below M"),
        ("daly", "Daly", goodput.daly_interval, "b < 2 M"),
        ("exact", "exact optimum", goodput.optimal_interval, ""),
    ):
        interval = rule(write, mtti)
        # To be longer than M costs much, and no optimum is.
        is_out = name != "exact" and (interval >= mtti < math.inf)
        note = f"outside its range ({domain}); the best is {_time_text(best)}" if is_out else ""
        ettr = goodput.efficiency(interval, write, mtti, restart, downtime)
        rows += [
            FormulaLine(name, label, interval, "s", note),
            FormulaLine(f"{name}_ettr", f"ETTR at {label}", ettr, "share"),
        ]
    return rows


def _async_interval(drain: float, write: float, mtti: float, restart: float, downtime: float) -> list[FormulaLine]:
    interval, ettr = _best(write, mtti, restart, downtime, drain)
    alone = goodput.optimal_interval(write, mtti)
    _, blocking = _best(write + drain, mtti, restart, downtime)
    return [
        FormulaLine("interval", "best time between saves", interval, "s"),
        FormulaLine("ettr", "ETTR with it", ettr, "share"),
        FormulaLine("interval_without_drain", "the best if saves were durable at once", alone, "s"),
        FormulaLine("ettr_blocking", "ETTR if the drain blocked the job too, at its best", blocking, "share"),
    ]


def _mtti(mtbf: float, parts: float, other: float, over: float) -> list[FormulaLine]:
    rate = parts / mtbf + 1.0 / other
    return [
        FormulaLine("mtti", "mean time to interrupt of the job", 1.0 / rate, "s"),
        FormulaLine("per_day", "interruptions", rate * DAY, "1/d"),
        FormulaLine("none", f"probability of none in {time_text(over)}", math.exp(-rate * over), "share"),
    ]


def _ettr(
    interval: float, write: float, mtti: float, restart: float, downtime: float, drain: float
) -> list[FormulaLine]:
    shares = goodput.expected_shares(interval, write, mtti, restart, downtime, drain)
    first = goodput.first_order_efficiency(interval, write, mtti, restart + downtime + drain)
    labels = {"productive": "ETTR, productive", "checkpoint_stall": "blocked in saves", "lost_work": "lost work"}
    rows = [FormulaLine(name, labels.get(name, name), value, "share") for name, value in shares.items()]
    cost = (restart + downtime + drain + interval / 2) / mtti
    note = (
        f"outside its range (far less than M for a failure, not {short_text(cost)} M): too low, the ETTR above is exact"
    )
    if shares["productive"] - first <= _CLOSE:
        note = ""
    return [
        *rows,
        FormulaLine("first_order", "ETTR to the first order", first if first >= 0 else math.nan, "share", note),
    ]


def _productive(
    rate: float, classes: Sequence[goodput.FailureClass], stores: Sequence[goodput.CheckpointStore]
) -> float:
    return arrays.real(goodput.shares_of_classes(rate, classes, stores).productive)


def _two_level(
    local_write: float, remote_write: float, remote_share: float, mtti: float, restart: float, remote_restart: float,
    downtime: float,
) -> list[FormulaLine]:  # fmt: skip
    from scipy.optimize import minimize

    rate, far = 1.0 / mtti, remote_restart or restart
    classes = (
        goodput.FailureClass(1.0 - remote_share, downtime, math.exp(-rate * restart), store=0),
        goodput.FailureClass(remote_share, downtime, math.exp(-rate * far), store=1),
    )

    def ettr(local: float, remote: float) -> float:
        stores = (goodput.CheckpointStore(local, local_write), goodput.CheckpointStore(remote, remote_write))
        return _productive(rate, classes, stores)

    def cost(at: FloatArray) -> float:
        # Where one kind of save is not worth it, its interval grows without end.
        local, remote = np.exp(np.minimum(at, math.log(1e6 * mtti)))
        return -ettr(float(local), float(remote))

    remote = goodput.young_interval(remote_write, mtti / remote_share)
    start = np.log([goodput.young_interval(local_write, mtti / (1.0 - remote_share)), remote])
    optimum = minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-12})
    local, remote = map(math.exp, optimum.x)
    alone = goodput.optimal_interval(remote_write, mtti)
    # All failures go back to the one store, the slower restart of the few included.
    survival = (1.0 - remote_share) * classes[0].survival + remote_share * classes[1].survival
    merged = goodput.FailureClass(1.0, downtime, survival)
    single = _productive(rate, [merged], [goodput.CheckpointStore(alone, remote_write)])
    both, percent = ettr(local, remote), percent_text(single, 2)
    note = "" if both > 0.7 else f"outside its range (above 70 %); with only remote saves it is {percent}"
    return [
        FormulaLine("local_interval", "between local saves", local, "s"),
        FormulaLine("remote_interval", "between remote saves", remote, "s"),
        FormulaLine("ettr", "ETTR with both", both, "share", note),
        FormulaLine("remote_alone_interval", "between remote saves without local ones", alone, "s"),
        FormulaLine("remote_alone_ettr", "ETTR with only these", single, "share"),
    ]


def _mtbf_needed(ettr: float, parts: float, write: float, restart: float, downtime: float) -> list[FormulaLine]:
    from scipy.optimize import brentq

    def short(log_mtti: float) -> float:
        return _best(write, math.exp(log_mtti), restart, downtime)[1] - ettr

    if write == restart == downtime == 0:
        raise ValueError("a failure costs nothing without a write, a restart and a downtime: any MTBF does")
    mtti = math.exp(brentq(short, math.log(1e-6), math.log(1e30), xtol=1e-12))
    interval, reached = _best(write, mtti, restart, downtime)
    return [
        FormulaLine("mtbf", "MTBF that each part needs", mtti * parts, "s"),
        FormulaLine("mtti", "MTTI of the job with it", mtti, "s"),
        FormulaLine("interval", "best time between saves with it", interval, "s"),
        FormulaLine("ettr", "ETTR with it", reached, "share"),
    ]


def _spares(needed: float, mtbf: float, repair: float, probability: float, dispersion: float) -> list[FormulaLine]:
    down = nodes.steady_unavailability(mtbf, repair)
    spares = nodes.spares_needed(int(needed), down, probability, dispersion)
    correlation = (dispersion - 1.0) / max(needed - 1.0, 1.0)
    law = nodes.missing_nodes_pmf(int(needed) + spares, down, 1.0 + (needed + spares - 1.0) * correlation)
    return [
        FormulaLine("spares", "spares", spares, "count"),
        FormulaLine("enough", "probability that they are enough", arrays.enough_probability(law, spares), "share"),
        FormulaLine("unavailability", "share of time for which a node is down", down, "share"),
        FormulaLine("down", "mean number of nodes down", (needed + spares) * down, "count"),
    ]


def _k_of_n(parts: float, needed: float, mtbf: float, repair: float, dispersion: float) -> list[FormulaLine]:
    if needed > parts:
        raise ValueError(f"--needed {needed:g} is more than --parts {parts:g}")
    down = nodes.steady_unavailability(mtbf, repair)
    law, extra = nodes.missing_nodes_pmf(int(parts), down, dispersion), int(parts - needed)
    enough, short = arrays.enough_probability(law, extra), float(arrays.exceedance(law)[extra])
    return [
        FormulaLine("available", "share of time with enough", enough, "share"),
        FormulaLine("short_per_year", "time without enough in a year", short * YEAR, "s"),
        FormulaLine("missing", "mean number missing", arrays.expected_shortfall(law, extra), "count"),
        FormulaLine("unavailability", "share of time for which a part is down", down, "share"),
    ]


def _n_plus_k(
    groups: float, size: float, mtbf: float, repair: float, reload: float, probability: float
) -> list[FormulaLine]:
    # A group is up while all of its nodes are, and its pause after a failure is over.
    alone = 1.0 - (1.0 - nodes.steady_unavailability(mtbf, repair)) ** size * math.exp(-size * reload / mtbf)
    extra = nodes.spares_needed(int(groups), alone, probability)
    rows = [
        FormulaLine("extra", "groups beyond those needed, k", extra, "count"),
        FormulaLine("unavailability", "share of time for which a group is down", alone, "share"),
    ]
    for k in range(max(extra - 1, 0), extra + 1):
        enough = arrays.enough_probability(nodes.missing_nodes_pmf(int(groups) + k, alone), k)
        rows.append(
            FormulaLine(
                "enough" if k == extra else "enough_with_one_less", f"probability with k = {k}", enough, "share"
            )
        )
    return rows


def _shortage(needed: float, spares: float, mtbf: float, repair: float, downtime: float) -> list[FormulaLine]:
    starvation = nodes.starvation(mtbf, repair, int(needed), int(spares), downtime=downtime)
    return [
        FormulaLine("share", "share of time in which the job waits for nodes", starvation.share, "share"),
        FormulaLine("per_year", "that is, of a year", starvation.share * YEAR, "s"),
        FormulaLine(
            "no_spare", "probability that a failure of the running job finds no spare", starvation.probability, "share"
        ),
        FormulaLine("wait", "mean wait of a failure, those without one included", starvation.wait, "s"),
    ]


def _pool_empty(parts: float, mtbf: float, repair: float, spares: float) -> list[FormulaLine]:
    offered = parts / mtbf * repair
    empty = queues.pool_empty(offered, int(spares))
    note = "outside its range (the pool covers the losses): an upper bound" if empty > 0.1 else ""
    return [
        FormulaLine("empty", "probability that no spare is left", empty, "share", note),
        FormulaLine("offered", "mean number in repair", offered, "count"),
        FormulaLine("per_day", "nodes lost", parts / mtbf * DAY, "1/d"),
    ]


def _rate_interval(events: float, time: float, parts: float) -> list[FormulaLine]:
    from ettrick.analysis.statistics.estimates import rate

    estimate = rate(events, time * parts)
    ends = (("", ""), ("_low", ", low"), ("_high", ", high"))
    rates = (estimate.value, estimate.low, estimate.high)
    rows = [
        FormulaLine(f"rate{end}", f"events of a part{words}", value * DAY, "1/d")
        for (end, words), value in zip(ends, rates, strict=True)
    ]
    # The MTBF is low where the rate is high.
    rates = (estimate.value, estimate.high, estimate.low)
    return rows + [
        FormulaLine(f"mtbf{end}", f"MTBF of a part{words}", 1.0 / value if value > 0 else math.inf, "s")
        for (end, words), value in zip(ends, rates, strict=True)
    ]


def _gang_saturation(slots: float, small: float) -> list[FormulaLine]:
    rate, occupancy = queues.gang_saturation(int(slots), small)
    return [
        FormulaLine("occupancy", "share of slots in use at saturation", occupancy, "share"),
        FormulaLine("rate", "jobs that arrive in a mean run time, at most", rate, "count"),
    ]


def _prediction(mtti: float, recall: float, precision: float, write: float, restart: float) -> list[FormulaLine]:
    from scipy.optimize import brentq, minimize_scalar

    def best(precision: float) -> tuple[float, float]:
        missed, alarms = (1 - recall) / mtti, recall / mtti / precision
        start = goodput.young_interval(write, mtti / (1 - recall))
        optimum = minimize_scalar(
            lambda log: -goodput.predicted_efficiency(math.exp(log), write, missed, alarms, restart),
            bounds=(math.log(start) - 5, math.log(start) + 5),
            method="bounded",
        )
        return math.exp(optimum.x), -optimum.fun

    interval, ettr = best(precision)
    _, alone = _best(write, mtti, restart, 0.0)
    pays = best(1.0)[1] > alone
    # So many false alarms that nothing is left: fifty in the time of a save and a restart.
    none = math.log(min(recall * (write + restart) / mtti / 50, 0.5))
    least = brentq(lambda log: best(math.exp(log))[1] - alone, none, 0.0) if pays else math.inf
    return [
        FormulaLine("interval", "best time between saves", interval, "s"),
        FormulaLine("ettr", "ETTR with it", ettr, "share"),
        FormulaLine("ettr_alone", "ETTR without the prediction, at its best", alone, "share"),
        FormulaLine(
            "least_precision", "precision from which on it pays", math.exp(least) if pays else math.nan, "share"
        ),
        FormulaLine("false_per_day", "false alarms", recall / mtti * (1 / precision - 1) * DAY, "1/d"),
    ]


def _stock(parts: float, mtbf: float, lead: float, stock: float, ratio: float) -> list[FormulaLine]:
    demand = parts / mtbf
    shelf = queues.base_stock(demand, lead, int(stock))
    best = queues.best_stock(demand, lead, ratio)
    return [
        FormulaLine("fill_rate", "share of repairs that find their part", shelf.fill_rate, "share"),
        FormulaLine("wait", "mean wait of a repair, those without one included", shelf.wait, "s"),
        FormulaLine("waiting", "mean number of repairs that wait", shelf.waiting, "count"),
        FormulaLine("on_hand", "mean number of parts on the shelf", shelf.on_hand, "count"),
        FormulaLine("per_day", "parts taken", demand * DAY, "1/d"),
        FormulaLine("best_stock", "stock of least cost", best, "count"),
        FormulaLine("best_fill_rate", "its fill rate", queues.base_stock(demand, lead, best).fill_rate, "share"),
    ]


_ANSWERS: dict[str, Callable[..., list[FormulaLine]]] = {
    "checkpoint-interval": _checkpoint_interval,
    "async-interval": _async_interval,
    "mtti": _mtti,
    "ettr": _ettr,
    "two-level": _two_level,
    "mtbf-needed": _mtbf_needed,
    "spares": _spares,
    "k-of-n": _k_of_n,
    "n-plus-k": _n_plus_k,
    "shortage": _shortage,
    "pool-empty": _pool_empty,
    "rate-interval": _rate_interval,
    "gang-saturation": _gang_saturation,
    "prediction": _prediction,
    "stock": _stock,
}
