"""Arguments and options that several commands have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def _begins(names: Iterable[str], incomplete: str) -> list[str]:
    """Return names that begin like this; with none of them a shell completes the names of files."""
    return [name for name in names if name.startswith(incomplete)]


def complete_shipped(*kinds: Literal["scenarios", "scenarios/studies", "topologies"]) -> Callable[[str], list[str]]:
    """Return what completes the name of a file that comes with Ettrick."""

    def found(incomplete: str) -> list[str]:
        from ettrick import sim

        return _begins(itertools.chain(*map(sim.shipped, kinds)), incomplete)

    return found


def complete_catalog(table: Literal["accelerators", "models", "bundles", "recoveries"]) -> Callable[[str], list[str]]:
    """Return what completes a name of the catalog."""

    def found(incomplete: str) -> list[str]:
        from ettrick.sim import catalog

        return _begins(getattr(catalog, table)(), incomplete)

    return found


def complete_kinds(incomplete: str) -> list[str]:
    """Return what kinds of things ``ettrick list`` lists."""
    from ettrick.analysis.terminal import kinds

    return _begins(kinds(), incomplete)


def complete_formulas(incomplete: str) -> list[str]:
    """Return names of questions that a formula answers."""
    from ettrick.analysis.explain.formula import formulas

    return _begins(formulas(), incomplete)


def to_file(what: str, default: str | bool = True) -> Any:
    """Return the option that names the file to write to."""
    return typer.Option("--out", "-o", metavar="FILE", help=what, show_default=default)


def to_folder(what: str) -> Any:
    """Return the option that names the folder to write to."""
    return typer.Option("--out", "-o", metavar="DIR", help=what)


def _replications(what: str, default: str | bool = True, least: int = 1) -> Any:
    return typer.Option("--replications", "-n", metavar="N", help=what, min=least, show_default=default)


def _precision(interval: str) -> Any:
    return typer.Option(metavar="WIDTH", help=f"Replicate {interval} is at most WIDTH: 0.1pt or 2%.")


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="Scenario file, or name of a bundled scenario.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

ScenariosArgument = Annotated[
    list[str],
    typer.Argument(
        help="Scenario files, or names of bundled scenarios.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a value, for example horizon='90 d'. Repeatable."),
]

ClusterArgument = Annotated[
    str,
    typer.Argument(
        help="Topology or scenario file, or name of a bundled one.",
        metavar="CLUSTER",
        autocompletion=complete_shipped("topologies", "scenarios"),
    ),
]

ClusterSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a value, for example fabric.radix=128. Repeatable."),
]

SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Seed all random numbers.", min=0, show_default="that of the file")
]

EngineOption = Annotated[
    Literal["auto", "events", "compiled"] | None,
    typer.Option(
        help="Simulate with events, compiled code, or auto (whichever is faster). Results are identical.",
        show_default="auto",
    ),
]

ProcessesOption = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", help="Number of processes; 0: one per core.", min=0)
]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
FullOption = Annotated[bool, typer.Option("--full", help="Print all tables. [default: one screen]")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

StudyArgument = Annotated[
    str,
    typer.Argument(
        help="Study file, or name of a bundled study.",
        metavar="STUDY",
        autocompletion=complete_shipped("scenarios/studies"),
    ),
]

StudySetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a value of the study, for example replications=64. Repeatable."
    ),
]

OutOption = Annotated[
    Path | None, to_folder("Write everything to this folder; the same command resumes an unfinished study.")
]

ExecutorOption = Annotated[
    Literal["serial", "process", "dask"] | None,
    typer.Option(help="Where to simulate.", show_default="process; dask if a scheduler is named"),
]

AddressOption = Annotated[
    str, typer.Option(metavar="URL", help="Address of a running Dask scheduler, such as tcp://host:8786.")
]

SchedulerFileOption = Annotated[
    str, typer.Option(metavar="FILE", help="File that a Dask scheduler wrote for its clients.")
]

StudyReplicationsOption = Annotated[
    int | None, _replications("Number of replications of each point.", "that of the study", 2)
]

PointPrecisionOption = Annotated[str | None, _precision("each point until the half-width of its 95 % interval")]

ShardOption = Annotated[
    str | None, typer.Option(metavar="I/N", help="Simulate part I of N into --out; ettrick merge joins the parts.")
]

MethodOption = Annotated[
    Literal["tornado", "sobol", "both"],
    typer.Option(help="Vary one input at a time (tornado), all inputs at random (sobol), or both."),
]

SamplesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Number of points in each of the (inputs + 2) sets of sobol; a power of two.", min=2
    ),
]

MetricOption = Annotated[
    str, typer.Option(metavar="NAME", help="Metric to analyze.", show_default="the first metric of the study")
]

TrialsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Number of points to evaluate in a search.", min=4, show_default="that of the study"
    ),
]

DesignArgument = Annotated[
    str,
    typer.Argument(
        help="Study or scenario file, or name of a bundled one; a scenario needs --budget.",
        metavar="STUDY",
        autocompletion=complete_shipped("scenarios/studies", "scenarios"),
    ),
]

BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=AMOUNT",
        help="Limit power, gpus or capex, for example power='100 MW'. Repeatable.",
        show_default="that of the study",
    ),
]

MaximizeOption = Annotated[
    str | None,
    typer.Option(metavar="METRIC", help="Metric to maximize.", show_default="that of the study, or tokens_per_day"),
]

MinimizeOption = Annotated[str | None, typer.Option(metavar="METRIC", help="Metric to minimize.")]

SaveOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="For a scenario: write the study to this file and stop.")
]

RegretOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="WIDTH",
        help="Stop when the answer is at most WIDTH from the best, for example 0.1%.",
        show_default="the tie of the study",
    ),
]

SecondsOption = Annotated[
    float | None,
    typer.Option(metavar="S", help="Stop after S seconds, with the gap reached by then.", min=0.0, show_default=False),
]

ExplainOption = Annotated[
    str | None,
    typer.Option(
        "--explain",
        metavar="AXIS=VALUE,...",
        help="Explain why the best design with these values is not the answer, for example recovery=torchft-hsdp.",
    ),
]

OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace any results in the --out folder.",
        show_default="only those of the same scenario",
    ),
]

ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace existing files.",
        show_default=False,
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", help="Allow runs of more than 100 million events.")]

# Of run, and of compare: how much is simulated, what is reported, and where it is kept.

RunReplicationsOption = Annotated[
    int | None, _replications("Number of replications.", "32; 8 for streams and services; 1 if nothing is random")
]

RunPrecisionOption = Annotated[str | None, _precision("until the half-width of the 95 % interval")]

RunMetricOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Metric of --precision.", show_default="ettr; slo_attainment for services"),
]

BandOption = Annotated[
    int,
    typer.Option(metavar="N", help="Number of draws of uncertain failure rates for band90; 0: none.", min=0),
]

RunOutOption = Annotated[Path | None, to_folder("Write the resolved scenario and the JSON document to this folder.")]

NodeLogOption = Annotated[
    bool, typer.Option("--node-log", help="With --out: write nodes.csv, the down times of each node.")
]

SharesOption = Annotated[
    Path | None,
    typer.Option(
        "--measured", metavar="FILE", help="CSV of weeks, as for track: show its shares next to the simulated ones."
    ),
]

TablesOption = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="With --out, for streams: write tidy tables, such as metrics,ledger."),
]

SkipBadRowsOption = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Skip and count the unusable rows of a job trace.")
]

VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A,B,...",
        help="Make a variant of each value, for example spares.hot=0,4,16. Repeatable: all combinations.",
    ),
]

VariantReplicationsOption = Annotated[int, _replications("Number of replications of each variant.")]

DifferencePrecisionOption = Annotated[str | None, _precision("until the half-width of each difference's 95 % interval")]

AtEqualOption = Annotated[
    Literal["gpus", "power", "cost"] | None,
    typer.Option(help="Compare unlike clusters per GPU, per megawatt or per unit of cost."),
]

SplitOption = Annotated[
    bool,
    typer.Option("--split", help="Also run each variant without the checkpoint stores of its recovery preset."),
]

CompareOutOption = Annotated[
    Path | None, to_folder("Write the resolved scenarios and the JSON document to this folder.")
]

# Of explain and kernels: what a scenario rests on.

WorthOption = Annotated[
    bool, typer.Option("--worth", help="Show the gain from removing each cause, and from improving each knob by 10 %.")
]

FormulaReplicationsOption = Annotated[
    int | None,
    _replications(
        "Number of replications to check the closed form, 0: none; with --worth, of each change (at least 8).",
        "8; 16 with --worth",
        0,
    ),
]

JobOption = Annotated[str | None, typer.Option(metavar="NAME", help="Job to show.", show_default="the first")]

TopOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Number of kernels to show; the rest are summed.", min=1, show_default="all"),
]

ShapesOption = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the kernel shapes to this file, as test cases.")
]

MeasuredTimesOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Measured times, in the columns of --csv. Given twice: compare the second with the first."
    ),
]

ThresholdOption = Annotated[
    float, typer.Option(metavar="SHARE", help="Smallest change between the two files that counts as a change.", min=0.0)
]

NoiseOption = Annotated[
    float,
    typer.Option(
        metavar="SHARE", help="Relative standard deviation of a measurement, if no kernel is measured twice.", min=0.0
    ),
]

KernelsOutOption = Annotated[
    Path | None, to_file("Write a page (.html), or a picture of the roofline (.svg, .png, .pdf).")
]

# Of init: what a first scenario is of.


def _of_catalog(table: Literal["accelerators", "models", "bundles", "recoveries"], metavar: str = "NAME") -> Any:
    kind = "failure-bundles" if table == "bundles" else "recovery-presets" if table == "recoveries" else table
    return typer.Option(metavar=metavar, help=f"Name from ettrick list {kind}.", autocompletion=complete_catalog(table))


StarterArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="File to write.", show_default="NAME.yaml of --name, or starter.yaml"),
]
StarterGpusOption = Annotated[
    int, typer.Option(metavar="N", help="GPUs of the job: a whole number of nodes, or 64 for each NVL72 rack.", min=1)
]
KindOption = Annotated[
    Literal["training", "fleet", "service"],
    typer.Option("--kind", help="Kind of work: one training job, a queue of many jobs, or a service."),
]
HfOption = Annotated[
    Path | None, typer.Option("--hf", metavar="FILE", help="Take the model from a config.json of Hugging Face.")
]
AcceleratorOption = Annotated[str, _of_catalog("accelerators")]
ModelOption = Annotated[str, _of_catalog("models")]
FailuresOption = Annotated[str, _of_catalog("bundles", "BUNDLE")]
RecoveryOption = Annotated[str, _of_catalog("recoveries", "PRESET")]
HorizonOption = Annotated[str, typer.Option(metavar="TIME", help="Time to simulate.")]
NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the scenario.", show_default="that of the file")
]
SlurmConfOption = Annotated[
    Path | None,
    typer.Option("--slurm-conf", metavar="FILE", help="Take nodes, partitions and scheduler from a slurm.conf."),
]
TopologyConfOption = Annotated[
    Path | None, typer.Option("--topology-conf", metavar="FILE", help="Take the leaf switches from a topology.conf.")
]

# Of trace: which part of which replication is written, and as what.

TimelineOption = Annotated[Path | None, to_file("Write the timeline to this file: .json, or .json.gz to compress it.")]
LogsOption = Annotated[
    Path | None,
    typer.Option(
        "--logs", metavar="DIR", help="Write the logs of the simulated cluster to this folder, for fit and track."
    ),
]
ReplicationOption = Annotated[int, typer.Option(metavar="N", help="Replication to write, counted from 0.", min=0)]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Leave out everything before it, such as 36 h.")
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Leave out everything after it.")]

# Of layouts: which ones are looked at, and in which order they are shown.

LayoutJobOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Job or service to lay out.", show_default="the first")
]
LayoutGpusOption = Annotated[
    int | None, typer.Option(metavar="N", help="GPUs of the job.", show_default="those of the scenario")
]
LayoutsOption = Annotated[int, typer.Option(metavar="N", help="Number of layouts to show.", min=1)]
SortOption = Annotated[
    Literal["goodput", "step", "gpu", "power", "money"] | None,
    typer.Option(
        help="Sort by kept tokens per day (goodput) or step time; for a service, by tokens per GPU, power or money.",
        show_default="goodput where a closed form applies, else step; gpu for a service",
    ),
]
AnyTensorOption = Annotated[
    bool, typer.Option("--any-tensor", help="Include tensor groups larger than a scale-up domain.")
]
TryParametersOption = Annotated[
    bool, typer.Option("--try-parameters", help="Include parameters sharded over replicas (FSDP, ZeRO-3).")
]
TryOptionsOption = Annotated[
    bool,
    typer.Option(
        "--try-options",
        help="Include ZeRO-2, zero-bubble schedules, recomputation of only norms and activations, and layouts of up to "
        "110 % of the memory (the limit of check).",
    ),
]
LayoutsCsvOption = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="For a service: write the layouts shown to this file."),
]
