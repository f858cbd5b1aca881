"""How a flow draws: its options, draws that agree with what is known of them, and how many passes a draw takes.

Codes whose examples agree with what is known are found by descent: every draw begins with noise of its own and moves
no further from it than known entries ask for. Where the flow is linear and codes are normal, such draws are exactly
those of the posterior; elsewhere they are near it.

Reference: Bardsley, Solonen, Haario and Laine, Randomize-then-optimize: a method for sampling from posterior
distributions in nonlinear inverse problems, SIAM Journal on Scientific Computing 2014.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.types import Array, Float
from chainrule.models.protocol import SampleOptions
from chainrule.networks.flows.base import Bijection, Conditions, Events
from chainrule.networks.flows.continuous import Continuous
from chainrule.networks.flows.residual import ContractiveResidual

_RATE = 0.1
"""Of the descent over codes, whose entries have a deviation of one."""
_LOOSE, _CLOSE = 1.0, 0.02
"""How far known entries may be off, in units of the model, at the first and at the last step."""


@final
class FlowOptions(SampleOptions):
    """What is drawn, and how boldly."""

    condition: Any = Field(
        None,
        description="class, labels or value, one for all or one for each, of a flow that knows them; none: of all the "
        "data",
    )
    temperature: float = Field(
        1.0,
        ge=0,
        description="factor on the spread of codes; other than 1 is not the distribution of the model",
    )
    inpaint: Any = Field(
        None,
        description="what is known: a file with arrays known and mask (true where known), or a CSV file of one row "
        "with empty cells, in the units of the data; or that pair in those of the model",
    )
    inpaint_steps: int = Field(
        300,
        ge=1,
        le=100_000,
        description="inpaint: steps of descent over the codes, a draw and its gradient each",
    )


@eqx.filter_jit
def inpainted(
    bijection: Bijection,
    noise: Events,
    known: Float[Array, "*event"],
    mask: Bool[Array, "*event"],
    condition: Conditions,
    steps: int,
) -> Events:
    """Examples that have the known entries, the others being those of the code nearest to the noise that fits them."""
    widths = jnp.geomspace(_LOOSE, _CLOSE, steps)
    optimiser = optax.adam(optax.cosine_decay_schedule(_RATE, steps, alpha=0.02))

    def cost(z: Events, width: Array) -> Array:
        x = bijection.forward(z, condition).value
        off = jnp.where(mask[None], x - known[None], 0) / width
        return 0.5 * (jnp.square(off).sum() + jnp.square(z - noise).sum())

    def step(carry: tuple[Events, Any], width: Array) -> tuple[tuple[Events, Any], None]:
        z, memory = carry
        moves, memory = optimiser.update(jax.grad(cost)(z, width), memory)
        return (optax.apply_updates(z, moves), memory), None

    (z, _), _ = jax.lax.scan(step, (noise, optimiser.init(noise)), widths)
    return jnp.where(mask[None], known[None], bijection.forward(z, condition).value)


def passes_in_words(bijection: Bijection) -> str:
    """How many passes of its networks a draw takes, one after another.

    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> passes_in_words(ScaleShift((2,)))
    'no pass of a network'
    """
    if _holds(bijection, Continuous):
        return "as many passes of the network as the tolerance of the solver asks for"
    count = bijection.passes.forward
    if not count:
        return "no pass of a network"
    most = "at most " if _holds(bijection, ContractiveResidual) else ""
    return f"{most}{count:,} {'pass' if count == 1 else 'passes'} of networks one after another"


def _holds(bijection: Bijection, kind: type[Bijection]) -> bool:
    nodes = jax.tree.leaves(bijection, is_leaf=lambda node: isinstance(node, kind))
    return any(isinstance(node, kind) for node in nodes)


__all__ = ["FlowOptions", "inpainted", "passes_in_words"]
