"""A page on this machine with sliders for what matters in a scenario: closed form at once, simulation behind it."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
import os
import re
import secrets
import shlex
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from ettrick import sim
from ettrick.analysis.amounts import number_of, percent_text, points_text, shown, time_text
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.metrics import RESTART, bucket_label
from ettrick.analysis.page.build import report_of
from ettrick.analysis.page.chapters import formula, losses
from ettrick.analysis.page.charts import NARROW
from ettrick.analysis.page.formats import html
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.analysis.results.run import document, render, replays_a_log
from ettrick.sim import catalog, plugins, units, yamlfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Prepared, Scenario, Template

# What can be moved: positions of a slider, and what each replaces in the scenario.

_FACTORS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10)
_SIZES = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1, 5 / 4, 3 / 2, 2, 3, 4)
_MINUTES = (0.25, 0.5, 1, 2, 3, 4, 5, 7, 10, 12, 15, 20, 25, 30, 40, 50, 60, 90, 120, 180, 240, 360)
_SPARES = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512)


class SliderPosition(NamedTuple):
    """A position of a slider: its number, what is read there, and the values of the scenario by path."""

    number: float
    text: str
    values: Mapping[str, Any]


class Slider(NamedTuple):
    """A slider.

    Parameters
    ----------
    worth
        By how much ETTR changes if its number grows by a tenth, or by one where a tenth is less [-]; ``None`` without
        a closed form.
    """

    name: str
    title: str
    stops: Sequence[SliderPosition]
    start: int
    worth: float | None = None


def _knobs(scenario: Scenario, prepared: Prepared) -> Iterable[Slider]:
    """Yield the sliders of a scenario; some of their positions may be impossible."""
    rates = {
        f"failures.{index}.scale": _times(entry)
        for index, entry in enumerate(scenario.failures)
        if hasattr(entry, "scale") and not getattr(entry, "planned", False)
    }
    if rates:
        yield _factors("rate", "Failure rate", rates)
    if len(scenario.jobs) == 1:
        yield _job_sizes(scenario, prepared)
    yield from _intervals(scenario, prepared)
    for name, title in (("detection", "Detection time"), ("recovery", "Restart time"), ("repair", "Repair time")):
        is_known = name != "detection" or any(job.detection_mean for job in prepared.jobs)  # twice nothing is nothing
        if is_known and hasattr(getattr(scenario, name), "scale"):
            yield _factors(name, title, {f"{name}.scale": _times(getattr(scenario, name))})
    group = prepared.units.needed if prepared.units is not None else 1
    hot = scenario.spares.hot
    counts = sorted({hot, *(group * count for count in _SPARES)})
    stops = [SliderPosition(count, f"{count:,} nodes", {"spares.hot": count}) for count in counts]
    yield Slider("spares", "Hot spares", stops, counts.index(hot))


def _job_sizes(scenario: Scenario, prepared: Prepared) -> Slider:
    """Return the slider of the GPUs of the only job, whose data parallelism goes with them."""
    gpus, parallelism = prepared.jobs[0].gpus, scenario.jobs[0].parallelism
    base = {"jobs.0.gpus": gpus} | ({} if parallelism is None else {"jobs.0.parallelism.data": parallelism.data})
    fits = [size for size in _SIZES if all(number * size == int(number * size) for number in base.values())]
    stops = [
        SliderPosition(gpus * size, f"{gpus * size:,.0f}", {path: int(count * size) for path, count in base.items()})
        for size in fits
    ]
    return Slider("gpus", "GPUs of the job", stops, fits.index(1))


def _times(entry: Any) -> Callable[[float], Any]:
    """Return what makes the scale of a part of the scenario from a factor; a bundle may have one for each cause."""
    if not isinstance(entry.scale, dict):
        return lambda factor: round(entry.scale * factor, 9)
    scales = {cause: entry.scale.get(cause, 1.0) for cause in catalog.causes(entry.use)}
    return lambda factor: {cause: round(scale * factor, 9) for cause, scale in scales.items()}


def _factors(name: str, title: str, paths: Mapping[str, Callable[[float], Any]]) -> Slider:
    stops = [
        SliderPosition(
            factor, f"\N{MULTIPLICATION SIGN} {factor:g}", {path: scale(factor) for path, scale in paths.items()}
        )
        for factor in _FACTORS
    ]
    return Slider(name, title, stops, _FACTORS.index(1))


def _intervals(scenario: Scenario, prepared: Prepared) -> Iterable[Slider]:
    """Yield a slider for each store that is written to at intervals; a rule becomes the interval that it chose."""
    checkpoint: Any = prepared.jobs[0].checkpoint
    spacing = {rung.store: rung.interval for rung in getattr(checkpoint, "rungs", ())}
    for index, tier in enumerate(scenario.checkpoint.tiers):
        if tier.interval is None:
            continue
        ruled = tier.interval.isalpha()
        seconds = spacing.get(tier.store, getattr(checkpoint, "interval", None)) if ruled else None
        base = seconds if seconds is not None else units.parse(tier.interval, units.DURATION)
        numbers = sorted({60.0 * minutes for minutes in _MINUTES if abs(60 * minutes / base - 1) > 0.02} | {base})
        path = f"checkpoint.tiers.{index}.interval"
        stops = [
            SliderPosition(number, time_text(number), {path: units.show(number, units.DURATION)}) for number in numbers
        ]
        if ruled:
            stops[numbers.index(base)] = SliderPosition(
                base, f"{time_text(base)} ({tier.interval})", {path: tier.interval}
            )
        yield Slider(f"interval{index}", f"Checkpoint interval, {tier.store}", stops, numbers.index(base))


# ----------------------------------------
# One scenario that is explored.

REPLICATIONS, PATIENCE = 32, 0.7
"""Replications of a setting; a request adds as many of them as fit into a time [s], one at least."""

_FIRST_PATIENCE = 0.03
"""Time into which those of the first answer about a setting fit [s]: numbers come soon, and more of them after it."""


class ExploreError(ValueError):
    """A scenario that has nothing to be explored; the message is one line."""


class StaleError(Exception):
    """Somebody has moved on."""


@dataclass(frozen=True)
class Setting:
    """The scenario with sliders at some positions: what that changes, and what came of it."""

    command: str
    texts: tuple[str, ...]
    values: Mapping[str, Any]
    prepared: Prepared


@dataclass
class PartialEnsemble:
    """The replications of a setting so far, how long they took [s], and the document of the last answer about them."""

    ensemble: Ensemble
    seconds: float = 0.0
    content: RunDocument | None = None


class Explorer:
    """The answers to the requests of the page.

    Parameters
    ----------
    overrides
        What replaces values of it, ``a.b=c``.

    Raises
    ------
    ExploreError
        If the scenario is a fleet.
    ScenarioError
        If there are mistakes in it.
    """

    def __init__(self, name: str, template: Template, overrides: Sequence[str]) -> None:
        self.name, self.overrides, self._template = name, tuple(overrides), template
        self.scenario = template.scenario(overrides)
        if self.scenario.streams or self.scenario.services or not self.scenario.jobs:
            raise ExploreError(
                f"{name}: explore is for jobs that are simulated in full; of streams and services: "
                "ettrick run, compare --vary, or a study"
            )
        self._prepared = functools.lru_cache(maxsize=64)(self._prepare)
        self._begun = functools.lru_cache(maxsize=8)(
            lambda texts: PartialEnsemble(Ensemble(self._prepared(texts), keeps_results=True))
        )
        self._simulating = threading.Lock()
        self._newest: dict[str, int] = {}
        self.compiling = True
        self.base = self._prepared(())
        self.formula = sim.closed_form(self.base)
        sliders = [self._possible(knob) for knob in _knobs(self.scenario, self.base)]
        self.knobs = {knob.name: knob for knob in sliders if len(knob.stops) > 1}
        if self.formula.ettr is not None:
            order = sorted(self.knobs.values(), key=lambda knob: -abs(knob.worth or 0.0))
            self.knobs = {knob.name: knob for knob in order}

    def _prepare(self, texts: tuple[str, ...]) -> Prepared:
        return sim.prepare(self._template.scenario((*self.overrides, *texts)))

    def _possible(self, knob: Slider) -> Slider:
        """Return a slider with the positions that the scenario can have, and what it is worth."""
        start, stops = knob.stops[knob.start], []
        for stop in knob.stops:
            try:
                if stop is not start and knob.name in ("gpus", "spares"):
                    self._prepared(_texts(stop.values))
            except (sim.ScenarioError, sim.PathError):
                continue
            stops.append(stop)
        place = stops.index(start)
        worth = None
        if self.formula.ettr is not None and len(stops) > 1:
            near = (stops[max(place - 1, 0)], start, stops[min(place + 1, len(stops) - 1)])
            forms = [self.formula if stop is start else sim.closed_form(self._prepared(_texts(stop.values)))
                     for stop in near]  # fmt: skip
            points = [(stop.number, form.ettr) for stop, form in zip(near, forms, strict=True) if form.ettr is not None]
            (low, first), (high, last) = points[0], points[-1]
            tenth = max(0.1 * start.number, 1.0) if knob.name == "spares" else 0.1 * start.number
            worth = (last - first) / (high - low) * tenth if high > low else None
        return knob._replace(stops=stops, start=place, worth=worth)

    def setting(self, query: Mapping[str, str]) -> Setting:
        """Return what the sliders of a query make of the scenario; those that are not named stay.

        Raises
        ------
        ScenarioError
            If the scenario cannot be so.
        """
        values: dict[str, Any] = {}
        for name, place in self._places(query).items():
            if place != self.knobs[name].start:
                values |= self.knobs[name].stops[place].values
        texts = _texts(values)
        words = [word for text in (*self.overrides, *texts) for word in ("--set", text)]
        return Setting(shlex.join(["ettrick", "run", self.name, *words]), texts, values, self._prepared(texts))

    def _places(self, query: Mapping[str, str]) -> dict[str, int]:
        """Return where each slider is; what is no position of it is the nearest one."""
        places = {name: int(query.get(name, knob.start)) for name, knob in self.knobs.items()}
        return {name: min(max(place, 0), len(self.knobs[name].stops) - 1) for name, place in places.items()}

    def compile(self) -> None:
        """Make machine code, where it can simulate the scenario."""
        try:
            if self._is_covered:
                sim.with_engine(replace(self.base, engine="compiled"), 1)
            html.inline_svg(losses.lost_shares(dict.fromkeys(sim.JOB_BUCKETS, 0.0), {}), "")  # the first takes seconds
        finally:
            self.compiling = False
            gc.freeze()  # what is there now stays: looking through it for garbage would make an answer wait

    @functools.cached_property
    def _is_covered(self) -> bool:
        """Whether machine code may simulate the scenario, and can."""
        return self.base.engine != "events" and not sim.why_events(replace(self.base, engine="compiled"), 1)

    def newest(self, query: Mapping[str, str]) -> Callable[[], None]:
        """Return what raises `StaleError` once the same page has asked for something newer than this."""
        page, number = query.get("page", ""), int(query.get("n", 0))
        self._newest[page] = max(number, self._newest.get(page, 0))

        def check() -> None:
            if number < self._newest[page]:
                raise StaleError

        return check

    def closed(self, query: Mapping[str, str], check: Callable[[], None]) -> dict[str, Any]:
        """Return what the closed form says of a setting.

        Raises
        ------
        StaleError
            If somebody has moved on.
        """
        check()
        setting = self.setting(query)
        formula, job = sim.closed_form(setting.prepared), setting.prepared.jobs[0]
        facts = f"interrupted every {time_text(job.mtti)} of running, detected after {time_text(job.detection_mean)}"
        return {
            "ettr": None if formula.ettr is None else percent_text(formula.ettr),
            "why": "; ".join(formula.reasons),
            "shares": _shown(formula.shares),
            "facts": f"On average {facts}." if math.isfinite(job.mtti) else "No interruption is expected.",
            "command": setting.command,
        }

    def simulate(self, query: Mapping[str, str], check: Callable[[], None]) -> dict[str, Any]:
        """Simulate more replications of a setting, and return what all of them say.

        Raises
        ------
        StaleError
            If somebody has moved on.
        """
        setting = self.setting(query)
        with self._simulating:
            check()
            partial = self._begun(setting.texts)
            engine = self._simulate_more(partial, check)
            content = partial.content = document(partial.ensemble, command="")
        done = content.replications == REPLICATIONS
        how = ("" if done else f"{content.replications} of ") + number_of(REPLICATIONS, "replication")
        how += f" in {partial.seconds:.2f} s by {'machine code' if engine == 'compiled' else 'events'}"
        if not done and self.compiling and self._is_covered:
            how += "; machine code is being compiled"
        seen = content.closed_form.simulated
        outside = seen.outside_ci95 if seen is not None else None
        return {
            "ettr": shown("ettr", [content.metrics["ettr"].mean]).worded(content.metrics["ettr"]),
            "shares": _shown({name: share for name, (_, share) in formula.beside(content).items()}),
            "metrics": [row[:3] for row in losses.goodput(content).rows],
            "how": f"{how}.",
            "apart": f"The closed form is outside the 95 % interval by {points_text(outside, '')}." if outside else "",
            "done": done,
        }

    def picture(self, query: Mapping[str, str], check: Callable[[], None]) -> dict[str, str]:
        """Draw where the time goes in the replications of the last answer about a setting; drawing takes longest.

        Raises
        ------
        StaleError
            If somebody has moved on, or nothing of the setting was simulated.
        """
        setting = self.setting(query)
        with self._simulating:
            check()
            partial = self._begun(setting.texts)
            if partial.content is None:
                raise StaleError
            has_chance = not replays_a_log(setting.prepared)
            intervals = losses.loss_intervals(partial.ensemble.results) if has_chance else {}
            picture = losses.lost_shares(partial.content.time_shares, intervals)
            drawn = html.inline_svg(picture._replace(title=""), "picture", NARROW)
        return {"title": picture.title, "picture": drawn.markup}

    def _simulate_more(self, partial: PartialEnsemble, check: Callable[[], None]) -> str:
        """Add as many replications as there is time for, and return what simulates them."""
        prepared, start = partial.ensemble.prepared, time.perf_counter()
        is_compiled = self._is_covered and not self.compiling and not sim.why_events(prepared, 10**9)
        ready = replace(prepared, engine="compiled" if is_compiled else "events")
        before, patience = partial.seconds, PATIENCE if partial.seconds else min(PATIENCE, _FIRST_PATIENCE)
        while len(partial.ensemble.rows) < REPLICATIONS:
            partial.ensemble.add(sim.run(ready, len(partial.ensemble.rows)))
            partial.seconds = before + time.perf_counter() - start
            check()
            if partial.seconds - before > patience:
                break
        return ready.engine

    def study(self, query: Mapping[str, str]) -> str:
        """Return a study: the scenario as it is, each slider that was moved alone, and all of them.

        Raises
        ------
        ExploreError
            If none was moved.
        """
        places = self._places(query)
        moved = [knob for name, knob in self.knobs.items() if places[name] != knob.start]
        if not moved:
            raise ExploreError("no slider was moved: there is nothing to compare")
        base = {path: value for knob in moved for path, value in knob.stops[knob.start].values.items()}
        choices = {"as it is": base}
        for knob in moved:
            stop = knob.stops[places[knob.name]]
            choices[f"{knob.title} {stop.text}"] = {**base, **stop.values}
        if len(moved) > 1:
            choices["all of these"] = {**self.setting(query).values}
        stated = dict(_assigned(text) for text in self.overrides)
        content = {
            "name": f"explore-{self.base.name}",
            "question": "What is each change worth on its own, and what are all of them worth together?",
            "scenario": self.name if self.name in sim.shipped("scenarios") else str(sim.find(self.name).absolute()),
            "seed": stated.pop("seed", None),  # a study has one for all of its points
            "set": stated,
            "vary": {"setting": {"choices": choices}},
            "metrics": ["ettr"],
            "replications": REPLICATIONS,
            "questions": [{"use": "best"}],
        }
        return sim.dump({key: value for key, value in content.items() if value not in (None, {})})

    def report(self, query: Mapping[str, str]) -> bytes:
        """Return the report of a run of a setting, as `ettrick report` would write it."""
        setting = self.setting(query)
        with self._simulating, tempfile.TemporaryDirectory(prefix="ettrick-") as name:
            ensemble = replicate(setting.prepared, REPLICATIONS, processes=1)
            folder = Path(name)
            (folder / "run.json").write_text(render(document(ensemble, command=setting.command)), encoding="utf-8")
            (folder / "scenario.resolved.yaml").write_text(sim.dump(setting.prepared.scenario.dump()), encoding="utf-8")
            return html.write(report_of(folder))


def _texts(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return values by path as texts ``a.b=c``."""
    return tuple(f"{path}={yamlfile.value_text(value)}" for path, value in values.items())


