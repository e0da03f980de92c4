"""Draw what speed for a user costs in throughput: ``python docs/pictures/serving.py FILE``.

The best layouts of `serve-llama3-70b`: aggregated, disaggregated, and with a draft of three tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sim
from analysis.page.charts import draw, render
from analysis.page.charts.data import Curves, Scale, Series
from analysis.services import describe_service_layouts

SERVICES = {
    "aggregated": [],
    "disaggregated": ["services.0.prefill={replicas: 26, parallelism: {tensor: 2}}", "cluster.nodes=30"],
    "aggregated, speculative": ["services.0.speculate={tokens: 3, accept: 0.7}"],
}


def main(file: Path) -> int:
    """Draw the picture into a file."""
    curves = []
    for hue, (name, changes) in enumerate(SERVICES.items()):
        scenario = sim.load(sim.find("serve-llama3-70b"), changes, must_fit=False)
        service = sim.services_of(sim.examine(scenario))[0]
        rows = describe_service_layouts(name, service, None, "gpu", 1000).layouts
        points = [(row.amounts.tokens_per_s_user, row.tokens_per_gpu_s_after_failures) for row in rows]
        curves.append(Series(name, tuple(x for x, _ in points), tuple(y for _, y in points), hue=hue))
    title = "At 40 tokens/s of a user, disaggregated replicas give 1.7 times the tokens/s of a GPU"
    chart = Curves(
        title, Scale("tokens/s of a user", is_log=True), Scale("tokens/s of a GPU", is_log=True), tuple(curves)
    )
    file.write_bytes(render(draw(chart), file.suffix))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
