"""Mu-law: few levels for sound, fine where it is soft and coarse where it is loud (ITU-T G.711).

`f(x) = sign(x) ln(1 + μ|x|) / ln(1 + μ)` with μ one less than the number of levels maps [-1, 1] onto itself; levels are
cells of equal width there. The distance between a value and its level is at most a fixed share of it, and never more
than that share of 1 + 1/μ.
"""

import functools
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float as AnyFloat

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, ArrayLike, Float, Int, Key
from chainrule.probability.distributions.outputs import OutputDistribution, tempered

_NEVER = -1e30
"""The logit of a level that no value of the data falls into."""


def compress(x: AnyFloat[np.ndarray, "..."], levels: int = 256) -> AnyFloat[np.ndarray, "..."]:
    """Mu-law of numbers in [-1, 1].

    >>> compress(np.array([-1.0, 0.0, 0.01, 1.0])).round(4).tolist()
    [-1.0, 0.0, 0.2285, 1.0]
    """
    return np.sign(x) * np.log1p((levels - 1) * np.abs(x)) / np.log(levels)


def expand(y: AnyFloat[np.ndarray, "..."], levels: int = 256) -> AnyFloat[np.ndarray, "..."]:
    """The inverse of `compress`."""
    return np.sign(y) * np.expm1(np.abs(y) * np.log(levels)) / (levels - 1)


def encode(x: AnyFloat[np.ndarray, "..."], levels: int = 256) -> Int[np.ndarray, "..."]:
    """The level of every number in [-1, 1], from 0 on.

    >>> encode(np.array([-1.0, -0.001, 0.001, 1.0])).tolist()
    [0, 122, 133, 255]
    >>> encode(np.array([0.5, 1.5]))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: encode: 1.5 at position 1 lies outside of [-1, 1]
           divide by the largest absolute value first
    """
    values = np.asarray(x, np.float64)
    bad = np.argwhere(~(np.abs(values) <= 1))
    if len(bad):
        where = tuple(int(index) for index in bad[0])
        at = where[0] if len(where) == 1 else where
        raise ArgumentError(
            f"encode: {values[where]:g} at position {at} lies outside of [-1, 1]",
            remedy="divide by the largest absolute value first",
        )
    cells = np.floor((compress(values, levels) + 1) / 2 * levels)
    return np.minimum(cells, levels - 1).astype(np.int32)


def decode(level: Int[np.ndarray, "..."], levels: int = 256) -> AnyFloat[np.ndarray, "..."]:
    """The number in the middle of each level, as mu-law sees it."""
    return expand((2 * level + 1) / levels - 1, levels)


def error_bound(x: AnyFloat[np.ndarray, "..."], levels: int = 256) -> AnyFloat[np.ndarray, "..."]:
    """How far `decode(encode(x))` can be from x: `(|x| + 1/μ) (levels^(1/levels) - 1)`.

    >>> error_bound(np.array([1.0, 0.0])).round(6).tolist()
    [0.021983, 8.6e-05]
    """
    return (np.abs(x) + 1 / (levels - 1)) * (levels ** (1 / levels) - 1)


class _Cells(NamedTuple):
    """Levels as cells of the range of the data."""

    start: np.ndarray
    """Where each begins."""
    size: np.ndarray
    """How long each is; for data on a grid, how many of its points lie within, times their distance."""
    of_grid: np.ndarray
    """For data on a grid, the level of each of its points."""


@functools.cache
def _cells(levels: int, limit: float, grid: int) -> _Cells:
    if not grid:
        edges = limit * expand(np.linspace(-1, 1, levels + 1), levels)
        return _Cells(edges[:-1], np.diff(edges), np.zeros(0, np.int32))
    of_grid = encode(np.linspace(-1, 1, grid), levels)
    counts = np.bincount(of_grid, minlength=levels)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return _Cells(first / (grid - 1), counts / (grid - 1), of_grid)


