"""What a user may say of the power and the price of a cluster."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.fields import Model, Power, RuleError

__all__ = ["CostSpec", "Money", "PowerSpec"]

Money = Annotated[float, Field(ge=0, le=1e15)]
"""An amount in the currency of the cost section."""

_OWNED = ("capex", "years", "energy", "storage", "repair", "labour")
"""Keys that say what owning costs."""


class PowerSpec(Model):
    """What the cluster draws; what is not said is taken from the catalog of accelerators."""

    pue: float = Field(1.2, ge=1, le=10, description="Power of the facility over that of what stands in it.")
    switch: Power = Field("690 W", le=1e9, description="What one switch of the fabric draws.")  # type: ignore[assignment]
    storage: Power = Field("0 W", le=1e12, description="What all storage draws.")  # type: ignore[assignment]
    idle: Power | None = Field(None, description="What a node draws without work; omitted: that of the catalog.")
    training: Power | None = Field(None, description="What a node draws in training; omitted: that of the catalog.")

    @model_validator(mode="after")
    def _idle_is_less(self) -> Self:
        if self.idle is not None and self.training is not None and self.idle > self.training:
            raise RuleError(("idle",), f"is {self.idle:g} W, but training takes only {self.training:g} W")
        return self


class CostSpec(Model):
    """What the cluster costs: rented by the GPU-hour, or owned."""

    currency: str = Field("USD", min_length=1, max_length=12, description="Of all prices; only a name.")
    gpu_hour: Money | None = Field(None, description="Rented: price of a GPU for an hour, with all that it takes.")
    capex: Money | None = Field(None, description="Owned: price of the cluster for each of its GPUs.")
    years: float | None = Field(None, gt=0, le=1000, description="Owned: over which the price is spread evenly.")
    energy: Money | None = Field(None, description="Owned: price of a kWh of the facility's energy.")
    storage: Money | None = Field(None, description="Owned: price of all storage for a year.")
    repair: dict[str, Money] = Field(
        default_factory=dict, description="Owned: price of a repair by class of part: gpu, node, nic, leaf, ..."
    )
    labour: Money | None = Field(None, description="Owned: price of the work of a repair, whatever the part.")
    allocation: Literal["requested", "gpus"] | None = Field(
        None,
        description="How several jobs share the cost: by the GPU-time that they asked for, or by their GPUs.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        owned = [name for name in _OWNED if getattr(self, name) not in (None, {})]
        if self.gpu_hour is not None and owned:
            message = f"is what rented GPUs cost, and {', '.join(owned)} what owned ones do: give one way, not both"
            raise RuleError(("gpu_hour",), message)
        missing = [name for name in ("capex", "years") if getattr(self, name) is None]
        if self.gpu_hour is None and missing:
            message = (
                f"give gpu_hour for rented GPUs, or capex and years for owned ones (missing: {', '.join(missing)})"
            )
            raise ValueError(message)
        return self
