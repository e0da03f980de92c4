"""`ettrick explore`: sliders say what they change, and the page is for who knows its address."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.page import explore
from ettrick.analysis.page.explore import ExploreError, Explorer, Server, StaleError, disposition
from ettrick.analysis.statistics.estimates import means
from ettrick.analysis.study.load import load_study
from ettrick.sim import plugins
from ettrick.sim.units import DAY
from tests.cases import cases, mistake_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def never() -> None:
    """Find nothing stale."""


def explorer_of(name: str, *overrides: str) -> Explorer:
    """Return the explorer of a scenario that events simulate, so that no test waits for machine code."""
    found = Explorer(name, sim.template(name), (*overrides, "engine=events"))
    found.compiling = False
    return found


@pytest.fixture(scope="module")
def quick() -> Explorer:
    """Return the explorer of a small scenario."""
    return explorer_of("quickstart")


@pytest.fixture(scope="module")
def llama() -> Explorer:
    """Return the explorer of one with a bundle, a layout and planned interruptions."""
    return explorer_of("llama3-405b-54d")


@pytest.fixture(scope="module")
def server(quick: Explorer) -> Iterator[Server]:
    """Serve the small one."""
    with Server(quick) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()


def place(explorer: Explorer, knob: str, number: float) -> dict[str, str]:
    """Return the query that moves a slider to a number."""
    numbers = [stop.number for stop in explorer.knobs[knob].stops]
    return {knob: str(numbers.index(number))}


def test_every_position_of_every_slider_is_possible(quick: Explorer) -> None:
    """No position is refused, the start changes nothing, and each other one changes something."""
    assert set(quick.knobs) == {"rate", "gpus", "interval0", "detection", "recovery", "repair", "spares"}
    for name, knob in quick.knobs.items():
        for index in range(len(knob.stops)):
            found = quick.setting({name: str(index)})
            assert (found.prepared is quick.base) == (index == knob.start)
    assert quick.closed({}, never)["ettr"] == f"{100 * (quick.formula.ettr or 0):.2f} %"


def test_a_failure_rate_twice_as_high_leaves_what_is_planned(llama: Explorer) -> None:
    """With a planned rate p, the rate r becomes 2 (r - p) + p: 47 in 54 days are planned (arXiv 2407.21783)."""
    planned, rate = 47 / (54 * DAY), 1 / llama.base.jobs[0].mtti
    twice = llama.setting(place(llama, "rate", 2)).prepared
    assert 1 / twice.jobs[0].mtti == pytest.approx(2 * (rate - planned) + planned, rel=1e-9)


def test_sliders_of_times_multiply_what_is_stated(llama: Explorer) -> None:
    """Detection is twice as long on average, half of the GPUs are half of the layout, an interval is as said."""
    twice = llama.setting(place(llama, "detection", 2)).prepared
    assert twice.jobs[0].detection_mean == pytest.approx(2 * llama.base.jobs[0].detection_mean, rel=1e-9)
    half = llama.setting(place(llama, "gpus", 8192)).prepared
    layout = half.scenario.jobs[0].parallelism
    assert (half.jobs[0].gpus, layout.tensor, layout.pipeline, layout.data) == (8192, 8, 16, 64)
    hour = llama.setting(place(llama, "interval0", 3600)).prepared.scenario.checkpoint.tiers[0]
    assert hour.interval == "1 h"


def test_what_matters_most_comes_first(llama: Explorer) -> None:
    """Sliders are in the order of their worth; a tenth of the restart time is a tenth of the share that it takes."""
    worth = [abs(knob.worth or 0.0) for knob in llama.knobs.values()]
    assert worth == sorted(worth, reverse=True)
    share = llama.formula.shares["restart"]
    assert llama.knobs["recovery"].worth == pytest.approx(-0.1 * share, rel=0.2)  # restores are not of the recovery
    assert explore._worth_text(llama.knobs["spares"]) == "changes nothing in the closed form"


def test_what_is_copied_is_what_is_seen(llama: Explorer) -> None:
    """The copied command names the scenario and changes that make the same closed form, and no other slider's."""
    query = place(llama, "rate", 2) | place(llama, "gpus", 8192) | place(llama, "interval0", 1800)
    words = shlex.split(llama.closed(query, never)["command"])
    assert words[:3] == ["ettrick", "run", "llama3-405b-54d"]
    assert words[4] == "engine=events"  # what was on the command line
    assert words[3::2] == ["--set"] * len(words[4::2])
    formula = sim.closed_form(sim.prepare(sim.load(words[2], words[4::2])))
    assert formula == sim.closed_form(llama.setting(query).prepared)


