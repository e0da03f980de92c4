"""Sphinx configuration: Markdown pages, no network, and every warning an error (``make docs``)."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path

_root = Path(__file__).resolve().parents[1]
_metadata = tomllib.loads((_root / "pyproject.toml").read_text(encoding="utf-8"))

project = "Ettrick"
release = version = _metadata["project"]["version"]
language = "en"

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

exclude_patterns = ["_build"]
# Examples in YAML and JSON may be abridged with "…", which their lexers do not know.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"Ettrick {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["dark.css"]
html_search_scorer = str(_root / "docs" / "_static" / "scorer.js")  # Sphinx looks in the working directory

# A chapter's folder appears with its first page; until then its glob in index.md is empty. Sphinx gives this warning a
# subtype but no type, so that suppress_warnings cannot name it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", "") != "empty_glob"
)
