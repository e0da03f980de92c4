"""Write the reference page and the JSON Schema of what commands print from the models: see `_generate.py`."""

from __future__ import annotations

import os
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

_HEAD = """\
# JSON documents

<!-- Written by docs/_generate_results.py from the models. Change the models, then run `make docs`. -->

With `--json` a command prints one document; with `--out DIR` it writes the same document into a folder, which `ettrick
report` reads. Times are in seconds, GPU-time in GPU-seconds, and shares are between 0 and 1. A number is null if the
data do not support it, or if it is not finite. `format` is the version of this format, 1; older documents have no such
key, and can still be read. [results.schema.json](results.schema.json) is the JSON Schema of all documents, which
`ettrick schema --results` prints.

| document | content |
|---|---|
"""

_PLAIN = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false", "null": "null"}


def results_reference() -> dict[Path, str]:
    """Return the pages as Markdown: an index, and one for each document."""
    definitions: dict[str, Any] = results_schema()["$defs"]
    documents = [model.__name__ for model in DOCUMENTS.values()]
    lines, written = [_HEAD], {*documents}
    for document in documents:
        said = _sentence(definitions[document]["description"])
        lines[0] += f"| [{_words(document)}](#{anchor(_words(document))}) | {said} |\n"
        waiting = [document]
        while waiting:
            name = waiting.pop(0)
            definition = definitions[name]
            lines.append(f"{'#' if name == document else '##'} {_words(name)}\n")
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
    return pages_of("\n".join(lines), PAGE)


def pages_of(text: str, index: Path) -> dict[Path, str]:
    """Return a text as pages, one for each title: the index with its contents, and a folder of all others.

    A link to a heading leads to the page that has it; other links are relative to the index.
    """
    texts = [f"# {part.rstrip()}\n" for part in re.split(r"^# ", text, flags=re.MULTILINE)[1:]]
    names = [anchor(page.partition("\n")[0][2:]) for page in texts[1:]]
    pages = dict(zip([index, *(index.with_suffix("") / f"{name}.md" for name in names)], texts, strict=True))
    places = {
        anchor(heading): path
        for path, page in pages.items()
        for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    }

    def link(path: Path, target: str) -> str:
        if target.startswith("#"):
            place = places[target[1:]]
            rest = "" if place.stem == target[1:] else target
            return target if place == path else f"{os.path.relpath(place, path.parent)}{rest}"
        return target if path == index or "://" in target else f"../{target}"

    note = re.search(r"<!--.*?-->\n\n", texts[0])[0]
    for path, page in pages.items():
        linked = re.sub(r"(?<=\]\()[^)]+", lambda found, path=path: link(path, found[0]), page)
        pages[path] = linked if path == index else linked.replace("\n\n", f"\n\n{note}", 1)
    contents = "".join(f"{index.stem}/{name}\n" for name in names)
    pages[index] += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{contents}```\n"
    return pages


def write_pages(pages: dict[Path, str]) -> None:
    """Write an index and the pages of its folder, and delete the pages there that are no more."""
    index = next(iter(pages))
    index.with_suffix("").mkdir(exist_ok=True)
    for old in {*index.with_suffix("").iterdir()} - {*pages}:
        old.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


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
        return f"[{name.lower()}](#{anchor(name)})"
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
    write_pages(results_reference())
    SCHEMA.write_text(in_lines(results_schema()) + "\n", encoding="utf-8")
