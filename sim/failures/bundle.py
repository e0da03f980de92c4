"""A set of causes from the catalog, taken over with its counts and exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from ettrick.sim.failures.parts import Component, Defect, Incident, JobLevel
from ettrick.sim.failures.source import Clock, Renews
from ettrick.sim.scenario.fields import Fraction, RuleError, Strategy
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.failures.parts import Cause
    from ettrick.sim.policies.repair import RepairStrategy
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.yamlfile import Data, Table

_KINDS: dict[str, type[Cause]] = {"component": Component, "incident": Incident, "defect": Defect, "job": JobLevel}


class Bundle(Strategy):
    """Every cause of a published table; what is stated here holds for all of them that know it."""

    scale: float | dict[str, float] = Field(1.0, description="Multiplies all rates, or those of the causes named.")
    renews: Renews | None = Field(None, description="When the next life of a part begins.")
    clock: Clock | None = Field(None, description="Which time wears the parts out.")
    idle_hazard: Fraction | None = Field(
        None, description="Hazard of a node on which no process of a job runs, relative to one on which some do."
    )
    defer: bool | None = Field(
        None, description="Whether failures wait for the end of a phase that failures cannot hit, or never happen."
    )
    repair: Law | None = Field(
        None, description="Repair time of these causes, in place of their own and of the scenario's repair."
    )
    keeps_repair: bool = Field(
        False, description="Whether causes with a repair time of their own keep it where the scenario states a repair."
    )
    detection: Law | None = Field(None, description="Detection time of these causes, in place of their own.")

    def _broken_rules(self) -> BrokenRules:
        if self.keeps_repair and self.repair is not None:
            yield ("keeps_repair",), "keeps the repair times that repair replaces; leave one of the two out"

    def expand(
        self, content: Mapping[str, Data], stated: RepairStrategy | None = None, gpus_per_node: int | None = None
    ) -> list[Cause]:
        """Return the sources that the catalog file `content` describes.

        ``causes`` are counts over an exposure; ``sources`` are written as in a scenario.

        Parameters
        ----------
        content
            The file.
        stated
            The repair of the scenario, if it states one. Causes to which it applies return without a repair.
        gpus_per_node
            GPUs of a node [-], to which the rates of nodes are adapted (`of_node`); omitted: as they were counted.

        Raises
        ------
        ValueError
            If ``scale`` names a cause that the bundle lacks or is not above zero, or if what is stated here does not go
            with a cause.
        """
        if self.keeps_repair and not any("repair" in entry for entry in content.get("sources", ())):
            raise RuleError(("keeps_repair",), f"{self.use} has no repair times to keep; leave it out")
        entries = [*(_counted(cause, content) for cause in content.get("causes", ())), *content.get("sources", ())]
        names = [entry["name"] for entry in entries]
        scales = self.scale if isinstance(self.scale, dict) else dict.fromkeys(names, self.scale)
        for name, factor in scales.items():
            if name not in names:
                message = f"scale names '{name}', which is not a cause of {self.use} (choose from {', '.join(names)})"
                raise ValueError(message)
            if not factor > 0:
                message = f"scale must be above zero, not {factor:g} (leave a cause out by writing the others yourself)"
                raise ValueError(message)
        replaced = {entry["name"] for entry in self.replaced(content, stated)}
        by_node = set(of_node(content)) if gpus_per_node else set()
        ratio = (gpus_per_node or 1) / content.get("node_gpus", 1)
        return [
            self._build(
                _without_repair(entry, stated) if entry["name"] in replaced else entry,
                scales.get(entry["name"], 1.0) * (ratio if entry["name"] in by_node else 1.0),
            )
            for entry in entries
        ]

    def replaced(self, content: Mapping[str, Data], stated: RepairStrategy | None) -> list[Mapping[str, Data]]:
        """Return the entries of the file whose repair times the `stated` repair of the scenario replaces."""
        if stated is None or not stated.is_stated or self.repair is not None or self.keeps_repair:
            return []
        return [entry for entry in content.get("sources", ()) if "repair" in entry]

    def _build(self, entry: Mapping[str, Data], scale: float) -> Cause:
        """Return one source with what the user states in place of the catalog."""
        kind = _KINDS[entry["use"]]
        changes: Table = {"scale": scale * entry.get("scale", 1.0)}
        for name in ("renews", "clock", "defer", "repair", "detection", "idle_hazard"):
            value = getattr(self, name)
            if value is not None and name in kind.model_fields:
                # Text, where a fraction or a law is meant, because a model takes nothing else.
                changes[name] = self.model_dump(mode="json")[name]
        try:
            return kind.model_validate({**entry, **changes})
        except ValidationError as error:
            # What the catalog says is right, so something above does not go with it.
            reason = error.errors()[0]["ctx"]["error"]
            at = f"{'.'.join(map(str, reason.at))}: " if isinstance(reason, RuleError) else ""
            raise ValueError(f"cause '{entry['name']}' of {self.use}: {at}{reason}") from None


def of_node(content: Mapping[str, Data]) -> list[str]:
    """Return the causes of a catalog file that count by the node, where it says how many GPUs that has (``node_gpus``).

    On nodes of another size these rates are in proportion to the GPUs.
    """
    if "node_gpus" not in content:
        return []
    counted = [cause["name"] for cause in content.get("causes", ()) if cause["per"] == "node"]
    rows = content.get("sources", ())
    return counted + [row["name"] for row in rows if row["use"] == "component" and row.get("part", "node") == "node"]


def _without_repair(entry: Mapping[str, Data], stated: RepairStrategy | None) -> Mapping[str, Data]:
    """Return an entry without its repair time; tiers also decide whether a repair leaves the fault."""
    rest = {key: value for key, value in entry.items() if key != "repair"}
    if "relapse" in rest and stated is not None and stated.single_time is None:
        rest["relapse"] = {key: value for key, value in rest["relapse"].items() if key != "probability"}
    return rest


def _counted(cause: Mapping[str, Data], content: Mapping[str, Data]) -> Table:
    """Return a count over an exposure as a source."""
    per = cause["per"]
    entry: Table = {
        "use": "job" if per == "job" else "component",
        "name": cause["name"],
        "rate": f"{cause['count']} per {content['exposure'][f'{per}-day']} {per}-day",
        "events": cause["count"],
        "source": content["source"],
    }
    if "fault" in cause:
        entry["fault"] = cause["fault"]
    return entry if per == "job" else {**entry, "part": per}
