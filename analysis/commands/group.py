"""Commands whose mistakes are told as all others are: the option, the rule and the nearest choice, in one line."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from analysis.commands.terminal import WRONG, cannot_print, refuse

__all__ = ["Commands"]

_CHOICES = re.compile(r"^'(?P<given>.*)' is not one of (?P<choices>'.*')\.$")
_WORDS = (
    (r"^Value error, ", ""),
    (r"^Input should be a valid integer.*", "must be a whole number"),
    (r"^Input should be a valid number.*", "must be a number"),
    (r"^Input should be greater than or equal to (.+)$", r"must be at least \1"),
    (r"^Input should be less than or equal to (.+)$", r"must be at most \1"),
)
"""What the reader of options says, and what we say."""


class Commands(TyperGroup):
    """A group of commands, of which wrong values of options, and help that cannot be printed, are one line."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the command line does, or end with one line about a standard output that takes nothing."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if traceback.extract_tb(error.__traceback__)[-1].name != "echo":  # not by printing
                raise
            with contextlib.suppress(typer.Exit):
                cannot_print(error)
            sys.exit(WRONG)

    def invoke(self, ctx: Any) -> Any:
        """Return what the command does, or end with one line about the value of an option."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            options = [] if error.param is None else error.param.opts
            if type(error) is not typer.BadParameter or not options:  # what is missing has words of its own
                raise
            refuse(f"{max(options, key=len)}: {_told(error.message)}")


def _told(message: str) -> str:
    """Return what is wrong with the value of an option."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message, flags=re.DOTALL)
    found = _CHOICES.match(message)
    if found is None:
        return message
    from sim.documents import suggest

    choices = re.findall("'([^']*)'", found["choices"])
    return f"'{found['given']}' is not a choice{suggest(found['given'], choices)}"
