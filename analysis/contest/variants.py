"""Variants of scenarios: which ones a comparison asks for, what each is called, and reading them.

`recipes` says which there are, `load_variants` reads them, `prepared` makes those that can run ready.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick import sim
from ettrick.analysis.contest.compare import Variant, compare_document
from ettrick.analysis.contest.precision import ReplicationsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.analysis.contest.compare import Comparison
    from ettrick.analysis.results.models import CompareDocument
    from ettrick.sim import Scenario

_PAIRS = {"[": "]", "{": "}", "(": ")"}

_MOST = 200
"""Variants of one comparison; more are a slip of the pen."""

_NAMED = 3
"""Variants that a line about several of them names."""

_ADD_THEM = "to add them: --set checkpoint.from_preset=true"
"""The end of lines about stores of presets that are not used."""


class Variation(NamedTuple):
    """A path of a scenario and the values that it takes, as text."""

    path: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Read ``path=a,b,c``."""
        path, equals, rest = text.partition("=")
        path = path.strip()
        if not (equals and path):
            message = f"--vary {text}: needs path=value,value, for example --vary recovery.use=full-restart,hot-spare"
            raise ReplicationsError(message)
        try:
            values = split(rest)
        except ValueError as error:
            raise ReplicationsError(f"--vary {text}: {error}") from None
        for value in values:
            if not value:
                raise ReplicationsError(f"--vary {text}: a value is empty; write [] or '' for an empty value")
            if values.count(value) > 1:
                raise ReplicationsError(f"--vary {text}: has {value} twice")
        return cls(path, values)


class Recipe(NamedTuple):
    """A variant before it is read.

    Parameters
    ----------
    common, varied
        Texts ``a.b=c`` that replace values: those of all variants, then those that make this one.
    """

    name: str
    scenario: str
    common: tuple[str, ...]
    varied: tuple[str, ...]


class Loaded(NamedTuple):
    """The variants that can run, by name, and one line each about those that cannot.

    Parameters
    ----------
    reasons
        Why they cannot, a line for each mistake with the names of the variants that have it.
    without_stores
        The variant that has not the checkpoint stores of its recovery preset, by the name of the one that has.
    """

    scenarios: dict[str, Scenario]
    cannot_run: dict[str, str]
    reasons: list[str]
    without_stores: dict[str, str]


def split(text: str) -> tuple[str, ...]:
    """Return the parts between commas that are in no bracket and in no quotes, without blanks around them."""
    parts = [""]
    ends: list[str] = []
    quote = ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and parts[-1].rstrip()[-1:] in ("", *"[{(:,"):
            quote = letter  # elsewhere it is an apostrophe
        elif letter in _PAIRS:
            ends.append(_PAIRS[letter])
        elif ends and letter == ends[-1]:
            ends.pop()
        elif letter == "," and not ends:
            parts.append("")
            continue
        parts[-1] += letter
    if quote or ends:
        raise ValueError(f"has no closing {quote or ends[-1]}")
    return tuple(part.strip() for part in parts)


def recipes(scenarios: Sequence[str], varied: Sequence[str], common: Sequence[str] = ()) -> tuple[Recipe, ...]:
    """Return every scenario with every combination of what is varied, the last one varied fastest.

    Parameters
    ----------
    varied
        Texts ``path=a,b,c``.
    common
        Texts ``path=value``, for all variants.

    Raises
    ------
    ReplicationsError
        If a text is wrong, a path is both set for all and varied, or there are fewer than two variants, or far too
        many.
    """
    variations = [Variation.parse(text) for text in varied]
    _check_named_once(scenarios, variations, common)
    choices = [[f"{variation.path}={value}" for value in variation.values] for variation in variations]
    combined = []
    for scenario, combination in itertools.product(scenarios, itertools.islice(itertools.product(*choices), _MOST + 1)):
        name = ", ".join([scenario] * (len(scenarios) > 1) + list(combination))
        combined.append(Recipe(name, scenario, tuple(common), combination))
    if len(combined) < 2:
        raise ReplicationsError("nothing to compare; add --vary KEY=A,B with two values or more, or another scenario")
    if len(combined) > _MOST:
        raise ReplicationsError(f"--vary: makes more than {_MOST} variants; vary fewer values at once")
    return tuple(combined)


def _check_named_once(scenarios: Sequence[str], variations: Sequence[Variation], common: Sequence[str]) -> None:
    """Refuse a path or a scenario that is there twice, and a path that is both set for all and varied."""
    paths = [variation.path for variation in variations]
    for path in paths:
        if paths.count(path) > 1:
            raise ReplicationsError(f"--vary {path}: is given twice; give all its values at once")
    for scenario in scenarios:
        if scenarios.count(scenario) > 1:
            raise ReplicationsError(f"{scenario}: is given twice")
    for text in common:
        for path in paths:
            if _path_of(text) in (path, f"{path}.use"):
                raise ReplicationsError(f"--set {text}: is varied too, by --vary {path}; set it in one place")


def _path_of(text: str) -> str:
    """Return the path that a text ``path=value`` is about."""
    return text.partition("=")[0].strip()


