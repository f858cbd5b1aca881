"""Inpainting: samples that agree with what is known of them.

`replace` overwrites known entries with their noised values in every step, which is fast and biased: what is unknown
is never conditioned on what is known. `repaint` (Lugmayr et al., 2022) repeats every step with fresh noise, so that
both parts come to agree. `posterior` moves the estimate of the clean data by what the denoiser knows of their
covariance, as the rule of Bayes does for Gaussians, for which it is exact; its cost grows with the square of the
dimensions.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.data import kinds
from chainrule.data.example_files import known_entries
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, gap
from chainrule.models.diffusion.samplers.sampler import Estimator, Sampler, Span
from chainrule.models.diffusion.steering.draw import Draw, Steering
from chainrule.models.diffusion.tweedie import posterior_covariance

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative

REPEATS = 10
SMALL = 64
"""Most dimensions of points and rows for which `posterior` is the default."""
LARGE = 1024
"""Most dimensions for which it is offered."""

_X = Float[Array, "batch ..."]


class Known(NamedTuple):
    """What is known of an example, as the network sees it, and where (1) or not (0)."""

    values: Array
    mask: Array


@final
class Inpainted(eqx.Module, Sampler):
    """A sampler that keeps known entries at their noised values; `repeats` walks of every step, noised in between."""

    known: Known
    inner: Sampler = eqx.field(static=True)
    repeats: int = eqx.field(static=True)

    @property
    def deterministic(self) -> bool:
        """Never: known entries are noised."""
        return False

    def start(self, x: Array) -> Tree:
        """What the sampler inside remembers."""
        return self.inner.start(x)

    def check(self, levels: Level) -> None:
        """What the sampler inside needs."""
        self.inner.check(levels)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The step inside and, of the known entries, their noised values at the next level."""
        here, there = span.here, span.there
        mask = jnp.broadcast_to(self.known.mask[None], x.shape)

        def once(carry: tuple[Array, Tree, Array, Array], key: Key) -> tuple[Any, None]:
            x, *_ = carry
            walk, noise, back = jax.random.split(key, 3)
            # Every repeat starts from what was remembered before the step.
            moved, kept, guess = self.inner.step(estimate, x, memory, span, walk)
            fresh = there.a * self.known.values[None] + there.s * jax.random.normal(noise, x.shape, x.dtype)
            moved = jnp.where(mask > 0, fresh, moved).astype(x.dtype)
            again = jax.random.normal(back, x.shape, x.dtype) * jnp.sqrt(gap(here, there))
            return ((here.a / there.a * moved + again).astype(x.dtype), kept, moved, guess), None

        first = (x, memory, x, jnp.zeros_like(x))
        (_, kept, moved, guess), _ = jax.lax.scan(once, first, jax.random.split(key, self.repeats))
        return moved, kept, guess


@final
class PosteriorDenoiser(Denoiser):
    """A denoiser that has seen `y = matrix x0 + noise`: its estimate moved by Cov Aᵀ (A Cov Aᵀ + noise²)⁻¹ (y - A x0).

    The covariance of the clean data is the denoiser's own (see `tweedie`), taken as constant in x.
    """

    inner: Denoiser
    matrix: Float[Array, "seen entries"]
    y: Float[Array, " seen"]
    noise: float = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(self, inner: Denoiser, matrix: Any, y: Any, noise: float = 1e-2) -> None:
        self.inner, self.matrix, self.y = inner, jnp.asarray(matrix), jnp.asarray(y)
        self.noise, self.target = noise, "x0"
        if self.matrix.ndim != 2 or self.y.shape != self.matrix.shape[:1] or not noise > 0:
            raise ArgumentError(
                f"Informed: a matrix of shape {self.matrix.shape} and values of shape {self.y.shape} with "
                f"noise={noise} do not describe y = A x + noise",
                remedy="one row of the matrix for each value, and a noise above 0",
            )

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        guess = self.inner.value("x0", x, level, condition)
        covariance = posterior_covariance(self.inner, x, level, condition)
        covariance = (
            covariance + covariance.swapaxes(1, 2)
        ) / 2  # a network's derivative is not quite symmetric
        matrix = self.matrix.astype(x.dtype)
        gain = jnp.einsum("bij,sj->bis", covariance, matrix)
        spread = jnp.einsum("si,bit->bst", matrix, gain)
        spread = spread + self.noise**2 * jnp.eye(len(matrix), dtype=x.dtype)[None]
        missing = self.y.astype(x.dtype)[None] - guess.reshape(len(x), -1) @ matrix.T
        pull = jnp.linalg.solve(spread, missing[..., None])
        return guess + jnp.einsum("bis,bsk->bi", gain, pull).reshape(x.shape)


