"""What a run took: energy by what drew it, and money by what it was paid for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import CLUSTER_BUCKETS, Ratio, units
from sim.perf.power import STATE_OF_BUCKET, STATES, energy_by_bucket, facility_energy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.tally import Tally
    from sim import Prepared, Result
    from sim.perf.power import Facility, FacilityEnergy, PowerState

__all__ = ["amounts_of", "cost_content", "energy_content", "job_spending", "provisioned", "spending"]

_YEAR = units.DURATION.units["year"]
_DAY = units.DURATION.units["d"]
_HOUR = units.DURATION.units["h"]
_KWH = units.ENERGY.units["kWh"]
_MW = 1e6


def spending(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return what a replication took as metrics of the whole cluster; nothing that is not known.

    ``energy`` [J] and ``cost`` are those of the facility in the accounting window, idle nodes and repairs included;
    ``energy_per_token`` [J] and ``cost_per_token`` are over the tokens that survived, of all jobs;
    ``tokens_per_gpu_day`` and ``tokens_per_mw_day`` are these tokens over what is there to make them, used or not: the
    GPUs, and the power that the facility is built for.
    """
    tokens = [_tokens(prepared, result, index) for index in range(len(prepared.jobs))]
    return _metrics(
        _amounts(prepared, result), _endowment(prepared, result), sum(tokens), has_tokens=all(_has_tokens(prepared))
    )


def job_spending(prepared: Prepared, result: Result) -> list[dict[str, Ratio]]:
    """Return the same for each job: its share of what the cluster took, as the scenario shares it out."""
    shares = _shares(prepared, result)
    if shares is None:
        return [{} for _ in prepared.jobs]
    amounts, endowment = _amounts(prepared, result), _endowment(prepared, result)
    return [
        _metrics(
            {name: share * amount for name, amount in amounts.items()},
            {name: share * amount for name, amount in endowment.items()},
            _tokens(prepared, result, index),
            has_tokens=known,
        )
        for index, (share, known) in enumerate(zip(shares, _has_tokens(prepared), strict=True))
    ]


def amounts_of(prepared: Prepared, result: Result) -> tuple[dict[str, float], dict[str, int]]:
    """Return what a replication took, by name, and its repairs that are paid for, by class of part [-].

    ``seconds`` [s]; ``energy.<bucket>`` [J], where it is known what a node draws; ``cost.<what for>``, with prices.
    """
    found = {"seconds": _seconds(result)}
    if prepared.upkeep.facility is not None:
        found |= {f"energy.{bucket}": amount for bucket, amount in _of_nodes(prepared, result).items()}
    if prepared.upkeep.cost is None:
        return found, {}
    found |= {f"cost.{what}": amount for what, amount in _cost(prepared, result).items()}
    return found, _repairs(prepared, result)


def _metrics(
    amounts: Mapping[str, float], endowment: Mapping[str, float], tokens: float, *, has_tokens: bool
) -> dict[str, Ratio]:
    found = {name: Ratio(amount, 1) for name, amount in amounts.items()}
    if has_tokens:
        found |= {f"{name}_per_token": Ratio(amount, tokens) for name, amount in amounts.items()}
        found |= {f"tokens_per_{name}": Ratio(tokens, amount) for name, amount in endowment.items()}
    return found


