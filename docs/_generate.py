"""Write the pages on scenarios and studies from the models themselves: ``python docs/_generate.py``."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import re
import runpy
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, get_args

import yaml
from _generate_results import anchor, pages_of, write_pages

from ettrick import sim
from ettrick.analysis import api
from ettrick.analysis.explain.formula import answered, format_formula, formulas
from ettrick.analysis.metrics import METRICS, TIME_SHARE
from ettrick.analysis.page.glossary import terms
from ettrick.analysis.study.designs import DESIGNS
from ettrick.analysis.study.distributions import DISTRIBUTIONS
from ettrick.analysis.study.model import QUESTIONS
from ettrick.analysis.validation.lab import ScenarioRunner
from ettrick.analysis.validation.measures import MEASURES
from ettrick.analysis.validation.table import load_table
from ettrick.sim import catalog, units, yamlfile
from ettrick.sim.compiled.lowering import GAPS, GAPS_OF_SOURCES
from ettrick.sim.input import presets
from ettrick.sim.input.scenario import DEFAULTS, Scenario
from ettrick.sim.load import completed
from ettrick.sim.policies.checkpoint.tiers import Tier
from ettrick.sim.policies.detection.kinds import AnyWatcher
from ettrick.sim.scenario.laws import LAW_NAMES, Mixture, PlainLaws

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE = Path(__file__).parent / "reference" / "scenario.md"

METRICS_PAGE = PAGE.with_name("metrics.md")

GLOSSARY_PAGE = PAGE.with_name("glossary.md")

API_PAGE = PAGE.with_name("api.md")

NOTEBOOK = PAGE.parents[1] / "tutorial" / "what-if-from-python.ipynb"

FORMULAS_PAGE = PAGE.with_name("formulas.md")

SEMANTICS_PAGE = PAGE.parents[1] / "explanation" / "semantics.md"

FEATURES_PAGE = PAGE.with_name("features.md")

Node: TypeAlias = dict[str, Any]

_QUANTITIES = {
    dimension.example: dimension.name
    for dimension in (units.DURATION, units.SIZE, units.BANDWIDTH, units.FLOPS, units.POWER, units.FRACTION)
} | {"6.5 per 1000 node-days": "rate"}

_CATALOG = (
    "topologies",
    "failure bundles (failures.use)",
    "recovery presets (recovery.use)",
    "models (jobs.model)",
    "accelerators (cluster.accelerator)",
)

_HEAD = """\
# Scenario keys

<!-- Written by docs/_generate.py from the models. Change the models, then run `make docs`. -->

The keys of a scenario file, in the order of the file; each key has its own page. An unknown key is an error.
[Write a scenario](../howto/write-a-scenario.md) shows how the keys work together; `ettrick schema` prints all of them
as a JSON Schema.
"""

_VALUES = """\
## How values are written

