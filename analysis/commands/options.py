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


def to_file(what: str) -> Any:
    """Return the option that names the file to write to."""
    return typer.Option("--out", "-o", metavar="FILE", help=what)


def to_folder(what: str) -> Any:
    """Return the option that names the folder to write to."""
    return typer.Option("--out", "-o", metavar="DIR", help=what)


def _replications(what: str, least: int = 1) -> Any:
    return typer.Option("--replications", "-n", metavar="N", help=what, min=least)


def _precision(interval: str) -> Any:
    return typer.Option(metavar="WIDTH", help=f"Replicate {interval} is this: 0.1pt or 2%.")


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario file, or the name of one that comes with Ettrick.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

ScenariosArgument = Annotated[
    list[str],
    typer.Argument(
        help="Scenario files, or names of ones that come with Ettrick.",
        metavar="SCENARIO",
        autocompletion=complete_shipped("scenarios"),
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value, e.g. horizon='90 d'. Repeatable."),
]

ClusterArgument = Annotated[
    str,
    typer.Argument(
        help="A topology or scenario file, or the name of one that comes with Ettrick.",
        metavar="CLUSTER",
        autocompletion=complete_shipped("topologies", "scenarios"),
    ),
]

ClusterSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value, e.g. fabric.radix=128. Repeatable."),
]

SeedOption = Annotated[int | None, typer.Option(metavar="N", help="Seed of all random numbers.", min=0)]

EngineOption = Annotated[
    Literal["auto", "events", "compiled"] | None,
    typer.Option(help="What simulates: events, machine code, or what pays. The numbers are the same."),
]

ProcessesOption = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", help="Processes; 0 for one per core.", min=0)
]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

StudyArgument = Annotated[
    str,
    typer.Argument(
        help="A study file, or the name of one that comes with Ettrick.",
        metavar="STUDY",
        autocompletion=complete_shipped("scenarios/studies"),
    ),
]

StudySetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the study, e.g. replications=64. Repeatable."),
]

OutOption = Annotated[Path | None, to_folder("Keep everything in this folder; the same command again resumes.")]

ExecutorOption = Annotated[
    Literal["serial", "process", "dask"] | None,
    typer.Option(help="Where it is simulated; without it, on all cores, or by the scheduler if one is named."),
]

AddressOption = Annotated[
    str, typer.Option(metavar="URL", help="Dask scheduler that listens, such as tcp://host:8786.")
]

SchedulerFileOption = Annotated[
    str, typer.Option(metavar="FILE", help="File that a Dask scheduler has left for its clients.")
]

StudyReplicationsOption = Annotated[
    int | None, _replications("Replications of each point; without it, what the study says.", 2)
]

PointPrecisionOption = Annotated[str | None, _precision("each point until its 95 % interval's half-width")]

ShardOption = Annotated[
    str | None, typer.Option(metavar="I/N", help="Simulate the I-th of N parts into --out; merge puts them together.")
]

MethodOption = Annotated[
    Literal["tornado", "sobol", "both"],
    typer.Option(help="Each input alone (tornado), all at once at random (sobol), or both."),
]

SamplesOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Points of a set for sobol, a power of two; there are inputs + 2 sets.", min=2),
]

MetricOption = Annotated[
    str, typer.Option(metavar="NAME", help="What is looked at; without it, the first metric of the study.")
]

TrialsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Points that are evaluated, where a search is needed; without it, the study's.", min=4
    ),
]

OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace what is in the --out folder, other results too; without it, those of the same scenario alone.",
        show_default=False,
    ),
]

ReplaceOption = Annotated[
    bool,
    typer.Option(
        "--overwrite/--no-overwrite",
        "--force",
        help="Replace files that are there; without it, they are left as they are.",
        show_default=False,
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", help="Simulate more than 100 million events, if it takes as many.")]

# Of run, and of compare: how much is simulated, what is reported, and where it is kept.

RunReplicationsOption = Annotated[
    int | None, _replications("How many; 32, 8 of streams and services, 1 where nothing is random.")
]

RunPrecisionOption = Annotated[str | None, _precision("until the 95 % interval's half-width")]

RunMetricOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The metric that --precision is about; ettr, or slo_attainment of services."),
]

BandOption = Annotated[
    int,
    typer.Option(metavar="N", help="Draws of the failure rates from their uncertainty, for band90; 0 for none.", min=0),
]

RunOutOption = Annotated[Path | None, to_folder("Write the resolved scenario and the JSON to this folder.")]

NodeLogOption = Annotated[
    bool, typer.Option("--node-log", help="With --out: also write when each node was down, to nodes.csv.")
]

SharesOption = Annotated[
    Path | None,
    typer.Option("--measured", metavar="FILE", help="CSV of weeks as for track: shares beside the simulated ones."),
]

TablesOption = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="With --out, of streams: also write tidy tables, such as metrics,ledger."),
]

SkipBadRowsOption = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out rows of a job trace that cannot be used, and count them.")
]

VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A,B,...",
        help="Make a variant of each value, e.g. spares.hot=0,4,16. Repeatable: all combinations.",
    ),
]

