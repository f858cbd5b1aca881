"""Programs for registers that a processor does not have: the compiler splits them, and results are the same.

Compiled for the oldest processor of its kind, whose registers hold four numbers and which has no fused multiply-add,
every program gives what it gives when it is compiled for this one. So programs of both widths can be tested anywhere.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chainrule.core import machine_code
from chainrule.nn.native import attention, convolution, group_norm, recurrent, weight_gradient
from chainrule.nn.native.attention import AttentionShape
from chainrule.nn.native.availability import WIDTHS, Registers
from chainrule.nn.native.convolution import ConvolutionShape, Tile
from chainrule.nn.native.group_norm import GroupNormShape
from chainrule.nn.native.recurrent import RecurrentPlan
from chainrule.nn.native.weight_gradient import GradientTile
from chainrule.nn.recurrent.cells import LSTMCell
from tests.nn.conftest import native_reason
from tests.nn.native.fake_xla import FakeXla

pytestmark = pytest.mark.skipif(bool(native_reason()), reason=f"native code: {native_reason()}")

CACHE = 1 << 12
IMAGE = ConvolutionShape(2, (7, 9), (4, 5), (3, 3), (2, 2), (1, 1), (1, 1), 3, 16)
HEADS = AttentionShape(1, 2, 16, 16, 16, True, 0.4, 16)
GROUPS = GroupNormShape(2, 9, 16, 4, 1e-5, True)
MAP, ROW, LEVEL = (2, 9, 16), (2, 16), (2, 2, 16)
TOKENS = (1, 16, 2, 16)
STEPS, BATCH, HIDDEN = 3, 5, 16
OVER_TIME, ONCE, GATES = (STEPS, BATCH, HIDDEN), (BATCH, HIDDEN), (STEPS, BATCH, 4 * HIDDEN)


def plan(registers: Registers) -> RecurrentPlan:
    return RecurrentPlan.of(STEPS, BATCH, HIDDEN, 4, registers, 2)


def held(tile: Any) -> Any:
    assert tile is not None
    return tile


Program = tuple[Callable[[Registers], str], list[tuple[int, ...]], list[tuple[int, ...]]]
PROGRAMS: dict[str, Program] = {
    "convolution": (
        lambda r: convolution.program(IMAGE, r, held(Tile.of(5, 16, r)), 1, CACHE),
        [(2, 7, 9, 3), (16 * 27,)],
        [(2, 4, 5, 16)],
    ),
    "weight gradient": (
        lambda r: weight_gradient.program(IMAGE, r, held(GradientTile.of(3, 16, r)), 2, 1, CACHE),
        [(2, 7, 9, 3), (2, 4, 5, 16)],
        [(3, 3, 3, 16), (1, 3, 3, 3, 16)],
    ),
    "attention": (lambda r: attention.attention(HEADS, r, 1), [TOKENS] * 3, [TOKENS, (1, 2, 2, 16)]),
    "gradients of attention": (
        lambda r: attention.gradients(HEADS, r, 1),
        [*[TOKENS] * 3, (1, 2, 2, 16), TOKENS],
        [TOKENS] * 3,
    ),
    "group normalisation": (lambda r: group_norm.normalisation(GROUPS, r, 1), [MAP, ROW, ROW], [MAP, LEVEL]),
    "gradients of group normalisation": (
        lambda r: group_norm.gradients(GROUPS, r, 1),
        [MAP, ROW, ROW, LEVEL, MAP],
        [MAP, ROW, ROW],
    ),
    "recurrent layer": (
        lambda r: recurrent.forward(LSTMCell(), plan(r), r, True, 1),
        [(HIDDEN * 4 * HIDDEN,), (4 * HIDDEN,), GATES, ONCE, ONCE],
        [OVER_TIME, ONCE, *[OVER_TIME] * len(LSTMCell.slopes)],
    ),
    "gradients of a recurrent layer": (
        lambda r: recurrent.backward(LSTMCell(), plan(r), r, 1),
        [(HIDDEN * 4 * HIDDEN,), *[OVER_TIME] * len(LSTMCell.slopes), OVER_TIME, ONCE, ONCE],
        [GATES, ONCE, ONCE],
    ),
}


@functools.cache
def processors() -> dict[str, tuple[str, str]]:
    """Names and features for the compiler."""
    import platform

    import llvmlite.binding as llvm

    oldest = "x86-64" if platform.machine() == "x86_64" else "generic"
    return {
        "oldest": (oldest, ""),
        "this": (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()),
    }


def results(name: str, registers: Registers, processor: str) -> list[np.ndarray]:
    write, given, made = PROGRAMS[name]
    draw = np.random.default_rng(0)
    arguments = [draw.normal(size=shape).astype(np.float32) for shape in given]
    found = [np.zeros(shape, np.float32) for shape in made]
    engine = machine_code.build(write(registers), *processors()[processor])
    assert FakeXla().call(engine.get_function_address("handler"), arguments, found) is None
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_oldest_processor_gives_what_this_one_gives(name: str, width: str) -> None:
    for found, expected in zip(
        *(results(name, WIDTHS[width], one) for one in ("oldest", "this")), strict=True
    ):
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * float(np.abs(expected).max()))
    assert all(expected.any() for expected in results(name, WIDTHS[width], "this"))
