"""Dense derivatives: automatic Jacobians against jax.jacfwd and jax.jacrev, Hessian strategies, costs in operations.

Everybody computes the same Jacobian in single precision, compiled. "compile" is the first call: for ours it includes
planning, which compiles both modes. Below the table: what was chosen and why, what a memory budget does to compiled
memory, the four Hessian strategies side by side, and how many operations a gradient and a Hessian product take.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.workers.protocol import steady
from chainrule import derive

PEERS = {"jax.jacfwd": jax.jacfwd, "jax.jacrev": jax.jacrev}
GRID = ((1, 1000), (10, 1000), (100, 1000), (316, 316), (1000, 1000), (1000, 100), (1000, 10), (1000, 1))
"""Inputs and outputs."""
BUDGETS = ("4.1MB", "4.5MB", "6MB", "10MB", "100MB")
"""For 1,000 x 1,000 numbers of four bytes: from hardly more than the result to plenty."""
WIDTHS = (32, 64, 128, 256, 512)
TARGET_WIDTH = 64
SQUARES = (64, 128, 256, 512, 1024)
TURN_SECONDS = 0.15

Function = Callable[[Any], Any]


def run(options: Options) -> Report:
    """Measure everything."""
    peers = options.chosen(list(PEERS))
    jax.config.update("jax_enable_x64", False)
    cases, reasons = [], []
    for kind, make in KINDS.items():
        for n, m in GRID:
            case, why = _case(f"{kind}, {n:,} to {m:,}", make(n, m), _point(n), peers, options)
            cases.append(case)
            reasons.append(why)
    case, why = _case("call of a small function, 2 to 2", _small, _point(2), peers, options)
    notes = [*_worst(cases), *reasons, why, *_budgets(), *_hessians(), *_operations()]
    return Report((*cases, case), (*_growth(options.rounds), _flops_growth()), tuple(notes))


# ---------------------------------------------------------------------- functions


def network(n: int, m: int) -> Function:
    """Dense: two hidden layers of 64."""
    keys = jax.random.split(jax.random.key(0), 3)
    first, second, third = (
        jax.random.normal(key, shape) / shape[0] ** 0.5
        for key, shape in zip(keys, ((n, 64), (64, 64), (64, m)), strict=True)
    )
    return lambda x: jnp.tanh(jnp.tanh(x @ first) @ second) @ third


def stencil(n: int, m: int) -> Function:
    """Structured: a nonlinear three-point stencil, then every output looks at one position."""
    positions = np.linspace(0, n - 1, m).astype(int)
    return lambda x: jnp.sin((jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1) + x**3)[positions])


def elementwise(n: int, m: int) -> Function:
    """Entry by entry, repeated or summed to the number of outputs."""
    if m >= n:
        return lambda x: jnp.exp(jnp.sin(jnp.tile(x, -(-m // n))[:m])) * x[0]
    return lambda x: jnp.exp(jnp.sin(x))[: n // m * m].reshape(m, -1).sum(axis=1)


KINDS = {"network": network, "stencil": stencil, "elementwise": elementwise}


def _small(x: Any) -> Any:
    return jnp.stack([x[0] * x[1], jnp.sin(x[1])])


def rosenbrock(x: Any) -> Any:
    """The banana of two variables."""
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def tanh_network(width: int, depth: int = 4) -> Function:
    """A number from a vector through square layers."""
    keys = jax.random.split(jax.random.key(0), depth)
    weights = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]

    def loss(x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return (x**2).sum()

    return loss


def _point(n: int) -> jax.Array:
    return jax.random.normal(jax.random.key(1), (n,))


# ---------------------------------------------------------------------- times


def _case(label: str, f: Function, x: jax.Array, peers: list[str], options: Options) -> tuple[Case, str]:
    ours = derive.jacobian(f)
    contestants = [_contestant("chainrule", ours, x)]
    contestants += [_contestant(name, jax.jit(PEERS[name](f)), x) for name in peers]
    case, _ = measure(label, contestants, rounds=options.rounds, tolerance=1e-3, watch=options.watch)
    return case, f"{label}: {ours.report.mode}, {ours.report.reason}"


def _contestant(name: str, jacobian: Function, x: jax.Array) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        J = np.asarray(jax.block_until_ready(jacobian(x)))
        taken = time.perf_counter() - began
        rows, columns = (np.cos(np.arange(size)) for size in J.shape)
        return Prepared([float(rows @ J @ columns), float(np.abs(J).sum()), float((J**2).sum())], taken)

    def work(count: int) -> None:
        for _ in range(count):
            jax.block_until_ready(jacobian(x))

    return Local(name, prepare, lambda: steady(work, 4, TURN_SECONDS))


def _worst(cases: list[Case]) -> list[str]:
    """The target: never more than 1.1 times the better of the two modes."""
    found = {}
    for case in cases:
        if case.best_peer is not None:
            found[case.label] = ratio(case.ours, case.best_peer)
    if not found:
        return []
    worst = max(found, key=lambda label: found[label].median)
    over = [label for label, summary in found.items() if summary.median > 1.1]
    return [
        f"worst time over the better mode: {found[worst].median:.3f} ({worst}), target at most 1.1: "
        f"{'met' if not over else 'MISSED by ' + ', '.join(over)}"
    ]


def _growth(rounds: int) -> list[Growth]:
    """Square Jacobians of the network: seconds against operations, compiled memory against bytes of the result.

    The fastest of several turns at each size; the exponents, not the seconds, are compared.
    """
    seconds, flops, peaks, results = [], [], [], []
    for size in SQUARES:
        x = _point(size)
        J = derive.jacobian(network(size, size))
        J(x)

        def work(count: int, J: Function = J, x: jax.Array = x) -> None:
            for _ in range(count):
                jax.block_until_ready(J(x))

        taken = [steady(work, 4, TURN_SECONDS / 3) for _ in range(rounds)]
        seconds.append(min(taken))
        flops.append(J.report.flops[J.report.mode])
        peaks.append(float(J.report.peak_bytes or 0))
        results.append(float(J.report.output_bytes))
    sizes = tuple(map(float, SQUARES))
    return [
        Growth("seconds of a square Jacobian (network)", "inputs", sizes, tuple(seconds), tuple(flops)),
        Growth("bytes of a square Jacobian at its peak", "inputs", sizes, tuple(peaks), tuple(results)),
    ]


# ---------------------------------------------------------------------- memory and operations


def _budgets() -> list[str]:
    """Compiled memory, result included, under budgets that do and do not hold all products at once."""
    lines = ["memory budgets, 1,000 x 1,000, compiled bytes with the result:"]
    x = _point(1000)
    for kind, make in KINDS.items():
        for mode in ("forward", "reverse"):
            for text in BUDGETS:
                J = derive.jacobian(make(1000, 1000), mode, memory=text, measure=False)
                report = J.plan(x)
                memory: Any = jax.jit(J).lower(x).compile().memory_analysis()
                peak = memory.temp_size_in_bytes + memory.output_size_in_bytes
                verdict = "within" if peak <= (report.budget_bytes or 0) else "OVER"
                lines.append(
                    f"  {kind:12} {mode:8} budget {text:>6}: chunk {report.chunk:5,}, "
                    f"peak {peak / 1e6:6.2f} MB, {verdict}"
                )
    return lines


def _hessians() -> list[str]:
    """The strategies' tables, as `chainrule.derive.compare_hessian(f, x)` prints them."""
    lines = []
    for title, f, x in (
        ("Rosenbrock", rosenbrock, jnp.array([-1.2, 1.0])),
        ("4-layer 64-wide tanh network", tanh_network(64), _point(64)),
    ):
        lines += [f"{title}:", *(f"  {line}" for line in str(derive.compare_hessian(f, x)).splitlines())]
    return lines


