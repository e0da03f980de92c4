"""The bundles of the catalog: each is a consistent set, with the rates that were published and a source for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim import catalog
from ettrick.sim.failures.parts import Bundle
from ettrick.sim.input.scenario import REGISTRIES
from ettrick.sim.scenario.laws import Fixed
from tests.cases import cases
from tests.harness import results_of

SITE = "jobs=[{name: train, gpus: 2688, step_time: 10 s}]"

"""With 336 of 400 nodes of 8 GPUs; InfiniteHBD's cluster has 400 nodes."""

STRIKES_NODES = ("component", "incident", "defect")

REACH: dict[str, tuple[Any, tuple[str, ...]]] = {
    "clock": ("in_service", STRIKES_NODES),
    "idle_hazard": ("40 %", STRIKES_NODES),
    "defer": (True, STRIKES_NODES),
    "repair": ("3 d", STRIKES_NODES),
    "detection": ("7 min", (*STRIKES_NODES, "job")),
    "renews": ("at_return", ("component",)),
}

"""A value for each key, and the kinds of source that know it: a job has no node that could be repaired or be idle."""

# Swings and hidden faults know no time in service; the refusal is tested below.
WALL_ONLY = [(each, "clock") for each in ("infinitehbd", "airesim-defaults")]

REACHED = [(bundle, key) for bundle in catalog.bundles() for key in REACH if (bundle, key) not in WALL_ONLY]


def prepared(bundle: str, **keys: Any) -> sim.Prepared:
    """Return a scenario of 400 nodes with one bundle, some of its keys stated."""
    text = ", ".join(f"{key}: {value}" for key, value in {"use": bundle, **keys}.items())
    overrides = [f"failures=[{{{text}}}]", "cluster={nodes: 400, fabric: {rails: 1, leaf: {nodes: 25}}}", SITE]
    return sim.prepare(sim.load(sim.find("quickstart"), [*overrides, "spares.idle=serve"]))


def entries(bundle: str) -> list[dict[str, Any]]:
    """Return what the catalog says of each cause."""
    content = catalog.bundle(bundle)
    return [*content.get("causes", ()), *content.get("sources", ())]


def kinds(bundle: str) -> list[Any]:
    """Return the causes as a scenario would describe them."""
    model = REGISTRIES["failures"][bundle]
    described = model.model_validate({"use": bundle})
    assert isinstance(described, Bundle)
    return described.expand(catalog.bundle(bundle))


def interruptions(bundle: str) -> float:
    """Return how often failures interrupt a job on all 400 nodes [1/d], from the sources alone."""
    return sum(source.rate * source.interrupts * 86400 for source in prepared(bundle).sources)


@cases("bundle", catalog.bundles())
def test_every_number_has_a_source(bundle: str) -> None:
    """The bundle and each of its causes say where the numbers come from; what is counted says how much was seen."""
    content = catalog.bundle(bundle)
    assert content["title"]
    assert content["source"]
    for entry, kind in zip(entries(bundle), kinds(bundle), strict=True):
        assert entry.get("source") or "count" in entry
        assert kind.source
        assert "count" not in entry or kind.events == entry["count"]


@cases(
    ("bundle", "published"),
    [
        ("meta-rsc-1", 6.5e-3 * 400),
        ("meta-rsc-2", 2.34e-3 * 400),
        # 419 in 54 days on 2,048 nodes of 8 GPUs, of which 63 are one for the job whatever its size.
        ("llama3-table5", (419 - 63) / 110592 * 400 + 63 / 54),
        ("component-rates", (419 - 63) / 110592 * 400 + 63 / 54),
        # A bad node has five times the rate of the others on top of theirs, and 15 % are bad.
        ("airesim-defaults", 0.01 * (1 + 5 * 0.15) * 400),
    ],
)
def test_rates_are_those_published(bundle: str, published: float) -> None:
    """The causes together interrupt as often as was counted; the probabilities of component-rates have 3 digits."""
    assert interruptions(bundle) == pytest.approx(published, rel=2e-4)


