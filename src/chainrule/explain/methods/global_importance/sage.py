"""SAGE: Shapley values of the loss, the share of a model's predictive power that each feature has.

The players are features, and a coalition is worth the loss that it takes away: `v(S) = loss of the mean prediction -
loss of the prediction that knows S`, absent features drawn from background rows. The values add up to what the whole
model is better than its mean prediction; a feature that others make up for still gets its share.

Reference: Covert, Lundberg and Lee, Understanding global feature contributions, 2020, arXiv:2004.00668.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.compiling import compiled
from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function, HostFunction, adapted, count_outputs
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import CoalitionGame
from chainrule.explain.methods.shapley.kernel import kernel_values
from chainrule.explain.methods.shapley.maskers.replacing import picked

EXACT_UP_TO = 8
"""Features up to which all coalitions are evaluated."""
TracedLosses: TypeAlias = Callable[[Array, Array], Array]
"""From outputs (rows, outputs) and targets to a loss for each row, where JAX traces."""


@final
@dataclass(frozen=True)
class LossShares:
    """Shapley values of the loss: how much of it each feature takes away."""

    names: tuple[str, ...]
    values: Float[np.ndarray, " features"]
    errors: Float[np.ndarray, " features"] | None
    """Standard errors; none where all coalitions were evaluated."""
    without: float
    """The loss with no feature known."""
    with_all: float
    """The loss with all of them."""
    method: str


def sage(
    f: Function,
    x: Any,
    y: Any,
    *,
    loss: TracedLosses,
    background: Any,
    groups: Int[np.ndarray, "..."] | None = None,
    names: Sequence[str] | None = None,
    most: int = 32,
    budget: int | None = None,
    seed: int = 0,
) -> LossShares:
    """What each feature takes away from the mean loss of `f` over some rows.

    `loss(outputs, y)` gives a number for each row; outputs are averaged over at most `most` background rows first.

    >>> rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    >>> def squares(out, y):
    ...     return (out[:, 0] - y) ** 2
    >>> found = sage(lambda x: 3 * x[:, 0], rows, 3 * rows[:, 0], loss=squares, background=rows)
    >>> bool(found.values[0] > 5), float(found.values[1])
    (True, 0.0)
    """
    f = adapted("sage", f, np.asarray(x)[:1])
    count_outputs("sage", f, np.asarray(x))
    rows = jnp.asarray(x)
    chosen, weights = picked(np.asarray(background), most, seed)
    membership = np.arange(rows[0].size) if groups is None else np.asarray(groups).ravel()
    count = int(membership.max()) + 1
    known = tuple(names) if names is not None else tuple(f"x{i}" for i in range(count))
    owners = jnp.asarray(membership.reshape(rows.shape[1:]))
    given = (jnp.asarray(y), jnp.asarray(chosen, rows.dtype), jnp.asarray(weights, jnp.result_type(float)))

    mean_loss: Callable[..., Array] = _host_loss if isinstance(f, HostFunction) else _loss

    def worth(masks: np.ndarray) -> np.ndarray:
        return -np.asarray([mean_loss(f, loss, rows, *given, owners, jnp.asarray(mask)) for mask in masks])

    game = CoalitionGame(worth, known)
    few = count <= EXACT_UP_TO
    found = exact_values(game) if few else kernel_values(game, budget=budget or 2 * count + 256, seed=seed)
    return LossShares(known, found.values, found.errors, -float(game.base), -float(game.total), found.method)


@compiled
def _loss(
    f: Function,
    loss: TracedLosses,
    x: Array,
    y: Array,
    others: Array,
    weights: Array,
    owners: Array,
    mask: Array,
) -> Array:
    present = mask[owners][None]

    def one(total: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
        other, weight = given
        out = f(jnp.where(present, x, other[None]))
        return total + weight * out.reshape(len(x), -1), None

    like = jax.eval_shape(f, x)
    start = jnp.zeros((len(x), like.size // len(x)), like.dtype)
    out, _ = jax.lax.scan(one, start, (others, weights.astype(like.dtype)))
    return loss(out, y).mean()


def _host_loss(
    f: HostFunction,
    loss: TracedLosses,
    x: Array,
    y: Array,
    others: Array,
    weights: Array,
    owners: Array,
    mask: Array,
) -> Array:
    """The same of a function of NumPy arrays, which is called once for each background row."""
    present, rows = np.asarray(mask[owners])[None], np.asarray(x)
    mixed = (f(np.where(present, rows, other[None])).reshape(len(rows), -1) for other in np.asarray(others))
    out = sum(weight * one for weight, one in zip(np.asarray(weights), mixed, strict=True))
    return loss(jnp.asarray(out), y).mean()


__all__ = ["EXACT_UP_TO", "LossShares", "TracedLosses", "sage"]
