"""Commands and the terminal: printing, refusing in a line, exit statuses."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from ettrick.analysis.contest.precision import Precision
    from ettrick.analysis.parts import Document
    from ettrick.sim import ClusterSpec, Scenario

DONE, NO, WRONG = 0, 1, 2
"""Exit status: done; the answer is no; the input is wrong."""

_MOST_MISTAKES = 20
"""Lines about the mistakes of a file; whoever has more wants to know how many, not each."""

INTERRUPTED, TERMINATED = 130, 143
"""Exit status: stopped by Ctrl-C; asked to end, as by the end of a job of a cluster."""


class JobEnd(KeyboardInterrupt):
    """Somebody wants this program to end (SIGTERM), and not at once: a job of a cluster whose time is over."""


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Raise `JobEnd` where the program is asked to end, so that it ends as after Ctrl-C."""

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough
        raise JobEnd

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def load_scenario(
    name: str,
    overrides: list[str] | None,
    seed: int | None,
    *,
    engine: str | None = None,
    must_fit: bool = True,
    skip_bad_rows: bool = False,
) -> Scenario:
    """Return a scenario, or end with one line per mistake."""
    from ettrick import sim

    with mistakes_in_lines(name, "scenario"):
        template, texts = sim.template(name), changes(overrides, seed, engine)
        if skip_bad_rows:
            streams = template.content.get("streams", [])
            traces = [index for index, stream in enumerate(streams) if stream.get("use") == "trace"]
            texts += [f"streams.{index}.skip_bad_rows=true" for index in traces]
            if not traces:
                refuse("--skip-bad-rows: only applies to streams that replay a trace, and the scenario has none")
        return template.scenario(texts, must_fit=must_fit)


def load_cluster(name: str, overrides: list[str] | None) -> ClusterSpec:
    """Return a cluster, or end with one line per mistake."""
    from ettrick import sim

    with mistakes_in_lines():
        return sim.load_cluster(sim.find_cluster(name), overrides or ())


def changes(overrides: list[str] | None, seed: int | None, engine: str | None = None) -> list[str]:
    """Return what the options of a command replace in a scenario."""
    stated = {"seed": seed, "engine": engine}
    return [*(overrides or ()), *(f"{name}={value}" for name, value in stated.items() if value is not None)]


def most_events(*, yes: bool) -> float:
    """Return how many events a command may simulate: with ``--yes`` any number."""
    from ettrick.sim import MOST_EVENTS

    return math.inf if yes else MOST_EVENTS


def precision_of(text: str | None) -> Precision | None:
    """Return the precision that an option states, if it does, or end with one line."""
    from ettrick.analysis.contest.precision import Precision, ReplicationsError

    with in_a_line(ReplicationsError, before="--precision: "):
        return None if text is None else Precision.parse(text)


def complain(line: str) -> None:
    """Print a line to standard error."""
    from ettrick.analysis.terminal import visible

    typer.echo(visible(line), err=True)


_FIXES = (
    (r"no such file or bundled scenario", "ettrick list scenarios"),
    (r"no such file or bundled study", "ettrick list studies"),
    (r"no such file or bundled topology", "ettrick topology list"),
    (r"unknown (accelerator|model) '", r"ettrick list \1s"),
    (r"unknown failure bundle '", "ettrick list failure-bundles"),
    (r"unknown recovery preset '", "ettrick list recovery-presets"),
    (r": unknown key '", "ettrick schema"),
    (r"(\S+): unknown picture '", r"ettrick plot \1"),
    (r"is not a study folder", "ettrick sweep STUDY --out DIR"),
    (r"contains no model", "ettrick fit LOG... --out DIR"),
    (r"or add --overwrite$", "{command} --overwrite"),
    (r"allow them with --yes", "{command} --yes"),
)
"""The text of a mistake, and the command that mends it or lists the valid values."""

_SAID_TWICE = (
    (r"^--set optimize\.budget\.(\w+)=(.*?): optimize\.budget\.\1: ", r"--budget \1=\2: "),
    (r"^--set optimize\.(precision|maximize|minimize)=(.*?): optimize\.\1: ", r"--\1 \2: "),
    (r"^(--set ([^ =]+)=.*?: )\2: ", r"\1"),
    (r"^(--set .*?: )[^ :]+: (?=unknown key ')", r"\1"),
)
"""The path of a mistake of an option, where the option or the rule says it; and options that set a value."""


