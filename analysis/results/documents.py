"""Documents by command, how one is read back, and that of the validation; see `ettrick.analysis.results.models`."""

# Annotations are not postponed: pydantic would compile each at the start, a fifth of what these models cost.
import json
from typing import Any

from pydantic import Field, ValidationError

from ettrick.analysis.parts import Count, Document, Labels, Number, Part, Whole
from ettrick.analysis.results.models import CompareDocument, Provenance, RunDocument
from ettrick.analysis.results.studies import OptimizeDocument, SensitivityDocument, SweepDocument
from ettrick.sim.yamlfile import dotted

# ----------------------------------------
# A validation.


class ValidationRow(Part):
    """A row: what the table states ([add a row](../howto/check-ettrick.md#add-a-row)), and what came of it."""

    id: str = Field(description="Name, unique in the table.")
    quantity: str = Field(description="The quantity compared.")
    paper: str = Field(description="Paper that published it.")
    where: str = Field("", description="Where in the paper.")
    provenance: str = Field("", description="`primary`, `secondary`, `derived`, `theory` or `program`.")
    inputs: str = Field("", description="Inputs of the published value.")
    value: Number = Field(None, description="The published value.")
    unit: str = Field("", description="Unit of the values.")
    tolerance: dict[str, Any] = Field({}, description="How near ours must be.")
    label: str = Field(description="`calibrated`, `emergent`, `sanity` or `identity`.")
    conventions: Labels = Field({}, description="Conventions of counting.")
    measure: str = Field("", description="Measure that computes our value.")
    arguments: dict[str, Any] = Field({}, description="With which arguments.")
    replications: Count = Field(0, description="Number of replications.")
    independent: bool = Field(False, description="Whether it is one of those that are taken together.")
    needs_data: bool = Field(False, description="Whether it needs data that are not shipped.")
    only_reads: bool = Field(False, description="Whether nothing is simulated.")
    published: Number = Field(description="`value`, or what theory expects; null for an interval.")
    ours: Number = Field(description="Our value.")
    error: Number = Field(description="Its standard error.")
    simulated: Count = Field(description="Independent values behind it; 0 for a formula.")
    noise: Number = Field(None, description="Half-width that the error rate of the table leaves to the row.")
    delta: Number = Field(None, description="Ours less what is published; of an interval, what it is outside by.")
    limit: Number = Field(
        description="How far ours may be from what is published; of an inequality, how far it must be beyond it; of a "
        "model that must miss, how far off it must be."
    )
    p_value: Number = Field(
        None, description="Probability to be as far off by chance, an upper bound; null for all kinds but `sampling`."
    )
    verdict: str = Field(description="`pass`, `fail` or `skipped`.")
    reason: str = Field(description="Why, where the numbers do not say it.")


class ValidationGroup(Part):
    """A group of rows."""

    name: str = Field(description="For `--only`.")
    title: str = Field(description="In words.")
    rows: list[ValidationRow] = Field(description="In the order of the table.")


class NotChecked(Part):
    """A published value that is not compared."""

    paper: str = Field(description="Paper that published it.")
    what: str = Field(description="The value.")
    why: str = Field(description="Why it is not compared.")


class CombinedTest(Part):
    """Independent rows together."""

    rows: Count = Field(description="Number of independent rows.")
    p_value: Number = Field(description="By Fisher's method, an upper bound.")
    least: Number = Field(description="The least that passes.")
    holds: bool = Field(description="Whether it does.")


class ValidateDocument(Document):
    """`ettrick validate --json` prints this document; `--out DIR` writes it to `validate.json`."""

    seed: Whole = Field(description="Seed of all scenarios.")
    family_wise_error: Number = Field(description="Probability of a false alarm in the whole table.")
    stochastic_rows: Count = Field(description="Rows of the whole table with random numbers in them.")
    counts: dict[str, Count] = Field(description="Rows that `pass`, `fail` and are `skipped`, without `identities`.")
    identities: Count = Field(0, description="Rows that hold because the simulator cannot fail them.")
    together: CombinedTest | None = Field(description="Independent rows together; null if none was simulated.")
    groups: list[ValidationGroup] = Field(description="Groups of rows.")
    not_checked: list[NotChecked] = Field(description="Published values that are not compared.")
    provenance: Provenance | None = Field(None, description="How the numbers were made; not of the recorded table.")


# ----------------------------------------
# Reading them.

# By command, of those that leave their document in a folder.
DOCUMENTS: dict[str, type[Document]] = {
    "run": RunDocument,
    "compare": CompareDocument,
    "sweep": SweepDocument,
    "sensitivity": SensitivityDocument,
    "optimize": OptimizeDocument,
    "validate": ValidateDocument,
}


_RULES = {
    "missing": "is missing",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


class DocumentMistakeError(ValueError):
    """A document is not what its command writes; the message is one line with the place in it."""


_FORMER_NAMES = {
    ("tried",): "trials",
    ("closed_form", "of_tried"): "of_trials",
    ("indices", "variance", "luck"): "noise",
    ("answers", "*", "ask"): "use",
    ("answers", "*", "data", "shares", "luck"): "noise",
    ("answers", "*", "data", "lines", "*", "points", "*", "holds_for_sure"): "holds_with_certainty",
    ("answers", "*", "data", "front", "*", "for_sure"): "certain",
    ("groups", "*", "rows", "*", "played"): "simulated",
    ("groups", "*", "rows", "*", "luck"): "noise",
}


def with_todays_names(content: dict[str, Any]) -> bool:
    """Give the keys of a document the names of today, in place; return whether any had another one."""
    return sum(_rename(content, path, name) for path, name in _FORMER_NAMES.items()) > 0


def _rename(content: Any, path: tuple[str, ...], name: str) -> int:
    key, *rest = path
    if key == "*":
        return sum(_rename(item, tuple(rest), name) for item in content) if isinstance(content, list) else 0
    if not isinstance(content, dict) or key not in content:
        return 0
    if rest:
        return _rename(content[key], tuple(rest), name)
    content[name] = content.pop(key)
    return 1


def read_document(kind: str, content: Any, model: type[Document] | None = None) -> Document:
    """Return the document that a command has left; `model` is that of a kind with a file of its own.

    Raises
    ------
    DocumentMistakeError
        If it is not what the command writes.
    """
    try:
        return (model or DOCUMENTS[kind]).model_validate(content)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        first = mistakes[0]
        place = dotted(tuple(step for step in first["loc"] if not _is_branch(step)))
        rule = first["msg"].removeprefix("Value error, ")
        if first["type"] in _RULES:
            rule = _RULES[first["type"]]
            rule = rule if first["type"] == "missing" else f"{rule}, not {_shown(first['input'])}"
        more = f" ({len(mistakes)} mistakes in all)" if len(mistakes) > 1 else ""
        raise DocumentMistakeError(f"{place + ': ' if place else ''}{rule[:1].lower()}{rule[1:]}{more}") from None


def _is_branch(step: Any) -> bool:
    """Return whether a step is that of the validator into a union, and not into the document."""
    return isinstance(step, str) and (step in ("NodesDown", "EmptyRun") or "[" in step)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."
