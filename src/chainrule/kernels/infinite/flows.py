"""Training of a wide network by any loss, with or without momentum, in the space of its outputs.

A network of infinite width moves as `f = f0 - rate Theta w`, where w gathers the derivatives of the loss in the
outputs: `w' = dL/df`, or with momentum m `w'' = dL/df - (1 - m) w'`, the limit of heavy-ball steps. Only the w of
training points is integrated; outputs anywhere follow from it. For squared error without momentum `gradient_descent`
is exact and faster.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.kernels.positive import symmetric
from chainrule.kernels.precision import in_double
from chainrule.nn.ode import dormand_prince

Loss = Callable[[Array, Any], Array]
"""From the outputs of all training points and their targets to one number, summed over points."""


@final
class GatheredSlopes(eqx.Module):
    """What training has gathered at one or several times."""

    slopes: Float[np.ndarray, "*times points outputs"]
    rate: float = eqx.field(static=True)

    def outputs(self, theta: Any, start: Any) -> np.ndarray:
        """Outputs of points whose tangent kernel with the training points is `theta` and which begin at `start`."""
        kernels, points = np.asarray(theta, np.float64), self.slopes.shape[-2]
        if kernels.ndim != 2 or kernels.shape[1] != points:
            turned = ": transpose it" if kernels.ndim == 2 and len(kernels) == points else ""
            raise ArgumentError(
                f"GatheredSlopes.outputs(theta): expected (points, {points}), got {kernels.shape}{turned}"
            )
        found: np.ndarray = np.asarray(start) - self.rate * np.matmul(kernels, self.slopes)
        return found


def train_by_loss(
    theta: Any,
    loss: Loss,
    y: Any,
    t: Any,
    *,
    start: Any = None,
    outputs: int = 1,
    learning_rate: float = 1.0,
    momentum: float = 0.0,
    tolerance: float = 1e-8,
) -> GatheredSlopes:
    """Gradient flow, or heavy-ball descent, on any loss, for networks with this tangent kernel of the training points.

    Times count steps of the learning rate. The outputs begin at `start` (zero unless given), `(points, outputs)`.

    >>> gathered = train_by_loss([[1.0]], lambda f, y: 0.5 * ((f - y) ** 2).sum(), np.ones((1, 1)), 1.0)
    >>> round(gathered.outputs([[1.0]], 0.0).item(), 6)  # 1 - 1/e
    0.632121
    """
    matrix, times = symmetric("train_by_loss", "theta", theta), np.asarray(t, np.float64)
    if (
        times.ndim > 1
        or not ((times >= 0) & np.isfinite(times)).all()
        or (np.diff(np.atleast_1d(times)) < 0).any()
    ):
        raise ArgumentError(f"train_by_loss(t={t}): times are finite, at least 0 and in order")
    if not 0 <= momentum < 1:
        raise ArgumentError(f"train_by_loss(momentum={momentum}): momentum must lie in [0, 1)")
    if not 0 < learning_rate < np.inf:
        raise ArgumentError(
            f"train_by_loss(learning_rate={learning_rate}): learning_rate must be positive and finite"
        )
    count = whole("train_by_loss", "outputs", outputs)
    first = np.zeros((len(matrix), count)) if start is None else np.asarray(start, np.float64)
    if first.ndim != 2 or len(first) != len(matrix):
        raise ArgumentError(f"train_by_loss(start): shape {first.shape}; it needs ({len(matrix)}, outputs)")
    _check_loss(loss, first, y)
    slopes, reached = _integrated(
        loss, matrix, first, y, np.atleast_1d(times), float(learning_rate), float(momentum), float(tolerance)
    )
    if not reached.all():
        raise ArgumentError(
            "train_by_loss: the times are too far for the steps that the fastest direction needs",
            remedy="use a smaller learning_rate or shorter times; for squared error gradient_descent takes any time",
        )
    found = np.asarray(slopes)
    return GatheredSlopes(found if times.ndim else found[0], float(learning_rate))


def _check_loss(loss: Loss, outputs: Float[np.ndarray, "points outputs"], y: Any) -> None:
    """Raise unless the loss gives one number, and pairs each output with its own target."""
    column = outputs.shape[1] == 1 and np.shape(y) == (len(outputs),) and len(outputs) > 1
    try:
        with jax.numpy_rank_promotion("raise" if column else "allow"):
            found = jax.eval_shape(loss, outputs, y)
    except ValueError as error:
        if "rank_promotion" not in str(error):
            raise
        raise ArgumentError(
            f"train_by_loss(y): the loss compares outputs of shape {outputs.shape} with targets of shape "
            f"{np.shape(y)}, every one with all of the others",
            remedy="give a column of targets: y[:, None]",
        ) from None
    if getattr(found, "shape", None) != ():
        raise ArgumentError(
            f"train_by_loss(loss): it gives {getattr(found, 'shape', type(found).__name__)} in place of one number",
            remedy="sum it over points and outputs",
        )


@in_double
def _integrated(
    loss: Loss,
    theta: Array,
    start: Array,
    y: Any,
    times: Array,
    rate: float,
    momentum: float,
    tolerance: float,
) -> tuple[Array, Array]:
    return _flow(loss, theta, start, y, times, rate, momentum, tolerance)


@eqx.filter_jit
def _flow(
    loss: Loss,
    theta: Array,
    start: Array,
    y: Any,
    times: Array,
    rate: float,
    momentum: float,
    tolerance: float,
) -> tuple[Array, Array]:
    def slope(t: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        del t
        gathered = state[0]
        now = start - rate * jnp.matmul(theta, gathered, precision="highest")
        force = jax.grad(loss)(now, y)
        if momentum == 0:
            return (force,)
        return state[1], force - (1 - momentum) * state[1]

    zero = jnp.zeros_like(start)
    begin: tuple[Array, ...] = (zero,) if momentum == 0 else (zero, zero)

    def leg(
        state: tuple[Array, ...], ends: tuple[Array, Array]
    ) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
        found = dormand_prince(slope, state, *ends, rtol=tolerance, atol=tolerance, most=100_000)
        return found.y, (found.y[0], found.reached)

    starts = jnp.concatenate([jnp.zeros(1, times.dtype), times[:-1]])
    return jax.lax.scan(leg, begin, (starts, times))[1]


def cross_entropy(outputs: Array, y: Array) -> Array:
    """The sum of cross-entropies of logits and class numbers: a loss for `train_by_loss`."""
    return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1).sum()


__all__ = ["GatheredSlopes", "Loss", "cross_entropy", "train_by_loss"]