@final
class MuLawOutput(OutputDistribution):
    """One of the levels of mu-law, and any value within it; the parameters are logits.

    It is a density, so that its likelihoods compare with those of other models. Data with levels of their own (sound of
    16 bits) lie on a grid in [0, 1], and the points of the grid within a cell are equally likely. Other data lie around
    zero: the cells divide [-limit, limit], and the outermost two go on without end, ever less likely.
    """

    levels: int = eqx.field(static=True)
    limit: float = eqx.field(static=True)
    grid: int = eqx.field(static=True)
    """Levels of the data themselves; 0 where they have none."""

    @property
    def parameter_count(self) -> int:
        """One for each level."""
        return self.levels

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The probability of the level over the size of its cell; beyond the limit it falls exponentially."""
        cells = _cells(self.levels, self.limit, self.grid)
        level = self.level(x)
        size = jnp.asarray(np.where(cells.size > 0, cells.size, 1), parameters.dtype)[level]
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(self._possible(parameters)), level[..., None], axis=-1
        )
        found = chosen[..., 0] - jnp.log(size)
        if self.grid:
            return found
        inner = self.limit - jnp.asarray(cells.size[-1], x.dtype)
        outermost = (level == 0) | (level == self.levels - 1)
        return found - jnp.where(outermost, (jnp.abs(x) - inner) / size, 0)

    def level(self, x: Float[Array, "*entries"]) -> Int[Array, "*entries"]:
        """The level that each value falls into."""
        if self.grid:
            of_grid = jnp.asarray(_cells(self.levels, self.limit, self.grid).of_grid)
            return of_grid[jnp.clip(jnp.rint(x * (self.grid - 1)), 0, self.grid - 1).astype(jnp.int32)]
        cell = jnp.floor((self.compressed(x) + 1) / 2 * self.levels)
        return jnp.clip(cell, 0, self.levels - 1).astype(jnp.int32)

    def shares(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries parameters"]:
        """The probability of every level."""
        return jax.nn.softmax(self._possible(parameters))

    def grid_points(self) -> tuple[Int[np.ndarray, " points"], Int[np.ndarray, " levels"]]:
        """Of data with levels of their own: the level of mu-law of each point of the grid, and how many each has.

        >>> of_grid, counts = MuLawOutput(levels=4, limit=6.0, grid=9).grid_points()
        >>> np.array_equal(np.bincount(of_grid), counts), int(counts.sum())
        (True, 9)
        """
        of_grid = _cells(self.levels, self.limit, self.grid).of_grid
        return of_grid, np.bincount(of_grid, minlength=self.levels).astype(np.int32)

    def compressed(self, x: Float[Array, "*entries"]) -> Float[Array, "*entries"]:
        """Values between -1 and 1, as mu-law sees them."""
        unit = 2 * x - 1 if self.grid else jnp.clip(x / self.limit, -1, 1)
        return jnp.sign(unit) * jnp.log1p((self.levels - 1) * jnp.abs(unit)) / np.log(self.levels)

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """A level, then any value within it."""
        cells = _cells(self.levels, self.limit, self.grid)
        which, within = jax.random.split(key)
        level = jax.random.categorical(which, tempered(self._possible(parameters), temperature))
        start, size = (jnp.asarray(one, parameters.dtype)[level] for one in (cells.start, cells.size))
        share = jax.random.uniform(within, level.shape, parameters.dtype)
        if self.grid:
            points = jnp.rint(size * (self.grid - 1))
            return start + jnp.minimum(jnp.floor(share * points), points - 1) / (self.grid - 1)
        beyond = -jnp.log1p(-share) * size
        up = start + jnp.where(level == self.levels - 1, beyond, share * size)
        return jnp.where(level == 0, start + size - beyond, up)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The mean over the cells."""
        cells = _cells(self.levels, self.limit, self.grid)
        step = 1 / (self.grid - 1) if self.grid else 0.0
        middle = cells.start + np.maximum(cells.size - step, 0) / 2
        if not self.grid:
            middle[0], middle[-1] = middle[0] - cells.size[0] / 2, middle[-1] + cells.size[-1] / 2
        return jax.nn.softmax(self._possible(parameters)) @ jnp.asarray(middle, parameters.dtype)

    def initial_parameters(self) -> np.ndarray:
        """All levels alike."""
        return np.zeros(self.levels)

    def _possible(self, parameters: Array) -> Array:
        """Logits with none for cells between two points of the grid."""
        empty = _cells(self.levels, self.limit, self.grid).size == 0
        return jnp.where(jnp.asarray(empty), _NEVER, parameters) if empty.any() else parameters


__all__ = ["MuLawOutput", "compress", "decode", "encode", "error_bound", "expand"]
