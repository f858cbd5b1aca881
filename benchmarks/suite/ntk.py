"""Empirical tangent kernels: the route that the compiler's cost chooses beside contracting whole Jacobians.

The peer is what one writes by hand in JAX: `vmap(jacrev(f))` over the examples and one product of the flattened
Jacobians for each parameter, compiled as one program. Both work in single precision on the same arrays. Networks are a
perceptron of 784-512-512-10 and a small convolutional network on 16 x 16 x 3; kernels are summed over outputs, or keep
them. Growth is over the width of the perceptron: seconds, and scratch bytes of the compiled programs.
"""

import functools
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.workers.protocol import steady
from chainrule.kernels.empirical import empirical_ntk, ntk_plan

JACOBIAN = "jax jacobian"
EXAMPLES = 64
WIDTHS = (128, 256, 512, 1024)
GROWTH_EXAMPLES = 16


def run(options: Options) -> Report:
    """Measure everything."""
    peers = options.chosen([JACOBIAN])
    cases: list[Case] = []
    notes: list[str] = []
    for label, (f, params, x), output in (
        (f"perceptron 512 wide, {EXAMPLES} examples, trace", perceptron(512, EXAMPLES), "trace"),
        (f"perceptron 512 wide, {EXAMPLES // 2} examples, full", perceptron(512, EXAMPLES // 2), "full"),
        (f"convolutions, {EXAMPLES} examples, trace", convolutions(EXAMPLES), "trace"),
    ):
        plain = naive(f, output)
        ours = _local("chainrule", functools.partial(empirical_ntk, f, params, x, output=output))
        theirs: list[Contestant] = [_local(name, functools.partial(plain, params, x)) for name in peers]
        made, _ = measure(label, [ours, *theirs], rounds=options.rounds, tolerance=1e-3, watch=options.watch)
        cases.append(made)
        found = ntk_plan(f, params, x, output=output)
        scratch = _scratch(plain, params, x)
        notes.append(
            f"{label}: route {found.route}, scratch {found.chosen.scratch / 2**20:.1f} MiB, of the Jacobian "
            f"{scratch / 2**20:.1f} MiB"
        )
        notes += [
            f"{label}: time over {other.name} {ratio(made.ours, other).median:.3g}, target at most 1"
            for other in made.times[1:]
        ]
    return Report(tuple(cases), growth(options.rounds), tuple(notes), {})


def perceptron(width: int, count: int, inputs: int = 784, outputs: int = 10) -> tuple[Any, Any, Any]:
    """A perceptron with two hidden layers, its parameters and examples."""
    noise = np.random.default_rng(0)
    sizes = (inputs, width, width, outputs)
    params = [
        (noise.normal(size=(a, b)) / math.sqrt(a)).astype(np.float32) for a, b in itertools.pairwise(sizes)
    ]
    return _perceptron, params, noise.normal(size=(count, inputs)).astype(np.float32)


def _perceptron(params: Any, x: Any) -> Any:
    for w in params[:-1]:
        x = jax.nn.relu(x @ w)
    return x @ params[-1]


def convolutions(count: int) -> tuple[Any, Any, Any]:
    """Three convolutions and a head, their parameters and examples."""
    noise = np.random.default_rng(0)
    shapes = {"a": (3, 3, 3, 16), "b": (3, 3, 16, 32), "c": (3, 3, 32, 64), "head": (64, 10)}
    params = {
        name: (noise.normal(size=shape) / math.sqrt(math.prod(shape[:-1]))).astype(np.float32)
        for name, shape in shapes.items()
    }
    return _convolutions, params, noise.normal(size=(count, 16, 16, 3)).astype(np.float32)


def _convolutions(params: Any, x: Any) -> Any:
    for name in ("a", "b", "c"):
        x = jax.lax.conv_general_dilated(
            x, params[name], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    return x.mean(axis=(1, 2)) @ params["head"]


def naive(f: Callable[[Any, Any], Any], output: str) -> Callable[[Any, Any], Any]:
    """Jacobians of all examples, and products of them."""
    pattern = "nop,mop->nm" if output == "trace" else "nop,mrp->nmor"

    @jax.jit
    def contracted(params: Any, x: Any) -> Any:
        jacobians = jax.vmap(lambda one: jax.jacrev(lambda p: f(p, one[None])[0])(params))(x)
        flat = [j.reshape(*j.shape[:2], -1) for j in jax.tree.leaves(jacobians)]
        return sum(jnp.einsum(pattern, j, j) for j in flat)

    return contracted


def growth(rounds: int) -> tuple[Growth, ...]:
    """Seconds and scratch bytes by width, of the chosen route and of whole Jacobians."""
    seconds: dict[str, list[float]] = {"chainrule": [], JACOBIAN: []}
    scratch: dict[str, list[float]] = {"chainrule": [], JACOBIAN: []}
    for width in WIDTHS:
        f, params, x = perceptron(width, GROWTH_EXAMPLES, inputs=64)
        plain = naive(f, "trace")
        scratch["chainrule"].append(float(ntk_plan(f, params, x).chosen.scratch))
        scratch[JACOBIAN].append(float(_scratch(plain, params, x)))
        for name, work in (
            ("chainrule", functools.partial(empirical_ntk, f, params, x)),
            (JACOBIAN, functools.partial(plain, params, x)),
        ):
            jax.block_until_ready(work())
            seconds[name].append(float(np.median([_seconds(work) for _ in range(min(rounds, 3))])))
    sizes = tuple(float(width) for width in WIDTHS)
    # Layers hold activations, Jacobians every weight; both products are dominated by the middle matrix.
    weights, activations = tuple(w**2 for w in sizes), sizes
    return (
        Growth("scratch bytes, chainrule", "width", sizes, tuple(scratch["chainrule"]), activations),
        Growth("scratch bytes, whole Jacobians", "width", sizes, tuple(scratch[JACOBIAN]), weights),
        Growth("seconds, chainrule", "width", sizes, tuple(seconds["chainrule"]), weights),
        Growth("seconds, whole Jacobians", "width", sizes, tuple(seconds[JACOBIAN]), weights),
    )


def _scratch(program: Any, params: Any, x: Any) -> int:
    return int(program.lower(params, x).compile().memory_analysis().temp_size_in_bytes)


def _local(name: str, work: Callable[[], Any]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = np.asarray(work(), np.float64)
        scale = float(np.abs(found).max())
        shown = [float(v) / scale for v in found.reshape(-1)[:: max(1, found.size // 50)]]
        return Prepared(shown, time.perf_counter() - began)

    return Local(name, prepare, lambda: _seconds(work))


def _seconds(work: Callable[[], Any]) -> float:
    return steady(lambda count: jax.block_until_ready([work() for _ in range(count)]), 1)