def complain_with_help(lines: Sequence[str]) -> None:
    """Print lines about mistakes, and below them the commands that help."""
    fixes: dict[str, None] = {}
    for line in lines:
        fixes |= dict.fromkeys([match.expand(fix) for rule, fix in _FIXES if (match := re.search(rule, line))][:1])
        for twice, once in _SAID_TWICE:
            line = re.sub(twice, once, line)
        complain(line)
    for fix in fixes:
        complain(f"help: {fix.format(command=command_line())}")


def warn(warnings: Sequence[str]) -> None:
    """Say on standard error what a valid scenario costs more than it need."""
    for warning in warnings:
        complain(f"warning: {warning}")


@contextlib.contextmanager
def mistakes_in_lines(name: str = "", wanted: str = "") -> Iterator[None]:
    """End with one line per mistake of a file; with one line where a study is no scenario, or the other way round."""
    from ettrick import sim

    try:
        yield
    except sim.ScenarioError as error:
        if name:
            kind = sim.kind_of(name)
            if kind and kind != wanted:
                command = "ettrick sweep" if kind == "study" else "ettrick run"
                refuse(f"{name}: is a {kind}, not a {wanted}: use {command}")
        more = [f"... {len(error.lines):,} mistakes; the first {_MOST_MISTAKES} are shown"]
        complain_with_help([*error.lines[:_MOST_MISTAKES], *(more if len(error.lines) > _MOST_MISTAKES else [])])
        raise typer.Exit(NO if error.is_answer else WRONG) from None


@contextlib.contextmanager
def in_a_line(*kinds: type[Exception], before: str = "") -> Iterator[None]:
    """End with one line about an error of one of these kinds."""
    try:
        yield
    except kinds as error:
        refuse(f"{before}{error}")


def say(text: str) -> None:
    """Print to standard output, or end with one line about why that cannot be done.

    A reader that has left, such as ``head -1``, has seen enough: what was simulated is none the worse for it.
    """
    from ettrick.analysis.terminal import styled

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know a bar shows a question mark.
        sys.stdout.reconfigure(errors="replace")
    try:
        typer.echo(styled(text))
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
    complain_with_help([message])
    raise typer.Exit(WRONG)


def end(reasons: list[str]) -> None:
    """End with what speaks against a yes, if anything does."""
    for reason in reasons:
        complain(reason)
    if reasons:
        raise typer.Exit(NO)


def refuse_to_write(path: Path, option: str = "--out", *, overwrite: bool) -> None:
    """End with one line if a file could not be written, before anything is done for what is to be in it."""
    from ettrick.analysis.results import files

    complaint = files.not_to_be_written(path, overwrite=overwrite)
    if complaint is not None:
        refuse(f"{option} {path}: {complaint}".lstrip())


def write(path: Path, content: bytes, option: str = "--out") -> None:
    """Write a file completely or not at all, or end with one line about why that cannot be done."""
    from ettrick.analysis.results import files

    complaint = files.write_file(path, content)
    if complaint is not None:
        refuse(f"{option} {path}: {complaint}")


def show_document(
    content: Document, format_: Callable[[Any], str], out: Path | None, files: list[str], *, as_json: bool
) -> None:
    """Print a document as JSON or as text, and where it is kept."""
    from ettrick.analysis.results.run import render

    say(render(content) if as_json else format_(content))
    if files and not as_json:
        say(f"\n{out}: {', '.join(files)}")


def command_line() -> str:
    """Return the command as it can be typed again."""
    arguments: list[Any] = ["ettrick", *sys.argv[1:]]
    return shlex.join(arguments)


# Commands whose mistakes are reported as all others: the option, the rule and the nearest choice, in one line.

_CHOICES = re.compile(r"^'(?P<given>.*)' is not one of (?P<choices>'.*')\.$")

