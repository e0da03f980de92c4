"""The results of ``ettrick fit``, as frozen models: the JSON that it prints and leaves as ``fit.json``.

Rates are per 1000 node-days in which nodes were up; times in seconds where a name ends in ``_s``. Intervals are 95 %.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ettrick.analysis.parts import Count, Document, Number, Part, Real, Texts
from ettrick.analysis.results.models import Origin

Answer = Literal["yes", "no", "undecided"]


class Estimated(Part):
    """A number and its interval."""

    value: Number = Field(description="The best estimate.")
    low: Number = Field(None, description="Lower end of the 95 % interval.")
    high: Number = Field(None, description="Upper end.")


class FileRead(Part):
    """Kind, lines, used rows and period of an input."""

    file: str = Field(description="Its name.")
    kind: str = Field(description="Format that it was read as.")
    lines: Count = Field(description="Lines that it has.")
    rows: Count = Field(description="Rows that were used.")
    first: str | None = Field(description="First moment in it, UTC.")
    last: str | None = Field(description="Last moment in it, UTC.")
    columns: str = Field("", description="Of a table, which column was taken for what, and which were not used.")


class DroppedRows(Part):
    """Lines that were not used, for one reason."""

    file: str = Field(description="Where.")
    rule: str = Field(description="Why.")
    number: Count = Field(description="Number of them.")
    first: Count = Field(description="Line of the first.")
    last: Count = Field(description="Line of the last.")
    sort: Literal["unusable", "unread", "normal"] = Field(
        "unusable", description="`unread`: faults that no rule reads; `normal`: lines of others, and repeated ones."
    )


class LawSummary(Part):
    """A law of durations."""

    law: dict[str, Any] = Field(description="The distribution, as a scenario states it.")
    events: Count = Field(description="Complete durations.")
    open: Count = Field(0, description="Durations that had not ended.")
    median_s: Number = Field(description="Median of the complete ones [s].")
    median: Estimated = Field(description="Median of all [s], open ones longer than any, by order statistics.")
    mean_s: Number = Field(description="Mean of the complete ones [s].")
    method: str = Field(description="How it was fitted.")


class CauseSummary(Part):
    """Outages, rate, clustering and repairs of one class of failures."""

    name: str = Field(description="Name of the cause in the rules.")
    fault: str = Field(description="Class of fault.")
    events: Count = Field(description="Outages of this cause.")
    in_incidents: Count = Field(description="Of these, how many belong to incidents.")
    rate: Estimated = Field(description="All outages per 1000 node-days up; without any, the upper 95 % limit.")
    background: Real = Field(description="Rate of a source with an additional relapse, per 1000 node-days up.")
    method: str = Field(description="`counted`, or `shared` where few events borrow strength from the other causes.")
    repair: LawSummary | None = Field(description="Repair times; null where the common ones apply.")
    basis: dict[str, int] = Field(description="Outages by the rule that gave the cause.")
    files: Texts = Field(description="Files that the outages are from.")


class IncidentsSummary(Part):
    """Outages of several nodes of one domain within five minutes."""

    part: str = Field(description="Class of the domain: `rack` or `cluster`.")
    domains: Count = Field(description="How many there are.")
    events: Count = Field(description="Incidents.")
    nodes: Count = Field(description="Outages in them.")
    by_chance: Real = Field(description="Such groups that are expected without any incident.")
    used: bool = Field(description="Whether they are a source of their own in the model.")
    relapse: bool = Field(description="Whether nodes relapse after them as after their own failures.")
    rate: Estimated = Field(description="Per 1000 days of a domain, what is expected by chance taken off.")
    sizes: dict[str, int] = Field(description="How many incidents took so many nodes.")
    delays_s: list[float] = Field(description="Delays of their nodes after the first [s], as quantiles.")
    repair: LawSummary | None = Field(description="Repair times of their nodes.")
    groups_by_gap: dict[str, int] = Field(description="Groups of all outages, by the gap [s] that joins them.")


class ClusteringFit(Part):
    """A fit of one of four models of clustered failures on nodes."""

    log_likelihood: Real = Field(description="At the best point, in days.")
    aic: Real = Field(description="2 (parameters - log-likelihood).")
    rate: Real = Field(description="Background rate per 1000 node-days up.")
    relapse_probability: Real = Field(description="That a repair leaves the fault; 0 without relapse.")
    relapse_median_s: Real = Field(description="From return to relapse, median [s].")
    relapse_sigma: Real = Field(description="Standard deviation of its logarithm.")
    frailty_cv2: Real = Field(description="Squared coefficient of variation between nodes; 0 for equal nodes.")


class ClusteringSummary(Part):
    """Whether nodes differ for good, and whether repairs hold."""

    events: Count = Field(description="Failures of single nodes that were fitted.")
    fits: dict[str, ClusteringFit] = Field(description="`poisson`, `frailty`, `relapse`, `both`.")
    chosen: str = Field(description="The one in the model.")
    alternative: str = Field(
        "", description="Another model that the data do not rule out, in `failures-alternative.yaml`."
    )
    relapse: Answer = Field(description="Whether failures repeat after repairs.")
    frailty: Answer = Field(description="Whether some nodes stay worse than others.")
    upper_cv2: Number = Field(description="Upper 95 % limit of the squared variation between nodes.")
    split_half: Estimated = Field(description="Squared variation that lasts from one half of the window to the other.")
    parameters: dict[str, Estimated] = Field(description="Of the chosen one, with intervals from joint draws.")


class TrendSummary(Part):
    """The trend of the rate of the fleet."""

    exponent: Estimated = Field(description="Of a power law; below 1 the rate falls.")
    significant: bool = Field(description="Whether the interval leaves 1 out.")
    dispersion: dict[str, float] = Field(description="Variance over mean of counts by day, week and 30 days.")
    changes: list[dict[str, Any]] = Field(description="Weeks at which the rate changes: date, before, after, evidence.")


class AttributionSummary(Part):
    """Whose fault the ends of jobs were."""

    ended: Count = Field(description="Attempts that ended with a failure.")
    attributed: Count = Field(description="Of these, how many to a node.")
    by_chance: Real = Field(description="Attributions that are expected without any connection.")
    evidence: dict[str, int] = Field(description="How many by each kind of evidence.")
    interrupts: Estimated = Field(description="Share of the outages under the largest jobs that ended them.")
    states: dict[str, int] = Field(description="Attempts by state.")
    software_per_day: Estimated = Field(
        description="Ends of the largest jobs without a node, per day of their running."
    )
    software_events: Count = Field(description="How many these are.")


class TrainingSummary(Part):
    """The content of training logs."""

    attempts: Count = Field(description="Runs of the job.")
    step_time_s: Number = Field(description="Median time of a step [s].")
    restart_s: Number = Field(description="Median from the start of a run to its first step [s].")
    checkpoint_s: Number = Field(description="Interval of the checkpoints that runs went on from [s].")
    lost_s: Real = Field(description="Time of steps that were run again [s].")
    goodput: Number = Field(
        description="Goodput by steps: steps that remain times the step time, over the wall time in the window."
    )
    goodput_in_time: Number = Field(None, description="Time spent in steps that remain, over the same wall time.")
    weekly_goodput: list[float | None] = Field(description="Goodput by steps, by week.")


class CheckSummary(Part):
    """A statistic of the data compared with the fitted model, simulated on the same exposure."""

    name: str = Field(description="Which.")
    data: Number = Field(description="Of the data.")
    low: Number = Field(description="2.5 % quantile of the simulations.")
    median: Number = Field(description="Their median.")
    high: Number = Field(description="97.5 % quantile.")
    inside: bool = Field(description="Whether the data lie between.")


class CostSummary(Part):
    """The cost of the failures to the largest job, by model and by the outages as they were."""

    metric: str = Field(description="Which [metric](metrics.md).")
    model: Number = Field(description="Mean over runs of the fitted model.")
    p05: Number = Field(description="5 % quantile of single runs.")
    p95: Number = Field(description="95 % quantile of single runs.")
    replay: Number = Field(description="Mean with the outages as they were, and software faults by the model.")
    replay_p05: Number = Field(None, description="5 % quantile of single runs.")
    replay_p95: Number = Field(None, description="95 % quantile of single runs.")
    measured: Number = Field(description="Goodput by steps of the training log.")
    measured_in_time: Number = Field(None, description="Its goodput in time.")
    lost_gpu_hours: Number = Field(None, description="GPU-hours that the job loses in the window, by the model.")
    replications: Count = Field(description="Runs of each.")


class StreamSummary(Part):
    """Jobs of one partition and of like sizes, as a stream of the scenario `fleet.yaml`."""

    name: str = Field(description="Of the stream.")
    partition: str = Field(description="Where they queue; empty if no record says.")
    jobs: Count = Field(description="Jobs that ended, on which all numbers rest.")
    days: Real = Field(description="In which they were submitted.")
    gpu_hours: Real = Field(description="GPU-hours that they ran.")
    gpus: dict[str, float] = Field(description="How many asked for so many GPUs.")
    rate: Estimated = Field(description="Submissions per day; the interval has their dispersion.")
    dispersion: Real = Field(description="Variance over mean of daily counts; 1 for a Poisson process.")
    profile_days: Count = Field(
        description="Days after which the rate of the hours repeats, 1 or 7; 0 if it is constant."
    )
    median_s: Estimated = Field(description="Median of the work [s].")
    sigma: Estimated = Field(description="Standard deviation of its logarithm.")
    method: str = Field(description="How the work was fitted.")
    outcomes: dict[str, int] = Field(description="Jobs by state.")
    limit: str = Field(description="Time limits, in words.")
    tenants: Count = Field(description="Tenants with a share of their own.")
    files: Texts = Field(description="Files that the jobs are from.")


class BacktestSummary(Part):
    """A recorded metric of the jobs, compared with a replay of the same jobs and the fitted streams."""

    metric: str = Field(description="Which [metric](metrics.md); waits by size from being eligible to the first start.")
    jobs: Count = Field(description="Jobs that it is of.")
    measured: Number = Field(description="By the job records.")
    replay: Number = Field(description="The same jobs under the scheduler of `history.yaml`.")
    replay_low: Number = Field(description="Lower end of 95 %, by paired differences of 20 batches of jobs.")
    replay_high: Number = Field(description="Upper end.")
    replay_inside: bool = Field(description="Whether the measured value is between, to a minute for waits.")
    streams: Number = Field(None, description="Mean over replications of `fleet.yaml`.")
    streams_low: Number = Field(None, description="Lower end of 95 % of single replications.")
    streams_high: Number = Field(None, description="Upper end.")
    streams_inside: bool | None = Field(None, description="Whether the measured value is between.")


class CurveSummary(Part):
    """A curve of the data, and where 95 % of samples or simulations lie."""

    x: list[float] = Field(description="Days.")
    y: list[float | None] = Field(description="Of the data.")
    low: list[float | None] = Field(description="Lower end of 95 %.")
    high: list[float | None] = Field(description="Upper end of 95 %.")


class FitDocument(Document):
    """`ettrick fit FILES --json` prints this document; `--out DIR` writes it to `fit.json`."""

    name: str = Field(description="Of the cluster.")
    window: list[str] = Field(description="First and last moment, UTC.")
    days: Real = Field(description="Length of the window.")
    nodes: Count = Field(description="Nodes that were watched.")
    gpus_per_node: Count = Field(description="GPUs of a node.")
    basis: str = Field(description="Where the exposure is from: `inventory`, `first and last seen`, `stated`.")
    node_days: Real = Field(description="In service.")
    node_days_up: Real = Field(description="In service and not out of it for a fault or for planned work.")
    outages: Count = Field(description="Unplanned outages, rows that touch joined.")
    open_outages: Count = Field(description="Of these, not over at the end.")
    planned: Count = Field(description="Planned ones.")
    rate: Estimated = Field(
        description="Unplanned outages per 1000 node-days up; the interval has their dispersion over weeks and nodes."
    )
    files: list[FileRead] = Field(description="Files read.")
    dropped: list[DroppedRows] = Field(description="Rows not used, and why.")
    causes: list[CauseSummary] = Field(description="Causes, the most frequent first.")
    unseen: dict[str, float] = Field(description="Causes without an event: upper 95 % limit per 1000 node-days up.")
    unknown_texts: dict[str, int] = Field(description="Commonest reasons that no rule matches, digits as #.")
    repair: LawSummary | None = Field(description="Repair times of all outages that are in no incident.")
    incidents: list[IncidentsSummary] = Field(
        description="Several nodes at once: of racks, and of the cluster where they are in many racks or none is known."
    )
    clustering: ClusteringSummary = Field(description="Why failures cluster on nodes.")
    trend: TrendSummary | None = Field(description="Null with fewer than 20 outages.")
    detection: LawSummary | None = Field(description="From the first line of the kernel to the outage.")
    xid_groups: dict[str, list[int]] = Field(description="Of each XID, lines and groups within 30 s.")
    attribution: AttributionSummary | None = Field(description="Null without job records.")
    training: TrainingSummary | None = Field(description="Null without training logs.")
    checks: list[CheckSummary] = Field(
        description="The data compared with simulations of the model on the same exposure."
    )
    cost: CostSummary | None = Field(None, description="Null where the scenario cannot be simulated.")
    streams: list[StreamSummary] = Field(
        default_factory=list, description="Streams fitted to job records; empty without twenty jobs that ended."
    )
    backtest: list[BacktestSummary] = Field(
        default_factory=list, description="Recorded waits, occupancy and ETTR compared with simulated ones."
    )
    curves: dict[str, CurveSummary] = Field(
        default_factory=dict,
        description="`cumulative`: outages per node in service up to a day, with the range of simulations; "
        "`gaps`: share of gaps between outages of the cluster that are longer.",
    )
    swings: dict[str, float] = Field(
        default_factory=dict,
        description="Swings of all rates in the model: `days` of a stretch and `cv`; zero for none.",
    )
    simulated: Count = Field(0, description="How many times.")
    findings: Texts = Field(description="Points to know before you use the numbers.")
    not_known: Texts = Field(description="Quantities that logs do not contain.")
    provenance: Origin


# ----------------------------------------
# Lives of parts.


class LawOfLives(Part):
    """A law of lives, with ages in days."""

    use: str = Field(description="Its kind in a scenario; `piecewise` has a hazard per day from each age on.")
    parameters: dict[str, Estimated] = Field(description="By name.")
    aic: Real = Field(description="2 (parameters - log-likelihood).")


class AgeSummary(Part):
    """The hazard of a stretch of ages."""

    from_days: Real = Field(description="From this age on.")
    to_days: Number = Field(description="Up to this one; null for the last.")
    rate: Estimated = Field(description="Failures per part and year of 365 days.")


class BatchSummary(Part):
    """The lives of a batch of parts."""

    name: str = Field(description="Name of the batch in the table; empty where it has no batches.")
    parts: Count = Field(description="Number of parts.")
    failures: Count = Field(description="Of these, how many failed.")
    years: Real = Field(description="Time lived under observation, in years of 365 days.")
    late: Count = Field(description="Parts that were first seen at an age.")
    causes: dict[str, int] = Field(description="Failures by cause.")
    rate: Estimated = Field(description="Failures per part and year.")
    laws: list[LawOfLives] = Field(description="Fits with late entry and censoring; only the exponential below 20.")
    chosen: str = Field(description="The one in `failures.yaml`.")
    law: dict[str, Any] = Field(description="The distribution, as a scenario states it.")
    misfit: Number = Field(
        description="Probability of so bad a fit if the law that is written were true (Anderson-Darling, simulated)."
    )
    hazards: list[AgeSummary] = Field(description="By age.")
    curves: dict[str, CurveSummary] = Field(
        description="`survival` (Kaplan-Meier) and `hazard` (cumulative, Nelson-Aalen), with the range of simulations."
    )


class LivesDocument(Document):
    """`ettrick fit FILE --json` prints this of a table of lives; `--out DIR` writes it to `fit.json`."""

    name: str = Field(description="Of the parts.")
    files: list[FileRead] = Field(description="Files read.")
    dropped: list[DroppedRows] = Field(description="Rows not used, and why.")
    batches: list[BatchSummary] = Field(description="The largest first.")
    findings: Texts = Field(description="Points to know before you use the numbers.")
    not_known: Texts = Field(description="Quantities that lives do not contain.")
    provenance: Origin


# ----------------------------------------
# What ettrick track finds.


class Tracked(Part):
    """A metric of a week, compared with its prediction."""

    measured: Number = Field(description="Measured value.")
    mean: Number = Field(description="Predicted mean.")
    low: Number = Field(description="2.5 % quantile of the prediction.")
    median: Number = Field(description="Its median.")
    high: Number = Field(description="97.5 % quantile.")
    z: Number = Field(None, description="Normal score of the measured value in the prediction.")
    cusum: Number = Field(None, description="Cumulative sum of z, negative for falling; of metrics that may alarm.")


class WeekSummary(Part):
    """A measured week, compared with what the model in force predicts for it."""

    week: str = Field(description="First day, or the folder of results.")
    days: Real = Field(description="Its length [d].")
    gpus: Count = Field(description="GPUs of the job.")
    nodes: Count = Field(description="Nodes in service.")
    replications: Count = Field(description="Of how many replications it is the mean; 1 for what was measured once.")
    metrics: dict[str, Tracked] = Field(description="By metric, bucket, and `outages: CAUSE`.")


class LimitsSummary(Part):
    """Limits of the charts, by metric; the false alarms are those of all together."""

    sudden: dict[str, float] = Field(description="Of one z.")
    lasting: dict[str, float] = Field(description="Of the CUSUM with reference 1/2; empty for results of Ettrick.")
    false_alarms: Real = Field(description="Share of the simulated years with an alarm.")
    histories: Count = Field(description="How many years were simulated.")


class AlarmSummary(Part):
    """A chart beyond its limit."""

    week: str = Field(description="Week, or result, in which it is.")
    since: str = Field(description="Week from which the sum rises.")
    metric: str = Field(description="Of which metric.")
    kind: Literal["sudden", "lasting"] = Field(description="Sudden: a single z-score; lasting: the CUSUM.")
    size: Number = Field(description="Measured less predicted mean, over these weeks.")
    worse: bool = Field(description="Whether the direction is the worse one.")
    confirmed: bool = Field(description="Whether it is worse, lasts two weeks, and is above the threshold.")
    moved: Texts = Field(description="Explanations (step time, buckets and causes), the most costly first.")


class TrackDocument(Document):
    """`ettrick track DIR --json` prints this document; it is left as `track.json`."""

    name: str = Field(description="Of the model in force.")
    job: str = Field(description="The job that is tracked.")
    model: str = Field(description="Digest of the model and its draws.")
    draws: Count = Field(description="Draws of the parameters.")
    simulated: Count = Field(description="Weeks that predict, all draws together.")
    threshold: Real = Field(description="Loss of productive time below which nothing is a regression.")
    limits: LimitsSummary = Field(description="When a chart alarms.")
    weeks: list[WeekSummary] = Field(description="Weeks in order of time, or results.")
    alarms: list[AlarmSummary] = Field(description="Charts beyond their limits.")
    regression: bool = Field(description="Whether any alarm is confirmed.")
    findings: Texts = Field(description="Points to know before you use the numbers.")
    provenance: Origin
