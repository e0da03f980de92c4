"""The one style of all pictures, and how they become files."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "CONTROLS",
    "FAINT",
    "GREEN",
    "GREY",
    "HUES",
    "INK",
    "ON_DARK",
    "ON_LIGHT",
    "ORANGE",
    "QUIET",
    "RAMP",
    "SUFFIXES",
    "hue",
    "on",
    "render",
    "style",
]

CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
"""Characters that no document may hold, whatever a name holds (XML 1.0, section 2.2)."""

SUFFIXES = (".svg", ".png", ".pdf")
"""Formats of pictures, by the end of the file's name."""

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D1F")
"""Colours that the colour-blind tell apart, after Okabe and Ito; the last two replace black and yellow."""

BLUE, ORANGE, GREEN = HUES[:3]
GREY, INK, FAINT = "#8a8f98", "#22262b", "#e6e8eb"
"""What belongs to nothing in particular; type; lines of a grid."""

QUIET = 0.75
"""Opacity of ink for what is read second; grey itself is too light for type."""

RAMP = (
    "#fff3d3", "#f6d8a4", "#eebb78", "#e59d4e", "#da7f28", "#cb6100", "#b84500", "#a12a00", "#871107",
)  # fmt: skip
"""Shades of tables from little to much: each is darker than the one before, so that they tell without colours too."""
ON_LIGHT, ON_DARK = "#0d0f12", "#fefefe"
"""Type on shades. These stay as they are where a page is dark, because the shades do."""
_DARK_FROM = 6


def hue(number: int) -> str:
    """Return a colour; grey for what belongs to nothing in particular."""
    return HUES[number % len(HUES)] if number >= 0 else GREY


def on(shade: int) -> str:
    """Return the colour of type on one of the shades of `RAMP`."""
    return ON_DARK if shade >= _DARK_FROM else ON_LIGHT


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set the one style of all pictures: plain type on white, and the same bytes from the same data."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": "white",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.0,
        "text.color": INK,
        "savefig.dpi": 200,
        "svg.fonttype": "none",  # text stays text: it can be searched, read aloud, and is small
        "svg.hashsalt": "ettrick",
        "path.simplify": False,
        "text.parse_math": False,  # a dollar in a name is a dollar
    }
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # not those of the person who draws
        mpl.rcParams.update(settings)
        # A letter that the face lacks is shown as a box; that is all there is to say.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as the content of a file: the same bytes each time.

    Parameters
    ----------
    figure
        The picture.
    suffix
        One of ``SUFFIXES``.
    """
    without_dates: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "Ettrick"},
        ".png": {"Software": "Ettrick"},
        ".pdf": {"CreationDate": None, "Creator": "Ettrick"},
    }
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=without_dates[suffix])
    return content.getvalue().translate(None, CONTROLS) if suffix == ".svg" else content.getvalue()
