"""Deconvolution and guided backpropagation: projections of single activations back to pixels.

A unit's activity is sent backwards through the network, with one of three rules at every rectifier: `gradient` lets
through what the unit's input let through, `deconvolution` what is positive on the way back (Zeiler and Fergus, 2014,
arXiv:1311.2901), `guided` only what passes both (Springenberg et al., 2015, arXiv:1412.6806). Pooling is undone at the
positions where the largest entries were. Rectifiers are found in the network's program, so any model will do.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int
from chainrule.derive.jaxprs.equations import body, closed, label
from chainrule.nn import summary
from chainrule.nn.summary.dependence import MovingInterval

Network: TypeAlias = Callable[[Array], Array]

RULES = ("gradient", "deconvolution", "guided")
_CAPS = {"relu": math.inf, "relu6": 6.0}
"""Rectifiers by name, and where they end."""


def feature_maps(network: Network, x: Float[Array, "batch *shape"]) -> list[Array]:
    """What every rectifier of the network gives, where that still has the shape of an image, in order."""
    return _maps(network, "gradient")(x)


def project(
    network: Network, layer: int, x: Array, cotangent: Array, *, rule: str = "deconvolution"
) -> Float[Array, "batch *shape"]:
    """A signal at one feature map sent back to the pixels of `x`."""
    check_choice("project", "rule", rule, RULES)
    _, back = jax.vjp(lambda x: _maps(network, rule)(x)[layer], x)
    return back(cotangent)[0]


def sensitivity(network: Network, layer: int, x: Array, cotangent: Array) -> tuple[Array, Array]:
    """One feature map, and a signal at the outputs of the network sent back to it."""

    def run(shift: Array) -> tuple[Array, Array]:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        out = _evaluate(program, [x], _RECTIFIERS["gradient"], found, {layer: shift})
        return out[0], found[layer]

    shape = jax.eval_shape(lambda x: feature_maps(network, x), x)[layer]
    _, back, maps = jax.vjp(run, jnp.zeros(shape.shape, shape.dtype), has_aux=True)
    return maps, back(cotangent)[0]


def layer_number(name: str, layer: int, count: int) -> int:
    """The number of a feature map, of `count`, from a setting of that name that may count from the last.

    >>> layer_number("layer", -1, 3)
    2
    """
    if not count:
        raise ArgumentError(
            f"{name}={layer}: the network has no rectified feature maps",
            remedy=f"leave {name} out, or use a convolutional network",
        )
    if not -count <= layer < count:
        raise ArgumentError(
            f"{name}={layer}: the network has {count} rectified layers", remedy=f"choose 0 to {count - 1}"
        )
    return layer % count


def receptive_fields(network: Network, shape: tuple[int, ...]) -> list[tuple[MovingInterval, MovingInterval]]:
    """For each feature map which rows and columns of an image its units see."""
    found = summary.receptive_fields(lambda x: feature_maps(network, x), (1, *shape), (1, 2))
    fields = []
    for spans in found:
        assert spans is not None, "feature maps come from the image"
        fields.append((spans[0], spans[1]))
    return fields


def seen_patch(
    image: np.ndarray, field: tuple[MovingInterval, MovingInterval], row: int, column: int, fill: float = 0.5
) -> np.ndarray:
    """The part of an image that one unit sees; beyond its edges, and where all is seen, `fill` and the whole image."""
    ends = []
    for span, size in zip(field, image.shape[:2], strict=True):
        first, last = (0, size - 1) if span.whole else span.at({1: row, 2: column})
        ends.append((0, size - 1) if last - first + 1 >= size else (first, last))
    (top, bottom), (left, right) = ends
    out = np.full((bottom - top + 1, right - left + 1, image.shape[2]), fill, image.dtype)
    rows, columns = (
        slice(max(a, 0), min(b + 1, size)) for (a, b), size in zip(ends, image.shape[:2], strict=True)
    )
    out[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = image[rows, columns]
    return out


def as_tile(image: np.ndarray, *, signed: bool) -> np.ndarray:
    """An image in [0, 1]: from its least to its greatest value, or around grey for values of both signs."""
    if image.shape[-1] not in (1, 3):
        image = image.mean(axis=-1, keepdims=True)
    if signed:
        return image / (2 * max(float(np.abs(image).max()), 1e-12)) + 0.5
    return (image - image.min()) / max(float(np.ptp(image)), 1e-12)


def overlaid(image: np.ndarray, shares: Float[np.ndarray, "rows columns"]) -> np.ndarray:
    """An image in pale grey under a map of its patches in colour: blue from 0 to 1, orange from 0 to -1."""
    height, width = image.shape[:2]
    rows, columns = shares.shape
    by_row, by_column = np.arange(height) * rows // height, np.arange(width) * columns // width
    large = np.clip(shares, -1, 1)[by_row][:, by_column][..., None]
    pale = 0.55 + 0.45 * as_tile(image, signed=False).mean(axis=-1, keepdims=True)
    colour = np.where(large > 0, np.array([0.10, 0.42, 0.72]), np.array([0.77, 0.31, 0.04]))
    return pale * (1 - np.abs(large)) + colour * np.abs(large) * (0.6 + 0.4 * pale)


def strongest(
    maps: Float[Array, "batch height width channels"], channel: int | Int[Array, ""]
) -> tuple[Array, Array]:
    """The largest activity of a channel in every example, and a signal that is this activity there, zero elsewhere."""
    one = maps[..., channel]
    flat = one.reshape(len(one), one.shape[1] * one.shape[2])
    index = flat.argmax(axis=1)
    peak = flat.max(axis=1)
    signal = jax.nn.one_hot(index, flat.shape[1], dtype=maps.dtype) * peak[:, None]
    return peak, jnp.zeros_like(maps).at[..., channel].set(signal.reshape(one.shape))


def _maps(network: Network, rule: str) -> Callable[[Array], list[Array]]:
    def run(x: Array) -> list[Array]:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        _evaluate(program, [x], _RECTIFIERS[rule], found, {})
        return found

    return run


def _evaluate(
    program: Any,
    arguments: Sequence[Any],
    rectify: Callable[[Array], Array],
    found: list[Array],
    shifts: Mapping[int, Array],
) -> list[Any]:
    """Run a program operation by operation with another rectifier; keep what rectifiers give, shifted where asked."""
    jaxpr = program.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = body(equation)
        if inner is not None and label(equation) in _CAPS:
            out = [jnp.minimum(rectify(inputs[0]), _CAPS[label(equation)])]
            if out[0].ndim == 4:
                if len(found) in shifts:
                    out = [out[0] + shifts[len(found)]]
                found.append(out[0])
        elif inner is not None:
            out = _evaluate(closed(inner), inputs, rectify, found, shifts)
        else:
            result = equation.primitive.bind(*inputs, **equation.params)
            out = list(result) if equation.primitive.multiple_results else [result]
        values.update(zip(equation.outvars, out, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _rectifier(rule: str) -> Callable[[Array], Array]:
    @jax.custom_vjp
    def rectify(x: Array) -> Array:
        return jnp.maximum(x, 0)

    def forward(x: Array) -> tuple[Array, Array]:
        return jnp.maximum(x, 0), x > 0

    def backward(positive: Array, signal: Array) -> tuple[Array]:
        passed = jnp.maximum(signal, 0) if rule != "gradient" else signal
        return (passed if rule == "deconvolution" else passed * positive,)

    rectify.defvjp(forward, backward)
    return rectify


_RECTIFIERS = {rule: _rectifier(rule) for rule in RULES}

__all__ = [
    "RULES",
    "Network",
    "as_tile",
    "feature_maps",
    "layer_number",
    "project",
    "receptive_fields",
    "seen_patch",
    "sensitivity",
    "strongest",
]
