"""Ettrick: what-if questions about training on large GPU clusters.

``load`` reads a scenario, ``prepare`` works out what its replications share, ``run`` simulates one of them.
"""

from __future__ import annotations

from sim.closed_form import ClosedForm, closed_form, job_shares, starved_at_most
from sim.contracts import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, Bucket
from sim.documents import dump
from sim.explained import Comeback, comeback
from sim.inventory import inventory
from sim.layouts import Candidate, LayoutSearch
from sim.load import ScenarioError, Template, find, load, locate, parse, shipped, template
from sim.load_cluster import find_cluster, load_cluster
from sim.no_layout import NoLayoutError
from sim.prepare import PathError, examine, prepare
from sim.prepare_layout import Placement, placement
from sim.prepare_step import check_memory
from sim.prepared import Prepared, PreparedJob
from sim.result import JobResult, Ratio, Result
from sim.run import MOST_EVENTS, WorkError, check_work, run, trace
from sim.scenario import Scenario
from sim.scenario_model import schema
from sim.shared import Shared
from sim.timeline import Span, Timeline
from sim.topology import FABRIC_PARTS, ClusterSpec, Topology, edges

__all__ = [
    "CLUSTER_BUCKETS",
    "FABRIC_PARTS",
    "JOB_BUCKETS",
    "MOST_EVENTS",
    "NO_FAILURE",
    "Bucket",
    "Candidate",
    "ClosedForm",
    "ClusterSpec",
    "Comeback",
    "JobResult",
    "LayoutSearch",
    "NoLayoutError",
    "PathError",
    "Placement",
    "Prepared",
    "PreparedJob",
    "Ratio",
    "Result",
    "Scenario",
    "ScenarioError",
    "Shared",
    "Span",
    "Template",
    "Timeline",
    "Topology",
    "WorkError",
    "check_memory",
    "check_work",
    "closed_form",
    "comeback",
    "dump",
    "edges",
    "examine",
    "find",
    "find_cluster",
    "inventory",
    "job_shares",
    "load",
    "load_cluster",
    "locate",
    "parse",
    "placement",
    "prepare",
    "run",
    "schema",
    "shipped",
    "starved_at_most",
    "template",
    "trace",
]
