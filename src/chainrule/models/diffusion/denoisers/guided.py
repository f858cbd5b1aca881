"""Guidance towards a condition, as a denoiser around a denoiser.

One convention for the weight: `eps = w eps(x, c) + (1 - w) eps(x)`; 0 is unconditional, 1 conditional, more stronger.
In the form "(1 + g) c - g u" w is 1 + g, and the weight of a classifier is w too. A weight other than 0 or 1 sharpens,
but does not sample p(x) p(c|x)^w: scores tilted at every level are not the scores of one noised distribution.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, per_example

_X = Float[Array, "batch ..."]


@final
class Unconditional(Denoiser):
    """A denoiser that does not look at the condition."""

    inner: Denoiser
    target: str = eqx.field(static=True)

    def __init__(self, inner: Denoiser) -> None:
        self.inner, self.target = inner, inner.target

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        del condition
        return self.inner.predict(x, level, None)

    def share(self, x: _X, level: Level, condition: Any = None) -> Array | None:
        """That of the denoiser, without the condition."""
        del condition
        return self.inner.share(x, level, None)


@final
class ClassifierFree(Denoiser):
    """`w` times the conditional and `1 - w` times the unconditional prediction (Ho and Salimans, 2022).

    One denoiser gives both in one batch; a second, unconditional one may be given instead. Guidance can be kept to an
    interval of `lam`, outside of which the conditional prediction is used (Kynkäänniemi et al., 2024). A `negative`
    condition takes the place of none: guidance then leads away from it. `rescale` mixes in, by that share, the
    prediction brought back to the standard deviation of the conditional one (Lin et al., 2024).
    """

    conditional: Denoiser
    unconditional: Denoiser | None
    weight: Array
    interval: tuple[float, float] | None = eqx.field(static=True)
    negative: Array | None
    rescale: float = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(
        self,
        conditional: Denoiser,
        unconditional: Denoiser | None,
        weight: float,
        interval: tuple[float, float] | None = None,
        negative: Array | None = None,
        rescale: float = 0.0,
    ) -> None:
        self.conditional, self.unconditional = conditional, unconditional
        self.weight, self.interval = jnp.asarray(float(weight)), interval
        self.negative, self.rescale = negative, rescale
        self.target = conditional.target

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        with_, without = self._both(x, level, condition)
        weight = self.weight
        if self.interval is not None:
            low, high = self.interval
            weight = jnp.where((level.lam >= low) & (level.lam <= high), weight, 1.0)
        weight = per_example(weight, x).astype(with_.dtype)
        mixed = weight * with_ + (1 - weight) * without
        if not self.rescale:
            return mixed
        axes = tuple(range(1, x.ndim))
        wide = jnp.maximum(mixed.std(axis=axes, keepdims=True), jnp.finfo(x.dtype).tiny)
        ratio = with_.std(axis=axes, keepdims=True) / wide
        return (self.rescale * ratio + (1 - self.rescale)) * mixed

    def share(self, x: _X, level: Level, condition: Any = None) -> Array | None:
        """That of the conditional denoiser: guidance moves the mean of a step alone."""
        return self.conditional.share(x, level, condition)

    def _both(self, x: Array, level: Level, condition: Any) -> tuple[Array, Array]:
        if self.unconditional is not None:
            return (
                self.conditional.predict(x, level, condition),
                self.unconditional.value(self.target, x, level),
            )
        # One batch is faster than two passes on every device.
        twice = Level(*(jnp.tile(v, 2) if jnp.ndim(v) else v for v in level))
        given = jnp.asarray(condition)
        given = jnp.broadcast_to(given, (len(x),)) if given.ndim == 0 else given
        if self.negative is None:
            none = self.conditional.null(given)
        else:
            none = jnp.broadcast_to(self.negative[None], given.shape)
        both = jnp.concatenate([given, none])
        out = self.conditional.predict(jnp.concatenate([x, x]), twice, both)
        return out[: len(x)], out[len(x) :]


def guided(
    denoiser: Denoiser,
    weight: float,
    unconditional: Denoiser | None = None,
    *,
    interval: tuple[float, float] | None = None,
    negative: Array | None = None,
    rescale: float = 0.0,
) -> Denoiser:
    """Classifier-free guidance; a weight of 1 or 0 is the conditional or unconditional denoiser itself, bit for bit.

    >>> from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
    >>> two = MixtureDenoiser([1, 1], [[-1.0], [1.0]], [0.1, 0.1], labels=[0, 1])
    >>> guided(two, 1.0) is two
    True
    """
    if not (isinstance(weight, int | float) and weight >= 0):
        raise ArgumentError(f"guidance={weight}: the weight of guidance is 0 or more")
    if not (isinstance(rescale, int | float) and 0 <= rescale <= 1):
        raise ArgumentError(f"rescale={rescale}: a share between 0 and 1")
    if negative is not None and (unconditional is not None or weight <= 1):
        raise ArgumentError(
            f"guidance={weight} does not lead away from a negative condition",
            remedy="use a weight above 1, and one denoiser for both predictions",
        )
    if weight == 1:
        return denoiser
    if weight == 0:
        return Unconditional(denoiser if unconditional is None else unconditional)
    return ClassifierFree(denoiser, unconditional, weight, interval, negative, rescale)


@final
class ClassifierGuided(Denoiser):
    """The score plus `w` times the gradient of a classifier's log-probability (Dhariwal and Nichol, 2021).

    `log_prob(x, level, condition)` gives log p(condition | x) for each example; it has to know noisy data. The denoiser
    inside is evaluated without a condition.
    """

    inner: Denoiser
    log_prob: Callable[[Array, Level, Any], Array]
    weight: float
    target: str = eqx.field(static=True)

    def __init__(
        self, inner: Denoiser, log_prob: Callable[[Array, Level, Any], Array], weight: float
    ) -> None:
        self.inner, self.log_prob, self.weight, self.target = inner, log_prob, weight, "eps"

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        gradient = jax.grad(lambda x: self.log_prob(x, level, condition).sum())(x)
        return self.inner.value("eps", x, level) - self.weight * per_example(level.s, x) * gradient


__all__ = ["ClassifierFree", "ClassifierGuided", "Unconditional", "guided"]
