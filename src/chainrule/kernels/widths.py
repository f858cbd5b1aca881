"""Networks of finite width beside the limit: how fast they come near it, before and during training.

Many networks of a width are drawn and trained together in one program, by gradient descent on all examples, and what
they do is set beside the two kernels of infinite width. Everything falls with the width: the covariance of outputs and
the tangent kernel scatter less, outputs become Gaussian, the kernel moves less in training, and what training does is
what the limit predicts.

Reference: Lee et al., Wide neural networks of any depth evolve as linear models under gradient descent, 2019,
arXiv:1902.06720.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.kernels.empirical.ntk import empirical_ntk, ntk_by_layer
from chainrule.kernels.infinite.network import InfiniteNetwork
from chainrule.kernels.infinite.spectrum import decomposed, max_learning_rate
from chainrule.kernels.infinite.training import matrix_of
from chainrule.kernels.precision import in_double

WEIGHTS_AT_ONCE = 2**25
"""Weights of networks that are trained together; more are trained in turns."""


class TrainedNetworks(NamedTuple):
    """Networks of one width, drawn at random, before and in the course of training."""

    outputs: Float[Array, "draws records points"]
    """At the training points and then at the new ones, after each number of steps."""
    before: Float[Array, "draws train train"]
    after: Float[Array, "draws train train"]
    """Tangent kernels of the training points before the first and after the last step."""
    readout: Float[Array, "draws train train"]
    """The last layer's share in the kernel before training: given all other layers, the covariance of the outputs."""


@final
@dataclass(frozen=True)
class WidthResult:
    """How far networks of one width are from the limit."""

    width: int
    covariance_error: float
    """Of the mean covariance of outputs from the kernel of the limit, relative, in the Frobenius norm."""
    kurtosis: float
    """Excess kurtosis of outputs over draws, on average over points; 0 for a Gaussian."""
    kernel_error: float
    """Of the mean tangent kernel from that of the limit, relative."""
    kernel_spread: float
    """Of the tangent kernels of single draws around their mean, relative to the limit."""
    drift: float
    """How far training moves a tangent kernel, relative to where it began."""
    distance: float
    """Of trained outputs from those predicted, root mean square over draws and points."""


def width_study(
    network: InfiniteNetwork,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    widths: Sequence[int],
    draws: int = 16,
    steps: int = 100,
    learning_rate: float | None = None,
    key: Key,
) -> list[WidthResult]:
    """Draw and train networks of each width on the loss `½ sum (f - y)²`, and compare them with the limit.

    Targets are numbers, one for each point. The learning rate is half the largest stable one unless given.

    >>> from chainrule.kernels.infinite import Dense
    >>> x = np.float32([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> study = width_study(
    ...     Dense(1, "relu"), x, [1.0, -1.0, 0.5], x[:1], widths=(16, 256), steps=10, key=jax.random.key(0)
    ... )
    >>> study[0].drift > study[1].drift
    True
    """
    theta = matrix_of(network.ntk, x, None)
    rate = learning_rate or max_learning_rate(theta) / 2
    found = []
    for number, width in enumerate(widths):
        trained = trained_networks(
            network,
            width,
            jax.random.fold_in(key, number),
            x,
            y,
            x_new,
            draws=draws,
            steps=(0, steps),
            learning_rate=rate,
        )
        found.append(_compared(network, width, trained, x, y, x_new, rate, steps))
    return found


