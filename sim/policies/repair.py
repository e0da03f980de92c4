"""Repair kinds: how a failed node returns to service."""

# Annotations are not postponed: pydantic would compile each at the start.
import functools
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from ettrick.sim.formulas.queues import mean_wait
from ettrick.sim.policies.contracts import RepairPlan, RepairStage
from ettrick.sim.scenario.fields import Count, Duration, Fraction, Model, OneOf, Strategy
from ettrick.sim.scenario.law_model import LawModel
from ettrick.sim.scenario.laws import Fixed, Law, draw
from ettrick.sim.scenario.model import Money
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.policies.contracts import Memory, NodeView
    from ettrick.sim.scenario.fields import BrokenRules


class Simple(Strategy):
    """A failed node is repaired at once, by as many crews as it takes, and is then healthy.

    A time of zero means that the node never leaves: the failure interrupts the job and nothing has to be replaced.
    """

    use: Literal["simple"] = "simple"
    time: Law | None = Field(
        None,
        description="From the moment when the failure is known to the node's return. Without it, that of each cause.",
    )
    scale: float = Field(1.0, gt=0, description="Multiplies all times of repair, those of causes included.")
    success: ClassVar[float] = 1.0
    """Every repair succeeds, unless its cause says otherwise."""
    crews: ClassVar[tuple[int | None, ...]] = (None,)
    """As many as it takes."""
    replacement: ClassVar[LawModel | None] = None
    """Nothing is retired."""

    @functools.cached_property
    def single_time(self) -> LawModel:
        """The law: there is nothing else to it. Without one every cause has its own."""
        return Fixed.from_seconds(value=0.0) if self.time is None else self.time.scaled(self.scale)

    @property
    def is_stated(self) -> bool:
        """Whether it says how long repairs take, and not only their scale."""
        return self.time is not None

    def diagnose(self, mark: "Callable[[str], float]") -> Literal["right", "other", "none"]:
        """Blame the node that failed."""
        return "right"

    def course(self, node: "NodeView", memory: "Memory") -> "tuple[RepairPlan, Memory]":
        """Repair once."""
        return RepairPlan((RepairStage(0, draw(self.single_time, node.mark, "repair")),), fixed=True), memory

    def score(self, memory: "Memory") -> float:
        """Nothing is remembered."""
        return 0.0


# Lemon policies: when a node that was blamed again and again is given up, judged by what operators see.


class BlameThreshold(Strategy):
    """Too many blames in a window of time."""

    use: Literal["threshold"] = "threshold"
    failures: int = Field(ge=1, description="Blames within the window that make a lemon.")
    window: Duration = Field(gt=0, description="Length of the window.")

    def blame(self, memory: "Memory", time: float, uptime: float) -> "tuple[Memory, bool]":
        """Remember the blames of the window."""
        recent = (*(moment for moment in memory or () if moment > time - self.window), time)
        return recent, len(recent) >= self.failures

    def score(self, memory: "Memory") -> float:
        """Fewer recent blames are better."""
        return -float(len(memory or ()))


class LemonScore(Strategy):
    """Points: a blame costs some, time without one gives some back."""

    use: Literal["score"] = "score"
    start: float = Field(100.0, gt=0, description="Points of a node without blames, and the most it can have.")
    blame_costs: float = Field(30.0, gt=0, description="Points that a blame costs.")
    regains: float = Field(10.0, ge=0, description="Points that a day of being up gives back.")
    floor: float = Field(0.0, description="Points at which a node is a lemon.")

    def blame(self, memory: "Memory", time: float, uptime: float) -> "tuple[Memory, bool]":
        """Give points for the time since the last return, then take some for the blame."""
        points = self.start if memory is None else memory
        points = min(points + self.regains * uptime / DAY, self.start) - self.blame_costs
        return points, points <= self.floor

    def score(self, memory: "Memory") -> float:
        """Return the points after the last blame."""
        return float(self.start if memory is None else memory)


LEMONS = {"threshold": BlameThreshold, "score": LemonScore}

LemonPolicy: TypeAlias = BlameThreshold | LemonScore


# Tiers of repair: from a reset to a replacement, with repairs that do not repair and crews that are busy.

_MOST_ROUNDS = 1000


def _purposes(number: int) -> tuple[str, ...]:
    """Return the names of the random numbers of a visit."""
    return tuple(f"{what} {number}" for what in ("repair", "escalates", "fixes", "finds", "qualification"))


_FIRST_PURPOSES = tuple(map(_purposes, range(8)))

"""The purposes of the random numbers of first visits, ready made."""


class RepairTier(Model):
    """Time, probabilities of success and escalation, and crews of one stage of repair."""

    name: str = Field(min_length=1, description="Name: process, reset, reboot, automated, manual, ...")
    time: Law = Field(description="How long it takes.")
    escalates: Fraction = Field(0.0, description="Probability that the node goes on to the next tier in any case.")
    fixes: Fraction = Field(1.0, description="Probability that the fault is gone if the node does not go on.")
    crews: int | None = Field(None, ge=1, description="Nodes it can work on at once; others wait their turn.")


