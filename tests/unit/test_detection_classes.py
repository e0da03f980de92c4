"""Classes of faults: what follows from effect and part, what is stated, and what the catalog says of its causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from sim import catalog
from sim.cluster import FABRIC_PARTS
from sim.failures import SOURCES
from sim.failures.effects import Fault
from sim.input.scenario import REGISTRIES
from sim.policies.contracts import FAULTS
from sim.scenario.fields import RuleError
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

    from sim.failures import Source

COUNTS = {
    "gpu": 128,
    "node": 16,
    "rack": 4,
    "pdu": 2,
    "switch_tray": 36,
    "scale_up": 4,
    **dict.fromkeys(FABRIC_PARTS, 64),
}
RATES = {"component": "1 per year", "incident": "1 per year", "defect": "1 per year", "job": "1 per job-day"}


def built(use: str, **fields: Any) -> Source:
    """Return the runtime source of a cause."""
    cause: Any = SOURCES[use].model_validate({"name": "cause", "rate": RATES[use], **fields})
    source: Source = cause.build(COUNTS, 1)
    return source


def of_bundle(name: str) -> dict[str, Source]:
    """Return the runtime sources of a bundle by name."""
    bundle: Any = REGISTRIES["failures"][name].model_validate({"use": name})
    return {cause.name: cause.build(COUNTS, 1) for cause in bundle.expand(catalog.bundle(name))}


def test_classes_are_those_of_the_contract() -> None:
    """A user can state every class that the contract knows, and no other."""
    assert get_args(Fault) == tuple(FAULTS)


@cases(
    ("part", "fault"),
    [
        ("gpu", "gpu"),
        ("node", "host"),
        ("nic", "nic"),
        ("transceiver", "nic"),
        ("cable_node_leaf", "nic"),
        ("cable_leaf_spine", "switch"),
        ("leaf", "switch"),
        ("spine", "switch"),
        ("core", "switch"),
        ("switch_tray", "switch"),
        ("rack", "host"),
        ("pdu", "host"),
        ("scale_up", "host"),
    ],
)
def test_class_by_part(part: str, fault: str) -> None:
    """A crash is of the class of its part, also where the GPUs of a node are drawn as one."""
    source = built("component", part=part)
    assert source.fault == fault
    assert source.damage == "process"
    assert built("incident", part=part).fault == fault


def test_every_part_of_a_fabric_has_a_class() -> None:
    """No part of a fabric is taken for a host."""
    assert {built("component", part=part).fault for part in FABRIC_PARTS} == {"nic", "switch"}


@cases(
    ("effect", "fault"),
    [
        ("hang", "hang"),
        ({"kind": "slow", "factor": 0.5}, "slow"),
        ({"kind": "degrade", "bandwidth": 0.5}, "slow"),
        ("corrupt", "corrupt"),
    ],
)
def test_class_by_effect(effect: Any, fault: str) -> None:
    """What hangs, is slow or computes wrongly is of that class, whatever part it is."""
    for part in ("gpu", "node", "nic"):
        assert built("component", part=part, effect=effect).fault == fault
    assert built("defect", share=0.1, effect=effect).fault == fault


def test_class_of_jobs() -> None:
    """What strikes a job is the end of a process, a hang or a loss spike; what is planned is known."""
    assert built("job").fault == "process"
    assert built("job", effect="hang").fault == "hang"
    assert built("job", planned=True).fault == "planned"
    bug: Any = SOURCES["bug"].model_validate({"name": "bug", "rate": "1 per job-day", "fix": "1 h"})
    assert bug.build(COUNTS, 1).fault == "process"
    spike: Any = SOURCES["loss-spike"].model_validate({"name": "spike", "rate": "1 per job-day"})
    source = spike.build(COUNTS, 1)
    assert (source.fault, source.effect.kind) == ("spike", "spike")


def test_class_of_what_is_planned() -> None:
    """Maintenance and changes are planned."""
    windows = [{"start": "1 d", "duration": "1 h"}]
    maintenance: Any = SOURCES["maintenance"].model_validate({"name": "windows", "windows": windows})
    rollout: Any = SOURCES["rollout"].model_validate({"name": "driver", "nodes_per_day": 4, "duration": "1 h"})
    assert maintenance.build(COUNTS, 1).fault == rollout.build(COUNTS, 1).fault == "planned"


def test_class_of_a_log(tmp_path: Path) -> None:
    """The outages of a log are of hosts, unless another class is stated."""
    path = tmp_path / "log.csv"
    path.write_text("unit,start,end,cause\nn0,0,10,gpu\n", encoding="utf-8")
    for stated, fault in (({}, "host"), ({"fault": "gpu"}, "gpu")):
        replay: Any = SOURCES["replay"].model_validate({"file": str(path), **stated})
        sources, _ = replay.build_all(COUNTS)
        assert [source.fault for source in sources] == [fault]


def test_what_is_stated_wins() -> None:
    """A class or a damage that is stated replaces what would follow."""
    source = built("component", part="node", effect="hang", fault="driver", damage="reboot")
    assert (source.fault, source.damage) == ("driver", "reboot")
    assert built("job", fault="storage", damage="reboot").fault == "storage"
    assert built("job", damage="reboot").damage == "reboot"


@cases("fault", ["slow", "corrupt", "spike"])
def test_what_does_not_stop_a_job_cannot_crash_it(fault: str) -> None:
    """A class of faults that lets a job step on does not go with an effect that stops it."""
    with pytest.raises(RuleError, match="does not stop a job, and effect crash does"):
        built("component", fault=fault)
    with pytest.raises(RuleError, match="does not stop a job, and effect hang does"):
        built("job", fault=fault, effect="hang")
    assert built("component", fault=fault, effect="corrupt").fault == fault


@cases(
    ("bundle", "faults"),
    [
        (
            "llama3-table5",
            {
                "faulty_gpu": "gpu",
                "gpu_hbm3": "gpu",
                "software_bug": "process",
                "network_switch_cable": "switch",
                "host_maintenance": "host",
                "gpu_sram": "gpu",
                "gpu_system_processor": "driver",
                "nic": "nic",
                "nccl_watchdog_timeout": "hang",
                "silent_data_corruption": "gpu",
                "gpu_thermal_interface_sensor": "gpu",
                "ssd": "host",
                "power_supply": "host",
                "server_chassis": "host",
                "io_expansion_board": "host",
                "dependency": "process",
                "cpu": "host",
                "system_memory": "host",
            },
        ),
        (
            "component-rates",
            {
                "gpu": "gpu",
                "hbm": "gpu",
                "gpu_sram": "gpu",
                "gpu_system_processor": "driver",
                "gpu_thermal": "gpu",
                "silent_data_corruption": "gpu",
                "nic": "nic",
                "network_switch_or_cable": "switch",
                "power_supply": "host",
                "cpu": "host",
                "system_memory": "host",
                "ssd": "host",
                "chassis_or_io_board": "host",
                "host_maintenance": "host",
                "software": "process",
                "nccl_watchdog_timeout": "hang",
            },
        ),
        (
            "infinitehbd",
            {
                "gpu": "gpu",
                "unknown_error": "host",
                "stress_test": "host",
                "cable": "nic",
                "fan": "host",
                "nic": "nic",
                "power_supply": "host",
                "other": "host",
                "incident": "host",
            },
        ),
    ],
)
def test_classes_of_the_catalog(bundle: str, faults: dict[str, str]) -> None:
    """Every cause of the catalog has the class of what it says it is."""
    assert {name: source.fault for name, source in of_bundle(bundle).items()} == faults


def test_other_bundles_are_of_hosts() -> None:
    """The other bundles count nodes that fail, whatever of them it was."""
    named = {"llama3-table5", "component-rates", "infinitehbd"}
    for name in set(catalog.bundles()) - named:
        assert {source.fault for source in of_bundle(name).values()} == {"host"}
