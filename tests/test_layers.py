"""The layer rule of the house: a file imports only from lower layers, and heavy packages stay in their one place.

The checker is a function over (module name, source), so that the tests at the end can prove on invented sources that it
turns red.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from pathlib import Path
from typing import NamedTuple

from tests.cases import cases

ROOT = Path(__file__).resolve().parents[1]

# One row per layer, lowest first: packages and modules. Those of a row do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("sim.units", "sim.rng", "sim.quantiles", "sim.lazy", "sim.cache"),
    ("sim.yamlfile", "sim.steps", "sim.formulas"),
    ("sim.records",),
    ("sim.moments",),
    ("sim.plugins",),
    ("sim.scenario",),
    ("sim.catalog",),
    ("sim.policies",),
    ("sim.failures",),
    ("sim.cluster",),
    ("sim.input",),
    ("sim.engine",),
    ("sim.prepare",),
    ("sim.load", "sim.closed_form", "sim.compiled"),
    ("sim.run", "sim.layouts"),
    ("sim.offers",),
    ("sim",),
    ("analysis",),
    ("cli",),  # with analysis.commands, which is a part of it
)

RANKS = {component: rank for rank, row in enumerate(LAYERS) for component in row}

# Beyond the ranks: analysis sees what any user of the library sees.
OPEN_TO_ANALYSIS = {
    "sim.formulas",
    "sim.steps",
    "sim.units",
    "sim.cache",
    "sim.plugins",
    "sim.catalog",
    # A study is a file too: its mistakes are told, and its quantities read, as those of a scenario.
    "sim.yamlfile",
    "sim.records",
    "sim.moments",
    "sim.input",
    "sim.scenario",
}

# Where a package may be imported at all (a module or a folder) ...
CONFINED = {
    "simpy": ("sim.engine.kernel",),
    "numba": ("sim.compiled.machine", "sim.engine.native"),
    "networkx": ("sim.cluster",),
    "matplotlib": ("analysis.page.charts",),
    "typer": ("cli",),
    "distributed": ("analysis.sweep.workers",),
    "duckdb": ("analysis.sweep.results",),
    "optuna": ("analysis.optimize.search",),
    "pptx": ("analysis.page.formats",),
}

# ... and what costs too much start-up time to be imported outside a function.
LAZY = {"scipy", "matplotlib", "networkx", "distributed", "duckdb", "optuna", "pptx"}


parsed = functools.cache(ast.parse)

_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""What imports can be in."""


class Import(NamedTuple):
    """One imported name: dotted target, and whether it is inside a function or under TYPE_CHECKING."""

    target: str
    line: int
    deferred: bool
    typing_only: bool


def within(module: str, place: str) -> bool:
    """Tell whether `module` is `place` or lies in it."""
    return module == place or module.startswith(place + ".")


def component(dotted: str) -> str:
    """Return the row entry that a dotted name of ours belongs to; ``from sim import run`` belongs to ``sim``."""
    parts = dotted.split(".")
    if within(dotted, "analysis.commands"):
        return "cli"
    if parts[0] != "sim":
        return parts[0]
    return ".".join(parts[:2])


