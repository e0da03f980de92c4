"""A set of causes from the catalog, taken over with its counts and exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from sim.failures.component import Component
from sim.failures.job_level import JobLevel
from sim.failures.source import Renews
from sim.fields import Fraction, Strategy
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Bundle"]


class Bundle(Strategy):
    """Every cause of a published table: its count over its exposure is its rate."""

    scale: float | dict[str, float] = Field(1.0, description="Multiplies all rates, or those of the causes named.")
    renews: Renews = Field("at_failure", description="When the next life of a part begins.")
    idle_hazard: Fraction = Field(1.0, description="Hazard of a node without a job, relative to one with a job.")
    repair: Law | None = Field(None, description="Repair time of these causes, in place of the scenario's.")
    detection: Law | None = Field(None, description="Detection time of these causes, in place of the scenario's.")

    def expand(self, content: Mapping[str, Any]) -> list[Component | JobLevel]:
        """Return the sources that the catalog file `content` describes.

        Raises
        ------
        ValueError
            If ``scale`` names a cause that the bundle lacks, or is not above zero.
        """
        names = [cause["name"] for cause in content["causes"]]
        scales = self.scale if isinstance(self.scale, dict) else dict.fromkeys(names, self.scale)
        for name, factor in scales.items():
            if name not in names:
                message = f"scale names '{name}', which is not a cause of {self.use} (choose from {', '.join(names)})"
                raise ValueError(message)
            if not factor > 0:
                message = f"scale must be above zero, not {factor:g} (leave a cause out by writing the others yourself)"
                raise ValueError(message)
        sources: list[Component | JobLevel] = []
        for cause in content["causes"]:
            per = cause["per"]
            common: dict[str, Any] = {
                "name": cause["name"],
                "rate": f"{cause['count']} per {content['exposure'][f'{per}-day']} {per}-day",
                "scale": scales.get(cause["name"], 1.0),
                "events": cause["count"],
                "source": content["source"],
                "detection": self.detection,
            }
            if per == "job":
                sources.append(JobLevel.model_validate(common))
            else:
                own = {"part": per, "renews": self.renews, "repair": self.repair}
                sources.append(
                    Component.model_validate({**common, **own}).model_copy(update={"idle_hazard": self.idle_hazard})
                )
        return sources
