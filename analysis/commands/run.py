"""The command that simulates a scenario: ettrick run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.commands.keeping import Keeping
from analysis.commands.options import (
    JsonOption,
    OverwriteOption,
    ProcessesOption,
    QuietOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    YesOption,
)
from analysis.commands.terminal import command_line, end, load_scenario, refuse, say, warn

if TYPE_CHECKING:
    from analysis.ensemble import Ensemble
    from sim import Scenario

__all__ = ["run"]


def run(
    scenario: ScenarioArgument,
    set_: SetOption = None,
    seed: SeedOption = None,
    replications: Annotated[int, typer.Option(help="How many replications.", min=1)] = 32,
    precision: Annotated[
        str | None, typer.Option(help="Replicate until the 95 % interval's half-width is this: 0.1pt or 2%.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric that --precision is about.")] = "ettr",
    band: Annotated[
        int, typer.Option(help="Draws of the failure rates from their uncertainty, for band90; 0 for none.", min=0)
    ] = 0,
    jobs: ProcessesOption = 0,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Write the resolved scenario and the JSON to this folder.")] = None,
    node_log: Annotated[
        bool, typer.Option("--node-log", help="With --out: also write when each node was down, to nodes.csv.")
    ] = False,
    overwrite: OverwriteOption = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario and say where every GPU-hour went."""
    if 0 < band < 20:
        refuse("--band: needs at least 20 draws, or the band's ends are its extremes")
    if node_log and out is None:
        refuse("--node-log: needs --out, the folder to write nodes.csv to")
    described = load_scenario(scenario, set_, seed)
    keep = _keeping(described, out, None if precision else replications, overwrite=overwrite)

    import sim
    from analysis import ensemble, reasons
    from analysis.console import format_run
    from analysis.document import document, render
    from analysis.progress import Progress

    is_quiet = quiet or as_json
    most = math.inf if yes else sim.MOST_EVENTS
    bands = None
    try:
        found = _replicated(
            described, replications, precision, metric, jobs, most, keeps_log=node_log, is_quiet=is_quiet
        )
        if band:
            with Progress("draws of rates", quiet=is_quiet) as progress:
                bands = ensemble.band(found, band, processes=jobs, progress=progress, most_events=most)
    except (ensemble.RequestError, sim.WorkError) as error:
        refuse(str(error))
    text = render(document(found, command=command_line(), bands=bands))
    content = json.loads(text)
    complaint = keep.write(text, _beside(described, found, has_log=node_log), stale="nodes.csv")
    say(text if as_json else format_run(content, found.prepared))
    if complaint is not None:
        refuse(complaint)
    end(reasons.against_run(content, precision, precise=found.precise))


def _keeping(described: Scenario, out: Path | None, replications: int | None, *, overwrite: bool) -> Keeping:
    """Return where results go, or end with one line if the folder holds those of another scenario, or of more."""
    from analysis.provenance import scenario_digest

    keep = Keeping(out, "run.json", overwrite=overwrite)
    keep.refuse_others(
        lambda found: found["provenance"]["scenario_sha256"] == scenario_digest(described),
        lambda found: found["replications"],
        replications,
    )
    return keep


def _replicated(
    described: Scenario,
    replications: int,
    precision: str | None,
    metric: str,
    jobs: int,
    most_events: float,
    *,
    keeps_log: bool,
    is_quiet: bool,
) -> Ensemble:
    """Return the replications of a scenario."""
    from analysis import ensemble
    from analysis.progress import Progress
    from sim import prepare

    prepared = prepare(described)
    warn(prepared.warnings)
    wanted = ensemble.Precision.parse(precision) if precision is not None else None
    with Progress("replications", quiet=is_quiet) as progress:
        return ensemble.replicate(
            prepared,
            replications,
            precision=wanted,
            metric=metric,
            processes=jobs,
            progress=progress,
            keeps_log=keeps_log,
            most_events=most_events,
        )


def _beside(described: Scenario, found: Ensemble, *, has_log: bool) -> dict[str, str]:
    """Return the files that lie beside the document."""
    from analysis.missing import log_csv
    from sim import dump

    files = {"scenario.resolved.yaml": dump(described.dump())}
    if has_log:
        files["nodes.csv"] = log_csv(found.results, [source.name for source in found.prepared.sources])
    return files
