"""Packages that import a module when one of its names is first asked for: who checks a scenario needs no engine."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def import_on_use(package: str, names: Mapping[str, str]) -> None:
    """Let a package have the names of its modules without importing these (PEP 562, but for functions named alike).

    Parameters
    ----------
    package
        Name of the package.
    names
        Names by the module of the package that has them, separated by blanks.
    """
    module = sys.modules[package]
    module.__dict__["_homes"] = {name: home for home, several in names.items() for name in several.split()}
    module.__class__ = _Package


class _Package(ModuleType):
    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__["_homes"].get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{self.__name__}.{home}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # An import binds a module to its package, but ``sim.run`` is the function of the module ``sim.run``.
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})