VariantReplicationsOption = Annotated[int, _replications("How many replications of each variant.")]

DifferencePrecisionOption = Annotated[str | None, _precision("until the half-width of each difference's 95 % interval")]

AtEqualOption = Annotated[
    Literal["gpus", "power", "cost"] | None,
    typer.Option(help="Compare unlike clusters by what they make of a GPU, of a megawatt, or of money."),
]

SplitOption = Annotated[
    bool,
    typer.Option("--split", help="Also run the variants without the checkpoint stores that recovery presets add."),
]

CompareOutOption = Annotated[Path | None, to_folder("Write the resolved scenarios and the JSON to this folder.")]

# Of explain and kernels: what a scenario rests on.

WorthOption = Annotated[
    bool, typer.Option("--worth", help="What each cause removed, and each knob better by a tenth, is worth.")
]

FormulaReplicationsOption = Annotated[
    int | None,
    _replications(
        "How many replications stand beside the closed form; 8 by default, 0 for none. With --worth: of each change, "
        "16 by default, 8 at least.",
        0,
    ),
]

JobOption = Annotated[str | None, typer.Option(metavar="NAME", help="Which job; without it, the first.")]

TopOption = Annotated[
    int | None, typer.Option(metavar="N", help="How many to show; without it, all. Others are added up.", min=1)
]

ShapesOption = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the shapes as test cases to this file.")
]

MeasuredTimesOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Measured times, in the columns of --csv. Twice: the second file against the first."
    ),
]

ThresholdOption = Annotated[
    float, typer.Option(metavar="SHARE", help="Change between two files that counts at least.", min=0.0)
]

NoiseOption = Annotated[
    float,
    typer.Option(metavar="SHARE", help="Relative standard deviation of a measurement, if none is repeated.", min=0.0),
]

KernelsOutOption = Annotated[Path | None, to_file("A page (.html), or the roofline (.svg, .png, .pdf).")]

# Of init: what a first scenario is of.


def _of_catalog(table: Literal["accelerators", "models", "bundles", "recoveries"], metavar: str = "NAME") -> Any:
    return typer.Option(metavar=metavar, help="A name from ettrick list.", autocompletion=complete_catalog(table))


StarterArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The file; without it, starter.yaml or what --name says.")
]
StarterGpusOption = Annotated[
    int, typer.Option(metavar="N", help="GPUs of the job: whole nodes, or 64 for each NVL72 rack.", min=1)
]
AcceleratorOption = Annotated[str, _of_catalog("accelerators")]
ModelOption = Annotated[str, _of_catalog("models")]
FailuresOption = Annotated[str, _of_catalog("bundles", "BUNDLE")]
RecoveryOption = Annotated[str, _of_catalog("recoveries", "PRESET")]
HorizonOption = Annotated[str, typer.Option(metavar="TIME", help="How long is simulated.")]
NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the scenario; without it, that of the file.")
]
SlurmConfOption = Annotated[
    Path | None,
    typer.Option("--slurm-conf", metavar="FILE", help="Take nodes, partitions and scheduler from a slurm.conf."),
]
TopologyConfOption = Annotated[
    Path | None, typer.Option("--topology-conf", metavar="FILE", help="And the leaf switches from a topology.conf.")
]

# Of trace: which part of which replication is written, and as what.

TimelineOption = Annotated[Path | None, to_file("The file: .json, or .json.gz to compress it.")]
LogsOption = Annotated[
    Path | None,
    typer.Option("--logs", metavar="DIR", help="Write the logs that its cluster would leave, for fit and track."),
]
ReplicationOption = Annotated[int, typer.Option(metavar="N", help="Which replication, counted from 0.", min=0)]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Leave out what is before it, such as 36 h.")
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Leave out what is behind it.")]

# Of layouts: which ones are looked at, and in which order they are shown.

LayoutJobOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which job or service; without it, the first.")
]
LayoutGpusOption = Annotated[
    int | None, typer.Option(metavar="N", help="GPUs of the job; without it, those that it asks for.")
]
LayoutsOption = Annotated[int, typer.Option(metavar="N", help="How many layouts to show.", min=1)]
SortOption = Annotated[
    Literal["goodput", "step", "gpu", "power", "money"] | None,
    typer.Option(
        help="Best first: by tokens of a day that survive failures, which is the default where a closed form says "
        "how many, or by the time of a step. Of a service: tokens per GPU, power or money against those of a user."
    ),
]
AnyTensorOption = Annotated[
    bool, typer.Option("--any-tensor", help="Also tensor groups larger than a scale-up domain.")
]
TryParametersOption = Annotated[
    bool, typer.Option("--try-parameters", help="Also divide parameters among replicas (FSDP, ZeRO-3).")
]
TryOptionsOption = Annotated[
    bool,
    typer.Option(
        "--try-options",
        help="Also ZeRO-2, zero-bubble schedules, recomputation of norms and activations alone, and up to 110 % of "
        "the memory, as check accepts it.",
    ),
]
LayoutsCsvOption = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Of a service: also write the layouts shown to this file."),
]
