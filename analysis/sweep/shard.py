"""A shard: the part of a study that one of several programs plays, none of which knows of the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

__all__ = ["Shard"]

_FORM = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``count``, counted from 1.

    Which tasks are its own follows from their keys alone, so that shards need not talk to each other; every task
    belongs to exactly one of them.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as ``3/16`` means.

        Raises
        ------
        ValueError
            With a line that says what is wrong.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            message = f"'{text}' is no shard: write I/N, such as 3/16 for the third of sixteen"
            raise ValueError(message)
        number, count = int(match[1]), int(match[2])
        if not 1 <= number <= count:
            message = f"'{text}' is no shard: of {count} shards the first is 1/{count} and the last {count}/{count}"
            if count == 0:
                message = f"'{text}' is no shard: there is at least one, 1/1"
            raise ValueError(message)
        return cls(number, count)

    def mine(self, key: str) -> bool:
        """Return whether the task with a key, a hexadecimal number, belongs to this shard."""
        return int(key, 16) % self.count == self.number - 1

    def __str__(self) -> str:
        """Return the shard as it is written."""
        return f"{self.number}/{self.count}"
