"""Which combination is best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from analysis.answers.question import METRIC, Answer, Question, is_lowest_best
from analysis.statistics import ratio_interval

if TYPE_CHECKING:
    from analysis.study.table import Table

__all__ = ["Best"]


class Best(Question):
    """Which combination is best, and which others may be."""

    ask: Literal["best"] = "best"
    metric: str = METRIC
    direction: Literal["", "highest", "lowest"] = Field("", description="What is best; omitted: as the metric is.")

    def answer(self, table: Table) -> Answer:
        """Return the best cell."""
        metric = self.metric or table.metrics[0]
        found = []
        for cell in table.running:
            ratios = cell.stated.metrics[metric]
            interval = ratio_interval([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
            if interval is not None:
                found.append((interval[0], cell))
        if not found:
            return Answer(self.ask, (f"No point has a {metric}.",), {"metric": metric, "best": None})
        sign = 1 if is_lowest_best(metric, self.direction) else -1
        mean, cell = min(found, key=lambda pair: sign * pair[0])
        labels = {name: value.label for name, value in zip(table.axes, cell.values, strict=True)}
        return Answer(self.ask, (f"Best {metric}: {mean:.4g} at {labels}.",), {"metric": metric, "best": labels})