def test_the_study_has_each_change_alone_and_all_of_them(llama: Explorer, tmp_path: Path) -> None:
    """The file is a study whose last point is the setting that was seen; without a change there is none."""
    with pytest.raises(ExploreError, match="no slider was moved"):
        llama.study({})
    query = place(llama, "rate", 2) | place(llama, "spares", 4)
    (tmp_path / "study.yaml").write_text(llama.study(query), encoding="utf-8")
    loaded = load_study(tmp_path / "study.yaml")
    points = list(loaded.points())
    assert [point.values[0].label for point in points][::3] == ["as it is", "all of these"]
    found = [sim.closed_form(sim.prepare(loaded.scenario(point))).ettr for point in points]
    assert found[0] == llama.formula.ettr
    assert found[3] == sim.closed_form(llama.setting(query).prepared).ettr
    assert len({point.values[0].label for point in points}) == len(points) == 4


def test_the_simulation_is_that_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dear one has one replication first and more with each request; in the end all is as of `ettrick run`."""
    monkeypatch.setattr(explore, "PATIENCE", 0.0)
    monkeypatch.setattr(explore, "REPLICATIONS", 4)
    quick = explorer_of("quickstart")
    seen = [quick.simulate({}, never) for _ in range(5)]
    counts = ["1 of 4 replications", "2 of 4 replications", "3 of 4 replications", "4 replications", "4 replications"]
    assert [found["how"].partition(" in ")[0] for found in seen] == counts
    assert [found["done"] for found in seen] == [False, False, False, True, True]
    assert "[" not in seen[0]["ettr"]  # one has no interval
    assert seen[3] == seen[4]
    found, mean = seen[3], means(replicate(quick.base, 4, processes=1).rows)["ettr"]
    assert found["shares"]["productive"][2] == pytest.approx(mean, rel=1e-12)
    assert found["metrics"][0][:2] == ("ETTR (productive / requested)", f"{100 * (mean or 0):.2f} %")
    assert quick.picture({}, never)["picture"].startswith("<svg")
    with pytest.raises(StaleError):
        quick.picture({"rate": "0"}, never)  # nothing of it was simulated
    assert sum(share for _, _, share in found["shares"].values()) == pytest.approx(1.0)


def test_a_stale_simulation_is_dropped(quick: Explorer) -> None:
    """Once a page has asked for something newer, what it asked for before ends, and nothing of another page."""
    first, other = quick.newest({"page": "a", "n": "1"}), quick.newest({"page": "b", "n": "1"})
    quick.simulate({}, first)
    quick.newest({"page": "a", "n": "2"})
    with pytest.raises(StaleError):
        quick.simulate({}, first)
    other()


def answer(server: Server, path: str, host: str = "", method: str = "GET") -> tuple[int, str]:
    """Return status and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
    found = connection.getresponse()
    text = found.read().decode()
    connection.close()
    return found.status, text


def test_only_who_knows_the_address_is_answered(server: Server) -> None:
    """A foreign Host (a name that points here), no token, and another token are refused, and nothing can be posted."""
    home = f"/{server.token}/"
    assert server.server_address[0] == "127.0.0.1"
    assert answer(server, home)[0] == answer(server, home, f"localhost:{server.server_port}")[0] == 200
    assert answer(server, home, "ettrick.example")[0] == answer(server, home, "127.0.0.1")[0] == 403
    for path in ("/", "/closed", "//closed", f"/{server.token[:-1]}/closed", f"/{server.token}x/"):
        status, text = answer(server, path)
        assert status == 403
        assert "ETTR" not in text
    assert answer(server, home, method="POST")[0] == 501
    assert answer(server, f"{home}etc/passwd")[0] == 404
    assert answer(server, f"{home}closed?rate=x")[0] == answer(server, f"{home}study")[0] == 422
    assert "failures.0.scale=10" in json.loads(answer(server, f"{home}closed?rate=999")[1])["command"]


