"""Write the transcripts of documentation pages anew: ``python -m tests.docs_transcripts [--check] PAGE…``.

Each command of a page runs as in tests/test_docs.py, and the output that the page shows is replaced if the command
prints something else. Elisions stay: a line that is only … stands for lines that are left out. Without a page: all that
have commands. Exit status 1: ``--check`` and a page differs, or a command ends with another exit status than stated.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import ROOT, Command, answer_of, commands, pages_with_commands, prepare_folder, skeleton

ELISION = {"…", "..."}


def main() -> int:
    """Rewrite the pages that are named, and print what changes."""
    parser = argparse.ArgumentParser(description="Write the transcripts of documentation pages again.")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="Markdown files; all with commands if none")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a page would change")
    arguments = parser.parse_args()
    failed = False
    for page in [path.resolve() for path in arguments.pages] or pages_with_commands():
        before = page.read_text(encoding="utf-8")
        after, errors = rewritten(page)
        changed = after != before
        rows = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        report = [f"{page.relative_to(ROOT)}: {'changed' if changed else 'current'}"]
        report += [f"  {row}" for row in rows if not row.startswith(("---", "+++", "@@"))]
        sys.stdout.write("".join(f"{row}\n" for row in report + [f"  {error}" for error in errors]))
        sys.stdout.flush()
        if not arguments.check:
            page.write_text(after, encoding="utf-8")
        failed = failed or bool(errors) or (changed and arguments.check)
    return int(failed)


def rewritten(page: Path) -> tuple[str, list[str]]:
    """Return the text of a page with what its commands print now, and the commands that end otherwise than stated."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    errors: list[str] = []
    transcripts: list[tuple[Command, list[str]]] = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        prepare_folder(page, Path(folder), monkeypatch)
        for command in commands(text):
            if command.text:
                printed, error = _printed(command, monkeypatch)
            if error:
                errors.append(error)
            elif command.shown:
                transcripts.append((command, merged(command.shown, printed)))
        monkeypatch.undo()  # leaves the folder before it is deleted
    for command, shown in reversed(transcripts):
        lines[command.start : command.start + len(command.shown)] = [f"{line}\n" for line in shown]
    return "".join(lines), errors


def _printed(command: Command, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str]:
    """Return the lines that a page shows of a command, and a complaint if it does not end as stated."""
    answer = answer_of(command.text, monkeypatch)
    if answer.returncode != command.status:
        last = (answer.stderr or answer.stdout).strip().splitlines()[-1:]
        return [], f"$ {command.text}: exit status {answer.returncode}, stated {command.status}: {''.join(last)}"
    if command.status:
        return (answer.stdout + answer.stderr).replace(f"{ROOT}/", "").splitlines(), ""
    return answer.stdout.rstrip("\n").splitlines(), ""


def merged(shown: list[str], printed: list[str]) -> list[str]:
    """Return the printed lines, with the elisions of those that are shown.

    A part between two elisions becomes the printed lines from its first to its last match, and as many before and after
    as it has without a match; a part without any match stays.
    """
    matches = _matches(shown, printed)
    cuts = [-1, *(index for index, row in enumerate(shown) if row.strip() in ELISION), len(shown)]
    result: list[str] = []
    end = 0
    for before, after in pairwise(cuts):
        part = [index for index in range(before + 1, after) if index in matches and re.search(r"\w", shown[index])]
        if before >= 0:
            result.append(shown[before])
        if part:
            first = 0 if before < 0 else max(end, matches[part[0]] - (part[0] - before - 1))
            end = len(printed) if after == len(shown) else min(len(printed), matches[part[-1]] + after - part[-1])
            result += printed[first:end]
        else:
            result += shown[before + 1 : after]
    return result


def _matches(shown: list[str], printed: list[str], level: int = 0) -> dict[int, int]:
    """Return which printed line each line shows: first the same ones, then by label, then without the numbers."""
    keys = (str.strip, lambda row: (re.split("  +", row.strip())[0], skeleton(row)), skeleton)
    if not shown or not printed or level == len(keys):
        return {}

    def compared(rows: list[str]) -> list[Any]:
        # Empty lines and rules are alike everywhere: they match only between lines that do.
        return [keys[level](row) if level == 2 or re.search(r"\w", row) else object() for row in rows]

    result: dict[int, int] = {}
    first, other = 0, 0
    for block in difflib.SequenceMatcher(None, compared(shown), compared(printed), False).get_matching_blocks():
        between = _matches(shown[first : block.a], printed[other : block.b], level + 1)
        result |= {first + index: other + row for index, row in between.items()}
        result |= {block.a + step: block.b + step for step in range(block.size)}
        first, other = block.a + block.size, block.b + block.size
    return result


if __name__ == "__main__":
    sys.exit(main())
