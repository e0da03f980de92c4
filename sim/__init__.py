"""Ettrick: what-if questions about training on large GPU clusters.

``load`` reads a scenario, ``prepare`` works out what its replications share, ``run`` simulates one of them. Modules are
imported when one of their names is first asked for: who checks a scenario needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.lazy import import_on_use

if TYPE_CHECKING:
    from sim.closed_form import ClosedForm, closed_form, job_shares, starved_at_most
    from sim.contracts import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, Bucket
    from sim.documents import dump
    from sim.explained import Comeback, comeback
    from sim.inventory import inventory
    from sim.layouts import Candidate, LayoutSearch
    from sim.load import ScenarioError, Template, building_blocks, find, load, locate, parse, shipped, template
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
    "building_blocks",
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

import_on_use(
    __name__,
    {
        "closed_form": "ClosedForm closed_form job_shares starved_at_most",
        "contracts": "CLUSTER_BUCKETS JOB_BUCKETS NO_FAILURE Bucket",
        "documents": "dump",
        "explained": "Comeback comeback",
        "inventory": "inventory",
        "layouts": "Candidate LayoutSearch",
        "load": "ScenarioError Template building_blocks find load locate parse shipped template",
        "load_cluster": "find_cluster load_cluster",
        "no_layout": "NoLayoutError",
        "prepare": "PathError examine prepare",
        "prepare_layout": "Placement placement",
        "prepare_step": "check_memory",
        "prepared": "Prepared PreparedJob",
        "result": "JobResult Ratio Result",
        "run": "MOST_EVENTS WorkError check_work run trace",
        "scenario": "Scenario",
        "scenario_model": "schema",
        "shared": "Shared",
        "timeline": "Span Timeline",
        "topology": "FABRIC_PARTS ClusterSpec Topology edges",
    },
)
