"""Ettrick: what-if questions about the goodput of large GPU clusters.

The functions of the public interface are those of ``ettrick.analysis.api``; each is imported when it is first asked
for. ``ettrick.sim`` simulates, ``ettrick.analysis`` compares and reports, ``ettrick.cli`` is the command. In a checkout
the three are links to the folders at the root of the repository; a wheel holds the files themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.sim.lazy import import_on_use

if TYPE_CHECKING:
    from ettrick.analysis.api import Plot, Results, compare, fit, load, prepare, report, run, simulate, sweep

__all__ = ["Plot", "Results", "compare", "fit", "load", "prepare", "report", "run", "simulate", "sweep"]

import_on_use(__name__, {"analysis.api": " ".join(__all__)})