| | |
|---|---|
| time | text with a unit: `30 min`, `1h30m`, `54 d`. Units: ns, us, ms, s, min, h, d, week, month, year |
| bandwidth | text with a unit: `400 Gb/s` (bits), `50 GB/s` (bytes); k, M, G are powers of 1000, Ki, Mi, Gi of 1024 |
| rate | events per exposure: `6.5 per 1000 node-days`, `2 per job per week`, `100 FIT` |
| fraction | `5 %` or `0.05` |
| whole number | `16384`, or text with a prefix: `16 Ki` |
| law or time | a [law](#laws) of random times, or one time that is always the same: `5 min` |

A default of – means that the key may be left out and then has no value. If the first key of a part is `use`, it picks
one of several kinds, and the other keys belong to that kind.
"""


def scenario_reference() -> dict[Path, str]:
    """Return the pages as Markdown: the keys at the top, and one for each of them."""
    return pages_of(_Page(sim.schema()).text(), PAGE)


_CONDITIONS = {
    "checkpoint": "required of jobs and streams",
    "recovery": "required of jobs and streams",
    "detection": "required, unless a preset of recovery brings it",
}

"""Keys at the top that some scenarios need, and others not."""


class _Page:
    """Walks the JSON Schema and collects sections."""

    def __init__(self, schema: Node) -> None:
        self.definitions: Node = schema["$defs"]
        self.schema = schema
        self.lines: list[str] = [_HEAD]
        self.written: set[tuple[str, str]] = set()
        """Paths and definitions that have their section: several kinds of source share keys."""

    def text(self) -> str:
        """Return all pages, one after another."""
        top = {name: node for name, node in self.schema["properties"].items() if name != "extends"}
        self.lines.append("## Top level\n")
        extends = self.schema["properties"]["extends"]
        # A file that extends another need not repeat what that one says.
        ways = [set(choice["required"]) for choice in self.schema["anyOf"] if "extends" not in choice["required"]]
        required = set.intersection(*ways)
        rows = [self._row("", "extends", extends, required=False)]
        for name, node in top.items():
            *cells, description = self._row("", name, node, required=name in required)
            # In one way to write a scenario it may be left out, in another it must not.
            cells[-1] = _CONDITIONS.get(name, cells[-1]) if name not in required else cells[-1]
            rows.append((*cells, description))
        self._table(rows)
        self.lines.append(_VALUES)
        for name, node in top.items():
            if name != "templates":  # they are jobs
                entry = node.get("additionalProperties")  # of a mapping of names
                self._part(name, entry if isinstance(entry, dict) else node)
            if name == "scheduler":
                self._schedulers()
        self._laws()
        self._phases()
        self._catalog()
        return "\n".join(self.lines).rstrip() + "\n"

    # ------------------------------------------------------------------------------------------ sections

    def _part(self, path: str, node: Node) -> None:
        """Write the sections of everything that a key holds."""
        kinds = [kind for kind in self._kinds(node) if (path, kind) not in self.written]
        if not kinds:
            return
        self.written.update((path, kind) for kind in kinds)
        chosen = [self._choice(kind) for kind in kinds]
        if "." not in path:
            self.lines.append(f"# {path}\n")
            if chosen[0] is not None:
                self._say_default(path)
        elif len(kinds) > 1 and chosen[0] is not None:
            self.lines.append(f"## {path}\n")
            self.lines.append("`use` picks one of these.\n")
        for kind, use in zip(kinds, chosen, strict=True):
            definition = self.definitions[kind]
            heading = f"{path}: {use['const']}" if use is not None else path
            if "." in path or use is not None:
                self.lines.append(f"## {heading}\n")
            text = _first_paragraph(definition.get("description", ""))
            if kind.startswith("Bundle_"):
                text = f"{sim.inventory()['failure bundles (failures.use)'][use['const']]}."
            if text:
                self.lines.append(f"{text}\n")
            required = set(definition.get("required", ()))
            inner = {name: part for name, part in definition["properties"].items() if name != "use" or use is None}
            if inner:
                rows = [self._row(path, name, part, required=name in required) for name, part in inner.items()]
                self._table(rows)
            elif use is not None:
                self.lines.append("No other keys.\n")
            for name, part in inner.items():
                if not self._is_law(part):
                    self._part(f"{path}.{name}", part)

    def _choice(self, kind: str) -> Node | None:
        """Return the key that names a kind, if there are several."""
        found: Node | None = self.definitions[kind]["properties"].get("use")
        return found if found is not None and "const" in found else None

    def _say_default(self, path: str) -> None:
        if path in DEFAULTS:
            self.lines.append(f"`use` may be left out; it is then `{DEFAULTS[path]}`.\n")
        else:
            self.lines.append("`use` is required: it picks one of these.\n")
        if path == "recovery":
            self.lines.append(
                "It may also name a [preset](../explanation/recovery.md#the-presets), which is one of these "
                "with numbers, observers and stores; keys that the scenario states replace those of the preset.\n"
            )

    def _laws(self) -> None:
        self.lines.append("# Laws\n")
        self.lines.append(
            "A law is the distribution of a random time: `{use: weibull, shape: 0.7, mean: 30 d}`. Plain text such as "
            "`30 min` is the law `fixed`.\n"
        )
        for node in self.definitions.values():
            if node["properties"].get("use", {}).get("const") not in LAW_NAMES:
                continue
            self.lines.append(f"## use: {node['properties']['use']['const']}\n")
            self.lines.append(f"{_first_paragraph(node['description'])}\n")
            required = set(node["required"])
            inner = {name: part for name, part in node["properties"].items() if name != "use"}
            self._table([self._row("laws", name, part, required=name in required) for name, part in inner.items()])
            for name, part in inner.items():
                self._part(f"laws.{name}", part)

    def _phases(self) -> None:
        self.lines.append("# Phases\n")
        self.lines.append(
            "A time of a recovery may be one time, or a list of phases, one after another: "
            "`[{name: teardown, time: 30 s}, {name: imports, time: {use: lognormal, median: 15 s, sigma: 0.3}, each: "
            "node}]`.\n"
        )
        node = self.definitions["RecoveryPhase"]
        required = set(node["required"])
        self._table(
            [self._row("phases", name, part, required=name in required) for name, part in node["properties"].items()]
        )

    def _schedulers(self) -> None:
        self.lines.append("## Presets of the scheduler\n")
        self.lines.append("`scheduler.use` names one; keys that the scenario states replace those of the preset.\n")
        self.lines.append("| use | scheduler | keys that it sets |")
        self.lines.append("|---|---|---|")
        for name, row in catalog.schedulers().items():
            keys = yaml.safe_dump(row["keys"], default_flow_style=True, sort_keys=False, width=10_000).strip()
            self.lines.append(f"| `{name}` | {row['title']} ({row['source']}) | `{keys}` |")
        self.lines.append("")

    def _catalog(self) -> None:
        self.lines.append("# Bundled names\n")
        self.lines.append("`ettrick list` prints them, and the strategies, with one line about each.\n")
        for kind, entries in sim.inventory().items():
            if kind in _CATALOG:
                names = ", ".join(f"`{name}`" for name in entries)
                self.lines.append(f"**{kind[0].upper()}{kind[1:]}**: {names}\n")

    # --------------------------------------------------------------------------------------------- tables

    def _table(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.lines.append("| key | takes | default | meaning |")
        self.lines.append("|---|---|---|---|")
        self.lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        self.lines.append("")

    def _row(self, path: str, name: str, node: Node, *, required: bool) -> tuple[str, str, str, str]:
        description = node.get("description", "")
        kinds = list(self._kinds(node))
        if not description and kinds:
            description = _first_paragraph(self.definitions[kinds[0]].get("description", ""))
        place = f"{path}.{name}" if path else name
        return f"`{name}`", self._type(place, node), self._default(node, required=required), description

    def _default(self, node: Node, *, required: bool) -> str:
        if required:
            return "required"
        value = node.get("default")
        if value is None or value in ("", [], {}):
            return "–"
        if isinstance(value, dict):
            return "as below"
        if isinstance(value, str):
            return f"`{value}`"
        return f"`{json.dumps(value)}`".replace(".0`", "`")

    def _type(self, place: str, node: Node) -> str:
        """Return what a key takes, in words."""
        if self._is_law(node):
            phases = ", or list of [phases](#phases)" if "RecoveryPhase" in self._kinds(node) else ""
            return f"[law](#laws) or time, e.g. `30 min`{phases}"
        if place == "cluster":
            return "the name of a file, or [keys](#cluster)"
        quantity = next((_QUANTITIES[text] for text in node.get("examples", ()) if text in _QUANTITIES), None)
        if quantity is not None:
            return f"{quantity}, e.g. `{node['examples'][0]}`"
        if "16 Mi" in node.get("examples", ()):
            return "whole number"
        for word in ("anyOf", "oneOf"):
            if word in node:
                return self._union(place, node[word])
        return self._plain(place, node)

    def _union(self, place: str, choices: list[Node]) -> str:
        kinds = [choice for choice in choices if choice.get("type") != "null"]
        if all("$ref" in choice for choice in kinds) and len(kinds) > 1:
            return "[one of several kinds](#" + anchor(place) + ")"
        texts = [self._type(place, choice) for choice in kinds]
        return " or ".join(dict.fromkeys(texts))

    def _plain(self, place: str, node: Node) -> str:
        if "$ref" in node:
            return f"[keys](#{'jobs' if place == 'templates' else anchor(place)})"
        if "enum" in node:
            return " or ".join(f"`{choice}`" for choice in node["enum"])
        if "const" in node:
            return f"`{node['const']}`"
        kind = node["type"]
        if kind == "array":
            return f"list of {self._type(place, node['items'])}"
        if kind == "object":
            return f"mapping of names to {self._type(place, node['additionalProperties'])}"
        words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}[kind]
        return words + _limits(node) + _examples(node)

    def _kinds(self, node: Node) -> Iterator[str]:
        """Yield the names of the definitions that a key may hold."""
        if "$ref" in node:
            kind = node["$ref"].rsplit("/", 1)[1]
            if not kind.startswith("Preset_"):  # its keys are those of its strategy
                yield kind
        for choice in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            yield from self._kinds(choice)
        if "items" in node:
            yield from self._kinds(node["items"])

    def _is_law(self, node: Node) -> bool:
        return any(kind == "Fixed" for kind in self._kinds(node))


def _limits(node: Node) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {_number(node[word])}" for word, sign in signs.items() if word in node]
    return f", {' and '.join(found)}" if found else ""


def _number(value: float) -> str:
    """Return a limit; the largest ones are powers of two."""
    return f"2^{int(value).bit_length() - 1}" if value >= 2**31 else f"{value:g}"


def _examples(node: Node) -> str:
    texts = [f"`{text}`" for text in node.get("examples", ())]
    return f", e.g. {', '.join(texts)}" if texts else ""


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split()).replace("``", "`")


def metrics_reference(page: str) -> str:
    """Return the page on metrics with its tables written again."""
    found: dict[str, list[str]] = {}
    for metric in METRICS.values():
        if metric.name.startswith(TIME_SHARE):
            continue
        unit = metric.unit.removesuffix(" per token")
        of_the_cluster = "Energy and cost" if metric.of == "cluster" else "Times and rates"
        heading = {"share": "Shares", "count": "Counts"}.get(unit, of_the_cluster)
        shown = "" if unit in ("share", "count") else f" [{unit}]"
        found.setdefault(heading, []).append(f"| `{metric.name}`{shown} | {metric.definition} |\n")
    for heading, rows in found.items():
        table = rf"(\n## {heading}\n.*?\n\|---\|---\|\n)(?:\|[^\n]*\n)+"
        page = re.sub(table, lambda match, rows=rows: match[1] + "".join(rows), page, count=1, flags=re.DOTALL)  # type: ignore[misc]
    return page


def engines(page: str) -> str:
    """Return the page on semantics with the table of what machine code leaves to events written again."""
    subjects: dict[str, list[str]] = {}
    for gap in (*GAPS, *GAPS_OF_SOURCES):
        subjects.setdefault(gap.subject, []).append(gap.words)
    rows = "".join(f"| {subject} | {', '.join(words)} |\n" for subject, words in subjects.items())
    return re.sub(r"(\n\| \| events only \|\n\|---\|---\|\n)(?:\|[^\n]*\n)*", lambda match: match[1] + rows, page)


_GLOSSARY_HEAD = """\
# Glossary

<!-- Written by docs/_generate.py from analysis/page/glossary.yaml. Change the terms there, then run `make docs`. -->

The terms of the field as Ettrick uses them, one for each concept. The last column lists words that a term replaces;
`tests/test_words.py` rejects them in texts for readers. The first screen of a report explains the terms that it uses.

| term | meaning | page | instead of |
|---|---|---|---|
"""


def glossary() -> str:
    """Return the page of terms, each with a link to the page on it, which is called by its title."""
    rows = []
    for term in terms():
        path = PAGE.parents[1] / term.page.partition("#")[0]
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        link = path.name if path.parent == PAGE.parent else f"../{path.parent.name}/{path.name}"
        anchor = "".join(term.page.partition("#")[1:])
        others = ", ".join(term.replaces)
        rows.append(f"| **{term.name}** | {term.meaning} | [{title}]({link}{anchor}) | {others} |\n")
    return _GLOSSARY_HEAD + "".join(rows)


_FORMULAS_HEAD = """\
# Formulas

<!-- Written by docs/_generate.py from analysis/explain/formula.yaml. Change questions there, then run `make docs`. -->

`ettrick formula` answers a back-of-the-envelope question: equation, number with its unit, assumptions and source.
`ettrick formula NAME` without amounts lists the inputs of a question. Write amounts as in a scenario, with or without
quotes; an MTBF may also be a rate, such as `6.5 per 1000 node-days`. `--json` prints [a
document](json/formula-document.md). A simulation covers what the equations omit: [the
mathematics of goodput](../explanation/mathematics.md).
"""


def formulas_reference() -> str:
    """Return the page of formulas: each question with an answer to the amounts of its examples."""
    lines = [_FORMULAS_HEAD]
    for name, entry in formulas().items():
        rows = [row for row in entry.inputs if not row.default or row.takes == "parts"]
        words = [word for row in rows for word in (f"--{row.name}", *row.example.split())]
        answer = format_formula(answered(name, words))
        lines.append(f"## {name}\n\n```console\n$ ettrick formula {name} {' '.join(words)}\n{answer}\n```\n")
    return "\n".join(lines)


_FEATURES_HEAD = """\
# Features

<!-- Written by docs/_generate.py from registries, notes of presets, the changelog and the table of the validation. -->

Features, the version that introduced each, and the basis of its numbers.

* **since**: the oldest version whose changelog names it, or the one that comes next.
* **validated**, **calibrated**: rows of [the validation](validation.md) whose scenario or measure uses its name:
  *emergent* and *sanity* rows, and rows to which it was fitted. Features without such rows have only
  tests of theory and invariants. The accuracy of the fitted models is in [step time](../explanation/step-time.md) and
  [inference](../explanation/inference.md).
* **basis**: origin of its numbers, by their notes: read in a source, quoted by others, derived, assumed.

| kind | name | what it is | since | validated | calibrated | basis |
|---|---|---|---|---|---|---|
"""

_LISTED = sim.inventory()

_KEYS = [name for name in Scenario.model_fields if name not in ("name", "description", "seed", "engine", "assumptions")]

_DOCUMENTED: dict[str, Any] = {
    "law (law)": {law.model_fields["use"].default: law for law in (*get_args(PlainLaws), Mixture)},
    "observer (observers.use)": {kind.model_fields["use"].default: kind for kind in get_args(AnyWatcher)},
    "question of a study": QUESTIONS,
    "design of a study": DESIGNS,
    "distribution of a study": DISTRIBUTIONS,
}

"""What has a name and is not in the inventory that `ettrick list` prints; what it is stands in its docstring."""


def features_reference() -> str:
    """Return the page on what exists: one row a name."""
    described = {
        "key of a scenario (scenario)": {name: Scenario.model_fields[name].description or "" for name in _KEYS}
    }
    for kind, texts in _LISTED.items():
        described[kind] = {name: text.partition(" (")[0] for name, text in texts.items()}
    described["accelerators (cluster.accelerator)"] = {name: row.title for name, row in catalog.accelerators().items()}
    for kind, registry in _DOCUMENTED.items():
        described[kind] = {name: _first_paragraph(each.__doc__ or "") for name, each in registry.items()}
    stores = re.findall(r"([a-z-]+): ([^;]+)[;.]", Tier.model_fields["store"].description or "")
    described["store (tiers.store)"] = dict(stores)
    served = catalog.serving_recovery()
    described["recovery of a service (recovery)"] = {name: row["source"] for name, row in served["methods"].items()}
    described["failover of a service (failover)"] = {name: row["source"] for name, row in served["failovers"].items()}
    described["formula"] = {name: entry.question for name, entry in formulas().items()}
    rows_of, log = _validated(), (PAGE.parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    # Newest first, so that the last section that names something is the oldest.
    sections = re.findall(r"^## \[(.+?)\](.*?)(?=^## \[|\Z)", log, re.MULTILINE | re.DOTALL)
    lines = []
    for kind, names in described.items():
        key = re.sub(r".*\(|(\.use)?\)", "", kind)
        for name, text in names.items():
            labels = rows_of.get((key, name), [])
            since = [version for version, body in sections if f"`{name}`" in body and version != "Unreleased"]
            counts = [len(labels) - labels.count("calibrated"), labels.count("calibrated")]
            cells = [kind.partition(" (")[0], f"`{name}`", text.replace("|", "/").replace("\n", " ")]
            cells += [
                since[-1] if since else metadata.version("ettrick"),
                *(str(count) if count else "–" for count in counts),
            ]
            lines.append(f"| {' | '.join([*cells, _basis(key, name)])} |\n")
    return _FEATURES_HEAD + "".join(lines)


def _basis(key: str, name: str) -> str:
    """Return what the numbers of a feature rest on, counted."""
    if key == "recovery" and name in catalog.recoveries():
        words = {"P": "read", "S": "quoted", "D": "derived", "A": "assumed"}
        letters = [letter for note in catalog.recovery(name)["notes"] for letter in note.partition(": ")[0].split(", ")]
        return ", ".join(f"{word} {letters.count(letter)}" for letter, word in words.items() if letter in letters)
    if key == "failures" and name in catalog.bundles():
        causes = catalog.bundle(name).get("causes") or catalog.bundle(name).get("sources") or []
        counted = sum(cause.get("count") or cause.get("events") or 0 for cause in causes)
        return f"{counted:,} failures counted" if counted else "derived or assumed rates"
    if key == "cluster.accelerator":
        listed = _LISTED["accelerators (cluster.accelerator)"][name]
        return listed.removeprefix(f"{catalog.accelerators()[name].title}, ").partition(" (")[0]
    row = (catalog.serving_recovery()["methods"] | catalog.serving_recovery()["failovers"]).get(name)
    if key in ("recovery", "failover") and row:
        return {"P": "read", "A": "assumed"}[row["basis"]]
    folder = {"scenarios": "scenarios", "studies": "scenarios/studies", "topologies": "topologies"}.get(key, "")
    path = PAGE.parents[2] / folder / f"{name}.yaml"
    stated = yaml.safe_load(path.read_text(encoding="utf-8")).get("assumptions") if folder else None
    return f"assumed {len(stated)}" if stated else "–"


_NAMED = {
    "model": "jobs.model",
    "accelerator": "cluster.accelerator",
    "like": "cluster.accelerator",
    "engine": "services.engine",
    "topology": "topologies",
}

"""Keys whose values are names of the catalog, in scenarios and as arguments of measures, and what is named."""


class _EnoughError(Exception):
    """The first scenario of a measure is known."""


class _Noting(ScenarioRunner):
    """Notes what the first scenario of a measure uses, and simulates nothing."""

    def __init__(self) -> None:
        self.used: set[tuple[str, str]] = set()

    def __getattr__(self, name: str) -> Any:
        """Stop a measure that goes on without a scenario: it has no seed, and no replications."""
        raise _EnoughError(name)

    def scenario(self, data: Mapping[str, Any]) -> NoReturn:
        """Note what a scenario written as plain data uses."""
        marks = {(): yamlfile.Mark("scenario")}
        self._note(presets.lay(yamlfile.YamlDocument(yamlfile.data_with_use(dict(data)), values=marks)))

    def shipped(self, name: str, changes: Iterable[str] = ()) -> NoReturn:
        """Note what a scenario that comes with the program uses."""
        self.used.add(("scenarios", name))
        document = presets.lay(yamlfile.extend(sim.find(name), shorthand=("cluster",)))
        for text in changes:
            document = presets.lay(yamlfile.assign(document, text))
        self._note(document)

    def _note(self, document: yamlfile.YamlDocument) -> NoReturn:
        """Note what a scenario states, and every choice by its key: the nearest one above ``use`` or ``store``."""
        self.used |= {("scenario", name) for name in document.data}
        todo: list[tuple[str, Any]] = [("", completed(Scenario, document, DEFAULTS))]
        while todo:
            above, value = todo.pop()
            if isinstance(value, list):
                todo += [(above, each) for each in value]
            elif isinstance(value, dict):
                chosen = value.get("store", "remote") if above == "tiers" else value.get("use")
                self.used |= {("law" if chosen in LAW_NAMES else above, chosen)} if isinstance(chosen, str) else set()
                todo += list(value.items())
            elif above in _NAMED:
                self.used.add((above, value))
        raise _EnoughError


def _validated() -> dict[tuple[str, str], list[str]]:
    """Return the labels of the rows that use something, by the key of a scenario and its name.

    Rows of one measure that differ in numbers alone use the same.
    """
    found: dict[tuple[str, str], list[str]] = {}
    known: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    keys = {"tiers": "tiers.store", "lemons": "repair.lemons", **_NAMED}
    for row in load_table().rows:
        measure = MEASURES[row.measure]
        words = (row.measure, *(value for value in row.arguments.values() if isinstance(value, str)))
        if words not in known:
            lab = _Noting()
            if "lab." in inspect.getsource(measure):
                with contextlib.suppress(_EnoughError):
                    measure(lab, row.replications or 2, **row.arguments)
            named = ((key, value) for key, value in row.arguments.items() if key in _NAMED)
            known[words] = lab.used.union((key, value) for key, value in named if isinstance(value, str))
        for above, name in known[words]:
            key = keys.get(above, above)
            is_preset = key == "recovery" and name in catalog.recoveries()
            for each in (name, catalog.strategy_of(name)) if is_preset else (name,):
                found.setdefault((key, each), []).append(row.label)
    return found


_API_HEAD = """\
# Python API

<!-- Written by docs/_generate.py from the docstrings of analysis/api.py. Change them there, then run `make docs`. -->

The commands as functions with typed results: `import ettrick`. [What if, from
Python](../tutorial/what-if-from-python.md) shows them in use. Invalid arguments raise a `ValueError` whose text has one
line for each mistake, as the command prints it.

**Stability.** Ettrick follows [semantic versioning](https://semver.org/). The names on this page, their
parameters with their order and defaults, the columns of tables, and the keys of [documents](json.md) change
incompatibly only with a major version, and before 1.0 with a minor version. The changelog lists each change, and a name
that will be removed gives a warning for one minor version first. Parameters with a default, columns, keys and pictures
may be added at any time. All other modules are internal. This promise does not cover the numbers of a scenario: the
changelog lists numbers that changed under *Numbers*.
"""


def api_reference() -> str:
    """Return the page of the public API, from its docstrings."""
    lines = [_API_HEAD]
    for name in ("load", "prepare", "run", "simulate", "compare", "sweep", "fit", "report", "Results", "Plot"):
        value = getattr(api, name)
        if inspect.isclass(value):
            lines.append(f"## {name}\n\n{_docstring(value)}")
            methods = [(key, each) for key, each in vars(value).items() if key[0] != "_" and inspect.isfunction(each)]
            lines += [f"```python\n{name}.{key}{_signature(each)}\n```\n\n{_docstring(each)}" for key, each in methods]
        else:
            lines.append(f"## {name}\n\n```python\n{name}{_signature(value)}\n```\n\n{_docstring(value)}")
    return "\n".join(lines)


def _signature(function: Any) -> str:
    """Return a signature without the quotes of annotations that are not evaluated."""
    return (
        re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
        .replace("(self, ", "(")
        .replace("(self", "(")
    )


def _docstring(value: Any) -> str:
    """Return a NumPy docstring as Markdown: sections as bold words, entries as lists."""
    text = re.sub(r":doc:`/([\w-]+)/([\w-]+)`", r"[\2](../\1/\2.md)", inspect.getdoc(value) or "").replace("``", "`")
    said, *sections = re.split(r"\n\n(\w+)\n-+\n", f"\n{text}")
    found = [said.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        entries = re.split(r"\n(?=\S)", body.strip())
        if title == "References":
            found.append(f"**{title}** {body.strip()}")
            continue
        rows = []
        for entry in entries:
            head, _, rest = entry.partition("\n")
            name, colon, kind = head.partition(" : ")
            label = f"`{name}` ({kind})" if colon else f"`{name}`" if title == "Raises" else name
            rows.append(f"* {label}: {' '.join(rest.split())}")
        found.append(f"**{title}**\n\n" + "\n".join(rows))
    return "\n\n".join(found) + "\n"


def notebook(page: str) -> dict[str, Any]:
    """Return a page as a notebook: each block of Python is run, in a folder that goes away.

    Outputs are those that Jupyter would show: text, and HTML or SVG where a value draws itself.
    """
    space: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    page = re.sub(r" The same as a notebook:\n[^\n]*", "", page)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for part in re.split(r"(```\w+\n.*?^```\n)", page, flags=re.DOTALL | re.MULTILINE):
            kind, _, body = part.removesuffix("```\n").partition("\n")
            if kind == "```python":
                more = {"execution_count": None, "outputs": _outputs(body, space)}
                cells.append({"cell_type": "code", "metadata": {}, "source": body.rstrip(), **more})
            elif kind != "```text" and part.strip():
                cells.append({"cell_type": "markdown", "metadata": {}, "source": part.strip()})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


def with_outputs(page: str, made: dict[str, Any]) -> str:
    """Return a page with what its cells print in the block of text behind each."""
    texts = iter([
        "".join(output.get("text") or output["data"]["text/plain"] + "\n" for output in cell["outputs"])
        for cell in made["cells"]
        if cell["cell_type"] == "code"
    ])  # fmt: skip
    shown = r"(^```python\n.*?^```\n)(\n```text\n.*?^```\n)?"
    flags = re.DOTALL | re.MULTILINE
    return re.sub(shown, lambda match: f"{match[1]}\n```text\n{next(texts)}```\n", page, flags=flags)


def _outputs(source: str, space: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a cell prints, and its value."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), space)
        value = None if last is None else eval(compile(last, "<cell>", "eval"), space)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        data = {"text/plain": repr(value)}
        for kind, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
            if hasattr(value, method):
                data[kind] = getattr(value, method)()
        found.append({"output_type": "execute_result", "data": data, "execution_count": None, "metadata": {}})
    return found


if __name__ == "__main__":
    source = NOTEBOOK.with_suffix(".md").read_text(encoding="utf-8")
    made = notebook(source)
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    NOTEBOOK.with_suffix(".md").write_text(with_outputs(source, made), encoding="utf-8")
    API_PAGE.write_text(api_reference(), encoding="utf-8")
    FEATURES_PAGE.write_text(features_reference(), encoding="utf-8")
    FORMULAS_PAGE.write_text(formulas_reference(), encoding="utf-8")
    GLOSSARY_PAGE.write_text(glossary(), encoding="utf-8")
    METRICS_PAGE.write_text(metrics_reference(METRICS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SEMANTICS_PAGE.write_text(engines(SEMANTICS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    write_pages(scenario_reference())
    for page in ("_generate_study.py", "_generate_results.py"):
        runpy.run_path(str(Path(__file__).with_name(page)), run_name="__main__")
