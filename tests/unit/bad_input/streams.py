"""Streams of jobs, and who shares the cluster."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad

STREAM = "name: s, arrivals: {rate: 40 per h}, work: 1 h"


def stream(row: str, *fragments: str, scheduler: str = "", files: dict[str, str | bytes] | None = None) -> Bad:
    """Return a scenario with one stream, in the place of its job."""
    place = "" if "§" in row + scheduler else "§"
    change = {4: "streams:", 5: f"  - {place}{{{row}}}", 12: f"spares: {{hot: 2}}{scheduler}"}
    return bad(change, *fragments, files=files)


CASES = [
    stream(f"{STREAM}, gpus: §120", "a job of 120 GPUs could never start: the cluster has 112"),
    stream(f"{STREAM}, gpus: §{{8: 0}}", "streams.0.gpus: give at least one weight above zero"),
    stream(f"{STREAM}, gpus: {{eight: §1}}", "streams.0.gpus.eight: 'eight' is not a whole"),
    stream(f"{STREAM}, gpus: {{median: 8.0, sigma: 1.0, most: §100}}", "nearest: 64 or 128"),
    stream(STREAM, "streams.0.gpus: is missing: give it, or a template that has it"),
    stream("name: s, gpus: 8, work: 1 h, arrivals: {rate: §40 per node-day}", "without 'node'"),
    stream("name: s, gpus: 8, work: 1 h, arrivals: {rate: §0 per h}", "must be above zero"),
    stream("name: s, gpus: 8, work: 1 h, arrivals: §{}", "streams.0.arrivals.rate: is missing"),
    stream(
        "name: s, gpus: 8, work: 1 h, arrivals: {use: §poison, rate: 1 per h}",
        "streams.0.arrivals.use: 'poison' is not a choice; did you mean 'poisson'?",
    ),
    stream("name: s, gpus: 8, work: 1 h, arrivals: {use: diurnal, peak: 1 per h, trough: §2 per h}", "above"),
    stream(f"{STREAM}, gpus: 8, outcome: §{{failed: 1}}".replace("1 h,", "horizon,"), "no other outcome"),
    stream(f"{STREAM}, template: §x", "streams.0.template: unknown template 'x'"),
    stream(f"{STREAM}, gpus: 8, partition: §x", "unknown partition 'x' (choose from all)"),
    stream(f"{STREAM}, gpus: 8, chain: {{limit: 1 h, notice: §1 h}}", "leaves no time"),
    stream(
        f"{STREAM}, gpus: 8, limit: none",
        "streams.0: has jobs without a time limit, and scheduler.depth: 1 reserves by limits; give them limits",
        scheduler="\nscheduler: {use: easy}",
    ),
    stream(
        f"{STREAM}, gpus: 8, limit: 30 s",
        "scheduler.cycle: 1 min is longer than the time limit of jobs of streams.0; at most: 30 s",
        scheduler="\nscheduler: {use: fifo, cycle: §1 min}",
    ),
    stream(
        "name: s, use: trace, file: jobs.csv, chain: {limit: 30 s}",
        "scheduler.cycle: 1 min is longer than the time limit of jobs of streams.0; at most: 30 s",
        scheduler="\nscheduler: {use: fifo, cycle: §1 min}",
        files={"jobs.csv": "submit,gpus,run\n0,8,1\n"},
    ),
    stream(
        "name: s, use: trace, file: jobs.csv",
        "scheduler.cycle: 1 min is longer than the time limit of the job of",
        "jobs.csv:3; at most: 45 s",
        scheduler="\nscheduler: {use: fifo, cycle: §1 min}",
        files={"jobs.csv": "submit,gpus,run,limit\n0,8,1,600\n1,8,1,45\n"},
    ),
    stream("name: s, use: trace, file: §jab.csv", "did you mean 'job.csv'?", files={"job.csv": ""}),
    stream(
        "name: s, use: trace, file: §jobs.csv",
        "streams.0.file: ",
        "jobs.csv:3: a job of 1024 GPUs could never start",
        files={"jobs.csv": "submit,gpus,run\n0,8,1\n1,1024,1\n"},
    ),
    bad({5: "  - {name: train, gpus: 64, step_time: 10 s}\ntenants: §[{name: a}]"}, "no streams"),
    bad(
        {4: "streams:", 5: f"  - {{{STREAM}, gpus: 8, tenant: §red}}\ntenants: [{{name: blue, nodes: 4}}]"},
        "streams.0.tenant: unknown tenant 'red' (choose from blue)",
    ),
    bad(
        {
            4: "streams:",
            5: f"  - {{{STREAM}, gpus: §64, tenant: a}}\ntenants: [{{name: a, nodes: 4}}, {{name: b, nodes: 2}}]",
        },
        "tenant 'a' may use 48 GPUs, with all that it may borrow; at most: 48",
    ),
    bad(
        {4: "streams:", 5: f"  - {{{STREAM}, gpus: §64}}\npartitions: [{{name: p, nodes: 0-3}}]"},
        "partition 'p' has 32 GPUs; at most: 32",
    ),
    *(
        bad(
            {
                2: "cluster: {nodes: 16, rack: {nodes: 8}}",
                4: "streams:",
                5: f"  - {{{STREAM}, gpus: §64{where}}}",
                12: f"spares: {{hot: {hot}}}\nscheduler: {{use: easy, pack: rack, need: required}}{more}",
            },
            f"streams.0.gpus: a job of 64 GPUs could never start: a rack has room for {room} GPUs",
            f"scheduler.need is required; at most: {room}",
        )
        for hot, where, more, room in (
            (2, "", "", 56),
            (0, ", partition: p", "\npartitions: [{name: p, nodes: 4-12}]", 40),
        )
    ),
    bad(
        {
            4: "streams:",
            5: f"  - {{{STREAM}, gpus: 8}}\npartitions: [{{name: p, nodes: 0-3, limit: 2 h}}]",
            12: "scheduler: {use: fifo, cycle: §3 h}",
        },
        "scheduler.cycle: 3 h is longer than the time limit of jobs of streams.0; at most: 2 h",
    ),
    bad(
        {4: "streams:", 5: f"  - {{{STREAM}, gpus: 8}}\npartitions: [{{name: p, nodes: §8-16}}]"},
        "partitions.0.nodes: node 16 is not there: the cluster has nodes 0 to 15",
    ),
    bad(
        {5: f"  - {{name: s, gpus: 8}}\nstreams:\n  - {{{STREAM.replace('name: s', 'name: §s')}, gpus: 8}}"},
        "streams.0.name: 's' is also the name of jobs.0",
    ),
    bad(
        {2: "cluster: §{fabric: {leaf: {nodes: 4}}}", 4: "streams:", 5: f"  - {{{STREAM}, gpus: 8}}"},
        "cluster: needs nodes: streams of jobs do not say how many there are",
    ),
]
