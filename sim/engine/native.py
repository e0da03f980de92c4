"""Machine code of the replay of requests, kept on the disk: numba makes it once, and its object file is loaded without.

To import numba and to find its own cached code takes 0.5 s, to link an object file 0.05 s.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import inspect
import subprocess
import sys
from dataclasses import astuple, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.cache import cache_folder, files_digest, keep
from ettrick.sim.engine import iterations
from ettrick.sim.engine.iterations import ReplayColumns, ReplayState

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Code = Callable[[NDArray[np.void], NDArray[np.float64], NDArray[np.int64]], None]

_LAYOUT = np.dtype(
    [(field.name, {"int": "i8", "float": "f8", "bool": "?"}[str(field.type)]) for field in fields(ReplayState)],
    align=True,
)

_DIMENSIONS = (1, 2, 2)
"""Dimensions of the state, and of the columns of floats and integers."""


def record_of(state: ReplayState) -> NDArray[np.void]:
    """Return a state as machine code reads and writes it."""
    return np.array([astuple(state)], _LAYOUT)


@functools.cache
def machine_code() -> Code | None:
    """Return the compiled loop, which takes state and columns; ``None`` where it was not made yet."""
    with contextlib.suppress(OSError, ImportError, ValueError):
        check, name, content = _file().read_bytes().split(b"\n", 2)
        if check == _check(content):
            return _linked(name.decode(), content)
    return None


def make() -> None:
    """Compile the loop and keep it, which takes some 3 s; where numba is not installed, do nothing.

    In a process of its own: numba knows the records of the simulation loop only if they are the first it meets.
    """
    if importlib.util.find_spec("numba") is None or machine_code() is not None:
        return
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        program = f"from {__name__} import keep_compiled; keep_compiled()"
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    machine_code.cache_clear()


def keep_compiled() -> None:
    """Compile the loop in this process, and keep it if it serves requests as Python does."""
    name, content = _compiled()
    if _agrees(_linked(name, content)):
        keep(_file(), b"\n".join((_check(content), name.encode(), content)))


def _agrees(code: Code) -> bool:
    """Return whether machine code serves some requests, with evictions, to the same bits as Python.

    How numba passes arrays is not promised: another version that does it otherwise fails here, in the process that
    compiles, and is not kept.
    """
    count = 200
    limits = ReplayState(
        count, 256, 16, False, 1, 1, 3000.0, 1e-6, True, 2.0, 1.0, 1.0, 90.0, 1e-4, 1e-8, 1e-3, 5e-3, 1e-4
    )
    floats, ints = np.full((4, count + 1), np.nan), np.zeros((8, count + 1), np.int64)
    floats[0], floats[3] = 0.05 * np.arange(count + 1), 4e-3 + 1e-4 * np.arange(count + 1)
    floats[0, count] = np.inf
    ints[1, :count], ints[2, :count] = 40 + np.arange(count) * 37 % 300, 1 + np.arange(count) * 53 % 250
    ints[0] = ints[1] + ints[2]
    columns = ReplayColumns(*floats.tolist(), *ints.tolist())._replace(end=[])
    record, state = record_of(limits), limits
    iterations.serve(state, columns)
    code(record, floats, ints)
    is_same = np.array_equal(floats[1:3], [columns.first, columns.last], equal_nan=True)
    return is_same and state.evictions > 0 and ReplayState(*record[0].item()) == state


def _check(content: bytes) -> bytes:
    """Return the digest that says whether a file is whole: damaged code ends the process."""
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


def _file() -> Path:
    """Return the file of the machine code: one for each processor, version of compilers and state of the sources."""
    import llvmlite.binding as llvm

    made_by = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    versions = (metadata.version("numba"), metadata.version("llvmlite"), metadata.version("numpy"))
    sources = files_digest(Path(__file__).parent, ("iterations.py", "native.py"))
    digest = hashlib.blake2b(repr((made_by, versions, sources)).encode(), digest_size=16).hexdigest()
    return cache_folder() / "replay-code" / digest


def _linked(name: str, content: bytes) -> Code:
    """Return the function of an object file."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    words = sum(5 + 2 * dimensions for dimensions in _DIMENSIONS)
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * words)
    if not engine.get_function_address(name):
        raise ValueError(f"no function {name}")

    def code(*arrays: NDArray[np.generic]) -> None:
        nothing, error = ctypes.c_void_p(), ctypes.c_void_p()
        words = (word for array in arrays for word in _words(array))
        kind(engine.get_function_address(name))(ctypes.addressof(nothing), ctypes.addressof(error), *words)

    return code


def _words(array: NDArray[np.generic]) -> tuple[int, ...]:
    """Return an array as numba passes it: nobody who owns it, size, place, shape and strides."""
    return 0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides


def _compiled() -> tuple[str, bytes]:
    """Return the name of the compiled loop, and the object file that has it."""
    from numba import njit, types
    from numba.extending import overload, register_jitable
    from numba.np.numpy_support import from_dtype

    # Nothing here owns memory, raises, or is called by Python.
    options = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    heap: dict[str, Callable[..., object]] = {"push": _push, "pop": _pop, "drop": _drop}
    functions = [value for name, value in vars(iterations).items() if inspect.isfunction(value) and name not in heap]
    for function in [_pop, *functions]:
        if function.__module__ in (__name__, iterations.__name__):
            register_jitable(**options)(function)
    for name, replacement in heap.items():
        overload(getattr(iterations, name), jit_options=options)(_always(replacement))
    kinds = (from_dtype(_LAYOUT), types.float64, types.int64)
    signature = tuple(types.Array(kind, dimensions, "C") for kind, dimensions in zip(kinds, _DIMENSIONS, strict=True))
    dispatcher = njit(**options)(_serve)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    return compiled.fndesc.llvm_func_name, compiled.library._get_compiled_object()


def _always(function: Callable[..., object]) -> Callable[..., object]:
    """Return what tells numba of the function for all types; it looks for the same names of arguments in both."""
    return functools.wraps(function)(lambda *_: function)


def _serve(state: list[ReplayState], f: list[list[float]], i: list[list[int]]) -> None:
    """Serve with the rows of arrays as columns."""
    columns = ReplayColumns(f[0], f[1], f[2], f[3], i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7])
    iterations.serve(state[0], columns)


def _push(s: ReplayState, c: ReplayColumns, key: int) -> None:
    """Put a sequence among those that are decoded."""
    place = s.batch
    s.batch += 1
    while place and c.end[(place - 1) // 2] > key:
        c.end[place] = c.end[(place - 1) // 2]
        place = (place - 1) // 2
    c.end[place] = key


def _pop(s: ReplayState, c: ReplayColumns) -> int:
    """Take the sequence that ends first."""
    least = c.end[0]
    s.batch -= 1
    key, place, child = c.end[s.batch], 0, 1
    while child < s.batch:
        if child + 1 < s.batch and c.end[child + 1] < c.end[child]:
            child += 1
        if c.end[child] >= key:
            break
        c.end[place] = c.end[child]
        place, child = child, 2 * child + 1
    c.end[place] = key
    return least


def _drop(s: ReplayState, c: ReplayColumns, key: int) -> None:
    """Take one sequence: it rises to the top."""
    place = 0
    while c.end[place] != key:
        place += 1
    while place:
        c.end[place] = c.end[(place - 1) // 2]
        place = (place - 1) // 2
    _pop(s, c)