def _amounts(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return what is known of the energy of a replication [J] and of its cost."""
    amounts = {}
    energy = _energy(prepared, result)
    if energy is not None:
        amounts["energy"] = energy.total
    if prepared.upkeep.cost is not None:
        amounts["cost"] = math.fsum(_cost(prepared, result).values())
    return amounts


def _endowment(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return what a replication had at hand, used or not: GPU-days, and MW-days where the power of a node is known."""
    found = {"gpu_day": result.owned / _DAY}
    power = provisioned(prepared)
    if power is not None:
        found["mw_day"] = power / _MW * _seconds(result) / _DAY
    return found


def provisioned(prepared: Prepared) -> float | None:
    """Return the power that the facility has to be built for [W]; ``None`` if it is not known what a node draws.

    ``P = (N P_training + P_network + P_storage) x PUE``: all nodes train at once, spares among them.
    """
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    return facility_energy(
        prepared.nodes * facility.node.training, facility.network, facility.storage, facility.pue
    ).total


def _has_tokens(prepared: Prepared) -> list[bool]:
    return [plan.tokens_per_second > 0 for plan in prepared.jobs]


def _tokens(prepared: Prepared, result: Result, index: int) -> float:
    """Return the tokens of a job that survived [-]."""
    return result.jobs[index].work * prepared.jobs[index].tokens_per_second


def _shares(prepared: Prepared, result: Result) -> list[float] | None:
    """Return the share of each job in what the cluster takes [-]; ``None`` if nobody says how they share it."""
    cost = prepared.upkeep.cost
    rule = cost.allocation if cost is not None else None
    if len(prepared.jobs) == 1:
        return [1.0]
    if rule is None:
        return None
    asked = [job.requested if rule == "requested" else float(job.gpus) for job in result.jobs]
    total = sum(asked)
    return [amount / total if total else 0.0 for amount in asked]


# ------------------------------------------------------------------------------------------------- energy


def _seconds(result: Result) -> float:
    """Return the length of the accounting window [s]."""
    return float(result.edges[-1] - result.edges[0])


def _of_nodes(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return the energy of the nodes by bucket of the cluster [J]."""
    facility = prepared.upkeep.facility
    assert facility is not None
    return energy_by_bucket(dict(zip(CLUSTER_BUCKETS, result.cluster.tolist(), strict=True)), facility.node)


def _energy(prepared: Prepared, result: Result) -> FacilityEnergy | None:
    """Return the energy of the facility by part [J]; ``None`` if it is not known."""
    facility = prepared.upkeep.facility
    if facility is None:
        return None
    seconds = _seconds(result)
    nodes = sum(_of_nodes(prepared, result).values())
    return facility_energy(nodes, facility.network * seconds, facility.storage * seconds, facility.pue)


def energy_content(tally: Tally) -> dict[str, Any] | None:
    """Return the energy of a mean replication by what drew it, and what that rests on, as plain data.

    Returns
    -------
    dict or None
        ``None`` if it is not known what a node draws.
    """
    facility = tally.prepared.upkeep.facility
    if facility is None:
        return None
    nodes = {bucket: float(np.mean(tally.amounts[f"energy.{bucket}"])) for bucket in CLUSTER_BUCKETS}
    seconds = float(np.mean(tally.amounts["seconds"]))
    whole = facility_energy(sum(nodes.values()), facility.network * seconds, facility.storage * seconds, facility.pue)
    node = facility.node
    return {
        "nodes_j": nodes,
        "network_j": whole.network,
        "storage_j": whole.storage,
        "overhead_j": whole.overhead,
        "total_j": whole.total,
        "pue": facility.pue,
        "switches": facility.switches,
        "switch_w": facility.switch,
        "node": {
            "idle_w": node.idle,
            "training_w": node.training,
            "gpus": node.gpus,
            "measured": node.measured,
            "source": node.source,
        },
        "assumptions": _assumptions(facility, tally.cluster),
    }


def _assumptions(facility: Facility, cluster: Any) -> list[str]:
    """Return what the energy rests on that nobody has measured."""
    lines = [] if facility.node.measured else [f"power of a node: estimate ({facility.node.source})"]
    spent = dict(zip(CLUSTER_BUCKETS, cluster.tolist(), strict=True))
    for name, state in STATES.items():
        buckets = [bucket for bucket, of in STATE_OF_BUCKET.items() if of == name and spent[bucket]]
        if buckets and not state.measured:
            lines.append(f"nodes in {', '.join(buckets)}: {_told(state)} ({state.basis})")
    lines.append(f"facility: PUE {facility.pue:g}, {facility.switches:,} switches of {facility.switch:g} W")
    if not facility.storage:
        lines.append("storage: not counted, for power.storage is 0 W")
    return lines


def _told(state: PowerState) -> str:
    """Return what a node in a state draws, in words."""
    if state.utilisation is None:
        return "off"
    if state.utilisation in (0, 1):
        return "as in training" if state.utilisation else "as idle"
    return f"{100 * state.utilisation:g} % of the way from idle to training"


# --------------------------------------------------------------------------------------------------- cost


def _repairs(prepared: Prepared, result: Result) -> dict[str, int]:
    """Return the repairs that are paid for, by class of part [-]."""
    found: dict[str, int] = {}
    for part, number in ((prepared.upkeep.repaired[cause - 1], number) for cause, number in result.repairs.items()):
        if part:
            found[part] = found.get(part, 0) + number
    return found


def _cost(prepared: Prepared, result: Result) -> dict[str, float]:
    """Return the cost of a replication by what it is paid for, in the currency of the scenario."""
    cost = prepared.upkeep.cost
    assert cost is not None
    repairs = _repairs(prepared, result)
    energy = _energy(prepared, result)
    years = _seconds(result) / _YEAR
    gpu_years = result.owned / _YEAR
    return {
        "capex": (cost.capex or 0.0) * gpu_years / (cost.years or 1.0),
        "energy": (cost.energy or 0.0) * (energy.total if energy is not None else 0.0) / _KWH,
        "storage": (cost.storage or 0.0) * years,
        "repair": math.fsum(cost.repair.get(part, 0.0) * number for part, number in repairs.items()),
        "labour": (cost.labour or 0.0) * sum(repairs.values()),
        "rent": (cost.gpu_hour or 0.0) * result.owned / _HOUR,
    }


def cost_content(tally: Tally) -> dict[str, Any] | None:
    """Return the cost of a mean replication by what it is paid for, as plain data.

    Returns
    -------
    dict or None
        ``None`` if the scenario has no prices.
    """
    cost = tally.prepared.upkeep.cost
    if cost is None:
        return None
    parts = {
        name.removeprefix("cost."): float(np.mean(each))
        for name, each in tally.amounts.items()
        if name.startswith("cost.")
    }
    return {
        "currency": cost.currency,
        "allocation": cost.allocation,
        **parts,
        "total": math.fsum(parts.values()),
        "repairs": {part: number / tally.replications for part, number in sorted(tally.repairs.items())},
    }
