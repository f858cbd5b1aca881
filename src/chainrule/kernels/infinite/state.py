"""What a layer of infinite width knows of two batches of inputs: the covariance and the tangent kernel of its units.

Units of a wide layer are independent Gaussians with one covariance over inputs and positions, so a layer is a map of
covariances. Only those pairs of positions are held that later layers need: equal positions where positions are
flattened at the end (N² P numbers), all pairs where they are averaged (N² P²).
"""

import math
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.kernels.infinite.dual import DualActivation


@final
class KernelState(eqx.Module):
    """Kernels between rows and columns after a layer; positions come last, once or twice (`pairs`)."""

    nngp: Array
    """Mean product of the units, `(rows, columns, *space)` or `(rows, columns, *space, *space)`."""
    ntk: Array | None
    """Inner product of the derivatives in all parameters so far; none where nobody asked."""
    left: Array
    """The same mean product of each row with itself, `(rows, *space)` or `(rows, *space, *space)`."""
    right: Array
    """And of each column."""
    same: Array
    """Which row and column are one example, `(rows, columns)`: what is random for each example is shared there."""
    space: tuple[int, ...] = eqx.field(static=True)
    pairs: bool = eqx.field(static=True)
    """Whether all pairs of positions are held, or equal ones."""
    gaussian: bool = eqx.field(static=True)
    """Whether the units are Gaussian, as after weights; after an activation they are not."""
    channels: int = eqx.field(static=True)
    """Channels of inputs, or how many times the width of the network a layer has."""
    wide: bool = eqx.field(static=True)
    standard: int | None = eqx.field(static=True)
    """The width of networks in the standard parameterisation whose training is described; else none."""

    def fan_in(self) -> int:
        """How many units a position has, where that is known."""
        return self.channels * (self.standard or 1) if self.wide else self.channels

    def each(self, linear: Callable[[Array], Array]) -> "KernelState":
        """The state after a linear map of the units that is the same in every channel."""
        return eqx.tree_at(
            lambda s: (s.nngp, s.ntk, s.left, s.right),
            self,
            (
                linear(self.nngp),
                None if self.ntk is None else linear(self.ntk),
                linear(self.left),
                linear(self.right),
            ),
            is_leaf=lambda leaf: leaf is None,
        )

    def with_arrays(self, nngp: Array, ntk: Array | None, left: Array, right: Array) -> "KernelState":
        """The same with other kernels."""
        return KernelState(
            nngp,
            ntk,
            left,
            right,
            self.same,
            self.space,
            self.pairs,
            self.gaussian,
            self.channels,
            self.wide,
            self.standard,
        )

    def marked(
        self,
        *,
        space: tuple[int, ...] | None = None,
        pairs: bool | None = None,
        gaussian: bool | None = None,
        channels: int | None = None,
        wide: bool | None = None,
    ) -> "KernelState":
        """The same with other facts about it."""
        return KernelState(
            self.nngp,
            self.ntk,
            self.left,
            self.right,
            self.same,
            self.space if space is None else space,
            self.pairs if pairs is None else pairs,
            self.gaussian if gaussian is None else gaussian,
            self.channels if channels is None else channels,
            self.wide if wide is None else wide,
            self.standard,
        )

    def variances(self) -> tuple[Array, Array]:
        """Of rows and columns at every position: `(rows, *space)` and `(columns, *space)`."""
        return self.at_equal(self.left), self.at_equal(self.right)

    def at_equal(self, kernel: Array) -> Array:
        """A kernel at equal positions."""
        if not self.pairs:
            return kernel
        lead, count = kernel.shape[: kernel.ndim - 2 * len(self.space)], math.prod(self.space)
        flat = jnp.diagonal(kernel.reshape(*lead, count, count), axis1=-2, axis2=-1)
        return flat.reshape(*lead, *self.space)

    def between(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Numbers of rows and of columns at every position, shaped to stand beside the kernel of both."""
        ones = (1,) * (len(self.space) if self.pairs else 0)
        across = rows.reshape(len(rows), 1, *self.space, *ones)
        down = columns.reshape(1, len(columns), *ones, *self.space)
        return across, down

    def within(self, values: Array) -> tuple[Array, Array]:
        """Numbers of rows at every position, shaped to stand at both ends of the kernel of a row with itself."""
        ones = (1,) * (len(self.space) if self.pairs else 0)
        return values.reshape(len(values), *self.space, *ones), values.reshape(
            len(values), *ones, *self.space
        )

    def activated(self, activation: DualActivation) -> "KernelState":
        """The state after a function of every unit."""
        rows, columns = self.variances()
        own, slopes = activation.dual(*self._ordered(self.nngp, self.between(rows, columns)))
        left = activation.dual(*self._ordered(self.left, self.within(rows)))[0]
        right = activation.dual(*self._ordered(self.right, self.within(columns)))[0]
        ntk = None if self.ntk is None else self.ntk * slopes
        return self.with_arrays(own, ntk, left, right).marked(gaussian=False)

    @staticmethod
    def _ordered(kernel: Array, ends: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        return ends[0], kernel, ends[1]


def initial(x: Array, y: Array, same: Array, *, ntk: bool, pairs: bool, standard: int | None) -> KernelState:
    """The state of inputs `(rows, *space, channels)`: their mean product over channels, with no parameters yet."""
    space, channels = x.shape[1:-1], x.shape[-1]
    count = math.prod(space)
    a, b = x.reshape(len(x), count, channels), y.reshape(len(y), count, channels)

    def products(subscripts: str, first: Array, second: Array, *lead: int) -> Array:
        found = jnp.einsum(subscripts, first, second, precision="highest") / channels
        return found.reshape(*lead, *space, *(space if pairs else ()))

    between, within = ("npc,mqc->nmpq", "npc,nqc->npq") if pairs else ("npc,mpc->nmp", "npc,npc->np")
    nngp = products(between, a, b, len(a), len(b))
    return KernelState(
        nngp,
        jnp.zeros_like(nngp) if ntk else None,
        products(within, a, a, len(a)),
        products(within, b, b, len(b)),
        same,
        space,
        pairs and bool(space),
        gaussian=False,
        channels=channels,
        wide=False,
        standard=standard,
    )


__all__ = ["KernelState", "initial"]
