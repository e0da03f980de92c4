"""The shape of a model from the config.json of Hugging Face transformers, in the keys of a scenario.

References
----------
huggingface/transformers, the `configuration_*.py` files of its models: names and defaults of the settings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ettrick.sim.scenario.model import ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

Settings = dict[str, Any]


class ConfigError(ValueError):
    """No model follows from the file; the message is one line and says why."""


_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
}
"""Keys of a scenario that every file states, and how models call them."""

_FFN = ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")

_UNGATED = frozenset(
    "bloom codegen falcon gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt nemotron opt phi starcoder2".split()  # noqa: SIM905
)
"""Types of models whose feed-forward part has two matrices; all others have a gate."""

_TIED = frozenset(
    "bloom cohere falcon gemma gemma2 gemma3 gemma3_text gpt2 gpt_bigcode gpt_neo mpt opt starcoder2".split()  # noqa: SIM905
)
"""Types of models that share the table of embeddings unless their file says otherwise."""

_MOST_LAYERS = 100_000

_STATE_SPACES = ("mamba_d_state", "ssm_state_size", "ssm_cfg", "hybrid_override_pattern", "state_size")


def model_of(path: Path) -> tuple[str, ModelSpec]:
    """Return the type of the model of a config.json, and its shape.

    Raises
    ------
    ConfigError
        If the file cannot be read, or describes no decoder-only transformer.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigError(f"is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ConfigError("is no mapping of settings; give the config.json of a model")
    inner = content.get("text_config")  # of a model that also sees or hears
    settings: Settings = {**content, **inner} if isinstance(inner, dict) else content
    kind = str(settings.get("model_type", "model"))
    if settings.get("is_encoder_decoder") or kind == "bert":
        raise ConfigError(f"'{kind}' has an encoder; only decoder-only transformers are simulated")
    if any(settings.get(name) for name in _STATE_SPACES):
        raise ConfigError(f"'{kind}' has state-space layers, which are not read; describe them in jobs.model")
    try:
        keys = {name: value for name, value in _keys(settings, kind).items() if value is not None}
        return kind, ModelSpec.model_validate(keys)
    except ValidationError as error:
        mistake = error.errors()[0]
        place = "".join(f"{part}: " for part in mistake["loc"])
        raise ConfigError(f"{place}{mistake['msg'].removeprefix('Value error, ')}") from None
    except (AttributeError, LookupError, TypeError) as error:
        raise ConfigError(f"has a setting that no known model has ({error})") from None


def _keys(settings: Settings, kind: str) -> dict[str, Any]:
    """Return the keys of a scenario; ``None`` for those that are left out."""
    keys: dict[str, Any] = {}
    for name, words in _NAMES.items():
        keys[name] = _first(settings, words)
        if not keys[name]:
            raise ConfigError(f"states no {words[0]}; give the config.json of a decoder-only transformer")
    layers, heads, head = keys["layers"], keys["heads"], _first(settings, ("head_dim",))
    experts = _experts(settings, kind, layers)
    has_dense = experts is None or experts["dense_layers"] > 0
    keys["ffn"] = _ffn(settings, kind, keys["hidden"]) if has_dense else 0
    keys["kv_heads"] = _first(settings, ("num_key_value_heads", "num_kv_heads"))
    if settings.get("multi_query") and not settings.get("new_decoder_architecture"):
        keys["kv_heads"] = 1
    keys["gated"] = kind not in _UNGATED
    keys["tied"] = settings.get("tie_word_embeddings", kind in _TIED)
    keys["head"] = head if head and head * heads != keys["hidden"] else None
    keys["experts"] = experts
    keys["depths"] = _first(settings, ("num_nextn_predict_layers",))
    return keys | _latent(settings, heads) | _window(settings, kind, layers) | _linear(settings)


def _first(settings: Settings, names: tuple[str, ...]) -> Any:
    return next((settings[name] for name in names if settings.get(name) is not None), None)


def _ffn(settings: Settings, kind: str, hidden: int) -> int:
    stated: int | None = _first(settings, _FFN)
    if stated is None and kind not in _UNGATED:
        raise ConfigError("states no intermediate_size; give the config.json of a decoder-only transformer")
    return stated or 4 * hidden


def _experts(settings: Settings, kind: str, layers: int) -> Settings | None:
    """Return the mixture of experts, if the model has one."""
    count = _first(settings, ("num_local_experts", "num_experts", "n_routed_experts"))
    if not count or count == 1:
        return None
    width = _first(settings, ("moe_intermediate_size", "intermediate_size"))
    shared = settings.get("shared_expert_intermediate_size") or (settings.get("n_shared_experts") or 0) * width
    every = _first(settings, ("decoder_sparse_step", "interleave_moe_layer_step")) or 1
    without = settings.get("mlp_only_layers") or ()
    dense = settings.get("first_k_dense_replace")
    return {
        "count": count,
        "active": _first(settings, ("num_experts_per_tok", "experts_per_token", "moe_topk")),
        "ffn": width,
        "shared": width if kind.startswith("llama4") else shared,
        "dense_layers": dense or sum((at + 1) % every > 0 or at in without for at in range(min(layers, _MOST_LAYERS))),
        "domains": (settings.get("topk_group") or 0) if (settings.get("n_group") or 1) > 1 else 0,
    }


def _latent(settings: Settings, heads: int) -> Settings:
    """Return the keys of latent attention, if the model has it."""
    if not settings.get("kv_lora_rank"):
        return {}
    if not settings.get("q_lora_rank"):
        raise ConfigError("states kv_lora_rank without q_lora_rank; only latent attention with both is simulated")
    names = {"query_rank": "q_lora_rank", "kv_rank": "kv_lora_rank", "head": "qk_nope_head_dim"}
    names |= {"rotary": "qk_rope_head_dim", "value": "v_head_dim"}
    return {"latent": {key: settings.get(name) for key, name in names.items()}, "kv_heads": heads, "head": None}


def _window(settings: Settings, kind: str, layers: int) -> Settings:
    """Return the keys of sliding-window attention, if layers have it."""
    window, types = settings.get("sliding_window"), settings.get("layer_types")
    if not window or settings.get("use_sliding_window") is False:
        return {}
    full = layers // (settings.get("sliding_window_pattern") or (2 if kind == "gemma2" else layers + 1))
    windowed = types.count("sliding_attention") if types else layers - full
    return {"window": window, "windowed": windowed} if windowed else {}


def _linear(settings: Settings) -> Settings:
    """Return the keys of layers with linear attention (gated DeltaNet), if there are any."""
    recurrent = (settings.get("layer_types") or []).count("linear_attention")
    if not recurrent:
        return {}
    heads, groups = settings["linear_num_value_heads"], settings["linear_num_key_heads"]
    inner, state = heads * settings["linear_value_head_dim"], settings["linear_key_head_dim"]
    return {
        "recurrent": recurrent,
        "state": inner * state,
        "mixer": {"inner": inner, "state": state, "groups": groups, "heads": heads, "per_head": 2},
        "output_gate": bool(settings.get("attn_output_gate", True)),
    }
