"""Randomised smoothing: a class that most noisy copies of an example agree on cannot change within a certain radius.

Cohen, Rosenfeld and Kolter, *Certified adversarial robustness via randomized smoothing*, ICML 2019 (arXiv:1902.02918).
The smoothed classifier answers what the classifier says most often under normal noise of standard deviation sigma.
Where a share p > 1/2 of all noise gives one class, that answer is the same for every change of length up to
sigma Φ⁻¹(p). The share is bounded from below by the exact interval of Clopper and Pearson, from draws that did not
choose the class; where the bound does not pass 1/2 nothing is claimed. What is certified is the smoothed classifier.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import quotient
from chainrule.core.types import Array, Key
from chainrule.explain.methods.attacks.aim import Aim, Attacked, Victim, aimed
from chainrule.explain.methods.attacks.attack import keys_of
from chainrule.explain.methods.attacks.carrying_out import in_parts
from chainrule.explain.methods.attacks.functions import check_classes

ABSTAINS = -1
"""In place of a class where no answer is certain enough."""
ENTRIES = 2**21
"""Numbers of noisy copies that are made together."""


class Certificate(NamedTuple):
    """What is certain of each example."""

    classes: Int[np.ndarray, " batch"]
    """The class, or -1 where the smoothed classifier abstains."""
    radius: Float[np.ndarray, " batch"]
    """Length of the change within which the class stays what it is; 0 where it abstains."""
    probability: Float[np.ndarray, " batch"]
    """Lower bound of the share of noise that gives the class."""


def certified_radius(sigma: float, probability: Any) -> np.ndarray:
    """The radius that belongs to a share of the noise: sigma times the normal quantile, and 0 up to one half.

    >>> certified_radius(0.5, [0.9, 0.4]).round(6).tolist()
    [0.640776, 0.0]
    """
    shares = np.asarray(probability, np.float64)
    if not sigma > 0:
        raise ArgumentError(
            f"certified_radius(sigma={sigma}): it is the standard deviation of noise and must be positive",
            remedy="give that of the noise which the share was counted under",
        )
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ArgumentError(
            f"certified_radius(probability={probability}): a share of the noise lies between 0 and 1",
            remedy="give the lower bound that certify finds: its probability",
        )
    return np.maximum(sigma * scipy.stats.norm.ppf(shares), 0.0)


def lower_bound(successes: Any, draws: int, alpha: float) -> np.ndarray:
    """The share that is exceeded with probability 1 - alpha or more, given how many of all draws succeeded.

    The one-sided interval of Clopper and Pearson: all of 1,000 draws prove no more than alpha to the power 1/1000.

    >>> lower_bound([0, 1000], 1000, 0.001).round(6).tolist()
    [0.0, 0.993116]
    """
    k = np.asarray(successes, np.float64)
    found = scipy.stats.beta.ppf(alpha, np.maximum(k, 1e-300), draws - k + 1)
    return np.where(k > 0, found, 0.0)


def certify(
    f: Attacked,
    x: ArrayLike,
    sigma: float | str,
    *,
    draws: int = 10_000,
    first_draws: int = 100,
    alpha: float = 0.001,
    key: Key | None = None,
) -> Certificate:
    """A class for each example and the length of the change that cannot alter it, wrong with probability `alpha`.

    `first_draws` choose the class, `draws` others bound its share. Noise and radius are in the units of the examples:
    data units of a run. `f` may be any function; only its answers count.
    """
    aim = aimed("certify", f, x, None, gradient=False)
    check_classes("certify", aim)
    size = _checked(sigma, alpha)
    whole("certify", "draws", draws)
    whole("certify", "first_draws", first_draws)
    return certified(aim, size, draws=draws, first_draws=first_draws, alpha=alpha, key=keys_of(key))


def certified(aim: Aim, sigma: float, *, draws: int, first_draws: int, alpha: float, key: Key) -> Certificate:
    """The same of what is aimed at already."""
    choosing, judging = jax.random.split(key)
    classes = votes(aim, sigma, first_draws, choosing).argmax(axis=-1)
    counts = votes(aim, sigma, draws, judging)[np.arange(len(classes)), classes]
    probability = lower_bound(counts, draws, alpha)
    sure = probability > 0.5
    return Certificate(
        np.where(sure, classes, ABSTAINS),
        np.where(sure, certified_radius(sigma, probability), 0.0),
        probability,
    )


def smoothed_classes(
    f: Attacked,
    x: ArrayLike,
    sigma: float | str,
    *,
    draws: int = 1000,
    alpha: float = 0.001,
    key: Key | None = None,
) -> Int[np.ndarray, " batch"]:
    """What the smoothed classifier answers, or -1 where the two most frequent classes are too close to call.

    An answer that is given differs from the most frequent class with probability `alpha` at most (Hung and Fithian,
    2019): the two counts are compared by a test of equal shares.
    """
    aim = aimed("smoothed_classes", f, x, None, gradient=False)
    check_classes("smoothed_classes", aim)
    whole("smoothed_classes", "draws", draws)
    counts = votes(aim, _checked(sigma, alpha, "smoothed_classes"), draws, keys_of(key))
    ranked = np.sort(counts, axis=-1)
    first, second = ranked[:, -1], ranked[:, -2]
    chance = np.array(
        [scipy.stats.binomtest(int(a), int(a + b)).pvalue for a, b in zip(first, second, strict=True)]
    )
    return np.where(chance <= alpha, counts.argmax(axis=-1), ABSTAINS)


def votes(aim: Aim, sigma: float, draws: int, key: Key) -> Int[np.ndarray, "batch classes"]:
    """How often each class is given under noise."""
    entries = math.prod(aim.x.shape[1:])

    def some(x: Array, number: int) -> Array:
        at_once = max(1, min(draws, ENTRIES // (entries * len(x))))
        size = jnp.asarray(sigma, x.dtype)
        return _counted(aim.victim, x, size, random.at(key, number), draws, at_once)

    return np.asarray(in_parts(some, aim.x))


@compiled
def _counted(victim: Victim, x: Array, sigma: Array, key: Key, draws: int, at_once: int) -> Array:
    """Draws `at_once` copies of every example at a time; those beyond the last draw do not count."""
    count = len(x)
    classes = jax.eval_shape(victim.logits, x).shape[-1]

    def turn(number: Array, counts: Array) -> Array:
        noise = sigma * jax.random.normal(random.at(key, number), (at_once, *x.shape), x.dtype)
        logits = victim.logits((x[None] + noise).reshape(at_once * count, *x.shape[1:]))
        said = jax.nn.one_hot(logits.argmax(axis=-1), classes, dtype=jnp.int32).reshape(
            at_once, count, classes
        )
        meant = number * at_once + jnp.arange(at_once) < draws
        return counts + jnp.where(meant[:, None, None], said, 0).sum(axis=0)

    return jax.lax.fori_loop(0, -(-draws // at_once), turn, jnp.zeros((count, classes), jnp.int32))


def _checked(sigma: Any, alpha: float, where: str = "certify") -> float:
    try:
        size = float(quotient(sigma))
    except (TypeError, ValueError):
        size = math.nan
    if not (size > 0 and math.isfinite(size)):
        raise ArgumentError(
            f"{where}(sigma={sigma!r}): sigma is the standard deviation of noise and must be positive",
            remedy="give it in the units of the examples, a tenth of their range for a start",
        )
    if not 0 < alpha < 1:
        raise ArgumentError(
            f"{where}(alpha={alpha:g}): alpha is a probability of being wrong, between 0 and 1"
        )
    return size


__all__ = [
    "ABSTAINS",
    "Certificate",
    "certified",
    "certified_radius",
    "certify",
    "lower_bound",
    "smoothed_classes",
    "votes",
]
