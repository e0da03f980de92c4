"""The functions of the loop as machine code, which numba makes of them. Nothing else needs numba, nor imports this."""

from __future__ import annotations

import gc
from types import FunctionType

import numpy as np
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import carray, njit, types
from numba.core import cgutils, event
from numba.core.codegen import JITCodeLibrary
from numba.core.imputils import lower_getattr
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import get_cython_function_address, intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from ettrick.sim import quantiles, rng
from ettrick.sim.compiled import jobs, ladders, loop, nodes, repairs, state
from ettrick.sim.compiled.loop import reset, simulate
from ettrick.sim.compiled.state import ARRAYS
from ettrick.sim.engine import kernel
from ettrick.sim.policies.checkpoint import ladder, periodic, stores


@intrinsic
def pointer(context, address):
    """Take an integer for an address."""
    del context, address

    def generate(context, builder, signature, values):
        del signature
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@infer_getattr
class _ArrayOfRecord(AttributeTemplate):
    """A field that holds an address stands for the array that begins there: ``nodes`` for ``nodes_at``."""

    key = types.Record

    def generic_resolve(self, record, name):
        if name in ARRAYS and f"{name}_at" in record.fields:
            return types.Array(from_dtype(ARRAYS[name]), 1, "C")
        return None


def _add_array(name, kind):
    """Let the machine code of such an attribute be an array without a memory of its own."""

    @lower_getattr(types.Record, name)
    def load(context, builder, record, value):
        array_type = types.Array(from_dtype(kind), 1, "C")
        integer = context.get_value_type(types.intp)
        address = builder.load(cgutils.get_record_member(builder, value, record.offset(f"{name}_at"), integer))
        array = make_array(array_type)(context, builder)
        size, many = (context.get_constant(types.intp, number) for number in (kind.itemsize, 1 << 40))
        populate_array(
            array,
            data=builder.inttoptr(address, context.get_data_type(array_type.dtype).as_pointer()),
            shape=cgutils.pack_array(builder, [many]),
            strides=cgutils.pack_array(builder, [size]),
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()


for _name, _kind in ARRAYS.items():
    _add_array(_name, _kind)

# In Python the constants of the hash are integers of any size, here they have 64 bits and no sign.
_CONSTANTS = {name: np.uint64(value) for name, value in vars(rng).items() if type(value) is int}

_hashed = njit(FunctionType(rng.uniform_one.__code__, _CONSTANTS, "uniform_one", (np.uint64(0),)))


@overload(rng.uniform_one)
def _uniform_one(key, index, sub):
    def hashed(key, index, sub):
        return _hashed(np.uint64(key), np.uint64(index), np.uint64(sub))

    return hashed


_OF_GAMMA = {"gamma_below": "gammainc", "gamma_above": "gammaincc", "gamma_quantile": "gammaincinv"}
"""The names of scipy for the functions of the gamma law: machine code takes its machine code."""


def _add_gamma(function, name):
    """Let a function of the gamma law be a call of the one of scipy, which is linked by its name."""
    symbol = f"ettrick_{name}"
    add_symbol(symbol, get_cython_function_address("scipy.special.cython_special", name))

    @intrinsic
    def call(context, stages, value):
        def generate(context, builder, signature, values):
            double = ir.DoubleType()
            kind = ir.FunctionType(double, [double, double])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), values)

        return types.float64(types.float64, types.float64), generate

    @overload(function)
    def replaced(stages, value):
        def called(stages, value):
            return call(stages, value)

        return called


for _name, _scipy in _OF_GAMMA.items():
    _add_gamma(getattr(quantiles, _name), _scipy)

_PLAIN = {"_nrt": False, "no_cfunc_wrapper": True}
"""Nothing here owns memory, and nobody else calls these functions."""

_PARTS = set()
"""Names of the functions that nothing but the loop calls."""

for _module in (quantiles, kernel, stores, ladder, periodic, state, nodes, repairs, ladders, jobs, loop):
    for _function in list(vars(_module).values()):
        is_own = isinstance(_function, FunctionType) and _function.__module__ == _module.__name__
        if is_own and _function.__name__ not in _OF_GAMMA:
            register_jitable(**_PLAIN)(_function)
            _PARTS.add(_function.__name__)


_SCALARS = state.layout(state.Scalars)


@njit(cache=True, nogil=True)
def simulate_at(address):
    """Run the loop on the scalars at an address."""
    simulate(carray(pointer(address), 1, _SCALARS)[0])


@njit(cache=True, nogil=True)
def reset_at(address):
    """Reset the replication of the scalars at an address."""
    reset(carray(pointer(address), 1, _SCALARS)[0])


class _Whole(JITCodeLibrary):
    """Code that is linked, optimised and made machine code of once, with what Python calls.

    Left to itself numba does that for each function again with all that it calls: two thirds of the time.
    """

    def finalize(self):
        """Leave a function of ours as it is; take all of them into what is not."""
        if self.name in _PARTS:
            self._finalized = True
            return
        # A caller before what it calls: the linker takes only what something has asked for.
        self._linking_libraries = list(reversed(_called(self, {})))
        super().finalize()


def _called(library, libraries):
    """Return what a library calls, directly or not, each after all that it calls itself."""
    for callee in library._linking_libraries:
        if callee not in libraries:
            _called(callee, libraries)
            libraries[callee] = None
    return libraries


class _Compilations(event.Listener):
    """Counts the functions that are compiled, for whoever waits for them."""

    def __init__(self, progress):
        self.progress, self.done = progress, 0

    def on_start(self, event):
        """Wait for the end."""

    def on_end(self, event):
        """Say how many are compiled, and of how many."""
        del event
        self.done += 1
        self.progress(self.done, max(self.done, len(_PARTS) + 2))


def prepare(progress=None):
    """Compile the loop, or load what has been compiled."""
    with event.install_listener("numba:compile", _Compilations(progress or (lambda _done, _total: None))):
        _compile()


def _compile():
    codegen = simulate_at.targetctx.codegen()
    ours, set_env = codegen._library_class, codegen.set_env

    def set_known_env(name, env):
        """Tell machine code of the objects of Python that it may ask for, where there is machine code."""
        if codegen._engine.is_symbol_defined(name):
            set_env(name, env)

    was_collecting = gc.isenabled()
    try:
        codegen._library_class, codegen.set_env = _Whole, set_known_env
        gc.disable()  # nothing of the millions of objects is garbage before the end
        simulate_at.compile((types.int64,))
        reset_at.compile((types.int64,))
    finally:
        codegen._library_class = ours
        del codegen.set_env
        if was_collecting:
            gc.enable()