def test_infinitehbd_has_its_classes() -> None:
    """The background falls on the classes as the 584 faults did."""
    background = {kind.name: kind for kind in kinds("infinitehbd") if kind.use == "component"}
    counts = {name: kind.events for name, kind in background.items()}
    assert sum(counts.values()) == 584
    total = sum(kind.rate.per_second for kind in background.values())
    for name, kind in background.items():
        # Rates are given to 1e-6 per node-day.
        assert kind.rate.per_second / total == pytest.approx(counts[name] / 584, abs=1e-6 / 2.2e-3)


@cases("bundle", ["component-rates", "infinitehbd"])
def test_repairs_have_the_means_that_they_state(bundle: str) -> None:
    """A log-normal law has the median and the mean of the data, as its source says them, and not a mean of its own."""
    stated = [kind for kind in kinds(bundle) if "at the median and" in kind.source]
    assert len(stated) >= 5
    for kind in stated:
        words = kind.source.replace(" h", "").split()
        place = words.index("median")
        median, mean = float(words[place - 3]), float(words[place + 2])
        assert kind.repair.ppf_one(0.5) == pytest.approx(median * 3600, rel=1e-9)
        # Sigma has 3 decimals: the mean is known to sigma times 0.0005.
        assert kind.repair.mean_value == pytest.approx(mean * 3600, rel=kind.repair.sigma * 5.1e-4)


def test_probabilities_of_component_rates_follow_from_two_counts() -> None:
    """P(interrupts) is Llama 3's rate of interruptions over InfiniteHBD's rate of faults."""
    found = {kind.name: kind for kind in kinds("component-rates") if getattr(kind, "interrupts", 1) < 1}
    assert sorted(found) == ["nic", "power_supply"]
    for name, faults, hits in (("nic", 30, 7), ("power_supply", 26, 3)):
        assert found[name].interrupts == pytest.approx(hits / 110592 / (faults / 139200), abs=5e-4)
        # What is known of the product rests on the interruptions.
        assert found[name].events == hits


@cases("bundle", catalog.bundles())
def test_scale_of_one_cause_and_of_all(bundle: str) -> None:
    """A factor for one cause moves that one; a number moves all, and nothing but the rates."""
    base = prepared(bundle).sources
    name = base[-1].name
    one = prepared(bundle, scale=f"{{{name}: 3}}").sources
    every = prepared(bundle, scale=3).sources
    for before, after, all_after in zip(base, one, every, strict=True):
        assert after.rate == pytest.approx(before.rate * (3 if before.name == name else 1))
        assert all_after.rate == pytest.approx(before.rate * 3)
        assert (after.repair, after.effect, after.part) == (before.repair, before.effect, before.part)


@cases(("bundle", "key"), REACHED)
def test_overrides_reach_every_source_that_has_the_key(bundle: str, key: str) -> None:
    """What is stated for the bundle holds for each of its causes, except where its kind lacks the key."""
    value, having = REACH[key]
    stated = REGISTRIES["failures"][bundle].model_validate({"use": bundle, key: value})
    assert isinstance(stated, Bundle)
    for kind, before in zip(stated.expand(catalog.bundle(bundle)), kinds(bundle), strict=True):
        assert (key in type(kind).model_fields) == (kind.use in having)
        if kind.use in having:
            assert getattr(kind, key) == getattr(stated, key) != getattr(before, key)


def test_an_override_reaches_the_run() -> None:
    """Node repairs of 3 days for all causes: with constant rates the nodes are down as Little's law says."""
    found = prepared("meta-rsc-1", repair="3 d", detection="0 s")
    runs = list(results_of(found, 24))
    shares = np.array([run.down_node_seconds / run.node_seconds for run in runs])
    # Lives renew at failure: outages begin at the rate, 3 d each; a node is down if at least one is open.
    # All are new at the start, so the first 3 days see fewer.
    exponent = 6.5e-3 * np.minimum(np.linspace(0, 30, 3001), 3.0)
    expected = float(np.mean(1 - np.exp(-exponent)))
    assert abs(shares.mean() - expected) < 4 * shares.std(ddof=1) / math.sqrt(len(runs))


