"""How long it takes until a job steps, as a function of its size."""

from __future__ import annotations

__all__ = ["communicator_time", "start_time"]


def communicator_time(gpus: float) -> float:
    r"""Return the time to set up the collectives of a job [s].

    .. math:: t = 17\,\mathrm{s}\, (N / 16{,}384)^{1.36}

    A power law through 17, 30, 100 and 200 s at 16, 22, 64 and 98 thousand GPUs, as published for one stack; those of
    other stacks that set up lazily are several times faster. Used below 16,384 GPUs it is extrapolated.

    References
    ----------
    "Training LLMs with fault tolerant HSDP on 100,000 GPUs", arXiv 2602.00277: the four points; the law is ours.
    """
    return float(17.0 * (gpus / 16384) ** 1.36)


def start_time(gpus: float) -> tuple[float, float]:
    """Return the range of the time from a job's start to its first step [s].

    170 to 290 s up to 512 GPUs, and 22 to 48 s for each 1,000 more: collectives, checkpoint, compilation and warm-up
    of a tuned stack on H100; neither queue nor pulling of images.

    References
    ----------
    MLCommons, training results v3.1 and v4.0, GPT-3 175B: ``init_start`` to ``run_start`` at 512 to 11,616 H100.
    """
    more = max(0.0, gpus - 512.0)
    return 170.0 + 22e-3 * more, 290.0 + 48e-3 * more
