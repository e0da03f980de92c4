"""From a scenario to the step of a job: modelled, measured or calibrated, and what is said about it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.testing import CliRunner

import cli
import sim
from analysis.metrics import ratios
from sim import catalog
from sim.steps import flop_per_token
from tests.cases import cases
from tests.harness import play, prepared
from tests.step_jobs import FLAT, MIXTRAL, NARROW, described, examined, job_of, plan_of
from tests.unit.bad_input import Bad, steps
from tests.unit.test_bad_input import complaints, folder  # noqa: F401  (a fixture that works in a folder of its own)

EXACT = 1e-12
SLOW: dict[str, Any] = {"use": "component", "name": "throttled", "part": "gpu", "rate": "1 per 1000 gpu-day"}


# -------------------------------------------------------------------------------------- modelled, measured, calibrated


def test_a_job_without_a_measured_step_gets_the_model_s() -> None:
    """Model, batch and layout give time, utilisation and tokens of a step; a run reports them."""
    case = sim.prepare(sim.parse(described()))
    (job,) = case.jobs
    assert job.plan is not None
    assert not job.is_measured
    assert job.step_time == job.plan.time == job.plan.breakdown.total > 0
    assert job.plan.scale == 1.0
    assert job.mfu == job.plan.mfu
    peak = catalog.accelerators()["h100"].peak["bf16"]
    flop = job.tokens * flop_per_token(catalog.models()["llama3-8b"], 8192)
    assert job.mfu == pytest.approx(flop / (job.step_time * 64 * peak), rel=EXACT)
    found = ratios(case, play(case))
    assert found["program_goodput"].amount / found["program_goodput"].base == pytest.approx(job.mfu, rel=EXACT)
    tokens = found["tokens_per_day"].amount / found["tokens_per_day"].base
    healthy = 86_400 * 128 * 8192 / job.step_time
    assert tokens == pytest.approx(healthy * found["ettr"].amount / found["ettr"].base, rel=1e-9)


@cases(("work", "steps_of_it"), [({"steps": 500}, 500), ({"tokens": 128 * 8192 * 250}, 250)])
def test_work_in_steps_and_tokens_takes_as_long_as_modelled_steps(work: dict[str, Any], steps_of_it: int) -> None:
    """Work is healthy seconds: steps times the modelled time of one."""
    job = job_of(work=work)
    assert job.target == pytest.approx(steps_of_it * job.step_time, rel=EXACT)


def test_saves_every_so_many_steps_wait_for_modelled_steps() -> None:
    """An interval in steps is that many times the modelled time."""
    tier = {"interval": "every 100 steps", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    case = prepared(**{**described(), "checkpoint": {"tiers": [tier]}})
    assert case.jobs[0].checkpoint.interval == pytest.approx(100 * case.jobs[0].step_time, rel=EXACT)


def test_a_measured_step_overrides_the_model() -> None:
    """Its time is the stated one and the MFU follows; the model's terms are scaled to it and have no error left."""
    job = job_of(step_time="7 s")
    plain = plan_of()
    assert job.is_measured
    assert job.step_time == 7.0
    assert job.plan is not None
    assert job.plan.time == pytest.approx(7.0, rel=EXACT)
    assert job.plan.breakdown == pytest.approx(tuple(7 / plain.time * term for term in plain.breakdown), rel=EXACT)
    assert job.plan.sigma == 0.0
    assert job.mfu == pytest.approx(plain.mfu * plain.time / 7, rel=EXACT)


def test_a_published_utilisation_overrides_the_model() -> None:
    """Time = FLOP / (GPUs x peak x MFU), half of attention counted; at FP8 of the FP8 peak."""
    flop = 128 * 8192 * flop_per_token(catalog.models()["llama3-8b"], 8192)
    for precision, peak in (("bf16", 989e12), ("fp8", 1979e12)):
        job = job_of(mfu=0.4, precision=precision)
        assert job.is_measured
        assert job.mfu == 0.4
        assert job.step_time == pytest.approx(flop / (64 * peak * 0.4), rel=EXACT)
        assert job.plan is not None
        assert job.plan.mfu == pytest.approx(0.4, rel=EXACT)


def test_a_measured_step_needs_no_layout_that_the_model_knows() -> None:
    """What the model refuses may have been measured: then there is a time and no plan."""
    layout = {"tensor": 4, "pipeline": 2, "data": 8, "virtual_pipeline": 5}
    job = job_of(parallelism=layout, step_time="7 s")
    assert job.step_time == 7.0
    assert job.plan is None
    with pytest.raises(sim.ScenarioError, match=re.escape("jobs.0.parallelism.virtual_pipeline: ")):
        job_of(parallelism=layout)


