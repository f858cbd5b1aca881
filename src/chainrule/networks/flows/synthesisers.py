"""Increasing functions of one number, whose parameters a network gives: what autoregressive layers and couplings apply.

Parameters come along a leading axis, so many numbers for every value (Papamakarios et al., 2021, call the network the
conditioner, and these the transformer). Zeros stand for the identity, up to the gate of `GatedSynthesiser`.
"""

import abc
import math
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.networks.flows import splines

_Values = Float[Array, "*shape"]
_Numbers = Float[Array, "numbers *shape"]


class Synthesised(NamedTuple):
    """Values, and the logarithm of the slope at each."""

    value: _Values
    log_slope: _Values


class Synthesiser(eqx.Module):
    """An increasing function of one number."""

    @property
    @abc.abstractmethod
    def numbers(self) -> int:
        """How many parameters a value has."""

    @abc.abstractmethod
    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """The function, with parameters h."""

    @abc.abstractmethod
    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """Its inverse."""


@final
class AffineSynthesiser(Synthesiser):
    """`x = exp(s) z + t`, with |s| below `bound`: s is `bound tanh(h / bound)`, or h where the bound is infinite.

    >>> AffineSynthesiser().forward(jnp.ones(1), jnp.zeros((2, 1))).value.tolist()
    [1.0]
    """

    bound: float = eqx.field(static=True, default=5.0)

    def __check_init__(self) -> None:
        if not self.bound > 0:
            raise ArgumentError(
                f"AffineSynthesiser(bound={self.bound}): logarithms of scales need a positive bound"
            )

    @property
    def numbers(self) -> int:
        """Scale and shift."""
        return 2

    def _log_scale(self, h: _Numbers) -> _Values:
        return h[0] if math.isinf(self.bound) else self.bound * jnp.tanh(h[0] / self.bound)

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """By the scale, then the shift."""
        s = self._log_scale(h)
        return Synthesised(z * jnp.exp(s) + h[1], s)

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """The other way round."""
        s = self._log_scale(h)
        return Synthesised((x - h[1]) * jnp.exp(-s), -s)


@final
class AdditiveSynthesiser(Synthesiser):
    """`x = z + t`, which changes no volume (Dinh, Krueger and Bengio, 2015)."""

    @property
    def numbers(self) -> int:
        """The shift."""
        return 1

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """By the shift."""
        return Synthesised(z + h[0], jnp.zeros_like(z))

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """Back by it."""
        return Synthesised(x - h[0], jnp.zeros_like(x))


@final
class GatedSynthesiser(Synthesiser):
    """`x = g z + (1 - g) t` with a gate `g = sigmoid(h + 1.5)`: it contracts only, and begins near the identity.

    (Kingma, Salimans, Jozefowicz, Chen, Sutskever and Welling, 2016.)
    """

    @property
    def numbers(self) -> int:
        """Gate and value."""
        return 2

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """Between the value and what it was."""
        gate = jax.nn.sigmoid(h[0] + 1.5)
        return Synthesised(gate * z + (1 - gate) * h[1], jax.nn.log_sigmoid(h[0] + 1.5))

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """The other way round."""
        gate = jax.nn.sigmoid(h[0] + 1.5)
        return Synthesised((x - (1 - gate) * h[1]) / gate, -jax.nn.log_sigmoid(h[0] + 1.5))


@final
class SplineSynthesiser(Synthesiser):
    """A rational-quadratic spline from `-bound` to `bound`, the identity beyond (Durkan et al., 2019)."""

    bins: int = eqx.field(static=True, default=8)
    bound: float = eqx.field(static=True, default=3.0)

    def __check_init__(self) -> None:
        _check_box("SplineSynthesiser", self.bins, self.bound)

    @property
    def numbers(self) -> int:
        """Widths, heights and the slopes at inner knots."""
        return 3 * self.bins - 1

    def _knots(self, h: _Numbers) -> splines.Knots:
        k = self.bins
        return splines.knots(h[:k], h[k : 2 * k], h[2 * k :], self.bound)

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """The spline, where it reaches."""
        inside = jnp.abs(z) < self.bound
        y, log_slope = splines.spline(jnp.where(inside, z, 0), self._knots(h))
        return Synthesised(jnp.where(inside, y, z), jnp.where(inside, log_slope, 0))

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """Its inverse, where it reaches."""
        inside = jnp.abs(x) < self.bound
        z, log_slope = splines.inverse_spline(jnp.where(inside, x, 0), self._knots(h))
        return Synthesised(jnp.where(inside, z, x), jnp.where(inside, log_slope, 0))


@final
class CircularSplineSynthesiser(Synthesiser):
    """A spline of angles from -pi to pi, whose slope is the same at both ends (Rezende et al., 2020).

    Angles are wrapped into that interval on the way in.
    """

    bins: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        _check_box("CircularSplineSynthesiser", self.bins, math.pi)

    @property
    def numbers(self) -> int:
        """Widths, heights and slopes, one of them for both ends."""
        return 3 * self.bins

    def _knots(self, h: _Numbers) -> splines.Knots:
        k = self.bins
        found = splines.knots(h[:k], h[k : 2 * k], h[2 * k : -1], math.pi)
        end = splines.positive_slope(h[-1:])
        return found._replace(slopes=jnp.concatenate([end, found.slopes[1:-1], end]))

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """The spline."""
        return Synthesised(*splines.spline(_wrapped(z), self._knots(h)))

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """Its inverse."""
        return Synthesised(*splines.inverse_spline(_wrapped(x), self._knots(h)))


@final
class ReversedSynthesiser(Synthesiser):
    """A synthesiser with its directions exchanged."""

    synthesiser: Synthesiser

    @property
    def numbers(self) -> int:
        """As many."""
        return self.synthesiser.numbers

    def forward(self, z: _Values, h: _Numbers) -> Synthesised:
        """The inverse of the other."""
        return self.synthesiser.inverse(z, h)

    def inverse(self, x: _Values, h: _Numbers) -> Synthesised:
        """The other."""
        return self.synthesiser.forward(x, h)


def _wrapped(angle: _Values) -> _Values:
    return jnp.remainder(angle + math.pi, 2 * math.pi) - math.pi


def _check_box(where: str, bins: int, bound: float) -> None:
    whole(where, "bins", bins, 2)
    if bins * splines.MINIMUM >= 1:
        raise ArgumentError(
            f"{where}(bins={bins}): bins have a least width of {splines.MINIMUM:g} of the box"
        )
    if not bound > 0 or not math.isfinite(bound):
        raise ArgumentError(f"{where}(bound={bound}): the box of a spline needs a positive size")


__all__ = [
    "AdditiveSynthesiser",
    "AffineSynthesiser",
    "CircularSplineSynthesiser",
    "GatedSynthesiser",
    "ReversedSynthesiser",
    "SplineSynthesiser",
    "Synthesised",
    "Synthesiser",
]
