"""Activation maximisation: images made to excite classes or channels as much as the range of the data allows.

Adam climbs what excites a unit (Erhan et al., *Visualizing higher-layer features of a deep network*, 2009). Left alone
it ends in patterns too fine to see. What holds it back: the image is a sum of waves, the fine ones the smaller (Fourier
parametrisation; Olah et al., *Feature visualization*, 2017, doi:10.23915/distill.00007); it is shifted and scaled a
little at random before every step; squared distance from a centre and squared differences of neighbours (total
variation as in Mahendran and Vedaldi, 2015, arXiv:1412.0035) cost something; and so does likeness to the images for the
same unit from other starts. All units from all starts climb at once, in one compiled loop.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key

Excitement: TypeAlias = Callable[[Float[Array, "batch height width channels"]], Float[Array, " batch"]]
"""From images to how much each excites what it is made for."""
Dreams: TypeAlias = Float[Array, "starts units height width channels"]
PARAMETRISATIONS = ("fourier", "pixels")
_NOISE = 0.3
"""Deviation of the random starts, before the logistic function that keeps images in their range."""
_EDGE = 0.02
"""How close to the ends of the range a start may be, as a share of it: at the ends nothing moves any more."""


@final
class Ascent(eqx.Module):
    """How images climb and what holds them back. Rates fall to zero along half a wave of the cosine.

    >>> Ascent(steps=10, scale=1.5)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Ascent(scale=1.5): scale must lie from 0 to 0.5
    """

    steps: int = eqx.field(static=True, default=512)
    rate: float = eqx.field(static=True, default=0.05)
    """Learning rate of Adam."""
    jitter: int = eqx.field(static=True, default=1)
    """Most pixels an image is shifted by before a step, each way; pixels that come in repeat the edge."""
    scale: float = eqx.field(static=True, default=0.1)
    """Largest share by which an image is enlarged or shrunk before a step."""
    l2: float = eqx.field(static=True, default=1.0)
    """Weight of the mean squared distance from the centre, in shares of the range."""
    variation: float = eqx.field(static=True, default=5.0)
    """Weight of the mean squared difference of neighbours, likewise."""
    diversity: float = eqx.field(static=True, default=0.0)
    """Weight of the mean cosine between what the starts of one unit have added to the centre."""
    parametrisation: str = eqx.field(static=True, default="fourier")
    """What Adam moves: waves, the fine ones slowly, or pixels."""

    def __check_init__(self) -> None:
        check_choice("Ascent", "parametrisation", self.parametrisation, PARAMETRISATIONS)
        limits = {"steps": (1, None), "jitter": (0, None), "scale": (0, 0.5), "l2": (0, None)}
        for name, (low, high) in {**limits, "variation": (0, None), "diversity": (0, None)}.items():
            value = getattr(self, name)
            if not low <= value <= (np.inf if high is None else high):
                wanted = f"must lie from {low} to {high}" if high is not None else f"must be at least {low}"
                raise ArgumentError(f"Ascent({name}={value}): {name} {wanted}")
        if not self.rate > 0:
            raise ArgumentError(f"Ascent(rate={self.rate}): rate must be positive")


@final
class ImageRange(NamedTuple):
    """The range of data, and an image in its middle."""

    low: Float[Array, " channels"]
    high: Float[Array, " channels"]
    centre: Float[Array, "height width channels"]


def limits_of(pool: Float[Array, "batch height width channels"]) -> ImageRange:
    """The range of every colour over some images, and their mean."""
    low, high = (limit(pool, axis=(0, 1, 2)) for limit in (jnp.min, jnp.max))
    return ImageRange(low, jnp.where(high > low, high, low + 1), pool.mean(axis=0))


def climb(
    excitement: Excitement, key: Key, ascent: Ascent, limits: ImageRange, *, starts: int = 1, units: int = 1
) -> Dreams:
    """Images after the ascent, every colour within its limits; `excitement` sees `starts * units` of them in one batch.

    Units are the faster index: image `i` of the batch is for unit `i % units`. Excitement is best measured in
    deviations over the data, beside which the penalties have the same meaning for every unit.
    """
    shape = (starts, units, *limits.centre.shape)
    low, width = (a[None, None, None] for a in (limits.low, limits.high - limits.low))
    centre = ((limits.centre[None] - low) / width)[0]
    middle = jax.scipy.special.logit(jnp.clip(centre, _EDGE, 1 - _EDGE))
    key_start, key_steps = jax.random.split(key)
    noise = _NOISE * jax.random.normal(key_start, shape, limits.centre.dtype)
    start, drawn = _parametrised(ascent.parametrisation, noise)

    def images(parameters: Any) -> Dreams:
        """In shares of the range."""
        return jax.nn.sigmoid(middle[None, None] + drawn(parameters))

    def cost(parameters: Any, key: Key) -> Array:
        x = images(parameters)
        key_shift, key_scale = jax.random.split(key)
        shift = jax.random.randint(key_shift, (2,), -ascent.jitter, ascent.jitter + 1).astype(x.dtype)
        scale = 1 + ascent.scale * jax.random.uniform(key_scale, (), x.dtype, -1, 1)
        seen = moved(x.reshape(-1, *shape[2:]), shift, scale)
        height = excitement(seen * width + low)
        return penalties(x, centre, ascent).sum() - height.sum()

    optimiser = optax.adam(optax.cosine_decay_schedule(ascent.rate, ascent.steps))

    def step(state: Any, key: Key) -> tuple[Any, None]:
        parameters, moments = state
        updates, moments = optimiser.update(jax.grad(cost)(parameters, key), moments)
        return (optax.apply_updates(parameters, updates), moments), None

    (last, _), _ = jax.lax.scan(
        step, (start, optimiser.init(start)), jax.random.split(key_steps, ascent.steps)
    )
    return images(last) * width[None] + low[None]


def penalties(
    x: Dreams, centre: Float[Array, "height width channels"], ascent: Ascent
) -> Float[Array, " units"]:
    """What the images of each unit cost, summed over the starts; images and centre in shares of the range."""
    away = x - centre[None, None]
    total = ascent.l2 * jnp.square(away).mean(axis=(2, 3, 4))
    for axis in (2, 3):
        difference = jnp.diff(x, axis=axis)
        if difference.size:
            total = total + ascent.variation * jnp.square(difference).mean(axis=(2, 3, 4))
    if ascent.diversity and len(x) > 1:
        flat = away.reshape(*x.shape[:2], -1)
        unit = flat / jnp.sqrt(jnp.square(flat).sum(axis=-1, keepdims=True) + 1e-12)
        cosines = jnp.einsum("aui,bui->uab", unit, unit)
        others = 1 - jnp.eye(len(x), dtype=x.dtype)
        total = total + ascent.diversity * (cosines * others[None]).mean(axis=(1, 2))[None]
    return total.sum(axis=0)


def moved(
    x: Float[Array, "batch height width channels"],
    shift: Float[Array, "2"],
    scale: Float[Array, ""] | float = 1.0,
) -> Float[Array, "batch height width channels"]:
    """The images enlarged about their middle and moved down and to the right; the edge is repeated around them.

    >>> moved(jnp.arange(3.0).reshape(1, 1, 3, 1), jnp.array([0.0, 1.0])).ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    rows, columns = (_from_where(n, s, scale, x.dtype) for n, s in zip(x.shape[1:3], shift, strict=True))
    return jnp.einsum("ih,jw,bhwc->bijc", rows, columns, x)


