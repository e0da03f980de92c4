"""Tasks of studies for tests: quick ones, deadly ones, and what of an outcome has to be the same everywhere."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.study.load import load_study
from analysis.sweep.task import Context, Record, Task, play
from analysis.sweep.workers import Place, Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from analysis.study.load import LoadedStudy
    from analysis.sweep.campaign import Campaign


CONTEXT = Context(b"", "", "")
"""For tasks that play no simulation."""

_STUDY = """\
name: small
scenario: quickstart
set: {horizon: 3 d}
vary:
  spares.hot: {choices: [0, 2, 4]}
  checkpoint.tiers.0.interval: {choices: [15 min, 1 h]}
replications: 12
"""


def small_study(folder: Path) -> LoadedStudy:
    """Return a study of 6 points with 12 replications each: 12 tasks, of some milliseconds each."""
    path = folder / "small.yaml"
    path.write_text(_STUDY, encoding="utf-8")
    return load_study(path)


def tasks_of(campaign: Campaign) -> list[Task]:
    """Return the tasks of a small study."""
    return [task for point in campaign.loaded.points() for task in campaign.tasks(point, 12)]


def numbered(count: int) -> list[Task]:
    """Return tasks with nothing but their number."""
    return [Task(f"{number:032x}", number, (), 0, 1) for number in range(count)]


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; a minute is long enough on any machine."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def comparable(record: Record) -> Record:
    """Return an outcome without the time that it took, which is nobody's business."""
    return record._replace(seconds=0.0)


def told(context: Context, task: Task) -> Record:
    """Return an outcome that names its task, without a simulation."""
    return Record(task.key, task.point, task.first, task.replications, "ok", "", 0.0, {"x": [[task.point], [1]]}, {})


def slow(context: Context, task: Task, folder: Path) -> Record:
    """Return an outcome after a while, and leave the number of the process in a folder before."""
    (folder / str(os.getpid())).touch()
    time.sleep(0.05)
    return told(context, task)


def asleep(context: Context, task: Task, folder: Path) -> Record:
    """Leave the number of the process in a folder, and do not come back."""
    (folder / str(os.getpid())).touch()
    time.sleep(300)
    return told(context, task)


def soon_asleep(context: Context, task: Task, folder: Path) -> Record:
    """Return the first outcomes, but none from task 4 on."""
    return told(context, task) if task.point < 4 else asleep(context, task, folder)


def kills_once(context: Context, task: Task, folder: Path) -> Record:
    """Kill the process at task 77, but only the first time."""
    if task.point == 77:
        with contextlib.suppress(FileExistsError):
            (folder / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return told(context, task)


def kills_always(context: Context, task: Task, folder: Path) -> Record:
    """Kill the process at task 7, and leave it at task 11."""
    with (folder / str(task.point)).open("a") as file:
        file.write("x")
    if task.point == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if task.point == 11:
        os._exit(5)
    return told(context, task)


def play_slowly(context: Context, task: Task, folder: Path) -> Record:
    """Return the outcome of a simulation, after a while."""
    time.sleep(0.1)
    return play(context, task)


class Instead(Place):
    """A place where something else is played than a simulation.

    Parameters
    ----------
    place
        The real one.
    work
        What is called, a function of this file, with the context, the task and a folder.
    folder
        Where it may leave something.
    """

    def __init__(self, place: Place, work: Callable[..., Record], folder: Path) -> None:
        self.place, self.work, self.folder = place, work, folder
        self.name, self.attempts = place.name, place.attempts
        self.most = 0
        self.flying: set[Future[Record]] = set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of the work instead; `most` is how many were in flight."""
        future = self.place.submit(self.work, *args, self.folder)
        self.flying = {earlier for earlier in self.flying if not earlier.done()} | {future}
        self.most = max(self.most, len(self.flying))
        return future

    def window(self) -> int:
        """Return that of the real place."""
        return self.place.window()

    def death(self, error: BaseException) -> Any:
        """Return that of the real place."""
        return self.place.death(error)

    def check(self) -> None:
        """Check the real place."""
        self.place.check()

    @contextlib.contextmanager
    def alone(self) -> Iterator[Place]:
        """Yield the same work at the real place for one."""
        with self.place.alone() as place:
            yield Instead(place, self.work, self.folder)

    def stop(self) -> None:
        """Stop the real place."""
        self.place.stop()


def main(folder: Path) -> None:
    """Play tasks that never end on two processes, for tests that interrupt or kill this program."""
    from analysis.sweep.workers import Crew

    for _ in Crew(Instead(Processes(2), asleep, folder)).play(numbered(20), CONTEXT):
        pass


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
