"""The command that compares scenarios: ettrick compare."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from analysis.commands.keeping import Keeping
from analysis.commands.options import (
    JsonOption,
    OverwriteOption,
    ProcessesOption,
    QuietOption,
    ScenariosArgument,
    SeedOption,
    SetOption,
    YesOption,
)
from analysis.commands.terminal import changes, command_line, end, mistakes_in_lines, refuse, say, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.compare import Variant
    from analysis.variants import Loaded, Recipe
    from sim import Scenario

__all__ = ["compare"]


def compare(
    scenarios: ScenariosArgument,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=A,B,...",
            help="Make a variant of each value, e.g. spares.hot=0,4,16. Repeatable: all combinations.",
        ),
    ] = None,
    set_: SetOption = None,
    seed: SeedOption = None,
    replications: Annotated[int, typer.Option(help="How many replications of each variant.", min=2)] = 32,
    precision: Annotated[
        str | None,
        typer.Option(help="Replicate until the half-width of each difference's 95 % interval is this: 0.1pt or 2%."),
    ] = None,
    at_equal: Annotated[
        Literal["gpus", "power", "cost"] | None,
        typer.Option(help="Compare unlike clusters by what they make of a GPU, of a megawatt, or of money."),
    ] = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Also run the variants without the checkpoint stores that recovery presets add."),
    ] = False,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the resolved scenarios and the JSON to this folder.")
    ] = None,
    overwrite: OverwriteOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run several variants on the same failures and say by how much they differ."""
    from analysis import compare_document, compare_text, reasons, variants
    from analysis.compare import compare as play
    from analysis.document import render
    from analysis.ensemble import Precision, RequestError
    from analysis.progress import Progress
    from sim import MOST_EVENTS, WorkError

    keep = Keeping(out, "compare.json", overwrite=overwrite)
    try:
        wanted = Precision.parse(precision) if precision is not None else None
        asked = None if precision else replications
        wishes = variants.recipes(scenarios, vary or [], changes(set_, seed))
        loaded, ready = _ready(wishes, keep, asked, split_stores=split)
        with Progress("replications", quiet=quiet or as_json) as progress:
            found = play(
                ready,
                replications,
                precision=wanted,
                at_equal=at_equal,
                processes=jobs,
                progress=progress,
                most_events=math.inf if yes else MOST_EVENTS,
            )
    except (RequestError, WorkError) as error:
        refuse(str(error))
    base = wishes[0].name
    document = compare_document.compare_document(
        found,
        loaded.cannot_run,
        command=command_line(),
        varied=[text.partition("=")[0].strip() for text in wishes[0].varied],
        without_stores=loaded.without_stores,
        instead_of=base if base in loaded.cannot_run else None,
    )
    text = render(document)
    content = json.loads(text)
    complaint = keep.write(text, _resolved(loaded.scenarios), stale="variant-*.resolved.yaml")
    say(text if as_json else compare_text.format_comparison(content))
    if complaint is not None:
        refuse(complaint)
    end(reasons.against_comparison(content, precision))


def _ready(
    wishes: Sequence[Recipe], keep: Keeping, asked: int | None, *, split_stores: bool
) -> tuple[Loaded, list[Variant]]:
    """Return the variants, and those of them that can be run; or end if none can, or the folder holds others."""
    from analysis import variants

    with mistakes_in_lines():
        loaded = variants.load_variants(wishes, split_stores=split_stores)
    _refuse_others(keep, loaded.scenarios, asked)
    ready = variants.prepared(loaded)
    if not ready:
        end([f"{name}: cannot run: {line}" for name, line in loaded.cannot_run.items()])
    warn([f"left out: {line}" for line in loaded.reasons])
    warn(variants.warnings(ready))
    return loaded, ready


def _refuse_others(keep: Keeping, scenarios: Mapping[str, Scenario], asked: int | None) -> None:
    """End with one line if the folder holds a comparison of other scenarios, or of more replications."""
    from analysis.provenance import scenario_digest

    mine = {name: scenario_digest(scenario) for name, scenario in scenarios.items()}
    keep.refuse_others(
        lambda found: {name: row["scenario_sha256"] for name, row in found["variants"].items()} == mine,
        lambda found: found["replications"],
        asked,
    )


def _resolved(scenarios: Mapping[str, Scenario]) -> dict[str, str]:
    """Return the files of the variants, in their order: names of variants may hold what names of files cannot."""
    from sim import dump

    return {
        f"variant-{number}.resolved.yaml": dump(scenario.dump())
        for number, scenario in enumerate(scenarios.values(), start=1)
    }
