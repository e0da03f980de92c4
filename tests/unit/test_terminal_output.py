"""What commands write to a real terminal, to a pipe, and to a shell that completes words."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from analysis.page.chapters.listing import format_inventory
from cli import app
from tests.cases import cases

if TYPE_CHECKING:
    import pytest

COLOR = re.compile(r"\x1b\[[0-9;]*m")
ROOT = Path(__file__).parents[2]
RUN = "from cli import app; app(['run', 'quickstart', '--replications', '2', '--jobs', '1'])"
LIST = """
import os
from analysis.page.chapters.listing import format_inventory
print(format_inventory(), end="|next|")
os.environ["NO_COLOR"] = "1"
print(format_inventory(), end="|next|")
os.environ["TERM"] = "dumb"
print(format_inventory())
"""
BAR = """
import time
from analysis.terminal import Progress
with Progress("quiet", quiet=True) as quiet, Progress("layouts", quiet=False) as progress:
    for each in (quiet, progress):
        each(1, 9)
    print("at once", flush=True)
    time.sleep(1.1)
    for each in (quiet, progress):
        each(5, 9)
"""


def in_terminal(code: str, columns: int) -> str:
    """Return what a program writes to a terminal, both streams together."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        env=kept | {"TERM": "xterm-256color", "COLUMNS": str(columns)},
    )
    os.close(follower)
    written = b""
    with suppress(OSError):  # what the end of a terminal looks like
        while part := os.read(leader, 65536):
            written += part
    os.close(leader)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


def in_pipe(code: str) -> str:
    """Return what a program writes to a pipe, both streams together."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout


def widest(text: str) -> int:
    """Return the length of the longest line as it is seen."""
    return max(len(COLOR.sub("", line)) for line in text.split("\n"))


def test_a_run_respects_the_terminal() -> None:
    """On a terminal of 80 columns no line is wider, and headings are set off by colour or weight."""
    text = in_terminal(RUN, 80)
    assert "Where every GPU-hour went" in text
    assert widest(text) <= 80
    assert COLOR.search(text)


def test_the_list_is_wrapped_for_a_terminal_and_whole_in_a_pipe() -> None:
    """A terminal of 80 columns gets lines that fit; with NO_COLOR no colours, and where it can do nothing no codes."""
    colored, plain, dumb = in_terminal(LIST, 80).split("|next|")
    whole = format_inventory()  # of a test, whose output is no terminal
    assert widest(whole) > 120
    for text in (colored, plain, dumb):
        assert widest(text) <= 80
        assert COLOR.sub("", text).split() == whole.split()
    assert COLOR.search(colored)
    assert not re.search(r"\x1b\[[0-9;]*[34][0-7]", plain)
    assert "\x1b" not in dumb + whole


def test_a_bar_is_for_terminals_and_for_what_takes_more_than_a_second() -> None:
    """After a second a terminal sees a bar; --quiet and pipes see nothing."""
    before, after = in_terminal(BAR, 80).split("at once")
    assert before == ""
    assert "layouts" in after
    assert "quiet" not in after
    assert in_pipe(BAR) == "at once\n"


# ------------------------------------------------------------------------------------------------- completion


def completed(*words: str) -> list[str]:
    """Return what bash is told to complete the last word to."""
    asked = {"_ETTRICK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], prog_name="ettrick", env=asked)
    assert result.exit_code == 0
    return result.output.split()


def test_the_script_for_bash_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--show-completion` prints a script that a shell can read; which shell asks is told by the processes above."""
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    result = CliRunner().invoke(app, ["--show-completion"], prog_name="ettrick", env={"SHELL": "/bin/bash"})
    assert result.exit_code == 0
    assert "_ETTRICK_COMPLETE=complete_" in result.output


@cases(
    ("words", "wanted"),
    [
        (("ettrick", "expl"), ["explain"]),
        (("ettrick", "run", "--prec"), ["--precision"]),
        (("ettrick", "run", "quick"), ["quickstart"]),
        (("ettrick", "sweep", "spares-"), ["spares-and-repair", "spares-to-finish"]),
        (("ettrick", "topology", "show", "gb200"), ["gb200-nvl72-10k", "gb200-nvl72-8rack"]),
        (("ettrick", "list", "acc"), ["accelerators"]),
        (("ettrick", "run", "./sc"), []),
    ],
)
def test_words_are_completed(words: tuple[str, ...], wanted: list[str]) -> None:
    """Commands, options, and names of scenarios, studies and clusters; paths are left to the shell."""
    assert completed(*words) == wanted


def test_names_of_the_catalog_are_completed() -> None:
    """The names that `ettrick init` takes are those of the catalog."""
    from analysis.commands import options

    assert options.complete_accelerators("h") == ["h100", "h200"]
    assert options.complete_models("kimi") == ["kimi-k2"]
    assert options.complete_bundles("meta") == ["meta-rsc-1", "meta-rsc-2"]
    assert options.complete_presets("ntp") == ["ntp", "ntp-power-boost"]