@cases("seconds", [1.0, 3.0, 20.0])
def test_calibration_with_the_job_itself_is_exact(seconds: float) -> None:
    """A measured step of this very configuration is the step, and what is left of the error is the calibration's."""
    job = job_of(calibration={"step_time": f"{seconds} s"})
    assert job.step_time == pytest.approx(seconds, rel=EXACT)
    assert not job.is_measured
    assert job.plan is not None
    assert 0 < job.plan.sigma < plan_of().sigma + EXACT


@cases(
    "case",
    [
        pytest.param({"fabric": NARROW}, id="oversubscribed"),
        pytest.param(MIXTRAL, id="experts"),
    ],
)
def test_calibration_with_the_job_itself_is_exact_on_any_fabric(case: dict[str, Any]) -> None:
    """Whatever the fabric and the model, a measured step of this very configuration is the step."""
    assert job_of(**case, calibration={"step_time": "3 s"}).step_time == pytest.approx(3.0, rel=EXACT)


@pytest.mark.parametrize(
    ("fabric", "gpus", "layout"),
    [(FLAT, 128, {"tensor": 4, "pipeline": 2, "data": 16}), (NARROW, 16, {"tensor": 4, "pipeline": 2, "data": 2})],
    ids=["larger", "behind fewer switches"],
)
def test_calibration_with_another_size_scales_by_the_same_ratio(
    fabric: dict[str, Any], gpus: int, layout: dict[str, int]
) -> None:
    """Measured on other GPUs with another batch and microbatch: the job's step is off by as much as that one's.

    Sixteen GPUs sit behind the same leaf switches, the job's 64 do not.
    """
    batch = {"tokens": 256 * 8192, "sequence": 8192}
    other = {"parallelism": layout, "batch": batch, "execution": {"microbatch": 2, "recompute": "full"}}
    modelled, plain = plan_of(fabric=fabric, gpus=gpus, **other), plan_of(fabric=fabric)
    job = job_of(fabric=fabric, calibration={"step_time": f"{1.25 * modelled.time!r} s", **other})
    assert job.step_time == pytest.approx(1.25 * plain.time, rel=1e-9)
    assert job.plan is not None
    assert job.plan.breakdown == pytest.approx(tuple(1.25 * term for term in plain.breakdown), rel=1e-9)


def test_a_described_model_is_the_catalog_s_with_the_same_numbers() -> None:
    """A shape that is written out gives the same step and the same memory."""
    names = ("layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary", "gated", "tied")
    for name in ("llama3-8b", "gpt3-6.7b"):
        shape = catalog.models()[name]
        written = plan_of(model={key: getattr(shape, key) for key in names})
        assert written.breakdown == plan_of(model=name).breakdown
        assert written.memory == plan_of(model=name).memory
    shape = catalog.models()["mixtral-8x7b"]
    assert shape.experts is not None
    experts = {key: getattr(shape.experts, key) for key in ("count", "active", "ffn")}
    written = plan_of(**MIXTRAL | {"model": {key: getattr(shape, key) for key in names} | {"experts": experts}})
    assert written.breakdown == plan_of(**MIXTRAL).breakdown


EXECUTION = {
    "microbatch": 2,
    "schedule": "zero-bubble-h2",
    "recompute": "full",
    "sharding": "none",
    "sequence_parallel": False,
    "fused_attention": False,
    "overlap_tensor": False,
    "overlap_data": False,
    "overlap_expert": True,
}


@cases("name", EXECUTION)
def test_every_setting_of_an_execution_reaches_the_model(name: str) -> None:
    """What the scenario says is what the model of steps is asked about."""
    large = {"like": "h100", "memory": "4 TB"}
    assert getattr(plan_of(large).work, name) != EXECUTION[name]
    assert getattr(plan_of(large, execution={name: EXECUTION[name]}).work, name) == EXECUTION[name]


def test_steps_of_experts_are_less_certain() -> None:
    """The fit's own errors: models with experts are predicted less well, calibrated ones better."""
    assert plan_of(**MIXTRAL).sigma > plan_of().sigma > 0
    assert plan_of(**MIXTRAL, calibration={"step_time": "3 s"}).sigma < plan_of(**MIXTRAL).sigma


# ---------------------------------------------------------------------------------------------------------- warnings