def load_variants(wanted: Sequence[Recipe], *, split_stores: bool = False) -> Loaded:
    """Return the scenarios of variants.

    Common values are set first, but for those inside of what varies. Choices come before both, see `ettrick.sim.load`.

    Parameters
    ----------
    split_stores
        Whether each variant whose recovery preset adds checkpoint stores is followed by one without these.

    Raises
    ------
    ReplicationsError
        If the stores are to be split off, and no variant has any.
    ScenarioError
        If mistakes leave fewer than two variants: with one line for each, with the names of the variants that have it.
    """
    scenarios: dict[str, Scenario] = {}
    errors: dict[Recipe, sim.ScenarioError] = {}
    without: dict[str, str] = {}
    for recipe in wanted:
        try:
            scenarios[recipe.name] = sim.load(sim.find(recipe.scenario), _overrides(recipe))
        except sim.ScenarioError as error:
            errors[recipe] = error
            continue
        bare = _without_stores(recipe, scenarios[recipe.name]) if split_stores else None
        if bare is not None:
            without[recipe.name] = f"{recipe.name} without its stores"
            scenarios[without[recipe.name]] = bare
    mistakes = {recipe: [_as_typed(line, recipe.varied) for line in error.lines] for recipe, error in errors.items()}
    reasons = _reasons(mistakes, wanted)
    is_wrong = not all(error.is_answer for error in errors.values())
    if is_wrong and len(scenarios) - len(without) < 2:
        raise sim.ScenarioError(reasons)
    if split_stores and scenarios and not without:
        raise ReplicationsError(f"--split: no variant has stores that its recovery preset adds; {_ADD_THEM}")
    return Loaded(scenarios, {recipe.name: "; ".join(lines) for recipe, lines in mistakes.items()}, reasons, without)


def _without_stores(recipe: Recipe, scenario: Scenario) -> Scenario | None:
    """Return a variant without the checkpoint stores that its recovery preset adds; ``None`` if it adds none."""
    if not scenario.checkpoint.from_preset:
        return None
    bare = sim.load(sim.find(recipe.scenario), [*_overrides(recipe), "checkpoint.from_preset=false"])
    return bare if bare.checkpoint.tiers != scenario.checkpoint.tiers else None


def prepared(loaded: Loaded) -> list[Variant]:
    """Return the variants that can run, ready to run; those whose stores were split off do not warn of it."""
    variants = [Variant(name, sim.prepare(scenario)) for name, scenario in loaded.scenarios.items()]
    bare = loaded.without_stores.values()
    return [_without_advice(variant) if variant.name in bare else variant for variant in variants]


def document_of(comparison: Comparison, wanted: Sequence[Recipe], loaded: Loaded, *, command: str) -> CompareDocument:
    """Return the document of a comparison of variants."""
    first = wanted[0]
    return compare_document(
        comparison,
        loaded.cannot_run,
        command=command,
        varied=list(map(_path_of, first.varied)),
        without_stores=loaded.without_stores,
        instead_of=first.name if first.name in loaded.cannot_run else None,
    )


def resolved_files(scenarios: Mapping[str, Scenario]) -> dict[str, str]:
    """Return the files of the variants, in their order: names of variants may hold what names of files cannot."""
    return {
        f"variant-{number}.resolved.yaml": sim.dump(scenario.dump())
        for number, scenario in enumerate(scenarios.values(), start=1)
    }


def _without_advice(variant: Variant) -> Variant:
    lines = tuple(line for line in variant.prepared.warnings if not line.endswith(_ADD_THEM))
    return Variant(variant.name, replace(variant.prepared, warnings=lines))


def warnings(variants: Sequence[Variant]) -> list[str]:
    """Return what to warn of, with the name of the variant unless all have it."""
    names_by_line: dict[str, list[str]] = {}
    for variant in variants:
        for line in variant.prepared.warnings:
            names_by_line.setdefault(line, []).append(variant.name)
    return [line if len(names) == len(variants) else _naming(line, names) for line, names in names_by_line.items()]


def _overrides(recipe: Recipe) -> list[str]:
    """Return what replaces values in a variant: what is set inside of a path that varies comes after it."""
    varied = tuple(f"{_path_of(text)}." for text in recipe.varied)
    inside = [text for text in recipe.common if text.strip().startswith(varied)]
    return [*(text for text in recipe.common if text not in inside), *recipe.varied, *inside]


def _reasons(mistakes: Mapping[Recipe, Sequence[str]], wanted: Sequence[Recipe]) -> list[str]:
    """Return each mistake once, with the names of the variants that have it."""
    having: dict[str, list[Recipe]] = {}
    for recipe, lines in mistakes.items():
        for line in lines:
            having.setdefault(line, []).append(recipe)
    return [_reason(line, recipes, wanted) for line, recipes in having.items()]


def _reason(line: str, having: Sequence[Recipe], wanted: Sequence[Recipe]) -> str:
    """Return a mistake with the names of the variants that have it, unless it begins with what they have in common."""
    for text in having[0].varied:
        if line.startswith(f"--vary {text}: ") and all(recipe in having for recipe in wanted if text in recipe.varied):
            return line
    return _naming(line, [recipe.name for recipe in having])


def _naming(line: str, names: Sequence[str]) -> str:
    """Return a line with the variants that it is about."""
    if len(names) == 1:
        return f"variant {names[0]}: {line}"
    more = len(names) - _NAMED
    listed = [f"'{name}'" for name in names[:_NAMED]] + ([f"{more} more"] if more > 0 else [])
    return f"variants {', '.join(listed[:-1])} and {listed[-1]}: {line}"


def _as_typed(line: str, varied: Sequence[str]) -> str:
    """Return a complaint about a value that was varied with the name of the option that varied it."""
    for text in varied:
        if line.startswith(f"--set {text}:"):
            return f"--vary {line.removeprefix('--set ')}"
    return line
