"""The size and the order of the house, beside its targets and its ceilings: ``make house``.

A code line is a line that is no blank, no comment and no docstring. With ``--check`` the command says nothing but what
is above its ceiling, and ends with 1 then; an issue that needs room raises a ceiling by its own allowance, here.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

import networkx

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
    everything = "\n".join(product.values())
    trees = {path: ast.parse(text) for path, text in product.items()}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    engine = [len(circle) for circle in module_circles(product, "sim/engine/")]
    return [
        Measure("product files", len(product), 250, 310),
        Measure("product code lines", sum(code_lines(text) for text in product.values()), 60_000, 76_275),
        Measure("product lines", sum(text.count("\n") for text in product.values()), 60_000, 115_951),
        Measure("longest product file", max(text.count("\n") for text in product.values()), 900, 899),
        Measure("tests files", len(tests), 190, 258),
        Measure("tests code lines", sum(code_lines(text) for text in tests.values()), 50_000, 64_164),
        Measure("Any in sim/", len(re.findall(r"\bAny\b", simulator)), 120, 115),
        Measure(
            "x: Any = scenario...", len(re.findall(r": Any = (?:self\.)?scenario\.", "\n".join(product.values()))), 0, 0
        ),
        Measure("circles of packages", len(circles(product)), 0, 0),
        Measure("files of the engine in circles", sum(engine), 6, 6),
        Measure("other circles in packages", len(module_circles(product)) - len(engine), 0, 0),
        Measure("classes of one name", len(repeated_classes(trees)), 0, 0),
        Measure("isinstance on holders", len(re.findall(_HOLDER, everything)), 0, 0),
        Measure("fleet is None", len(re.findall(r"fleet is (?:not )?None", everything)), 0, 0),
        Measure("largest class, lines", max(map(_lines, _classes(trees))), 400, 387),
        Measure("type: ignore", everything.count("# type: ignore"), 30, 16),
        Measure("complexity above 15", sum(complexity(function) > 15 for function in functions), 40, 0),
        Measure("functions above 40 lines", sum(_lines(function) > 40 for function in functions), 80, 15),
        Measure("assert x is not None", len(re.findall(r"assert \S+ is not None", everything)), 60, 18),
        Measure("bindings of the dialect", sum(map(dialect_bindings, trees.values())), 300, 11),
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


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDER = r"isinstance\(\w+(?:\.\w+)*, (?:\w+ \| )*(?:Job|Holder|Allocation|ReplicaGroup|ReplicaPool)\b"
_DIALECT = frozenset(
    "found one each mine own other others known said told asked kept held given taken made begun".split()  # noqa: SIM905
)


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity of a function: branches, loops, ``and``, ``or``, comprehensions, asserts."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.Match):
            total += len(node.cases)
        else:
            total += isinstance(node, (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert))
    return total


def dialect_bindings(tree: ast.Module) -> int:
    """Return how often a pronoun or a participle is bound: assigned, looped over, or a parameter."""
    names = (
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    return sum(name in _DIALECT for name in names)


def repeated_classes(trees: dict[str, ast.Module]) -> list[str]:
    """Return the names of classes that stand in two files or more."""
    names = [
        name
        for tree in trees.values()
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    ]
    return sorted({name for name in names if names.count(name) > 1})


def module_circles(texts: dict[str, str], folder: str = "") -> list[tuple[str, ...]]:
    """Return the groups of files of one package that need one another, at import, in a function or for types."""
    modules = {
        ".".join(Path(path).with_suffix("").parts): text
        for path, text in texts.items()
        if path.startswith(folder) and not path.endswith("__init__.py")
    }
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.removeprefix("ettrick.")
                for target in (module, *(f"{module}.{alias.name}" for alias in node.names)):
                    if target in modules and target != name and _package(target) == _package(name):
                        graph[name].add(target)
    return _strong(graph)


def _strong(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the groups of two names or more that reach one another."""
    edges = networkx.DiGraph((name, target) for name, targets in graph.items() for target in targets)
    return sorted(tuple(sorted(group)) for group in networkx.strongly_connected_components(edges) if len(group) > 1)


def _classes(trees: dict[str, ast.Module]) -> list[ast.ClassDef]:
    return [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


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
    return _strong(graph)


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def main() -> int:
    """Print the table, or only what is above its ceiling."""
    table = measures()
    above = [row for row in table if row.today > row.ceiling]
    if "--check" not in sys.argv:
        print(f"{'':32} {'today':>8} {'target':>8} {'ceiling':>8}")
        for row in table:
            print(f"{row.what:32} {row.today:8,} {row.target:8,} {row.ceiling:8,}")
    for row in above:
        print(f"{row.what}: {row.today:,} is above {row.ceiling:,} (tests/house.py)")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
