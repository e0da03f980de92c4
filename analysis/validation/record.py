"""Record a run of the whole table for the reference page: ``python -m analysis.validation.record``.

What was found goes to ``docs/reference/validation.json``, and the page that shows it to ``validation.md`` beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from analysis.console import console
from analysis.document import render
from analysis.progress import Progress
from analysis.validation.document import against, describe
from analysis.validation.lab import Lab
from analysis.validation.page import markdown
from analysis.validation.play import play
from analysis.validation.table import load_table

__all__ = ["REFERENCE", "main"]

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
"""Where the page and its data are."""


def main(arguments: list[str] | None = None) -> int:
    """Play the table with the default seed and write both files; return 0, or 1 if a row fails."""
    parser = argparse.ArgumentParser(prog="record", description="Record a run of the validation table.")
    parser.add_argument("--out", type=Path, default=REFERENCE, metavar="DIR", help="where to write (the reference)")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one per core")
    options = parser.parse_args(arguments)
    with Progress("rows", quiet=False) as progress:
        found = play(load_table(), Lab(processes=options.jobs), progress=progress)
    text = render(describe(found))
    (options.out / "validation.json").write_text(text + "\n", encoding="utf-8")
    content = json.loads(text)
    (options.out / "validation.md").write_text(markdown(content), encoding="utf-8")
    for line in against(content):
        console(sys.stderr).print(line, soft_wrap=True)
    return 1 if against(content) else 0


if __name__ == "__main__":
    sys.exit(main())
