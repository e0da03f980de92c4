"""Fit the step model to published steps: ``python -m analysis.calibrate.steps``, or ``make fit-steps``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.calibrate.document import constants_text
from analysis.calibrate.outcome import calibrate
from analysis.calibrate.report import print_outcome
from analysis.calibrate.rows import default_folder
from analysis.console import console
from analysis.progress import Progress
from sim import catalog

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Fit, print, write; return 0, 1 if a target is missed or 2 if the tables are not as they should be."""
    parser = argparse.ArgumentParser(prog="fit-steps", description="Fit the step model to published steps.")
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="folder of the tables")
    target = Path(catalog.__file__).parent / "step_constants.yaml"
    parser.add_argument("--out", type=Path, default=target, metavar="FILE", help="where to write (the catalog)")
    options = parser.parse_args(arguments)
    try:
        with Progress("fitting", quiet=False) as progress:
            found = calibrate(options.data, progress)
        good = print_outcome(console(sys.stdout), found, options.data)
        options.out.write_text(constants_text(found), encoding="utf-8")
    except (OSError, ValueError) as error:
        console(sys.stderr).print(f"fit-steps: {error}", soft_wrap=True)
        return 2
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
