"""The Dask executor: the workers of a scheduler that somebody else has started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
import warnings
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.sweep.executors import AHEAD, CrewError, Death, Place
from sim.strict_yaml import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from analysis.sweep.executors import Where

__all__ = ["Dask", "dask_at"]

_CONNECT = 5.0
"""Time in which a scheduler has to answer [s]."""

_NO_WORKERS = 60.0
"""Time for which a scheduler may be without workers [s]."""

_COUNT = 1.0
"""Time between two looks at how many workers there are [s]."""

_LOUD = ("asyncio", "distributed", "tornado")
"""Loggers of the library, and of those that it stands on."""

_TURN = threading.Lock()
"""Held by the thread of a worker that plays: a process keeps scenarios from task to task, for one thread."""


def one_at_a_time(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's outcome, after those of other threads: a worker of Dask may have several."""
    with _TURN:
        return function(*args, **kwargs)


class Dask(Place):
    """The workers of a Dask scheduler, those included that come later.

    Parameters
    ----------
    client
        A connection to it.
    name
        What the user called it.
    """

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client
        self._flying: dict[Future[Any], Any] = {}
        self._workers = 1
        self._counted = 0.0
        self._seen = time.monotonic()

    def window(self) -> int:
        """Return how many tasks should be in flight: a worker plays one at a time, however many threads it has."""
        if time.monotonic() - self._counted >= _COUNT:
            self._count()
        return AHEAD * max(1, self._workers)

    def _count(self) -> None:
        self._counted = time.monotonic()
        # If the scheduler has gone, the tasks in flight will tell.
        with contextlib.suppress(OSError, RuntimeError, ValueError, TimeoutError):
            self._workers = len(self._client.nthreads())
        if self._workers:
            self._seen = time.monotonic()

    def check(self) -> None:
        """Raise `CrewError` if there have been no workers for a minute."""
        self._count()
        if time.monotonic() - self._seen > _NO_WORKERS:
            raise CrewError(_no_workers(self.name))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call as a future."""
        # A call that ends in an error has met a worker that is out of order; others have a try.
        remote = self._client.submit(one_at_a_time, function, *args, **kwargs, pure=False, retries=2)
        future: Future[Any] = Future()
        self._flying[future] = remote
        # Not the executor of the library: it takes an outcome for an error whose worker dies while it is fetched.
        remote.add_done_callback(lambda _: self._fetch(remote, future))
        return future

    def _fetch(self, remote: Any, future: Future[Any]) -> None:
        """Pass on the outcome of a call; one that was lost with its worker is waited for until it is there again."""
        from distributed.comm.core import CommClosedError

        try:
            found = remote.result()
        except (CancelledError, CommClosedError):
            # Either way it is the scheduler that has gone: whatever a task raises is in its outcome.
            future.cancel()
            future.set_running_or_notify_cancel()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(found)
        self._flying.pop(future, None)

    def death(self, error: BaseException) -> Death | None:
        """Return how workers died of a task, if that is what an error says."""
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            return None
        return Death(error.allowed_failures + 1, "on Dask workers, whose logs may say more")

    def stop(self) -> None:
        """Cancel what is in flight."""
        flying = list(self._flying.copy().values())  # a copy: outcomes may still come, in another thread
        # A scheduler that has gone has nothing to cancel.
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self._client.cancel(flying)


@contextlib.contextmanager
def dask_at(where: Where) -> Iterator[Dask]:
    """Yield the workers of a scheduler.

    Raises
    ------
    CrewError
        If Dask is not installed, no scheduler answers, or it has no workers.
    """
    name = where.address or where.file
    if not name:
        message = "the dask executor needs --scheduler-address or --scheduler-file"
        raise CrewError(message)
    try:
        import distributed
    except ImportError:
        message = "the dask executor needs the extra cluster: pip install 'ettrick[cluster]'"
        raise CrewError(message) from None
    address = where.address or _address_in(Path(where.file))
    with _quiet():
        try:
            _knock(address)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                client: Any = distributed.Client(address, timeout=_CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
        except Exception as error:  # each protocol has its own
            at = "" if name == address else f" at {address}"
            message = f"{name}: no Dask scheduler answers{at} ({' '.join(str(error).split()) or type(error).__name__})"
            raise CrewError(message) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=_NO_WORKERS)
            except (OSError, TimeoutError):
                raise CrewError(_no_workers(name)) from None
            yield Dask(client, name)


def _knock(address: str) -> None:
    """Connect to a scheduler and leave again: a client that cannot connect would take long to go away, and noisily."""
    from distributed.comm.core import connect
    from distributed.security import Security

    async def visit() -> None:
        arguments = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        comm = await connect(address, timeout=_CONNECT, **arguments)  # type: ignore[no-untyped-call]
        await comm.close()

    # Not in this thread: that of a notebook has a loop of its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, visit()).result()


def _address_in(path: Path) -> str:
    """Return the address that a scheduler has written to a file."""
    try:
        address = json.loads(content_of(path))["address"]
    except FileNotFoundError:
        message = f"{path}: no such file; a scheduler writes it: dask scheduler --scheduler-file {path}"
        raise CrewError(message) from None
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise CrewError(message) from None
    except (ValueError, LookupError, TypeError):
        address = None
    if not isinstance(address, str) or not address:
        message = f"{path}: is not what a Dask scheduler writes: it has no address"
        raise CrewError(message)
    return address


def _no_workers(name: str) -> str:
    return f"{name}: the scheduler has no workers (waited for {_NO_WORKERS:.0f} s); run again when there are some"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let nothing of the library's log through: what matters is told by our own errors."""
    known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOUD]
    before = {name: logging.getLogger(name).level for name in (*_LOUD, *known)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