def imports_of(source: str) -> list[Import]:
    """List every import in `source`, wherever it hides; a relative import keeps its leading dots."""
    found: list[Import] = []

    def visit(node: ast.AST, deferred: bool, typing_only: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(within_ettrick(alias.name), node.lineno, deferred, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found.extend(
                Import(within_ettrick(f"{base}.{alias.name}"), node.lineno, deferred, typing_only)
                for alias in node.names
            )
        elif isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING":
            for child in node.body:
                visit(child, deferred, True)
            for child in node.orelse:
                visit(child, deferred, typing_only)
        else:
            inside = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, _BLOCKS):
                    visit(child, inside, typing_only)

    visit(parsed(source), False, False)
    return found


def within_ettrick(target: str) -> str:
    """Return a target of ours without ``ettrick.``; one that leaves it out itself begins with ``bare:``."""
    if target.split(".")[0] in {"sim", "analysis", "cli"}:
        return f"bare:{target}"
    return target.removeprefix("ettrick.")


def public_names(source: str) -> set[str]:
    """Return the names that a package offers: what `source` imports under ``if TYPE_CHECKING``."""
    blocks = [node for node in parsed(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports for alias in node.names}


def fault_of_ours(module: str, target: str, public: set[str]) -> str | None:
    """Return what is wrong with `module` importing our own `target`, or None."""
    own, other = component(module), component(target)
    if other not in RANKS:
        # A name taken from the package itself (sim.run), unless a file of that name waits for its row above.
        other = "sim"
    if own == other == "cli" and "cli" not in (target, target.partition(".")[0]):
        return None  # analysis.commands, which is a part of it
    if own == other == "sim" or (own == other and within(target, own)):
        return None
    if own == "analysis" and within(target, "sim"):
        name = target.removeprefix("sim.").split(".")
        exported = target == "sim" or (len(name) == 1 and name[0] in public)
        if not exported and other not in OPEN_TO_ANALYSIS:
            return f"{target} is not a public name of sim"
        return None
    if RANKS[other] >= RANKS[own]:
        return f"{other} is not in a lower layer than {own}"
    return None


def violations(module: str, source: str, public: set[str]) -> list[str]:
    """Return one line per breach of the layer rule in the file `module` with text `source`.

    `public` are the names that ``sim`` offers: what analysis may import from the package.
    """
    if component(module) not in RANKS:
        return [f"{module}: has no layer; give it a row in LAYERS"]
    faults: list[str] = []
    for target, line, deferred, typing_only in imports_of(source):
        place = f"{module}:{line}: "
        package = target.split(".")[0]
        if target.startswith("."):
            faults.append(place + "relative import")
        elif target.startswith("bare:"):
            faults.append(place + f"{target[5:]} is imported as ettrick.{target[5:]}")
        elif package in {"sim", "analysis", "cli"}:
            fault = fault_of_ours(module, target, public)
            if fault:
                faults.append(place + fault)
        elif package == "tests":
            faults.append(place + "the program does not import its tests")
        homes = CONFINED.get(package, (module,))
        if not any(home in (component(module), module) or within(module, home) for home in homes):
            faults.append(place + f"{package} belongs to {' and '.join(homes)} alone")
        if package in LAZY and not (deferred or typing_only):
            faults.append(place + f"{package} is imported inside functions only: it slows every start")
    if component(module) == "analysis":
        faults += [
            f"{module}:{node.lineno}: sim.{node.attr} is not a public name of sim"
            for node in ast.walk(parsed(source))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "sim"
            and node.attr not in public | {name.removeprefix("sim.") for name in OPEN_TO_ANALYSIS}
        ]
    return faults


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the repository."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, str]:
    """Return the text of every module of the program by dotted name."""
    files = [*(ROOT / "sim").rglob("*.py"), *(ROOT / "analysis").rglob("*.py"), ROOT / "cli.py"]
    return {module_name(path): path.read_text(encoding="utf-8") for path in sorted(files) if path.exists()}


def test_every_file_imports_only_from_lower_layers() -> None:
    """No file of the program breaches the layer rule."""
    texts = sources()
    public = public_names(texts["sim"])
    faults = [fault for module, text in texts.items() for fault in violations(module, text, public)]
    assert not faults, "\n" + "\n".join(faults)


@cases(
    ("module", "source", "fault"),
    [
        ("sim.units", "import ettrick.sim.formulas", "not in a lower layer"),
        ("sim.rng", "from ettrick.sim import units", "not in a lower layer"),
        ("sim.formulas.goodput", "from ettrick.sim.steps.time import step_time", "not in a lower layer"),
        ("sim.scenario.fields", "from ettrick.sim import catalog", "not in a lower layer"),
        ("sim.scenario.model", "from ettrick.sim.policies.contracts import Plan", "not in a lower layer"),
        ("sim.policies.recovery.ladder", "from ettrick.sim.failures import SOURCES", "not in a lower layer"),
        (
            "sim.policies.recovery.ladder",
            "from ettrick.sim.engine.ledger import Ledger",
            "not in a lower layer",
        ),
        ("sim.engine.ledger", "from ettrick.sim.prepare import prepare", "not in a lower layer"),
        ("sim.engine.job", "from ettrick.sim import load", "not in a lower layer"),
        ("sim.engine.job", "from ettrick.sim import Scenario", "sim is not in a lower layer"),
        ("sim.engine.job", "from ettrick import sim", "sim is not in a lower layer"),
        ("sim.prepare", "import ettrick.analysis.sweep", "not in a lower layer"),
        ("sim.prepare", "def f():\n    import ettrick.analysis", "not in a lower layer"),
        (
            "sim.formulas.goodput",
            "if TYPE_CHECKING:\n    from ettrick.sim.scenario.model import Scenario",
            "not in a lower layer",
        ),
        ("analysis.sweep", "from ettrick.sim.engine import run", "not a public name"),
        ("analysis.sweep", "from ettrick.sim import prepare", "not a public name"),
        ("analysis.sweep", "from ettrick.sim.run import run", "not a public name"),
        ("analysis.sweep", "from ettrick import sim\nsim.engine.run()", "sim.engine is not a public name"),
        ("analysis.sweep", "from ettrick import cli", "not in a lower layer"),
        ("sim.prepare", "from ettrick.sim.load import load", "not in a lower layer"),
        ("sim.utils", "", "has no layer"),
        ("sim.policies.recovery.ladder", "from . import views", "relative import"),
        ("sim.policies.recovery.ladder", "from ..failures import SOURCES", "relative import"),
        ("sim.load", "from sim.units import Rate", "is imported as ettrick.sim.units"),
        ("sim.load", "import analysis", "is imported as ettrick.analysis"),
        ("sim.load", "from tests.harness import check_source", "does not import its tests"),
        ("sim.engine.jobs", "import simpy", "simpy belongs to"),
        ("sim.engine.kernels", "from simpy.core import Environment", "simpy belongs to"),
        ("sim.steps.network", "def f():\n    import networkx", "networkx belongs to"),
        ("analysis.page.build", "def f():\n    from matplotlib import pyplot", "matplotlib belongs to"),
        ("analysis.page.chapters.run", "import typer", "typer belongs to"),
        ("sim.scenario.laws", "from scipy import stats", "inside functions only"),
        ("sim.scenario.laws", "class A:\n    from scipy import stats", "inside functions only"),
        ("sim.scenario.laws", "if TYPE_CHECKING:\n    pass\nelse:\n    import scipy", "inside functions only"),
        ("sim.cluster.graph_file", "import networkx as nx", "inside functions only"),
        (
            "analysis.page.charts",
            "try:\n    import matplotlib\nexcept ImportError:\n    pass",
            "inside functions only",
        ),
    ],
)
def test_checker_turns_red(module: str, source: str, fault: str) -> None:
    """Each kind of breach is found, by its own rule and by that one alone."""
    faults = violations(module, source, public={"run", "load"})
    assert len(faults) == 1
    assert fault in faults[0]


@cases(
    ("module", "source"),
    [
        ("sim.scenario.fields", "from ettrick.sim import units\nimport numpy as np"),
        (
            "sim.policies.contracts",
            "from ettrick.sim.scenario.model import Scenario\nfrom ettrick.sim.scenario.laws import Law",
        ),
        ("sim.policies.recovery", "from ettrick.sim.policies.recovery.ladder import Ladder"),
        (
            "sim.policies.recovery.ladder",
            "from ettrick.sim.policies.recovery import steps\nfrom ettrick.sim.policies.contracts import Plan",
        ),
        ("sim.engine.job", "from ettrick.sim.engine.ledger import Ledger"),
        (
            "sim.load",
            "from ettrick.sim.yamlfile import read\nfrom ettrick.sim.policies.recovery import RECOVERIES",
        ),
        ("sim", "from ettrick.sim.load import load\nfrom ettrick.sim.prepare import prepare"),
        ("sim.yamlfile", "from ettrick.sim import units"),
        ("sim.engine.kernel", "import simpy"),
        ("sim.cluster.graph_file", "if TYPE_CHECKING:\n    import networkx\ndef f():\n    import networkx"),
        ("sim.scenario.laws", "def f():\n    from scipy import stats"),
        ("analysis.page.charts", "def f():\n    import matplotlib.pyplot"),
        (
            "analysis.sweep",
            "from ettrick.sim import load, units\nfrom ettrick.sim.formulas.goodput import ettr\n"
            "import ettrick.analysis.sweep",
        ),
        ("analysis.sweep", "from ettrick import sim\nsim.run()\nsim.formulas"),
        ("cli", "import typer\nfrom ettrick import sim\nfrom ettrick.analysis import console"),
    ],
)
def test_checker_stays_green(module: str, source: str) -> None:
    """What the rule allows is not reported."""
    assert violations(module, source, public={"run", "load"}) == []


def load_cycles(sources: dict[str, str]) -> list[str]:
    """Return modules that need one another to be loaded, the first such circle; nothing if any can be loaded first."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = graph.setdefault(name, set())
        for node in parsed(source).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                module = within_ettrick(node.module)
                offered = {within_ettrick(f"{node.module}.{alias.name}") for alias in node.names}
                found |= (offered & sources.keys()) or ({module} & sources.keys())
            elif isinstance(node, ast.Import):
                found |= {within_ettrick(alias.name) for alias in node.names} & sources.keys()
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_any_module_of_analysis_can_be_loaded_first() -> None:
    """Files of analysis may import one another freely, but not in a circle."""
    files = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "analysis").rglob("*.py")}
    sources = {".".join(path.with_suffix("").parts): text for path, text in files.items() if path.name != "__init__.py"}
    assert load_cycles(sources) == []
    first, back = "from ettrick.analysis.b import x", "from ettrick.analysis import a"
    circle = {"analysis.a": first, "analysis.b": back, "analysis.c": ""}
    assert set(load_cycles(circle)) == {"analysis.a", "analysis.b"}
    lazy = {"analysis.a": first, "analysis.b": f"def f():\n    {back}"}
    assert load_cycles(lazy) == []