def _assigned(text: str) -> tuple[str, Any]:
    """Return the path and the value of a text ``a.b=c``."""
    path, _, value = text.partition("=")
    node = yamlfile.parse(value, yamlfile.Mark("--set"))
    return path.strip(), None if node is None else node.content


def _shown(shares: Mapping[str, float]) -> dict[str, tuple[str, str, float]]:
    """Return by bucket its name, and its share in words and as a number."""
    names = {"restart": " + ".join(map(bucket_label, RESTART))}
    return {name: (names.get(name) or bucket_label(name), percent_text(share), share) for name, share in shares.items()}


# ----------------------------------------
# The server: one page, for who has its address.


class Server(ThreadingHTTPServer):
    """Answers on this machine alone, whoever knows the token.

    Parameters
    ----------
    port
        0 for one that is free.

    Raises
    ------
    OSError
        If the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"
    _CONNECTIONS = 32  # at once: a browser has six, and a few pages may be open

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.explorer, self.token = explorer, secrets.token_urlsafe(24)
        self.page = _page(explorer)
        self._places = threading.BoundedSemaphore(self._CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or close the connection where there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer until the connection is closed, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and a body would wait for each other, 40 ms
    timeout = 60.0  # [s] without a request

    def do_GET(self) -> None:
        """Answer, or refuse who does not belong here."""
        try:
            address = urlsplit(self.path)
        except ValueError:
            return self._send("400: the address cannot be read", status=HTTPStatus.BAD_REQUEST)
        token, _, wanted = address.path.removeprefix("/").partition("/")
        hosts = [f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")]
        if self.headers.get("Host") not in hosts:
            return self._send("403: this address is for a browser on this machine", status=HTTPStatus.FORBIDDEN)
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return self._send("403: open the whole address that was printed", status=HTTPStatus.FORBIDDEN)
        explorer = self.server.explorer
        numbers = {"closed": explorer.closed, "simulated": explorer.simulate, "picture": explorer.picture}
        try:
            query = _query(address.query)
            check = explorer.newest(query)
            if wanted == "":
                return self._send(self.server.page, "text/html")
            if wanted in numbers:
                return self._send(json.dumps(numbers[wanted](query, check)), "application/json")
            if wanted == "study":
                return self._send(explorer.study(query), "application/yaml", f"explore-{explorer.base.name}.yaml")
            if wanted == "report":
                return self._send(explorer.report(query), "text/html")
        except StaleError:
            return self._send('{"stale": true}', "application/json")
        except Exception as error:
            cause = plugins.blame(error) or error
            if not isinstance(cause, ValueError):  # a setting that cannot be, no setting, or a plugin that fails
                raise
            line = str(cause).splitlines()[0]
            return self._send(json.dumps({"error": line}), "application/json", status=HTTPStatus.UNPROCESSABLE_ENTITY)
        return self._send("404: no such page", status=HTTPStatus.NOT_FOUND)

    def _send(
        self, content: str | bytes, kind: str = "text/plain", name: str = "", status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        body = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if name:
            self.send_header("Content-Disposition", disposition(name))
        for header, value in _HEADERS.items():
            self.send_header(header, value)
        with contextlib.suppress(ConnectionError):  # who has moved on does not listen
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing of single requests."""