def _from_where(size: int, shift: Array, scale: Any, dtype: Any) -> Float[Array, "size size"]:
    """Weights of linear interpolation: which pixels each new one comes from."""
    at = jnp.arange(size, dtype=dtype)
    middle = (size - 1) / 2
    source = jnp.clip((at - shift - middle) / scale + middle, 0, size - 1)
    return jnp.maximum(0, 1 - jnp.abs(source[:, None] - at[None]))


def _parametrised(name: str, noise: Dreams) -> tuple[Any, Callable[[Any], Dreams]]:
    """Parameters that stand for an image, and the way to the image."""
    if name == "pixels":
        return noise, lambda parameters: parameters
    height, width = noise.shape[2:4]
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.maximum(np.hypot(rows, columns), 1 / max(height, width))
    damping = 1 / frequency
    damping = jnp.asarray(damping / np.sqrt(np.mean(damping**2)), noise.dtype)[..., None]
    waves = jnp.fft.rfft2(noise, axes=(2, 3), norm="ortho")

    def drawn(parameters: Any) -> Dreams:
        spectrum = jax.lax.complex(*parameters) * damping[None, None]
        return jnp.fft.irfft2(spectrum, s=(height, width), axes=(2, 3), norm="ortho")

    return (waves.real, waves.imag), drawn


def dreamer(
    units: Callable[[Any, Array], Float[Array, "batch units"]],
    pool: Float[Array, "batch height width channels"],
    targets: np.ndarray,
    ascent: Ascent,
    starts: int,
    seed: int,
) -> Callable[[Any], np.ndarray]:
    """From a model to images for some of its units, (starts, targets, *shape), within the range of some data.

    `units(model, x)` gives the activity of every unit; it is measured in deviations over the data. Every model begins
    at the same images.
    """
    limits, wanted = limits_of(pool), jnp.asarray(targets)

    @eqx.filter_jit
    def dream(model: Any, key: Key) -> Dreams:
        usual = units(model, pool)[:, wanted]
        spread = usual.std(axis=0)
        spread = jnp.where(spread > 0, spread, 1)

        def excitement(x: Float[Array, "batch height width channels"]) -> Float[Array, " batch"]:
            found = units(model, x)[:, wanted] / spread[None]
            own = jnp.arange(len(x)) % len(wanted)
            return jnp.take_along_axis(found, own[:, None], axis=1)[:, 0]

        return climb(excitement, key, ascent, limits, starts=starts, units=len(wanted))

    return lambda model: np.asarray(dream(model, random.key(seed, "dreams")))


__all__ = [
    "PARAMETRISATIONS",
    "Ascent",
    "Excitement",
    "ImageRange",
    "climb",
    "dreamer",
    "limits_of",
    "moved",
    "penalties",
]
