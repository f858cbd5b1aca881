"""The audit of a flow: whether its layers are invertible and their changes of volume right, at some examples.

Layer by layer, at the values that reach it: how far there-and-back ends from where it began, whether the volumes of
both directions cancel, and whether they are those of the Jacobian that automatic differentiation gives. Of the whole
flow also at codes three deviations out, and the total probability, which is one for a density. Layers of a flow on
several scales are looked at one by one as well, with what makes noise of the codes that leave.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.autoregressive import Autoregressive
from chainrule.networks.flows.base import Bijection, Conditions, Events, LogDets, Mapped
from chainrule.networks.flows.base_distributions import BaseDistribution
from chainrule.networks.flows.chain import BijectionChain, Frozen, InvertedBijection, Reshaped
from chainrule.networks.flows.continuous import solver_tolerance
from chainrule.networks.flows.findings import DOUBLE, SINGLE, Audit, LayerAudit
from chainrule.networks.flows.mass import total_mass
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, SplitPrior
from chainrule.networks.flows.squeeze import squeeze, unsqueeze
from chainrule.networks.flows.stacked import StackedLayers

LARGEST_JACOBIAN = 64
"""Events with more entries than this are not differentiated entry by entry."""
_JACOBIANS = 16
"""Examples whose Jacobian is computed."""
_RADIUS = 3.0
_SOLVED = 10.0
"""Flows that are equations are right to so many times the error that a step of their solver may have."""


def audit(
    bijection: Bijection,
    base: BaseDistribution,
    x: Events,
    key: Key,
    condition: Conditions = None,
    examples: int = 256,
) -> Audit:
    """An audit at no more than this many of the examples.

    >>> from chainrule.networks.flows.base_distributions import StandardNormal
    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> found = audit(ScaleShift((2,), 1.0), StandardNormal((2,)), jnp.ones((4, 2)), jax.random.key(0))
    >>> found.failures, round(found.whole.largest_log_scale, 4), found.mass.method
    ([], 1.0, 'grid')
    """
    x, condition = x[:examples], None if condition is None else condition[:examples]
    tolerance = max(DOUBLE if x.dtype == jnp.float64 else SINGLE, _SOLVED * solver_tolerance(bijection))
    inner = bijection.layer if isinstance(bijection, Reshaped) else bijection
    every = _named_layers(inner)
    found = _inward(every, x, condition)
    key_far, key_mass = jax.random.split(key)
    noise = jax.random.normal(key_far, x.shape, x.dtype)
    lengths = jnp.sqrt(jnp.square(noise).reshape(len(x), -1).sum(axis=1)).reshape(-1, *(1,) * (x.ndim - 1))
    outside = _forward(bijection, _RADIUS * noise / lengths, condition)[0]
    whole = _summed("whole flow", _examined(bijection, x, condition)[0])
    far = _summed("codes at distance 3", _examined(bijection, outside, condition)[0])
    mass = total_mass(bijection, base, x, key_mass, condition)
    off: tuple[LayerAudit, ...] = ()
    if far.failures(tolerance) and len(every) > 1:
        right = {part.name for part in found if not part.failures(tolerance)}
        outward = _outward(inner, every, _RADIUS * noise / lengths, condition)
        again = [
            _summed(f"{one.name}, of codes at distance 3", _examined(one.layer, at, condition)[0])
            for one, at in outward
            if one.name in right
        ]
        off = tuple(one for one in again if one.failures(tolerance))
    return Audit(tuple(reversed(found)), whole, far, mass, tolerance, off)


class _NamedLayer(NamedTuple):
    """A layer, called by where it stands in a flow, and what else happens to images there, from data to codes."""

    name: str
    layer: Bijection
    squeezed: bool = False
    """Before the layer."""
    halved: bool = False
    """After it: the second half of the channels leaves as a code."""


@final
class _SplitLayer(Bijection):
    """Both halves of the channels, of which one says how the other becomes noise, as a layer of all of them."""

    prior: SplitPrior
    shape: tuple[int, ...] = eqx.field(static=True)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        del condition
        kept, code = jnp.split(z, [z.shape[-1] // 2], axis=-1)
        leaving, log_det = self.prior.leaving(kept, code)
        return Mapped(jnp.concatenate([kept, leaving], axis=-1), log_det)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        del condition
        kept, leaving = jnp.split(x, [x.shape[-1] // 2], axis=-1)
        code, log_det = self.prior.code(kept, leaving)
        return Mapped(jnp.concatenate([kept, code], axis=-1), log_det)


def _named_layers(bijection: Bijection) -> list[_NamedLayer]:
    """Every layer from data to codes, numbered from codes to data; on several scales, on each of them."""
    if isinstance(bijection, MultiScale):
        scales = enumerate(bijection.levels, 1)
        return [one for number, level in scales for one in _layers_of_scale(number, level, bijection.top)]
    numbered = list(enumerate(layers_of(bijection), 1))
    return [
        _NamedLayer(f"layer {number}, {layer_name(layer)}", layer) for number, layer in reversed(numbered)
    ]


def _layers_of_scale(number: int, level: ImageScale, top: Bijection) -> list[_NamedLayer]:
    before = () if level.before is None else layers_of(level.before)[::-1]
    after = () if level.after is None else layers_of(level.after)[::-1]
    last = top if level.prior is None else _SplitLayer(prior=level.prior, shape=level.bijections[-1].shape)
    kinds = [*map(layer_name, [*before, *after]), type(level.prior or top).__name__]
    found = []
    for turn, (layer, kind) in enumerate(zip([*before, *after, last], kinds, strict=True)):
        height, width, _ = layer.shape
        name = f"scale {number} ({height}×{width}), layer {len(kinds) - turn}, {kind}"
        squeezed = turn == len(before) and level.after is not None
        found.append(_NamedLayer(name, layer, squeezed, layer is last and level.prior is not None))
    return found


def _inward(every: Sequence[_NamedLayer], x: Events, condition: Conditions) -> list[LayerAudit]:
    """What is found of every layer as data pass it."""
    found = []
    for one in every:
        x = squeeze(x) if one.squeezed else x.reshape(len(x), *one.layer.shape)
        numbers, x = _examined(one.layer, x, condition)
        found.append(_summed(one.name, numbers))
        x = x[..., : x.shape[-1] // 2] if one.halved else x
    return found


def _outward(
    bijection: Bijection, every: Sequence[_NamedLayer], z: Events, condition: Conditions
) -> Iterator[tuple[_NamedLayer, Events]]:
    """What every layer makes of codes, from codes to data."""
    *left, x = bijection.codes(z) if isinstance(bijection, MultiScale) else [z]
    for one in reversed(every):
        x = jnp.concatenate([x, left.pop()], axis=-1) if one.halved else x
        x = forwarded(one.layer, x.reshape(len(x), *one.layer.shape), condition)
        yield one, x
        x = unsqueeze(x) if one.squeezed else x


def forwarded(
    layer: Bijection, x: Events, condition: Conditions = None, *, backwards: bool = False
) -> Events:
    """Where a layer takes codes, or `backwards` data.

    >>> from chainrule.networks.flows.elementwise import Sigmoid
    >>> forwarded(Sigmoid((1,)), jnp.zeros((1, 1))).tolist()
    [[0.5]]
    """
    return (_inverse if backwards else _forward)(layer, x, condition)[0]


@eqx.filter_jit
def jacobians(layer: Bijection, x: Events, condition: Conditions = None) -> Float[Array, "batch size size"]:
    """`dz/dx` of a layer at each example, entries in their order.

    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> jacobians(ScaleShift((1,), 0.0), jnp.zeros((1, 1))).tolist()
    [[[1.0]]]
    """

    def flat(row: Array, given: Array | None) -> Array:
        row_condition = None if given is None else given[None]
        return layer.inverse(row.reshape(1, *layer.shape), row_condition).value.reshape(-1)

    rows = x.reshape(len(x), -1)
    if condition is None:
        return jax.vmap(jax.jacfwd(lambda row: flat(row, None)))(rows)
    return jax.vmap(jax.jacfwd(flat))(rows, condition)


def layers_of(bijection: Bijection) -> tuple[Bijection, ...]:
    """The layers of a flow from codes to data, chains within chains written out.

    >>> from chainrule.networks.flows.elementwise import Sigmoid
    >>> len(layers_of(BijectionChain([BijectionChain([Sigmoid((1,)), Sigmoid((1,))]), Sigmoid((1,))])))
    3
    """
    if isinstance(bijection, StackedLayers):
        layers = [bijection.layer(number) for number in range(bijection.depth)]
    elif isinstance(bijection, BijectionChain):
        layers = list(bijection.layers)
    else:
        return (bijection,)
    return tuple(inner for layer in layers for inner in layers_of(layer))


def unwrapped(layer: Bijection) -> Bijection:
    """A layer without what turns it round or holds it."""
    while isinstance(layer, InvertedBijection | Frozen):
        layer = layer.layer
    return layer


def layer_name(layer: Bijection) -> str:
    """What a layer is called, without its wrappings."""
    return type(unwrapped(layer)).__name__


class _Numbers(NamedTuple):
    inverse_error: Array
    converse_error: Array
    volume_sum: Array
    volume_error: Array
    log_scale: Array
    condition: Array
    triangularity: Array
    non_finite: Array


def _examined(layer: Bijection, x: Events, condition: Conditions) -> tuple[_Numbers, Events]:
    # Three small programs: the inverse is compiled once for its two uses, and layers of one structure share all three.
    z, volume = _inverse(layer, x, condition)
    back, volume_back = _forward(layer, z, condition)
    again, _ = _inverse(layer, back, condition)
    shapes: Array = jnp.full(4, jnp.nan)
    if math.prod(layer.shape) <= LARGEST_JACOBIAN:
        few = slice(0, _JACOBIANS)
        shapes = _jacobian_numbers(layer, x[few], volume[few], None if condition is None else condition[few])
    return _compared(x, back, z, again, volume, volume_back, shapes), z


@eqx.filter_jit
def _inverse(layer: Bijection, x: Events, condition: Conditions) -> tuple[Events, Array]:
    return layer.inverse(x, condition)


@eqx.filter_jit
def _forward(layer: Bijection, z: Events, condition: Conditions) -> tuple[Events, Array]:
    return layer.forward(z, condition)


@eqx.filter_jit
def _jacobian_numbers(
    layer: Bijection, x: Events, volume: LogDets, condition: Conditions
) -> Float[Array, " 4"]:
    """Error of the volume, largest logarithm of a scale, worst condition, largest entry above the diagonal."""
    slopes = jacobians(layer, x, condition)
    inner = unwrapped(layer)
    above = jnp.full((), jnp.nan, x.dtype)
    if isinstance(inner, Autoregressive):
        above = jnp.abs(jnp.triu(inner.ordered(inner.ordered(slopes).swapaxes(1, 2)).swapaxes(1, 2), 1)).max()
    singular = jnp.linalg.svd(slopes, compute_uv=False)
    error = _share(volume, jnp.linalg.slogdet(slopes)[1]).max()
    error = jnp.where(jnp.isnan(error), jnp.inf, error)  # it was computed, and is wrong
    worst = (singular[:, 0] / singular[:, -1]).max()
    return jnp.stack([error, jnp.abs(jnp.log(singular)).max(), worst, above])


@jax.jit
def _compared(
    x: Events, back: Events, z: Events, again: Events, volume: LogDets, volume_back: LogDets, shapes: Array
) -> _Numbers:
    values = jnp.concatenate([one.reshape(-1) for one in (z, back, volume, volume_back)])
    errors = _share(x, back).max(), _share(z, again).max(), _share(volume, -volume_back).max()
    return _Numbers(*errors, shapes[0], shapes[1], shapes[2], shapes[3], (~jnp.isfinite(values)).mean())


def _share(one: Array, other: Array) -> Array:
    return jnp.abs(one - other) / jnp.maximum(jnp.abs(one), 1)


def _summed(name: str, numbers: _Numbers) -> LayerAudit:
    return LayerAudit(name, *(float(np.asarray(one)) for one in numbers))


def volumes_by_layer(
    bijection: Bijection, x: Events, condition: Conditions = None
) -> tuple[Sequence[str], Float[Array, "layers batch"]]:
    """What each layer adds to `log |det dz/dx|` of each example, in the order in which data pass them, by name.

    Of images on several scales it is all layers of a kind on a scale, and last what makes their codes noise.
    """
    if isinstance(bijection, MultiScale):
        by_kind = _volumes_by_scale(bijection, x, condition)
        return list(by_kind), jnp.stack(list(by_kind.values()))
    every = layers_of(bijection)
    found = []
    for layer in reversed(every):
        x, log_det = _inverse(layer, x, condition)
        found.append(log_det)
    names = [f"{number} {layer_name(layer)}" for number, layer in enumerate(every, 1)]
    return names[::-1], jnp.stack(found)


def _volumes_by_scale(flow: MultiScale, x: Events, condition: Conditions) -> dict[str, LogDets]:
    found: dict[str, LogDets] = {}

    def step(layer: Bijection, x: Events) -> tuple[Mapped, Bijection]:
        total: LogDets = jnp.zeros(len(x), x.dtype)
        for one in reversed(layers_of(layer)):
            name = f"{x.shape[1]}×{x.shape[2]} {layer_name(one)}"
            x, log_det = _inverse(one, x, condition)
            found[name] = found.get(name, jnp.zeros_like(total)) + log_det
            total = total + log_det
        return Mapped(x, total), layer

    (_, whole), _ = flow.normalised(x, condition, step)
    return {**found, "priors of the codes": whole - sum(found.values())}


__all__ = [
    "LARGEST_JACOBIAN",
    "audit",
    "forwarded",
    "jacobians",
    "layer_name",
    "layers_of",
    "unwrapped",
    "volumes_by_layer",
]