def trained_networks(
    network: InfiniteNetwork,
    width: int,
    key: Key,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    draws: int,
    steps: Sequence[int],
    learning_rate: float,
) -> TrainedNetworks:
    """Networks drawn and trained by gradient descent, looked at after each of these numbers of steps, in order."""
    width, draws = whole("width_study", "width", width), whole("width_study", "draws", draws)
    targets = np.asarray(y, np.float32)
    if targets.shape != (len(x),):
        raise ArgumentError(
            f"width_study(y): targets of shape {targets.shape} for {len(x)} points",
            remedy="give one number for each point, such as -1 and 1 for two classes",
        )
    marks = [whole("width_study", "steps", step, least=0) for step in steps]
    if marks != sorted(marks) or not marks:
        raise ArgumentError(f"width_study(steps={list(steps)}): steps are counted upwards")
    inputs = jnp.asarray(x, jnp.float32)
    weights = jax.eval_shape(lambda: network.finite(width, jax.random.key(0), inputs=inputs.shape[1:]))
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(weights, lambda leaf: hasattr(leaf, "size"))))
    together = max(1, min(draws, WEIGHTS_AT_ONCE // max(size, 1)))
    gaps = np.diff(np.asarray([0, *marks]))
    everything = jnp.concatenate([inputs, jnp.asarray(x_new, jnp.float32)])

    # A description is no argument of compiled code: its numbers decide about the layers that are drawn.
    @jax.jit
    def trained(keys: Array, everything: Array, y: Array, gaps: Array, rate: Array) -> TrainedNetworks:
        return jax.lax.map(
            lambda key: _trained(network, width, key, everything, y, gaps, rate), keys, batch_size=together
        )

    return trained(
        jax.random.split(key, draws),
        everything,
        jnp.asarray(targets),
        jnp.asarray(gaps),
        jnp.float32(learning_rate),
    )


def _trained(
    network: InfiniteNetwork, width: int, key: Key, everything: Array, y: Array, gaps: Array, rate: Array
) -> TrainedNetworks:
    """One network, from its first weights to its last."""
    x = everything[: len(y)]
    net = network.finite(width, key, inputs=x.shape[1:])
    arrays, rest = eqx.partition(net, eqx.is_inexact_array)

    def outputs(arrays: Any, points: Array) -> Array:
        found: Array = eqx.combine(arrays, rest)(points)
        return found

    def slope(arrays: Any) -> Any:
        return jax.grad(lambda a: 0.5 * jnp.square(outputs(a, x)[:, 0] - y).sum())(arrays)

    def descend(_: Any, arrays: Any) -> Any:
        return jax.tree.map(lambda a, g: a - rate * g, arrays, slope(arrays))

    def go_on(arrays: Any, gap: Array) -> tuple[Any, Array]:
        moved = jax.lax.fori_loop(0, gap, descend, arrays)
        return moved, outputs(moved, everything)[:, 0]

    parts = ntk_by_layer(outputs, arrays, x)
    last = list(parts)[-1].rpartition(".")[0]
    readout = sum(part for name, part in parts.items() if name.rpartition(".")[0] == last)
    moved, records = jax.lax.scan(go_on, arrays, gaps)
    return TrainedNetworks(records, sum(parts.values()), empirical_ntk(outputs, moved, x), readout)  # type: ignore[arg-type]


def predicted(
    network: InfiniteNetwork, x: Any, y: Any, x_new: Any, start: Any, steps: int, learning_rate: float
) -> Float[np.ndarray, "draws points"]:
    """What the limit predicts for networks that begin with these outputs (draws, points), at old and new points.

    `f(n) = f(0) + Theta_x Theta^-1 (I - (I - rate Theta)^n) (y - f(0))`.
    """
    theta = matrix_of(network.ntk, x, None)
    cross = matrix_of(network.ntk, np.concatenate([np.asarray(x), np.asarray(x_new)]), x)
    descent = decomposed(theta, rate=learning_rate, discrete=True)
    first = np.asarray(start, np.float64)
    missing = np.asarray(y, np.float64)[None] - first[:, : len(theta)]
    return np.asarray(first + (cross @ _learnt(descent, np.float64(steps), missing.T)).T)


@in_double
def _learnt(descent: Any, steps: Any, missing: Any) -> Any:
    return descent.applied(jnp.asarray(steps), missing)


def _compared(
    network: InfiniteNetwork,
    width: int,
    trained: TrainedNetworks,
    x: Any,
    y: Any,
    x_new: Any,
    rate: float,
    steps: int,
) -> WidthResult:
    outputs, before, after, readout = (np.asarray(one, np.float64) for one in trained)
    theta, covariance = matrix_of(network.ntk, x, None), matrix_of(network.nngp, x, None)
    norm = np.linalg.norm
    # Given the other layers outputs are Gaussian with the variance q, so that their fourth moment is 3 E[q²].
    own = np.diagonal(readout, axis1=1, axis2=2)
    expected = predicted(network, x, y, x_new, outputs[:, 0], steps, rate)
    spread = np.sqrt(np.square(before - before.mean(axis=0)[None]).mean(axis=0))
    return WidthResult(
        width=int(width),
        covariance_error=float(norm(readout.mean(axis=0) - covariance) / norm(covariance)),
        kurtosis=float((3 * own.var(axis=0) / np.square(own.mean(axis=0))).mean()),
        kernel_error=float(norm(before.mean(axis=0) - theta) / norm(theta)),
        kernel_spread=float(norm(spread) / norm(theta)),
        drift=float(np.mean([norm(b - a) / norm(a) for a, b in zip(before, after, strict=True)])),
        distance=float(np.sqrt(np.square(outputs[:, -1] - expected).mean())),
    )


__all__ = ["TrainedNetworks", "WidthResult", "predicted", "trained_networks", "width_study"]
