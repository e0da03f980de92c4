"""Wrong uses of ``--set``."""

from __future__ import annotations

from tests.unit.bad_input import over

CASES = [
    over("horizon", "needs path=value, for example --set horizon='30 d'"),
    over("=3", "needs path=value"),
    over("horizon=", "horizon: has no value"),
    over("horizn=3 d", "horizn: unknown key 'horizn'; did you mean 'horizon'?"),
    over("a.b=c", "a: unknown key 'a' (choose from name, "),
    over("cluster.fabric.leaf.node=4", "cluster.fabric.leaf.node: unknown key 'node'; did you mean 'nodes'?"),
    over("jobs.0.gpu=64", "jobs.0.gpu: unknown key 'gpu'; did you mean 'gpus'?"),
    over("jobs.1.gpus=64", "jobs: is a list of 1, counted from 0: there is no item '1'"),
    over("jobs.gpus=64", "jobs: is a list of 1, counted from 0: there is no item 'gpus'"),
    over("horizon.days=3", "horizon: is '30 d', not a mapping: there is no 'days' in it"),
    over("repair.time=3 GB", "repair.time: 'GB' is a unit of size, not of time"),
    over("checkpoint.tiers.0.interval=30", "checkpoint.tiers.0.interval: '30' needs a unit"),
    over("recovery.use=cold-spare", "recovery.use: 'cold-spare' is not a choice; did you mean 'hot-spare'?"),
    over(
        "cluster=smal.yaml",
        "cluster: smal.yaml cannot be read",
        "did you mean 'small.yaml'?",
        files={"small.yaml": "nodes: 16\n"},
    ),
    over("jobs.0.gpus=1024", "jobs.0.gpus: asks for 1,024 GPUs, but the cluster has 128"),
    over("jobs.0={name: a", "invalid YAML"),
]
