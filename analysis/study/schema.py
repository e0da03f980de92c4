"""The JSON Schema of study files, for editors."""

from __future__ import annotations

from typing import Any

from analysis.answers.questions import QUESTIONS
from analysis.study.designs import DESIGNS
from analysis.study.distributions import DISTRIBUTIONS
from analysis.study.model import Study

__all__ = ["study_schema"]


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of study files.

    It knows the keys and what may stand there. What depends on the scenario, or concerns several keys, is for
    `analysis.study.load.load_study` and `analysis.study.first_look.first_look`.
    """
    content = Study.model_json_schema()
    tags = {"use": DESIGNS, "law": DISTRIBUTIONS, "ask": QUESTIONS}
    for tag, registry in tags.items():
        for name, kind in registry.items():
            part = content["$defs"][kind.__name__]
            # A design that names none is a grid.
            if name != "grid":
                part["required"] = [tag, *(key for key in part.get("required", []) if key != tag)]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **content}
