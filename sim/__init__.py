"""Ettrick: what-if questions about large GPU clusters.

``load`` reads a scenario, ``prepare`` works out what its replications share, ``run`` simulates one of them. Modules are
imported when one of their names is first asked for: who checks a scenario needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.sim.lazy import import_on_use

if TYPE_CHECKING:
    from ettrick.sim.closed_form.elastic import starved_at_most
    from ettrick.sim.closed_form.limits import availability
    from ettrick.sim.closed_form.relaxed import RelaxedJob, first_saves, relaxed_jobs
    from ettrick.sim.closed_form.renewal import ClosedForm, closed_form, job_shares
    from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Topology, edges
    from ettrick.sim.compiled.run import drop_workspaces, is_cached, why_events
    from ettrick.sim.engine.kernel import WorkError
    from ettrick.sim.engine.prepared import (
        EngineError,
        PowerPeriod,
        Prepared,
        PreparedJob,
        PreparedStream,
        RequestRates,
        ServicePlan,
        TargetPlan,
    )
    from ettrick.sim.engine.requests import Request, RequestError, replay
    from ettrick.sim.engine.result import (
        BIN_EDGES,
        CLUSTER,
        HISTOGRAMS,
        IDLE,
        JOB_SUMS,
        LEVELS,
        NAMED,
        NO_FLEET,
        OUTCOMES,
        PREEMPTION,
        ROOTS,
        SERVICE_SUMS,
        SLOWDOWN_TAUS,
        Attempt,
        FleetAccount,
        FleetResult,
        JobResult,
        Outages,
        PhaseSpan,
        Ratio,
        Result,
        Timeline,
        added,
        window_width,
    )
    from ettrick.sim.input.scenario import Scenario, schema
    from ettrick.sim.layouts import Candidate, LayoutSearch, NoLayoutError, job_index
    from ettrick.sim.load import (
        ScenarioError,
        Template,
        building_blocks,
        find,
        find_cluster,
        inventory,
        inventory_of_plugins,
        kind_of,
        load,
        load_cluster,
        locate,
        parse,
        shipped,
        template,
    )
    from ettrick.sim.offers import JobChange, LayoutFronts, Offer, RefusedError, amount, largest, recounted, refusal_of
    from ettrick.sim.plugins import PluginError
    from ettrick.sim.policies.contracts import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, SCHEDULING, Bucket
    from ettrick.sim.prepare.explained import RecoverySummary, recovery_summary
    from ettrick.sim.prepare.placement import Placement, placement, sized
    from ettrick.sim.prepare.prepare import check, examine, prepare
    from ettrick.sim.prepare.services import REPLAYED, PreparedService, services_of
    from ettrick.sim.prepare.step import check_memory
    from ettrick.sim.run import MOST_EVENTS, TraceCache, block_size, check_work, run, run_block, trace, with_engine
    from ettrick.sim.scenario.fields import PathError
    from ettrick.sim.yamlfile import dump

import_on_use(
    __name__,
    {
        "closed_form.elastic": "starved_at_most",
        "closed_form.limits": "availability",
        "closed_form.relaxed": "RelaxedJob first_saves relaxed_jobs",
        "closed_form.renewal": "ClosedForm closed_form job_shares",
        "cluster.spec": "ClusterSpec",
        "cluster.topology": "FABRIC_PARTS Topology edges",
        "compiled.run": "drop_workspaces is_cached why_events",
        "engine.kernel": "WorkError",
        "engine.prepared": "EngineError Prepared PreparedJob PreparedStream RequestRates ServicePlan TargetPlan",
        "engine.requests": "Request RequestError replay",
        "engine.result": "Attempt BIN_EDGES CLUSTER FleetAccount FleetResult HISTOGRAMS IDLE JOB_SUMS JobResult LEVELS"
        " NAMED NO_FLEET OUTCOMES Outages PREEMPTION PhaseSpan ROOTS Ratio Result SERVICE_SUMS SLOWDOWN_TAUS Timeline"
        " added window_width",
        "load": "ScenarioError Template building_blocks find find_cluster inventory inventory_of_plugins kind_of"
        " load load_cluster locate parse shipped template",
        "input.scenario": "Scenario schema",
        "layouts": "Candidate LayoutSearch NoLayoutError job_index",
        "offers": "JobChange LayoutFronts Offer RefusedError amount largest recounted refusal_of",
        "plugins": "PluginError",
        "policies.contracts": "Bucket CLUSTER_BUCKETS JOB_BUCKETS NO_FAILURE SCHEDULING",
        "prepare.explained": "RecoverySummary recovery_summary",
        "prepare.placement": "Placement placement sized",
        "prepare.prepare": "check examine prepare",
        "prepare.services": "PreparedService REPLAYED services_of",
        "prepare.step": "check_memory",
        "run": "MOST_EVENTS TraceCache block_size check_work run run_block trace with_engine",
        "scenario.fields": "PathError",
        "yamlfile": "dump",
    },
)
