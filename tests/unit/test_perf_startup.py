"""How long jobs take to start, against published start-up times."""

from __future__ import annotations

import pytest

from sim.steps import communicator_time, start_time
from tests.cases import cases
from tests.reference_tables import rows

K = 1024


@cases(("thousands", "law", "published"), [(16, 17, 17), (22, 26, 30), (64, 112, 100), (98, 200, 200)])
def test_communicators_take_as_long_as_published(thousands: int, law: float, published: float) -> None:
    """17, 30, 100 and 200 s at 16, 22, 64 and 98 thousand GPUs (arXiv 2602.00277), of which the law is within 15 %.

    Worked out by hand, 17 (N / 16 K)^1.36 is 17, 26, 112 and 194 to 200 s, as thousands are 1,024 or 1,000.
    """
    found = communicator_time(thousands * K)
    assert found == pytest.approx(law, rel=0.03)
    assert found == pytest.approx(published, rel=0.15)


def test_communicators_follow_a_power_law() -> None:
    """Twice the GPUs take 2^1.36 = 2.57 times as long, at any size."""
    for gpus in (1024, 8192, 50_000):
        assert communicator_time(2 * gpus) == pytest.approx(2**1.36 * communicator_time(gpus))


def test_the_ends_of_two_rounds_of_mlperf() -> None:
    """170 and 395 s at 512 and 10,752 GPUs in v3.1, 292 and 824 s at 512 and 11,616 in v4.0: within 1 %.

    MLCommons, training results, GPT-3 175B on H100, medians of NVIDIA's runs.
    """
    for gpus, fast in ((512, 170), (10752, 395)):
        assert start_time(gpus)[0] == pytest.approx(fast, rel=0.01)
    for gpus, slow in ((512, 292), (11616, 824)):
        assert start_time(gpus)[1] == pytest.approx(slow, rel=0.01)


def h100_starts() -> list[tuple[int, float]]:
    """Return GPUs and start-up time [s] of each run on H100 that was submitted once."""
    starts = rows("mlperf_startup_and_jitter.csv")
    starts = [row for row in starts if "H100" in row["accelerator"] and row["duplicate"] == "0"]
    return [(int(row["accelerators"]), float(row["init_to_run_s"])) for row in starts if row["init_to_run_s"]]


def test_every_start_of_h100_is_near_the_range() -> None:
    """No start is faster than 0.7 of the range's lower end, or slower than 1.3 of its upper end.

    Those of v3.1 grow faster than in proportion: a line between its ends lies above what is between.
    """
    starts = h100_starts()
    assert len(starts) >= 40
    for gpus, seconds in starts:
        low, high = start_time(gpus)
        assert 0.7 * low <= seconds <= 1.3 * high, gpus


def test_the_range_is_one() -> None:
    """The lower end is lower, and from 512 GPUs on both grow with the job; smaller ones were not measured."""
    for gpus in (512, 16384, 100_000):
        low, high = start_time(gpus)
        assert 0 < low < high
        assert all(more > less for more, less in zip(start_time(gpus + 1), (low, high), strict=True))
    assert start_time(8) <= start_time(512)