class Qualification(Model):
    """Tests before a node may work again."""

    time: Law = Field(description="How long they take.")
    finds: Fraction = Field(1.0, description="Probability that they find a fault that is still there.")


class Diagnosis(Model):
    """The diagnosis: the node that is blamed when a job fails."""

    finds: Fraction = Field(
        1.0, description="Probability that some node is blamed; otherwise the one that failed is swapped, unrepaired."
    )
    blames_other: Fraction = Field(0.0, description="Probability that the blamed node is another one of the job.")


_FOR_EVER = 1e12

"""Wait for crews that stands for one without end [s]."""


class RepairTiers(Strategy):
    """A blamed node goes through tiers of repair, one after another, and returns, with or without its fault."""

    use: Literal["tiers"] = "tiers"
    tiers: tuple[RepairTier, ...] = Field(min_length=1, description="The tiers, lightest first.")
    qualification: Qualification | None = Field(None, description="Tests after each repair.")
    diagnosis: Diagnosis = Field(
        default_factory=lambda: Diagnosis.model_validate({}), description="Which node is blamed."
    )
    lemons: tuple[Annotated[LemonPolicy, OneOf("use", "lemons", get_args(LemonPolicy))], ...] = Field(
        (), description="Policies by which a node is a lemon; one is enough."
    )
    lemons_go_to: str = Field("retirement", description="Destination of lemons: retirement, or the name of a tier.")
    replacement: Law | None = Field(
        None, description="Time until a retired node is replaced by a new one; without it, never."
    )
    scale: float = Field(1.0, gt=0, description="Multiplies all times of repair, those of causes included.")
    single_time: ClassVar[LawModel | None] = None
    """There is more to it than a time."""
    is_stated: ClassVar[bool] = True
    """Tiers have their times."""

    def _broken_rules(self) -> "BrokenRules":
        names = [tier.name for tier in self.tiers]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("tiers", index, "name"), f"'{name}' is also the name of an earlier tier"
        last = len(names) - 1
        if self.tiers[last].escalates > 0:
            yield ("tiers", last, "escalates"), "must be 0 in the last tier: there is nowhere to go on to"
        finds = self.qualification.finds if self.qualification is not None else 0.0
        again = (1 - self.tiers[last].fixes) * finds
        if again > 1 - 1 / _MOST_ROUNDS:
            chain = f"makes a chain without end: the last tier fixes {self.tiers[last].fixes:g}"
            yield ("tiers", last, "fixes"), f"{chain}, and qualification sends the others back"
        if self.lemons_go_to not in ("retirement", *names):
            yield ("lemons_go_to",), f"must be retirement or a tier ({', '.join(names)}), not '{self.lemons_go_to}'"

    @property
    def success(self) -> float:
        """Probability that a node which begins at the first tier returns without the fault [-]."""
        finds = self.qualification.finds if self.qualification is not None else 0.0
        last = self.tiers[-1].fixes
        success = last / (1 - (1 - last) * finds)
        for tier in reversed(self.tiers[:-1]):
            success = tier.escalates * success + (1 - tier.escalates) * (
                tier.fixes + (1 - tier.fixes) * finds * success
            )
        return success

    def mean_time(self, tier: str = "", demand: float = 0.0) -> float:
        """Return the mean time of a course that begins at a tier [s]; of no lemons.

        Crews that a `demand` of the first tier keeps busy [1/s] are waited for as in M/M/c.
        """
        tests = self.qualification
        testing, finds = (tests.time.mean_value, tests.finds) if tests is not None else (0.0, 0.0)
        rows = []
        for stage in self.tiers[self._index(tier) :]:
            again = stage.escalates + (1 - stage.escalates) * (1 - stage.fixes) * finds
            time = stage.time.mean_value
            if stage.crews and demand and time:
                time += min(mean_wait(stage.crews, demand * time * self.scale, time), _FOR_EVER)
            rows.append((time, again))
            demand *= again
        last = self.tiers[-1]
        mean = (rows[-1][0] + testing) / (1 - (1 - last.fixes) * finds)
        for stage, (time, again) in zip(reversed(self.tiers[self._index(tier) : -1]), reversed(rows[:-1]), strict=True):
            mean = time + (1 - stage.escalates) * testing + again * mean
        return mean * self.scale * self.diagnosis.finds

    @property
    def crews(self) -> tuple[int | None, ...]:
        """Nodes that each tier can work on at once."""
        return tuple(tier.crews for tier in self.tiers)

    def diagnose(self, mark: "Callable[[str], float]") -> Literal["right", "other", "none"]:
        """Return which node is blamed."""
        diagnosis = self.diagnosis
        if diagnosis.finds < 1 and mark("diagnosis") >= diagnosis.finds:
            return "none"
        if diagnosis.blames_other > 0 and mark("blame") < diagnosis.blames_other:
            return "other"
        return "right"

    def course(self, node: "NodeView", memory: "Memory") -> "tuple[RepairPlan, Memory]":
        """Return the stays of a node, and what to remember of it: one memory for each lemon policy."""
        if not self.lemons:
            return self._visits(self._index(node.tier) if node.tier else 0, node.mark), memory
        memories: tuple[Memory, ...] = memory or (None,) * len(self.lemons)
        judged = [
            policy.blame(past, node.time, node.uptime) for policy, past in zip(self.lemons, memories, strict=True)
        ]
        memory = tuple(past for past, _ in judged)
        start = node.tier
        if any(lemon for _, lemon in judged):
            if self.lemons_go_to == "retirement":
                return RepairPlan((), fixed=True, retires=True), memory
            start = self.lemons_go_to
        return self._visits(self._index(start), node.mark), memory

    def _index(self, name: str) -> int:
        return next((index for index, tier in enumerate(self.tiers) if tier.name == name), 0)

    def _visits(self, index: int, mark: "Callable[[str], float]") -> RepairPlan:
        """Return the stays from a tier on."""
        compiled = self._compiled
        tests = self.qualification
        visits: list[RepairStage] = []
        number = 0
        while True:
            repair, escalates, fixes, finds, tested = (
                _FIRST_PURPOSES[number] if number < len(_FIRST_PURPOSES) else _purposes(number)
            )
            number += 1
            time, chance, success = compiled[index]
            seconds = time if type(time) is float else time(mark(repair))  # type: ignore[operator]
            visits.append(RepairStage(index, seconds * self.scale))
            if chance > 0 and mark(escalates) < chance:
                index += 1
                continue
            fixed = success >= 1 or mark(fixes) < success
            if tests is None:
                return RepairPlan(tuple(visits), fixed)
            visits.append(RepairStage(-1, draw(tests.time, mark, tested) * self.scale))
            if fixed or mark(finds) >= tests.finds:
                return RepairPlan(tuple(visits), fixed)
            index = min(index + 1, len(compiled) - 1)

    @functools.cached_property
    def _compiled(self) -> "tuple[tuple[float | Callable[[float], float], float, float], ...]":
        """The time of each tier, or the inverse CDF of its law, and the probabilities to escalate and to fix."""
        return tuple(
            (tier.time.value if isinstance(tier.time, Fixed) else tier.time.ppf_one, tier.escalates, tier.fixes)
            for tier in self.tiers
        )

    def score(self, memory: "Memory") -> float:
        """Return how good a node looks to the first lemon policy."""
        if not self.lemons:
            return 0.0
        return self.lemons[0].score(memory[0] if memory else None)


