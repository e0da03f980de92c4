"""The causes that a user states: parts that fail one by one, shared parts, jobs as a whole, and bundles."""

# Annotations are not postponed: pydantic would compile each at the start.
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from ettrick.sim.failures.effects import (
    CRASH,
    Aftermath,
    BlastRadius,
    Effect,
    Fault,
    Hang,
    IncidentSize,
    Spike,
    fault_of,
)
from ettrick.sim.failures.source import (
    KNOWN,
    Clock,
    FailureSource,
    HiddenFault,
    ImperfectRepair,
    Renews,
    slots_per_node,
)
from ettrick.sim.failures.variety import Frailty, HazardModulation, UnitBatch, Variety
from ettrick.sim.scenario.fields import Duration, Fraction, Model, Rate, RuleError, Strategy, default
from ettrick.sim.scenario.laws import Exponential, Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.failures.effects import EffectModel
    from ettrick.sim.policies.repair import RepairStrategy
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel
    from ettrick.sim.yamlfile import Data, Table


class Cause(Strategy, ABC):
    """A cause with a constant rate or a law of lives."""

    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    rate: Rate | None = Field(
        None, description="Constant rate, for example '6.5 per 1000 node-days' or '1 per job-day'."
    )
    law: Law | None = Field(None, description="Law of the lives, instead of a constant rate.")
    scale: float = Field(1.0, gt=0, description="Multiplies the rate.")
    detection: Law | None = Field(None, description="Detection time of this cause, instead of the scenario's.")
    planned: bool = Field(False, description="Whether its interruptions count as planned.")
    fault: Fault | None = Field(
        None,
        description="Fault class: what observers detect and recovery strategies respond to. By default planned for "
        "planned interruptions; else by the effect: hang, slow (degrade too), corrupt or spike; else by the part: "
        "process for a job, gpu, nic, switch for switches and the cables between them, host for all others.",
    )
    damage: Aftermath = Field(
        "process",
        description="Effect on the hosts that stay in the job: process ends their processes, but their memory "
        "survives; reboot restarts them, and their memory is lost.",
    )
    events: int | None = Field(
        None, ge=0, description="Number of observed events behind the rate, for its uncertainty."
    )
    source: str = Field("", description="Where the numbers come from.")

    def _broken_rules(self) -> "BrokenRules":
        if (self.rate is None) == (self.law is None):
            yield (), "give exactly one of rate and law"
        if self.law is not None and self.law.mean_value == 0:
            yield ("law",), "must have a mean above zero: who lives no time fails without end"

    def watched(self, part: str, effect: "EffectModel") -> "Table":
        """Return what the runtime source takes over for those who watch a part, and for those who come after them.

        Raises
        ------
        RuleError
            If a fault of the class stated does not stop a job, and the effect does.
        """
        if effect.stops and self.fault in ("slow", "corrupt", "spike"):
            rule = f"'{self.name}': a fault of class {self.fault} does not stop a job, and effect {effect.use} does"
            raise RuleError(("fault",), rule)
        return {
            "fault": self.fault or fault_of(part, effect, planned=self.planned),
            "damage": self.damage,
            "detection": self.detection,
            "planned": self.planned,
            "events": self.events,
        }

    @abstractmethod
    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts and for `jobs` jobs.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """

    def lives(self, units_per_slot: float = 1.0) -> "LawModel | None":
        """Return the law of a slot's life; ``None`` if nothing ever fails (a rate of zero).

        Parameters
        ----------
        units_per_slot
            How many of the units that the rate is stated for one slot stands for [-].
        """
        if self.law is not None:
            return self.law.scaled(1 / self.scale)
        per_second = self.rate.per_second * self.scale * units_per_slot if self.rate is not None else 0.0
        return Exponential.from_seconds(mean=1 / per_second) if per_second else None


class Relapse(Model):
    """A repair may leave the fault in the node; it then strikes again."""

    after: Law = Field(description="Time from the return of the node to the next failure.")
    probability: Fraction | None = Field(
        None, lt=1, description="Probability that a repair leaves the fault; with repair tiers, these decide."
    )

    def _broken_rules(self) -> "BrokenRules":
        if self.after.mean_value == 0:
            yield ("after",), "must have a mean above zero: a fault that strikes at once does so without end"


class NodeSource(Cause):
    """The common part of causes that strike nodes; a kind of source says which nodes."""

    clock: Clock = Field("wall", description="Time that ages the part: all, in service, or busy with a job.")
    idle_hazard: Fraction = Field(
        1.0, description="Hazard of a node that runs no job process, relative to a node that does."
    )
    defer: bool = Field(
        False,
        description="Whether a failure in a phase that failures cannot hit strikes after it (true) or never (false).",
    )
    interrupts: Fraction = Field(1.0, description="Probability that a fault becomes a failure.")
    effect: Effect = default("crash", description="Effect of the fault: crash, hang, slow, degrade, corrupt.")
    repair: Law | None = Field(None, description="Repair time of this cause, instead of the scenario's.")
    tier: str = Field("", description="First repair tier, if the scenario has tiers. [default: the first of them]")
    relapse: Relapse | None = Field(None, description="Relapse, if a repair leaves the fault in the node.")
    tempo: HazardModulation | None = Field(None, description="How the hazard of all units changes over time.")

    def _broken_rules(self) -> "BrokenRules":
        yield from super()._broken_rules()
        if self.idle_hazard < 1 and self.clock == "wall" and self.law is not None and not self.law.memoryless:
            yield (), _thinned(self.law)
        if self.tempo is not None and self.clock != "wall":
            yield ("tempo",), f"needs clock: wall; on clock: {self.clock} there is no date"

    def common(self, part: str) -> "Table":
        """Return what the runtime source of a part takes over as it is."""
        return {
            "name": self.name,
            "clock": self.clock,
            "idle_hazard": self.idle_hazard,
            "defer": self.defer,
            "interrupts": self.interrupts,
            "effect": self.effect,
            "repair": self.repair,
            "residue": ImperfectRepair(self.relapse.after, self.relapse.probability)
            if self.relapse is not None
            else None,
            "tier": self.tier,
            "tempo": self.tempo,
            **self.watched(part, self.effect),
        }

    def life(self, part: str, counts: "Mapping[str, int]") -> "LawModel | None":
        """Return the law of the life of one `part`; ``None`` if nothing ever fails (a rate of zero).

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        if not counts.get(part):
            there = ", ".join(name for name, count in counts.items() if count)
            raise RuleError(("part",), f"the cluster has no part '{part}' (it has {there})")
        of = part if self.rate is None else self.rate.of or part
        if of not in counts:
            raise RuleError(("rate",), f"is per {of}, and the cluster has no part '{of}'")
        return self.lives(counts[of] / counts[part])


