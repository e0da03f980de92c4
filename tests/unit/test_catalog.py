"""The catalog of accelerators, against the presets collected from data sheets and vendors' pages."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sim import catalog

PRESETS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "perf" / "hardware_presets.csv"
NAMES = {
    "a100": "A100-SXM-80",
    "h100": "H100-SXM-80",
    "h200": "H200-SXM-141",
    "b200": "B200-SXM",
    "b300": "B300-SXM",
    "gb200": "GB200-NVL72",
    "gb300": "GB300-NVL72",
}


def test_accelerators_are_those_of_the_presets() -> None:
    """Dense peaks by precision, and the scale-up bandwidth in one direction; what is not printed is not there."""
    if not PRESETS.exists():
        pytest.skip("skipped: reference data not present")
    with PRESETS.open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    accelerators = catalog.accelerators()
    assert set(accelerators) == set(NAMES)
    for name, entry in accelerators.items():
        row = rows[NAMES[name]]
        printed = {precision: row[f"{precision}_dense_tflops"] for precision in ("bf16", "fp8", "fp4")}
        assert entry["peak"] == {key: pytest.approx(float(value) * 1e12) for key, value in printed.items() if value}
        assert entry["scale_up"] == pytest.approx(float(row["scaleup_uni_gb_s_per_gpu"]) * 1e9)


# Both directions together, as the data sheets print them [B/s].
NVLINK = {"a100": 600e9, "h100": 900e9, "h200": 900e9, "b200": 1.8e12, "b300": 1.8e12, "gb200": 1.8e12, "gb300": 1.8e12}


@pytest.mark.parametrize(("name", "both"), NVLINK.items())
def test_scale_up_is_half_of_what_data_sheets_print(name: str, both: float) -> None:
    """Data sheets add the two directions of NVLink."""
    assert catalog.accelerators()[name]["scale_up"] == both / 2


@pytest.mark.parametrize("name", NAMES)
def test_peaks_double_with_half_the_bits(name: str) -> None:
    """Matrix units do twice as much at half the width, and B300 and GB300 three times as much at FP4 as at FP8."""
    entry = catalog.accelerators()[name]
    assert entry["source"]
    assert entry["title"]
    peak = entry["peak"]
    if "fp8" in peak:
        assert peak["fp8"] == pytest.approx(2 * peak["bf16"], rel=0.001)
    if "fp4" in peak:
        assert peak["fp4"] == pytest.approx((3 if "300" in name else 2) * peak["fp8"], rel=0.001)
