"""Feature maps of a network: what its rectifiers, or modules by name, make of images, and signals sent back to them.

Rectifiers are found in the network's program, so that any function of images will do; they are counted in the order of
the call. Modules of a model have names besides (`taps`: "stages.0.0.conv", "stages.0.0.conv.relu").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.derive.jaxprs.equations import body, closed, is_literal, label
from chainrule.explain.methods import taps
from chainrule.explain.methods.equations import applied
from chainrule.models.protocol import HasLogits

Network: TypeAlias = Callable[[Array], Array]
Rectifier: TypeAlias = Callable[[Array], Array]

_CAPS = {"relu": math.inf, "relu6": 6.0}
"""Rectifiers by name, and where they end."""


def feature_maps(network: Network, x: Float[Array, "batch *shape"]) -> list[Array]:
    """What every rectifier of the network gives, where that still has the shape of an image, in order."""
    return rectified_by(network, jax.nn.relu)(x)


def rectified_by(network: Network, rectify: Rectifier) -> Callable[[Array], list[Array]]:
    """From images to the feature maps of the network with another function in the stead of its rectifiers."""

    def run(x: Array) -> list[Array]:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        _evaluate(program, [x], lambda number: rectify, found, {})
        return found

    return run


def climbable(network: Network, layer: int) -> Callable[[Array], Array]:
    """From images to one feature map, whose units have the slope of what they rectify: it leads out of where they rest.

    A unit that rests has no slope of its own, and nothing would ever wake it.

    >>> network = lambda x: jax.nn.relu(x - 1.0)
    >>> jax.grad(lambda x: climbable(network, 0)(x).sum())(jnp.zeros((1, 1, 1, 1))).item()
    1.0
    """

    def run(x: Array) -> Array:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        _evaluate(program, [x], lambda number: _seen_through if number == layer else jax.nn.relu, found, {})
        return found[layer]

    return run


def _seen_through(x: Array) -> Array:
    return x + jax.lax.stop_gradient(jax.nn.relu(x) - x)


def sensitivity(network: Network, layer: int, x: Array, cotangent: Array) -> tuple[Array, Array]:
    """One feature map, and a signal at the outputs of the network sent back to it."""

    def run(shift: Array) -> tuple[Array, Array]:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        out = _evaluate(program, [x], lambda number: jax.nn.relu, found, {layer: shift})
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


def layer_of(model: HasLogits, x: Array, name: str) -> int:
    """The number of the first rectified feature map from a module of this name on.

    >>> import chainrule as cr
    >>> digits = cr.data.load("digits")
    >>> model = cr.models.build("cnn", digits, stages=2, blocks=1, width=4)
    >>> layer_of(model, jnp.zeros((1, 8, 8, 1)), "stages.1.0.conv")
    1
    """
    found = taps.names(model, lambda model: model.logits(x))
    if name not in found:
        raise taps.unknown(name, found)
    after = sum(_is_rectifier(one) for one in found[: found.index(name)])
    count = len(jax.eval_shape(lambda x: feature_maps(model.logits, x), x))
    if after >= count:
        raise ArgumentError(
            f"layer={name!r}: no rectified feature map comes after it",
            remedy="choose a module before positions are pooled: "
            + ", ".join(n for n in found if "." in n)[:200],
        )
    return after


def _is_rectifier(name: str) -> bool:
    return name.rpartition(".")[2].partition("#")[0] in _CAPS


def _evaluate(
    program: Any,
    arguments: Sequence[Any],
    rectify: Callable[[int], Rectifier],
    found: list[Array],
    shifts: Mapping[int, Array],
) -> list[Any]:
    """Run a program operation by operation with other rectifiers, by the number of the feature map that they give.

    What rectifiers give is kept, shifted where that is asked for.
    """
    jaxpr = program.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if is_literal(atom) else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = body(equation)
        if inner is not None and label(equation) in _CAPS:
            out = [jnp.minimum(rectify(len(found))(inputs[0]), _CAPS[label(equation)])]
            if out[0].ndim == 4:
                if len(found) in shifts:
                    out = [out[0] + shifts[len(found)]]
                found.append(out[0])
        elif inner is not None:
            out = _evaluate(closed(inner), inputs, rectify, found, shifts)
        else:
            out = applied(equation, inputs)
        values.update(zip(equation.outvars, out, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


__all__ = [
    "Network",
    "Rectifier",
    "climbable",
    "feature_maps",
    "layer_number",
    "layer_of",
    "rectified_by",
    "sensitivity",
]
