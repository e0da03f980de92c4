"""A mistake at a place of a scenario."""

from __future__ import annotations

__all__ = ["PathError"]


class PathError(ValueError):
    """A mistake at a place of the scenario; ``path`` leads to it, ``rule`` says what is wrong."""

    def __init__(self, path: tuple[str | int, ...], rule: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {rule}")
        self.path = path
        self.rule = rule