def _query(text: str) -> dict[str, str]:
    """Return the values of a query: positions of sliders and numbers of requests are whole.

    Raises
    ------
    ExploreError
        If one of them is none.
    """
    query = dict(parse_qsl(text))
    for name, value in query.items():
        if name != "page" and not re.fullmatch(r"-?[0-9]{1,15}", value):
            raise ExploreError(f"{name}: '{value[:40]}' is no whole number: a slider has positions 0, 1, 2, ...")
    return query


def disposition(name: str) -> str:
    """Return the header that names a file to be saved: in ASCII for all, and exactly for those that read RFC 8187.

    References
    ----------
    RFC 6266, RFC 8187.
    """
    name = "".join(letter if letter.isprintable() and letter not in '/\\:"' else "_" for letter in name)
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    exact = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{exact}'


_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


def _page(explorer: Explorer) -> str:
    """Return the page as HTML, with the knobs and the first results in it."""
    knobs = [
        {
            "name": knob.name,
            "title": knob.title,
            "stops": [stop.text for stop in knob.stops],
            "start": knob.start,
            "worth": _worth_text(knob),
        }
        for knob in explorer.knobs.values()
    ]
    return html.explore_page(explorer.base.name, explorer.scenario.description, knobs)


def _worth_text(knob: Slider) -> str:
    if knob.worth is None:
        return ""
    if not knob.worth:  # spares and repairs, where it counts on a node for each restart
        return "changes nothing in the closed form"
    more = "one more" if knob.name == "spares" and knob.stops[knob.start].number < 10 else "10 % more"
    return f"{points_text(knob.worth)} of ETTR for {more}".replace("-", "\N{MINUS SIGN}")
