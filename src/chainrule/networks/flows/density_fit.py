"""Flows fitted to a density that is known up to a factor, without any data: the reverse Kullback-Leibler divergence.

With a target `q~ = Z q`, draws of the flow itself give `E_z [log p(T(z)) - log q~(T(z))] = KL(flow || q) - log Z`. The
target needs gradients, not draws. Afterwards importance weights `q~(x) / p(x)` of draws give log Z, and tell how far
the flow can be trusted. This divergence seeks modes: a flow that has found one of two does not know of the other, and
only a fit from another start may.

The gradient is that of the path from noise to draw alone; the part that the density of the flow has in its own
parameters is zero on average and left out, so that nothing is left of the noise where flow and target agree (Roeder, Wu
and Duvenaud, 2017). `gradient="total"` keeps it.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning, DivergedError, check_choice
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.networks.flows.base import Bijection, Events
from chainrule.networks.flows.base_distributions import BaseDistribution, StandardNormal
from chainrule.probability.monte_carlo.importance import WeightReport, weight_report

Target = Callable[[Float[Array, "batch ..."]], Float[Array, " batch"]]
"""From draws to the logarithm of the target's density, up to a constant."""
_FEW = 0.1
"""With a smaller share of draws that count, the flow has missed a part of the target."""
_APART = 1.0
"""Fits with a larger divergence between them have found different parts of the target."""
_PART = 200
"""Steps in one compiled call."""


