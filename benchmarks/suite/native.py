"""Layers on the CPU in native code, for registers of 16 and of 8 numbers, against what XLA compiles for them.

Every program of `chainrule.nn.native` at shapes of small networks, forward and backward apart. `off` is what
`CHAINRULE_NATIVE=0` gives: the best program for XLA, which is what other processors run. A program has to be 1.1 times
as fast as that to be kept.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import BenchmarkError, Case, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.machine import machine
from benchmarks.output import human
from benchmarks.workers.protocol import steady
from chainrule import nn
from chainrule.core.compiling import compiler_options
from chainrule.nn.convolution.primitives import convolution, weight_gradient
from chainrule.nn.native import availability
from chainrule.nn.windows import Geometry

PAYS = 1.1
"""How much faster than XLA's program one has to be to be worth its code."""
OFF = "off"

Function = Callable[..., Any]


@final
@dataclass(frozen=True)
class Work:
    """A function of arrays of these shapes, and whether it is its gradient that is timed."""

    function: Function
    shapes: tuple[tuple[int, ...], ...]
    backward: bool = False

    def arrays(self) -> list[Any]:
        """Random numbers."""
        draw = np.random.default_rng(0)
        return [jnp.asarray(draw.normal(size=shape), jnp.float32) for shape in self.shapes]


