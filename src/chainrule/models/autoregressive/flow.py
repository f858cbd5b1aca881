"""Gaussian conditionals as a flow: `x_t = m_t(x_<t) + s_t(x_<t) u_t` with standard Gaussian noise `u`.

An autoregressive model with Gaussian conditionals and one layer of a masked autoregressive flow are one density seen
from two sides. Towards the noise all entries are computed at once; towards the data one after another.
"""

import math
from collections.abc import Sequence
from typing import final

import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int
from chainrule.models.autoregressive.conditionals import Conditionals
from chainrule.networks.flows.autoregressive import Autoregressive
from chainrule.networks.flows.base import Conditions
from chainrule.networks.flows.chain import InvertedBijection
from chainrule.networks.flows.conditioners import AutoregressiveConditioner, EntryNumbers
from chainrule.networks.flows.synthesisers import AffineSynthesiser, ReversedSynthesiser
from chainrule.probability.distributions.outputs import GaussianMixtureOutput


@final
class GaussianConditioner(AutoregressiveConditioner):
    """The logarithm of the deviation and the mean of every entry, as conditionals with one Gaussian each give them."""

    conditionals: Conditionals

    def __call__(self, x: Float[Array, "batch entries"], condition: Conditions = None) -> EntryNumbers:
        """Those of all entries in one pass."""
        del condition
        output = self.conditionals.output
        assert isinstance(output, GaussianMixtureOutput)
        _, means, spreads = output.parts(self.conditionals(x))
        return jnp.stack([spreads[..., 0], means[..., 0]])


def gaussian_flow(
    members: Sequence[Conditionals], orders: Sequence[Int[Array, " entries"]]
) -> InvertedBijection:
    """The flow of a single network with one Gaussian for each entry; examples are flat vectors."""
    output = members[0].output
    if len(members) > 1:
        raise CapabilityError(
            f"an ensemble of {len(members)} orders is a mixture, not one map", remedy="use ensemble=1"
        )
    if not isinstance(output, GaussianMixtureOutput) or output.components > 1:
        raise CapabilityError(
            "only a Gaussian for each entry is an affine map of Gaussian noise",
            remedy="train made with conditionals=mixture components=1 on continuous data",
        )
    layer = Autoregressive(
        len(orders[0]),
        ReversedSynthesiser(AffineSynthesiser(math.inf)),
        order=orders[0],
        network=GaussianConditioner(members[0]),
    )
    return InvertedBijection(layer)


__all__ = ["GaussianConditioner", "gaussian_flow"]
