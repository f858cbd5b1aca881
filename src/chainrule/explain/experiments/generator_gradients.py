"""A generator's gradient against a discriminator that gets better and better: measured, and the bound it cannot exceed.

Data lie on a line, generated points on a parallel one: the laws have nothing in common, so that a perfect
discriminator exists, and the Jensen-Shannon divergence is log 2 at every gap. With the generator frozen, the saturating
gradient fades as the discriminator learns, at most eps/(1 - eps) times the size of the generator's Jacobian, where eps
says how far D and its slope are from perfect.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.explain.methods.adversarial_pair import DenseNetwork, discriminator_loss, scores
from chainrule.explain.methods.frozen_generator import FrozenGame, look
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.divergences import js
from chainrule.probability.transport import wasserstein_1d

_DRAWS = 1000
"""Points by which gradients, and how far D is from perfect, are measured."""
_LR = 3e-3


@final
class GeneratorGradientsSettings(Settings):
    """The gap, the discriminator, and how long it learns."""

    gap: float = Field(1.0, gt=0, le=100, description="between the line of the data and that of the fakes")
    width: int = Field(32, ge=1, le=4096, description="hidden units of the discriminator, two layers of them")
    steps: int = Field(3000, ge=1, le=1_000_000, description="updates of the discriminator")
    every: int = Field(100, ge=1, le=100_000, description="updates between two measurements")
    batch: int = Field(256, ge=2, le=100_000, description="points of each kind in an update")
    seed: int = Field(0, ge=0, description="weights and draws")


@final
class ShiftingGenerator(eqx.Module):
    """G(z) = (theta, z): a whole line that can be shifted. Its Jacobian in theta is (1, 0), of norm 1."""

    theta: Scalar

    def __call__(self, z: Float[Array, " batch"]) -> Float[Array, "batch 2"]:
        return jnp.stack([jnp.broadcast_to(self.theta, z.shape), z], axis=1)


def run(settings: GeneratorGradientsSettings, listener: Listener) -> Outcome:
    """Train the discriminator and measure the generator's gradients on the way; then both divergences over all gaps."""
    key = random.key(settings.seed, "generator-gradients")
    first, second = jax.random.split(key)
    discriminator = DenseNetwork(2, 1, width=settings.width, depth=2, key=first)
    generator = ShiftingGenerator(jnp.asarray(settings.gap))
    counts = -(-settings.steps // settings.every)
    listener(f"{counts * settings.every:,} updates of the discriminator")
    options: dict[str, Any] = {"every": settings.every, "batch": settings.batch}
    found = np.asarray(_measured(generator, discriminator, second, counts, **options))
    steps = np.arange(len(found)) * settings.every
    gaps = np.linspace(0, 2 * settings.gap, 41)
    return _outcome(settings, steps, found, gaps, *_over_gaps(gaps))


@eqx.filter_jit
def _measured(
    generator: ShiftingGenerator, start: DenseNetwork, key: Key, counts: int, *, every: int, batch: int
) -> Float[Array, "looks 6"]:
    """Both gradient norms, the bound, eps, mean D of fakes and of data: before training and every few updates."""
    optimizer = optax.adam(_LR)

    def draws(key: Key, n: int) -> tuple[Array, Array]:
        one, two = jax.random.uniform(key, (2, n))
        return jnp.stack([jnp.zeros_like(one), one], axis=1), two

    real, noise = draws(jax.random.fold_in(key, 0), _DRAWS)

    def update(number: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        network, state = carry
        x, z = draws(jax.random.fold_in(key, number + 1), batch)
        changes, state = optimizer.update(jax.grad(discriminator_loss)(network, x, generator(z)), state)
        return optax.apply_updates(network, changes), state

    def look(carry: tuple[Any, Any], number: Array) -> tuple[tuple[Any, Any], Array]:
        found = measured(generator, carry[0], real, noise)
        after = jax.lax.fori_loop(number * every, (number + 1) * every, update, carry)
        return after, found

    (last, _), found = jax.lax.scan(look, (start, optimizer.init(start)), jnp.arange(counts))
    return jnp.concatenate([found, measured(generator, last, real, noise)[None]])


def measured(
    generator: ShiftingGenerator, discriminator: DenseNetwork, real: Array, noise: Array
) -> Float[Array, "6"]:
    """Norms of the saturating and the non-saturating gradient, the bound on the first, eps, mean D of fakes and data.

    eps is the largest distance, over all these points, of D and of its slope from those of a perfect discriminator,
    which is 1 on data, 0 on fakes and flat around both.
    """
    play = FrozenGame(lambda g, z: g(z), scores, lambda key, n: jax.random.uniform(key, (n,)))
    found = look(play, generator, discriminator, real, noise, jnp.ones(()))
    return jnp.stack(list(found))


def _over_gaps(gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Jensen-Shannon and Wasserstein-1 between two points this far apart, as between the two lines."""
    together, apart = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    divergences = [float(js(*(together if gap == 0 else apart))) for gap in gaps]
    return np.array(divergences), np.array(
        [float(wasserstein_1d(np.zeros(1), np.array([gap]))) for gap in gaps]
    )


def _outcome(
    settings: GeneratorGradientsSettings,
    steps: np.ndarray,
    found: np.ndarray,
    gaps: np.ndarray,
    divergences: np.ndarray,
    distances: np.ndarray,
) -> Outcome:
    saturating, other, bound, eps, fakes, data = found.T
    holds = bool((saturating <= bound * (1 + 1e-5)).all())
    below = np.isfinite(bound)
    informative = f"from step {steps[np.argmax(below)]:,} on" if below.any() else "nowhere: eps stays above 1"
    columns = ["step", "saturating", "non-saturating", "bound", "eps", "mean D of fakes", "mean D of data"]
    rows = np.unique(np.linspace(0, len(steps) - 1, 8).astype(int))
    return Outcome(
        [
            f"After {steps[-1]:,} updates D is {fakes[-1]:.2g} on fakes and {data[-1]:.4f} on data. The saturating "
            f"gradient fell from {saturating[0]:.2g} to {saturating[-1]:.2g}; the non-saturating one, which was "
            f"{other[0]:.2g}, is {other[-1]:.2g}, {other[-1] / max(saturating[-1], 1e-30):,.0f} times as large.",
            f"The bound eps/(1 - eps) on the saturating gradient says something {informative}, and "
            + ("holds at every measurement." if holds else "is violated: the measurement is wrong."),
            "The Jensen-Shannon divergence between the lines is log 2 = 0.693 at every gap but 0 and has no slope for "
            f"a generator to follow; the Wasserstein distance is the gap, here {settings.gap:g}, with slope 1.",
        ],
        _pictures(steps, found, gaps, divergences, distances),
        Table(
            "generator-gradients-table",
            "On the way",
            columns,
            [[int(steps[i]), *(float(f"{value:.4g}") for value in found[i])] for i in rows],
        ),
        {
            "steps": steps.tolist(),
            "saturating": saturating.tolist(),
            "non_saturating": other.tolist(),
            "bound": [float(value) if np.isfinite(value) else None for value in bound],
            "eps": eps.tolist(),
            "bound_holds": holds,
            "gaps": {
                "gap": gaps.tolist(),
                "jensen_shannon": divergences.tolist(),
                "wasserstein": distances.tolist(),
            },
        },
    )


def _pictures(
    steps: np.ndarray, found: np.ndarray, gaps: np.ndarray, divergences: np.ndarray, distances: np.ndarray
) -> list[Lines]:
    saturating, other, bound = found.T[:3]
    below = np.isfinite(bound)
    return [
        Lines(
            "generator-gradients",
            "The generator's gradient while the discriminator learns",
            "updates of the discriminator, the generator frozen",
            "norm of the gradient",
            {
                "saturating, log(1 - D)": (steps, np.maximum(saturating, 1e-12)),
                "non-saturating, -log D": (steps, np.maximum(other, 1e-12)),
                "bound on the saturating one": (steps[below], bound[below]),
            },
            log_y=True,
            caption="The bound begins where eps, the largest distance of D and its slope from perfect, is below 1.",
        ),
        Lines(
            "generator-gradients-gap",
            "What a generator that only shifts can learn from",
            "gap between the lines",
            "divergence in nats, or distance",
            {"Jensen-Shannon": (gaps, divergences), "Wasserstein-1": (gaps, distances)},
            caption="Jensen-Shannon jumps from 0 to log 2 and is flat; Wasserstein-1 is the gap.",
        ),
    ]


experiment = Experiment(
    "Vanishing gradients of a generator: measured norm and bound, saturating or not, while the discriminator learns.",
    GeneratorGradientsSettings,
    run,
    toy={"steps": 20, "every": 10, "width": 4, "batch": 16},
    reference="Arjovsky and Bottou, Towards principled methods for training generative adversarial networks, ICLR 2017",
)

__all__ = ["GeneratorGradientsSettings", "ShiftingGenerator", "experiment", "measured", "run"]