@final
class Inpainting(Steering):
    """Examples that agree with what is known of them."""

    name: ClassVar[str] = "inpainting"
    summary: ClassVar[str] = "Filling in what is missing."
    order: ClassVar[int] = 3

    inpaint: Any = Field(
        None,
        description="what is known: a file with arrays known and mask (true where known), or a CSV file of one row "
        "with empty cells, in the units of the data; or that pair in those of the model",
    )
    method: Literal["replace", "repaint", "posterior"] | None = Field(
        None, description=f"how; none: repaint for images, posterior for numbers of up to {SMALL} dimensions"
    )

    @property
    def shows_what(self) -> bool:
        """Whether something is known."""
        return self.inpaint is not None

    def steer(self, draw: Draw) -> Draw:
        """The draw with what is known built into its sampler or its denoiser."""
        if self.inpaint is None:
            if self.method is not None:
                raise ArgumentError(
                    f"method={self.method}: how to fill in what is missing", remedy="give inpaint= too"
                )
            return draw
        schema = draw.model.schema
        entries, image = schema.dimensions, kinds.of(schema).spatial
        # The covariance that a network has of images is a rough one: on trained digits, repainted ones are nearer to
        # the missing part, and oftener of its class, than those by the posterior.
        method = self.method or ("repaint" if image or entries > SMALL else "posterior")
        known = read(draw.model, self.inpaint)
        if method != "posterior":
            repeats = REPEATS if method == "repaint" else 1
            return dataclasses.replace(draw, sampler=Inpainted(known, draw.sampler, repeats))
        if entries > LARGE:
            raise CapabilityError(
                f"method=posterior needs a matrix of {entries} x {entries} for every sample",
                remedy="use method=repaint",
            )
        rows = np.flatnonzero(np.asarray(known.mask).ravel())
        informed = PosteriorDenoiser(draw.denoiser, np.eye(entries)[rows], known.values.ravel()[rows])
        return dataclasses.replace(draw, denoiser=informed)


def read(model: "Generative", given: Any) -> Known:
    """What is known, from a file in the units of the data or a pair (values, mask) in those of the model."""
    values, mask = known_entries(model.schema, given)
    return Known(model.to_network_units(jnp.asarray(values)), jnp.asarray(mask, jnp.float32))


def downsampling(shape: tuple[int, ...], factor: int) -> Float[np.ndarray, "seen entries"]:
    """The matrix that averages blocks of `factor` x `factor` pixels.

    >>> downsampling((4, 4, 1), 2).shape
    (4, 16)
    """
    height, width, channels = shape
    if factor < 1 or height % factor or width % factor:
        raise ArgumentError(f"factor={factor} does not divide {height} x {width} pixels")
    basis = np.eye(math.prod(shape)).reshape(-1, height // factor, factor, width // factor, factor, channels)
    return basis.mean(axis=(2, 4)).reshape(math.prod(shape), -1).T


def blurring(shape: tuple[int, ...], std: float) -> Float[np.ndarray, "entries entries"]:
    """The matrix of a Gaussian blur of this standard deviation in pixels; rows sum to one.

    >>> bool(np.allclose(blurring((3, 4, 2), 0.8).sum(axis=1), 1))
    True
    """
    if not std > 0:
        raise ArgumentError(f"std={std}: a blur has a width above 0")

    def along(count: int) -> np.ndarray:
        distance = np.arange(count)[:, None] - np.arange(count)[None]
        weight = np.exp(-0.5 * np.square(distance / std))
        return weight / weight.sum(axis=1, keepdims=True)

    height, width, channels = shape
    return np.kron(np.kron(along(height), along(width)), np.eye(channels))


__all__ = ["Inpainted", "Inpainting", "Known", "PosteriorDenoiser", "blurring", "downsampling", "read"]