# Parts that repairs wait for.


class Returns(Model):
    """Broken parts that the vendor repairs: they return to the stock, and nothing is bought for them."""

    time: Law = Field(description="From the fault to the return of the part.")
    repaired: Fraction = Field(1.0, description="Share of the parts that return; the others are scrap.")


class Stock(Model):
    """Spare parts of one class: each repair that needs one takes it from the shelf, or waits in line for one."""

    stock: Count = Field(description="Parts on the shelf at the start; orders fill up to it.")
    lead: Law = Field(description="From an order to its arrival.")
    reorder: int | None = Field(
        None,
        description="An order is placed when what is on the shelf and on its way, less who waits, is so little. "
        "Without it, one below stock: each part is ordered as it is taken.",
    )
    deliveries: Duration | None = Field(
        None, gt=0, description="Time between two deliveries, the first after one: what arrives waits for the next."
    )
    causes: tuple[str, ...] | None = Field(
        None, description="Causes whose repairs need such a part; without it, those of parts of this class."
    )
    share: Fraction = Field(1.0, description="Share of these repairs that need one; the others never wait.")
    tier: str = Field("", description="With tiers of repair, the one that needs it; without it, the last.")
    returns: Returns | None = Field(None, description="Return of broken parts to the vendor.")
    price: Money | None = Field(None, description="Price of a part that is bought; it needs the section cost.")
    holding: Money | None = Field(None, description="Price of a part on the shelf for a year, likewise.")

    @property
    def least(self) -> int:
        """Parts at which an order is placed [-]."""
        return self.stock - 1 if self.reorder is None else self.reorder

    def _broken_rules(self) -> "BrokenRules":
        if not -1 <= self.least < self.stock:
            rule = f"must be at least -1 and below stock ({self.stock}), such as {self.stock - 1}, not {self.reorder}"
            yield ("reorder",), rule


REPAIRS = {"simple": Simple, "tiers": RepairTiers}

RepairStrategy: TypeAlias = Simple | RepairTiers
"""The repair of a node that is blamed for a failure. Tested by the harness ``check_repair``."""
