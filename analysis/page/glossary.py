"""What the words of the first screen mean, for who has never seen the tool: terms, buckets and metrics."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.metrics import BUCKETS, METRICS
from analysis.page.account import cause_name
from analysis.page.model import plain
from sim import NO_FAILURE

if TYPE_CHECKING:
    from analysis.page.model import FirstScreen

TERMS: tuple[tuple[str, str, str], ...] = (
    ("GPU-hour", r"GPU-hours?", "One GPU for one hour, whatever it does."),
    ("GPU-year", r"GPU-years?", "One GPU for one year. A hundred GPU-years a year are a hundred GPUs all the time."),
    (
        "ETTR",
        r"ETTR|training time ratio",
        "Effective training time ratio: the share of the GPU-time that a job asks for in which it makes progress that "
        "lasts. Waiting, restarts and work that has to be done again are not in it.",
    ),
    (
        "goodput",
        r"goodput",
        "How much of what the GPUs could do becomes training that lasts: the share of useful time, times the share of "
        "the peak speed that a step of training reaches. Cluster goodput is the share of useful time of all GPUs that "
        "are owned, spares and idle ones too.",
    ),
    (
        "MFU",
        r"MFU|FLOP utilisation",
        "Model FLOP utilisation: how much of the peak speed of a GPU a step of training reaches while nothing fails.",
    ),
    ("point", r"points?", "One hundredth: from 90 % to 92 % are two points."),
    (
        "failure",
        r"failures?|failure rates?|MTBF|node-days?",
        "Anything that takes a part of the cluster out of work: hardware, software, the network, planned work.",
    ),
    (
        "interruption",
        r"interrupt(?:ions?|ed|s)|disruptions?",
        "A failure that hits the job; it stops, and goes on from what it saved last.",
    ),
    (
        "checkpoint",
        r"checkpoints?|saves?|saving|saved",
        "A copy of all that the job has learnt so far. After a failure the job goes on from the last one.",
    ),
    (
        "spare",
        r"spares?",
        "A node that is paid for and waits to take the place of one that fails; a hot one is ready at once.",
    ),
    ("node", r"nodes?", "A server with several GPUs, which fail and are repaired together."),
    ("rack", r"racks?", "Servers that stand, and are powered and cooled, together."),
    (
        "replica",
        r"replicas?|replication of the model",
        "A complete copy of the model that a part of the GPUs trains; several train side by side on different data.",
    ),
    (
        "scale-up domain",
        r"domains?|NVL[0-9]+",
        "GPUs that are linked much faster than the network links nodes, such as those of a node or of a rack.",
    ),
    (
        "oversubscription",
        r"oversubscri(?:ption|bed)",
        "How much more traffic the lower part of a network can send than its upper part can carry.",
    ),
    (
        "restart",
        r"in-job restart|(?:hot )?restarts?|re-?initiali[sz](?:e|ation)",
        "How a job comes back after a failure: its processes start again and load what was saved last.",
    ),
    (
        "simulated run",
        r"simulated runs?|replications?",
        "One possible history of the cluster, with the failures that chance brings. Many of them show what is usual.",
    ),
    (
        "formula",
        r"closed form|formula",
        "A formula of theory that says the same without simulating, where its assumptions hold.",
    ),
    ("token", r"tokens?", "The unit of text that a model learns from, about three quarters of a word."),
    (
        "scenario",
        r"scenarios?",
        "The description that is simulated: a cluster, its jobs, what fails, and what is done about it.",
    ),
)

"""Terms: what each is called, how it is recognised in a text, and what it means."""


def bucket_words(bucket: str) -> str:
    """Return what time goes to, in words that stand after "goes to"."""
    return BUCKETS[bucket].lost_to if bucket in BUCKETS else bucket.replace("_", " ")


def cause_words(cause: str) -> str:
    """Return what a cause of lost time is called."""
    return "no failure at all" if cause == NO_FAILURE else cause_name(cause)


def metric_words(metric: str) -> str:
    """Return what a metric is called in a sentence for people."""
    return METRICS[metric].plain if metric in METRICS else metric.replace("_", " ")


def glossed(first_screen: FirstScreen) -> FirstScreen:
    """Return a first screen with the meaning of each term that stands on it, in the order of the text."""
    parts = [first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered]
    text = " ".join([first_screen.question, *(plain(words) for words in parts)])
    found = []
    for term, pattern, meaning in TERMS:
        match = re.search(rf"(?<![\w-])(?:{pattern})(?![\w])", text, re.IGNORECASE)
        if match is not None:
            found.append((match.start(), term, meaning))
    return replace(first_screen, glossary=tuple((term, meaning) for _, term, meaning in sorted(found)))
