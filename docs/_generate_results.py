"""Write the reference page and the JSON Schema of what commands print from the models: see `_generate.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ettrick.analysis.results.explained import (
    DOCUMENTS,
    results_schema,
)
from ettrick.analysis.results.files import in_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent / "reference" / "json.md"
SCHEMA = Path(__file__).parent / "reference" / "results.schema.json"

_TITLES = {"worth": "What everything is worth", "service_layouts": "What layouts prints of a service"}

_HEAD = """\
# JSON documents

<!-- Written by docs/_generate_results.py from the models. Change the models, then run `make docs`. -->

With `--json` a command prints one document; with `--out DIR` it writes the same into a folder, which `ettrick report`
reads. Times are in seconds, GPU-time in GPU-seconds, shares between 0 and 1. What the data do not support, or is not
finite, is null. `format` is the number of this format, 1; documents of before it have none, and are read as well.
[results.schema.json](results.schema.json) is the same as a JSON Schema, which `ettrick schema --results` prints.
"""

_PLAIN = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false", "null": "null"}


def results_reference() -> str:
    """Return the page as Markdown."""
    definitions: dict[str, Any] = results_schema()["$defs"]
    lines, written = [_HEAD], {model.__name__ for model in DOCUMENTS.values()}
    for command, model in DOCUMENTS.items():
        lines.append(f"## {_TITLES.get(command, f'What {command} prints')}\n")
        waiting = [model.__name__]
        while waiting:
            name = waiting.pop(0)
            definition = definitions[name]
            lines += [] if name == model.__name__ else [f"### {_words(name)}\n"]
            lines.append(f"{_sentence(definition.get('description', ''))}\n")
            lines += ["| key | | content |", "|---|---|---|"]
            for key, node in definition.get("properties", {}).items():
                # Pydantic leaves out what the model itself says.
                said = node.get("description") or definitions[next(_parts(node), name)]["description"]
                lines.append(f"| `{key}` | {_type(node)} | {_sentence(said)} |")
                parts = [part for part in _parts(node) if part not in written]
                written.update(parts)
                waiting += parts
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _words(name: str) -> str:
    """Return the name of a model in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Summary")).capitalize()


def _sentence(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _parts(node: dict[str, Any]) -> Iterator[str]:
    """Yield the models that a schema refers to, in order."""
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2]
    for inner in (*node.get("anyOf", ()), node.get("items"), node.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _parts(inner)


def _type(node: dict[str, Any]) -> str:
    """Return what may stand at a place, in words."""
    if "$ref" in node:
        name = _words(node["$ref"].rpartition("/")[2])
        return f"[{name.lower()}](#{name.lower().replace(' ', '-')})"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_type(each) for each in node["anyOf"]))
    kinds = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", [])
    words = []
    for kind in kinds:
        if kind == "array":
            items = node.get("items", {})
            words.append(f"{node['minItems']} numbers" if node.get("maxItems") == 2 else f"list of {_type(items)}")
        elif kind == "object":
            inner = node.get("additionalProperties")
            words.append(f"by name: {_type(inner)}" if isinstance(inner, dict) else "mapping")
        else:
            words.append(_PLAIN[kind])
    return " or ".join(words) or "anything"


if __name__ == "__main__":
    PAGE.write_text(results_reference(), encoding="utf-8")
    SCHEMA.write_text(in_lines(results_schema()) + "\n", encoding="utf-8")
