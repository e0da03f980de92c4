"""What all commands do with the terminal: print, refuse in a line, and end with a status."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from sim import ClusterSpec, Scenario

__all__ = [
    "DONE",
    "INTERRUPTED",
    "NO",
    "TERMINATED",
    "WRONG",
    "JobEnd",
    "cannot_print",
    "changes",
    "command_line",
    "end",
    "ending_tidily",
    "load_cluster",
    "load_scenario",
    "mistakes_in_lines",
    "refuse",
    "refuse_to_write",
    "say",
    "show_document",
    "warn",
    "write",
]

DONE, NO, WRONG = 0, 1, 2
"""Exit status: done; the answer is no; the input is wrong."""
_MOST_MISTAKES = 20
"""Lines about the mistakes of a file; whoever has more wants to know how many, not each."""
INTERRUPTED, TERMINATED = 130, 143
"""Exit status: stopped by Ctrl-C; told to end, as by the end of a job of a cluster."""


class JobEnd(KeyboardInterrupt):
    """Somebody wants this program to end (SIGTERM), and not at once: a job of a cluster whose time is over."""


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Raise `JobEnd` where the program is told to end, so that it ends as after Ctrl-C."""

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # who ends is not to be told again
        raise JobEnd

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def load_scenario(name: str, overrides: list[str] | None, seed: int | None, *, must_fit: bool = True) -> Scenario:
    """Return a scenario, or end with one line per mistake."""
    import sim

    with mistakes_in_lines(name, "scenario"):
        return sim.load(sim.find(name), changes(overrides, seed), must_fit=must_fit)


def load_cluster(name: str, overrides: list[str] | None) -> ClusterSpec:
    """Return a cluster, or end with one line per mistake."""
    import sim

    with mistakes_in_lines():
        return sim.load_cluster(sim.find_cluster(name), overrides or ())


def changes(overrides: list[str] | None, seed: int | None) -> list[str]:
    """Return what the options of a command replace in a scenario."""
    return [*(overrides or ()), *([f"seed={seed}"] if seed is not None else [])]


def warn(warnings: Sequence[str]) -> None:
    """Say on standard error what a valid scenario costs more than it need."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


@contextlib.contextmanager
def mistakes_in_lines(name: str = "", wanted: str = "") -> Iterator[None]:
    """End with one line per mistake of a file; with one line where a study is no scenario, or the other way round."""
    import sim

    try:
        yield
    except sim.ScenarioError as error:
        if name:
            from analysis.study.kind import kind_of

            kind = kind_of(name)
            if kind and kind != wanted:
                command = "ettrick sweep" if kind == "study" else "ettrick run"
                refuse(f"{name}: is a {kind}, not a {wanted}: use {command}")
        for line in error.lines[:_MOST_MISTAKES]:
            typer.echo(line, err=True)
        if len(error.lines) > _MOST_MISTAKES:
            typer.echo(f"... {len(error.lines):,} mistakes; the first {_MOST_MISTAKES} are shown", err=True)
        raise typer.Exit(NO if error.is_answer else WRONG) from None


def say(text: str) -> None:
    """Print to standard output, or end with one line about why that cannot be done.

    A reader that has left, such as ``head -1``, has seen enough: what was played is none the worse for it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know a bar shows a question mark.
        sys.stdout.reconfigure(errors="replace")
    try:
        typer.echo(text)
    except OSError as error:
        cannot_print(error)


def cannot_print(error: OSError) -> None:
    """End with one line about standard output, which has raised an error, unless its reader has left."""
    # What is left in the buffer would fail once more at the end of the program.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        refuse(f"standard output: cannot be written ({error.strerror})")


def refuse(message: str) -> NoReturn:
    """End with a message about wrong input."""
    typer.echo(message, err=True)
    raise typer.Exit(WRONG)


def end(reasons: list[str]) -> None:
    """End with what speaks against a yes, if anything does."""
    for reason in reasons:
        typer.echo(reason, err=True)
    if reasons:
        raise typer.Exit(NO)


def refuse_to_write(path: Path, option: str = "--out") -> None:
    """End with one line if a file could not be written, before anything is done for what is to be in it."""
    from analysis import files

    complaint = files.not_to_be_written(path)
    if complaint is not None:
        refuse(f"{option} {path}: {complaint}".lstrip())


def write(path: Path, content: bytes, option: str = "--out") -> None:
    """Write a file completely or not at all, or end with one line about why that cannot be done."""
    from analysis import files

    complaint = files.write_file(path, content)
    if complaint is not None:
        refuse(f"{option} {path}: {complaint}")


def show_document(
    content: dict[str, Any],
    format_: Callable[[dict[str, Any]], str],
    out: Path | None,
    files: list[str],
    *,
    as_json: bool,
) -> None:
    """Print a document as JSON or as text, and where it is kept."""
    from analysis.document import render

    rendered = render(content)
    say(rendered if as_json else format_(json.loads(rendered)))
    if files and not as_json:
        say(f"\n{out}: {', '.join(files)}")


def command_line() -> str:
    """Return the command as it can be typed again."""
    arguments: list[Any] = ["ettrick", *sys.argv[1:]]
    return shlex.join(arguments)
