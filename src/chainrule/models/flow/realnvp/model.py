"""RealNVP: coupling layers, equally fast in both directions (Dinh, Sohl-Dickstein and Bengio, 2017)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.realnvp.images import image_flow
from chainrule.models.flow.settings import base_distribution, condition_features, encoder
from chainrule.models.flow.stacks import NetworkStackConfig, flat, norms, repeated, shaped, whitened
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.conditioners import scaled_weights
from chainrule.networks.flows.couplings import Coupling, check_roles, roles
from chainrule.networks.flows.elementwise import ScaleShift
from chainrule.networks.flows.linear import ReversedEntries
from chainrule.networks.flows.synthesisers import AdditiveSynthesiser, AffineSynthesiser

VERY_FEW = 20
"""With fewer training examples than this for each entry, couplings begin as a Gaussian."""
WIDE = 256
"""With more entries than this, a covariance is not worth its size."""


@final
class RealNVPConfig(NetworkStackConfig):
    """Settings of RealNVP."""

    layers: int = Field(6, ge=2, le=200, description="couplings; of images, see scales")
    width: int = Field(
        64, ge=1, description="units of each hidden layer, or channels of the networks of images"
    )
    depth: int = Field(
        2, ge=1, le=100, description="hidden layers of a network, or residual blocks for images"
    )
    form: Literal["affine", "additive"] = Field(
        "affine",
        description="how an entry is moved: by a scale and a shift, or by a shift alone and one scale at the end",
    )
    bound: float = Field(2.0, gt=0, le=50, description="form=affine: largest |logarithm| of a scale")
    split: Literal["halves", "alternate", "random"] = Field(
        "halves", description="which entries of a vector a layer keeps; the next one keeps the others"
    )
    middle: Literal["alternates", "moved"] = Field(
        "alternates",
        description="split=halves of an odd number of entries: the middle one takes turns as the others do, or is "
        "moved by every layer and tells none of them anything, as in runs of earlier versions",
    )
    scales: int = Field(
        2,
        ge=1,
        le=6,
        description="images: how often they are cut into finer channels, half of which then are codes",
    )
    logit_margin: float = Field(
        1e-4,
        ge=0,
        lt=0.5,
        description="images: through a logit with this margin first (1e-6 to 0.05); 0 for none",
    )


def vector_flow(config: RealNVPConfig, schema: Schema, key: Key) -> Bijection:
    """Couplings of vectors that take turns, with the norm of the settings after each."""
    size = schema.dimensions
    check_roles(roles("halves", size, config.layers, key))
    synthesiser = AdditiveSynthesiser() if config.form == "additive" else AffineSynthesiser(config.bound)

    def layer(moved: Sequence[bool], k: Key) -> Bijection:
        sizes = {"width": config.width, "depth": config.depth, "condition": condition_features(config)}
        return scaled_weights(Coupling(moved, synthesiser, **sizes, key=k), config.gain)

    def turned(k: Key) -> list[Bijection]:
        return [layer([number >= size // 2 for number in range(size)], k), ReversedEntries(size)]

    if config.split == "halves" and (size % 2 == 0 or config.middle == "moved"):
        couplings: Bijection = repeated(config, size, config.layers, turned, key)
    elif config.split == "halves":
        couplings = _uneven_halves(config, size, layer, key)
    else:
        for_roles, *keys = jax.random.split(key, 1 + config.layers)
        turns = roles(config.split, size, config.layers, for_roles)
        couplings = BijectionChain(
            [
                one
                for moved, k in zip(turns, keys, strict=True)
                for one in (layer(moved, k), *norms(config, size))
            ]
        )
    if config.form == "additive":
        couplings = BijectionChain([couplings, ScaleShift((size,))])
    return shaped(whitened(config, couplings), schema)


def _uneven_halves(
    config: RealNVPConfig, size: int, layer: Callable[[Sequence[bool], Key], Bijection], key: Key
) -> Bijection:
    """Couplings that move the larger half and the smaller one in turn: pairs of them are alike, and are stacked."""
    larger, smaller = roles("halves", size, 2, key)
    for_pairs, for_last = jax.random.split(key)

    def pair(k: Key) -> list[Bijection]:
        one, two = jax.random.split(k)
        return [layer(larger, one), *norms(config, size), layer(smaller, two)]

    pairs = repeated(config, size, config.layers // 2, pair, for_pairs)
    if config.layers % 2 == 0:
        return pairs
    return BijectionChain([pairs, layer(larger, for_last), *norms(config, size)])


def suited(config: RealNVPConfig, schema: Schema, count: int | None) -> Mapping[str, Any]:
    """Settings that suit few vectors.

    Couplings learn correlations by taking turns, where an autoregressive layer has them at once: of very few examples
    they learn more that begin with the Gaussian of them.

    >>> suited(RealNVPConfig(), Schema("table", (13,)), 124)
    {'gain': 0.25, 'whiten': True}
    """
    if kinds.of(schema).shows_pixels(schema):
        return {}
    size = schema.dimensions
    few = count is not None and count < VERY_FEW * size and size <= WIDE
    return {**flat(config, schema, count), **({"whiten": True} if few else {})}


def became(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """In earlier versions every layer moved the middle one of an odd number of entries."""
    return None if "middle" in settings else ("realnvp", {**settings, "middle": "moved"})


def build(config: RealNVPConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model: of images by convolutions, of everything else as vectors."""
    for_layers, for_base, for_condition = jax.random.split(key, 3)
    flow = image_flow if kinds.of(schema).shows_pixels(schema) else vector_flow
    bijection = flow(config, schema, for_layers)
    base = base_distribution(config, schema, for_base)
    return FlowModel(bijection, base, encoder(config, schema, for_condition), config, schema)


__all__ = ["RealNVPConfig", "became", "build", "suited", "vector_flow"]
