"""What the numbers of a step rest on, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["band_text", "degraded_text", "source_of_term", "unit_text"]


def unit_text(value: float, unit: str) -> str:
    """Return a number with its unit and prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _share(value: float) -> str:
    """Return a share in percent, to three digits."""
    return f"{100 * value:.3g} %"


def source_of_term(job: dict[str, Any], term: str) -> str:
    """Return what a term of the breakdown rests on."""
    return _SOURCES[term](job)


def band_text(job: dict[str, Any], fit: dict[str, Any]) -> str:
    """Return which measured steps the band of a modelled step rests on."""
    chip, basis = job["accelerator"], job["efficiencies"]["gemm"]["basis"]
    of = f"{chip['generation']} at {chip['precision']}"
    text = f"{fit['steps']} measured steps, "
    if job["calibration"] is not None:
        text += "each source of them with a factor of its own"
    elif basis == "fitted":
        seen, unseen = _share(fit["mean_error"]), _share(fit["unseen_source_error"])
        text += f"{of} among them: mean error {seen}, of a source left out {unseen}"
    elif chip["announced"]:
        text += f"but none of {of} with the announced or stated numbers of this accelerator"
    elif basis == "assumed":
        text += f"but none of {of}: by steps at other precisions, or by single matrix products"
    else:
        text += f"but none of {of}: by a usual share of its peak, or of its best matrix product"
    if job["model"]["has_experts"] and job["calibration"] is None:
        text += "; models with experts scatter more"
    step = job["step"]
    sigma = step["model_sigma"] if step["sigma"] is None else step["sigma"]
    return f"{text} (log-normal, sigma {_share(sigma)})"


def degraded_text(job: dict[str, Any], name: str, row: dict[str, Any]) -> str:
    """Return what is wrong, in words."""
    return {
        "slow_gpu": f"slowest GPU at {100 * row['compute']:.3g} %",
        "narrow_nics": f"NICs of one node at {100 * row['network']:.3g} %",
        "replica_missing_keep": f"{row['missing']} replica missing, batch kept",
        "replica_missing_shrink": f"{row['missing']} replica missing, batch smaller",
        "tensor_rank_missing": f"one replica with {row['tensor']} of {job['layout']['tensor']} tensor ranks",
    }[name]


# ------------------------------------------------------------------------------------------------ by term


def _constant(job: dict[str, Any], name: str) -> float:
    return float(job["constants"][name]["value"])


def _peak(kind: str) -> Callable[[dict[str, Any]], str]:
    """Return what tells the share of the peak that a kind of product reaches."""

    def source(job: dict[str, Any]) -> str:
        found, chip = job["efficiencies"][kind], job["accelerator"]
        peak = chip["peak_flop_per_s"] if kind == "gemm" else chip["peak_16bit_flop_per_s"]
        basis = "fitted" if found["basis"] == "fitted" else "assumed"
        return f"{_share(found['share'])} of {unit_text(peak, 'FLOP/s')}, {basis}"

    return source


def _moved(job: dict[str, Any]) -> str:
    touches = job["constants"]["touches"]
    rate = unit_text(job["accelerator"]["memory_bytes_per_s"], "B/s")
    return f"{touches['value']:.3g} touches at {rate}, {touches['basis']}"


def _launches(job: dict[str, Any]) -> str:
    text = f"{1e3 * _constant(job, 'launch'):.3g} ms a layer and pass"
    if job["model"]["has_experts"]:
        text += f" (experts + {1e3 * _constant(job, 'expert_launch'):.3g})"
    return text


def _waits(kind: str, hidden: str, switch: str | None = None) -> Callable[[dict[str, Any]], str]:
    """Return what tells the rate of a kind of groups, and what computing hides of their traffic."""

    def source(job: dict[str, Any]) -> str:
        on = switch is None or job["execution"][switch]
        part = f"{_share(_constant(job, hidden))} hidden" if on else "nothing hidden"
        return f"{unit_text(job['groups'][kind]['reached_bytes_per_s'], 'B/s')}, {part}"

    return source


def _hand_over(job: dict[str, Any]) -> str:
    hidden = _constant(job, "handover_hidden") if job["layout"]["virtual_pipeline"] > 1 else 0.0
    part = f"{_share(hidden)} hidden" if hidden else "nothing hidden"
    return f"{unit_text(job['groups']['pipeline']['reached_bytes_per_s'], 'B/s')}, {part}"


def _replicas(job: dict[str, Any]) -> str:
    kind = "data" if "data" in job["groups"] else "expert_data"
    rate = unit_text(job["groups"][kind]["reached_bytes_per_s"], "B/s")
    if job["execution"]["sharding"] == "parameters":
        return f"{rate}, at least {_share(_constant(job, 'shard_floor'))} not hidden"
    if not job["execution"]["overlap_data"]:
        return f"{rate}, nothing hidden"
    return f"{rate}, at least {_share(_constant(job, 'data_floor'))} not hidden"


def _bubble(job: dict[str, Any]) -> str:
    layout = job["layout"]
    pieces = f" of {layout['virtual_pipeline']} pieces" if layout["virtual_pipeline"] > 1 else ""
    return (
        f"{layout['pipeline']} stages{pieces}, {layout['microbatches']:,} microbatches, {job['execution']['schedule']}"
    )


def _update(job: dict[str, Any]) -> str:
    rate = unit_text(job["accelerator"]["memory_bytes_per_s"], "B/s")
    return f"{_constant(job, 'optimizer'):g} B a parameter, {_share(_constant(job, 'memory'))} of {rate}"


def _per_step(job: dict[str, Any]) -> str:
    return f"{1e3 * _constant(job, 'overhead'):.3g} ms a step"


_SOURCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "gemm": _peak("gemm"),
    "attention": _peak("attention"),
    "logits": _peak("logits"),
    "elementwise": _moved,
    "launch": _launches,
    "tensor": _waits("tensor", "tensor_hidden", "overlap_tensor"),
    "context": _waits("context", "context_hidden"),
    "expert": _waits("expert", "expert_hidden"),
    "pipeline": _hand_over,
    "data": _replicas,
    "bubble": _bubble,
    "optimizer": _update,
    "overhead": _per_step,
}