@cases(
    ("accelerator", "precision", "says"),
    [
        ("mi300x", "bf16", "rests on data sheets and assumptions"),
        ("rubin", "fp8", "rests on announced"),
        ("b200", "bf16", "(assumed)"),
        ("h100", "bf16", ""),
        ("gb200", "nvfp4", ""),
    ],
)
def test_what_nobody_has_measured_is_said_with_its_band(accelerator: str, precision: str, says: str) -> None:
    """One line with the interval that holds the step with 90 %; none of measured steps, or with a calibration."""

    def lines(**changes: Any) -> list[str]:
        return [line for line in examined(accelerator, precision=precision, **changes).warnings if "MFU" not in line]

    plan = examined(accelerator, precision=precision).jobs[0].plan
    assert plan is not None
    if not says:
        assert lines() == []
        return
    (line,) = lines()
    low, high = plan.band90
    assert says in line
    assert f"at {precision} have not been measured" in line
    assert line.endswith(f"may take {low:,.3g} to {high:,.3g} s")
    assert low < plan.time < high
    measured = {"step_time": f"{plan.time} s"}
    assert lines(calibration=measured) == lines(step_time="3 s") == []


@pytest.mark.parametrize("stated", [{"mfu": 0.4}, {"step_time": "3 s"}])
def test_a_stated_time_of_a_layout_that_cannot_be_is_said(stated: dict[str, Any]) -> None:
    """A statement stays as it is, and a line says what the model of steps says of its layout, if that cannot be."""
    (name,) = stated

    small = {"like": "h100", "memory": "12 GB"}

    def lines(accelerator: Any = "h100", **changes: Any) -> list[str]:
        return [line for line in examined(accelerator, **stated, **changes).warnings if "rules out" in line]

    start = f"job 'train': the stated {name} is kept for a layout that the model of steps rules out: "
    assert lines() == []
    (line,) = lines(small)
    memory = r"it does not fit: [\d.]+ GB on GPUs of 12 GB \(.*\); it would with .*"
    assert re.fullmatch(re.escape(start) + memory, line), line
    (line,) = lines(parallelism={"pipeline": 64})
    assert line == f"{start}64 stages are more than the 32 layers of the model; nearest: 32"
    both = lines(small, parallelism={"tensor": 8, "data": 8, "virtual_pipeline": 2})
    assert [text.removeprefix(start)[:11] for text in both] == ["a pipeline ", "it does not"]
    assert examined(small, **stated).jobs[0].step_time == examined(**stated).jobs[0].step_time


def test_a_low_mfu_is_said() -> None:
    """Below 15 % a line says so: of a modelled step with what a GPU has to do, of a stated one with the model's."""

    def lines(**changes: Any) -> list[str]:
        return [line for line in examined(**changes).warnings if " is low" in line]

    assert lines() == []
    modelled = plan_of().mfu
    for stated, told in ((0.16, False), (0.14, True)):
        assert (
            lines(mfu=stated)
            == [f"job 'train': an MFU of {100 * stated:.2g} % is low; the model of steps says {100 * modelled:.2g} %"]
            * told
        )
    little: dict[str, Any] = {
        "batch": {"tokens": 8 * 8192, "sequence": 8192},
        "parallelism": {"pipeline": 8, "data": 8},
    }
    (line,) = lines(**little)
    plan = plan_of(**little)
    share = 100 * plan.breakdown.bubble / plan.time
    assert line == (
        f"job 'train': an MFU of {100 * plan.mfu:.2g} % is low: a GPU has 1,024 tokens of a step, and {share:.0f} % of "
        "the time is bubble (ettrick explain)"
    )


def test_slow_nodes_in_a_measured_step_count_twice() -> None:
    """A measured step has waited for slow nodes; a modelled one is healthy. Faults that stop nodes are no matter."""
    slow = SLOW | {"effect": {"kind": "slow", "factor": 0.5}}
    for measured in ({"step_time": "3 s"}, {"mfu": 0.4}):
        (line,) = examined(failure=slow, **measured).warnings
        assert line.startswith(f"job 'train': a measured {next(iter(measured))} holds what slow nodes cost; throttled")
        assert examined(failure=SLOW, **measured).warnings == ()
    assert examined(failure=slow).warnings == ()


@cases(
    ("absent", "lacks"),
    [(("batch",), "batch"), (("parallelism",), "parallelism"), (("batch", "parallelism"), "batch and")],
)
def test_what_the_model_lacks_is_said(absent: tuple[str, ...], lacks: str) -> None:
    """A job with a model and nothing that gives a step is told what to add; it has no time of a step."""
    case = examined(**dict.fromkeys(absent))
    (line,) = case.warnings
    assert f"lacks {lacks}" in line
    assert case.jobs[0].step_time == 0.0


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("bad", steps.CASES, ids=lambda bad: bad.name)
def test_bad_steps_are_refused_in_one_line(bad: Bad) -> None:
    """The commands say where, what and the nearest valid values, print no result, and end with 2."""
    (line,) = complaints(bad)
    assert line.startswith(f"{bad.place}: ")
    for fragment in bad.fragments:
        assert fragment in line
    found = CliRunner().invoke(cli.app, ["check", "s.yaml"], prog_name="ettrick")
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", f"{line}\n")
