"""Folders of results that tests of reports look at, each made once a process by the commands that make it."""

from __future__ import annotations

import atexit
import functools
import json
import shlex
import tempfile
from pathlib import Path

from tests.report_sample import SMALL, YAML, call

EVERYTHING = """\
name: everything
question: How many spares?
scenario: small.yaml
set:
  horizon: 12 h
  jobs.0.work: {time: 6 h}
  jobs.0.deadline: 9 h
  failures.0.rate: 600 per 1000 node-day
  cost: {gpu_hour: 2.5, currency: EUR}
vary:
  spares.hot:
    title: hot spares
    noun: hot spares
    choices: {"0": {spares.hot: 0, cluster.nodes: 14}, "2": {spares.hot: 2, cluster.nodes: 16}}
  interval: {path: checkpoint.tiers.0.interval, title: interval, choices: [10 min, 30 min, 2 h]}
  rate: {path: failures.0.scale, title: failure rate, distribution: {use: counted, events: 20}}
"""

STUDIES = {
    "study": EVERYTHING
    + """\
metrics: [ettr, time_to_work, p_finish_by, mtti, cost]
replications: 2
questions:
  - {use: best}
  - {use: compare, axis: spares.hot}
  - {use: threshold, at_least: 60 %, along: interval}
  - {use: pareto, metrics: [ettr, cost]}
optimize: {maximize: ettr, subject_to: [p_finish_by >= 0.1], confirm: 16}
""",
    "single": EVERYTHING + "design: {use: one-at-a-time}\nreplications: 2\nquestions: [{use: sensitivity}]\n",
    "infeasible": """\
name: some-cannot-run
scenario: small.yaml
set: {horizon: 6 h}
vary:
  spares.hot: {title: hot spares, choices: [0, 1, 2]}
  gpus: {path: jobs.0.gpus, title: GPUs, choices: [96, 112, 128]}
metrics: [ettr, mtti, steps_per_day]
replications: 2
questions: [{use: best, for_each: [gpus]}, {use: sensitivity}]
""",
    "how-often": """\
name: how-often
question: How often should the small job save?
scenario: small.yaml
vary:
  checkpoint.tiers.0.interval: {title: interval, choices: [10 min, 20 min, 80 min]}
replications: 4
questions: [{use: best, metric: ettr}]
optimize: {maximize: ettr, subject_to: ["ettr >= 10 %"], confirm: 16}
assumptions: ["saving takes 30 s"]
""",
}

RUN, COMPARE = "run small.yaml --seed 1 --jobs 1 --replications", "compare small.yaml --seed 1 --jobs 1 --replications"

HALVES = json.dumps([dict(SMALL["jobs"][0], name=name, gpus=48) for name in ("first", "second")], separators=(",", ":"))

COMMANDS = {
    "run": [f"{RUN} 8"],
    "one": [f"{RUN} 1"],
    "priced": [f"{RUN} 8 --set cost.gpu_hour=2"],
    "two-jobs": [f"{RUN} 8 --set 'jobs={HALVES}'"],
    "calm": [f"{RUN} 3 --set failures=[]"],
    "compare": [f"{COMPARE} 8 --vary recovery.initialize=3min,30min --set cost.gpu_hour=2"],
    "same": [f"{COMPARE} 3 --vary spares.hot=2,1 --set failures=[]"],
    "three": [f"{COMPARE} 8 --vary recovery.initialize=40min,3min,10min"],
    "spares": [f"{COMPARE} 4 --vary spares.hot=0,1,2"],
    "study": ["sweep study.yaml --executor serial", "optimize study.yaml --executor serial"],
    "single": ["sweep single.yaml --executor serial"],
    "infeasible": ["sweep infeasible.yaml --executor serial"],
    "sweep": ["sweep how-often.yaml --executor serial"],
    "sensitivity": ["sensitivity how-often.yaml --executor serial"],
    "optimize": ["optimize how-often.yaml --executor serial"],
    "validate": ["validate --only sizes --jobs 1"],
}
"""What makes each folder; two commands make one folder of a study with its optimum."""


@functools.cache
def _home() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="ettrick-reports-")
    atexit.register(directory.cleanup)
    home = Path(directory.name)
    (home / "small.yaml").write_text(YAML)
    for name, text in STUDIES.items():
        (home / f"{name}.yaml").write_text(text)
    return home


@functools.cache
def results(name: str) -> Path:
    """Return a folder of results; whoever changes something changes a copy."""
    home = _home()
    for command in COMMANDS[name]:
        words = [str(home / word) if word.endswith(".yaml") else word for word in shlex.split(command)]
        assert call(*words, "--quiet", "--out", str(home / name)).exit_code in (0, 1), name
    return home / name
