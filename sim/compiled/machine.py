"""The functions of the loop as machine code, which numba makes of them. Nothing else needs numba, nor imports this."""

from __future__ import annotations

from types import FunctionType

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic, overload, overload_attribute, register_jitable

from sim import quantiles, rng
from sim.compiled import jobs, loop, nodes, state
from sim.compiled.loop import draw_failures, simulate
from sim.policies.checkpoint import periodic, stores

ELEMENTS = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "Node": state.NODE,
    "Event": state.EVENT,
    "Call": state.CALL,
    "Origin": state.ORIGIN,
    "Observer": state.OBSERVER,
    "Tier": state.TIER,
    "Step": state.STEP,
    "Plan": state.PLAN,
    "Pool": state.POOL,
    "Entry": state.ENTRY,
    "Clock": state.CLOCK,
    "Due": state.DUE,
    "Life": state.SLOT,
    "Link": state.LINK,
    "Suspect": state.SUSPECT,
    "Segment": state.SEGMENT,
    "Patient": state.PATIENT,
    "Visit": state.VISIT,
    "Risk": state.RISK,
    "Logged": state.LOGGED,
    "np.int64": np.dtype(np.int64),
}
"""The elements of an array by what its annotation says between the brackets."""


@intrinsic
def pointer(context, address):
    """Take an integer for an address."""
    del context, address

    def generate(context, builder, signature, values):
        del signature
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


def _add_array(name, kind):
    """Let the field that holds an address stand for the array that begins there."""
    field, most = f"{name}_at", 1 << 40

    def get(s):
        return carray(pointer(s[field]), most, kind)

    @overload_attribute(types.Record, name)
    def attribute(s):
        return get if field in s.fields else None


for _name, _kind in state.Scalars.__annotations__.items():
    if _kind.startswith(("list", "NDArray")):
        _add_array(_name, ELEMENTS[_kind[_kind.index("[") + 1 : -1]])

# In Python the constants of the hash are integers of any size, here they have 64 bits and no sign.
_CONSTANTS = {name: np.uint64(value) for name, value in vars(rng).items() if type(value) is int}

_hashed = njit(FunctionType(rng.uniform_one.__code__, _CONSTANTS, "uniform_one", (np.uint64(0),)))


@overload(rng.uniform_one)
def _uniform_one(key, index, sub):
    def hashed(key, index, sub):
        return _hashed(np.uint64(key), np.uint64(index), np.uint64(sub))

    return hashed


_OF_GAMMA = ("gamma_below", "gamma_above", "gamma_quantile")


def _add_gamma(function):
    """Let a function of the gamma law be none: the lowering sees to it that it is not called."""

    @overload(function)
    def replaced(a, b):
        def missing(a, b):
            return np.nan

        return missing


for _function in _OF_GAMMA:
    _add_gamma(getattr(quantiles, _function))

for _module in (quantiles, periodic, state, nodes, jobs, loop):
    for _function in list(vars(_module).values()):
        is_own = isinstance(_function, FunctionType) and _function.__module__ == _module.__name__
        if is_own and _function.__name__ not in _OF_GAMMA:
            register_jitable(_function)
register_jitable(stores.whole)


@njit(cache=True)
def run(address):
    """Run the loop on the scalars at an address."""
    simulate(carray(pointer(address), 1, state.SCALARS)[0])


@njit(cache=True)
def draw(address):
    """Draw the failures of the scalars at an address."""
    draw_failures(carray(pointer(address), 1, state.SCALARS)[0])


def prepare():
    """Compile the loop, or load what has been compiled."""
    run.compile((types.int64,))
    draw.compile((types.int64,))
