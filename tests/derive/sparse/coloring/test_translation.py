"""Translated loops do what Python does with them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chainrule.derive.sparse.coloring import compiled
from chainrule.derive.sparse.coloring.translation import translated

LIMIT = 7


def divided(first: Any, second: Any, quotients: Any, rests: Any) -> int:
    for i in range(len(first)):
        quotients[i], rests[i] = first[i] // second[i], first[i] % second[i]
    return 0


def mixed(values: Any, out: Any, shift: int) -> int:
    """Every operator, on numbers of either sign."""
    for i in range(len(values)):
        a = values[i]
        b = ((a << shift) ^ (a >> 1)) & -a | (a * 3 - 1)
        out[i] = b if a < 0 else max(a, min(b, LIMIT))
        out[i] += shift
        out[i] ^= a
    return len(out)


def steps(values: Any, seen: Any) -> int:
    """Loops left early, gone on with, within one another; operands that must not be looked at."""
    found = 0
    for v in values:
        i = 0
        while i < len(seen) and seen[i] != v:
            if v < 0:
                break
            i += 1
        if v < 0 or i == len(seen):
            continue
        for j in range(i, len(seen)):
            if not (seen[j] == v and j >= 0):
                continue
            if j > LIMIT:
                return -found
            found += j
        seen[i] = -1
    return found


def swapped(values: Any) -> int:
    a, b = values[0], values[1]
    a, b = b, a
    values[0], values[1] = a, b
    if a > b and values[1] == b:
        return 1
    return 2


def run(function: Callable[..., int], *arguments: Any) -> tuple[int, list[Any], int, list[Any]]:
    """What plain Python makes of the arguments, and what the translation does."""
    plain = [arg.tolist() if isinstance(arg, np.ndarray) else arg for arg in arguments]
    expected = function(*plain)
    held = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in arguments]
    found = compiled.CompiledLoop(function)(1e9, *held)
    return expected, plain, found, [arg.tolist() if isinstance(arg, np.ndarray) else arg for arg in held]


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_division_rounds_down_for_either_sign(dtype: Any) -> None:
    first, second = (side.ravel() for side in np.meshgrid(np.arange(-9, 10), [-7, -3, -1, 1, 2, 63]))
    zeros = np.zeros_like(first)
    expected = run(divided, first.astype(dtype), second.astype(dtype), zeros, zeros.copy())
    assert expected[:2] == expected[2:]


def test_every_operator_gives_what_python_gives() -> None:
    values = np.random.default_rng(0).integers(-1000, 1000, 200)
    for shift in (0, 1, 5):
        expected = run(mixed, values, np.zeros_like(values), shift)
        assert expected[:2] == expected[2:]


def test_loops_end_where_python_ends_them() -> None:
    draw = np.random.default_rng(1)
    for size in (0, 3, 12):
        expected = run(steps, draw.integers(-2, 6, 20), draw.integers(0, 6, size))
        assert expected[:2] == expected[2:]


def test_several_are_assigned_at_once() -> None:
    for values in ([1, 2], [2, 1]):
        expected = run(swapped, np.array(values))
        assert expected[:2] == expected[2:]


def test_what_cannot_be_translated_is_named() -> None:
    def summed(values: Any) -> int:
        return sum(values)

    with pytest.raises(TypeError, match=r"a compiled loop cannot hold sum\(values\)"):
        translated(summed, ["i64"])
