"""What other packages bring, by their entry points: the group is ``ettrick.`` and the key that names a strategy.

A package states in its ``pyproject.toml``::

    [project.entry-points."ettrick.recovery"]
    coin-toss = "coin_toss:CoinToss"

Nothing is looked for, and nothing of another package is imported, until a name is asked for that is not built in.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.yamlfile import Data

_PREFIX = "ettrick."


class PluginError(ValueError):
    """What another package brings cannot be used; the message is one line that names it."""


class Plugin(NamedTuple):
    """One entry point, which need not have been imported.

    Parameters
    ----------
    kind
        The key that names such things, as ``recovery``.
    name
        What the key names.
    package
        Name and version of the package that brings it; of all that do, if there are several.
    entry
        Where it is.
    """

    kind: str
    name: str
    package: str
    entry: metadata.EntryPoint

    def __str__(self) -> str:
        """Return what it is called in messages."""
        return f"{self.kind} '{self.name}' of {self.package}"


@functools.cache
def found() -> dict[str, dict[str, Plugin]]:
    """Return, by kind and name, what the packages of this environment bring; nothing is imported."""
    kinds: dict[str, dict[str, Plugin]] = {}
    for group in sorted(metadata.entry_points().groups):
        if not group.startswith(_PREFIX):
            continue
        kind = group.removeprefix(_PREFIX)
        of_kind = kinds.setdefault(kind, {})
        for entry in sorted(metadata.entry_points(group=group), key=lambda entry: entry.name):
            package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module
            if entry.name in of_kind:
                package = f"{of_kind[entry.name].package} and {package}"
            of_kind[entry.name] = Plugin(kind, entry.name, package, entry)
    return kinds


_loaded: dict[tuple[str, str], Data] = {}
"""What has been imported, or the error that says why it cannot be used, by kind and name."""


def load(plugin: Plugin, alike: Sequence[Data]) -> Data:
    """Return what an entry point names.

    Parameters
    ----------
    plugin
        One of `found`.
    alike
        What is built in of this kind: models, or functions. A model needs all that these have in common.

    Raises
    ------
    PluginError
        If it cannot be imported, or is no such thing.
    """
    key = plugin.kind, plugin.name
    if key not in _loaded:
        try:
            if " and " in plugin.package:
                raise PluginError("the name is there twice")  # noqa: TRY301
            value = plugin.entry.load()
            _check(value, plugin.name, alike)
            _loaded[key] = value
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, PluginError) else _in_a_line(error)
            _loaded[key] = PluginError(f"{plugin} cannot be used: {reason}")
    if isinstance(_loaded[key], PluginError):
        raise _loaded[key]
    return _loaded[key]


def _check(value: Data, name: str, alike: Sequence[Data]) -> None:
    """Refuse what lacks something that all have that are built in."""
    if not all(isinstance(model, type) for model in alike):
        if not callable(value):
            raise PluginError("it is no function")
        return
    if name in (known for model in alike for known in _names(model)):
        raise PluginError("the name is built in")
    # The nearest class that all have in common; of one kind alone it is that kind.
    base = next(base for base in alike[0].__mro__ if all(issubclass(model, base) for model in alike))
    if not (isinstance(value, type) and issubclass(value, base)):
        raise PluginError(f"it is no subclass of {base.__module__}.{base.__qualname__}")
    if _names(value) != (name,):
        raise PluginError(f'it needs the field use: Literal["{name}"] = "{name}"')
    common = set.intersection(*(set(dir(model)) | model.model_fields.keys() for model in alike))
    lacking = sorted(n for n in common - set(dir(value)) - value.model_fields.keys() if not n.startswith("_"))  # type: ignore[attr-defined]
    lacking += sorted(getattr(value, "__abstractmethods__", ())) if inspect.isabstract(value) else []
    if lacking:
        raise PluginError(f"it lacks {', '.join(lacking)}")


def _names(model: Data) -> tuple[str, ...]:
    field = model.model_fields.get("use")
    return get_args(field.annotation) if field is not None else ()


def usable(kind: str, alike: Sequence[Data]) -> tuple[dict[str, Data], list[str]]:
    """Return all of a kind that can be used, by name, and a line about each that cannot."""
    values: dict[str, Data] = {}
    lines = []
    for name, plugin in found().get(kind, {}).items():
        try:
            values[name] = load(plugin, alike)
        except PluginError as error:
            lines.append(str(error))
    return values, lines


def loaded(kind: str) -> dict[str, Data]:
    """Return what has been imported of a kind, by name."""
    return {name: value for (of, name), value in _loaded.items() if of == kind and not isinstance(value, PluginError)}


def _owners() -> dict[str, Plugin]:
    """Return, by the name of its topmost package or module, each plugin that has been imported."""
    plugins = [found()[kind][name] for (kind, name), value in _loaded.items() if not isinstance(value, PluginError)]
    return {plugin.entry.module.partition(".")[0]: plugin for plugin in plugins}


def used(scenario: Data) -> str:
    """Return the first strategy in a model that another package brings, with its key; nothing if there is none."""
    found_first = _first(scenario)
    return f"{found_first[0].kind}.use: {found_first[1].use}" if found_first is not None else ""


def _first(value: Data) -> tuple[Plugin, Data] | None:
    """Return the first model in a value that is of a plugin."""
    owners = _owners()
    return _first_of(owners, value) if owners else None


def _first_of(owners: dict[str, Plugin], value: Data) -> tuple[Plugin, Data] | None:
    if hasattr(value, "model_fields_set"):
        plugin = owners.get(type(value).__module__.partition(".")[0])
        if plugin is not None and hasattr(value, "use"):
            return plugin, value
        value = tuple(vars(value).values())
    if isinstance(value, tuple | list):
        return next((one for part in value if (one := _first_of(owners, part)) is not None), None)
    return None


def blame(error: BaseException, scenario: Data = None) -> PluginError | None:
    """Return an error as one line about the plugin that raised it, or that gave what raised it; ``None`` if none did.

    Parameters
    ----------
    error
        What was raised.
    scenario
        What was simulated; its plugin is to blame where no frame of the error is in one.
    """
    owners = _owners()
    if not owners or isinstance(error, PluginError):
        return None
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        plugin = owners.get(str(frame.f_globals.get("__name__", "")).partition(".")[0])
        if plugin is not None:
            return PluginError(f"{plugin}: {_in_a_line(error)} ({Path(frame.f_code.co_filename).name}:{line})")
    first = _first(scenario)
    return PluginError(f"{first[0]}: {_in_a_line(error)}") if first is not None else None


def _in_a_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def digest() -> str:
    """Return a digest of the code of all plugins of this environment; nothing where there is none."""
    packages = {plugin.entry.module.partition(".")[0] for of_kind in found().values() for plugin in of_kind.values()}
    return " ".join(f"{package} {_digest(package)}" for package in sorted(packages))


def _digest(package: str) -> str:
    """Return a digest of the source of a package or module; nothing of one that is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
