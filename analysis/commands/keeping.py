"""Where a command keeps its results, if it is told to: ``--out``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.commands.terminal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["Keeping"]


@dataclass(frozen=True)
class Keeping:
    """The folder of the results of a command.

    Parameters
    ----------
    folder
        The folder; ``None`` to keep nothing.
    name
        File of the document.
    overwrite
        Whether to replace what is there.
    """

    folder: Path | None
    name: str
    overwrite: bool

    def refuse_others(
        self, same: Callable[[Any], object], amount: Callable[[Any], Any] = lambda _: 0, asked: int | None = None
    ) -> None:
        """End with one line if the folder cannot be used, or holds other results, or more than are asked for now.

        Parameters
        ----------
        same
            What tells results apart, given their document.
        amount
            How much it holds: replications, or rows.
        asked
            How much there will be; ``None`` if that is not known yet.
        """
        from analysis import files

        if self.folder is None:
            return
        held = 0

        def may_go(found: Any) -> bool:
            nonlocal held
            if same(found) is not True:
                return False
            count = amount(found)
            if asked is None or count <= asked:  # what is no number raises an error: it is something else
                return True
            held = count
            return False

        complaint = files.refusal(self.folder, self.name, may_go, overwrite=self.overwrite)
        if complaint is not None:
            if held:
                complaint = f"holds {held:,} replications of this, more than {asked:,}; {files.ELSEWHERE}"
            refuse(f"--out {self.folder}: {complaint}")

    def write(self, text: str, beside: Mapping[str, str], stale: str = "") -> str | None:
        """Write the document, last of all, and what lies beside it; return what went wrong, in a line.

        Parameters
        ----------
        text
            The document.
        beside
            Other files, by name.
        stale
            Pattern of files of an earlier run that go away if they are not among these.
        """
        from analysis import files

        if self.folder is None:
            return None
        complaint = files.write_folder(self.folder, {**beside, self.name: text + "\n"})
        if complaint is not None:
            return f"--out {self.folder}: {complaint}"
        for path in self.folder.glob(stale) if stale else ():
            if path.name not in beside:
                path.unlink()
        return None
