"""The size and the order of the house, beside its targets and its ceilings: ``make house``.

A code line is a line that is no blank, no comment and no docstring. With ``--check`` the command says nothing but what
is above its ceiling, and ends with 1 then; an issue that needs room raises a ceiling by its own allowance, here.
"""

from __future__ import annotations

import ast
import graphlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


class Measure(NamedTuple):
    """What is counted, the count, what it should come to, and above what `make check` fails."""

    what: str
    today: int
    target: int
    ceiling: int


def measures() -> list[Measure]:
    """Return the table of the house today."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.splitlines() if (ROOT / path).exists()]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    product = {path: text for path, text in texts.items() if path.startswith(("sim/", "analysis/", "cli.py"))}
    tests = {path: text for path, text in texts.items() if path.startswith("tests/")}
    simulator = "\n".join(text for path, text in product.items() if path.startswith("sim/"))
    return [
        Measure("product files", len(product), 270, 297),
        Measure("product code lines", sum(code_lines(text) for text in product.values()), 40_000, 74_600),
        Measure("product lines", sum(text.count("\n") for text in product.values()), 60_000, 110_900),
        Measure("longest product file", max(text.count("\n") for text in product.values()), 900, 1340),
        Measure("tests files", len(tests), 190, 247),
        Measure("tests lines", sum(text.count("\n") for text in tests.values()), 50_000, 85_200),
        Measure("Any in sim/", len(re.findall(r"\bAny\b", simulator)), 120, 124),
        Measure(
            "x: Any = scenario...", len(re.findall(r": Any = (?:self\.)?scenario\.", "\n".join(product.values()))), 0, 0
        ),
        Measure("circles of packages", len(circles(product)), 0, 0),
    ]


def code_lines(text: str) -> int:
    """Return the lines of code in a file, without blanks, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        for child in getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                lines -= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return len(lines)


def circles(texts: dict[str, str]) -> list[tuple[str, ...]]:
    """Return the groups of packages that need one another, for whatever reason: at import, in a function, for types."""
    modules = {
        ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__"): text for path, text in texts.items()
    }
    graph: dict[str, set[str]] = {}
    for name, text in modules.items():
        own = graph.setdefault(_package(name), set())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module = node.module.removeprefix("ettrick.")
                    full = f"{module}.{alias.name}"
                    target = full if full in modules else module
                    if target in modules and target.count("."):
                        own |= {_package(target)} - {_package(name)}
    found: list[tuple[str, ...]] = []
    while True:
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            circle = tuple(sorted(set(error.args[1])))
            found.append(circle)
            merged = set[str]().union(*(graph.pop(name, set()) for name in circle)) - set(circle)
            graph = {
                name: {circle[0] if other in circle else other for other in others} for name, others in graph.items()
            }
            graph[circle[0]] = {other for other in merged if other != circle[0]}
            continue
        return found


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def main() -> int:
    """Print the table, or only what is above its ceiling."""
    table = measures()
    above = [row for row in table if row.today > row.ceiling]
    if "--check" not in sys.argv:
        print(f"{'':24} {'today':>8} {'target':>8} {'ceiling':>8}")
        for row in table:
            print(f"{row.what:24} {row.today:8,} {row.target:8,} {row.ceiling:8,}")
    for row in above:
        print(f"{row.what}: {row.today:,} is above {row.ceiling:,} (tests/house.py)")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