class DensityFit(NamedTuple):
    """A flow fitted to a density, and how well it fits."""

    bijection: Bijection
    base: BaseDistribution
    losses: Float[np.ndarray, " steps"]
    """`KL - log Z` at each step, estimated from a batch."""
    draws: np.ndarray
    """Of the flow after the last step."""
    log_weights: Float[np.ndarray, " draws"]
    weights: WeightReport
    disagreement: float = 0.0
    """Largest divergence of a fit from another start from this one, in nats."""

    @property
    def log_partition(self) -> float:
        """The estimate of log Z."""
        return float(self.weights.corrected)

    @property
    def effective_share(self) -> float:
        """The share of draws that count: one where flow and target agree."""
        return float(self.weights.effective_sample_size) / len(self.log_weights)

    def expectation(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The mean of a function of draws under the target, by weighing the draws of the flow."""
        shares = np.exp(self.log_weights - self.log_weights.max())
        return np.tensordot(shares / shares.sum(), np.asarray(f(self.draws)), axes=1)

    @property
    def concern(self) -> str:
        """What speaks against trusting the fit, in a sentence; empty if nothing does."""
        if self.disagreement > _APART:
            return (
                f"fits from other starts are up to {self.disagreement:.3g} nats apart: this divergence seeks modes, "
                "and they have found different ones"
            )
        if self.effective_share < _FEW:
            return f"only {self.effective_share:.1%} of the draws count: the flow misses a part of the target"
        return self.weights.concern()


def reverse_divergence(
    bijection: Bijection | Any,
    base: BaseDistribution,
    target: Target,
    z: Events,
    *,
    gradient: str = "path",
) -> Scalar:
    """`E [log p(T(z)) - log q~(T(z))]` over codes drawn from the base, with the gradient that is asked for.

    >>> import math
    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> target = lambda x: math.log(7.3) + StandardNormal((1,)).log_prob(x)
    >>> value = reverse_divergence(ScaleShift((1,)), StandardNormal((1,)), target, jnp.ones((2, 1)))
    >>> round(float(value), 4)
    -1.9879
    """
    check_choice("reverse_divergence", "gradient", gradient, ["path", "total"])
    _check_bijection("reverse_divergence", bijection)
    x, log_det = bijection.forward(z)
    if gradient == "total":
        return (base.log_prob(z) - log_det - target(x)).mean()
    # The density at the draw with the flow's own parameters held: what is left of the gradient is that of the path.
    still, chosen = jax.lax.stop_gradient((bijection, base))
    code, log_det_back = still.inverse(x)
    return (chosen.log_prob(code) + log_det_back - target(x)).mean()


def fit_density(
    target: Target,
    bijection: Bijection | Any,
    base: BaseDistribution | None = None,
    *,
    key: Key,
    steps: int = 2000,
    batch: int = 256,
    lr: float = 1e-3,
    gradient: str = "path",
    draws: int = 10_000,
    starts: int = 1,
    warn: bool = True,
) -> DensityFit:
    """A bijection fitted so that draws of the base become draws of the target.

    With several `starts` arrays begin with some noise added, the fit with the lowest loss is returned, and the others
    are compared with it. With `warn`, a warning says what speaks against trusting the result.

    >>> import math
    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> def target(x):
    ...     return -0.5 * jnp.square((x[:, 0] - 3) / 2)
    >>> found = fit_density(target, ScaleShift((1,)), key=jax.random.key(0), steps=400, lr=0.03)
    >>> round(found.log_partition, 2), round(math.log(2 * math.sqrt(2 * math.pi)), 2)
    (1.61, 1.61)
    """
    check_choice("fit_density", "gradient", gradient, ["path", "total"])
    _check_bijection("fit_density", bijection)
    for name, value in {"steps": steps, "batch": batch, "draws": draws, "starts": starts}.items():
        whole("fit_density", name, value)
    chosen = StandardNormal(bijection.shape) if base is None else base
    if chosen.shape != bijection.shape:
        raise ArgumentError(
            f"fit_density: the base has events of shape {chosen.shape}, the bijection maps {bijection.shape}"
        )
    said = jax.eval_shape(target, jax.ShapeDtypeStruct((batch, *bijection.shape), float))
    shape = getattr(said, "shape", None)
    if shape != (batch,):
        raise ArgumentError(
            f"fit_density(target): gives shape {shape} for {batch} draws of shape {bijection.shape}",
            remedy="give one number for each draw, the logarithm of its density: sum over the axes of a draw",
        )
    fits = []
    for number, k in enumerate(jax.random.split(key, starts)):
        for_start, for_steps, for_draws = jax.random.split(k, 3)
        flow = (_shaken(bijection, for_start), chosen) if number else (bijection, chosen)
        flow, losses = _trained(flow, target, for_steps, steps, batch, lr, gradient)
        fits.append(_judged(flow, losses, target, for_draws, draws))
    best = min(fits, key=lambda one: float(np.mean(one.losses[-max(steps // 10, 1) :])))
    apart = [_divergence(one, best) for one in fits if one is not best]
    found = best._replace(disagreement=max(apart, default=0.0))
    if warn and found.concern:
        warnings.warn(f"fit_density: {found.concern}", ChainruleWarning, stacklevel=2)
    return found


def _check_bijection(where: str, given: Any) -> None:
    if not isinstance(given, Bijection):
        raise ArgumentError(
            f"{where}(bijection): a {type(given).__name__} is no bijection",
            remedy="give a layer or chain of chainrule.networks.flows; of a flow as a model, model.bijection and "
            "model.base",
        )


def _divergence(one: DensityFit, other: DensityFit) -> float:
    """KL(one || other), from the draws of the first."""
    draws = jnp.asarray(one.draws)

    def log_prob(fit: DensityFit) -> Array:
        z, log_det = eqx.filter_jit(lambda flow, x: flow.inverse(x))(fit.bijection, draws)
        return fit.base.log_prob(z) + log_det

    return float((log_prob(one) - log_prob(other)).mean())


def _shaken(bijection: Bijection, key: Key) -> Bijection:
    leaves, structure = jax.tree.flatten(eqx.filter(bijection, eqx.is_inexact_array))
    keys = jax.random.split(key, len(leaves))
    noise = [0.5 * jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    return eqx.apply_updates(bijection, jax.tree.unflatten(structure, noise))


def _trained(
    flow: tuple[Bijection, BaseDistribution],
    target: Target,
    key: Key,
    steps: int,
    batch: int,
    lr: float,
    gradient: str,
) -> tuple[tuple[Bijection, BaseDistribution], np.ndarray]:
    rate = optax.cosine_decay_schedule(lr, steps)
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(rate))
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)

    def loss(arrays: Any, k: Key) -> Scalar:
        bijection, base = eqx.combine(arrays, rest)
        z = base.draw(k, batch)
        return reverse_divergence(bijection, base, target, z, gradient=gradient)

    def step(carry: Any, k: Key) -> tuple[Any, Scalar]:
        arrays, state = carry
        value, slope = jax.value_and_grad(loss)(arrays, k)
        updates, state = optimizer.update(slope, state, arrays)
        return (optax.apply_updates(arrays, updates), state), value

    part = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    carry, losses = (arrays, optimizer.init(arrays)), []
    keys = jax.random.split(key, steps)
    for first in range(0, steps, _PART):
        before = carry
        carry, values = part(carry, keys[first : first + _PART])
        losses.append(np.asarray(values))
        if not np.isfinite(losses[-1]).all():
            at = first + int(np.argmin(np.isfinite(losses[-1])))
            (reached, _), _ = part(before, keys[first:at])  # as it was when the loss stopped being finite
            _stop(eqx.combine(reached, rest), target, keys[at], batch)
    return eqx.combine(carry[0], rest), np.concatenate(losses)


def _stop(flow: tuple[Bijection, BaseDistribution], target: Target, key: Key, batch: int) -> None:
    """Raise with a draw at which the target is not a number, where one is found."""
    bijection, base = flow
    x = bijection.forward(base.draw(key, batch)).value
    values = np.asarray(target(x))
    there = np.isfinite(np.asarray(x)).reshape(len(values), -1).all(axis=1)
    wrong = np.flatnonzero(~np.isfinite(values) & there)
    why = (
        f"the target is {values[wrong[0]]} at {np.asarray(x)[wrong[0]].tolist()}"
        if len(wrong)
        else "the flow's own numbers are not, after a gradient of the target was not"
    )
    raise DivergedError(
        f"fit_density: a loss is not finite; {why}",
        remedy="make the target finite everywhere, with finite gradients, or use a smaller lr",
    )


def _judged(
    flow: tuple[Bijection, BaseDistribution], losses: np.ndarray, target: Target, key: Key, draws: int
) -> DensityFit:
    bijection, base = flow

    @eqx.filter_jit
    def weighed(flow: tuple[Bijection, BaseDistribution], k: Key) -> tuple[Array, Array]:
        bijection, base = flow
        z = base.draw(k, draws)
        x, log_det = bijection.forward(z)
        return x, target(x) - base.log_prob(z) + log_det

    x, logs = weighed(flow, key)
    log_weights = np.asarray(logs, np.float64)
    report = weight_report(log_weights, warn=False)
    return DensityFit(bijection, base, losses, np.asarray(x), log_weights, report)


__all__ = ["DensityFit", "Target", "fit_density", "reverse_divergence"]
