"""Losses from logits and values, computed in float32 or wider: one number per example, or all of them reduced.

`reduction` says how: `None` keeps one number per example (the mean over its entries), `"mean"` averages over examples
too, `"sum"` adds up every entry of every example, `"mean_of_sums"` adds up the entries of each example and averages
over examples, which for squared errors of d entries is d times the mean.

Predictions and targets have one shape and are never broadcast. A number that is no class is an error where numbers are
known; inside compiled code, where they are not, the loss of its example is not a number.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_class_numbers, check_same_shape
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int

REDUCTIONS = ("mean", "sum", "mean_of_sums")


def cross_entropy(
    logits: Float[Array, "*batch classes"],
    targets: Int[Array, "..."] | Float[Array, "..."],
    *,
    smoothing: float = 0.0,
    class_weights: Float[Array, " classes"] | None = None,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """Minus the log-probability of the target class, without overflow for any logits.

    Targets are class numbers, or a distribution over the classes for each example (one-hot or soft). `smoothing` mixes
    the uniform distribution into them. `class_weights` multiply each class's share; the mean over examples with class
    numbers then divides by the weights of their classes. One logit per position makes positions the examples.

    >>> float(cross_entropy(jnp.array([[1000.0, 0.0]]), jnp.array([1]))[0])
    1000.0
    """
    if not 0 <= smoothing < 1:
        raise ArgumentError(f"cross_entropy(smoothing={smoothing}): smoothing must lie in [0, 1)")
    logits, targets = jnp.asarray(logits), jnp.asarray(targets)
    numbers = jnp.issubdtype(targets.dtype, jnp.integer)
    _check_targets("cross_entropy", logits, targets, numbers)
    if numbers:  # small integer types cannot count the classes
        targets = targets.astype(jnp.promote_types(targets.dtype, jnp.int32))
    if numbers and not smoothing and class_weights is None:
        return _reduced("cross_entropy", _surprisal(logits, targets), reduction)
    wide, classes = _wide(logits), logits.shape[-1]
    wanted = jax.nn.one_hot(targets, classes, dtype=wide.dtype) if numbers else targets.astype(wide.dtype)
    weights = jnp.ones(classes, wide.dtype) if class_weights is None else class_weights.astype(wide.dtype)
    last = weights.reshape((1,) * (wanted.ndim - 1) + weights.shape)
    mixed = ((1 - smoothing) * wanted + smoothing / classes) * last
    # A class of weight zero adds nothing, even where its logit is minus infinity.
    terms = jnp.where(mixed == 0, 0, mixed * jax.nn.log_softmax(wide, axis=-1))
    values = -terms.sum(axis=-1)
    if numbers:
        values = jnp.where((targets >= 0) & (targets < classes), values, jnp.nan)
    if reduction == "mean" and numbers and class_weights is not None:
        return values.sum() / (wanted * last).sum()
    return _reduced("cross_entropy", values, reduction)


def _check_targets(where: str, logits: Array, targets: Array, numbers: bool) -> None:
    if targets.shape != (logits.shape[:-1] if numbers else logits.shape):
        raise ArgumentError(
            f"{where}: logits of shape {logits.shape} and targets of shape {targets.shape} and type "
            f"{targets.dtype}",
            remedy="targets are class numbers (whole numbers, one for each row of logits) or distributions over the "
            "classes\n(floating numbers in the shape of the logits)",
        )
    if numbers:
        check_class_numbers(where, "targets", targets, logits.shape[-1])


@jax.custom_jvp
def _surprisal(
    logits: Float[Array, "*batch classes"], targets: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    wide = _wide(logits)
    return jax.nn.logsumexp(wide, axis=-1) - _chosen(wide, targets)


@_surprisal.defjvp
def _surprisal_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    # The slope is softmax - onehot, entry by entry. The derivative of picking the target would be a scatter into an
    # array of the size of all logits, which for large vocabularies costs more than the softmax.
    (logits, targets), (change, _) = primals, tangents
    wide = _wide(logits)
    top = jax.lax.stop_gradient(wide.max(axis=-1, keepdims=True))
    weights = jnp.exp(wide - top)
    total = weights.sum(axis=-1, keepdims=True)
    value = (jnp.log(total) + top)[..., 0] - _chosen(wide, targets)
    classes = jax.lax.broadcasted_iota(targets.dtype, wide.shape, wide.ndim - 1)
    slope = weights * (1 / total) - (classes == targets[..., None])
    return value, (slope * _wide(change)).sum(axis=-1)


def _chosen(wide: Array, targets: Array) -> Array:
    # Beyond the last class there is NaN, and negative numbers belong there too instead of being counted from the end.
    index = jnp.where(targets < 0, wide.shape[-1], targets)
    return jnp.take_along_axis(wide, index[..., None], axis=-1)[..., 0]


def focal(
    logits: Float[Array, "*batch classes"],
    targets: Int[Array, "..."],
    *,
    gamma: float = 2.0,
    class_weights: Float[Array, " classes"] | None = None,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """`-(1 - p)^gamma log p` with p the probability of the target class (Lin et al., 2017, arXiv:1708.02002).

    Examples that are right already count for less; with `gamma` 0 it is the cross-entropy.

    >>> float(focal(jnp.array([[0.0, 0.0]]), jnp.array([1]))[0])  # log(2) / 4
    0.1732...
    """
    _check_targets("focal", logits, targets, True)
    if gamma < 0:
        raise ArgumentError(f"focal(gamma={gamma}): gamma must not be negative")
    surprisal = cross_entropy(logits, targets)
    values = _unlikely(surprisal, gamma) * surprisal
    if class_weights is not None:
        values = values * class_weights.astype(values.dtype)[targets]
    return _reduced("cross_entropy", values, reduction)


def binary_cross_entropy(
    logits: Float[Array, "batch *shape"],
    targets: Float[Array, "..."],
    *,
    positive_weights: Float[Array, "..."] | None = None,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """Minus the log-probability of targets in [0, 1] under independent coins with these log-odds.

    `positive_weights` multiply the share of the ones, one weight for each entry of the last axis.

    >>> float(binary_cross_entropy(jnp.array([-1000.0]), jnp.array([1.0]))[0])
    1000.0
    """
    logits, targets = _alike("binary_cross_entropy", "logits", logits, "targets", targets)
    wide = _wide(logits)
    if positive_weights is None:
        return _reduced("binary_cross_entropy", jax.nn.softplus(wide) - wide * targets, reduction)
    weights = positive_weights.astype(wide.dtype).reshape((1,) * (wide.ndim - 1) + positive_weights.shape)
    values = (1 + (weights - 1) * targets) * jax.nn.softplus(-wide) + (1 - targets) * wide
    return _reduced("binary_cross_entropy", values, reduction)


def binary_focal(
    logits: Float[Array, "batch *shape"],
    targets: Float[Array, "..."],
    *,
    gamma: float = 2.0,
    positive_weights: Float[Array, "..."] | None = None,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """The focal loss of independent coins: `-(1 - p)^gamma log p` with p the probability of what is there.

    >>> float(binary_focal(jnp.array([0.0]), jnp.array([1.0]))[0])  # log(2) / 4
    0.1732...
    """
    if gamma < 0:
        raise ArgumentError(f"binary_focal(gamma={gamma}): gamma must not be negative")
    logits, targets = _alike("binary_focal", "logits", logits, "targets", targets)
    wide = _wide(logits)
    ones, zeros = (jax.nn.softplus(sign * wide) for sign in (-1, 1))
    weights = jnp.ones((1,) * wide.ndim, wide.dtype)
    if positive_weights is not None:
        weights = positive_weights.astype(wide.dtype).reshape((1,) * (wide.ndim - 1) + positive_weights.shape)
    values = (
        weights * targets * _unlikely(ones, gamma) * ones + (1 - targets) * _unlikely(zeros, gamma) * zeros
    )
    return _reduced("binary_focal", values, reduction)


def _unlikely(surprisal: Array, gamma: float) -> Array:
    """`(1 - p)^gamma` from `-log p`; where nothing is left of it, its slope is zero too."""
    if gamma == 0:
        return jnp.ones_like(surprisal)
    rest = -jnp.expm1(-surprisal)
    some = rest > 0
    return jnp.where(some, jnp.where(some, rest, 1) ** gamma, 0)


def earth_mover(
    logits: Float[Array, "batch grades"],
    targets: Float[Array, "..."],
    *,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """The squared earth mover's distance of distributions over ordered grades (Hou, Yu and Samaras, 2016).

    It is the mean square difference of their cumulative sums: a vote two grades away costs more than one next to it,
    which a cross-entropy does not know. Targets are shares that add up to one.

    >>> sure = 1e4 * jnp.eye(10)[4:5]
    >>> round(float(jnp.sqrt(earth_mover(sure, jnp.eye(10)[6:7])[0])), 6)  # a five for a seven
    0.447214
    """
    logits, targets = _alike("earth_mover", "logits", logits, "targets", targets)
    apart = jnp.cumsum(softmax(logits) - targets, axis=-1)
    return _reduced("earth_mover", jnp.square(apart), reduction)


def squared_error(
    predicted: Float[Array, "batch *shape"],
    target: Float[Array, "..."],
    *,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """Squared differences."""
    predicted, target = _alike("squared_error", "predicted", predicted, "target", target)
    return _reduced("squared_error", jnp.square(_wide(predicted) - target), reduction)


def absolute_error(
    predicted: Float[Array, "batch *shape"],
    target: Float[Array, "..."],
    *,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """Absolute differences."""
    predicted, target = _alike("absolute_error", "predicted", predicted, "target", target)
    return _reduced("absolute_error", jnp.abs(_wide(predicted) - target), reduction)


def huber(
    predicted: Float[Array, "batch *shape"],
    target: Float[Array, "..."],
    *,
    delta: float = 1.0,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """Half the squared difference up to `delta`, a straight line of slope `delta` beyond (Huber, 1964).

    >>> huber(jnp.array([0.5, 3.0]), jnp.zeros(2))
    Array([0.125, 2.5  ], dtype=float32)
    """
    predicted, target = _alike("huber", "predicted", predicted, "target", target)
    if delta <= 0:
        raise ArgumentError(f"huber(delta={delta}): delta must be positive")
    distance = jnp.abs(_wide(predicted) - target)
    near = jnp.minimum(distance, delta)
    return _reduced("huber", near * (distance - 0.5 * near), reduction)


def quantile_error(
    predicted: Float[Array, "batch *shape"],
    target: Float[Array, "..."],
    *,
    quantile: float = 0.5,
    reduction: str | None = None,
) -> Float[Array, "..."]:
    """The pinball loss, least where this share of the targets lies below the prediction (Koenker and Bassett, 1978).

    >>> quantile_error(jnp.zeros(2), jnp.array([1.0, -1.0]), quantile=0.9)
    Array([0.9, 0.1], dtype=float32)
    """
    if not 0 < quantile < 1:
        raise ArgumentError(f"quantile_error(quantile={quantile}): quantile must lie between 0 and 1")
    predicted, target = _alike("quantile_error", "predicted", predicted, "target", target)
    above = target - _wide(predicted)
    return _reduced("quantile_error", jnp.maximum(quantile * above, (quantile - 1) * above), reduction)


def softmax(
    logits: Float[Array, "*axes"], *, axis: int = -1, temperature: float = 1.0
) -> Float[Array, "*axes"]:
    """Probabilities proportional to `exp(logit / temperature)`; adding a constant to all logits changes nothing.

    As the temperature falls, all probability goes to the largest logit; equal ones share it. A logit is a log-odds, not
    a probability.

    >>> softmax(jnp.array([1000.0, 1000.0, 0.0]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    if temperature <= 0:
        raise ArgumentError(f"softmax(temperature={temperature}): temperature must be positive")
    return jax.nn.softmax(_wide(logits) / temperature, axis=axis)


def softmax_jacobian(
    logits: Float[Array, "*batch classes"], *, temperature: float = 1.0
) -> Float[Array, "*batch classes classes"]:
    """The derivative of every probability by every logit: `(diag(p) - p pᵀ) / temperature`.

    Its rows and columns sum to zero, because the probabilities sum to one and a constant changes none of them.

    >>> softmax_jacobian(jnp.zeros(2)).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    p = softmax(logits, temperature=temperature)
    square = jnp.eye(p.shape[-1], dtype=p.dtype).reshape((1,) * (p.ndim - 1) + (p.shape[-1],) * 2)
    return p[..., None, :] * (square - p[..., :, None]) / temperature


def _alike(where: str, first: str, a: Any, second: str, b: Any) -> tuple[Array, Array]:
    both = jnp.asarray(a), jnp.asarray(b)
    check_same_shape(where, first, both[0], second, both[1])
    return both


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _reduced(where: str, values: Array, reduction: str | None) -> Array:
    if reduction is None:
        # Cross-entropies have been summed over classes and keep all their axes.
        if where == "cross_entropy":
            return values
        return values.reshape(values.shape[0], math.prod(values.shape[1:])).mean(axis=-1)
    check_choice(where, "reduction", reduction, REDUCTIONS)
    if reduction == "mean":
        return values.mean()
    return values.sum() if reduction == "sum" or values.ndim == 0 else values.sum() / values.shape[0]


__all__ = [
    "absolute_error",
    "binary_cross_entropy",
    "binary_focal",
    "cross_entropy",
    "earth_mover",
    "focal",
    "huber",
    "quantile_error",
    "softmax",
    "softmax_jacobian",
    "squared_error",
]