def _thinned(law: Law) -> str:
    """Return the rule that a law breaks which ages."""
    return (
        f"idle_hazard below 1 thins the failures, which is right only for a constant rate; "
        f"with law '{law.use}' let the life run on clock: busy instead"
    )


class Component(NodeSource):
    """A class of part in the topology; each part has its own lifetime."""

    use: Literal["component"] = "component"
    part: str = Field("node", description="Class of part: gpu, node, nic, leaf, rack, pdu, ...")
    renews: Renews = Field("at_failure", description="When the next life begins.")
    frailty: Frailty | None = Field(None, description="Some nodes are worse than others, for unknown reasons.")
    batches: tuple[UnitBatch, ...] = Field((), description="Parts of the fleet with a different law or hazard.")

    def _broken_rules(self) -> "BrokenRules":
        yield from super()._broken_rules()
        total = sum(batch.share for batch in self.batches)
        if total > 1 + 1e-12:
            yield ("batches",), f"the shares add up to {total:g}; together they can be 1 at most"
        for index, batch in enumerate(self.batches):
            if self.idle_hazard < 1 and self.clock == "wall" and batch.law is not None and not batch.law.memoryless:
                yield ("batches", index, "law"), _thinned(batch.law)

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        counts = {**counts, "cluster": 1}
        part, law = self.part, self.life(self.part, counts)
        variety = Variety(self.frailty, self.batches)
        foldable = self.renews != "never" and not variety.within_node
        if (
            part == "gpu"
            and law is not None
            and foldable
            and all(unit_law.memoryless for unit_law in variety.laws(law))
        ):
            # Memoryless lives of the GPUs of one node are one life of the node at their summed rate: an eighth of
            # the numbers to draw, and no other difference.
            share = counts["node"] / counts["gpu"]
            part, law, variety = "node", law.scaled(share), variety.scaled(share)
        return FailureSource(
            part=part,
            units=counts[part],
            law=law,
            renews=self.renews,
            variety=variety,
            slots_per_node=slots_per_node(part, counts),
            **self.common(self.part),
        )


