"""Command line of Ettrick: parse, call, print."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def main() -> None:
    """Answer what-if questions about training on large GPU clusters."""
