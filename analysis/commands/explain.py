"""The command that shows what a scenario rests on: ettrick explain."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.commands.options import (
    JsonOption,
    ProcessesOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    YesOption,
)
from analysis.commands.terminal import command_line, end, load_scenario, refuse, say, warn

if TYPE_CHECKING:
    from sim import Prepared, Scenario

__all__ = ["explain"]


def explain(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    seed: SeedOption = None,
    worth: Annotated[
        bool, typer.Option("--worth", help="What each cause removed, and each knob better by a tenth, is worth.")
    ] = False,
    replications: Annotated[
        int | None,
        typer.Option(
            help="How many replications stand beside the closed form; 8 unless told, 0 for none. With --worth: of each "
            "change, 16 unless told, 8 at least.",
            min=0,
        ),
    ] = None,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what a scenario rests on: the step, the way back, the closed form, and where every number comes from."""
    import sim

    most = math.inf if yes else sim.MOST_EVENTS
    if worth:
        described = load_scenario(scenario, set_, seed)
        _explain_worth(described, replications, jobs, most, as_json=as_json, quiet=quiet or as_json)
        return
    described = load_scenario(scenario, set_, seed, must_fit=False)

    from analysis.document import render
    from analysis.ensemble import replicate
    from analysis.explain import describe
    from analysis.explain_text import format_explanation
    from analysis.progress import Progress

    prepared = sim.examine(described)
    warn(prepared.warnings)
    count = 8 if replications is None else replications
    too_large = _too_large(described, prepared)
    simulated = None
    if count and too_large is None:
        try:
            with Progress("replications", quiet=quiet or as_json) as progress:
                simulated = replicate(
                    sim.prepare(described), count, processes=jobs, progress=progress, most_events=most
                )
        except sim.WorkError as error:
            refuse(str(error))
    text = render(describe(prepared, simulated, command=command_line()))
    say(text if as_json else format_explanation(json.loads(text)))
    end([] if too_large is None else [too_large])


def _too_large(described: Scenario, prepared: Prepared) -> str | None:
    """Return why a job does not fit into the memory of its accelerators, if it does not."""
    import sim

    try:
        sim.check_memory(described, prepared.jobs)
    except sim.PathError as error:
        return error.rule
    return None


def _explain_worth(
    described: Scenario, replications: int | None, jobs: int, most_events: float, *, as_json: bool, quiet: bool
) -> None:
    """Print what each cause and each knob of a scenario is worth."""
    import sim
    from analysis.document import render
    from analysis.progress import Progress
    from analysis.worth import worth
    from analysis.worth_document import worth_document
    from analysis.worth_text import format_worth

    count = 16 if replications is None else replications
    if count < 8:
        refuse(f"--replications {count}: --worth needs at least 8, or luck could not be told from worth")
    try:
        with Progress("replications", quiet=quiet) as progress:
            found = worth(described, count, processes=jobs, progress=progress, most_events=most_events)
    except sim.WorkError as error:
        refuse(str(error))
    warn(found.base.prepared.warnings)
    text = render(worth_document(found, command=command_line()))
    say(text if as_json else format_worth(json.loads(text)))