class Defect(NodeSource):
    """A fault that a share of the nodes has. It strikes by its own law until a repair removes it.

    Any successful repair of the node removes it, whatever it was for.
    """

    use: Literal["defect"] = "defect"
    share: Fraction = Field(description="Share of the nodes that have it at the start.")
    exact: bool = Field(
        False, description="Whether exactly this share has it (rounded down), not each node with this probability."
    )
    onset: Rate | None = Field(None, description="Rate at which nodes without the fault get it.")

    def _broken_rules(self) -> "BrokenRules":
        yield from super()._broken_rules()
        if self.relapse is not None:
            yield ("relapse",), "a hidden fault that a repair leaves strikes again by its own law"
        if self.clock == "in_service":
            yield ("clock",), "must be wall or busy"
        if self.tempo is not None:
            yield ("tempo",), "a hidden fault strikes only by its law"
        if self.onset is not None and self.onset.of not in ("", "node"):
            yield ("onset",), f"is per node, not per {self.onset.of}"

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the rate is stated for another kind of part.
        """
        onset = None
        if self.onset is not None and self.onset.per_second > 0:
            onset = Exponential.from_seconds(mean=1 / self.onset.per_second)
        source = FailureSource(
            part="node", units=counts["node"], law=self.life("node", counts), slots_per_node=1, **self.common("node")
        )
        return replace(source, hidden=HiddenFault(self.share, self.exact, onset))


class Incident(NodeSource):
    """An event that takes down a random part of the nodes of a domain, at once or one after another.

    With ``spread`` it is a cluster process: incidents are the parents, and each node that one takes fails by itself.
    """

    use: Literal["incident"] = "incident"
    part: str = Field("cluster", description="The shared part: cluster, rack, pdu, leaf, pod, ...")
    size: IncidentSize | None = Field(None, description="How many nodes go down. [default: all of the domain]")
    spread: Law | None = Field(
        None, description="Delay of each node, which then fails separately. [default: all fail as one failure]"
    )
    repaired: Literal["part", "nodes"] = Field(
        "nodes", description="Whether each node has its own repair, or one repair fixes the shared part."
    )

    def _broken_rules(self) -> "BrokenRules":
        yield from super()._broken_rules()
        if self.spread is not None and self.repaired == "part":
            yield ("repaired",), "must be nodes with a spread: each node is then a failure of its own"
        if self.repaired == "part" and self.relapse is not None:
            yield ("relapse",), "needs repaired: nodes; it is nodes that relapse"
        if self.clock != "wall":
            yield ("clock",), f"must be wall: a {self.part} serves many jobs, or none"

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        counts = {**counts, "cluster": 1}
        law = self.life(self.part, counts)
        source = FailureSource(part=self.part, units=counts[self.part], law=law, **self.common(self.part))
        return replace(source, blast=BlastRadius(counts["node"], self.size, self.spread, self.repaired))


class JobSource(Cause):
    """The common part of causes that strike a job as a whole: one life per job, whatever its size."""

    def _broken_rules(self) -> "BrokenRules":
        yield from super()._broken_rules()
        if self.rate is not None and self.rate.of not in ("", "job"):
            rule = f"must be per job, not per {self.rate.of}: it strikes the job as a whole; use a component for parts"
            yield ("rate",), rule

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for `jobs` jobs."""
        effect = self._effect()
        return FailureSource(
            name=self.name, part="job", units=jobs, law=self.lives(), effect=effect, **self.watched("job", effect)
        )

    def _effect(self) -> "EffectModel":
        """Return what it does to the job."""
        return CRASH


class JobLevel(JobSource):
    """A lifetime per job, whatever its size; it runs while failures can hit the job. No node goes down."""

    use: Literal["job"] = "job"
    effect: Literal["crash", "hang"] = Field("crash", description="Whether the job reports an error or stops silently.")

    store_out: Law | None = Field(
        None, description="Time afterwards in which the stores outside the nodes cannot be read; for storage faults."
    )

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), clock="busy", store_out=self.store_out)

    def _effect(self) -> "EffectModel":
        """Return what it does to the job."""
        return Hang() if self.effect == "hang" else CRASH


class Bug(JobSource):
    """A deterministic fault: the job fails each time it reaches one point of its work, until the program is fixed.

    Its lives count healthy work, not time: a job that stands still meets no new bug.
    """

    use: Literal["bug"] = "bug"
    fix: Law = Field(description="Time from the first failure to the fixed program.")

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), fix=self.fix)


