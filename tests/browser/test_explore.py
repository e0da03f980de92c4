"""The page of `ettrick explore` in a browser: sliders, keyboard, light and dark, on a phone and on a desk."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.analysis.page.explore import Explorer, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

MEASURES = (Path(__file__).parent / "measures.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve a small scenario, simulated by events."""
    explorer = Explorer("quickstart", sim.template("quickstart"), ["engine=events", "cost={gpu_hour: 2.5}"])
    explorer.compiling = False
    with Server(explorer) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def explored(tabs: Callable[[bool, float], Page], server: Server) -> Iterator[Page]:
    """Open the page; at the end its console is empty, and it has asked nobody else."""
    page, said, asked = tabs(True, 1.0), [], []
    listeners: dict[str, Callable[[Any], object]] = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(server.address)
    page.wait_for_selector("body[data-simulated]")
    yield page
    page.goto("about:blank")
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert said == []
    assert all(url.startswith((server.address, "about:", "data:")) for url in asked)


def settled(page: Page) -> None:
    """Wait until the simulation of the last move is shown."""
    page.wait_for_selector("#answer[aria-busy=false]")


def test_the_keyboard_moves_a_slider(explored: Page, server: Server) -> None:
    """An arrow key changes the closed form, then the simulation; Copy, Save and Report follow; and back again."""
    explorer = server.explorer
    first = next(iter(explorer.knobs.values()))
    assert explored.is_hidden("#study")
    explored.keyboard.press("Tab")
    assert explored.evaluate("document.activeElement.className") == "skip"
    explored.focus(f"input[name={first.name}]")
    explored.keyboard.press("ArrowRight")
    query = {first.name: str(first.start + 1)}
    settled(explored)
    closed, seen = explorer.closed(query, lambda: None), explorer.simulate(query, lambda: None)
    assert closed["ettr"] in explored.inner_text("#answer")
    assert seen["ettr"] in explored.inner_text("#answer").replace("\u00a0", " ")
    assert seen["how"] in explored.inner_text("#how")
    assert explored.inner_text("#command") == closed["command"]
    assert explored.get_attribute(f"input[name={first.name}]", "aria-valuetext") == first.stops[first.start + 1].text
    assert explored.get_attribute("#study", "href") == f"study?{first.name}={first.start + 1}"
    assert "cost per run" in explored.inner_text("#metrics")
    explored.click("#reset")
    settled(explored)
    explored.wait_for_function(
        f"document.querySelector('#command').innerText === {explorer.closed({}, lambda: None)['command']!r}"
    )


def test_only_the_last_of_many_moves_is_shown(explored: Page, server: Server) -> None:
    """Twenty moves at once end with the closed form and the simulation of the last, whatever came back late."""
    settled(explored)
    knob = server.explorer.knobs["rate"]
    explored.evaluate(
        """() => {
          const slider = document.querySelector('input[name=rate]');
          for (let place = 0; place < 20; place += 1) {
            slider.value = place;
            slider.dispatchEvent(new Event('input'));
          }
        }"""
    )
    settled(explored)
    wanted = server.explorer.simulate({"rate": "19"}, lambda: None)
    assert explored.inner_text("#now-rate") == knob.stops[19].text
    assert wanted["ettr"] in explored.inner_text("#answer").replace("\u00a0", " ")


@pytest.mark.parametrize("width", [400, 1280])
def test_it_can_be_read(explored: Page, width: int) -> None:
    """In the light and in the dark: nothing overflows, type has contrast, and everything has a name."""
    explored.set_viewport_size({"width": width, "height": 3000})
    settled(explored)
    explored.wait_for_timeout(100)
    assert explored.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    for scheme in ("light", "dark"):
        explored.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = explored.evaluate(f"{MEASURES}; contrasts()")
        assert len(found) > 50
        assert [entry for entry in found if entry["ratio"] < 4.5] == []
    explored.set_viewport_size({"width": width, "height": 500})
    explored.focus("input[name=spares]")
    ends = explored.evaluate(
        "['#answer', 'input[name=spares]'].flatMap((each) => "
        "{ const box = document.querySelector(each).getBoundingClientRect(); return [box.top, box.bottom]; })"
    )
    assert 0 <= ends[0] < ends[1] <= ends[2] < ends[3] <= 500  # the answer stays in sight, and hides no slider
    structure = explored.evaluate(f"{MEASURES}; structure()")
    assert structure["twice"] == structure["unnamed"] == structure["unscoped"] == []


def test_the_page_says_when_the_program_has_ended(tabs: Callable[[bool, float], Page]) -> None:
    """After Ctrl-C a slider that is moved says so in words."""
    explorer = Explorer("quickstart", sim.template("quickstart"), ["engine=events"])
    explorer.compiling = False
    with Server(explorer) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        page = tabs(True, 1.0)
        page.goto(server.address)
        page.wait_for_selector("body[data-simulated]")
        page.route("**/closed*", lambda route: route.abort())
        server.shutdown()
    page.press("input[name=rate]", "End")
    page.wait_for_selector("#trouble:has-text('has ended')")
    page.unroute("**/closed*")
