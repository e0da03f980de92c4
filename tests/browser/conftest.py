"""A real browser: Chromium as the system has it, driven from outside, and never let near a network."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ettrick.analysis.page.formats import html
from tests.browser.example import example_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")

_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Opened(NamedTuple):
    """A page in a browser, what its console said, and what it asked for."""

    page: Page
    console: list[str]
    requests: list[str]


# For each module, not for the session: while it lives, no other test of the process can run an event loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("skipped: no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report that has everything."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(html.write(example_report()))
    return path


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> Iterator[Callable[[bool, float], Page]]:
    """Open tabs, with or without scripting and of so many dots to a pixel; each is used by many tests."""
    kept: dict[tuple[bool, float], Page] = {}

    def tab(scripts: bool, scale: float) -> Page:
        if (scripts, scale) not in kept:
            context = browser.new_context(
                java_script_enabled=scripts, device_scale_factor=scale, reduced_motion="reduce"
            )  # fmt: skip
            context.set_default_timeout(10_000)
            kept[scripts, scale] = context.new_page()
        return kept[scripts, scale]

    yield tab
    for page in kept.values():
        page.context.close()


@pytest.fixture
def opened(tabs: Callable[[bool, float], Page], page_file: Path) -> Iterator[Callable[..., Opened]]:
    """Open the page afresh; at the end its console is empty, and it has asked for nothing but itself."""
    kept: list[Opened] = []

    def open_page(
        width: int = 1200,
        height: int = 900,
        scheme: str = "light",
        *,
        scripts: bool = True,
        scale: float = 1.0,
        at: str = "",
        file: Path = page_file,
    ) -> Opened:
        page = tabs(scripts, scale)
        page.goto("about:blank")
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = Opened(page, [], [])
        listeners: dict[str, Callable[[Any], object]] = {
            "console": lambda message: found.console.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: found.console.append(f"error: {error}"),
            "dialog": lambda dialog: (found.console.append("dialog"), dialog.dismiss()),
            "request": lambda request: found.requests.append(request.url),
        }
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload]
        kept.append(found)
        undo.extend((page, event, listener) for event, listener in listeners.items())
        files.add(file.as_uri())
        page.goto(file.as_uri() + at)
        return found

    files: set[str] = set()
    undo: list[tuple[Page, str, Callable[[Any], object]]] = []
    yield open_page
    for page, event, listener in undo:
        page.remove_listener(event, listener)
    assert [line for each in kept for line in each.console] == []
    # A fragment is the same file.
    assert {url.partition("#")[0] for each in kept for url in each.requests} == files