OWN = "{use: component, name: board, part: node, rate: 1 per node-year, repair: 3 h}"

TIERS = "{use: tiers, tiers: [{name: reset, time: 1 s}]}"

BUNDLES_OWN = next(kind.repair for kind in kinds("component-rates") if kind.name == "gpu")


def with_repair(repair: str | None, entry: str = "") -> sim.Prepared:
    """Return a bundle some of whose causes have a repair time, beside a source of one's own, under a repair."""
    stated = [] if repair is None else [f"repair={repair}"]
    overrides = [f"failures=[{{use: component-rates{entry}}}, {OWN}]", *stated]
    data = sim.load(sim.find("quickstart"), overrides).dump()
    return sim.prepare(sim.parse({key: value for key, value in data.items() if stated or key != "repair"}))


@cases(
    ("repair", "entry", "gpu", "cpu"),
    [
        ("{time: 1 d}", "", ("scenario", Fixed(value="1 d")), ("scenario", Fixed(value="1 d"))),
        (TIERS, "", ("scenario", None), ("scenario", None)),
        ("{time: 1 d}", ", repair: 2 d", ("entry", Fixed(value="2 d")), ("entry", Fixed(value="2 d"))),
        (TIERS, ", repair: 2 d", ("entry", Fixed(value="2 d")), ("entry", Fixed(value="2 d"))),
        (None, ", repair: 2 d", ("entry", Fixed(value="2 d")), ("entry", Fixed(value="2 d"))),
        ("{time: 1 d}", ", keeps_repair: true", ("bundle", BUNDLES_OWN), ("scenario", Fixed(value="1 d"))),
        (TIERS, ", keeps_repair: true", ("bundle", BUNDLES_OWN), ("scenario", None)),
    ],
)
def test_whose_repair_applies(repair: str | None, entry: str, gpu: tuple[str, Any], cpu: tuple[str, Any]) -> None:
    """The source's own repair goes before that of the bundle's entry, that before the scenario's, then the bundle's.

    The catalog has a repair time of GPUs and none of CPUs. What strikes the job alone has no repair.
    """
    found = {source.name: (source.repair_from, source.repair) for source in with_repair(repair, entry).sources}
    assert found["gpu"] == gpu
    assert found["cpu"] == cpu
    assert found["board"] == ("source", Fixed(value="3 h"))
    assert found["software"][0] == ""


def test_a_bundle_whose_causes_all_have_repairs_needs_no_other() -> None:
    """Without a repair in the scenario those of the bundle apply, to the last cause."""
    scenario = {**sim.load(sim.find("quickstart")).dump(), "failures": [{"use": "infinitehbd"}]}
    del scenario["repair"]
    sources = sim.prepare(sim.parse(scenario)).sources
    assert {source.repair_from for source in sources} == {"bundle"}
    assert [source.repair for source in sources] == [kind.repair for kind in kinds("infinitehbd")]


def test_every_failure_of_hardware_goes_through_the_tiers_that_are_stated() -> None:
    """Each node that fails is repaired in the tiers, whatever the bundle says; with keeps_repair only some are."""
    for entry, all_of_them in (("", True), (", keeps_repair: true", False)):
        result = sim.run(with_repair(TIERS, f", scale: 50{entry}"), 0)
        begun = sum(number for cause, number in result.repairs.items() if cause != 17)  # 17 is the board
        assert begun > 100
        # A repair of a second that has begun is over, but for those of the last second.
        assert (begun - result.counts["repairs"] <= 1) is all_of_them