def _mlp(width: int, batch: int = 64) -> tuple[Function, list[jax.Array]]:
    """The loss of a 4-layer perceptron in its weights, for a batch."""
    keys = jax.random.split(jax.random.key(0), 5)
    weights = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys[:4]]
    inputs = jax.random.normal(keys[4], (batch, width))

    def loss(weights: list[jax.Array]) -> jax.Array:
        h = inputs
        for weight in weights:
            h = jnp.tanh(h @ weight)
        return (h**2).mean()

    return loss, weights


def _flops(f: Callable[..., Any], *args: Any) -> float:
    analysis: Any = jax.jit(f).lower(*args).compile().cost_analysis()
    return float(analysis["flops"])


def _operations() -> list[str]:
    """The targets: a gradient within 2.8 values, a Hessian product within 2.5 gradients, at width 64."""
    lines = []
    for width in WIDTHS:
        loss, weights = _mlp(width)
        value, gradient = _flops(loss, weights), _flops(derive.gradient(loss), weights)
        product = _flops(derive.hvp(loss), weights, weights)
        line = (
            f"operations, 4-layer perceptron, width {width}: gradient / value {gradient / value:.2f}, "
            f"Hessian product / gradient {product / gradient:.2f}"
        )
        if width == TARGET_WIDTH:
            met = gradient / value <= 2.8 and product / gradient <= 2.5
            line += f", target at most 2.8 and 2.5: {'met' if met else 'MISSED'}"
        lines.append(line)
    return lines


def _flops_growth() -> Growth:
    """Operations of a Hessian product grow like those of the value."""
    products, values = [], []
    for width in WIDTHS:
        loss, weights = _mlp(width)
        products.append(_flops(derive.hvp(loss), weights, weights))
        values.append(_flops(loss, weights))
    sizes = tuple(map(float, WIDTHS))
    return Growth("operations of a Hessian product", "width", sizes, tuple(products), tuple(values))
