"""A mistake at a place of a scenario."""

from __future__ import annotations

__all__ = ["PathError", "is_of_files"]


class PathError(ValueError):
    """A mistake at a place of the scenario; ``path`` leads to it, ``rule`` says what is wrong."""

    def __init__(self, path: tuple[str | int, ...], rule: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {rule}")
        self.path = path
        self.rule = rule

    @property
    def is_of_files(self) -> bool:
        """Whether it comes from a file that cannot be read: another time, or elsewhere, it may be readable."""
        return is_of_files(self)


def is_of_files(error: BaseException) -> bool:
    """Return whether an error was raised because of one of the system, such as a file that is not there."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found is not None
