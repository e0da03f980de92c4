"""Ettrick: what-if questions about training on large GPU clusters.

``load`` reads a scenario, ``prepare`` works out what its replications share, ``run`` simulates one of them.
"""

from __future__ import annotations

from sim.closed_form import ClosedForm, closed_form
from sim.contracts import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, Bucket
from sim.documents import dump
from sim.inventory import inventory
from sim.load import ScenarioError, find, load, parse, schema, shipped
from sim.prepare import PathError, prepare
from sim.prepared import Prepared, PreparedJob
from sim.result import JobResult, Ratio, Result
from sim.run import run, trace
from sim.scenario import Scenario

__all__ = [
    "CLUSTER_BUCKETS",
    "JOB_BUCKETS",
    "NO_FAILURE",
    "Bucket",
    "ClosedForm",
    "JobResult",
    "PathError",
    "Prepared",
    "PreparedJob",
    "Ratio",
    "Result",
    "Scenario",
    "ScenarioError",
    "closed_form",
    "dump",
    "find",
    "inventory",
    "load",
    "parse",
    "prepare",
    "run",
    "schema",
    "shipped",
    "trace",
]