def _geometry(kernel: int, stride: int = 1) -> Geometry:
    around = (kernel // 2, kernel // 2)
    return Geometry((stride, stride), (around, around), (1, 1), (1, 1), 1)


def _convolution(batch: int, size: int, inputs: int, outputs: int, stride: int = 1) -> Work:
    geometry = _geometry(3, stride)
    shapes = ((batch, size, size, inputs), (3, 3, inputs, outputs))
    return Work(lambda x, w: convolution(x, w, geometry), shapes)


def _weight_gradient(batch: int, size: int, inputs: int, outputs: int, stride: int = 1) -> Work:
    geometry = _geometry(3, stride)
    shapes = ((batch, size, size, inputs), (batch, *geometry.sizes((size, size), (3, 3)), outputs))
    return Work(lambda x, c: weight_gradient(x, c, geometry, (3, 3)), shapes)


def _attention(batch: int, heads: int, length: int, size: int, causal: bool, backward: bool) -> Work:
    mask = nn.attention.Causal() if causal else None
    shapes = ((batch, heads, length, size),) * 3
    return Work(lambda q, k, v: nn.attention.attend(q, k, v, mask=mask), shapes, backward)


def _group_norm(batch: int, size: int, channels: int, film: bool, backward: bool) -> Work:
    norm = nn.GroupNorm(channels, groups=8)
    shapes: tuple[tuple[int, ...], ...] = ((batch, size, size, channels),)
    if not film:
        return Work(lambda x: norm(x), shapes, backward)
    shapes = (*shapes, (batch, channels), (batch, channels))
    return Work(lambda x, a, b: norm(x, (a, b), "silu"), shapes, backward)


def _recurrent(kind: Any, batch: int, steps: int, hidden: int, backward: bool) -> Work:
    layer = kind(32, hidden, key=jax.random.key(0))
    return Work(lambda x: layer(x)[0], ((batch, steps, 32),), backward)


CASES: Mapping[str, Callable[[], Work]] = {
    "conv 28x28 32-64": lambda: _convolution(64, 28, 32, 64),
    "conv 64x64 16-16": lambda: _convolution(16, 64, 16, 16),
    "conv 32x32 3-16": lambda: _convolution(32, 32, 3, 16),
    "conv 14x14 128-128 /2": lambda: _convolution(64, 14, 128, 128, 2),
    "weights 28x28 32-64": lambda: _weight_gradient(64, 28, 32, 64),
    "weights 64x64 16-16": lambda: _weight_gradient(16, 64, 16, 16),
    "weights 32x32 3-16": lambda: _weight_gradient(32, 32, 3, 16),
    "weights 14x14 128-128 /2": lambda: _weight_gradient(64, 14, 128, 128, 2),
    "attention causal 128": lambda: _attention(16, 4, 128, 32, True, False),
    "attention causal 128 back": lambda: _attention(16, 4, 128, 32, True, True),
    "attention 64": lambda: _attention(32, 4, 64, 32, False, False),
    "attention 64 back": lambda: _attention(32, 4, 64, 32, False, True),
    "group norm 16x16": lambda: _group_norm(32, 16, 64, False, False),
    "group norm 16x16 back": lambda: _group_norm(32, 16, 64, False, True),
    "group norm FiLM SiLU": lambda: _group_norm(32, 16, 64, True, False),
    "group norm FiLM SiLU back": lambda: _group_norm(32, 16, 64, True, True),
    "LSTM 128": lambda: _recurrent(nn.LSTM, 32, 64, 128, False),
    "LSTM 128 back": lambda: _recurrent(nn.LSTM, 32, 64, 128, True),
    "LSTM 128, one sequence": lambda: _recurrent(nn.LSTM, 1, 64, 128, False),
    "GRU 128": lambda: _recurrent(nn.GRU, 32, 64, 128, False),
    "GRU 128 back": lambda: _recurrent(nn.GRU, 32, 64, 128, True),
    "RNN 128": lambda: _recurrent(nn.RNN, 32, 64, 128, False),
    "RNN 128 back": lambda: _recurrent(nn.RNN, 32, 64, 128, True),
}
CHOICES = tuple(CASES)


def run(options: Options) -> Report:
    """Time every program, or one, with and without native code."""
    with _switched("1"):
        found = availability.availability()
    if found.registers is None:
        raise BenchmarkError(f"there is no native code to measure: {found.reason}")
    widths = [width for width in ("16", "8") if int(width) <= found.registers.lanes]
    cases: list[Case] = []
    names = "".join(f"{name:>10}" for name in (*(f"{width} lanes" for width in widths), OFF))
    print(f"{'':27}{names}   times as fast", flush=True)
    for name in CHOICES if options.case is None else (options.case,):
        work = CASES[name]()
        contestants: list[Contestant] = [_contestant(f"{width} lanes", width, work) for width in widths]
        contestants.append(_contestant(OFF, "0", work))
        case, _ = measure(name, contestants, rounds=options.rounds, tolerance=1e-3, watch=options.watch)
        cases.append(case)
        print(_line(case), flush=True)
    slow = [line for case in cases if (line := _not_worth(case))]
    has = f"the processor has {machine()['instructions'] or 'no wide registers'}"
    return Report(tuple(cases), notes=(*slow, "off: CHAINRULE_NATIVE=0, what XLA compiles", has))


@contextmanager
def _switched(value: str) -> Iterator[None]:
    """What is traced and compiled in here uses native code as the switch says."""
    before = os.environ.get(availability.SWITCH)
    os.environ[availability.SWITCH] = value
    try:
        yield
    finally:
        os.environ.pop(availability.SWITCH)
        if before is not None:
            os.environ[availability.SWITCH] = before


def _contestant(name: str, switch: str, work: Work) -> Local:
    ready: list[Callable[[], Any]] = []

    def prepare() -> Prepared:
        arrays = work.arrays()
        with _switched(switch):
            if work.backward:
                value, back = jax.jit(lambda *x: jax.vjp(work.function, *x))(*arrays)
                timed, given = jax.jit(lambda back, c: back(c)), (back, value)
            else:
                timed, given = jax.jit(lambda *x: work.function(*x)), tuple(arrays)
            began = time.perf_counter()
            program = timed.lower(*given).compile(compiler_options=compiler_options())
            seconds = time.perf_counter() - began
            _check(timed.lower(*given).as_text(), switch)
        ready[:] = [lambda: program(*given)]
        found = jax.tree.leaves(program(*given))
        return Prepared([float(jnp.sqrt(jnp.mean(jnp.square(one)))) for one in found], seconds)

    def turn() -> float:
        def repeat(times: int) -> None:
            out = None
            for _ in range(times):
                out = ready[0]()
            jax.block_until_ready(out)

        return steady(repeat, piece=4, seconds=0.25)

    return Local(name, prepare, turn)


def _check(text: str, switch: str) -> None:
    """Raise unless native code is called where it should be, and only there."""
    if ("chainrule_" in text) != (switch != "0"):
        raise BenchmarkError(f"with {availability.SWITCH}={switch} the wrong program was compiled")


def _speedups(case: Case) -> list[tuple[str, float]]:
    """How many times as fast as without native code, by medians."""
    *native, off = case.times
    return [(one.name, off.summary.median / one.summary.median) for one in native]


def _line(case: Case) -> str:
    times = "".join(f"{human(one.summary.median):>10}" for one in case.times)
    return f"{case.label:27}{times}{''.join(f'{speed:8.2f}x' for _, speed in _speedups(case))}"


def _not_worth(case: Case) -> str:
    slow = [f"{name} {speed:.2f}x" for name, speed in _speedups(case) if speed < PAYS]
    return f"{case.label}: {', '.join(slow)} of what XLA compiles, below {PAYS}" if slow else ""
