"""How each job comes back, as plain data: who notices faults, where copies are kept, which ways back there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim import catalog, comeback, units

if TYPE_CHECKING:
    from sim import Comeback, Prepared, PreparedJob

__all__ = ["describe_recovery", "stores_of"]

_DAY = units.DURATION.units["d"]


def describe_recovery(prepared: Prepared, index: int) -> dict[str, Any]:
    """Return what there is to say about detection, stores and recovery of a job; see docs/reference/json.md."""
    scenario: Any = prepared.scenario
    found, job = comeback(prepared, index), prepared.jobs[index]
    name = scenario.recovery.use
    return {
        "interruptions_per_day": _DAY / job.mtti,
        "detection_mean_s": job.detection_mean,
        "classes": _classes(found),
        "stores": [_store(rung, job) for rung in stores_of(job)],
        "strategy": found.strategy,
        "summary": found.summary,
        "preset": _preset(name) if name in catalog.recoveries() else None,
        "scales": {
            "detection": scenario.detection.scale,
            "recovery": scenario.recovery.scale,
            "repair": prepared.repair.scale,
        },
        "settings": dict(found.settings),
        "rungs": [_way(way) for way in found.ways],
        "phases": _stages(found.stages),
        "human": _human(found),
    }


def stores_of(job: PreparedJob) -> list[Any]:
    """Return the stores of a job, the one that is saved to most often first."""
    return sorted(job.checkpoint.rungs, key=lambda rung: rung.interval)


def _classes(found: Comeback) -> list[dict[str, Any]]:
    """Return the classes of faults; without a name an observer is whoever tells the time that the scenario states."""
    return [
        {
            "fault": row.fault,
            "stops": row.stops,
            "causes": list(row.causes),
            "per_day": _DAY * row.rate,
            "known_after_s": row.known_after,
            "first": {name or "stated": share for name, share in row.shares.items()},
        }
        for row in found.classes
    ]


def _store(rung: Any, job: PreparedJob) -> dict[str, Any]:
    """Return one store; a live peer is never saved to."""
    live = rung.store == "peer"
    return {
        "store": rung.store,
        "interval_s": None if live else rung.interval,
        "period_s": None if live else rung.period(job.step_time),
        "steps": None if live or not job.step_time else round(rung.period(job.step_time) / job.step_time),
        "stall_s": rung.stall,
        "durable_after_s": rung.drain,
        "read_in_s": rung.load,
        "fetched_in_s": rung.fetch,
        "retain": rung.retain,
        "unreadable": rung.corrupt,
        "clique": rung.clique if rung.store == "peer-host" else None,
        "every_replica": rung.every_replica,
    }


def _preset(name: str) -> dict[str, Any]:
    """Return who says the numbers of a preset, and what each rests on."""
    content = catalog.recovery(name)
    notes = [note.partition(": ") for note in content["notes"]]
    return {
        "name": name,
        "title": content["title"],
        "source": content["source"],
        "notes": [{"basis": basis, "text": text} for basis, _, text in notes],
    }


def _way(way: Any) -> dict[str, Any]:
    """Return a rung of a ladder."""
    return {
        "name": way.name,
        "keeps": way.keeps,
        "pools": list(way.pools),
        "patience_s": way.patience,
        "budget": way.budget,
        "not_for": list(way.not_for),
        "except_first": way.except_first,
        "phases": _stages(way.stages),
    }


def _stages(stages: Any) -> dict[str, Any]:
    """Return phases by the name of what they are part of."""
    return {
        stage.name: {
            "mean_s": stage.mean,
            "parts": [
                {
                    "name": phase.name,
                    "mean_s": phase.mean,
                    "faults": list(phase.faults) if phase.faults is not None else None,
                }
                for phase in stage.phases
            ],
        }
        for stage in stages
    }


def _human(found: Comeback) -> dict[str, Any] | None:
    """Return who is called when a ladder has no rung left."""
    human = found.human
    return {"after_s": human.after, "no_progress": human.no_progress} if human is not None else None