class LossSpike(JobSource):
    """The loss spikes without a hardware fault; the job keeps stepping until the spike is noticed, then rewinds.

    Runs rewind some hundred steps and leave out the data that they met there: PaLM did so some twenty times
    (arXiv 2204.02311, section 5.1). The data that are left out cost no time.
    """

    use: Literal["loss-spike"] = "loss-spike"
    rewind: Duration = default(
        "0 s", description="Work before the spike that is discarded too, as time of healthy stepping."
    )

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for `jobs` jobs."""
        return replace(super().build(counts, jobs), clock="busy")

    def _effect(self) -> "EffectModel":
        return Spike(rewind=f"{self.rewind!r} s")


class Preemption(JobSource):
    """A job gives up all its nodes for a while; with enough notice it saves first."""

    use: Literal["preemption"] = "preemption"
    notice: Duration = default(
        "0 s", description="Time between notice and stop: the job saves if a save takes no longer."
    )
    away: Law = Field(description="Time before the job is eligible in the queue again.")
    planned: bool = Field(True, description="Whether its interruptions count as planned.")

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for `jobs` jobs."""
        source = super().build(counts, jobs)
        return replace(source, clock="busy", detection=KNOWN, saves=True, notice=self.notice, away=self.away)


# A set of causes from the catalog, taken over with its counts and exposure.

_KINDS: dict[str, type[Cause]] = {"component": Component, "incident": Incident, "defect": Defect, "job": JobLevel}


class Bundle(Strategy):
    """Every cause of a published table; what is stated here holds for all of them that know it."""

    scale: float | dict[str, float] = Field(1.0, description="Factor of all rates, or of those of the named causes.")
    renews: Renews | None = Field(None, description="When the next life of a part begins.")
    clock: Clock | None = Field(None, description="Time that ages the parts: all, in service, or busy with a job.")
    idle_hazard: Fraction | None = Field(
        None, description="Hazard of a node that runs no job process, relative to a node that does."
    )
    defer: bool | None = Field(
        None,
        description="Whether failures in a phase that failures cannot hit strike after it (true) or never (false).",
    )
    repair: Law | None = Field(
        None, description="Repair time of these causes, instead of their own and of the scenario's repair."
    )
    keeps_repair: bool = Field(
        False, description="Whether causes with their own repair time keep it if the scenario states a repair."
    )
    detection: Law | None = Field(None, description="Detection time of these causes, instead of their own.")

    def _broken_rules(self) -> "BrokenRules":
        if self.keeps_repair and self.repair is not None:
            yield ("keeps_repair",), "keeps the repair times that repair replaces; leave one of the two out"

    def expand(
        self, content: "Mapping[str, Data]", stated: "RepairStrategy | None" = None, gpus_per_node: int | None = None
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
        scales = self._scales([entry["name"] for entry in entries])
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

    def _scales(self, names: list[str]) -> dict[str, float]:
        """Return the factors of rates, by the causes that have one."""
        scales = self.scale if isinstance(self.scale, dict) else dict.fromkeys(names, self.scale)
        for name, factor in scales.items():
            if name not in names:
                message = f"scale names '{name}', which is not a cause of {self.use} (choose from {', '.join(names)})"
                raise ValueError(message)
            if not factor > 0:
                message = f"scale must be above zero, not {factor:g} (leave a cause out by writing the others yourself)"
                raise ValueError(message)
        return scales

    def replaced(self, content: "Mapping[str, Data]", stated: "RepairStrategy | None") -> "list[Mapping[str, Data]]":
        """Return the entries of the file whose repair times the `stated` repair of the scenario replaces."""
        if stated is None or not stated.is_stated or self.repair is not None or self.keeps_repair:
            return []
        return [entry for entry in content.get("sources", ()) if "repair" in entry]

    def _build(self, entry: "Mapping[str, Data]", scale: float) -> Cause:
        """Return one source with what the user states instead of the catalog."""
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
            at = f"{'.'.join(map(str, reason.at))}: " if isinstance(reason, RuleError) and reason.at else ""
            raise ValueError(f"cause '{entry['name']}' of {self.use}: {at}{reason}") from None


def of_node(content: "Mapping[str, Data]") -> list[str]:
    """Return the causes of a catalog file that count by the node, where it says how many GPUs that has (``node_gpus``).

    On nodes of another size these rates are in proportion to the GPUs.
    """
    if "node_gpus" not in content:
        return []
    counted = [cause["name"] for cause in content.get("causes", ()) if cause["per"] == "node"]
    rows = content.get("sources", ())
    return counted + [row["name"] for row in rows if row["use"] == "component" and row.get("part", "node") == "node"]


def _without_repair(entry: "Mapping[str, Data]", stated: "RepairStrategy | None") -> "Mapping[str, Data]":
    """Return an entry without its repair time; tiers also decide whether a repair leaves the fault."""
    rest = {key: value for key, value in entry.items() if key != "repair"}
    if "relapse" in rest and stated is not None and stated.single_time is None:
        rest["relapse"] = {key: value for key, value in rest["relapse"].items() if key != "probability"}
    return rest


def _counted(cause: "Mapping[str, Data]", content: "Mapping[str, Data]") -> "Table":
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