def test_what_no_browser_sends_is_refused_in_words(server: Server) -> None:
    """An address that cannot be read is 400, a position that is no number is said, and a page may have any name."""
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
    connection.sendall(f"GET http://[::1/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    connection.close()
    status, text = answer(server, f"/{server.token}/closed?rate=1e3&page=any")
    assert (status, json.loads(text)) == (
        422, {"error": "rate: '1e3' is no whole number: a slider has positions 0, 1, 2, ..."}
    )  # fmt: skip


@cases(
    ("name", "header"),
    [
        ("explore-a.yaml", 'attachment; filename="explore-a.yaml"'),
        ("Größe 東.yaml", "attachment; filename=\"Gr__e _.yaml\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%E6%9D%B1.yaml"),
        ('a\r\nSet-Cookie: "x"/..\\b', 'attachment; filename="a__Set-Cookie_ _x__.._b"'),
    ],
)
def test_a_download_may_have_any_name(name: str, header: str) -> None:
    """What is not ASCII is encoded, and nothing in a name ends a header or leaves a folder (RFC 6266, RFC 8187)."""
    assert disposition(name) == header
    header.encode("ascii")


def test_connections_are_bounded_in_number_and_time(quick: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than there is room for is closed at once; one that says nothing makes room after a while."""
    monkeypatch.setattr(Server, "_CONNECTIONS", 2)
    monkeypatch.setattr("ettrick.analysis.page.explore._Handler.timeout", 0.5)
    with Server(quick) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        place = ("127.0.0.1", found.server_port)
        silent = [socket.create_connection(place, timeout=20) for _ in range(2)]
        with socket.create_connection(place, timeout=20) as third:
            assert third.recv(1) == b""
        assert [connection.recv(1) for connection in silent] == [b"", b""]
        for connection in silent:
            connection.close()
        assert answer_when_free(found) == 200
        found.shutdown()


def answer_when_free(server: Server) -> int:
    """Return the status of the page; the server may count a connection for a moment after it has closed it."""
    for _ in range(200):
        with contextlib.suppress(http.client.RemoteDisconnected):
            return answer(server, f"/{server.token}/")[0]
        time.sleep(0.05)
    return 0


def test_the_page_needs_nothing_else(server: Server) -> None:
    """It is below 300 kB, and names no other place."""
    text = answer(server, f"/{server.token}/")[1]
    assert len(text.encode()) < 300_000
    assert re.findall(r"(?:https?:)?//[a-z][\w.-]+", text) in ([], ["http://www.w3.org"])


def test_a_plugin_that_fails_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plugin raises is a line on the page, and what is our own mistake is not hidden."""
    monkeypatch.setattr(server.explorer, "closed", lambda *_: {}["none"])
    monkeypatch.setattr(server, "handle_error", lambda *_: None)
    with pytest.raises(http.client.RemoteDisconnected):
        answer(server, f"/{server.token}/closed")
    monkeypatch.setattr(plugins, "blame", lambda error: plugins.PluginError(f"recovery 'mine': {error!r}"))
    status, text = answer(server, f"/{server.token}/closed")
    assert (status, json.loads(text)) == (422, {"error": "recovery 'mine': KeyError('none')"})


def test_mistakes_are_one_line(server: Server) -> None:
    """A port in use, a fleet, a study and a wrong value end with one line and status 2."""
    for words, said in {
        ("quickstart", "--port", str(server.server_port)): "already in use",
        ("fleet-rsc1",): "explore is for jobs",
        ("spares-to-finish",): "is a study, not a scenario",
        ("quickstart", "--set", "spares.hot=-1"): "spares.hot",
    }.items():
        result: Any = CliRunner().invoke(cli.app, ["explore", *words, "--no-open"], prog_name="ettrick")
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(mistake_lines(result.stderr)) == 1


def test_ctrl_c_ends_it() -> None:
    """The address is printed, Ctrl-C ends the program with status 0, and nothing is said of it."""
    code = "from ettrick.cli import app; app()"
    words = [sys.executable, "-c", code, "explore", "quickstart", "--no-open", "--set", "engine=events"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/\n", process.stdout.readline())
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, trouble = process.communicate(timeout=60)
    assert (process.returncode, trouble) == (0, "")
