"""The plugins of other packages, by their entry points: the group is ``ettrick.`` and the key that names a strategy.

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
import itertools
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.sim.yamlfile import Data

_PREFIX = "ettrick."


class PluginError(ValueError):
    """An error of a plugin that cannot be used; the message is one line that names it."""


class Plugin(NamedTuple):
    """An entry point, which need not have been imported.

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

    @property
    def module(self) -> str:
        """The topmost package or module that it is in."""
        return self.entry.module.partition(".")[0]

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
"""The imported plugins, or the error that says why one cannot be used, by kind and name."""


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
    _check_model(value, name, alike)


def _check_model(value: Data, name: str, alike: Sequence[Data]) -> None:
    """Refuse a model that is not as those that are built in."""
    if name in itertools.chain.from_iterable(map(_names, alike)):
        raise PluginError("the name is built in")
    # The nearest class that all have in common; of one kind alone it is that kind.
    base = next(base for base in alike[0].__mro__ if all(issubclass(model, base) for model in alike))
    if not (isinstance(value, type) and issubclass(value, base)):
        raise PluginError(f"it is no subclass of {base.__module__}.{base.__qualname__}")
    if _names(value) != (name,):
        raise PluginError(f'it needs the field use: Literal["{name}"] = "{name}"')
    lacking = _lacking(value, alike)
    if lacking:
        raise PluginError(f"it lacks {', '.join(lacking)}")


def _lacking(value: Data, alike: Sequence[Data]) -> list[str]:
    """Return what a model lacks that all have that are built in, and what it leaves abstract."""
    common = set.intersection(*(set(dir(model)) | model.model_fields.keys() for model in alike))
    lacking = sorted(n for n in common - set(dir(value)) - value.model_fields.keys() if not n.startswith("_"))
    return lacking + (sorted(getattr(value, "__abstractmethods__", ())) if inspect.isabstract(value) else [])


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


def _imported() -> list[Plugin]:
    """Return the plugins that have been imported and can be used."""
    return [found()[kind][name] for (kind, name), value in _loaded.items() if not isinstance(value, PluginError)]


def _is_of(plugin: Plugin, module: str) -> bool:
    return module.partition(".")[0] == plugin.module


def used(scenario: Data) -> str:
    """Return the first strategy in a model that another package brings, with its key; nothing if there is none."""
    return next((f"{plugin.kind}.use: {plugin.name}" for plugin in _all_in(scenario)), "")


def _all_in(value: Data) -> Iterator[Plugin]:
    """Yield the plugins whose models are in a value."""
    if not _loaded:
        return
    if hasattr(value, "model_fields_set"):
        name, module = getattr(value, "use", None), type(value).__module__
        yield from (plugin for plugin in _imported() if plugin.name == name and _is_of(plugin, module))
        value = tuple(vars(value).values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from _all_in(part)


def blame(error: BaseException, scenario: Data = None) -> PluginError | None:
    """Return an error as one line about the plugin that raised it, or that gave what raised it; ``None`` if none did.

    Parameters
    ----------
    error
        What was raised.
    scenario
        What was simulated or asked; where no frame of the error is in a plugin, one of those in it is to blame.
    """
    plugins = _imported()
    if not plugins or isinstance(error, PluginError):
        return None
    frames = [
        (frame.f_code, line, owners)
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__)))
        if (owners := [plugin for plugin in plugins if _is_of(plugin, str(frame.f_globals.get("__name__", "")))])
    ]
    if frames:
        # A package may bring several: the class or function of an entry is in a frame, or helpers of theirs alone.
        named = (
            plugin
            for code, _, owners in frames
            for plugin in owners
            if plugin.entry.attr.partition(".")[0] == code.co_qualname.partition(".")[0]
        )
        code, line, owners = frames[0]
        plugin = next(named, owners[0])
        return PluginError(f"{plugin}: {_in_a_line(error)} ({Path(code.co_filename).name}:{line})")
    suspects = " or ".join(dict.fromkeys(map(str, _all_in(scenario))))
    return PluginError(f"{suspects}: {_in_a_line(error)}") if suspects else None


def fault(kind: str, name: str, error: BaseException) -> PluginError:
    """Return an error of what a plugin brings as one line about it, wherever it was raised."""
    return blame(error) or PluginError(f"{found()[kind][name]}: {_in_a_line(error)}")


def _in_a_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_OF_STUDIES = ("questions", "design", "vary", "chapters", "formats")
"""Kinds on which no outcome of a point depends: it is kept by its settings, and they come after it or before it."""


def packages(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages and modules that bring a strategy of one of these names."""
    names = set(names)
    plugins = [plugin for kind, brought in found().items() if kind not in _OF_STUDIES for plugin in brought.values()]
    return tuple(sorted({plugin.module for plugin in plugins if plugin.name in names}))


def digest(modules: Iterable[str]) -> str:
    """Return a digest of the code of some packages and modules; nothing of none."""
    return " ".join(f"{module} {_digest(module)}" for module in modules)


def _digest(package: str) -> str:
    """Return a digest of the source of a package or module; nothing of one that is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