def test_a_replaced_repair_is_told() -> None:
    """A repair that is stated beside a bundle's own is announced, with what keeps these; else nothing is said."""
    size, line = with_repair("{time: 1 d}").warnings
    assert size.startswith("failures.0: component-rates was counted on jobs of 16,384 GPUs, and")
    assert line.startswith("failures.0: the scenario's repair (simple) replaces the repair times that component-rates")
    assert "8 of its 16 causes" in line
    assert line.endswith("keeps_repair: true keeps them")
    for entry in (", repair: 2 d", ", keeps_repair: true"):
        assert with_repair("{time: 1 d}", entry).warnings == (size,)
    assert not prepared("meta-rsc-1").warnings


def test_rates_by_the_node_are_in_proportion_to_the_gpus() -> None:
    """On trays of 4 GPUs a cause counted on servers of 8 strikes half as often each, so that 10,752 GPUs fail alike.

    By hand, of llama3-table5: 94 of 419 interruptions are counted by the node; the others by the GPU and by the job.
    """
    rates: dict[int, float] = {}
    for gpus in (8, 4):
        cluster = f"cluster={{nodes: {10_752 // gpus}, gpus_per_node: {gpus}}}"
        changes = ["failures=[{use: llama3-table5}]", cluster, SITE, "spares={hot: 0, idle: serve}"]
        case = sim.prepare(sim.load(sim.find("quickstart"), changes))
        names = [entry["name"] for entry in entries("llama3-table5") if entry["per"] == "node"]
        rates[gpus] = sum(source.rate for source in case.sources if source.name in names)
        adapted = [line for line in case.warnings if "by nodes of 8 GPUs: nodes of 4 have 0.5 times the rate" in line]
        assert len(adapted) == (gpus == 4)
    assert rates[4] == pytest.approx(rates[8], rel=1e-12)
    counted = sum(entry["count"] for entry in entries("llama3-table5") if entry["per"] == "node")
    assert rates[4] * 86_400 == pytest.approx(counted / 54 * 10_752 / 16_384)


def test_which_causes_keep_the_rate_of_another_job_is_told() -> None:
    """A job of 2,688 GPUs has the 63 software failures of 54 days of 16,384; in proportion it would have a sixth."""
    line = next(line for line in prepared("llama3-table5").warnings if "was counted on" in line)
    assert "software_bug, nccl_watchdog_timeout, dependency keep the rate of that job, 1.17 a day" in line
    assert f"{63 / 54:.3g} a day (in proportion to the GPUs {63 / 54 * 2_688 / 16_384:.3g})" in line


@cases(
    ("keys", "line"),
    [
        (
            {"use": "component-rates", "scale": {"hbn": 2}},
            "failures.0.scale.hbn: unknown cause 'hbn'; did you mean 'hbm'?",
        ),
        ({"use": "meta-rsc-1", "scale": {"nodes": 2}}, "unknown cause 'nodes'; did you mean 'node'?"),
        ({"use": "meta-rsc-1", "scale": {"node": 0}}, "failures.0: scale must be above zero, not 0"),
        ({"use": "meta-rsc-3"}, "failures.0.use: 'meta-rsc-3' is not a choice; did you mean 'meta-rsc-2'?"),
        (
            {"use": "infinitehbd", "clock": "busy"},
            "failures.0: cause 'gpu' of infinitehbd: tempo: needs clock: wall; on clock: busy there is no date",
        ),
        (
            {"use": "airesim-defaults", "clock": "in_service"},
            "failures.0: cause 'systematic' of airesim-defaults: clock: must be wall or busy",
        ),
        (
            {"use": "infinitehbd", "keeps_repair": True, "repair": "1 d"},
            "failures.0.keeps_repair: keeps the repair times that repair replaces; leave one of the two out",
        ),
        (
            {"use": "llama3-table5", "keeps_repair": True},
            "failures.0.keeps_repair: llama3-table5 has no repair times to keep; leave it out",
        ),
    ],
)
def test_what_does_not_go_with_a_cause_is_one_line(keys: dict[str, Any], line: str) -> None:
    """A name that is not there, and a key that a cause cannot take, are told in one line."""
    data = sim.load(sim.find("quickstart")).dump()
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse({**data, "failures": [keys]})
    (found,) = caught.value.lines
    assert line in found
    assert found.isprintable()
