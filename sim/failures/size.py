"""How many nodes of a domain one incident takes."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from sim.fields import Fraction, Model, RuleError

__all__ = ["Size"]


class Size(Model):
    """Law of the number of nodes: exactly one of nodes, mean, share, and values."""

    nodes: int | None = Field(None, ge=1, description="Always as many.")
    mean: float | None = Field(None, ge=1, description="Mean of a geometric law that begins at `least`.")
    share: Fraction | None = Field(None, gt=0, description="Each node of the domain with this probability.")
    values: tuple[int, ...] | None = Field(None, min_length=1, description="Numbers of nodes that were observed.")
    weights: tuple[float, ...] | None = Field(None, description="How often each of `values` was; without it, equally.")
    least: int = Field(1, ge=1, description="Fewest nodes, with mean or share.")

    @model_validator(mode="after")
    def _one_law(self) -> Self:
        given = [name for name in ("nodes", "mean", "share", "values") if getattr(self, name) is not None]
        if len(given) != 1:
            message = f"give exactly one of nodes, mean, share and values (given: {', '.join(given) or 'none'})"
            raise ValueError(message)
        if self.mean is not None and self.mean < self.least:
            raise RuleError(("mean",), f"{self.mean:g} nodes are below the least of {self.least}")
        if self.least > 1 and self.mean is None and self.share is None:
            raise RuleError(("least",), "goes with mean or share; nodes and values say themselves how few they are")
        if self.values is not None and min(self.values) < 1:
            raise RuleError(("values",), f"an incident takes at least one node, not {min(self.values)}")
        if self.weights is not None and (
            self.values is None
            or len(self.weights) != len(self.values)
            or min(self.weights) < 0
            or not sum(self.weights) > 0
        ):
            raise RuleError(("weights",), "needs one number for each of values, none below zero and one above")
        return self

    def draw(self, number: float, members: int) -> int:
        """Return the number of nodes that a uniform number gives in a domain of `members` nodes."""
        if self.nodes is not None:
            size = self.nodes
        elif self.mean is not None:
            more = 1 - 1 / (self.mean - self.least + 1)
            size = self.least + (math.floor(math.log1p(-number) / math.log(more)) if more > 0 else 0)
        elif self.share is not None:
            from scipy.special import bdtr, bdtrik

            size = max(math.ceil(bdtrik(number, members, self.share)), 0)
            # The inverse is worked out by iteration; the number itself must be the smallest that reaches it.
            if size > 0 and bdtr(size - 1, members, self.share) >= number:
                size -= 1
            size = max(size, self.least)
        else:
            assert self.values is not None
            cumulative = np.cumsum(self.weights or (1.0,) * len(self.values))
            size = self.values[int(np.searchsorted(cumulative, number * cumulative[-1], side="right"))]
        return min(size, members)

    def mean_of(self, members: int) -> float:
        """Return the mean number of nodes in a domain of `members` nodes [-]."""
        if self.nodes is not None:
            return float(min(self.nodes, members))
        if self.mean is not None:
            more = 1 - 1 / (self.mean - self.least + 1)
            if members <= self.least:
                return float(members)
            return self.least + (more * (1 - more ** (members - self.least)) / (1 - more) if more > 0 else 0.0)
        if self.share is not None:
            from scipy.special import bdtrc

            least = min(self.least, members)
            return least + float(np.sum(bdtrc(np.arange(least, members), members, self.share)))
        assert self.values is not None
        weights = np.asarray(self.weights or (1.0,) * len(self.values))
        return float(np.minimum(self.values, members) @ weights / weights.sum())
