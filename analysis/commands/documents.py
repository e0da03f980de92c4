"""Commands that show results: report, plot, explore."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ettrick.analysis.commands import options
from ettrick.analysis.commands.terminal import (
    OutputFolder,
    changes,
    command_line,
    end,
    ending_tidily,
    in_a_line,
    mistakes_in_lines,
    refuse,
    refuse_to_write,
    say,
    warn,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.page.model import Report

FolderArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Results folder written with --out by run, compare, sweep, sensitivity, optimize, validate or fit.",
    ),
]


def report(
    folder: FolderArgument,
    out: Annotated[
        Path | None, options.to_file("Write the report to this file.", "report.html, .md or .pptx in DIR")
    ] = None,
    format_: Annotated[
        Literal["html", "md", "pptx"] | None,
        typer.Option(
            "--format", help="Write a page (html), Markdown, or slides.", show_default="by the ending of --out, or html"
        ),
    ] = None,
    overwrite: options.ReplaceOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Write a report of results: HTML, Markdown or slides.

    The answer comes first, then every number and its source.
    """
    from ettrick.analysis.page.report_data import ReportError, damage_in_a_line
    from ettrick.analysis.terminal import visible

    kind, encode = _format(out, format_)
    target = folder / f"report.{kind}" if out is None else out
    if os.path.isdir(folder):  # noqa: PTH112  (else what is wrong with it is reported below)
        refuse_to_write(target, overwrite=overwrite or (out is None and _is_report(target)))
    page = _page(folder, quiet=quiet)
    with in_a_line(ReportError), damage_in_a_line(folder):
        content = encode(page)
    write(target, content)
    if not quiet:
        say(visible(f"{target}: {page.title}, {_size(page, kind)}"))


def _format(out: Path | None, format_: str | None) -> tuple[str, Callable[[Report], bytes]]:
    """Return what a report is written as, and what writes it; or end with one line about an ending that is none."""
    from ettrick.analysis.page.build import FORMATS
    from ettrick.sim import plugins

    ending = out.suffix.lower().removeprefix(".") if out is not None else ""
    kind = format_ or ending or "html"
    formats = dict(FORMATS) if kind in FORMATS else FORMATS | plugins.usable("formats", tuple(FORMATS.values()))[0]
    if kind not in formats or (out is not None and not ending and format_ is None):
        refuse(f"--out {out}: must end in .{', .'.join(list(formats)[:-1])} or .{list(formats)[-1]}, or give --format")
    if ending in formats and ending != kind:
        refuse(f"--format {kind}: --out {out} must then end in .{kind}, not in .{ending}")
    return kind, formats[kind]


