"""Autoregressive layers: an entry is moved by a function whose parameters depend on the entries before it.

The Jacobian is triangular, so that its determinant costs no more than the entries. Parameters that depend on inputs are
computed in one pass; on the way back inputs become known one after another.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped, Passes
from chainrule.networks.flows.chain import InvertedBijection
from chainrule.networks.flows.conditioners import AutoregressiveConditioner, LinearConditioner
from chainrule.networks.flows.masked import MaskedResidualNetwork
from chainrule.networks.flows.synthesisers import AffineSynthesiser, ReversedSynthesiser, Synthesiser


@final
class Autoregressive(Bijection):
    """`x_i = tau(z_i; h_i(z_<i))`: one pass from codes to data, as many as there are entries back.

    This is an inverse autoregressive flow (Kingma et al., 2016), whose own draws are cheap to judge. `order` says which
    entry comes when; "before" is meant in it. Without one, entries come as they are.
    """

    network: AutoregressiveConditioner
    synthesiser: Synthesiser
    order: Int[Array, " entries"] | None
    shape: tuple[int] = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        synthesiser: Synthesiser,
        *,
        width: int = 256,
        blocks: int = 2,
        condition: int = 0,
        order: Any = None,
        network: AutoregressiveConditioner | None = None,
        key: Key | None = None,
    ) -> None:
        """`condition` is how many numbers are told of an example; without an `order`, entries come as they are.

        With `width=0` parameters are linear in the entries before. A `network` of one's own takes the place of the
        masked one, which is drawn by the `key`.
        """
        if order is not None and sorted(np.asarray(order).tolist()) != list(range(size)):
            raise ArgumentError(
                f"Autoregressive(order={np.asarray(order).tolist()}): it is no order of {size} entries"
            )
        if network is None:
            network = _conditioner(size, synthesiser.numbers, width, blocks, condition, key)
        self.network = network
        self.synthesiser = synthesiser
        self.order = None if order is None else jnp.asarray(order, jnp.int32)
        self.shape = (size,)

    @property
    def passes(self) -> Passes:
        """One to the data, one for each entry back."""
        return Passes(1, self.shape[0])

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """All entries at once."""
        ordered = self.ordered(z)
        h = self.network(ordered, condition)
        # Flat arrays make one loop over all values of the elementwise part.
        value, slope = self.synthesiser.forward(ordered.reshape(-1), h.reshape(len(h), -1))
        return Mapped(self._restored(value.reshape(z.shape)), slope.reshape(z.shape).sum(axis=1))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Entry after entry, each with parameters from those found before."""
        ordered = self.ordered(x)
        found = self.network.in_sequence(
            ordered, condition, lambda one, h: self.synthesiser.inverse(one, h).value
        )
        # One pass over all entries takes out what rounding left on the way, and gives the volumes of the way back.
        h = self.network(found, condition)
        value, slope = self.synthesiser.inverse(ordered.reshape(-1), h.reshape(len(h), -1))
        return Mapped(self._restored(value.reshape(x.shape)), slope.reshape(x.shape).sum(axis=1))

    def parameters(self, z: Events, condition: Conditions = None) -> Float[Array, "numbers batch entries"]:
        """The parameters of every entry, in the order of the layer."""
        return self.network(self.ordered(z), condition)

    def ordered(self, x: Float[Array, "*batch entries"]) -> Float[Array, "*batch entries"]:
        """Entries along the last axis in the order in which they come."""
        return x if self.order is None else x[..., self.order]

    def _restored(self, ordered: Float[Array, "batch entries"]) -> Float[Array, "batch entries"]:
        return ordered if self.order is None else ordered[:, jnp.argsort(self.order)]


def _conditioner(
    size: int, numbers: int, width: int, blocks: int, condition: int, key: Key | None
) -> AutoregressiveConditioner:
    if width == 0:
        return LinearConditioner(size, numbers, condition)
    if key is None:
        raise ArgumentError("Autoregressive: a masked network is drawn at random", remedy="give it a key")
    return MaskedResidualNetwork(size, numbers, width=width, blocks=blocks, condition=condition, key=key)


def masked_autoregressive(
    size: int,
    synthesiser: Synthesiser | None = None,
    *,
    width: int = 256,
    blocks: int = 2,
    condition: int = 0,
    order: Any = None,
    key: Key,
) -> InvertedBijection:
    """A layer whose parameters depend on data: `z_i = (x_i - t_i(x_<i)) exp(-s_i(x_<i))` where it is affine.

    Densities take one pass and draws one for each entry (Papamakarios, Pavlakou and Murray, 2017). A synthesiser that
    is given is applied on the way to the codes.

    >>> import jax
    >>> masked_autoregressive(3, width=8, key=jax.random.key(0)).passes
    Passes(forward=3, inverse=1)
    """
    chosen = ReversedSynthesiser(AffineSynthesiser()) if synthesiser is None else synthesiser
    return InvertedBijection(
        Autoregressive(size, chosen, width=width, blocks=blocks, condition=condition, order=order, key=key)
    )


__all__ = ["Autoregressive", "masked_autoregressive"]
