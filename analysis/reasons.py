"""Why the answer of a run or a comparison is no, in lines."""

from __future__ import annotations

from typing import Any

__all__ = ["against_comparison", "against_run"]


def against_run(content: dict[str, Any], precision: str | None, *, precise: bool | None) -> list[str]:
    """Return one line for each job that no replication could start, and one for a precision that was not reached.

    Parameters
    ----------
    content
        The document of a run (or of a variant, with its number of replications).
    precision, precise
        What was asked for, as it was typed, and whether it was reached; ``None`` if nothing was.
    """
    found = []
    for name, job in content["per_job"].items():
        if job["never_arrived"] == content["replications"]:
            found.append(f"job '{name}' can never start: it arrives when the horizon is over")
        elif job["never_started"] == content["replications"]:
            found.append(
                f"job '{name}' can never start: no replication had enough free nodes for it before the horizon"
            )
    if precise is False:
        found.append(f"--precision {precision}: not reached in {content['replications']} replications")
    return found


def against_comparison(content: dict[str, Any], precision: str | None) -> list[str]:
    """Return the same for the document of a comparison, and one line about variants that cannot run."""
    number = {"replications": content["replications"]}
    found = [
        f"{name}: {line}"
        for name, variant in content["variants"].items()
        for line in against_run(variant | number, None, precise=None)
    ]
    missing = len(content["cannot_run"])
    if missing:
        found.append(f"{missing} of {missing + len(content['variants'])} variants cannot run")
    return found + against_run({"per_job": {}} | number, precision, precise=content["precise"])