def plot(
    folder: FolderArgument,
    picture: Annotated[
        str | None, typer.Argument(metavar="PICTURE", help="Picture to draw; omit it to list the pictures.")
    ] = None,
    out: Annotated[Path | None, options.to_file("Write the picture to this file: .svg, .png or .pdf.")] = None,
    overwrite: options.ReplaceOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Draw one picture of a report, or list all pictures."""
    from ettrick.analysis.page import charts
    from ettrick.analysis.page.report_data import ReportError, damage_in_a_line
    from ettrick.analysis.terminal import terminal_width, visible, wrapped
    from ettrick.sim.yamlfile import suggest

    if picture is None and out is not None:
        refuse(f"plot: the name of a picture is missing; ettrick plot {folder} lists them")
    if out is not None and out.suffix.lower() not in charts.SUFFIXES:
        refuse(f"--out {out}: must end in {', '.join(charts.SUFFIXES[:-1])} or {charts.SUFFIXES[-1]}")
    if out is not None and os.path.isdir(folder):  # noqa: PTH112
        refuse_to_write(out, overwrite=overwrite)
    pictures = _page(folder, quiet=quiet).pictures
    if picture is None:
        longest, width = max(map(len, pictures), default=0), terminal_width()
        lines = [wrapped(drawing.title, width, f"{key:{longest}}  ", longest + 2) for key, drawing in pictures.items()]
        say(visible("\n".join(itertools.chain.from_iterable(lines))))
        return
    if picture not in pictures:
        refuse(f"{folder}: unknown picture '{picture}'{suggest(picture, pictures, most=len(pictures))}")
    if out is None:
        refuse(f"plot: --out is missing, the file to write '{picture}' to")
    with in_a_line(ReportError, before=f"{folder}: "), damage_in_a_line(folder):
        content = charts.render(charts.draw(pictures[picture].chart), out.suffix.lower())
    write(out, content)


def _is_report(path: Path) -> bool:
    """Return whether a file is an earlier report of the folder, no link to a file elsewhere."""
    marks = {".html": b'name="generator" content="Ettrick"', ".md": b"\n- Made by: ettrick", ".pptx": b"PK"}
    return path.is_file() and not path.is_symlink() and marks.get(path.suffix, b"") in path.read_bytes()


def _size(page: Report, kind: str) -> str:
    """Return how much there is of a report that is written as this."""
    from ettrick.analysis.amounts import number_of

    if kind == "pptx":
        return "slides"
    sections, pictures = number_of(len(page.sections), "section"), number_of(len(page.pictures), "picture")
    return f"{sections}, {pictures} as tables" if kind == "md" else f"{sections}, {pictures}"


def _page(folder: Path, *, quiet: bool) -> Report:
    """Return the report of a folder, or end with one line about why there is none."""
    from ettrick.analysis.page.build import report_of
    from ettrick.analysis.page.report_data import ReportError, damage_in_a_line
    from ettrick.analysis.terminal import ProgressBar

    before = f"{folder}: "
    with (
        in_a_line(ReportError, before=before),
        damage_in_a_line(folder),
        ProgressBar("report", quiet=quiet) as progress,
    ):
        return report_of(folder, progress)


# The command that shows a scenario to be changed: ettrick explore.


def explore(
    scenario: options.ScenarioArgument,
    set_: options.SetOption = None,
    seed: options.SeedOption = None,
    port: Annotated[
        int,
        typer.Option(metavar="N", help="Port of the page.", min=0, max=65535, show_default="a free port"),
    ] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Explore a scenario in a browser, with sliders.

    The page is only served to this machine; Ctrl-C stops it.
    """
    import threading
    import webbrowser

    from ettrick import sim
    from ettrick.analysis.page.explore import ExploreError, Explorer, Server

    with mistakes_in_lines(scenario, "scenario"), in_a_line(ExploreError):
        explorer = Explorer(scenario, sim.template(scenario), changes(set_, seed))
    try:
        server = Server(explorer, port)
    except OSError as error:
        refuse(f"--port {port}: {error.strerror}; leave out --port to use a free port")
    if explorer.formula.ettr is None:
        warn([f"no closed form ({'; '.join(explorer.formula.reasons)}): only the simulation follows the sliders"])
    with server, contextlib.suppress(KeyboardInterrupt), ending_tidily():
        threading.Thread(target=explorer.compile, daemon=True).start()
        say(f"{server.address}\nCompiling the simulation in the background. Press Ctrl-C to stop.")
        if open_:
            webbrowser.open(server.address)
        server.serve_forever(poll_interval=0.1)


# The command that holds Ettrick against what others found: ettrick validate.


def validate(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Check only a group of rows, or one row by its id. Repeatable."),
    ] = None,
    seed: Annotated[
        str, typer.Option(metavar="N", help="Seed all scenarios: a number, or random for a new seed.")
    ] = "1",
    jobs: options.ProcessesOption = 0,
    as_json: options.JsonOption = False,
    out: Annotated[
        Path | None, options.to_folder("Write the JSON document to this folder, for ettrick report.")
    ] = None,
    overwrite: options.OverwriteOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Compare with published values, theory and other programs.

    The exit status is 1 if a row fails.
    """
    from ettrick.analysis.page.chapters import validation
    from ettrick.analysis.terminal import ProgressBar
    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.analysis.validation.run import against, describe, seed_of
    from ettrick.analysis.validation.run import validate as validate_table
    from ettrick.analysis.validation.table import load_table

    keep = OutputFolder(out, "validate.json", overwrite=overwrite)
    keep.refuse_others(lambda document: "not_checked" in document and _has_no_more(document, only or []))
    with in_a_line(ValueError, before="--seed: "):
        lab = ScenarioRunner(seed_of(seed), jobs)
    with in_a_line(ValueError, before="--only: "), ProgressBar("rows", quiet=quiet or as_json) as progress:
        validated = validate_table(load_table(), lab, only or (), progress)
    content = describe(validated, command=command_line())
    keep.write(content, validation.format_validation, {}, as_json=as_json)
    end(against(content))


def _has_no_more(document: Any, only: list[str]) -> bool:
    """Return whether a validation has no rows but those that are asked for: all of them, or by names."""
    return not only or all(
        group["name"] in only or row["id"] in only for group in document["groups"] for row in group["rows"]
    )