_WORDS = (
    (r"^Value error, ", ""),
    (r"^Input should be a valid integer.*", "must be a whole number"),
    (r"^Input should be a valid number.*", "must be a number"),
    (r"^Input should be greater than or equal to (.+)$", r"must be at least \1"),
    (r"^Input should be less than or equal to (.+)$", r"must be at most \1"),
)
"""The messages of the option parser, and our words for them."""


COMMAND_GROUPS = {
    "Run and compare": ("run", "compare", "explore", "trace", "report", "plot"),
    "Study many settings": ("sweep", "merge", "sensitivity", "optimize", "design"),
    "Learn from logs": ("fit", "track"),
    "Describe a cluster and its jobs": ("init", "topology", "explain", "layouts", "kernels"),
    "Check and look up": ("check", "validate", "formula", "schema", "list"),
}
"""The commands in the order of the help, by what a reader wants to do."""

_OPTION_GROUPS = {
    "Options": (),
    "Input": ("set_", "budget", "maximize", "minimize", "vary", "split", "seed", "skip_bad_rows", "measured"),
    "Simulation": (
        "replications", "precision", "metric", "band", "method", "samples", "trials", "seconds", "engine", "jobs",
        "executor", "scheduler_address", "scheduler_file", "shard", "yes",
    ),
    "Output": (
        "at_equal", "worth", "explain", "save", "full", "out", "as_json", "node_log", "tables", "csv", "overwrite",
        "quiet", "help",
    ),
}  # fmt: skip
"""The options of a command that has many, in the groups of its help; the others stand first."""

_MANY_OPTIONS = 10

_HELP_WORDS = (
    (r"\[default: \((.*)\)", r"[default: \1"),
    (r"(; |\[)x>=[01](\.0)?\]$", r"\1]"),
    (r"x>=(\d+)\]$", r"at least \1]"),
    (r"([\d.]+)<=x<=([\d.]+)\]$", r"\1 to \2]"),
    (r"; \]$", "]"),
    (r" *\[\]$", ""),
)
"""The texts of the option parser for defaults and ranges, and our words for them."""


class Command(TyperCommand):
    """A command whose help names each argument once, and shows many options in groups."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, without braces: what has no brackets is required."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, in columns of one width."""
        parameters: list[Any] = self.get_params(ctx)
        group_of = {name: group for group, names in _OPTION_GROUPS.items() for name in names}
        if len(parameters) <= _MANY_OPTIONS:
            group_of = {}
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *_OPTION_GROUPS)}
        for parameter in parameters:
            name, text = parameter.get_help_record(ctx)
            if parameter.param_type_name == "argument":
                sections["Arguments"].append(
                    (parameter.display_name_raw, _help_words(text.removesuffix("  [required]")))
                )
            else:
                sections[group_of.get(parameter.name, "Options")].append((name, _help_words(text)))
        width = min(30, max(len(name) for rows in sections.values() for name, _ in rows))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(f"{name:{width}}", text) for name, text in rows])


def _help_words(text: str) -> str:
    """Return the help of a parameter with its default and range in plain words."""
    for pattern, words in _HELP_WORDS:
        text = re.sub(pattern, words, text)
    return text


