"""The sections of a report: one file each, in the order in which they are read.

A new section is a file with a function ``section(material) -> Section | None``, and a line in `SECTIONS`. It returns
``None`` where the results have nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.sections import (
    answers,
    basis,
    bridge,
    closed_form,
    cluster,
    comparison,
    curves,
    finish,
    front,
    frontier,
    heat_maps,
    inputs,
    losses,
    missing_nodes,
    optimum,
    reproduce,
    rolling,
    scale,
    step,
    tornado,
    typical,
    validation,
    variance,
    where_time_goes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.report.material import Material
    from analysis.report.model import Section

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    where_time_goes.section,
    answers.section,
    comparison.section,
    bridge.section,
    curves.section,
    heat_maps.section,
    front.section,
    finish.section,
    tornado.section,
    variance.section,
    optimum.section,
    losses.section,
    typical.section,
    rolling.section,
    missing_nodes.section,
    scale.section,
    frontier.section,
    cluster.section,
    step.section,
    closed_form.section,
    basis.section,
    inputs.section,
    validation.section,
    reproduce.section,
)
