"""Goes back from every number of a text to the results that it comes from."""

from __future__ import annotations

import ast
import csv
import json
import math
import operator
import re
import statistics
from typing import TYPE_CHECKING, Any

from ettrick.analysis.page.model import MOST_AMOUNTS, Number, amounts_in, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ettrick.analysis.page.model import FirstScreen, Words

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
}

_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_NUMBER = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")


def value_at(folder: Path, source: str) -> float:
    """Return what stands at a place of a folder: a JSON pointer (RFC 6901), or rows and column of a CSV table."""
    file, _, place = source.partition("#")
    if file.endswith(".csv"):
        rows, _, column = place.partition("/")
        first, _, last = rows.partition("-")
        with (folder / file).open(encoding="utf-8", newline="") as opened:
            table = list(csv.DictReader(opened))[int(first) : int(last or first) + 1]
        return statistics.fmean(float(row[column]) for row in table)
    found: Any = json.loads((folder / file).read_bytes())
    if "*" in place:
        return _counted([found], *place.partition("?")[::2])
    for step in place.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    assert isinstance(found, int | float), f"{source} is no number"
    assert not isinstance(found, bool), f"{source} is no number"
    return float(found)


def _counted(entries: list[Any], place: str, which: str) -> float:
    """Return how many entries of all lists at a place have certain values: ``label=emergent&verdict=pass``."""
    for step in place.split("/")[1:]:
        entries = [
            each
            for found in entries
            for each in (found if step == "*" else [found[int(step) if isinstance(found, list) else step]])
        ]
    wanted = [pair.split("=") for pair in which.split("&") if pair]
    return float(sum(all(str(entry[key]).lower() == value for key, value in wanted) for entry in entries))


def evaluated(formula: str, values: Sequence[float]) -> float:
    """Return the value of a formula, in which a, b, c ... are these values; only + - * / min max abs ceil floor."""
    return _value(ast.parse(formula, mode="eval").body, dict(zip(_LETTERS, values, strict=False)))


def _value(node: ast.expr, names: dict[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(argument, names) for argument in arguments))
    message = f"a formula cannot have {ast.unparse(node)}"
    raise ValueError(message)


def check_number(found: Number, folder: Path) -> None:
    """Assert that a number follows from its places, and that its text says it."""
    expected = evaluated(found.formula, [value_at(folder, source) for source in found.sources])
    assert math.isclose(found.value, expected, rel_tol=1e-9, abs_tol=1e-300), f"{found}: the places give {expected}"
    match = _NUMBER.search(found.text.replace("−", "-"))
    assert match is not None, f"{found}: no number in the text"
    written = match[0].replace(",", "")
    worded = float(written) * found.size
    assert abs(worded - found.value) <= (0.5 * _last_digit(written) + 1e-9 * abs(float(written))) * found.size, (
        f"{found}: the text says {worded}"
    )


def _last_digit(written: str) -> float:
    """Return what one unit of the last digit is; zeros at the end of a whole number may be rounded."""
    whole, point, decimals = written.lstrip("-").partition(".")
    if point:
        return 10.0 ** -len(decimals)
    zeros = len(whole) - len(whole.rstrip("0"))
    return 10.0 ** min(zeros, len(whole) - 1)


def check_words(words: Words, folder: Path, quoted: Sequence[str]) -> int:
    """Assert that all digits of a text are in numbers that can be traced, or quoted; return how many numbers it has."""
    count = 0
    for part in words:
        if isinstance(part, Number):
            check_number(part, folder)
            count += 1
        else:
            # The level is part of the name of the interval.
            left = part.replace("95 % confidence interval", "")
            for quote in quoted:
                left = re.sub(rf"(?<![\w.]){re.escape(quote)}(?!\w)", "", left, flags=re.IGNORECASE)
            assert not re.search(r"[0-9]", left), f"{part!r} has digits of no known source"
    return count


def quotes(folder: Path) -> list[str]:
    """Return all texts of the documents of a folder that have digits, the longest first."""
    found = set()
    for path in folder.glob("*.json"):
        for text in _texts(json.loads(path.read_bytes())):
            found |= {text, *(part.strip() for part in re.split(r", |=", text))}
    return sorted((text for text in found if re.search(r"[0-9]", text)), key=lambda text: (-len(text), text))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from _texts(value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(value)
    elif isinstance(content, str):
        yield content


def check_opening(first_screen: FirstScreen, folder: Path) -> int:
    """Assert that every number of a first screen can be traced; return how many there are.

    The answer states three results at most. The question is quoted as it is, and so are the names of what is compared.
    """
    known = quotes(folder)
    assert amounts_in(first_screen.answer) <= MOST_AMOUNTS, plain(first_screen.answer)
    texts = (first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered)
    return sum(check_words(words, folder, known) for words in texts)