class Commands(TyperGroup):
    """A group of commands: wrong values of options, errors of plugins, and help that cannot be printed are one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (the context of the option parser)
        """Write the commands in groups."""
        width = max(map(len, self.commands))
        for title, names in COMMAND_GROUPS.items():
            with formatter.section(title):
                lines = [(f"{name:{width}}", self.commands[name].get_short_help_str(74 - width)) for name in names]
                formatter.write_dl(lines)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the command line does, or end with one line about a standard output that takes nothing."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            with contextlib.suppress(typer.Exit):
                if traceback.extract_tb(error.__traceback__)[-1].name == "echo":
                    cannot_print(error)
                else:
                    refuse(_of_the_system(error))
            sys.exit(WRONG)

    def invoke(self, ctx: Any) -> Any:
        """Return what the command does, or end with one line about the value of an option."""
        try:
            with _reserved:
                return super().invoke(ctx)
        except typer.BadParameter as error:
            options = [] if error.param is None else error.param.opts
            if type(error) is not typer.BadParameter or not options:  # what is missing has words of its own
                raise
            refuse(f"{max(options, key=len)}: {_in_words(error.message)}")
        except Exception as error:
            plugins = sys.modules.get("ettrick.sim.plugins")  # without it no plugin has been loaded
            blamed = plugins and (error if isinstance(error, plugins.PluginError) else plugins.blame(error))
            if blamed is None:
                raise
            refuse(str(blamed))


def _of_the_system(error: OSError) -> str:
    """Return what the system would not do, in a line; a file that nobody has named is a temporary one."""
    import tempfile

    folder = tempfile.gettempdir()
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None and not str(error.filename).startswith(folder):
        return f"{error.filename}: {reason}"
    return f"{error.filename or folder}: {reason}; temporary files go to {folder}, and to another folder with TMPDIR"


def _in_words(message: str) -> str:
    """Return what is wrong with the value of an option."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message, flags=re.DOTALL)
    choice = _CHOICES.match(message)
    if choice is None:
        return message
    from ettrick.sim.yamlfile import suggest

    choices = re.findall("'([^']*)'", choice["choices"])
    return f"'{choice['given']}' is not a choice{suggest(choice['given'], choices)}"


# Where a command keeps its results, with ``--out``.


_reserved = contextlib.ExitStack()
"""Folders that the command keeps other programs out of until it ends."""


def refuse_temporary_folder() -> None:
    """End with one line if there is no room for temporary files, before any work whose end needs them."""
    import tempfile
    from pathlib import Path

    from ettrick.analysis.results import files

    folder = tempfile.gettempdir()
    complaint = files.not_to_be_used(Path(folder))
    if complaint is not None:
        refuse(f"{folder}: {complaint}; temporary files go there, and to another folder with TMPDIR")


@dataclass(frozen=True)
class OutputFolder:
    """The folder of the results of a command, which one program at a time writes to."""

    folder: Path | None
    name: str
    overwrite: bool
    option: str = "--out"

    def refuse_others(
        self, same: Callable[[Any], object], amount: Callable[[Any], Any] = lambda _: 0, replications: int | None = None
    ) -> None:
        """End with one line if the folder cannot be used, or holds other results, or more than are asked for now.

        Parameters
        ----------
        asked
            How much there will be; ``None`` if that is not known yet.
        """
        from ettrick.analysis.results import files

        if self.folder is None:
            return
        stored = 0

        def may_go(document: Any) -> bool:
            nonlocal stored
            if same(document) is not True:
                return False
            count = amount(document)
            if replications is None or count <= replications:  # what is no number raises an error: it is something else
                return True
            stored = count
            return False

        complaint = files.refusal(self.folder, self.name, may_go, overwrite=self.overwrite)
        if complaint is not None:
            if stored:
                complaint = f"contains {stored:,} replications of this, more than {replications:,}; {files.ELSEWHERE}"
            refuse(f"{self.option} {self.folder}: {complaint}".lstrip())
        try:
            _reserved.enter_context(files.reserved(self.folder))
        except OSError as error:
            state = "is in use" if isinstance(error, BlockingIOError) else "cannot be written"
            refuse(f"{self.option} {self.folder}: {state}: {error.strerror}".lstrip())

    def write(
        self, content: Document, format_: Callable[[Any], str], beside: Mapping[str, str], stale: Sequence[str] = (),
        *, as_json: bool,
    ) -> None:  # fmt: skip
        """Write the document, last of all, and what lies next to it; print in any case, then say what went wrong.

        Parameters
        ----------
        format_
            Returns the document in words, which are printed unless JSON is asked for.
        stale
            Patterns of files of an earlier run that go away if they are not among these.
        """
        from ettrick.analysis.results import files
        from ettrick.analysis.results.run import render

        text = render(content)
        shown = text if as_json else format_(content)
        complaint = None
        if self.folder is not None:
            complaint = files.write_folder(self.folder, {**beside, self.name: text + "\n"})
            for path in (path for pattern in stale for path in self.folder.glob(pattern)):
                if path.name not in beside and complaint is None:
                    path.unlink()
        say(shown)
        if complaint is not None:
            refuse(f"{self.option} {self.folder}: {complaint}".lstrip())
