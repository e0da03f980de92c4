"""The command that holds Ettrick against what others found: ettrick validate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.commands.keeping import Keeping
from analysis.commands.options import JsonOption, OverwriteOption, ProcessesOption, QuietOption
from analysis.commands.terminal import command_line, end, refuse, say

__all__ = ["validate"]


def validate(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A group of rows, or one row by its id. Repeatable.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Seed of all scenarios: a number, or random for a new one.")] = "1",
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the JSON to this folder, for ettrick report."),
    ] = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare with published values, with theory and with other programs; status 1 if a row fails."""
    from analysis.document import render
    from analysis.progress import Progress
    from analysis.provenance import provenance
    from analysis.validation import document, text
    from analysis.validation.lab import Lab
    from analysis.validation.play import play, seed_of
    from analysis.validation.table import load_table

    keep = Keeping(out, "validate.json", overwrite=overwrite)
    keep.refuse_others(lambda found: "not_checked" in found and _has_no_more(found, only or []))
    try:
        lab = Lab(seed_of(seed), jobs)
    except ValueError as error:
        refuse(f"--seed: {error}")
    try:
        with Progress("rows", quiet=quiet or as_json) as progress:
            found = play(load_table(), lab, only or (), progress)
    except ValueError as error:
        refuse(f"--only: {error}")
    content = document.describe(found) | {"provenance": provenance(command_line())}
    rendered = render(content)
    content = json.loads(rendered)
    complaint = keep.write(rendered, {})
    say(rendered if as_json else text.format_validation(content))
    if complaint is not None:
        refuse(complaint)
    end(document.against(content))


def _has_no_more(found: Any, only: list[str]) -> bool:
    """Return whether a validation has no rows but those that are asked for: all of them, or by names."""
    return not only or all(
        group["name"] in only or row["id"] in only for group in found["groups"] for row in group["rows"]
    )
