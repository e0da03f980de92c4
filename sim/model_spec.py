"""What a user may say of a model that is not in the catalog."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from sim.fields import Count, Model, RuleError
from sim.perf.shape import Experts, LatentAttention, ModelShape

__all__ = ["ExpertsSpec", "LatentSpec", "ModelSpec"]


class ExpertsSpec(Model):
    """Layers in which each token meets a few of many experts."""

    count: Count = Field(gt=0, le=10**6, description="Experts of a layer.")
    active: Count = Field(gt=0, description="Experts that a token is sent to.")
    ffn: Count = Field(gt=0, description="Feed-forward width of one expert.")
    shared: Count = Field(0, description="Feed-forward width that all tokens meet beside the experts.")
    dense_layers: Count = Field(0, description="Layers without experts.")
    domains: Count = Field(0, description="Scale-up domains that a token is sent to at most; 0 for any.")


class LatentSpec(Model):
    """Attention with keys and values through a narrow waist."""

    query_rank: Count = Field(gt=0, description="Width of the compressed queries.")
    kv_rank: Count = Field(gt=0, description="Width of the compressed keys and values.")
    head: Count = Field(gt=0, description="Width of a head's queries and keys without position.")
    rotary: Count = Field(gt=0, description="Width of a head's queries and keys with rotary position.")
    value: Count = Field(gt=0, description="Width of a head's values.")


class ModelSpec(Model):
    """The shape of a decoder-only transformer."""

    layers: Count = Field(gt=0, le=100_000, description="Layers.")
    hidden: Count = Field(gt=0, description="Width of the hidden state.")
    ffn: Count = Field(gt=0, description="Feed-forward width, of layers without experts.")
    heads: Count = Field(gt=0, le=10**6, description="Attention heads.")
    kv_heads: Count | None = Field(None, gt=0, description="Heads of keys and values; without it, one for each head.")
    vocabulary: Count = Field(gt=0, description="Entries of the vocabulary, as padded.")
    gated: bool = Field(True, description="Whether the feed-forward part has a gate: three matrices instead of two.")
    tied: bool = Field(False, description="Whether input and output share one table of embeddings.")
    head: Count | None = Field(None, gt=0, description="Width of a head; without it, hidden / heads.")
    experts: ExpertsSpec | None = Field(None, description="Mixture of experts.")
    latent: LatentSpec | None = Field(None, description="Latent attention.")
    depths: Count = Field(0, description="Modules that predict tokens further ahead.")

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.heads % (self.kv_heads or self.heads):
            raise RuleError(("kv_heads",), f"{self.heads} heads do not share {self.kv_heads} of keys and values evenly")
        if self.head is None and self.latent is None and self.hidden % self.heads:
            rule = f"{self.hidden} is not a whole number of {self.heads} heads; give the width of a head"
            raise RuleError(("hidden",), rule)
        experts = self.experts
        if experts is not None and experts.active > experts.count:
            raise RuleError(("experts", "active"), f"a token meets {experts.active} of {experts.count} experts")
        if experts is not None and experts.dense_layers >= self.layers:
            rule = f"{experts.dense_layers} layers without experts leave none of {self.layers} layers to have them"
            raise RuleError(("experts", "dense_layers"), rule)
        return self

    def shape(self) -> ModelShape:
        """Return it as the model of steps takes it."""
        return ModelShape(
            layers=self.layers,
            hidden=self.hidden,
            ffn=self.ffn,
            heads=self.heads,
            kv_heads=self.kv_heads or self.heads,
            vocabulary=self.vocabulary,
            gated=self.gated,
            tied=self.tied,
            head=self.head or 0,
            experts=Experts(**self.experts.model_dump()) if self.experts is not None else None,
            latent=LatentAttention(**self.latent.model_dump()) if self.latent is not None else None,
            depths=self.depths,
            title="a model that the scenario describes",
            source="the scenario",
        )
