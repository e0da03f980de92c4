"""Draw what an answer costs and what its speed costs: ``python docs/pictures/serving.py FOLDER``.

`inference.svg`: times of a replica of `serve-llama3-70b` by requests in flight, with a replay against the closed form.
`serving.svg`: its best layouts: aggregated, disaggregated, and with a draft of three tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ettrick import sim
from ettrick.analysis.explain.services import describe_service_layouts
from ettrick.analysis.page.charts import draw, render
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Dot, Series
from ettrick.sim.steps.serving import decode, time_per_token, time_to_first_token

SERVICES = {
    "aggregated": [],
    "disaggregated": ["services.0.prefill={replicas: 26, parallelism: {tensor: 2}}", "cluster.nodes=30"],
    "aggregated, speculative": ["services.0.speculate={tokens: 3, accept: 0.7}"],
}


def main(folder: Path) -> int:
    """Draw the pictures into a folder."""
    for name, curves in {"inference": times(), "serving": layouts()}.items():
        (folder / f"{name}.svg").write_bytes(render(draw(curves), ".svg"))
    return 0


def times() -> Curves:
    """Return the mean times of a replica by its requests in flight, and those of a replay."""
    service = examined([])
    made, requests = service.replica, service.requests
    batches = np.geomspace(1, service.largest, 60)
    first, own = (time(made, batches, requests) for time in (time_to_first_token, time_per_token))
    alone = decode(made, batches, requests.context).total
    shown = {"to the first token (TTFT)": first, "per token (TPOT)": own, "of that without prompts of others": alone}
    curves = [
        Series(name, tuple(batches.tolist()), tuple((1e3 * values).tolist()), hue=hue)
        for hue, (name, values) in enumerate(shown.items())
    ]
    dots = []
    for load in (0.05, 0.3, 0.6, 0.8):
        served = service.settled(load)
        batch = float(served.tpot.mean() * service.carried * load * requests.output)
        dots += [Dot("", batch, 1e3 * float(each.mean())) for each in (served.ttft, served.tpot)]
    dots[-1] = dots[-1]._replace(name="replay of 18,000 requests")
    half = np.interp(2, own / alone, batches)
    title = f"From {half:.0f} requests in flight on, prompts of others take half of a step"
    return Curves(
        title,
        ChartAxis("requests in flight of a replica", is_log=True),
        ChartAxis("milliseconds", is_log=True),
        tuple(curves),
        levels=((1e3 * service.spec.slo.tpot, "TPOT of the SLO"),),
        dots=tuple(dots),
    )


def layouts() -> Curves:
    """Return what speed for a user costs in throughput."""
    curves = []
    for hue, (name, changes) in enumerate(SERVICES.items()):
        rows = describe_service_layouts(name, examined(changes), None, "gpu", 1000).layouts
        points = [(row.amounts.tokens_per_s_user, row.tokens_per_gpu_s_after_failures) for row in rows]
        curves.append(Series(name, tuple(x for x, _ in points), tuple(y for _, y in points), hue=hue))
    title = "At 40 tokens/s of a user, disaggregated replicas give 1.7 times the tokens/s of a GPU"
    return Curves(
        title, ChartAxis("tokens/s of a user", is_log=True), ChartAxis("tokens/s of a GPU", is_log=True), tuple(curves)
    )


def examined(changes: list[str]) -> sim.PreparedService:
    """Return the service of `serve-llama3-70b` with some changes."""
    scenario = sim.load(sim.find("serve-llama3-70b"), changes, must_fit=False)
    return sim.services_of(sim.examine(scenario))[0]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
