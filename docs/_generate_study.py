"""Write the reference page and the JSON Schema of studies from their models: ``python docs/_generate_study.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ettrick.analysis.results.files import in_lines
from ettrick.analysis.study.designs import DESIGNS
from ettrick.analysis.study.distributions import DISTRIBUTIONS
from ettrick.analysis.study.model import QUESTIONS, study_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = Path(__file__).parent / "reference" / "study.md"
SCHEMA = Path(__file__).parents[1] / "scenarios" / "studies" / "study.schema.json"

Node: TypeAlias = dict[str, Any]

_HEAD = """\
# Study keys

<!-- Written by docs/_generate_study.py from the models. Change the models, then run `make docs`. -->

Every key of a study file. An unknown key is an error. [Write a study](../howto/write-a-study.md) shows how the keys
work together. Values of the scenario are written as in a [scenario](scenario.md): with their units. A default of –
means that the key may be left out.
"""

_PARTS = {
    "Axis": (
        "vary",
        "`vary` is a mapping; each key is the name of an axis. An axis without `path` or `paths` writes to the path "
        "that is its name.",
    ),
    "Range": (
        "vary: range",
        "Whole numbers without a unit stand for whole numbers: between 1 and 8 lie 2, 3, ... but no 1.5. Write 1.0 for "
        "anything between. Values that are worked out have twelve digits.",
    ),
    "PrecisionSpec": ("precision", ""),
    "Optimum": ("optimize", ""),
    "Budget": ("optimize: budget", ""),
    "BatchBounds": ("optimize: batch", ""),
}
_REGISTRIES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (
        "Distributions",
        "`distribution: {use: ...}` of an axis: its values are not chosen but unknown.",
        DISTRIBUTIONS,
    ),
    ("Designs", "`design: {use: ...}` says which combinations are looked at; omitted: `grid`.", DESIGNS),
    ("Questions", "`questions` is a list of mappings `{use: ...}`.", QUESTIONS),
)


def study_reference() -> str:
    """Return the page as Markdown."""
    schema = study_schema()
    parts: Node = schema["$defs"]
    lines = [_HEAD, "## Top level\n", *_table(schema)]
    for name, (title, words) in _PARTS.items():
        lines += [f"## {title}\n", *([f"{words}\n"] if words else [f"{_summary(parts[name])}\n"]), *_table(parts[name])]
    for title, words, registry in _REGISTRIES:
        lines += [f"## {title}\n", f"{words}\n"]
        for name, kind in registry.items():
            part = parts[kind.__name__]
            lines += [f"### use: {name}\n", f"{_summary(part)}\n", *_table(part, without="use")]
    return "\n".join(lines).rstrip() + "\n"


def _table(part: Node, without: str = "") -> Iterator[str]:
    """Yield the lines of a table of keys."""
    keys = {name: node for name, node in part["properties"].items() if name != without}
    if not keys:
        yield "No other keys.\n"
        return
    yield "| key | takes | default | meaning |"
    yield "|---|---|---|---|"
    for name, node in keys.items():
        default = "required" if name in part.get("required", ()) else _default(node)
        cells = (f"`{name}`", _takes(node), default, node.get("description", ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(node: Node) -> str:
    value = node.get("default")
    return (
        "–" if value in (None, "", [], {}, 0) or isinstance(value, dict) else f"`{json.dumps(value)}`".replace('"', "")
    )


def _takes(node: Node) -> str:
    """Return what a key takes, in words."""
    if "anyOf" in node or "oneOf" in node:
        choices = [choice for choice in node.get("anyOf", node.get("oneOf")) if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(map(_takes, choices)))
    if "$ref" in node:
        kind = node["$ref"].rsplit("/", 1)[1]
        if kind in _PARTS:
            return f"[keys](#{_PARTS[kind][0].replace(': ', '-')})"
        title = next(title for title, _, registry in _REGISTRIES if kind in _names(registry))
        return f"[one of these](#{title.lower()})"
    if "enum" in node:
        return " or ".join(f"`{choice}`" for choice in node["enum"] if choice)
    if node.get("type") == "array":
        return f"list of {_plural(_takes(node['items']))}"
    if node.get("type") == "object":
        inner = node.get("additionalProperties")
        return f"mapping of names to {_plural(_takes(inner))}" if isinstance(inner, dict) and inner else "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    return words[node["type"]] + _limits(node) if "type" in node else "value"


def _plural(words: str) -> str:
    return {"value": "values", "mapping": "mappings", "text": "text"}.get(words, words)


def _names(registry: Mapping[str, Any]) -> set[str]:
    return {kind.__name__ for kind in registry.values()}


def _limits(node: Node) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {node[word]:g}" for word, sign in signs.items() if word in node and node[word] < 2**31]
    return f", {' and '.join(found)}" if found else ""


def _summary(part: Node) -> str:
    """Return the first paragraph of what a model says of itself."""
    return " ".join(part.get("description", "").split("\n\n", 1)[0].split()).replace("``", "`")


def main() -> None:
    """Write both files."""
    PAGE.write_text(study_reference(), encoding="utf-8")
    SCHEMA.write_text(in_lines(study_schema()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
